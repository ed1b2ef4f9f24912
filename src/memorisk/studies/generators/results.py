"""Table of the measurements of every generator: one row per snapshot and detector.

Nothing is trained or drawn here; all statistics come from the distances that the cells left. Figures of quality
(A.5 of paper 003) come from the rows that `audits.quality` makes. Several seeds are one row: the mean, with an
interval that covers both the seeds and the units of each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy

from memorisk.report.columns import column_numbers
from memorisk.runs.files import read_table
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.memorized_share import MemorizedShare, memorized_share
from memorisk.statistics.copies.reversed_queries import ReversedQueries, nearness, reversed_queries
from memorisk.statistics.exchangeability.image_numbers import image_counts
from memorisk.studies.engine.cells import Arrays, read_result
from memorisk.studies.engine.rows import limits, rows_of
from memorisk.studies.generators.plan import Cell

DISTANCE_FLOOR = 1e-3
"""Least distance as a part of the held-out patients' median; shorter ones count as this, since 0 has no logarithm."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One reading of a generator by one detector.

    Attributes:
        cell: Generator that was measured.
        step: Number of training steps before the reading.
        number: Number of the detector, in the study's order.
        detector: Name of the detector.
        arrays: Distances of the reading by name.
        share: Share of training patients nearer to the set than new ones.
        queries: Rank of each training patient among held-out ones.
        counted: Note where patients of the two parts have different numbers of images; else empty.
    """

    cell: Cell
    step: int
    number: int
    detector: str
    arrays: Mapping[str, np.ndarray]
    share: MemorizedShare
    queries: ReversedQueries
    counted: str = ""

    @property
    def last(self) -> bool:
        """Return whether its training had ended."""
        return self.step == self.cell.arm.snapshots[-1]

    @property
    def held_groups(self) -> np.ndarray:
        """Return the patients of the held-out images, [m]."""
        return self.cell.data.groups[self.cell.data.held_out].astype(str)

    @property
    def patient_copies(self) -> np.ndarray:
        """Return how often each training patient's images occurred in the training, [U]."""
        return group_values(self.cell.training.copies.astype(float), self.cell.training.groups).astype(int)

    @property
    def nearness(self) -> np.ndarray:
        """Return minus the logarithm of each training patient's distance, [U]; 0 at the held-out patients' median."""
        held = float(np.median(group_values(self.arrays["held_distance"], self.held_groups)))
        if held <= 0:  # logits, or a set that holds the held-out images: no distance to divide by
            return -self.queries.distance
        return -np.log(np.maximum(self.queries.distance / held, DISTANCE_FLOOR))

    @property
    def flagged(self) -> np.ndarray:
        """Return whether each training patient is nearer than the nominal rate allows of new ones, [U]."""
        return np.isin(self.queries.unit, self.share.flagged)


@dataclass(frozen=True, eq=False)
class StudyEvaluations:
    """Readings that tables and figures are made of.

    Attributes:
        cells: All generators of the study.
        reads: All finished readings, in the study's order.
        table: Table with one row for each of them (`_row`).
        quality: Table with the quality figures of generators whose training has ended, one row each.
    """

    cells: Sequence[Cell]
    reads: Sequence[Evaluation]
    table: pd.DataFrame
    quality: pd.DataFrame

    @property
    def last(self) -> list[Evaluation]:
        """Return the readings at the end of a training."""
        return [read for read in self.reads if read.last]

    @property
    def unfinished(self) -> list[Cell]:
        """Return the generators that are not done."""
        return [cell for cell in self.cells if not cell.done]


def read_evaluations(cells: Sequence[Cell]) -> StudyEvaluations:
    """Read the finished measurements.

    Args:
        cells: All generators of the study.

    Raises:
        MemoriskError: A file is damaged.
    """
    reads, losses, qualities = [], [], []
    for cell in cells:
        for step in cell.arm.snapshots:
            if not cell.reading_file(step).is_file():
                continue
            arrays = read_result(cell.reading_file(step))
            for number, detector in enumerate(cell.options.detectors):
                reads.append(_read_evaluation(cell, step, number, detector, arrays))
                losses.append(arrays)
            if cell.quality_file(step).is_file():
                qualities.append(read_table(cell.quality_file(step)).assign(**named_columns(cell)))
    table = pd.DataFrame([_row(read, arrays) for read, arrays in zip(reads, losses, strict=True)])
    return StudyEvaluations(
        cells, reads, table, pd.concat(qualities, ignore_index=True) if qualities else pd.DataFrame()
    )


def named_columns(cell: Cell) -> dict[str, Any]:
    """Return the columns that identify a generator in every table."""
    training = cell.training
    return {
        "dataset": cell.data.name, "arm": cell.arm.name, "kind": cell.arm.kind, "conditioning": cell.arm.conditioning,
        "n_images": len(training.rows), "n_patients": len(np.unique(training.groups)), "seed": cell.seed,
        "repeated": bool(training.copies.max() > 1),
    }  # fmt: skip


def _read_evaluation(cell: Cell, step: int, number: int, detector: str, arrays: Arrays) -> Evaluation:
    """Compute the statistics of one detector's distances."""
    own = {name.partition(".")[2]: v for name, v in arrays.items() if name.partition(".")[0] == str(number)}
    own |= {name: v for name, v in arrays.items() if "." not in name}
    held = cell.data.groups[cell.data.held_out].astype(str)
    distances = (own["train_distance"], own["held_distance"], cell.training.groups, held)
    counted = image_counts(cell.training.groups, held, seed=cell.options.seed)
    alike = [values[rows] for values, rows in zip(distances, (counted.train, counted.held) * 2, strict=True)]
    share = memorized_share(*alike, nominal=cell.options.nominal)
    listing = reversed_queries(*distances, q=cell.options.q)
    return Evaluation(cell, step, number, detector, own, share, listing, counted.words)


def _row(read: Evaluation, arrays: Arrays) -> dict[str, Any]:
    """Return the row of one reading by one detector."""
    share, listing, own = read.share, read.queries, read.arrays
    near = nearness(own["synthetic_distance"], own["held_train"], read.held_groups, _second_distances(own))
    return {
        **named_columns(read.cell), "detector": read.detector, "step": read.step,
        "epochs": read.cell.epochs(read.step), "last": read.last,
        **limits("share", share), "nominal": share.nominal,
        "attained": share.attained, "share_p": share.p_value, "n_held": share.n_held,
        "flagged": len(share.flagged), "listed": len(listing.flagged), "shortest_list": listing.shortest_list,
        "ahead": listing.ahead, "p_ahead": listing.p_ahead,
        "nearer_than_new": float(near.share.mean()), "ratio": float(np.median(near.ratio)),
        "n_synthetic": len(own["synthetic_distance"]),
        "loss": float(arrays["loss"]), "held_out_loss": float(arrays["held_out_loss"]),
    }  # fmt: skip


def _second_distances(own: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the second distances where there is another patient and no distance is below 0; else None."""
    second = own["synthetic_second"]
    usable = np.isfinite(second).all() and own["synthetic_distance"].min(initial=0.0) >= 0
    return second if usable else None


def mean_over_seeds(
    table: pd.DataFrame, by: Sequence[str], values: Mapping[str, tuple[float, float]], averaged: Sequence[str] = ()
) -> pd.DataFrame:
    """Combine the rows of a table that differ in the seed alone.

    For S seeds with estimates e and limits (l, h) the row has the mean of e and the wider of two intervals: Student's
    over seeds, ``mean e +- t sd / sqrt(S)``, and the mean of l to the mean of h. The second alone would ignore that
    trainings differ, the first that all seeds share the held-out patients, and both are needed where seeds agree by
    luck. A single seed keeps its own limits.

    Args:
        table: Table with one row per seed, with ``NAME``, ``NAME_low`` and ``NAME_high``.
        by: Columns that distinguish rows.
        values: Names with the least and greatest value of each.
        averaged: Columns whose mean is taken, too.

    Returns:
        Table with one row for each different ``by``, in their order, with ``n_seeds``.
    """
    if not len(table):
        return pd.DataFrame()
    records = []
    for key, own in table.groupby(list(by), sort=False, dropna=False):
        row: dict[str, Any] = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        for name, ends in values.items():
            estimate, low, high = combine_seeds(
                *(column_numbers(own, f"{name}{end}") for end in ("", "_low", "_high")), ends=ends
            )
            row |= {name: estimate, f"{name}_low": low, f"{name}_high": high}
        records.append(
            {**row, **{name: float(np.mean(column_numbers(own, name))) for name in averaged}, "n_seeds": len(own)}
        )
    return pd.DataFrame(records)


def combine_seeds(
    estimate: np.ndarray, low: np.ndarray, high: np.ndarray, *, ends: tuple[float, float]
) -> tuple[float, float, float]:
    """Return the mean of several seeds with its limits, as `mean_over_seeds` does.

    Args:
        estimate: Estimate of each seed, [S].
        low: Lower limit of each seed, [S]; NaN where there is none.
        high: Upper limit of each seed, [S].
        ends: Least and greatest value.
    """
    measured = np.isfinite(estimate)
    if not measured.any():
        return float("nan"), float("nan"), float("nan")
    e, n = estimate[measured], int(measured.sum())
    middle = float(e.mean())
    half = float(scipy.stats.t.ppf(0.975, n - 1) * e.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    below = [middle - half] if n > 1 else []
    above = [middle + half] if n > 1 else []
    if np.isfinite(low[measured]).all() and np.isfinite(high[measured]).all():
        below, above = [*below, float(low[measured].mean())], [*above, float(high[measured].mean())]
    if not below:
        return middle, float("nan"), float("nan")
    return middle, max(min(below), ends[0]), min(max(above), ends[1])


FIGURE_RANGES: dict[str, tuple[float, float]] = {
    "FID": (0.0, np.inf), "KID": (-np.inf, np.inf), "MiFID": (0.0, np.inf), "precision": (0.0, 1.0),
    "recall": (0.0, 1.0), "density": (0.0, np.inf), "coverage": (0.0, 1.0), "IRS": (0.0, 1.0),
}  # fmt: skip
"""Least and greatest value of each figure, in the order of the figures."""
_VALUES: tuple[str, ...] = ("estimate", "same_number", "reference")


def quality_rows(reading: StudyEvaluations, by: tuple[str, ...]) -> pd.DataFrame:
    """Return one row per generator and figure, with seeds combined.

    A row has the figure, the figure at the number of held-out images, and that of the held-out images.

    Args:
        reading: Readings of all generators.
        by: Columns that distinguish generators.
    """
    tables = []
    for figure, ends in FIGURE_RANGES.items():
        table = reading.quality
        own = rows_of(table, figure=figure)
        own = own.rename(columns={"low": "estimate_low", "high": "estimate_high"})
        averaged = ("n_real", "n_synthetic", "n_reference", "n_real_patients", "n_reference_patients")
        values = dict.fromkeys(_VALUES, ends)
        tables.append(mean_over_seeds(own, (*by, "features", "figure", "better"), values, averaged))
    table = pd.concat(tables, ignore_index=True)
    if not len(table):
        return table
    order = {key: i for i, key in enumerate(dict.fromkeys(_keys(table, by)))}
    place = [order[key] for key in _keys(table, by)]
    return table.take(np.argsort(place, kind="stable").tolist()).reset_index(drop=True)


def _keys(table: pd.DataFrame, by: tuple[str, ...]) -> list[tuple[str, ...]]:
    return list(zip(*(map(str, table[name]) for name in by), strict=True))
