"""One detector of a benchmark: ``cells/KEY`` holds its results; ``cell.json`` is written last and marks it as done.

``failed.json`` holds the reason why a detector failed until it runs through; the others are finished all the same. In
the benchmark of re-identification a cell leaves the scores of the listed pairs, and the results over all pairs of
the test images. In the benchmark of copies it leaves the scores of augmented copies of the test images and of the
pairs that its thresholds are made from. Copies are made from the seed, one strength at a time, compared and
deleted: no picture is written to the run folder.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from memorisk.images.alterations.families import FAMILIES
from memorisk.images.alterations.graded import augmented
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs
from memorisk.studies.engine.cells import Arrays, CellFolder
from memorisk.studies.pairs.detectors import BenchmarkDetector
from memorisk.studies.pairs.division import KINDS, TEST, TRAINING, VALIDATION, Division, PartPairs, part_pairs
from memorisk.studies.pairs.options import BenchCopiesOptions, Options
from memorisk.studies.pairs.similarity import NO_SEARCH, ImageSimilarity, copies_store, open_similarity
from memorisk.training.features.compute_backend import LOCAL, ComputeBackend


@dataclass(frozen=True, eq=False)
class Cell(CellFolder):
    """A detector with all that its measurement needs."""

    contender: BenchmarkDetector
    """Detector that is measured."""
    out: Path
    """Folder of the run."""
    key: str
    """Key of what decides its scores, but for the division and the seed, which the run folder fixes."""
    store: ImageStore
    """Store of the images."""
    division: Division
    """Division of the patients."""
    options: Options
    """Options of the benchmark."""
    device: str
    """Device of the networks."""
    parts: tuple[str, ...]
    """Names of the results that it leaves."""
    workplace: ComputeBackend = LOCAL
    """Backend that computes features and looks at all pairs."""

    @property
    def name(self) -> str:
        """Name the detector."""
        return self.contender.name

    def judge(self, progress: Progress = no_progress) -> ImageSimilarity:
        """Return the judge that compares images as this detector does."""
        o, reference = self.options, self.division.rows(TRAINING)
        if len(reference) < 2:
            reference = self.division.rows(VALIDATION)
        return open_similarity(
            self.contender, self.store, reference, size=o.network_size, precision=o.precision, device=self.device,
            workplace=self.workplace, progress=progress,
        )  # fmt: skip


SCORES, ALL_PAIRS = "scores", "all_pairs"
REID_PARTS = (SCORES, ALL_PAIRS)
BINS = 60


def reid_pairs(cell: Cell, part: str) -> list[PartPairs]:
    """Return the pairs that every detector of the run scores.

    Args:
        cell: Cell of any detector of the run.
        part: "validation" or "test".
    """
    return part_pairs(cell.division, part, cell.division.names, seed=cell.options.seed)


def run_reid(cell: Cell, judge: ImageSimilarity) -> None:
    """Leave the scores of the listed pairs, and the results over all pairs.

    Raises:
        InputError: Scores are not defined.
    """
    if SCORES in cell.missing:
        cell.write(SCORES, _score_listed_pairs(cell, judge))
    if ALL_PAIRS in cell.missing:
        cell.write(ALL_PAIRS, _search_all_pairs(cell, judge, cell.read(SCORES)))


def _score_listed_pairs(cell: Cell, judge: ImageSimilarity) -> Arrays:
    arrays: Arrays = {}
    for part in (VALIDATION, TEST):
        for some in reid_pairs(cell, part):
            place = cell.division.names.index(some.dataset)
            for kind in KINDS:
                arrays[f"{part}/{place}/{kind}"] = _scores(judge, some.pairs[kind], f"{part} pairs of {some.dataset}")
    return arrays


def _scores(judge: ImageSimilarity, pairs: Pairs, what: str) -> np.ndarray:
    """Score pairs.

    Raises:
        InputError: Some pairs have no score.
    """
    scores = judge.scores(pairs.first, pairs.second)
    if bad := int((~np.isfinite(scores)).sum()):
        raise InputError(f"{bad:,} of {len(scores):,} {what} have no score: their features are zero or constant")
    return scores


def _search_all_pairs(cell: Cell, judge: ImageSimilarity, scores: Arrays) -> Arrays:
    """Find each test image's closest image of another patient, and count pairs by score, for each data set."""
    arrays: Arrays = {"why_not": np.array("")}
    for place, dataset in enumerate(cell.division.names):
        rows = cell.division.rows(TEST, dataset)
        groups = cell.division.groups[rows].astype(str)
        closest = judge.closest(rows, groups)
        if closest is None:
            return {"why_not": np.array(NO_SEARCH)}
        arrays[f"{place}/closest"] = closest
        same, other = (scores.get(f"test/{place}/{kind}", np.empty(0)) for kind in KINDS[:2])
        if not len(same):
            continue
        low = min(float(same.min()), float(np.quantile(other, 0.001)))
        high = max(float(same.max()), float(closest[np.isfinite(closest)].max(initial=-np.inf)))
        edges = np.linspace(low, np.nextafter(high, np.inf) if high > low else low + 1, BINS + 1)
        counts = judge.histogram(rows, groups, edges)
        assert counts is not None  # what has a closest image has a histogram
        total = (len(rows) ** 2 - int(np.square(np.unique(groups, return_counts=True)[1]).sum())) // 2
        arrays |= {
            f"{place}/edges": edges,
            f"{place}/different": counts,
            f"{place}/same": np.histogram(same, edges)[0],
            f"{place}/n_different": np.array(total),
        }
    return arrays


PAIRS = "pairs"
NEGATIVES = 4096
"""Number of pairs of two patients of each part and data set: shares of them are known to 0.8 percentage points."""
_AT_ONCE = 1 << 28  # bytes of copies in memory
_STREAM = {VALIDATION: 1, TEST: 2}


@dataclass(frozen=True, eq=False)
class CopyPairs:
    """Pairs of one part of one data set that thresholds are made from, or judged on."""

    negative: Pairs
    """Pairs of two patients: a random image of a random patient, and a random image of a random other patient."""
    positive: Pairs
    """Pairs of one patient, all of them; empty where no patient has two images."""
    weight: np.ndarray
    """Weights of the positive pairs, [P]: 1 / pairs of the patient."""


def copies_parts(options: BenchCopiesOptions) -> tuple[str, ...]:
    """List the results that a cell writes."""
    return (PAIRS, *options.chosen_families())


def sampled_rows(cell: Cell, dataset: str) -> np.ndarray:
    """Return the rows of the test images of a data set that copies are made of, in their order.

    Args:
        cell: Cell of any detector of the run.
        dataset: Name of the data set.
    """
    options = cast(BenchCopiesOptions, cell.options)
    rows = cell.division.rows(TEST, dataset)
    if not options.test_images or options.test_images >= len(rows):
        return rows
    rng = np.random.default_rng([options.seed, cell.division.names.index(dataset)])
    return np.sort(rng.choice(rows, options.test_images, replace=False))


def copy_pairs(cell: Cell, part: str) -> dict[str, CopyPairs]:
    """Return the pairs of a part by data set; a data set with fewer than two patients there has none.

    Args:
        cell: Cell of any detector of the run.
        part: "validation" or "test".
    """
    d, seed = cell.division, cell.options.seed
    positive = {p.dataset: p for p in part_pairs(d, part, d.names, seed=seed)}
    pairs = {}
    for place, dataset in enumerate(d.names):
        rows = d.rows(part, dataset)
        groups = d.groups[rows].astype(str)
        if len(np.unique(groups)) < 2:
            continue
        draw = int(np.random.SeedSequence([seed, place, _STREAM[part]]).generate_state(1)[0])
        drawn = negative_pairs(groups, NEGATIVES, seed=draw)
        none = np.empty(0, dtype=np.intp)
        own = positive.get(dataset)
        pairs[dataset] = CopyPairs(
            Pairs(rows[drawn.first], rows[drawn.second]),
            own.pairs["positive"] if own else Pairs(none, none),
            own.weight if own else np.empty(0),
        )
    return pairs


def run_copies(cell: Cell, judge: ImageSimilarity) -> None:
    """Leave the scores of the pairs and of the copies of every family that is missing.

    Raises:
        InputError: A pair has no score.
    """
    if PAIRS in cell.missing:
        cell.write(PAIRS, _pairs(cell, judge))
    for family in FAMILIES:
        if family in cell.missing:
            cell.write(family, _family(cell, judge, family))


def _pairs(cell: Cell, judge: ImageSimilarity) -> Arrays:
    arrays: Arrays = {}
    for part in (VALIDATION, TEST):
        for dataset, pairs in copy_pairs(cell, part).items():
            for kind in ("negative", "positive"):
                scores = _scores(judge, getattr(pairs, kind), f"{part} pairs of {dataset}")
                arrays[f"{part}/{cell.division.names.index(dataset)}/{kind}"] = scores
    return arrays


def _family(cell: Cell, judge: ImageSimilarity, family: str) -> Arrays:
    """Return scores of copies with their sources, [strengths, n] for each data set; NaN where a copy has none."""
    arrays: Arrays = {"strengths": np.array(FAMILIES[family])}
    images = cell.store.images
    for place, dataset in enumerate(cell.division.names):
        rows = sampled_rows(cell, dataset)
        step = max(1, _AT_ONCE // (int(np.prod(images.shape[1:])) * images.dtype.itemsize))
        scores = np.empty((len(FAMILIES[family]), len(rows)))
        for i, strength in enumerate(FAMILIES[family]):
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                images_made = augmented(images, some, family, strength, seed=cell.options.seed)
                store = copies_store(cell.store, images_made, some, [hash_pixels(image) for image in images_made])
                scores[i, start : start + len(some)] = judge.copies(store, some)
        arrays[f"{place}"] = scores
    return arrays
