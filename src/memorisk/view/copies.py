"""A check of images as its page needs it: sets of copies side by side, a page of them at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from memorisk.audits.image_set.page import WHAT
from memorisk.audits.image_set.run import TABLES
from memorisk.audits.image_set.tables import NEAR, ROLES
from memorisk.view.columns import Columns
from memorisk.view.images import CLASSIFIED, RunImages

PER_PAGE = 12  # sets
ALONE_PER_PAGE = 48  # images of a set that is shown alone
_MOST_PICTURES = 6  # of a set among others
_CROSSED = {"group": "patients", "split": "splits", "label": "labels"}


@dataclass(frozen=True)
class CopyFilters:
    """Which sets of copies are shown."""

    across: str = ""
    """Those across this role, one of `ROLES`; empty for all."""
    kind: str = ""
    """Those of this kind, as in `WHAT`; empty for all."""
    alone: int | None = None
    """This set alone, by its number, with all its images."""

    @property
    def address(self) -> str:
        """Return the query of a page with these filters."""
        given = {"across": self.across, "kind": self.kind} if self.alone is None else {"set": self.alone}
        return urlencode(given)


@dataclass(frozen=True)
class CopiedImage:
    """An image of a set of copies."""

    image: str
    address: str
    """Of its pixels; empty where they cannot be shown."""
    why: str
    """Why they cannot be shown."""
    path: str
    label: str
    group: str
    """Empty where it stands for itself."""
    split: str


@dataclass(frozen=True)
class CopySet:
    """A set of copies."""

    number: int
    what: str
    across: str
    """In what its images differ, in words; patients are left out where none are given."""
    similarity: str
    n_images: int
    images: tuple[CopiedImage, ...]
    differs: frozenset[str]
    """The roles in which its images differ."""


class CheckRun:
    """A finished run of ``images check``.

    Args:
        folder: The run folder.
        config: Its settings.
        address: Of its pages.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], address: str) -> None:
        self.address = address
        self.images = RunImages(folder, config, {CLASSIFIED: "images"})
        self._rows = Columns(folder / TABLES / "sets.parquet")
        number = self._rows.numbers("set")
        self._first = np.flatnonzero(np.diff(number, prepend=-1.0))  # the rows of a set follow one another
        self._size = np.diff(self._first, append=len(number))
        across, self._kind = (
            np.array(self._rows.texts(name, self._first), dtype=object) for name in ("across", "kind")
        )
        given = np.array(self._rows.texts("group")) != np.array(self._rows.texts("image"))
        self._crossed = [
            frozenset(
                role for role in ROLES if role in text.split(", ") and (role != "group" or given[first:end].any())
            )
            for text, first, end in zip(across, self._first, self._first + self._size, strict=True)
        ]  # an image without a patient id is its own group, which tells nothing of people

    def __len__(self) -> int:
        """The number of sets."""
        return len(self._first)

    def crossing(self, role: str) -> np.ndarray:
        """Return [sets] whether images of a set differ in a role; in groups only where a patient is known."""
        return np.array([role in roles for roles in self._crossed], dtype=bool)

    def choices(self) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, int]]]:
        """List what sets can be chosen by, as (value, words, sets): the roles, and the kinds."""
        across = [(role, text, int(self.crossing(role).sum())) for role, text in _CROSSED.items()]
        kinds = [(kind, words, int((self._kind == kind).sum())) for kind, words in WHAT.items()]
        return [one for one in across if one[2]], [one for one in kinds if one[2]]

    def chosen(self, filters: CopyFilters) -> np.ndarray:
        """The sets that are shown, as places from 0, the gravest first."""
        keep = np.ones(len(self), dtype=bool)
        if filters.across in ROLES:
            keep &= self.crossing(filters.across)
        if filters.kind in WHAT:
            keep &= self._kind == filters.kind
        if filters.alone is not None:
            keep &= np.arange(1, len(self) + 1) == filters.alone
        return np.flatnonzero(keep)

    def size(self, place: int) -> int:
        """The number of images of a set."""
        return int(self._size[place])

    def sets(self, places: np.ndarray) -> list[CopySet]:
        """Some sets, each with its first images."""
        return [self.set(place, 0, _MOST_PICTURES) for place in places.tolist()]

    def set(self, place: int, first: int, most: int) -> CopySet:
        """A set with some of its images.

        Args:
            place: Of the set, from 0.
            first: Of its images, from 0.
            most: How many of them.
        """
        size, row, crossed = self.size(place), int(self._first[place]), self._crossed[place]
        kind = str(self._kind[place])
        similarity = self._rows.text("similarity", row) if kind == NEAR else ""
        return CopySet(
            number=place + 1,
            what=WHAT.get(kind, kind),
            across=", ".join(text for role, text in _CROSSED.items() if role in crossed),
            similarity=f"{float(similarity):.3f}" if similarity else "",
            n_images=size,
            images=tuple(self._image(row + each) for each in range(first, min(first + most, size))),
            differs=crossed,
        )

    def _image(self, row: int) -> CopiedImage:
        """The image of a row of the table of sets."""
        name, path, label, group, split = (
            self._rows.text(column, row) for column in ("image", "path", "label", "group", "split")
        )
        found = self.images.row(CLASSIFIED, name)
        address = "" if found is None else f"{self.address}/image/{CLASSIFIED}/{found}"
        why = "" if address else self.images.reason(CLASSIFIED) or "no longer in the data"
        return CopiedImage(name, address, why, path, label, "" if group == name else group, split)
