"""The result of figures of quality: tables, numbers of images, and the notes that must accompany them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from memorisk.images.identity import NO_DOUBT, DoubtedIds
from memorisk.report.numbers import INLINE, to_json


@dataclass(frozen=True, kw_only=True)
class QualityNumbers:
    """Numbers of images and of patients."""

    training_images: int
    training_patients: int
    synthetic_images: int
    held_out_images: int
    held_out_patients: int
    patients_given: int
    """1 where every real image says whose it is, else 0."""
    ids: Annotated[DoubtedIds, INLINE] = NO_DOUBT
    """Doubts about the identities of the patients of real images: intervals take each id for a person."""


@dataclass(frozen=True, eq=False)
class Quality:
    """Measurements of a set of synthetic images.

    Attributes:
        figures: One row per figure and feature space, as `QualityTable.table`.
        transfer: One row per measure of classifiers trained on synthetic and on real images; None without a
            classifier.
        described: Sentence on the encoder of each feature space.
        numbers: Numbers of images and of patients.
        notes: Assumptions and omissions, one sentence for each.
        folder: The run folder.
    """

    figures: pd.DataFrame
    transfer: pd.DataFrame | None
    described: dict[str, str]
    numbers: QualityNumbers
    notes: tuple[str, ...]
    folder: Path

    def as_json(self) -> dict[str, Any]:
        """Return everything in JSON's own types, but for NaN."""
        return {
            "quality": self.figures.to_dict("records"),
            "train_on_synthetic": None if self.transfer is None else self.transfer.to_dict("records"),
            "features": self.described,
            "numbers": to_json(self.numbers),
            "notes": list(self.notes),
        }
