"""Judgements of pairs by a person, honoured by every later audit.

A pair is identified by the pixels of both images: names, places, order and form of the files may change. The audit
requests a new judgement of an image that has other pixels under its name. A dismissed pair does not count as a copy,
and the next image in its place is looked at. A confirmed one is a copy for certain.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from memorisk.audits.compared_images import COMPARED, ComparedImages
from memorisk.audits.comparison.review_files import (
    BETWEEN,
    CONFIRM,
    DISMISS,
    Contents,
    JudgedLine,
    Judgement,
    judged_lines,
)
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line


@dataclass(frozen=True)
class ChangedPair:
    """Judged pair of which an image has other pixels now."""

    synthetic: int
    """Row of the synthetic image."""
    train: int
    """Row of the training image."""
    verdict: str
    """Verdict on the earlier pixels, which does not count."""


@dataclass(frozen=True, eq=False)
class Review:
    """Judgements of pairs, as far as they are about the images of an audit."""

    judged: Mapping[Contents, Judgement] = field(default_factory=dict)
    """Judgements by the contents of both images."""
    changed: tuple[ChangedPair, ...] = ()
    """Pairs that need a new judgement."""
    elsewhere: tuple[Mapping[str, str], ...] = ()
    """Rows of judged pairs that are not in these sets, for later audits."""

    @cached_property
    def dismissed(self) -> frozenset[Contents]:
        """Pairs that a person dismissed as copies."""
        return self._of(DISMISS)

    @cached_property
    def confirmed(self) -> frozenset[Contents]:
        """Pairs that a person confirmed as copies."""
        return self._of(CONFIRM)

    def left_of(self, sets: Sets) -> Iterator[tuple[int, np.ndarray]]:
        """Yield training images of dismissed pairs, each with the rows of the synthetic images that are left for it."""
        apart: dict[str, set[str]] = {}
        for synthetic, real in self.dismissed:
            apart.setdefault(real, set()).add(synthetic)
        for row, value in enumerate(sets.train.pixel_hashes):
            if value in apart:
                yield row, np.flatnonzero([synthetic not in apart[value] for synthetic in sets.synthetic.pixel_hashes])

    def left_for(self, sets: Sets) -> Iterator[tuple[int, np.ndarray]]:
        """Yield synthetic images of dismissed pairs, each with the rows of the training images that are left for it."""
        apart: dict[int, list[int]] = {}
        for synthetic_row, real in self.pairs(sets, self.dismissed):
            apart.setdefault(synthetic_row, []).append(real)
        for synthetic_row, dismissed in apart.items():
            yield synthetic_row, np.delete(np.arange(len(sets.train.pixel_hashes)), dismissed)

    def pairs(self, sets: Sets, which: frozenset[Contents]) -> list[tuple[int, int]]:
        """Return rows of the synthetic and training images of judged pairs; every image of that content."""
        synthetic_rows, real = (_rows_by_content(store.pixel_hashes) for store in (sets.synthetic, sets.train))
        return sorted((s, r) for a, b in which for s in synthetic_rows.get(a, ()) for r in real.get(b, ()))

    def _of(self, verdict: str) -> frozenset[Contents]:
        return frozenset(pair for pair, judgement in self.judged.items() if judgement.verdict == verdict)


NO_REVIEW = Review()


def pair_keys(pairs: list[Contents], names: Pseudonyms) -> np.ndarray:
    """Return the keys of pairs in a review file, [P]: the hashes of both contents, keyed where ids are replaced."""
    synthetic_names, real = (names.names([pair[side] for pair in pairs]) for side in (0, 1))
    return np.array([f"{a}{BETWEEN}{b}" for a, b in zip(synthetic_names, real, strict=True)], dtype=object)


def read_review(path: Path | None, sets: Sets, names: Pseudonyms) -> Review:
    """Read the judgements of filled review files on the pairs of these sets.

    Args:
        path: Path as for `judged_lines`; None for no review.
        sets: The images of the audit.
        names: Names of the images in the files.

    Raises:
        InputError: The file does not exist, none of its rows is about these sets, a verdict is neither confirm nor
            dismiss, a dismissal lacks who or why, two rows of a file contradict each other, or the training image of a
            confirmed pair is missing.
    """
    if path is None:
        return NO_REVIEW
    lines, reviewed = judged_lines(path), _reviewed_pixels(path)
    synthetic, real = _Part.of(sets.synthetic, names), _Part.of(sets.train, names)
    judged: dict[Contents, Judgement] = {}
    changed: dict[tuple[int, int], ChangedPair] = {}
    elsewhere: list[Mapping[str, str]] = []
    unknown = 0
    for line in lines:
        first = synthetic.find(line.contents[0], line.row["synthetic_image"], () if line.is_elsewhere else reviewed)
        second = real.find(line.contents[1], line.row["training_image"])
        unknown += first is None and second is None
        if first is None or second is None:
            elsewhere.append(_without_image(line, first))
        elif line.contents[0] in synthetic.by_content and line.contents[1] in real.by_content:
            judged[synthetic.hashes[first], real.hashes[second]] = line.said
        else:
            elsewhere.append(line.row)
            if (first, second) not in changed or line.said.verdict == CONFIRM:
                changed[first, second] = ChangedPair(first, second, line.said.verdict)
    if lines and unknown == len(lines):
        raise InputError(
            f"{one_line(path)} judges no image of these sets: give the review of this set (with --pseudonymise, one "
            "made under the same key)"
        )
    anew = [pair for (a, b), pair in changed.items() if (synthetic.hashes[a], real.hashes[b]) not in judged]
    return Review(judged, tuple(anew), tuple(elsewhere))


def _without_image(line: JudgedLine, synthetic: int | None) -> Mapping[str, str]:
    """Return the row of a pair that is not in the sets, for later ones.

    Args:
        line: Judged line of the pair.
        synthetic: Row of its synthetic image; None where it is not there, and another image may have its name next.

    Raises:
        InputError: The synthetic image of a confirmed pair is there, and the image that it copies is missing.
    """
    if synthetic is None:
        return {**line.row, "synthetic_image": ""}
    if line.said.verdict == CONFIRM:
        image, source = (one_line(line.row[name], 60) for name in ("synthetic_image", "training_image"))
        raise InputError(
            f"{line.where}: the synthetic image {image!r} was confirmed as a copy of {source!r}, which is not among "
            "these training images: give those of that review, or take the line out"
        )
    return line.row


def _reviewed_pixels(path: Path) -> frozenset[str]:
    """Return hashes of the reviewed run's synthetic images; none without its listing in the folder of the review.

    An image of that set under the name of another one was renamed, and not changed.
    """
    folder = path if path.is_dir() else path.parent
    return frozenset(ComparedImages.read(folder).pixels) if (folder / COMPARED).is_file() else frozenset()


@dataclass(frozen=True, eq=False)
class _Part:
    """Images of a set, indexed as a review names them."""

    hashes: np.ndarray
    by_content: Mapping[str, int]
    """First row of each content, by its key."""
    by_name: Mapping[str, int]

    @classmethod
    def of(cls, store: ImageStore, names: Pseudonyms) -> "_Part":
        """Look at the images of a store."""
        rows = range(len(store.pixel_hashes))
        keys = names.names(store.pixel_hashes)
        by_name = dict(zip(names.names(store.manifest.images), rows, strict=True))
        return cls(store.pixel_hashes, dict(zip(keys[::-1], reversed(rows), strict=True)), by_name)

    def find(self, content: str, name: str, reviewed: Container[str] = ()) -> int | None:
        """Return the row of an image by its content, or of the image that has its name now; None for neither.

        Args:
            content: Key of the pixels that were judged.
            name: Name of the image then.
            reviewed: Hashes of pixels that had another name then.
        """
        if content in self.by_content:
            return self.by_content[content]
        row = self.by_name.get(name)
        return None if row is None or self.hashes[row] in reviewed else row


def _rows_by_content(hashes: np.ndarray) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(hashes):
        rows.setdefault(str(value), []).append(row)
    return rows
