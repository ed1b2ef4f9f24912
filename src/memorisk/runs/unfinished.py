"""What is built in a hidden folder beside its finished kin, found again by its content: image stores and features.

A journal in that folder names what stands in the array, so that a killed build goes on; the space of the array is
reserved first, so that a full disk is found before work is done.
"""

import io
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from memorisk.runs.errors import NO_SPACE, InputError, MemoriskError, one_line
from memorisk.runs.lock import folder_lock

JOURNAL = "journal.jsonl"
ABANDONED = 7 * 86400.0
"""Seconds after which what was not finished is removed when something else is built."""


def remove_abandoned(root: Path) -> None:
    """Remove unfinished folders, ``.KEY.building``, whose journal was not written to for a week.

    Clocks are set, so that age alone says little: one whose lock another process holds is being built now.
    """
    for folder in root.glob(".*.building"):
        try:
            if time.time() - (folder / JOURNAL).stat().st_mtime > ABANDONED:
                with folder_lock(root, name=f"{folder.name[1:].removesuffix('.building')}.lock"):
                    shutil.rmtree(folder, ignore_errors=True)
        except (OSError, InputError):
            continue


def array_header(shape: tuple[int, ...], dtype: DTypeLike) -> bytes:
    """The first bytes of a .npy file; the values follow in C order."""
    stream = io.BytesIO()
    form = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, form)
    return stream.getvalue()


def reserve_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> None:
    """Write an empty .npy file, readable by its owner alone, and reserve its space.

    Raises:
        OSError: It cannot be written, or there is no space.
    """
    header = array_header(shape, dtype)
    size = len(header) + int(np.prod(shape)) * np.dtype(dtype).itemsize
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(handle, header)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        else:
            os.ftruncate(handle, size)
    finally:
        os.close(handle)


@contextmanager
def write_guard(folder: Path, what: str, *, needed: int | None = None, otherwise: str = "") -> Iterator[None]:
    """Turn the system's refusals to write into one line.

    Args:
        folder: Where it is written.
        what: What is written, as in "features".
        needed: Bytes it takes, if known.
        otherwise: What else helps where the folder cannot be written.

    Raises:
        MemoriskError: No space is left.
        InputError: The folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        where, size = one_line(folder), "" if needed is None else f" of {needed / 1e9:.2g} GB"
        if error.errno in NO_SPACE:
            raise MemoriskError(
                f"no space for {what}{size} in {where}: free some, or name another folder with --store; "
                "what is done is kept"
            ) from None
        reason = one_line(error.strerror or error, 120)
        way_out = f"name another folder with --store{otherwise}"
        raise InputError(f"{what} cannot be written to {where} ({reason}): {way_out}") from None
