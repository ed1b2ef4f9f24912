"""Distances between embeddings: the 14 measures of paper 003, exact nearest neighbours, exact histograms."""

from memorisk.scores.distances.fitted import FittedMeasure
from memorisk.scores.distances.fitting import fit_measure
from memorisk.scores.distances.histograms import histogram
from memorisk.scores.distances.neighbours import Neighbours, nearest
from memorisk.scores.distances.pairs import pairwise, rowwise
from memorisk.scores.distances.planted import finds_copies
from memorisk.scores.distances.registry import MEASURES, Measure, find_measure

__all__ = [
    "MEASURES",
    "FittedMeasure",
    "Measure",
    "Neighbours",
    "find_measure",
    "finds_copies",
    "fit_measure",
    "histogram",
    "nearest",
    "pairwise",
    "rowwise",
]
