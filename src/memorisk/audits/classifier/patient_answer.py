"""Numbers of the answer to one person's question (`audits.classifier.patient`), and their page.

Losses and gaps are in the unit of the run's scale.
"""

from dataclasses import asdict, dataclass
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.pages.strips import Strip
from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.audits.rendering import refuse_no_page, render
from memorisk.runs.files import json_value, write_text
from memorisk.statistics.intervals.means import Interval
from memorisk.statistics.verdicts.levels import PATIENT_LEVEL

PAGE = "memorisk.audits.classifier.pages.patient:patient_page"
"""Place of the page."""


@dataclass(frozen=True)
class ClassAnswer:
    """What the audit says of a patient in one class."""

    label: str
    n_images: int
    m: Interval
    """Mean M of the patient's images, with its interval over trainings."""
    largest: float
    """Largest M of an image, which the list of patients rests on."""
    p: float
    """p of the patient; NaN where the class was not tested."""
    flagged: bool
    why_not: str
    """Reason why the class was not tested; empty where it was."""
    place: int
    """Place by p among the scored patients of the class, from 1."""
    n_patients: int
    noticeable: float
    """Gap from which on such a patient is noticed in four of five cases; NaN or infinite where none is."""


@dataclass(frozen=True)
class TargetAnswer:
    """Losses of the released file on the patient's images, and of models that never saw them."""

    file: str
    loss: float
    """Mean loss of the file on these images."""
    unseen: float
    """Mean loss of the audited models that never saw them."""
    n_models: int
    """Number of these models."""
    n_lower: int
    """Number of these models with a loss that is at most the file's."""

    @property
    def p(self) -> float:
        """Share of models that never saw the patient, the file among them, with a loss of at most the file's."""
        return (1 + self.n_lower) / (1 + self.n_models)


@dataclass(frozen=True, eq=False)
class PatientAnswer:
    """Everything that a finished run says of one patient."""

    patient: str
    """Id as the run has it."""
    parts: tuple[str, ...]
    """Parts of the images: canary, test, train."""
    classes: tuple[ClassAnswer, ...]
    images: pd.DataFrame
    """Rows of `per_image`, the largest M first; with the file's ``target_loss`` where a target was named."""
    strips: dict[tuple[str, str], Strip]
    """Losses of each image, by class and image."""
    auc: float
    """Attack AUC of this patient over the models; NaN where there is none."""
    auc_low: float
    auc_high: float
    auc_p: float
    summary: ClassifierSummary
    notice: float
    """Gap that a pass of the run must notice."""
    doubts: tuple[str, ...] = ()
    """Doubts of the run about all patients or the classes of this one, with checks that could not look; sentences."""
    target: TargetAnswer | None = None
    takes_target: bool = False
    """Whether the run's networks can be compared with a released file: those of a classifier's audit."""

    @property
    def scored(self) -> bool:
        """Return whether some models saw the patient and others did not."""
        return bool(self.classes)

    @property
    def flagged(self) -> bool:
        """Return whether the audit flags the patient in any class."""
        return any(of_class.flagged for of_class in self.classes)

    @property
    def p(self) -> float:
        """Return the smallest p over the patient's classes, times their number; NaN where none was tested."""
        tested = [of_class.p for of_class in self.classes if not np.isnan(of_class.p)]
        return min(1.0, len(tested) * min(tested)) if tested else nan

    @property
    def shows_signs(self) -> bool:
        """Return whether the patient, who was not chosen for a large difference, shows one that chance hardly gives."""
        return self.flagged or self.p <= PATIENT_LEVEL

    @property
    def is_clear(self) -> bool:
        """Return whether nothing was found, and what a pass must notice would have been.

        A mean M whose interval lies above 0 is a doubt, though p rests on the largest M; so is what the run itself
        leaves open (`doubts`).
        """
        above_zero = any(of_class.m.low > 0 for of_class in self.classes)
        noticed = self.noticeable <= self.notice and self.tested
        return noticed and not (self.shows_signs or above_zero or self.doubts)

    @property
    def noticeable(self) -> float:
        """Return the gap from which on such a patient is noticed in every class; infinite where none is."""
        gaps = [of_class.noticeable for of_class in self.classes]
        return max(gaps) if gaps and np.isfinite(gaps).all() else inf

    @property
    def tested(self) -> bool:
        """Return whether the patient could have been flagged in every class."""
        return self.scored and not any(of_class.why_not for of_class in self.classes)

    def as_json(self) -> dict[str, Any]:
        """Return the numbers in JSON's own types."""
        numbers = {
            name: getattr(self, name) for name in ("patient", "parts", "flagged", "tested", "p", "auc", "auc_low")
        }
        numbers |= {"auc_high": self.auc_high, "auc_p": self.auc_p, "images": self.images.to_dict("records")}
        numbers |= {"classes": [asdict(of) for of in self.classes]}
        numbers |= {"target": None if self.target is None else {**asdict(self.target), "p": self.target.p}}
        return json_value(numbers)

    def save(self, path: Path) -> Path:
        """Write the page.

        Raises:
            InputError: No page can be written there, or another file is there.
        """
        refuse_no_page(path)
        write_text(path, render(PAGE, self))
        return path
