"""What is wrong with a feature matrix, found before anything is measured in it."""

from dataclasses import dataclass, replace

import numpy as np

from memorisk.images.manifest import listed
from memorisk.runs.errors import InputError, one_line, several

_AT_ONCE = 1 << 22  # values
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class FeatureChecks:
    """Rows and columns that measures of distance stumble on.

    Attributes:
        not_finite: Rows with a NaN or an infinity.
        constant_rows: Finite rows whose numbers are all the same (d > 1): correlation is undefined there, and cosine
            where they are zero.
        constant_columns: Columns with one value in all finite rows (of two at least): a standardised distance divides
            by their deviation, 0.
    """

    not_finite: np.ndarray
    constant_rows: np.ndarray
    constant_columns: np.ndarray

    def of_rows(self, rows: np.ndarray) -> "FeatureChecks":
        """Those of chosen rows [n], by their places among these; columns stay as judged on all."""
        return replace(
            self,
            not_finite=np.flatnonzero(np.isin(rows, self.not_finite)),
            constant_rows=np.flatnonzero(np.isin(rows, self.constant_rows)),
        )

    def sentences(self, ids: np.ndarray, dimension: int) -> list[str]:
        """What a report must say, a sentence each; none where nothing was found."""
        said = []
        if n := len(self.not_finite):
            which = listed(ids[self.not_finite])
            said.append(f"{several(n, 'image has', 'images have')} features that are not finite ({which}).")
        if n := len(self.constant_rows):
            which = listed(ids[self.constant_rows])
            said.append(f"{several(n, 'image has', 'images have')} features that are all one number ({which}).")
        if n := len(self.constant_columns):
            said.append(f"{n:,} of {dimension:,} features are the same for every image.")
        return said


def check_values(values: np.ndarray, name: str, *, n_distinct: int | None = None) -> FeatureChecks:
    """Look through a feature matrix, a few megabytes at a time.

    Args:
        values: [N, d], perhaps on the disk.
        name: What computed it.
        n_distinct: Images with different pixels, if known; a single one cannot give different features.

    Raises:
        InputError: No row is finite, or all finite rows are the same: to 1e-6 of the largest number, and with images
            that differ.
    """
    n, d = values.shape
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    finite, constant = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    step = max(1, _AT_ONCE // max(d, 1))
    for start in range(0, n, step):
        block = np.asarray(values[start : start + step])
        good = np.isfinite(block).all(axis=1)
        finite[start : start + step] = good
        if d > 1:
            constant[start : start + step] = good & (block == block[:, :1]).all(axis=1)
        if good.any():
            low = np.minimum(low, block[good].min(axis=0))
            high = np.maximum(high, block[good].max(axis=0))
    said, judged = one_line(name, 80), int(finite.sum())
    if not judged:
        raise InputError(f"features by {said} are not finite for any of the {n:,} images")
    several = judged > 1 and (n_distinct is None or n_distinct > 1)
    if several and (high - low).max() <= _ROUNDING * max(np.abs(low).max(), np.abs(high).max()):
        raise InputError(f"features by {said} are the same for all {judged:,} images: nothing can be told from them")
    columns = np.flatnonzero(low == high) if several else np.empty(0, dtype=np.int64)
    return FeatureChecks(np.flatnonzero(~finite), np.flatnonzero(constant), columns)
