"""Preparation of both benchmarks: read images and detectors, divide patients, plan the cells.

The cost of a detector counts passes, features, listed pairs and searches over all pairs.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np

from memorisk.images.alterations.families import FAMILIES
from memorisk.runs.workload import Cost
from memorisk.studies.pairs.cells import (
    ALL_PAIRS,
    PAIRS,
    SCORES,
    Cell,
    copies_parts,
    copy_pairs,
    reid_pairs,
    sampled_rows,
)
from memorisk.studies.pairs.division import KINDS, TEST, VALIDATION
from memorisk.studies.pairs.options import BenchCopiesOptions
from memorisk.studies.pairs.similarity import MOST_PIXELS
from memorisk.training.features.extraction import features_cost, passes_per_image


@dataclass(frozen=True)
class PairBenchPlan:
    """Plan of a benchmark."""

    cells: dict[str, bool]
    """Names of the detectors, and whether each is there already."""
    missing: dict[str, str]
    """Baselines of the paper that are not at hand, and what to give to have them."""
    images: dict[str, dict[str, int]]
    """Numbers of images by part, for each data set."""
    patients: dict[str, dict[str, int]]
    """Numbers of patients by part, for each data set."""
    cost: Cost
    """Cost of the detectors that are not done: images and copies to embed, pairs to list or search."""
    notes: tuple[str, ...]
    """Notes on the division."""

    @property
    def problems(self) -> dict[str, str]:
        """Return why detectors would fail: none is known beforehand."""
        return {}


def reid_cost(cell: Cell) -> Cost:
    """Estimate the cost of a detector's missing results in the benchmark of re-identification.

    Args:
        cell: Cell of the detector.

    Returns:
        Cost of its features; of the listed pairs; for each data set of n^2 pairs for the closest image of another
        patient,
        and for the histogram of n^2 pairs by a measure, n (n - 1) / 2 by a head.
    """
    parts = {part: reid_pairs(cell, part) for part in (VALIDATION, TEST)}
    pairs = 0
    if SCORES in cell.missing:
        pairs += sum(len(KINDS) * len(some.weight) for listed in parts.values() for some in listed)
    if ALL_PAIRS in cell.missing:
        pairs += _searched_pairs(cell, {some.dataset for some in parts[TEST]})
    return _features(cell) + Cost(pairs=pairs)


def copies_cost(cell: Cell) -> Cost:
    """Estimate the cost of a detector's missing results in the benchmark of copies.

    Copies with the same pixels are embedded once, so that passes are a bound.

    Args:
        cell: Cell of the detector.
    """
    d, options = cell.division, cast(BenchCopiesOptions, cell.options)
    copied = sum(len(sampled_rows(cell, name)) for name in d.names)
    n_copies = copied * sum(
        len(FAMILIES[name]) for name in copies_parts(options) if name in set(cell.missing) - {PAIRS}
    )
    pairs = n_copies
    if PAIRS in cell.missing:
        both = [some for part in (VALIDATION, TEST) for some in copy_pairs(cell, part).values()]
        pairs += sum(len(some.negative) + len(some.positive) for some in both)
    passed = 0 if cell.contender.detector is None else n_copies * passes_per_image(cell.contender.detector.source)
    return _features(cell) + Cost(images_passed=passed, pairs=pairs, at_most=("images_passed",) if passed else ())


def _searched_pairs(cell: Cell, known: set[str]) -> int:
    """Count pairs of one against all in the data sets' test images; ``known`` are sets with two images of a patient."""
    pairs, contender = 0, cell.contender
    for name in cell.division.names:
        n = len(cell.division.rows(TEST, name))
        if contender.pixel is not None:
            d = int(np.prod(cell.store.images.shape[1:]))
            if contender.pixel == "ssim" or n * d > MOST_PIXELS:
                return pairs
        pairs += n * n
        if name in known:
            pairs += n * (n - 1) // 2 if contender.has_head else n * n
    return pairs


def _features(cell: Cell) -> Cost:
    """Estimate the cost of the features of all images, once."""
    detector = cell.contender.detector
    if detector is None:
        return Cost()
    return features_cost(detector.source, [cell.store.pixel_hashes], cell.store.images.shape, detector.detector)
