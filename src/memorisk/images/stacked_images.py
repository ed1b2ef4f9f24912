"""Several arrays of images as one, in any order, without a copy of the pixels; and the middle slices of volumes.

Image stores stay on the disk; the arrays added to them are small. Rows are gathered when a caller requests them.
"""

from collections.abc import Sequence

import numpy as np

from memorisk.images.volumes import middle_slices
from memorisk.runs.errors import InputError


class StackedImages:
    """Several arrays of images [n_i, H, W, C] as one array [N, H, W, C] that only gives rows.

    Args:
        parts: Arrays of one shape of image and one type; may be memory-mapped.
        order: Rows [N] of the parts laid end to end; None for all of them in their order.

    Raises:
        InputError: Shapes or types differ, or an index is out of range.

    Example:
        >>> ones, twos = np.full((2, 1, 1, 1), 1, np.uint8), np.full((1, 1, 1, 1), 2, np.uint8)
        >>> StackedImages([ones, twos], order=np.array([2, 0]))[np.array([0, 1])].ravel()
        array([2, 1], dtype=uint8)
    """

    def __init__(self, parts: Sequence[np.ndarray], order: np.ndarray | None = None) -> None:
        kinds = {(part.shape[1:], part.dtype.str) for part in parts}
        if len(kinds) != 1:
            raise InputError(f"images of {len(kinds)} shapes or types cannot form one array: {sorted(kinds)}")
        self.parts = list(parts)
        self.starts = np.cumsum([0, *(len(part) for part in parts)])
        self.order = np.arange(self.starts[-1]) if order is None else np.asarray(order, dtype=np.int64)
        if len(self.order) and (self.order.min() < 0 or self.order.max() >= self.starts[-1]):
            raise InputError(f"rows of {self.starts[-1]:,} images are requested beyond their number")
        self.shape = (len(self.order), *parts[0].shape[1:])
        self.dtype = parts[0].dtype
        self.ndim = 4

    def __len__(self) -> int:
        return len(self.order)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of all rows."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def take(self, rows: np.ndarray, axis: int = 0, out: None = None, mode: str = "raise") -> np.ndarray:
        """Return some rows [n, H, W, C], as `numpy.take` does along the first axis."""
        if axis != 0 or out is not None or mode != "raise":
            raise InputError("stacked images give rows along their first axis only")
        places = self.order[np.asarray(rows)]
        rows_taken = np.empty((len(places), *self.shape[1:]), dtype=self.dtype)
        part_of = np.searchsorted(self.starts, places, side="right") - 1
        for i in np.unique(part_of):
            here = part_of == i
            rows_taken[here] = self.parts[i][places[here] - self.starts[i]]
        return rows_taken

    def __getitem__(self, rows: np.ndarray | int | slice) -> np.ndarray:
        chosen = np.arange(len(self))[rows]
        return self.take(chosen) if chosen.ndim else self.take(chosen[None])[0]

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype)


class MiddleSlices(StackedImages):
    """Middle slices of volumes [N, S, S, S] as images [3 N, S, S, 1], three of each volume (`middle_slices`).

    Args:
        volumes: Volumes with equal sides; may be memory-mapped, or stacked themselves.

    Example:
        >>> MiddleSlices(np.zeros((5, 8, 8, 8), np.uint8)).shape
        (15, 8, 8, 1)
    """

    PER_VOLUME = 3

    def __init__(self, volumes: "np.ndarray | StackedImages") -> None:
        self.volumes = volumes
        self.order = np.arange(self.PER_VOLUME * len(volumes))
        self.shape = (len(self.order), *volumes.shape[1:3], 1)
        self.dtype = volumes.dtype
        self.ndim = 4

    def take(self, rows: np.ndarray, axis: int = 0, out: None = None, mode: str = "raise") -> np.ndarray:
        """Return some slices [n, S, S, 1], as `StackedImages.take`."""
        numbers, places = np.divmod(self.order[np.asarray(rows)], self.PER_VOLUME)
        slices = np.empty((len(numbers), *self.shape[1:]), dtype=self.dtype)
        for number in np.unique(numbers):
            of_volume = middle_slices(np.asarray(self.volumes[int(number)]))
            for at in np.flatnonzero(numbers == number):
                slices[at] = of_volume[places[at]]
        return slices
