"""Subgroups of patients by columns of the images' table (``--by``): sex, age in bins, scanner, site.

A patient has one level of a column: the value of most of the patient's images, the first in order of equally frequent
ones; of numbers the median, which bins divide. A column that names patients, or has too many levels to compare, is
refused. Levels of fewer than ten patients have no number in any table, since they could name a person; they are joined
in one row.

Source: METHODS section 8.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.identity import looks_missing, normal_id
from memorisk.images.manifest import REQUIRED
from memorisk.report.blocks import Inline, Name, Text
from memorisk.report.columns import booleans, column_numbers, largest_first, probability, rows
from memorisk.report.numbers import to_row
from memorisk.runs.errors import InputError, listed, one_line, unknown_name
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.subgroups import SubgroupContrast, adjusted_contrasts
from memorisk.statistics.verdicts.levels import POWER, SUBGROUP_LEVEL, share_words
from memorisk.statistics.verdicts.reasons import Reason

SUBGROUPS = "subgroups"
"""Name of the table with one row per level."""
MOST_LEVELS = 30
"""Largest number of levels of a column: more have too few patients each, and may name them."""
LEAST_PATIENTS = 10
"""Fewest patients of a level that is shown with a number: fewer could be recognised."""
_COUNTS = frozenset(("share", "share_low", "share_high", "n_flagged", "n_copied"))
"""Fields of a row that count patients on the audit's list."""
_DICOM_AGE = re.compile(r"(\d{3})([DWMY])")
_PLAIN_NUMBER = re.compile(r"(\d+)(?:[.,](\d+))?(?: ?(?:y|yrs?|years?|yo))?", re.IGNORECASE)
_YEARS = {"D": 1 / 365.25, "W": 7 / 365.25, "M": 1 / 12, "Y": 1.0}


@dataclass(frozen=True)
class Subgroups:
    """Levels of the patients by one column."""

    column: str
    levels: tuple[str, ...]
    """Levels in the order in which they are shown."""
    level_of: Mapping[str, str]
    """Level by patient; patients without a value are left out."""
    n_unknown: int
    """Number of patients without a value."""
    n_several: int
    """Number of patients whose images have several values."""

    def of(self, patients: Iterable[str]) -> np.ndarray:
        """Return the level of each patient, text [n]; empty where it is not known."""
        return np.array([self.level_of.get(str(patient), "") for patient in patients], dtype=object)

    def shown(self, patients: Iterable[str]) -> tuple[dict[str, np.ndarray], tuple[str, int | None] | None]:
        """Divide patients into the levels that are shown with numbers, and the rest.

        Args:
            patients: Patients of an audit, [n].

        Returns:
            Mask of the patients of each level with at least `LEAST_PATIENTS`, [n], by its name; and a name for the
            others together with their number of patients, which is None below `LEAST_PATIENTS`; None without others.
        """
        level = self.of(patients)
        masks = {name: level == name for name in self.levels}
        few = [name for name, own in masks.items() if own.sum() < LEAST_PATIENTS]
        masks_of_shown = {name: own for name, own in masks.items() if name not in few}
        if not few:
            return masks_of_shown, None
        name = f"({len(few)} level{'s' * (len(few) > 1)} of fewer than {LEAST_PATIENTS} patients)"
        n_few = int(np.isin(level, few).sum())
        return masks_of_shown, (name, n_few if n_few >= LEAST_PATIENTS else None)


@dataclass(frozen=True, kw_only=True)
class ComparedLevel:
    """A row of ``subgroups.parquet``: a level compared with the other patients of the same class."""

    column: str
    level: str
    n_patients: int | None
    """Number of patients; none where all of the levels that share a row have fewer than `LEAST_PATIENTS`."""
    share: float = nan
    """Share of patients that the audit counts, with Clopper and Pearson's limits."""
    share_low: float = nan
    share_high: float = nan
    n_compared: int = 0
    """Number of patients in classes that have patients of other levels, too."""
    difference: float = nan
    """Value of the level less that of the other patients of the same class."""
    difference_low: float = nan
    difference_high: float = nan
    p: float = nan
    adjusted: float = nan
    """p by Holm over all levels of all columns."""
    noticeable: float = nan
    """Difference that would have been noticed with probability `levels.POWER`."""
    more_exposed: bool = False


class SubgroupReason(Reason):
    """Reason about a level whose patients are surely more exposed than the others of the same class."""

    column: str
    level: str
    n_patients: int
    adjusted_p: float
    """p by Holm over all levels of all columns."""

    @property
    def subgroup_value(self) -> str:
        """Column and level, as in "sex F"."""
        return subgroup_name(self.column, self.level)

    @property
    def subgroup(self) -> str:
        """Patients of the level, as a sentence begins with them."""
        return f"{self.units.many} with {self.subgroup_value}"


def subgroup_name(column: str, level: str) -> str:
    """Return column and level on one line, as in "sex F"."""
    return f"{one_line(column, 40)} {one_line(level, 40)}"


def patient_classes(labels: Sequence[str] | np.ndarray, patients: Sequence[str] | np.ndarray) -> np.ndarray:
    """Return the class of most of each patient's images, the rarer of equally frequent ones.

    Args:
        labels: Label of each image, [n]; of several findings (``a|b``) the rarest counts.
        patients: Patient of each image, [n].

    Returns:
        Class by patient, in the order of their names, [U].

    Example:
        >>> patient_classes(["a", "b", "b", "b|c"], ["p", "p", "q", "r"]).tolist()
        ['a', 'b', 'c']
    """
    findings = [str(label).split("|") for label in labels]
    frequency = Counter(finding for own in findings for finding in own)
    single = [min(own, key=lambda finding: (frequency[finding], finding)) for own in findings]
    names, unit = np.unique(np.asarray(patients).astype(str), return_inverse=True)
    classes, of_class, size = np.unique(
        np.array(single, dtype=object).astype(str), return_inverse=True, return_counts=True
    )
    of_patient = np.zeros((len(names), len(classes)))
    np.add.at(of_patient, (unit, of_class), 1)
    rarest_first = np.argsort(size, kind="stable")
    if not len(classes):
        return np.empty(0, dtype=object)
    return classes[rarest_first[of_patient[:, rarest_first].argmax(axis=1)]].astype(object)


def compared_levels(
    columns: Sequence[Subgroups],
    patients: Sequence[str] | np.ndarray,
    contrasts: Callable[[np.ndarray, int], Sequence[SubgroupContrast]],
) -> dict[tuple[str, str], SubgroupContrast]:
    """Test every level with at least `LEAST_PATIENTS` patients on either side, all together.

    Smaller levels count among the others of the rest, and a level whose others are fewer has no contrast, which would
    tell about those few.

    Args:
        columns: Columns of ``by``.
        patients: Patients, [n].
        contrasts: Contrasts of the levels of one column, by the level of each patient, [n], and the column's number.

    Returns:
        The contrasts by column and level, adjusted over all.
    """
    tested: list[list[SubgroupContrast]] = []
    for number, column in enumerate(columns):
        sides = [(c, min(c.n_compared, c.n_others)) for c in contrasts(column.of(patients).astype(str), number)]
        tested.append([contrast for contrast, smaller in sides if smaller >= LEAST_PATIENTS])
    adjusted = adjusted_contrasts(tested)
    return {
        (column.column, contrast.level): contrast
        for column, of_column in zip(columns, adjusted, strict=True)
        for contrast in of_column
    }


def level_table(
    kind: type[ComparedLevel],
    columns: Sequence[Subgroups],
    patients: Sequence[str] | np.ndarray,
    contrasts: Mapping[tuple[str, str], SubgroupContrast],
    measure: Callable[[str, str, np.ndarray], Mapping[str, Any]],
) -> pd.DataFrame:
    """Tabulate the levels of each column; those of fewer than `LEAST_PATIENTS` patients share a row without numbers.

    Args:
        kind: Dataclass of the rows.
        columns: Columns of ``by``.
        patients: Patients, [n].
        contrasts: Contrasts of `compared_levels`.
        measure: Further fields of a row, by its column, its level and the mask of its patients, [n].
    """
    table: list[ComparedLevel] = []
    for column in columns:
        levels, few = column.shown(patients)
        of_no_level = len(patients) - sum(int(own.sum()) for own in levels.values())
        for name, own in levels.items():
            n, contrast = int(own.sum()), contrasts.get((column.column, name))
            fields = {} if contrast is None else _compared_fields(contrast)
            fields |= measure(column.column, name, own)
            if 0 < of_no_level < LEAST_PATIENTS:  # counts, taken from those of all patients, would tell about these few
                fields = {key: value for key, value in fields.items() if key not in _COUNTS}
            table.append(kind(column=column.column, level=name, n_patients=n, **fields))
        if few is not None:
            table.append(kind(column=column.column, level=few[0], n_patients=few[1]))
    return pd.DataFrame([to_row(row) for row in table])


def _compared_fields(contrast: SubgroupContrast) -> dict[str, Any]:
    return {
        "n_compared": contrast.n_compared,
        "difference": contrast.difference.estimate,
        "difference_low": contrast.difference.low,
        "difference_high": contrast.difference.high,
        "p": contrast.p,
        "adjusted": contrast.adjusted,
        "noticeable": contrast.noticeable,
        "more_exposed": contrast.is_higher,
    }


def share_fields(n: int, of: int) -> dict[str, float]:
    """Return the fields of a row for a share of its patients, with Clopper and Pearson's limits."""
    share = clopper_pearson(n, of)
    return {"share": share.estimate, "share_low": share.low, "share_high": share.high}


def most_exposed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the levels that are surely more exposed than the others, the largest difference first."""
    return largest_first(rows(table, booleans(table, "more_exposed")), "difference")


def subgroup_answer(
    table: pd.DataFrame,
    units: str,
    sentence: Callable[[Mapping[str, Any]], tuple[str, str]],
    form: Callable[[float], str],
    unit: str,
    *,
    within_class: bool = True,
) -> Text:
    """Answer whether a level is more exposed, with what would have been noticed.

    Args:
        table: Table of `level_table`.
        units: Name of patients.
        sentence: Finding on a level that is more exposed, by its row: the words before its name, and the words after it
            up to the limits of the difference.
        form: Writes a difference without its unit.
        unit: Unit of differences.
        within_class: Whether the patients have classes, within which levels are compared.
    """
    compared = rows(table, ~np.isnan(column_numbers(table, "p")))
    if not len(compared):
        others = "others of the same class" if within_class else "enough others"
        return f"No level has enough {units}, with {others}, to be compared."
    how = f"Each level is compared with all other {units}."
    if within_class:
        how = (
            f"Each level is compared with the other {units} of the same class, so that a class that is common in one "
            "level does not decide."
        )
    pieces: list[Inline] = []
    for row in most_exposed(compared).to_dict("records"):
        before, after = sentence(row)
        limits = f"{form(row['difference_low'])} to {form(row['difference_high'])}"
        pieces += [
            before,
            Name(subgroup_name(row["column"], row["level"])),
            f"{after} ({limits}, p {probability(row['adjusted'])} after Holm's correction over all levels). ",
        ]
    if pieces:
        return ["Yes. ", *pieces, how]
    noticeable = column_numbers(compared, "noticeable")
    if np.isnan(noticeable).all():
        return (
            f"No level is surely more exposed than the others, and none has enough {units} for a difference to be "
            f"noticed. {how}"
        )
    return (
        f"No level is surely more exposed than the others. A difference of {form(float(np.nanmax(noticeable)))} {unit} "
        f"would have been noticed in every level in {share_words(POWER)}, at level {SUBGROUP_LEVEL:g} over all of "
        f"them. {how}"
    )


def subgroups(table: pd.DataFrame, patients: Sequence[str] | np.ndarray, by: Sequence[str]) -> tuple[Subgroups, ...]:
    """Read the levels of every patient from the columns of a table.

    Args:
        table: Table with one row per image; other columns than those of ``by`` are ignored.
        patients: Patient of each row, [n].
        by: Columns, each as its name, or as ``name:bins``: a number of bins with equally many patients, or their
            inner edges with commas (one edge as ``name:18,``).

    Raises:
        InputError: A column does not exist, names images, patients or classes, or has one level or too many; bins are
            not numbers, or the column holds values that are not.

    Example:
        >>> table = pd.DataFrame({"sex": ["F", "M"] * 10, "age": ["034Y", "071Y"] * 10})
        >>> sex, age = subgroups(table, [f"p{i}" for i in range(20)], ["sex", "age:50,"])
        >>> sex.levels, age.levels, age.level_of["p1"]
        (('F', 'M'), ('below 50', '50 and above'), '50 and above')
    """
    return tuple(_subgroups(table, [str(patient) for patient in patients], text) for text in by)


def _subgroups(table: pd.DataFrame, patients: list[str], text: str) -> Subgroups:
    columns = [str(column) for column in table.columns]
    column, bins = (text, "") if text in columns or ":" not in text else text.rsplit(":", 1)
    offered = [name for name in columns if name not in REQUIRED]
    if column in REQUIRED:
        what = "holds the classes, which are compared anyway" if column == "label" else "names images or patients"
        raise InputError(f"by {column}: this column {what}; name one of {listed(offered, 8) or 'other columns'}")
    if column not in columns:
        raise unknown_name("column of by", column, offered)
    values: dict[str, list[str]] = {patient: [] for patient in patients}
    texts = _texts(pd.Series(table[column]))
    counts = Counter(texts)
    # One level, however it is spelled in capitals: the commonest spelling names it.
    spelling = {text.casefold(): text for text in sorted(counts, key=lambda text: (counts[text], text))}
    for patient, value in zip(patients, texts, strict=True):
        if value:
            values[patient].append(spelling[value.casefold()])
    values_of = {patient: own for patient, own in values.items() if own}
    if bins:
        level_of, levels = _binned(column, values_of, bins)
    else:
        level_of = {patient: _commonest(own) for patient, own in values_of.items()}
        levels = _in_order(set(level_of.values()))
    _refuse_useless(column, levels, level_of, bins)
    n_several = sum(len(set(own)) > 1 for own in values_of.values())
    return Subgroups(column, tuple(levels), level_of, len(values) - len(values_of), n_several)


def _texts(values: pd.Series) -> list[str]:
    """Return values as text in the one form that labels have; empty where one is missing."""
    numbers = pd.api.types.is_float_dtype(values)
    texts = ["" if missing else value for value, missing in zip(values, values.isna(), strict=True)]
    texts = [f"{value:g}" if numbers and value != "" else normal_id(str(value)) for value in texts]
    return ["" if looks_missing(text) else text for text in texts]


def _commonest(values: list[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def _number(text: str) -> float:
    """Read a number ("26", "26,5"), or an age ("26 years", "045Y" and "018M" as DICOM has it); NaN for other text."""
    if age := _DICOM_AGE.fullmatch(text):
        return int(age[1]) * _YEARS[age[2]]
    if plain := _PLAIN_NUMBER.fullmatch(text):
        return float(f"{plain[1]}.{plain[2] or 0}")
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _in_order(levels: Iterable[str]) -> list[str]:
    """Sort levels by value where all are numbers, else as text."""
    names = sorted(levels)
    numbers = [_number(name) for name in names]
    return names if np.isnan(numbers).any() else [names[i] for i in np.argsort(numbers, kind="stable")]


def _binned(column: str, values_of: Mapping[str, list[str]], bins: str) -> tuple[dict[str, str], list[str]]:
    """Divide patients into bins by the median of their numbers; return the bins' names in order, too."""
    numbers = {patient: [_number(value) for value in own] for patient, own in values_of.items()}
    odd = [values_of[patient][i] for patient, own in numbers.items() for i, x in enumerate(own) if not np.isfinite(x)]
    if odd:
        raise InputError(
            f"by {column}:{bins}: the column holds {one_line(odd[0], 40)!r}, and bins need numbers, or ages as 26, 26 "
            "years or 045Y; leave the bins out, or mend the column"
        )
    middle = {patient: float(median(own)) for patient, own in numbers.items()}
    if bins.isdecimal() and 2 <= int(bins) <= MOST_LEVELS:
        shares = np.arange(1, int(bins)) / int(bins)
        cuts = np.quantile(list(middle.values()), shares, method="higher") if middle else np.empty(0)
        edges = [float(cut) for cut in dict.fromkeys(cuts.tolist()) if cut > min(middle.values())]
        if len(distinct := sorted(set(middle.values()))) <= int(bins):  # codes such as 1 and 2: a bin for each
            edges = distinct[1:]
    else:
        edges = [_number(part) for part in bins.split(",") if part] if "," in bins else []
        if not edges or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
            raise InputError(
                f"by {column}:{one_line(bins, 40)}: give a number of bins from 2 to {MOST_LEVELS}, as {column}:4, or "
                f"inner edges in ascending order, as {column}:40,60 (one edge as {column}:40,)"
            )
    names = [f"{low:g} to below {high:g}" for low, high in pairwise(edges)]
    names = [f"below {edges[0]:g}", *names, f"{edges[-1]:g} and above"] if edges else ["all"]
    place = {patient: int(np.searchsorted(edges, x, side="right")) for patient, x in middle.items()}
    held = set(place.values())
    return {patient: names[i] for patient, i in place.items()}, [name for i, name in enumerate(names) if i in held]


def _refuse_useless(column: str, levels: Sequence[str], level_of: Mapping[str, str], bins: str) -> None:
    """Refuse a column that compares nothing, or that names people."""
    if len(levels) < 2:
        held = f"the one level {one_line(levels[0], 40)!r}" if levels else "no value"
        raise InputError(f"by {column}: the column holds {held}; a comparison needs two levels")
    for short in (level for level in levels if len(level) == 1 and level.isalpha()):
        words = [level for level in levels if len(level) > 1 and level.casefold().startswith(short.casefold())]
        if len(words) == 1:
            raise InputError(
                f"by {column}: the levels {short!r} and {one_line(words[0], 40)!r} look like one, written twice; write "
                "one word for one level in the column"
            )
    counts = Counter(level_of.values())
    if len(levels) > MOST_LEVELS:
        numbers = not bins and np.isfinite([_number(level) for level in levels]).all()
        way = f"give bins, as {column}:4 or {column}:40,60" if numbers else "join levels, or name another column"
        raise InputError(f"by {column}: the column has {len(levels):,} levels, and {MOST_LEVELS} are the most; {way}")
    if max(counts.values()) < LEAST_PATIENTS:
        raise InputError(
            f"by {column}: no level has {LEAST_PATIENTS} patients, so that none may be shown with a number; join levels"
        )
