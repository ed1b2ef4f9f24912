"""What a person says of patients of a classifier audit, after a look at their images: ``marks.csv`` of a run.

A mark changes no number. ``memorisk view`` writes it, and `comparison` shows it beside the patient.
"""

from pathlib import Path

import pandas as pd

from memorisk.images.columns import read_described
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.tables import write_csv

FILE = "marks.csv"
MARKS = ("wrong label", "burnt-in text", "duplicate", "reviewed")
_COLUMNS = ("label", "group", "mark")

Patient = tuple[str, str]
"""A class and a patient, as the run names them."""


def read_marks(folder: Path) -> dict[Patient, tuple[str, ...]]:
    """Read the marks of a run; none where nobody made any.

    Raises:
        InputError: The file is none of marks.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    table = read_described(path, quoted=True)
    lacking = [name for name in _COLUMNS if name not in table]
    if lacking:
        raise InputError(f"{one_line(path)} holds no marks: it lacks the column {lacking[0]}; move it away")
    found: dict[Patient, tuple[str, ...]] = {}
    for label, group, mark in zip(*(table[name].astype(str) for name in _COLUMNS), strict=True):
        if mark in MARKS and mark not in found.get((label, group), ()):
            found[label, group] = (*found.get((label, group), ()), mark)
    return found


def write_mark(folder: Path, patient: Patient, mark: str, *, given: bool) -> dict[Patient, tuple[str, ...]]:
    """Give a patient a mark, or take it away; the file is gone with its last mark.

    Args:
        folder: The run folder.
        patient: Whom.
        mark: One of `MARKS`.
        given: Whether the patient is to have it.

    Returns:
        All marks of the run.

    Raises:
        InputError: There is no such mark, or the file is none of marks.
    """
    if mark not in MARKS:
        raise unknown_name("mark", mark, MARKS)
    marks: dict[Patient, tuple[str, ...]] = read_marks(folder)
    kept = tuple(one for one in marks.pop(patient, ()) if one != mark)
    if given or kept:
        marks[patient] = (*kept, mark) if given else kept
    if not marks:
        (folder / FILE).unlink(missing_ok=True)
        return marks
    rows = [(*whom, one) for whom, said in sorted(marks.items()) for one in said]
    write_csv(folder / FILE, pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object))
    return marks
