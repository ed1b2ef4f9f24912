"""Subgroups of patients by columns of the images' table (``--by``): sex, age in bins, scanner, site.

A patient has one level of a column: the value of most of the patient's images, the first in order of equally frequent
ones; of numbers the median, which bins divide. A column that names patients, or has too many levels to compare, is
refused.

Source: METHODS section 8.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
import pandas as pd

from memorisk.images.identity import looks_missing, normal_id
from memorisk.images.manifest import REQUIRED
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

MOST_LEVELS = 30
"""Largest number of levels of a column: more have too few patients each, and may name them."""
LEAST_PATIENTS = 10
"""Fewest patients of a level that is shown with a number: fewer could be recognised."""
_DICOM_AGE = re.compile(r"(\d{3})([DWMY])")
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


def subgroup_name(column: str, level: str) -> str:
    """Return column and level on one line, as in "sex F"."""
    return f"{one_line(column, 40)} {one_line(level, 40)}"


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
    for patient, value in zip(patients, _texts(pd.Series(table[column])), strict=True):
        if value:
            values[patient].append(value)
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
    """Read a number, or an age as DICOM writes it ("045Y", "018M"); NaN for other text."""
    if age := _DICOM_AGE.fullmatch(text):
        return int(age[1]) * _YEARS[age[2]]
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
            f"by {column}:{bins}: the column holds {one_line(odd[0], 40)!r}, and bins need numbers; leave the bins out"
        )
    middle = {patient: float(median(own)) for patient, own in numbers.items()}
    if bins.isdecimal() and 2 <= int(bins) <= MOST_LEVELS:
        shares = np.arange(1, int(bins)) / int(bins)
        cuts = np.quantile(list(middle.values()), shares, method="higher") if middle else np.empty(0)
        edges = [float(cut) for cut in dict.fromkeys(cuts.tolist()) if cut > min(middle.values())]
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
    counts = Counter(level_of.values())
    if len(levels) > MOST_LEVELS:
        numbers = not bins and np.isfinite([_number(level) for level in levels]).all()
        way = f"give bins, as {column}:4 or {column}:40,60" if numbers else "join levels, or name another column"
        raise InputError(f"by {column}: the column has {len(levels):,} levels, and {MOST_LEVELS} are the most; {way}")
    if max(counts.values()) < LEAST_PATIENTS:
        raise InputError(
            f"by {column}: no level has {LEAST_PATIENTS} patients, so that none may be shown with a number; join levels"
        )
