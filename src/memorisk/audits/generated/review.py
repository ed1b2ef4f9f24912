"""What a person said of pairs: ``review.csv`` of a run, filled with confirm or dismiss, honoured by a later one.

A pair is known by the content of its two images, so that an image that was changed since is asked about again. A
dismissed pair counts as no copy: the next image in its place is looked at. A confirmed one is a copy for certain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.generated.sets import Sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.columns import read_described
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import fingerprint
from memorisk.runs.tables import write_csv

CONFIRM, DISMISS = "confirm", "dismiss"
ANSWERS = ("verdict", "by", "reason")
COLUMNS = ("synthetic_image", "training_image", "patient", "found_by", "score", "alignment", "pair", *ANSWERS)
_MAY_LACK = ("patient", "found_by", "score", "alignment")

Contents = tuple[str, str]
"""Hashes of the pixels of a synthetic and a training image."""


@dataclass(frozen=True)
class Judgement:
    """What a person said of a pair."""

    verdict: str
    """"confirm" or "dismiss"."""
    by: str
    """Who."""
    reason: str
    """Why."""


@dataclass(frozen=True, eq=False)
class Review:
    """What was said of the pairs of these sets."""

    judged: Mapping[Contents, Judgement] = field(default_factory=dict)
    """By content."""
    changed: int = 0
    """Pairs that were judged of images that are other images now: they are asked about again."""
    gone: int = 0
    """Confirmed pairs whose synthetic image is no longer in the set."""

    @cached_property
    def dismissed(self) -> frozenset[Contents]:
        """Pairs that are no copies."""
        return self._of(DISMISS)

    @cached_property
    def confirmed(self) -> frozenset[Contents]:
        """Pairs that are copies."""
        return self._of(CONFIRM)

    def left_of(self, sets: Sets) -> Iterator[tuple[int, np.ndarray]]:
        """Training images of dismissed pairs, each with the rows of the synthetic images that are left for it."""
        apart: dict[str, set[str]] = {}
        for made, real in self.dismissed:
            apart.setdefault(real, set()).add(made)
        for row, value in enumerate(sets.train.pixel_hashes):
            if value in apart:
                yield row, np.flatnonzero([made not in apart[value] for made in sets.synthetic.pixel_hashes])

    def pairs(self, sets: Sets, which: frozenset[Contents]) -> list[tuple[int, int]]:
        """Rows of the synthetic and training images of judged pairs; every image of that content."""
        made, real = (_rows_by_content(store.pixel_hashes) for store in (sets.synthetic, sets.train))
        return sorted((s, r) for a, b in which for s in made.get(a, ()) for r in real.get(b, ()))

    def _of(self, verdict: str) -> frozenset[Contents]:
        return frozenset(pair for pair, said in self.judged.items() if said.verdict == verdict)


NO_REVIEW = Review()


def pair_keys(pairs: list[Contents], names: Pseudonyms) -> np.ndarray:
    """Return the keys of pairs in a review file, [P]: a hash of both contents, keyed where ids are replaced."""
    return names.names([fingerprint(*pair, length=16) for pair in pairs])


def read_review(path: Path | None, sets: Sets, names: Pseudonyms) -> Review:
    """Read what a filled review file says of the pairs of these sets.

    Args:
        path: The file; None for none.
        sets: The images.
        names: As the file has them.

    Raises:
        InputError: It is no such file, a row names images that are not there, a verdict is neither confirm nor
            dismiss, a dismissal lacks who or why, or two rows contradict each other.
    """
    if path is None:
        return NO_REVIEW
    table = _read_review_table(path)
    made, real = (
        dict(zip(names.names(store.manifest.images).tolist(), store.pixel_hashes.tolist(), strict=True))
        for store in (sets.synthetic, sets.train)
    )
    judged: dict[Contents, Judgement] = {}
    changed = gone = 0
    for number, row in enumerate(table.to_dict("records"), start=2):
        said = _judgement(row, f"{one_line(path)}, line {number}")
        if said is None:
            continue
        ids = str(row["synthetic_image"]), str(row["training_image"])
        if ids[0] not in made and said.verdict == CONFIRM and ids[1] in real:
            gone += 1
            continue
        for image, known, what in ((ids[0], made, "synthetic"), (ids[1], real, "training")):
            if image not in known:
                raise InputError(
                    f"{one_line(path)}, line {number}: there is no {what} image {one_line(image, 60)!r} in these sets; "
                    "give the review of this set, or take the line out"
                )
        pair = made[ids[0]], real[ids[1]]
        if pair_keys([pair], names)[0] != str(row["pair"]).strip():
            changed += 1
        elif judged.setdefault(pair, said).verdict != said.verdict:
            raise InputError(f"{one_line(path)}, line {number}: this pair is confirmed in one line and dismissed in "
                             "another; say one of the two")  # fmt: skip
    return Review(judged, changed, gone)


def undismissed_images(source: Path) -> list[str]:
    """Name the synthetic images of all pairs that nobody dismissed, in the order of the files.

    Args:
        source: A review file, or the folder of a run: then all of its review files are read, the viewer's last.

    Raises:
        InputError: There is no such file, or a line cannot be understood.
    """
    files = sorted(source.glob("review*.csv")) if source.is_dir() else [source]
    if not files:
        raise InputError(f"{one_line(source)} holds no review.csv: name the folder of a finished audit synthetic")
    said: dict[str, str | None] = {}
    image: dict[str, str] = {}
    for file in files:
        for number, row in enumerate(_read_review_table(file).to_dict("records"), start=2):
            pair, judged = str(row["pair"]).strip(), _judgement(row, f"{one_line(file)}, line {number}")
            image[pair] = str(row["synthetic_image"])
            said[pair] = said.get(pair) if judged is None else judged.verdict
    return list(dict.fromkeys(image[pair] for pair, verdict in said.items() if verdict != DISMISS))


def _read_review_table(path: Path) -> pd.DataFrame:
    """Read a review file as text.

    Raises:
        InputError: It is no such file.
    """
    table = read_described(path, quoted=True)
    lacking = [name for name in COLUMNS if name not in table and name not in _MAY_LACK]
    if lacking:
        raise InputError(f"{one_line(path)} is no review.csv of an audit: it lacks the column {lacking[0]}")
    return table


def write_review(folder: Path, pairs: pd.DataFrame) -> Path | None:
    """Write the pairs that a person should look at; a file that somebody has begun to fill is never touched.

    What does not stand in a filled ``review.csv`` yet goes to ``review-2.csv``, and so on.

    Args:
        folder: The run folder.
        pairs: A row for each pair, `COLUMNS`.

    Returns:
        The file that holds the pairs that are not judged yet, or all where none was filled before; None where all
        stand in filled ones.
    """
    known: set[str] = set()
    for number in count(1):
        path = folder / ("review.csv" if number == 1 else f"review-{number}.csv")
        filled = _filled_pairs(path)
        if filled is None:
            rest = pairs.loc[[pair not in known for pair in pairs["pair"]]]
            if number > 1 and not len(rest):
                path.unlink(missing_ok=True)
                return None
            score = [None if np.isnan(value) else float(f"{value:.6g}") for value in rest["score"]]
            write_csv(path, rest.assign(score=score).loc[:, list(COLUMNS)])
            return path
        known |= filled
    return None  # pragma: no cover (count never ends)


def _filled_pairs(path: Path) -> set[str] | None:
    """Pairs of a file that somebody wrote into; None where there is none, or it is as the audit wrote it."""
    if not path.exists():
        return None
    try:
        table = read_described(path)
        touched = table.loc[:, list(ANSWERS)].astype(str).apply(lambda column: column.str.strip() != "")
        return set(table["pair"].astype(str).str.strip()) if touched.to_numpy().any() else None
    except (InputError, KeyError):  # saved in another form: somebody's work all the same
        return set()


def _judgement(row: Mapping[Any, Any], where: str) -> Judgement | None:
    """Read a line's verdict; None where it was not filled.

    Raises:
        InputError: Another word, or a dismissal that nobody stands for.
    """
    verdict, by, reason = (str(row[name]).strip() for name in ANSWERS)
    if not verdict:
        return None
    if verdict.lower() not in (CONFIRM, DISMISS):
        raise InputError(f"{where}: {unknown_name('verdict', one_line(verdict, 40), (CONFIRM, DISMISS))}")
    if verdict.lower() == DISMISS and not (by and reason):
        raise InputError(f"{where}: a dismissed pair needs who dismissed it (by) and why (reason)")
    return Judgement(verdict.lower(), by, reason)


def _rows_by_content(hashes: np.ndarray) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, value in enumerate(hashes):
        found.setdefault(str(value), []).append(row)
    return found
