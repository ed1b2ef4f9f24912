"""An array in a compressed file, read as a stream: in order, it costs one decompression and the memory of an image."""

from dataclasses import dataclass
from typing import IO

import numpy as np

from memorisk.runs.errors import InputError, one_line


@dataclass
class ArrayStream:
    """An array in a compressed file; going back restarts the decompression, going on continues it."""

    stream: IO[bytes]
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def __getitem__(self, index: int) -> np.ndarray:
        return self._values(self.start + index * self._bytes(), self.shape[1:])

    def read(self) -> np.ndarray:
        """The whole array.

        Raises:
            InputError: The file ends before the array does.
        """
        return self._values(self.start, self.shape)

    def _bytes(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def _values(self, place: int, shape: tuple[int, ...]) -> np.ndarray:
        wanted = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize
        self.stream.seek(place)
        data = self.stream.read(wanted)
        if len(data) != wanted:
            raise InputError(f"{one_line(getattr(self.stream, 'name', 'array'))}: the file ends within the array")
        return np.frombuffer(data, dtype=self.dtype).reshape(shape)
