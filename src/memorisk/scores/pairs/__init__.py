"""The head of a Siamese detector over all pairs, exactly: logits, pairs above a threshold, most similar, histograms."""

from memorisk.scores.pairs.answers import Job, Pairs, Survey, Top, Work, jobs, merge
from memorisk.scores.pairs.head import Head, check_head
from memorisk.scores.pairs.one_pass import survey
from memorisk.scores.pairs.uses import above, histogram, rowwise, score, top

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
