"""Marks that a person gives to patients of a classifier audit, after a look at their images: ``marks.csv`` of a run.

A mark changes no number. ``memorisk view`` writes it, the report and `comparison` show it with the patient, and a
later audit takes it over with ``--review``.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.columns import read_described
from memorisk.report.columns import column_texts
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.locks import ANSWERS_LOCK, folder_lock
from memorisk.runs.tables import write_csv

FILE = "marks.csv"
MARKS = ("wrong label", "burnt-in text", "duplicate", "reviewed")
_COLUMNS = ("label", "group", "mark")

Patient = tuple[str, str]
"""A class and a patient, as the run names them."""
Marks = Mapping[Patient, tuple[str, ...]]


def read_marks(folder: Path) -> dict[Patient, tuple[str, ...]]:
    """Read the marks of a run; empty where no marks were made.

    Raises:
        InputError: The file is not a file of marks.
    """
    path = folder / FILE
    return _read(path) if path.is_file() else {}


def marks_to_keep(folder: Path, review: Path | None) -> Marks:
    """Read the marks that an audit takes over: those of an earlier run, unless its own folder has some.

    Args:
        folder: The run folder; need not exist.
        review: ``marks.csv`` of an earlier run; None for none.

    Raises:
        InputError: A file is not a file of marks.
    """
    if review is not None and not review.is_file():
        raise InputError(f"--review {one_line(review)} is not a file: name {FILE} of an earlier run")
    earlier = {} if review is None else _read(review)
    return earlier if earlier and not read_marks(folder) else {}


def keep_marks(folder: Path, given: Marks, groups: pd.DataFrame, names: Pseudonyms) -> int:
    """Write the marks of an earlier run into a run folder, of those patients that it has in the same class.

    Args:
        folder: The run folder.
        given: Marks from `marks_to_keep`.
        groups: The run's table of patients, under its pseudonyms where it has some.
        names: Pseudonyms for the ids of a run that was not pseudonymised.

    Returns:
        Number of marked patients.
    """
    hidden = dict(zip(given, names.names(group for _, group in given), strict=True))
    patients = set(_patients(groups))
    carried = {
        patient: marks
        for (label, group), marks in given.items()
        for patient in ((label, group), (label, hidden[label, group]))
        if patient in patients
    }
    if carried:
        _write(folder / FILE, carried)
    return len(carried)


def marked(groups: pd.DataFrame, folder: Path, column: str = "marked") -> pd.DataFrame:
    """Return a table of patients with their marks in a run as a further column, where there are any.

    Args:
        groups: The patients, by ``label`` and ``group``.
        folder: The run folder.
        column: Name of the column of marks.

    Raises:
        InputError: The file is not a file of marks.
    """
    marks = read_marks(folder)
    if not marks:
        return groups
    marks_of_row = [", ".join(marks.get(patient, ())) for patient in _patients(groups)]
    return groups.assign(**{column: np.array(marks_of_row, dtype=object)})


def _patients(groups: pd.DataFrame) -> list[Patient]:
    return list(zip(column_texts(groups, "label"), column_texts(groups, "group"), strict=True))


def _read(path: Path) -> dict[Patient, tuple[str, ...]]:
    """Read a file of marks; an unknown mark is passed over.

    Raises:
        InputError: The file is not a file of marks.
    """
    table = read_described(path, quoted=True)
    lacking = [name for name in _COLUMNS if name not in table]
    if lacking:
        raise InputError(
            f"{one_line(path)} holds no marks: it lacks the column {lacking[0]}; it is to have label, group and mark"
        )
    marks: dict[Patient, tuple[str, ...]] = {}
    for label, group, mark in zip(*(table[name].astype(str) for name in _COLUMNS), strict=True):
        if mark in MARKS and mark not in marks.get((label, group), ()):
            marks[label, group] = (*marks.get((label, group), ()), mark)
    return marks


def write_mark(folder: Path, patient: Patient, mark: str, *, given: bool) -> dict[Patient, tuple[str, ...]]:
    """Give a patient a mark, or take it away; the file is gone with its last mark.

    Args:
        folder: The run folder.
        patient: Patient to mark, as (label, group).
        mark: One of `MARKS`.
        given: Whether the patient is to have it.

    Returns:
        All marks of the run.

    Raises:
        InputError: The mark does not exist, or the file does not hold marks.
    """
    if mark not in MARKS:
        raise unknown_name("mark", mark, MARKS)
    with folder_lock(folder, name=ANSWERS_LOCK, wait=True):
        for partial in folder.glob(f".{FILE}.*.part"):  # by a viewer that was killed
            partial.unlink(missing_ok=True)
        marks: dict[Patient, tuple[str, ...]] = read_marks(folder)
        others = tuple(one for one in marks.pop(patient, ()) if one != mark)
        if given or others:
            marks[patient] = (*others, mark) if given else others
        if marks:
            _write(folder / FILE, marks)
        else:
            (folder / FILE).unlink(missing_ok=True)
    return marks


def _write(path: Path, marks: Marks) -> None:
    rows = [(*whom, one) for whom, patient_marks in sorted(marks.items()) for one in patient_marks]
    write_csv(path, pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object))
