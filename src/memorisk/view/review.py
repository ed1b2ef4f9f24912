"""A person's answers on the pairs of a synthetic run: given one by one, kept in one file, undone one by one.

Pairs come in the order of the audit's own ``review.csv``: those singled out or confirmed by alignment first, and the
most similar of each part before others. Rows with the same two contents are one pair, which is judged once.

Every answer is written at once to `FILE` in the run folder, which ``--review`` reads. It holds the judged pairs alone,
so an answer costs the same whatever the size of the set. Answers in the run's ``--review`` or written by hand in
its ``review.csv`` are taken over; neither file is changed.
"""

import getpass
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.comparison.review_files import ANSWERS, COLUMNS, CONFIRM, DISMISS, Judgement
from memorisk.images.columns import read_described
from memorisk.report.stored_columns import Columns
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.locks import ANSWERS_LOCK, folder_lock
from memorisk.runs.tables import write_csv

FILE = "reviewed.csv"
"""Name of the file of answers from the viewer, in the run folder."""
_LONGEST = 500  # largest number of letters of a reason or a name


@dataclass(frozen=True)
class Progress:
    """Progress of a review, in pairs."""

    pairs: int
    confirmed: int
    dismissed: int

    @property
    def open(self) -> int:
        """Return the number of pairs that are not judged yet."""
        return self.pairs - self.confirmed - self.dismissed


class PairReview:
    """Pairs of a run of ``audit synthetic``, with the answers to them.

    Args:
        folder: Path of the run folder.

    Raises:
        InputError: The run has no table of pairs, or an answer in it is invalid.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tables" / "review.parquet"
        if not path.is_file():
            raise InputError(f"{one_line(folder)} holds no pairs to judge: it is not a finished run of audit synthetic")
        self.folder, self.path, self._lock = folder, folder / FILE, threading.RLock()
        self.columns = Columns(path)
        self.score = self.columns.numbers("score")
        of, names = self.columns.codes("pair")
        codes, first = pd.factorize(of)
        self.keys: list[str] = [names[code] for code in first]
        order = np.argsort(codes, kind="stable")
        self._rows, self._starts = order, np.searchsorted(codes[order], np.arange(len(first) + 1))
        verdict, words = self.columns.codes("verdict")
        filled = np.flatnonzero(np.isin(verdict, [code for code, word in enumerate(words) if word.strip()]))
        self.before = self._said({name: self.columns.texts(name, filled) for name in ("pair", *ANSWERS)})
        self._base = {**self.before, **self._by_hand()}
        self._own: dict[str, Judgement] = {}
        self._seen: tuple[int, int] | None = None
        self._refresh()

    def __len__(self) -> int:
        """Return the number of pairs, each content once."""
        return len(self.keys)

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Return the places of pairs by their keys."""
        return {key: place for place, key in enumerate(self.keys)}

    def rows(self, place: int) -> np.ndarray:
        """Return the rows of the table that belong to this pair."""
        return self._rows[self._starts[place] : self._starts[place + 1]]

    def text(self, place: int, column: str) -> str:
        """Return a column of a pair's first row."""
        return self.columns.text(column, self.rows(place)[0])

    def images(self, place: int) -> tuple[str, str]:
        """Return the synthetic and the training image of a pair."""
        return self.text(place, "synthetic_image"), self.text(place, "training_image")

    def answers(self) -> dict[str, Judgement]:
        """Return the answers to pairs, by key; the last answer last."""
        return {key: answer for key, answer in self._base.items() if key not in self._own} | self._own

    def answer(self, place: int) -> Judgement | None:
        """Return the answer to a pair."""
        key = self.keys[place]
        return self._own.get(key) or self._base.get(key)

    @property
    def progress(self) -> Progress:
        """Count judged and open pairs."""
        verdicts = [answer.verdict for answer in self.answers().values()]
        return Progress(len(self), verdicts.count(CONFIRM), verdicts.count(DISMISS))

    @property
    def last(self) -> Judgement | None:
        """Return the last dismissal, since the next one often has the same reason."""
        return next((answer for answer in reversed(self.answers().values()) if answer.verdict == DISMISS), None)

    @property
    def reviewer(self) -> str:
        """Return the name of the person who judges: as in the last answer, else the user of this machine."""
        name = next((name.by for name in reversed(self.answers().values()) if name.by), "")
        if name:
            return name
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return ""

    def next_open(self, after: int) -> int | None:
        """Return the next pair without an answer, from the first again after the last; None where all have one."""
        answers, n = self.answers(), len(self)
        return next((at % n for at in range(after + 1, after + 1 + n) if self.keys[at % n] not in answers), None)

    def judge(self, key: str, verdict: str, by: str, reason: str) -> None:
        """Keep an answer to a pair.

        Args:
            key: Key of the pair.
            verdict: Answer: "confirm" or "dismiss".
            by: Name of the person who answers.
            reason: Reason of the answer.

        Raises:
            InputError: The pair or the answer does not exist, or a dismissal lacks a name or a reason.
        """
        if key not in self.place_of:
            raise InputError("this run has no such pair")
        if verdict not in (CONFIRM, DISMISS):
            raise InputError("say confirm or dismiss")
        by, reason = one_line(by.strip(), _LONGEST), one_line(reason.strip(), _LONGEST)
        if verdict == DISMISS and not (by and reason):
            raise InputError("a dismissed pair needs who dismissed it and why")
        with self._held():
            self._own.pop(key, None)
            self._own[key] = Judgement(verdict, by, reason)
            self._write()
            if self._read(self.path).get(key) != self._own[key]:
                raise InputError(f"{one_line(self.path)} does not hold the answer: give it again")

    def undo(self) -> str | None:
        """Undo the last answer of this file; return the pair's key, None where the file has none."""
        with self._held():
            if not self._own:
                return None
            key = next(reversed(self._own))
            del self._own[key]
            self._write()
            return key

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the file against threads and other viewers, with their answers read."""
        with self._lock, folder_lock(self.folder, name=ANSWERS_LOCK, wait=True):
            for partial in self.folder.glob(f".{FILE}.*.part"):  # left by a viewer that was killed
                partial.unlink(missing_ok=True)
            self._seen = None
            self._refresh()
            yield

    def _write(self) -> None:
        """Write all answers, one row for each row of the table; the file is removed with its last answer."""
        answers = self.answers()
        if not self._own:
            self.path.unlink(missing_ok=True)
            self._seen = None
            return
        rows = [(row, judgements) for key, judgements in answers.items() for row in self.rows(self.place_of[key])]
        at = np.array([row for row, _ in rows], dtype=np.int64)
        table = pd.DataFrame({name: self.columns.texts(name, at) for name in COLUMNS})
        table["score"] = [None if np.isnan(value) else float(f"{value:.6g}") for value in self.score[at]]
        judgements = {name: [getattr(answer, name) for _, answer in rows] for name in ANSWERS}
        write_csv(self.path, table.assign(**judgements).loc[:, list(COLUMNS)])
        self._seen = self._stamp()

    def _refresh(self) -> None:
        """Read the file again where another process, or a person, wrote it meanwhile."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen, self._own = stamp, {}
        if stamp is not None:
            answers = self._read(self.path)
            self._own = {key: answer for key, answer in answers.items() if self._base.get(key) != answer}

    def _stamp(self) -> tuple[int, int] | None:
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size

    def _by_hand(self) -> dict[str, Judgement]:
        """Read the answers that a person wrote into ``review.csv`` and the numbered files after it."""
        answers: dict[str, Judgement] = {}
        for path in sorted(self.folder.glob("review*.csv")):
            if path.name == "review.csv" or path.stem.removeprefix("review-").isdigit():
                answers |= self._read(path)
        return answers

    def _read(self, path: Path) -> dict[str, Judgement]:
        """Return the answers in a file on pairs of this run.

        Raises:
            InputError: The file cannot be read, or lacks a column.
        """
        table = read_described(path, quoted=True)
        lacking = [name for name in ("pair", *ANSWERS) if name not in table]
        if lacking:
            raise InputError(
                f"{one_line(path)} is not a review of pairs: it lacks the column {lacking[0]}; move it away"
            )
        return self._said({name: table[name].astype(str).tolist() for name in ("pair", *ANSWERS)})

    def _said(self, columns: Mapping[str, Sequence[str]]) -> dict[str, Judgement]:
        """Return answers by key; rows without one, and pairs of other runs, are skipped."""
        judgements: dict[str, Judgement] = {}
        for pair, *values in zip(*(columns[name] for name in ("pair", *ANSWERS)), strict=True):
            key, (verdict, by, reason) = pair.strip(), (word.strip() for word in values)
            if verdict.lower() in (CONFIRM, DISMISS) and key in self.place_of:
                judgements[key] = Judgement(verdict.lower(), by, reason)
        return judgements
