"""The pairs of a filter run: every synthetic image with its nearest training image, those left out first."""

from pathlib import Path

import numpy as np

from memorisk.audits.comparison.review_files import Judgement
from memorisk.audits.filter.wording import PIXELS, REASONS
from memorisk.report.columns import booleans, column_numbers, column_texts
from memorisk.report.result import from_storable
from memorisk.runs.files import read_table


class ScreenedPairs:
    """Pairs of a run of ``filter``; a person does not judge them.

    Args:
        folder: Path of the run folder.
    """

    def __init__(self, folder: Path) -> None:
        table = from_storable(read_table(folder / "per_image.parquet"))
        generated, real = column_texts(table, "image"), column_texts(table, "nearest_image")
        self._image, self._nearest = np.array(generated, dtype=object), np.array(real, dtype=object)
        self._patient = np.array(column_texts(table, "nearest_group"), dtype=object)
        self._reason = np.array(column_texts(table, "reason"), dtype=object)
        self._orientation = np.array(column_texts(table, "orientation"), dtype=object)
        self.score = column_numbers(table, "score")
        margin = np.nan_to_num(self.score - column_numbers(table, "threshold"), nan=-np.inf)
        is_kept = booleans(table, "kept")
        self.n_kept, self.n_left_out = int(is_kept.sum()), int((~is_kept).sum())
        order = np.lexsort((-margin, self._reason != PIXELS, is_kept))
        self._order = order[self._nearest[order] != ""]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._order)

    @property
    def orientations(self) -> dict[tuple[str, str], str]:
        """Return, for pairs with the same pixels, what turns the synthetic image into the training image."""
        turned = [row for row in self._order if self._orientation[row]]
        return {(str(self._image[row]), str(self._nearest[row])): str(self._orientation[row]) for row in turned}

    def rows(self, place: int) -> np.ndarray:
        """Return the row of a pair."""
        return self._order[place : place + 1]

    def images(self, place: int) -> tuple[str, str]:
        """Return the synthetic and the training image of a pair."""
        row = self._order[place]
        return str(self._image[row]), str(self._nearest[row])

    def text(self, place: int, column: str) -> str:
        """Return the data on a pair under the name of a column of a review."""
        row = self._order[place]
        reason = str(self._reason[row])
        why = REASONS.get(reason, reason).rstrip(".")
        values = {
            "found_by": f"left out: {why[:1].lower()}{why[1:]}" if reason else "kept",
            "patient": str(self._patient[row]),
            "alignment": str(self._orientation[row]),
        }
        return values.get(column, "")

    def answer(self, place: int) -> Judgement | None:
        """Return None, since these pairs have no answers."""
        return None
