"""Files with judgements of pairs by a person: ``review.csv`` of a run, its followers, and the viewer's file.

A file that a person has begun to fill is never written over. Judgements of images that are not in the sets of an audit
are kept in its run folder (`ELSEWHERE`), so that the review of the last run always holds all of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.columns import read_described
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.tables import write_csv

CONFIRM, DISMISS = "confirm", "dismiss"
ANSWERS = ("verdict", "by", "reason")
COLUMNS = ("synthetic_image", "training_image", "patient", "found_by", "score", "alignment", "pair", *ANSWERS)
_MAY_LACK = ("patient", "found_by", "score", "alignment")
ELSEWHERE = "judged-elsewhere.csv"
"""Judged pairs of earlier runs of which an image is not, or no longer, in the sets of a run, in its folder."""
BETWEEN = "-"
"""Text between the two contents in the key of a pair."""

Contents = tuple[str, str]
"""Hashes of the pixels of a synthetic and a training image, or their keys in a file."""


@dataclass(frozen=True)
class Judgement:
    """Judgement of a pair by a person."""

    verdict: str
    """Verdict of the person, "confirm" or "dismiss"."""
    by: str
    """Name of the person."""
    reason: str
    """Reason of the verdict."""


@dataclass(frozen=True)
class JudgedLine:
    """Judged row of a review file."""

    where: str
    """File and line, for messages."""
    row: Mapping[str, str]
    """`COLUMNS` of the row, as far as the file has them."""
    said: Judgement
    contents: Contents
    """Keys of the contents of both images."""
    is_elsewhere: bool
    """Whether the pair was in none of the sets of the run in whose folder the file lies."""


def undismissed(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of the table ``review`` that no person dismissed: those that count as copies, or may be some.

    Args:
        pairs: Table with the columns `COLUMNS`.
    """
    return pairs.loc[pairs["verdict"].astype(str) != DISMISS]


def review_files(source: Path) -> list[Path]:
    """Return a review file, or those of a run folder in the order in which they are read.

    Raises:
        InputError: The folder has none.
    """
    files = sorted(source.glob("review*.csv")) if source.is_dir() else [source]
    if not files:
        raise InputError(f"{one_line(source)} holds no review.csv: name the folder of a finished audit synthetic")
    return files


def judged_lines(path: Path) -> list[JudgedLine]:
    """Read the judged rows of a review, each pair once: the last file that judges it counts.

    Args:
        path: Path of a file, or the folder of a run: then all of its review files are read, the viewer's last.
            `ELSEWHERE` is read from the same folder.

    Raises:
        InputError: A file does not hold a review, or a row cannot be honoured.
    """
    files = review_files(path)
    beside = (path if path.is_dir() else path.parent) / ELSEWHERE
    latest: dict[Contents, JudgedLine] = {}
    for file in [*([beside] if beside.is_file() else []), *files]:
        latest |= _judged_lines_of(file)
    return list(latest.values())


def _judged_lines_of(file: Path) -> dict[Contents, JudgedLine]:
    """Read the judged rows of one file, which must not contradict each other."""
    lines: dict[Contents, JudgedLine] = {}
    for number, row in enumerate(_read_review_table(file).to_dict("records"), start=2):
        where = f"{one_line(file)}, line {number}"
        judgement = _judgement(row, where)
        if judgement is None:
            continue
        texts = {str(name): str(value) for name, value in row.items() if name in COLUMNS}
        synthetic, between, real = texts["pair"].strip().partition(BETWEEN)
        if not between:
            raise InputError(f"{where}: the column pair does not hold the contents of two images: it was changed, or "
                             "an earlier memorisk wrote it; issue the audit again")  # fmt: skip
        line = JudgedLine(where, texts, judgement, (synthetic, real), file.name == ELSEWHERE)
        if lines.setdefault(line.contents, line).said.verdict != judgement.verdict:
            raise InputError(f"{where}: this pair is confirmed in one line and dismissed in another; say one of the "
                             "two")  # fmt: skip
    return lines


def undismissed_images(source: Path) -> dict[str, str]:
    """Name the synthetic images of all pairs that are not dismissed, with the keys of their contents.

    Args:
        source: Path of a review file, or the folder of a run: then all of its review files are read, the viewer's last.

    Returns:
        Key of the content of each image by its id, in the order of the files.

    Raises:
        InputError: The file does not exist, or a line cannot be understood.
    """
    verdicts: dict[str, str | None] = {}
    images: dict[str, list[str]] = {}
    for file in review_files(source):
        for number, row in enumerate(_read_review_table(file).to_dict("records"), start=2):
            pair, judged = str(row["pair"]).strip(), _judgement(row, f"{one_line(file)}, line {number}")
            images.setdefault(pair, []).append(str(row["synthetic_image"]))
            verdicts[pair] = verdicts.get(pair) if judged is None else judged.verdict
    pairs = [pair for pair, verdict in verdicts.items() if verdict != DISMISS]
    return {name: pair.partition(BETWEEN)[0] for pair in pairs for name in images[pair]}


def _read_review_table(path: Path) -> pd.DataFrame:
    """Read a review file as text.

    Raises:
        InputError: The file does not hold a review.
    """
    table = read_described(path, quoted=True)
    lacking = [name for name in COLUMNS if name not in table and name not in _MAY_LACK]
    if lacking:
        raise InputError(f"{one_line(path)} is not a review.csv of an audit: it lacks the column {lacking[0]}")
    return table


def write_review(folder: Path, pairs: pd.DataFrame) -> Path | None:
    """Write the pairs that a person should look at; a file that a person has begun to fill is never touched.

    Pairs that no filled ``review.csv`` holds yet are written to ``review-2.csv``, and so on.

    Args:
        folder: The run folder.
        pairs: Table of pairs, one row per pair, with `COLUMNS`.

    Returns:
        The file that holds the pairs that are not judged yet, or all where none was filled before; None where filled
        ones hold all.
    """
    earlier_pairs: set[str] = set()
    for number in count(1):
        path = folder / ("review.csv" if number == 1 else f"review-{number}.csv")
        filled = _filled_pairs(path)
        if filled is None:
            rest = pairs.loc[[pair not in earlier_pairs for pair in pairs["pair"]]]
            if number > 1 and not len(rest):
                path.unlink(missing_ok=True)
                return None
            score = [None if np.isnan(value) else float(f"{value:.6g}") for value in rest["score"]]
            write_csv(path, rest.assign(score=score).loc[:, list(COLUMNS)])
            return path
        earlier_pairs |= filled
    return None  # pragma: no cover (count never ends)


def write_elsewhere(folder: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Keep the judgements of images that are not in the sets of a run, with those that its folder has already.

    Args:
        folder: The run folder.
        rows: Values of `COLUMNS` of each judged pair.
    """
    path = folder / ELSEWHERE
    before = _judged_lines_of(path).values() if path.is_file() else ()
    by_pair = {row["pair"]: row for row in (*(line.row for line in before), *rows)}
    if by_pair:
        write_csv(path, pd.DataFrame(list(by_pair.values()), columns=list(COLUMNS)).fillna(""))


def _filled_pairs(path: Path) -> set[str] | None:
    """Return the pairs of a file that a person wrote into; None for no file, or one as the audit wrote it."""
    if not path.exists():
        return None
    try:
        table = read_described(path)
        touched = table.loc[:, list(ANSWERS)].astype(str).apply(lambda column: column.str.strip() != "")
        return set(table["pair"].astype(str).str.strip()) if touched.to_numpy().any() else None
    except (InputError, KeyError):  # saved in another form: a person's work all the same
        return set()


def _judgement(row: Mapping[Any, Any], where: str) -> Judgement | None:
    """Read a line's verdict; None where it was not filled.

    Raises:
        InputError: The verdict is another word, or a dismissal lacks a person or a reason.
    """
    verdict, by, reason = (str(row[name]).strip() for name in ANSWERS)
    if not verdict:
        return None
    if verdict.lower() not in (CONFIRM, DISMISS):
        raise InputError(f"{where}: {unknown_name('verdict', one_line(verdict, 40), (CONFIRM, DISMISS))}")
    if verdict.lower() == DISMISS and not (by and reason):
        raise InputError(f"{where}: a dismissed pair needs who dismissed it (by) and why (reason)")
    return Judgement(verdict.lower(), by, reason)
