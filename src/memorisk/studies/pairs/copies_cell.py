"""What one detector makes of augmented copies of the test images, and of the pairs that its thresholds are made from.

Copies are made from the seed, a strength at a time, compared and forgotten: no picture is written to the run folder.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np

from memorisk.images.decoding.decoding import hash_pixels
from memorisk.runs.errors import InputError
from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.judges import Judge, copies_store
from memorisk.studies.pairs.options import BenchCopiesOptions
from memorisk.studies.pairs.pairing import part_pairs
from memorisk.studies.unique_features.results import Arrays
from memorisk.training.detectors.lcmem.augmentations import FAMILIES, augmented

PAIRS = "pairs"
NEGATIVES = 4096
"""Pairs of two patients of each part and data set: shares of them are known to 0.8 percentage points."""
_AT_ONCE = 1 << 28  # bytes of copies in memory
_STREAM = {VALIDATION: 1, TEST: 2}


@dataclass(frozen=True, eq=False)
class CopyPairs:
    """The pairs of one part of one data set that thresholds are made from, or judged on."""

    negative: Pairs
    """Of two patients: a random image of a random patient, and of a random other one."""
    positive: Pairs
    """Of one patient: all; empty where no patient has two images."""
    weight: np.ndarray
    """[P] of the positive pairs: 1 / pairs of the patient."""


def copies_parts(options: BenchCopiesOptions) -> tuple[str, ...]:
    """Results that a cell leaves."""
    return (PAIRS, *options.chosen_families())


def sampled_rows(cell: Cell, dataset: str) -> np.ndarray:
    """Rows of the test images of a data set that copies are made of, in their order.

    Args:
        cell: Any detector of the run.
        dataset: Its name.
    """
    options = cast(BenchCopiesOptions, cell.options)
    rows = cell.division.rows(TEST, dataset)
    if not options.test_images or options.test_images >= len(rows):
        return rows
    rng = np.random.default_rng([options.seed, cell.division.names.index(dataset)])
    return np.sort(rng.choice(rows, options.test_images, replace=False))


def copy_pairs(cell: Cell, part: str) -> dict[str, CopyPairs]:
    """The pairs of a part by data set; a data set with fewer than two patients there has none.

    Args:
        cell: Any detector of the run.
        part: "validation" or "test".
    """
    d, seed = cell.division, cell.options.seed
    positive = {p.dataset: p for p in part_pairs(d, part, d.names, seed=seed)}
    found = {}
    for place, dataset in enumerate(d.names):
        rows = d.rows(part, dataset)
        groups = d.groups[rows].astype(str)
        if len(np.unique(groups)) < 2:
            continue
        draw = int(np.random.SeedSequence([seed, place, _STREAM[part]]).generate_state(1)[0])
        drawn = negative_pairs(groups, NEGATIVES, seed=draw)
        none = np.empty(0, dtype=np.intp)
        own = positive.get(dataset)
        found[dataset] = CopyPairs(
            Pairs(rows[drawn.first], rows[drawn.second]),
            own.pairs["positive"] if own else Pairs(none, none),
            own.weight if own else np.empty(0),
        )
    return found


def run_copies(cell: Cell, judge: Judge) -> None:
    """Leave the scores of the pairs and of the copies of every family that is missing.

    Raises:
        InputError: Pairs without a score.
    """
    if PAIRS in cell.missing:
        cell.write(PAIRS, _pairs(cell, judge))
    for family in FAMILIES:
        if family in cell.missing:
            cell.write(family, _family(cell, judge, family))


def _pairs(cell: Cell, judge: Judge) -> Arrays:
    found: Arrays = {}
    for part in (VALIDATION, TEST):
        for dataset, pairs in copy_pairs(cell, part).items():
            for kind in ("negative", "positive"):
                some = cast(Pairs, getattr(pairs, kind))
                scores = judge.scores(some.first, some.second)
                if not np.isfinite(scores).all():
                    raise InputError(f"{part} pairs of {dataset} have no score: their features are zero or constant")
                found[f"{part}/{cell.division.names.index(dataset)}/{kind}"] = scores
    return found


def _family(cell: Cell, judge: Judge, family: str) -> Arrays:
    """[strengths, n] scores of copies with their sources, a data set each; NaN where a copy has none."""
    found: Arrays = {"strengths": np.array(FAMILIES[family])}
    images = cell.store.images
    for place, dataset in enumerate(cell.division.names):
        rows = sampled_rows(cell, dataset)
        step = max(1, _AT_ONCE // (int(np.prod(images.shape[1:])) * images.dtype.itemsize))
        scores = np.empty((len(FAMILIES[family]), len(rows)))
        for i, strength in enumerate(FAMILIES[family]):
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                made = augmented(images, some, family, strength, seed=cell.options.seed)
                store = copies_store(cell.store, made, some, [hash_pixels(image) for image in made])
                scores[i, start : start + len(some)] = judge.copies(store, some)
        found[f"{place}"] = scores
    return found
