"""The head of a Siamese detector over all pairs, exactly: logits, pairs above a threshold, histograms.

Start with `search` and `queries`. `quantization` defines the head and bounds its whole numbers, `scans` evaluate it
by definition, `kernels` and `gpu` are fast sums.
"""

from memorisk.scores.pairs.quantization import Head, check_head
from memorisk.scores.pairs.queries import Job, Pairs, Survey, Top, Work, jobs, merge
from memorisk.scores.pairs.search import above, histogram, rowwise, score, survey, top

__all__ = [
    "Head",
    "Job",
    "Pairs",
    "Survey",
    "Top",
    "Work",
    "above",
    "check_head",
    "histogram",
    "jobs",
    "merge",
    "rowwise",
    "score",
    "survey",
    "top",
]
