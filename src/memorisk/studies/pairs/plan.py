"""Preparation of both benchmarks: read images and detectors, divide patients, plan the cells.

The cost of a detector counts passes, features, listed pairs and searches over all pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from memorisk.images.alterations.families import FAMILIES
from memorisk.images.store import ImageStore
from memorisk.runs.environment import check_device
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Cost, Progress, total
from memorisk.studies.engine.runner import missing_cells
from memorisk.studies.engine.study import open_images
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
from memorisk.studies.pairs.detectors import BenchmarkDetector, read_detectors, reference_name
from memorisk.studies.pairs.division import KINDS, TEST, VALIDATION, Division, divide
from memorisk.studies.pairs.options import BenchCopiesOptions, Options
from memorisk.studies.pairs.similarity import MOST_PIXELS
from memorisk.training.features.extraction import features_cost, passes_per_image


@dataclass(frozen=True, eq=False)
class BenchmarkSetup:
    """A benchmark before anything is computed."""

    images: str | Path
    """Source of the images, as the user named it."""
    out: Path
    """Folder of the run."""
    options: Options
    """Options of the benchmark."""
    store: ImageStore
    """Store of the images."""
    contenders: list[BenchmarkDetector]
    """Detectors of the benchmark."""
    missing: dict[str, str]
    """Baselines of the paper that are not at hand, and what to give to have them."""
    division: Division
    """Division of the patients."""
    cells: list[Cell]
    """Cells of the run, one per detector."""

    @property
    def reference(self) -> str:
        """Return the name of the detector that all others are compared with."""
        return reference_name(self.options, self.contenders)

    @property
    def division_hash(self) -> str:
        """Return the hash of the division of patients."""
        d = self.division
        return fingerprint([d.part.tolist(), d.groups.tolist(), d.datasets.tolist()], length=16)


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


def prepare(
    images: str | Path, out: Path, options: Options, parts: tuple[str, ...], progress: Progress
) -> BenchmarkSetup:
    """Read everything; write only the store of decoded images.

    Args:
        images: Images, as for `memorisk.audit_classifier`.
        out: Folder of the run.
        options: Options of the benchmark.
        parts: Names of the results that each cell leaves.
        progress: Function that is called with (stage, done, total).

    Raises:
        InputError: The folder, a detector, the images or their split are refused.
    """
    device = str(check_device(options.device))
    progress("reading the detectors", 0, 0)
    contenders, missing = read_detectors(options)
    store = open_images(images, out, options, progress)
    division = divide(store, contenders, options)
    cells = [Cell(c, out, c.key(options, device), store, division, options, device, parts) for c in contenders]
    return BenchmarkSetup(images, out, options, store, contenders, missing, division, cells)


def plan_of(ready: BenchmarkSetup, cost: Callable[[Cell], Cost]) -> PairBenchPlan:
    """Plan a prepared benchmark.

    Args:
        ready: Benchmark before anything is computed.
        cost: Function that estimates the cost of a detector that is not done.
    """
    d = ready.division
    return PairBenchPlan(
        cells={cell.name: cell.done for cell in ready.cells},
        missing=ready.missing,
        images={name: {part: len(d.rows(part, name)) for part in (VALIDATION, TEST)} for name in d.names},
        patients={name: {part: d.patients(part, name) for part in (VALIDATION, TEST)} for name in d.names},
        cost=total([cost(cell) for cell in missing_cells(ready.cells)]) + Cost(bytes_images=ready.store.images.nbytes),
        notes=d.notes,
    )


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
