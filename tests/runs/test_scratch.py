"""Scratch arrays: small ones in memory, large ones on a file that nobody else sees and nothing is left of."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from memorisk.runs import arrays
from memorisk.runs.arrays import scratch_array


def test_a_small_table_is_in_memory_and_a_large_one_on_a_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "SCRATCH_BYTES", 1000)
    small, large = scratch_array((124, 2), np.float32, tmp_path), scratch_array((125, 2), np.float32, tmp_path)
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    assert not any(tmp_path.iterdir())
    assert not small.any()
    assert not large.any()
    large[:] = np.arange(250).reshape(125, 2)
    np.testing.assert_array_equal(large[[3, 124]], [[6, 7], [248, 249]])


def test_a_full_disk_is_found_when_the_table_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        """No room."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        scratch_array((1 << 20, 32), np.uint8, tmp_path)
    assert not any(tmp_path.iterdir())
