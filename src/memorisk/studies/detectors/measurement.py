"""Distances of every query to its nearest reference, by one measure: the corrected pools and the published ones.

Each measure has one file with named arrays, float64 and int64; ``S`` is a strength of augmentation:

=====================================  ================================================================================
``null_POOL``                          [n] images of the pool's null, searched among its references
``S_POOL_distance``, ``S_POOL_index``  [n] copies of the pool's references, searched among these; row of the nearest
``published_baseline``                 [n] training images, searched among all validation images
``published_null_POOL``                [n] images of both nulls, searched among the train or validation part
``published_S_POOL_score``, ``_index``  [n] copies of the whole part, searched among it
``words``                              the fitted measure in words
``refused``, ``published_refused``     reason why a form is not there, in place of its arrays
=====================================  ================================================================================

Memory is planned before a benchmark runs: what fits at the same time, and what does not fit at all. Features and their
parts are in files without a name (`runs.arrays`), which the system writes out when memory is short, and are compared
in blocks, so that their number of rows takes no memory. A covariance grows with the square of the columns: for the
pixels of 224 x 224 images in colour it would be 181 GB, and the process would be killed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memorisk.runs.arrays import scratch_array
from memorisk.runs.errors import InputError
from memorisk.scores.distances import FittedMeasure, fit_measure, nearest
from memorisk.scores.distances.measures import BINARY, POSITIVE
from memorisk.scores.distances.published_code import published_neighbours
from memorisk.scores.distances.rows import rows_per_block
from memorisk.studies.detectors.pools import NULLS, POOLS, Parts
from memorisk.studies.engine.cells import Arrays
from memorisk.training.features.extraction import dimension

if TYPE_CHECKING:
    from memorisk.studies.detectors.cells import CellJob

PUBLISHED_POOLS = ("train", "validation")


def measure_pools(
    name: str,
    features: np.ndarray,
    copies: Mapping[str, np.ndarray],
    parts: Parts,
    *,
    domain: str,
    threads: int,
    device: str = "cpu",
) -> Arrays:
    """Compute all distances by one measure.

    Args:
        name: Name of the measure.
        features: Features of all images, [N, d].
        copies: Features of the copies of ``parts.copied``, [n, d], by strength.
        parts: Division of the images.
        domain: Treatment of signed features in the corrected form where a measure is for non-negative ones: "shift",
            "softplus" or "signed".
        threads: Threads of the computation.
        device: Device that computes; distances are the same anywhere.

    Returns:
        Arrays of the table above; a form that is not defined for these features has its reason in their place.
    """
    how: dict[str, Any] = {"threads": threads, "device": device}
    try:
        measure = fit_corrected(name, take_rows(features, parts.rows("train")), domain=domain)
        arrays = _corrected(measure, features, copies, parts, how) | {"words": np.array(measure.plain_words)}
    except InputError as error:
        arrays = {"refused": np.array(str(error))}
    try:
        arrays |= _published(name, features, copies, parts, how)
    except InputError as error:
        arrays["published_refused"] = np.array(str(error))
    return arrays


def fit_corrected(name: str, references: np.ndarray, *, domain: str) -> FittedMeasure:
    """Fit a measure as METHODS section 3 requires: fitted once, frozen, its domain met, dice and matching binarised.

    Args:
        name: Name of the measure.
        references: Features of the training images, [n, d].
        domain: Treatment of negative values where the measure is for non-negative data and a reference has some.

    Raises:
        InputError: The measure does not take the references.
    """
    signed = name in POSITIVE and bool((np.asarray(references) < 0).any())
    return fit_measure(
        name, references, domain=domain if signed else None, binarise="median" if name in BINARY else None
    )


def _corrected(
    measure: FittedMeasure, features: np.ndarray, copies: Mapping[str, np.ndarray], parts: Parts, how: dict[str, Any]
) -> Arrays:
    """Compare the same number of references in each pool, each with its own null, by one frozen measure."""
    arrays: Arrays = {}
    for pool in POOLS:
        rows = parts.pools[pool]
        references = take_rows(features, rows)
        null = nearest(take_rows(features, parts.rows(NULLS[pool])), references, measure, **how)
        arrays[f"null_{pool}"] = null.distances[:, 0]
        for strength, values in copies.items():
            neighbours = nearest(take_rows(values, _copy_places(parts, rows)), references, measure, **how)
            arrays[f"{strength}_{pool}_distance"] = neighbours.distances[:, 0]
            arrays[f"{strength}_{pool}_index"] = rows[neighbours.indices[:, 0]]
    return arrays


def _published(
    name: str, features: np.ndarray, copies: Mapping[str, np.ndarray], parts: Parts, how: dict[str, Any]
) -> Arrays:
    """Compare all images of the train and validation parts, the measure fitted anew in every call."""
    arrays: Arrays = {}
    rows = {pool: parts.rows(pool) for pool in PUBLISHED_POOLS}
    null = take_rows(features, parts.rows("null", "test_null"))
    both = [take_rows(features, rows[pool]) for pool in ("train", "validation")]
    neighbours = published_neighbours(name, *both, **how)
    arrays["published_baseline"] = neighbours.scores
    for pool in PUBLISHED_POOLS:
        references = take_rows(features, rows[pool])
        arrays[f"published_null_{pool}"] = published_neighbours(name, null, references, **how).scores
        for strength, values in copies.items():
            neighbours = published_neighbours(
                name, take_rows(values, _copy_places(parts, rows[pool])), references, **how
            )
            arrays[f"published_{strength}_{pool}_score"] = neighbours.scores
            arrays[f"published_{strength}_{pool}_index"] = rows[pool][neighbours.indices]
    return arrays


def take_rows(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows of a table, in a file without a name where they are many, copied a few at a time."""
    table = scratch_array((len(rows), values.shape[1]), values.dtype)
    step = rows_per_block(values.shape[1])
    for first in range(0, len(rows), step):
        table[first : first + step] = values[rows[first : first + step]]
    return table


def _copy_places(parts: Parts, rows: np.ndarray) -> np.ndarray:
    """Return the places of images among those of which copies were made."""
    return np.searchsorted(parts.copied, rows)


FIXED_BYTES = 768 << 20
"""Bytes of the libraries (400 MiB were measured), of the blocks in which tables are compared (80 MiB at 40,000 columns)
and of the two tables of 128 MiB that SciPy is given at once."""
MATRICES = 7
"""Number of covariances of float64 that fitting mahalanobis holds at once, with the eigenvectors and their workspace: 6
were measured."""
JOINTLY_FITTED = ("mahalanobis", "seuclidean")
"""Measures that the published code fits on queries and references together, which are in memory then."""
MEMORY_SHARE = 0.8
"""Share of the free memory that is planned with; the rest is for other programs and their later requests."""


@dataclass(frozen=True)
class MemoryPlan:
    """Memory that a benchmark needs, estimated beforehand.

    Attributes:
        free: Number of bytes that may be taken; None where the system does not report it.
        needed: Number of bytes of the detector that takes most, by the measures that fit; a network itself takes
            further memory for a batch of images.
        on_disk: Number of bytes of its features in files without a name.
        processes: Number of detectors at the same time: as many as the options require, or as fit.
        left_out: Measures that do not fit, by detector, and the reasons.
    """

    free: int | None
    needed: int
    on_disk: int
    processes: int
    left_out: dict[str, dict[str, str]]


def measure_bytes(name: str, n_train: int, columns: int) -> int:
    """Estimate the most memory that a measure takes, in bytes.

    Args:
        name: Name of the measure.
        n_train: Number of images in the train part.
        columns: Number of columns of a feature.
    """
    together = 8 * n_train * columns if name in JOINTLY_FITTED else 0  # float32, train copies among train images
    return FIXED_BYTES + together + (MATRICES * 8 * columns**2 if name == "mahalanobis" else 0)


def plan_memory(jobs: "Sequence[CellJob]", shape: tuple[int, ...], processes: int, free: int | None) -> MemoryPlan:
    """Plan how many detectors fit at the same time, and which measures do not fit at all.

    A measure is left out where even one detector alone has no room for it. The remaining measures decide how many fit.

    Args:
        jobs: Jobs that are not done.
        shape: Shape of the stored images, [..., H, W, C].
        processes: Requested number of detectors at the same time.
        free: Number of free bytes; None where the system does not report it: then everything is tried.
    """
    needed, on_disk, left_out = 0, 0, dict[str, dict[str, str]]()
    for job in jobs:
        columns, n_train = columns_of(job, shape), len(job.division.rows("train"))
        if columns is None:
            needed = max(needed, FIXED_BYTES)
            continue
        for name in job.missing:
            if why := too_large(name, n_train, columns, free):
                left_out.setdefault(job.cell.name, {})[name] = why
            else:
                needed = max(needed, measure_bytes(name, n_train, columns))
        tables = len(job.division.part) + len(job.division.copied) * len(job.options.strengths)
        on_disk = max(on_disk, 4 * columns * (tables + 2 * n_train))
    fits = processes if free is None else max(1, int(MEMORY_SHARE * free / max(needed, 1)))
    return MemoryPlan(free, needed, on_disk, min(processes, fits), left_out)


def too_large(name: str, n_train: int, columns: int, free: int | None) -> str:
    """Return why a measure is left out; empty where it fits, or takes as little as any other and is tried.

    Args:
        name: Name of the measure.
        n_train: Number of images in the train part.
        columns: Number of columns of a feature.
        free: Number of free bytes; None where the system does not report it.
    """
    needed = measure_bytes(name, n_train, columns)
    if free is None or needed <= max(MEMORY_SHARE * free, FIXED_BYTES):
        return ""
    return (
        f"{name} of {columns:,} columns needs {gigabytes(needed)} of memory and {gigabytes(free)} are free: give "
        "features of fewer numbers (pixels:32, pca:16), leave it out of the measures, or take a larger machine"
    )


def columns_of(job: "CellJob", shape: tuple[int, ...]) -> int | None:
    """Return the number of columns of a detector's feature.

    It is None where only the network knows it: some thousands, which fit.

    Args:
        job: Job of the detector.
        shape: Shape of the stored images, as for `plan_memory`.
    """
    cell = job.cell
    if cell.trained:
        return job.options.training(cell.backbone.text, cell.loss, cell.seed).dimension
    return dimension(cell.backbone.source, shape)


def gigabytes(n: int) -> str:
    """Format a number of bytes in words."""
    return f"{n / 2**30:,.1f} GB"
