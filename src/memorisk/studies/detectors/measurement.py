"""Distances of every query to its nearest reference, by one measure: the corrected pools and the published ones.

What is written is a file a measure with named arrays, float64 and int64; ``S`` is a strength of augmentation:

=====================================  ================================================================================
``null_POOL``                          [n] images of the pool's null asked among its references
``S_POOL_distance``, ``S_POOL_index``  [n] copies of the pool's references asked among these; row of the nearest
``published_baseline``                 [n] training images asked among all validation images
``published_null_POOL``                [n] images of both nulls asked among all of the train or validation part
``published_S_POOL_score``, ``_index``  [n] copies of the whole part asked among it
``words``                              the fitted measure in words
``refused``, ``published_refused``     why a form is not there, in place of its arrays
=====================================  ================================================================================

Memory is planned before a benchmark runs: what fits side by side, and what does not fit at all. Features and their
parts lie on files without a name (`runs.arrays`), which the system writes out when memory is short, and are
compared in blocks, so that their number of rows takes no memory. What grows is a covariance, with the square of the
columns: of the pixels of 224 x 224 images in colour it would be 181 GB, and with it the process is killed.
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
        name: Of the measure.
        features: [N, d] of all images.
        copies: [n, d] of the copies of ``parts.copied``, by strength.
        parts: The division.
        domain: "shift", "softplus" or "signed": how the corrected form meets signed features where a measure is
            defined for non-negative ones.
        threads: Of the computation.
        device: Where; distances are the same anywhere.

    Returns:
        The arrays of the table above; a form that is not defined for these features says why in its place.
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
    """A measure as METHODS section 3 wants it: fitted once, frozen, its domain met, dice and matching binarised.

    Args:
        name: Of the measure.
        references: [n, d] features of the training images.
        domain: Used where the measure is for non-negative data and a reference is not.

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
    """All images of the train and validation parts, the measure fitted anew in every call."""
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
    """Rows of a table, on a file without a name where they are many, copied a few at a time."""
    table = scratch_array((len(rows), values.shape[1]), values.dtype)
    step = rows_per_block(values.shape[1])
    for first in range(0, len(rows), step):
        table[first : first + step] = values[rows[first : first + step]]
    return table


def _copy_places(parts: Parts, rows: np.ndarray) -> np.ndarray:
    """Places of images among those of which copies were made."""
    return np.searchsorted(parts.copied, rows)


FIXED_BYTES = 768 << 20
"""Bytes of the libraries (400 MiB were measured), of the blocks in which tables are compared (80 MiB at 40,000 columns)
and of the two tables of 128 MiB that SciPy is given at once."""
MATRICES = 7
"""Covariances of float64 that fitting mahalanobis holds at once, with the eigenvectors and their workspace: 6 were
measured."""
JOINTLY_FITTED = ("mahalanobis", "seuclidean")
"""Measures that the published code fits on queries and references together, which are in memory then."""
MEMORY_SHARE = 0.8
"""Of the free memory that is planned with: the rest is other programs', and what they ask for meanwhile."""


@dataclass(frozen=True)
class MemoryPlan:
    """Memory that a benchmark needs, estimated beforehand.

    Attributes:
        free: Bytes that may be taken; None where the system does not tell.
        needed: Bytes of the detector that takes most, by the measures that fit; what a network itself takes for a batch
            of images comes on top.
        on_disk: Bytes of its features on files without a name.
        processes: Detectors side by side: as many as were asked for, or as fit.
        left_out: Measures that do not fit, by detector, and why.
    """

    free: int | None
    needed: int
    on_disk: int
    processes: int
    left_out: dict[str, dict[str, str]]


def measure_bytes(name: str, n_train: int, columns: int) -> int:
    """Estimate the most memory that a measure takes, in bytes.

    Args:
        name: Of the measure.
        n_train: Images of the train part.
        columns: Numbers of a feature.
    """
    together = 8 * n_train * columns if name in JOINTLY_FITTED else 0  # float32, train copies among train images
    return FIXED_BYTES + together + (MATRICES * 8 * columns**2 if name == "mahalanobis" else 0)


def plan_memory(jobs: "Sequence[CellJob]", shape: tuple[int, ...], processes: int, free: int | None) -> MemoryPlan:
    """Plan how many detectors fit side by side, and which measures do not fit at all.

    A measure is left out where even one detector alone has no room for it. Those that remain say how many fit.

    Args:
        jobs: Detectors that are not done.
        shape: [..., H, W, C] of an image as it is stored.
        processes: As many side by side as were asked for.
        free: Bytes; None where the system does not tell: then everything is tried.
    """
    needed, on_disk, left_out = 0, 0, dict[str, dict[str, str]]()
    for job in jobs:
        columns, n_train = columns_of(job, shape), len(job.parts.rows("train"))
        if columns is None:
            needed = max(needed, FIXED_BYTES)
            continue
        for name in job.missing:
            if why := too_large(name, n_train, columns, free):
                left_out.setdefault(job.cell.name, {})[name] = why
            else:
                needed = max(needed, measure_bytes(name, n_train, columns))
        tables = len(job.parts.part) + len(job.parts.copied) * len(job.options.strengths)
        on_disk = max(on_disk, 4 * columns * (tables + 2 * n_train))
    fits = processes if free is None else max(1, int(MEMORY_SHARE * free / max(needed, 1)))
    return MemoryPlan(free, needed, on_disk, min(processes, fits), left_out)


def too_large(name: str, n_train: int, columns: int, free: int | None) -> str:
    """Return why a measure is left out; empty where it fits, or takes no more than any other: that is tried.

    Args:
        name: Of the measure.
        n_train: Images of the train part.
        columns: Numbers of a feature.
        free: Bytes; None where the system does not tell.
    """
    needed = measure_bytes(name, n_train, columns)
    if free is None or needed <= max(MEMORY_SHARE * free, FIXED_BYTES):
        return ""
    return (
        f"{name} of {columns:,} columns needs {gigabytes(needed)} of memory and {gigabytes(free)} are free: give "
        "features of fewer numbers (pixels:32, pca:16), leave it out of the measures, or take a larger machine"
    )


def columns_of(job: "CellJob", shape: tuple[int, ...]) -> int | None:
    """Numbers of a detector's feature; None where only the network itself tells: some thousands, which fit.

    Args:
        job: The detector.
        shape: As `plan_memory`.
    """
    cell = job.cell
    if cell.trained:
        return job.options.training(cell.backbone.text, cell.loss, cell.seed).dimension
    return dimension(cell.backbone.source, shape)


def gigabytes(n: int) -> str:
    """Bytes in words."""
    return f"{n / 2**30:,.1f} GB"
