"""A classifier run as its pages need it: classes, and patients with their images, their losses and their marks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from memorisk.audits.classifier.marks import FILE, MARKS, read_marks
from memorisk.audits.classifier.pages.strips import Strip, read_strips
from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.audits.run_images import CLASSIFIED, CLASSIFIED_SOURCES
from memorisk.report.columns import booleans, column_numbers, column_texts, decimal, probability
from memorisk.report.flagged import flagged_counts
from memorisk.report.result import from_storable
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, read_table
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.view.images import ViewedImages

PER_PAGE = 12
_MOST_PICTURES = 6  # pictures of one patient


@dataclass(frozen=True)
class Filters:
    """Filters that choose the patients to show."""

    label: str = ""
    """Class of the patients; empty for all."""
    flagged: bool = True
    """Whether only flagged patients are shown."""
    least: float | None = None
    """Least M of the patients; None for all."""

    def address(self, **changes: Any) -> str:
        """Return the query of a page with these filters, some of them changed."""
        query = {"label": self.label, "flagged": int(self.flagged), "from": "" if self.least is None else self.least}
        return urlencode({**query, **changes}, errors="surrogatepass")


@dataclass(frozen=True)
class ClassBar:
    """Bar of a class in the chart."""

    label: str
    flagged: str
    mean: str
    limits: str
    query: str
    bar: tuple[float, float]
    """Start and width of the interval, in per cent of the chart."""
    dot: float
    zero: float
    chosen: bool


@dataclass(frozen=True)
class Picture:
    """Image of a patient, with its address or the reason why it is missing."""

    image: str
    address: str
    path: str
    why: str


@dataclass(frozen=True)
class Card:
    """Card of a patient in the grid."""

    label: str
    group: str
    m: str
    p: str
    flagged: bool
    n_images: int
    pictures: tuple[Picture, ...]
    strips: tuple[Strip, ...]
    marks: tuple[str, ...]


class ClassifierRun:
    """Finished run of ``audit classifier`` or ``audit losses``.

    Args:
        folder: Path of the run folder.
        config: Settings of the run.
        address: Address of its pages.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], address: str) -> None:
        self.folder, self.address = folder, address
        self.images = ViewedImages(folder, config, CLASSIFIED_SOURCES)
        self.groups = from_storable(read_table(folder / "per_group.parquet"))
        self.classes = from_storable(read_table(folder / "per_class.parquet"))
        lacking = [name for name in ("label", "group", "M", "flagged") if name not in self.groups]
        if lacking:
            raise InputError(f"{one_line(folder)} lists no patients: its table lacks {lacking[0]}")
        self._label = np.array(column_texts(self.groups, "label"), dtype=object)
        self._group = np.array(column_texts(self.groups, "group"), dtype=object)
        self._m = column_numbers(self.groups, "M")
        self._flagged = booleans(self.groups, "flagged")
        self._order = np.argsort(-np.nan_to_num(self._m, nan=-np.inf), kind="stable")

    @property
    def links(self) -> list[tuple[str, str, str]]:
        """Return the further pages of the run: address, name and content of each."""
        return [(f"{self.address}/patients", "Look at the patients", "classes, images, losses and marks")]

    @cached_property
    def _items(self) -> dict[tuple[str, str], list[str]]:
        """Return the images of each class and patient, those with the largest M first."""
        table = from_storable(read_table(self.folder / "per_image.parquet"))
        table = table.sort_values("M", ascending=False, kind="stable")
        images: dict[tuple[str, str], list[str]] = {}
        for label, group, image in zip(*(column_texts(table, c) for c in ("label", "group", "image")), strict=True):
            images.setdefault((label, group), []).append(image)
        return images

    @cached_property
    def _units(self) -> UnitNames:
        """Return the name of a group, and the scale of the losses."""
        return ClassifierSummary.read(read_json(self.folder / "summary.json")).units

    def chosen(self, filters: Filters) -> np.ndarray:
        """Return the rows of the patients to show, the largest M first."""
        keep = np.ones(len(self._order), dtype=bool)
        if filters.flagged:
            keep &= self._flagged
        if filters.label:
            keep &= self._label == filters.label
        if filters.least is not None:
            keep &= self._m >= filters.least
        return self._order[keep[self._order]]

    @property
    def any_flagged(self) -> bool:
        """Return whether any patient is flagged."""
        return bool(self._flagged.any())

    def chart(self, filters: Filters) -> list[ClassBar]:
        """Return every class with its mean M and interval, the largest first."""
        table = self.classes
        labels, mean = column_texts(table, "label"), column_numbers(table, "mean")
        low, high = column_numbers(table, "low"), column_numbers(table, "high")
        flagged = flagged_counts(table)
        ends = np.concatenate([mean, low, high, [0.0]])
        ends = ends[np.isfinite(ends)]
        first, width = float(ends.min()), float(ends.max() - ends.min()) or 1.0
        bars = []
        for row in np.argsort(-np.nan_to_num(mean, nan=-np.inf), kind="stable"):
            measurable = np.isfinite([mean[row], low[row], high[row]]).all()
            at = [100 * (float(v) - first) / width if measurable else 0.0 for v in (low[row], high[row], mean[row])]
            bars.append(
                ClassBar(
                    label=labels[row],
                    flagged="" if not np.isfinite(flagged[row]) else f"{int(flagged[row]):,}",
                    mean="not measurable" if not np.isfinite(mean[row]) else decimal(mean[row]),
                    limits=f"[{decimal(low[row])}, {decimal(high[row])}]" if measurable else "",
                    query=filters.address(label=labels[row], page=1),
                    bar=(round(at[0], 2), round(at[1] - at[0], 2)),
                    dot=round(at[2], 2),
                    zero=round(100 * (0.0 - first) / width, 2),
                    chosen=labels[row] == filters.label,
                )
            )
        return bars

    def cards(self, rows: np.ndarray) -> list[Card]:
        """Return the patients of some rows."""
        patients = [(str(self._label[row]), str(self._group[row])) for row in rows]
        images_of = {patient: self._items.get(patient, [])[:_MOST_PICTURES] for patient in patients}
        names = [image for images in images_of.values() for image in images]
        strips = read_strips(self.folder, names, self._units.loss_scale)
        marks = read_marks(self.folder)
        p, n_images = column_numbers(self.groups, "p_value"), column_numbers(self.groups, "n_images")
        return [
            Card(
                label=label,
                group=group,
                m="not measurable" if np.isnan(self._m[row]) else decimal(self._m[row]),
                p="" if np.isnan(p[row]) else probability(p[row]),
                flagged=bool(self._flagged[row]),
                n_images=0 if np.isnan(n_images[row]) else int(n_images[row]),
                pictures=tuple(self._picture(image) for image in images_of[label, group]),
                strips=tuple(strips[label, image] for image in images_of[label, group] if (label, image) in strips),
                marks=marks.get((label, group), ()),
            )
            for row, (label, group) in zip(rows, patients, strict=True)
        ]

    def known(self, label: str, group: str) -> bool:
        """Return whether the run has such a patient in such a class."""
        return bool(((self._label == label) & (self._group == group)).any())

    @property
    def file(self) -> Path:
        """Return the path of the file of marks."""
        return self.folder / FILE

    @property
    def marks(self) -> tuple[str, ...]:
        """Return the marks that a patient may get."""
        return MARKS

    def _picture(self, image: str) -> Picture:
        row = self.images.row(CLASSIFIED, image)
        if row is None:
            return Picture(image, "", "", self.images.reason(CLASSIFIED) or "not found")
        part = self.images.part(CLASSIFIED)
        return Picture(image, f"{self.address}/image/{CLASSIFIED}/{row}", part.file(row), "")
