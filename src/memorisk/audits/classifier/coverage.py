"""What an audit says nothing of."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence
from memorisk.report.frames import numbers, truths
from memorisk.statistics.verdicts.noticeable_gap import MIN_ROOM
from memorisk.statistics.verdicts.verdict import Units


def not_scored(evidence: Evidence, n_validation: int, not_auditable: list[str]) -> dict[str, Any]:
    """Images and patients of which nothing is said: training part, validation, canaries without a partner."""
    items = evidence.items
    ever = (evidence.sign != 0).any(axis=0)
    open_to_scoring = items.split != "test"
    alone = open_to_scoring & (items.split == "canary") & ~ever
    missed = open_to_scoring & ~ever
    scored_groups = set(items.group[ever])
    return {
        "not_scored_images": len(set(items.image[missed])) + n_validation,
        "not_scored_groups": len(set(items.group[missed]) - scored_groups),
        "without_partner": len(set(items.group[alone])),
        "without_partner_images": len(set(items.image[alone])),
        "not_auditable": not_auditable,
    }


def singly_tested(per_class: pd.DataFrame) -> np.ndarray:
    """Say in which classes a single patient could have been on the verdict's list, `[C]`: those with room on it.

    Args:
        per_class: Table of the classes; of older runs without ``room``, where the list that is shown stands for it.
    """
    return numbers(per_class, "room") >= MIN_ROOM if "room" in per_class else _listed(per_class)


def _listed(per_class: pd.DataFrame) -> np.ndarray:
    """Say which classes have a list at the level that was asked for."""
    return truths(per_class, "testable") if "testable" in per_class else np.ones(len(per_class), dtype=bool)


def flagged_if_tested(per_class: pd.DataFrame) -> np.ndarray:
    """Count the flagged of each class, `[C]`; NaN where none is flagged and none alone could have been.

    Args:
        per_class: Table of the classes.
    """
    flagged = numbers(per_class, "flagged")
    return np.where((flagged > 0) | (singly_tested(per_class) & _listed(per_class)), flagged, np.nan)


def unpaired(unscored: dict[str, Any], units: Units) -> str:
    """How many had no partner; images alone where each stands for itself."""
    images = f"{unscored['without_partner_images']} image{'s' if unscored['without_partner_images'] != 1 else ''}"
    return images if units.one == "image" else f"{units.count(unscored['without_partner'])} ({images})"


def unscored_training(summary: Mapping[str, Any]) -> str:
    """Say in one sentence how many images all models saw, so that none was scored; empty where there are none.

    Args:
        summary: ``n_train``, where it is known.
    """
    n = summary.get("n_train")
    if not isinstance(n, int) or n < 1:
        return ""
    which = "image that every model was trained on is" if n == 1 else "images that every model was trained on are"
    return f"{n:,} {which} not scored: this says nothing of what is remembered of {'it' if n == 1 else 'them'}."


def units_of(summary: Mapping[str, Any]) -> Units:
    """What a group is called: an image where each stands for itself, else a patient.

    Args:
        summary: ``n_images``, ``n_groups`` and ``groups_given``, as far as they are known.
    """
    n_images, n_groups, given = summary.get("n_images"), summary.get("n_groups"), summary.get("groups_given")
    alone = not given if given is not None else (n_groups is not None and n_images == n_groups)
    return Units("image", "images") if alone else Units("patient", "patients")
