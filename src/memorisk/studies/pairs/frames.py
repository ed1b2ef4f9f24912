"""Columns of the benchmarks' tables: estimates with their limits, and how they are shown."""

from collections.abc import Mapping, Sequence

from memorisk.report.blocks import Column
from memorisk.statistics.jackknife import JackknifeInterval

MACRO = "Macro average"
FAMILY_NAMES = ("blur", "noise", "rotation", "brightness", "darkening", "contrast", "jpeg")
"""Of copies, as `memorisk.training.detectors.lcmem.augmentations` has them."""


def limits(name: str, found: JackknifeInterval) -> dict[str, float]:
    """An estimate with its limits as columns.

    Args:
        name: Of the estimate's column.
        found: With NaN where it cannot be had.
    """
    return {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high}


def words(source: str, heading: str, *, wide: bool = False, row: bool = False) -> Column:
    """A column of text."""
    return Column(source=source, heading=heading, wide=wide, row_heading=row)


def number(source: str, heading: str, kind: str = "count") -> Column:
    """A column of numbers without limits."""
    return Column(source=source, heading=heading, format=kind)


def estimate(source: str, heading: str, kind: str = "percent") -> Column:
    """A column of estimates with their limits."""
    return Column(source=source, heading=heading, format=kind, interval=(f"{source}_low", f"{source}_high"))


def _family(name: str) -> str:
    """As a heading has it."""
    return name.upper() if name == "jpeg" else name.capitalize()


DETECTOR = words("detector", "Detector", row=True)
SET = words("dataset", "Data set")
_SETUP: Mapping[str, Sequence[Column]] = {
    "parts": (
        words("dataset", "Data set", row=True),
        words("part", "Part"),
        number("images", "Images"),
        number("patients", "Patients"),
        number("repeated", "With two or more images"),
        number("pairs", "Positive pairs"),
        number("largest", "Of the eight with most", "percent"),
        number("identical", "Identical pairs left out"),
    ),
    "detectors": (
        DETECTOR,
        words("state", "State"),
        number("dimension", "Numbers an image"),
        words("compares", "Compares by", wide=True),
        words("weights", "Weights"),
        words("preprocessing", "Images", wide=True),
        words("notes", "Notes", wide=True),
    ),
    "missing": (words("detector", "Method", row=True), words("give", "What to give to have it", wide=True)),
    "figure_1": (
        DETECTOR,
        estimate("auc", "Re-identification: AUC [95 %]", "decimal"),
        estimate("recall", "Copies: recall at the strongest [95 %]"),
        number("dimension", "Numbers an image"),
    ),
}  # fmt: skip
REID_COLUMNS: Mapping[str, Sequence[Column]] = {
    **_SETUP,
    "leaderboard": (
        DETECTOR,
        estimate("auc", "AUC [95 %]", "decimal"),
        estimate("specificity", "Specificity [95 %]"),
        estimate("auc_paper", "AUC, every pair alike", "decimal"),
        number("specificity_paper", "Specificity, every pair alike", "percent"),
        estimate("difference", "AUC less the reference's [95 %]", "decimal"),
        number("dimension", "Numbers an image"),
    ),
    "table_2": (
        words("section", "Section"),
        DETECTOR,
        SET,
        estimate("auc", "AUC [95 %]", "decimal"),
        estimate("specificity", "Specificity [95 %]"),
        words("at", "which is", wide=True),
        estimate("auc_paper", "AUC, every pair alike [95 %]", "decimal"),
        number("specificity_paper", "Specificity, every pair alike", "percent"),
        number("n_identities", "Patients"),
        number("n_pairs", "Positive pairs"),
    ),
    "differences": (
        words("first", "Detector", row=True),
        words("second", "less the reference"),
        SET,
        estimate("difference", "Difference of AUC [95 %]", "decimal"),
        estimate("difference_paper", "Every pair alike [95 %]", "decimal"),
        number("n_identities", "Patients"),
    ),
    "table_4": (
        DETECTOR,
        words("backbone", "Backbone"),
        words("augmentation", "Augmentation", wide=True),
        words("bce_share", "α"),
        words("latent", "Latent"),
        words("form", "Pairs count"),
        estimate("accuracy", "Accuracy [95 %]"),
        estimate("f1", "F1 [95 %]"),
        estimate("precision", "Precision [95 %]"),
        estimate("recall", "Recall [95 %]"),
        estimate("auc", "AUC [95 %]", "decimal"),
        number("n_pairs", "Pairs"),
    ),
    "false_matches": (
        DETECTOR,
        SET,
        words("at", "Threshold"),
        number("threshold", "Score", "short"),
        estimate("sensitivity", "Positive pairs found [95 %]"),
        number("n_matched", "Images matched"),
        number("n_images", "of"),
        estimate("matched", "Images matched, patients alike [95 %]"),
        number("n_patients", "Patients"),
    ),
}  # fmt: skip
COPIES_COLUMNS: Mapping[str, Sequence[Column]] = {
    **_SETUP,
    "leaderboard": (
        DETECTOR,
        estimate("recall", "Recall of the strongest copies [95 %]"),
        estimate("recall_95", "at the threshold of 95 % recall [95 %]"),
        number("recall_paper", "Every image alike", "percent"),
        estimate("difference", "less the reference's [95 %]"),
        number("adjusted", "p, Holm", "probability"),
        estimate("specificity", "New pairs told apart [95 %]"),
    ),
    "figure_4": (
        DETECTOR,
        words("rule", "Threshold"),
        SET,
        estimate("recall", "Recall at the strongest [95 %]"),
        number("recall_paper", "Every image alike", "percent"),
        number("n_identities", "Patients"),
        number("n_images", "Images"),
    ),
    "strongest": (
        DETECTOR,
        words("rule", "Threshold"),
        *(estimate(family, f"{_family(family)} [95 %]") for family in FAMILY_NAMES),
    ),
    "differences": (
        words("first", "Detector", row=True),
        words("second", "less the reference"),
        words("rule", "Threshold"),
        words("family", "Copies by"),
        estimate("difference", "Difference of recall [95 %]"),
        number("p", "p", "probability"),
        number("adjusted", "p, Holm", "probability"),
        number("n_discordant", "Patients who decide"),
        number("n_identities", "of"),
    ),
    "thresholds": (
        DETECTOR,
        SET,
        words("rule", "Rule"),
        number("threshold", "Score", "short"),
        words("made_from", "Made from", wide=True),
        estimate("specificity", "New test pairs told apart [95 %]"),
        estimate("sensitivity", "Test pairs of one patient found [95 %]"),
    ),
}  # fmt: skip
