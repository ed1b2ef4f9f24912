"""Atomic files and fingerprints of content.

A file is written under a temporary name in the same folder, flushed by fsync and renamed. A reader sees the old
file or the new one, never half of one, whenever the process is killed. Tables are Parquet, weights safetensors,
settings YAML or JSON; nothing is ever pickled.

A fingerprint gives the same content the same short hexadecimal name on any machine. Fingerprints name stores, jobs
and data sets, so that a re-issued command finds the work that is finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memorisk.runs.checksums import refuse_damaged, write_record
from memorisk.runs.errors import DamagedError, InputError, full_disk, one_line

if TYPE_CHECKING:
    import pandas as pd

PARTIAL_NAMES = (".*.part", ".tmp??????")
"""Patterns of the names of files being written, ours and safetensors' own; a killed process leaves removable ones."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""First bytes of a file that Git LFS left in place of the one that was to be fetched."""
FETCH_LFS = "a pointer of Git LFS in place of the file; fetch the file itself with: git lfs pull"
"""Description of such a file, after "is", with the remedy."""
_CHUNK = 1 << 20


def has_shared_permissions(path: Path) -> bool:
    """Return whether the permissions of a file or folder give its group or all users access; False outside POSIX.

    Raises:
        OSError: The path does not exist.
    """
    return os.name == "posix" and bool(path.stat().st_mode & 0o077)


def refuse_special(path: str | Path) -> None:
    """Refuse a path that is not a regular file, before it is opened: a device never ends, a pipe may never begin.

    Raises:
        InputError: The path is a folder, a device, a pipe or a socket, or a link to one.
        OSError: The file is absent.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a Path for each of a million images takes longer
        raise InputError(f"{one_line(path)}: is not a file")


def fsync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def atomic_path(path: str | Path, *, mode: int = 0o600, recorded: bool = False) -> Iterator[Path]:
    """Yield a temporary path next to ``path``; on success flush it and rename it into place, on error remove it.

    Args:
        path: Path of the finished file. Its folder must exist.
        mode: Permission bits of the finished file; private by default, since run folders hold personal data.
        recorded: Whether to write a record of its checksum, too, for a file that is read again
            (`memorisk.runs.checksums`). The record comes first: a file that is replaced has two checksums until it is.

    Yields:
        Temporary path to write to.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:60]}.", suffix=".part", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)
        replaced = recorded and target.is_file()
        if recorded:
            write_record(target, temporary, *([target] if replaced else []))
        temporary.replace(target)
        fsync_folder(target.parent)
        if replaced:
            write_record(target, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if (full := full_disk(error, target)) is not None:
            raise full from error
        raise


def write_bytes(path: str | Path, data: bytes, *, recorded: bool = False) -> None:
    """Write bytes atomically; ``recorded`` here and below as for `atomic_path`."""
    with atomic_path(path, recorded=recorded) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | Path, text: str, *, recorded: bool = False) -> None:
    """Write UTF-8 text atomically. Lone surrogates (from undecodable file names) are written as escapes."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"), recorded=recorded)


def write_json(path: str | Path, value: Any, *, recorded: bool = False) -> None:
    """Write JSON atomically, keys in the order given, NaN as null, two spaces of indent."""
    text = json.dumps(json_value(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text, recorded=recorded)


def read_json(path: str | Path) -> Any:
    """Read a JSON file of a run.

    Raises:
        DamagedError: The file is not JSON, not UTF-8, or differs from its record.
        OSError: The file cannot be opened.
    """
    refuse_damaged(path)
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"{one_line(path)} is damaged ({one_line(error, 80)}): restore it, or begin in a new folder"
        ) from error


def write_table(path: str | Path, table: pd.DataFrame, *, recorded: bool = False) -> None:
    """Write a table as Parquet, atomically and with the same bytes for the same table."""
    with atomic_path(path, recorded=recorded) as temporary:
        table.to_parquet(temporary, index=False, compression="zstd")


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a Parquet table.

    Raises:
        InputError: The table declares far more than its bytes can describe, or two columns of one name.
        DamagedError: The file differs from its record.
        OSError: The file cannot be opened, or is not Parquet.
        ValueError: The file is damaged, or holds text that is not UTF-8.
    """
    import pandas as pd

    from memorisk.runs.tables import check_parquet

    refuse_damaged(path)
    try:
        check_parquet(Path(path))
        return check_text(pd.read_parquet(path))
    except (LookupError, TypeError, AttributeError) as error:  # the notes that pandas wrote on the columns are damaged
        raise ValueError(f"damaged notes on its columns ({error!r})") from None


def check_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table after its text was decoded; Parquet decodes it only on use, and bad bytes would appear there.

    Raises:
        ValueError: A column holds text that is not UTF-8.
    """
    import pyarrow as pa

    for name in table.columns:
        values = table[name].array
        if hasattr(values, "__arrow_array__") and str(table[name].dtype) in ("str", "string"):
            pa.array(values).validate(full=True)
    return table


def write_array(path: str | Path, array: np.ndarray, *, recorded: bool = False) -> None:
    """Write one array as .npy, atomically; object arrays are refused."""
    with atomic_path(path, recorded=recorded) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def put_in_order(array: np.ndarray, order: np.ndarray | None, axis: int) -> np.ndarray:
    """Return an array in the order in which it is kept; without an order as it is.

    Args:
        array: Values of images along one axis.
        order: Row of each place, [N].
        axis: Axis of the images.
    """
    return array if order is None else np.take(array, order, axis=axis)


def put_back(array: np.ndarray, order: np.ndarray | None, axis: int) -> np.ndarray:
    """Return an array that is kept in an order as it was before `put_in_order`, which has the same arguments."""
    return array if order is None else np.take(array, np.argsort(order), axis=axis)


def read_array(path: str | Path, *, mmap: bool = False) -> np.ndarray:
    """Read a .npy file; with ``mmap`` it stays on the disk, read-only.

    Raises:
        DamagedError: The file differs from its record.
        OSError: The file cannot be opened.
        ValueError: The file is not an array.
    """
    refuse_damaged(path)
    array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError("it is an archive of arrays, and no array")
    return array


def check_characters(values: np.ndarray) -> np.ndarray:
    """Return an array after its text was decoded; NumPy decodes it only on use, and bad characters would appear there.

    Raises:
        ValueError: The text holds numbers that are not characters.
    """
    try:
        if values.dtype.kind in "UV":
            values.tolist()
    except SystemError:
        raise ValueError("text in it is damaged: it holds numbers that are not characters") from None
    return values


def json_value(value: Any) -> Any:
    """Return the value in JSON's own types: NumPy's unpacked, kinds of text as text, NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {str(k): json_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [json_value(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return None if value is None else str(value)


def fingerprint(*values: Any, length: int = 16) -> str:
    """Hash values that JSON can hold (and NumPy arrays, by type, shape and bytes) to ``length`` hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=32)
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(f"array {value.dtype.str} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(json.dumps(json_value(value), sort_keys=True).encode())
        digest.update(b"\x00")
    return digest.hexdigest()[:length]


def file_fingerprint(path: str | Path) -> str:
    """Hash a file's bytes, a megabyte at a time."""
    digest = hashlib.blake2b(digest_size=32)
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()[:32]
