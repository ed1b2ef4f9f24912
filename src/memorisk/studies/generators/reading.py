"""What was measured of every generator, as a table: a row a reading and detector.

Nothing is trained or drawn here; all statistics come from the distances that the readings left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.files import read_table
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.image_counts import counted_images
from memorisk.statistics.copies.reversed_queries import ReversedQueries, nearness, reversed_queries
from memorisk.statistics.memorization.memorized_share import MemorizedShare, memorized_share
from memorisk.studies.generators.plan import Cell
from memorisk.studies.unique_features.results import Arrays, read_result

FLOOR = 1e-3
"""Distances below this part of the held-out patients' median count as this: the logarithm of 0 is none."""


@dataclass(frozen=True, eq=False)
class Read:
    """One reading of a generator by one detector.

    Attributes:
        cell: The generator.
        step: After so many steps of its training.
        number: Of the detector, in the study's order.
        detector: Its name.
        found: The distances.
        share: Of training patients nearer to the set than new ones.
        asked: Each training patient, ranked among held-out ones.
        counted: What must be said where patients of the two parts have other numbers of images.
    """

    cell: Cell
    step: int
    number: int
    detector: str
    found: Mapping[str, np.ndarray]
    share: MemorizedShare
    asked: ReversedQueries
    counted: str = ""

    @property
    def last(self) -> bool:
        """Whether its training had ended."""
        return self.step == self.cell.arm.snapshots[-1]

    @property
    def held_groups(self) -> np.ndarray:
        """[m] held-out patients."""
        return self.cell.data.groups[self.cell.data.held_out].astype(str)

    @property
    def patient_copies(self) -> np.ndarray:
        """[U] how often each training patient's images stood in the training."""
        return group_values(self.cell.training.copies.astype(float), self.cell.training.groups).astype(int)

    @property
    def nearness(self) -> np.ndarray:
        """[U] minus the logarithm of each training patient's distance, 0 at the held-out patients' median."""
        held = float(np.median(group_values(self.found["held_distance"], self.held_groups)))
        if held <= 0:  # logits, or a set that holds the held-out images: no distance to divide by
            return -self.asked.distance
        return -np.log(np.maximum(self.asked.distance / held, FLOOR))

    @property
    def flagged(self) -> np.ndarray:
        """[U] whether each training patient is nearer than the nominal rate allows of new ones."""
        return np.isin(self.asked.unit, self.share.flagged)


@dataclass(frozen=True, eq=False)
class Reading:
    """Everything that tables and figures are made of.

    Attributes:
        cells: Every generator of the study.
        reads: Every finished reading, in the study's order.
        table: A row for each of them (`_row`).
        quality: Figures of quality of generators whose training has ended, a row each.
    """

    cells: Sequence[Cell]
    reads: Sequence[Read]
    table: pd.DataFrame
    quality: pd.DataFrame

    @property
    def last(self) -> list[Read]:
        """Readings at the end of a training."""
        return [read for read in self.reads if read.last]

    @property
    def unfinished(self) -> list[Cell]:
        """Generators that are not done."""
        return [cell for cell in self.cells if not cell.done]


def read_cells(cells: Sequence[Cell]) -> Reading:
    """Read what is finished.

    Args:
        cells: Every generator of the study.

    Raises:
        MemoriskError: A file is damaged.
    """
    reads, losses, qualities = [], [], []
    for cell in cells:
        for step in cell.arm.snapshots:
            if not cell.reading_file(step).is_file():
                continue
            found = read_result(cell.reading_file(step))
            for number, detector in enumerate(cell.options.detectors):
                reads.append(_read(cell, step, number, detector, found))
                losses.append(found)
            if cell.quality_file(step).is_file():
                qualities.append(read_table(cell.quality_file(step)).assign(**named_columns(cell)))
    table = pd.DataFrame([_row(read, found) for read, found in zip(reads, losses, strict=True)])
    return Reading(cells, reads, table, pd.concat(qualities, ignore_index=True) if qualities else pd.DataFrame())


def named_columns(cell: Cell) -> dict[str, Any]:
    """What names a generator in every table."""
    training = cell.training
    return {
        "dataset": cell.data.name, "arm": cell.arm.name, "kind": cell.arm.kind, "conditioning": cell.arm.conditioning,
        "n_images": len(training.rows), "n_patients": len(np.unique(training.groups)), "seed": cell.seed,
        "repeated": bool(training.copies.max() > 1),
    }  # fmt: skip


def _read(cell: Cell, step: int, number: int, detector: str, found: Arrays) -> Read:
    """The statistics of one detector's distances."""
    own = {name.partition(".")[2]: v for name, v in found.items() if name.partition(".")[0] == str(number)}
    own |= {name: v for name, v in found.items() if "." not in name}
    held = cell.data.groups[cell.data.held_out].astype(str)
    given = (own["train_distance"], own["held_distance"], cell.training.groups, held)
    counted = counted_images(cell.training.groups, held, seed=cell.options.seed)
    alike = [values[rows] for values, rows in zip(given, (counted.train, counted.held) * 2, strict=True)]
    share = memorized_share(*alike, nominal=cell.options.nominal)
    asked = reversed_queries(*given, q=cell.options.q)
    return Read(cell, step, number, detector, own, share, asked, counted.words)


def _row(read: Read, found: Arrays) -> dict[str, Any]:
    """One reading by one detector."""
    share, asked, own = read.share, read.asked, read.found
    near = nearness(own["synthetic_distance"], own["held_train"], read.held_groups, _second(own))
    return {
        **named_columns(read.cell), "detector": read.detector, "step": read.step,
        "epochs": read.cell.epochs(read.step), "last": read.last,
        "share": share.estimate, "share_low": share.low, "share_high": share.high, "nominal": share.nominal,
        "attained": share.attained, "share_p": share.p_value, "n_held": share.n_held,
        "flagged": len(share.flagged), "listed": len(asked.flagged), "shortest_list": asked.shortest_list,
        "ahead": asked.ahead, "p_ahead": asked.p_ahead,
        "nearer_than_new": float(near.share.mean()), "ratio": float(np.median(near.ratio)),
        "n_synthetic": len(own["synthetic_distance"]),
        "loss": float(found["loss"]), "held_out_loss": float(found["held_out_loss"]),
    }  # fmt: skip


def _second(own: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Second distances, where there is another patient and distances are none below 0."""
    second = own["synthetic_second"]
    usable = np.isfinite(second).all() and own["synthetic_distance"].min(initial=0.0) >= 0
    return second if usable else None
