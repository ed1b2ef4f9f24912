"""A check of images as its page needs it: sets of copies side by side, one page of them at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from memorisk.audits.image_set.page import WHAT
from memorisk.audits.image_set.run import TABLES
from memorisk.audits.image_set.tables import NEAR, ROLES
from memorisk.audits.run_images import CLASSIFIED, CLASSIFIED_SOURCES
from memorisk.report.stored_columns import Columns
from memorisk.runs.errors import plural
from memorisk.view.images import ViewedImages

PER_PAGE = 12  # sets on a page
ALONE_PER_PAGE = 48  # images on a page of a set that is shown alone
_MOST_PICTURES = 6  # pictures of a set among others
_CROSSED = {"group": "patients", "split": "splits", "label": "labels"}


@dataclass(frozen=True)
class CopyFilters:
    """Filters that choose the sets of copies to show."""

    across: str = ""
    """Role that the sets must cross, one of `ROLES`; empty for all."""
    kind: str = ""
    """Kind of the sets, as in `WHAT`; empty for all."""
    alone: int | None = None
    """Number of the only set to show, with all its images."""

    @property
    def address(self) -> str:
        """Return the query of a page with these filters."""
        query = {"across": self.across, "kind": self.kind} if self.alone is None else {"set": self.alone}
        return urlencode(query)


@dataclass(frozen=True)
class CopiedImage:
    """Image of a set of copies."""

    image: str
    address: str
    """Address of its pixels; empty where they cannot be shown."""
    why: str
    """Reason why the pixels cannot be shown."""
    path: str
    label: str
    group: str
    """Group of the image; empty where the image is its own group."""
    split: str


@dataclass(frozen=True)
class CopySet:
    """Set of copies, with some of its images."""

    number: int
    what: str
    across: str
    """Roles in which its images differ, in words; patients are left out where none are given."""
    similarity: str
    n_images: int
    images: tuple[CopiedImage, ...]
    differs: frozenset[str]
    """Roles in which its images differ."""


class CheckRun:
    """Finished run of ``images check``, with its sets of copies.

    Args:
        folder: Path of the run folder.
        config: Settings of the run.
        address: Address of its pages.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], address: str) -> None:
        self.address = address
        self.images = ViewedImages(folder, config, CLASSIFIED_SOURCES)
        self._rows = Columns(folder / TABLES / "sets.parquet")
        number = self._rows.numbers("set")
        self._first = np.flatnonzero(np.diff(number, prepend=-1.0))  # the rows of a set follow one another
        self._size = np.diff(self._first, append=len(number))
        across, self._kind = (
            np.array(self._rows.texts(name, self._first), dtype=object) for name in ("across", "kind")
        )
        has_group = np.array(self._rows.texts("group")) != np.array(self._rows.texts("image"))
        self._crossed = [
            frozenset(
                role for role in ROLES if role in text.split(", ") and (role != "group" or has_group[first:end].any())
            )
            for text, first, end in zip(across, self._first, self._first + self._size, strict=True)
        ]  # an image without a patient id is its own group, which gives no information on people

    @property
    def links(self) -> list[tuple[str, str, str]]:
        """Return the further pages of the run: address, name and content of each."""
        more = f"{plural(len(self), 'set', 'sets')} of equal images and near copies"
        return [(f"{self.address}/copies", "Look at the copies", more)]

    def __len__(self) -> int:
        """Return the number of sets."""
        return len(self._first)

    def crossing(self, role: str) -> np.ndarray:
        """Return [sets] whether images of a set differ in a role; in groups only where a patient is known."""
        return np.array([role in roles for roles in self._crossed], dtype=bool)

    def choices(self) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, int]]]:
        """List the values by which sets can be chosen, as (value, words, sets): the roles, and the kinds."""
        across = [(role, text, int(self.crossing(role).sum())) for role, text in _CROSSED.items()]
        kinds = [(kind, words, int((self._kind == kind).sum())) for kind, words in WHAT.items()]
        return [one for one in across if one[2]], [one for one in kinds if one[2]]

    def chosen(self, filters: CopyFilters) -> np.ndarray:
        """Return the sets to show, as places from 0, the gravest first."""
        keep = np.ones(len(self), dtype=bool)
        if filters.across in ROLES:
            keep &= self.crossing(filters.across)
        if filters.kind in WHAT:
            keep &= self._kind == filters.kind
        if filters.alone is not None:
            keep &= np.arange(1, len(self) + 1) == filters.alone
        return np.flatnonzero(keep)

    def size(self, place: int) -> int:
        """Return the number of images of a set."""
        return int(self._size[place])

    def sets(self, places: np.ndarray) -> list[CopySet]:
        """Return some sets, each with its first images."""
        return [self.set(place, 0, _MOST_PICTURES) for place in places.tolist()]

    def set(self, place: int, first: int, most: int) -> CopySet:
        """Return a set with some of its images.

        Args:
            place: Place of the set, from 0.
            first: Place of the first of its images to return, from 0.
            most: Largest number of images to return.
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
        """Return the image of a row of the table of sets."""
        name, path, label, group, split = (
            self._rows.text(column, row) for column in ("image", "path", "label", "group", "split")
        )
        row_of_image = self.images.row(CLASSIFIED, name)
        address = "" if row_of_image is None else f"{self.address}/image/{CLASSIFIED}/{row_of_image}"
        why = "" if address else self.images.reason(CLASSIFIED) or "no longer in the data"
        return CopiedImage(name, address, why, path, label, "" if group == name else group, split)
