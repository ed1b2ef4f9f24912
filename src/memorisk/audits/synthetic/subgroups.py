"""Compare subgroups of the training patients by columns of the images' table (``--by``): is one of them copied more?

A patient counts as copied where a generated image is flagged as a copy of an image of theirs (``review.csv``) and no
person dismissed the pair. METHODS section 8; the test is that of `statistics.subgroups.share_contrasts`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.subgroups import (
    ComparedLevel,
    Subgroups,
    compared_levels,
    level_table,
    most_exposed,
    patient_classes,
    share_fields,
    subgroup_name,
    subgroups,
)
from memorisk.audits.synthetic.result import CopiedSubgroup, SubgroupOutlook
from memorisk.images.manifest import Manifest
from memorisk.statistics.subgroups import share_contrasts


@dataclass(frozen=True, kw_only=True)
class CopiedLevel(ComparedLevel):
    """A row of ``subgroups.parquet``: shares and differences are of patients who are copied."""

    n_copied: int | None = None
    """Number of copied patients; none where the level is too small to be shown."""
    n_classes: int = 0
    """Number of classes of the training patients, within which levels are compared; 0 in a row without numbers."""


def training_subgroups(train: Manifest, by: Sequence[str]) -> tuple[Subgroups, ...]:
    """Read the levels of the training patients.

    Args:
        train: Manifest of the training images.
        by: Columns, as `audits.subgroups.subgroups` takes them.

    Raises:
        InputError: A column does not exist, or compares nothing.
    """
    return subgroups(train.table, train.groups, by)


def subgroup_table(train: Manifest, columns: Sequence[Subgroups], copied: Collection[str]) -> pd.DataFrame:
    """Compare the share of copied patients of each level with that of the others of the same class.

    Args:
        train: Manifest of the training images.
        columns: Columns of ``by``.
        copied: Patients who are copied.

    Returns:
        One row per level, fields as `CopiedLevel`.
    """
    patients = np.unique(train.groups.astype(str))
    classes = patient_classes(train.labels, train.groups).astype(str)
    n_classes = len(set(classes.tolist()))
    is_copied = np.isin(patients, list(copied))

    def counted(column: str, level: str, own: np.ndarray) -> dict[str, object]:
        """Return the number and the share of copied patients of a level."""
        n_copied = int((own & is_copied).sum())
        return {"n_copied": n_copied, "n_classes": n_classes, **share_fields(n_copied, int(own.sum()))}

    contrasts = compared_levels(columns, patients, lambda level, number: share_contrasts(is_copied, level, classes))
    return level_table(CopiedLevel, columns, patients, contrasts, counted)


def more_copied(table: pd.DataFrame) -> tuple[CopiedSubgroup, ...]:
    """Return the levels that are surely copied more than the others of the same class, the largest difference first.

    Args:
        table: Table of `subgroup_table`.
    """
    return tuple(
        CopiedSubgroup(
            column=str(row["column"]),
            level=str(row["level"]),
            n_patients=int(row["n_patients"]),
            n_copied_patients=int(row["n_copied"]),
            difference_share=float(row["difference"]),
            low_share=float(row["difference_low"]),
            high_share=float(row["difference_high"]),
            adjusted_p=float(row["adjusted"]),
            within_class=int(row["n_classes"]) > 1,
        )
        for row in most_exposed(table).to_dict("records")
    )


def subgroup_outlook(train: Manifest, columns: Sequence[Subgroups]) -> tuple[SubgroupOutlook, ...]:
    """Compute the share of each level that would be noticed if none of the others were copied.

    Args:
        train: Manifest of the training images.
        columns: Columns of ``by``.
    """
    return tuple(
        SubgroupOutlook(
            subgroup=subgroup_name(str(row["column"]), str(row["level"])),
            n_patients=None if np.isnan(row["n_patients"]) else int(row["n_patients"]),
            noticeable_share=float(row["noticeable"]),
        )
        for row in subgroup_table(train, columns, ()).to_dict("records")
    )
