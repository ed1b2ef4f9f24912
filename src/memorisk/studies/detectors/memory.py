"""The memory of a benchmark of detectors, planned before it runs: what fits side by side, and what does not fit at all.

Features and their parts lie on files without a name (`runs.scratch`), which the system writes out when memory is short,
and are compared in blocks, so that their number of rows takes no memory. What grows is a covariance, with the square of
the columns: of the pixels of 224 x 224 images in colour it would be 181 GB, and with it the process is killed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memorisk.training.features.cost import dimension

if TYPE_CHECKING:  # it asks here whether a measure fits
    from memorisk.studies.detectors.cells import CellJob

BLOCKS = 768 << 20
"""Bytes of the libraries (400 MiB were measured), of the blocks in which tables are compared (80 MiB at 40,000 columns)
and of the two tables of 128 MiB that SciPy is given at once."""
MATRICES = 7
"""Covariances of float64 that fitting mahalanobis holds at once, with the eigenvectors and their workspace: 6 were
measured."""
TOGETHER = ("mahalanobis", "seuclidean")
"""Measures that the published code fits on queries and references together, which are in memory then."""
ROOM = 0.8
"""Of the free memory that is planned with: the rest is other programs', and what they ask for meanwhile."""


@dataclass(frozen=True)
class MemoryPlan:
    """What is known of a benchmark's memory beforehand.

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
    """What a measure takes at most, in bytes.

    Args:
        name: Of the measure.
        n_train: Images of the train part.
        columns: Numbers of a feature.
    """
    together = 8 * n_train * columns if name in TOGETHER else 0  # float32, train copies among train images
    return BLOCKS + together + (MATRICES * 8 * columns**2 if name == "mahalanobis" else 0)


def plan_memory(jobs: "Sequence[CellJob]", shape: tuple[int, ...], processes: int, free: int | None) -> MemoryPlan:
    """How many detectors fit side by side, and which measures do not fit at all.

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
            needed = max(needed, BLOCKS)
            continue
        for name in job.missing:
            if why := too_large(name, n_train, columns, free):
                left_out.setdefault(job.cell.name, {})[name] = why
            else:
                needed = max(needed, measure_bytes(name, n_train, columns))
        tables = len(job.parts.part) + len(job.parts.copied) * len(job.options.strengths)
        on_disk = max(on_disk, 4 * columns * (tables + 2 * n_train))
    fits = processes if free is None else max(1, int(ROOM * free / max(needed, 1)))
    return MemoryPlan(free, needed, on_disk, min(processes, fits), left_out)


def too_large(name: str, n_train: int, columns: int, free: int | None) -> str:
    """Why a measure is left out; empty where it fits, or takes no more than any other: that is tried.

    Args:
        name: Of the measure.
        n_train: Images of the train part.
        columns: Numbers of a feature.
        free: Bytes; None where the system does not tell.
    """
    needed = measure_bytes(name, n_train, columns)
    if free is None or needed <= max(ROOM * free, BLOCKS):
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
