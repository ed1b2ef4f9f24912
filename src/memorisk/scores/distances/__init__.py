"""Distances between embeddings: 14 of paper 003 and ``whitened``, exact nearest neighbours, exact histograms.

Start with `measures` and `neighbours`. `definitions` computes every reported distance; `bounds` proves what
`kernels` and `gpu` may leave out. `published_code` repeats paper 003's code with its defects.
"""

from memorisk.scores.distances.fit import fit_measure
from memorisk.scores.distances.measures import (
    MEASURES,
    PAPER_MEASURES,
    FittedMeasure,
    Measure,
    find_measure,
    pairwise,
    rowwise,
)
from memorisk.scores.distances.neighbours import Neighbours, histogram, nearest

__all__ = [
    "MEASURES",
    "PAPER_MEASURES",
    "FittedMeasure",
    "Measure",
    "Neighbours",
    "find_measure",
    "fit_measure",
    "histogram",
    "nearest",
    "pairwise",
    "rowwise",
]
