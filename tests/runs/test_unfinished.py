"""What half-built folders share: a reserved array is NumPy's own, refusals to write are one line."""

import errno
import io
import os

import numpy as np
import pytest

from memorisk.runs.arrays import JOURNAL, array_header, remove_abandoned, reserve_array, write_guard
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.locks import folder_lock


@pytest.mark.parametrize(("shape", "dtype"), [((3, 2), np.float32), ((4, 5, 6, 1), "|u1"), ((2, 3), np.uint16)])
def test_a_reserved_array_is_what_numpy_saves(tmp_path, shape, dtype):
    values, saved = np.zeros(shape, dtype=dtype), io.BytesIO()
    np.save(saved, values)
    reserve_array(tmp_path / "values.npy", shape, dtype)
    assert (tmp_path / "values.npy").read_bytes() == saved.getvalue()
    assert saved.getvalue().startswith(array_header(shape, dtype))
    assert (tmp_path / "values.npy").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_one_line_and_goes_on(tmp_path, number):
    line = r"^no space for features of 2 GB in .*what is done is kept$"
    guarded = write_guard(tmp_path, "features", needed=2_000_000_000)
    with pytest.raises(MemoriskError, match=line) as raised, guarded:
        raise OSError(number, "full")
    assert raised.value.exit_code == 3


def test_another_refusal_names_both_ways_out(tmp_path):
    line = r"^features cannot be written to .* \(Permission denied\): name another folder with --store, or do without$"
    with pytest.raises(InputError, match=line), write_guard(tmp_path, "features", otherwise=", or do without"):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_what_is_being_built_is_not_taken_for_abandoned_whatever_the_clock_says(tmp_path):
    """A clock that was set forward by a year, or stood at 1970 when the journal was written."""
    for key in ("mine", "left"):
        (tmp_path / f".{key}.building").mkdir()
        (tmp_path / f".{key}.building" / JOURNAL).write_text("")
        os.utime(tmp_path / f".{key}.building" / JOURNAL, (0, 0))
    with folder_lock(tmp_path, name="mine.lock"):
        remove_abandoned(tmp_path)
        assert [p.name for p in tmp_path.glob(".*.building")] == [".mine.building"]
    remove_abandoned(tmp_path)
    assert not list(tmp_path.glob(".*.building"))
