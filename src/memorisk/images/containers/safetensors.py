"""safetensors: the length of a header, a JSON header, and the tensors back to back.

The format's own library refuses gaps and overlaps between tensors when it loads them; a gate has no such library and
must not need one.
"""

import hashlib
import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from memorisk.images.containers.parsing import SurplusError

METADATA = "__metadata__"
_PLAIN = {"format": ("pt", "np", "tf", "flax", "mlx")}
"""Metadata that say nothing but which library wrote the file."""
_AT_ONCE = 1 << 20
_LARGEST_HEADER = 100_000_000  # the format's own limit
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


def tensor_surplus(file: BinaryIO, size: int) -> None:
    """Parse the header of a safetensors file.

    Args:
        file: Open at its beginning.
        size: Bytes of the file.

    Raises:
        SurplusError: It holds something other than tensors.
    """
    header, length = _header(file, size)
    _check_metadata(header.pop(METADATA, {}))
    end = _check_tensors(header)
    if size - 8 - length != end:
        raise SurplusError(f"{size - 8 - length - end:,} bytes after the last tensor")


def read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """Read the tensors that a file declares.

    Args:
        file: Open at its beginning.
        size: Bytes of the file.

    Returns:
        Each tensor's ``dtype``, ``shape`` and ``data_offsets`` by name, and where the first one begins in the file.

    Raises:
        SurplusError: The file is no safetensors.
    """
    header, length = _header(file, size)
    header.pop(METADATA, None)
    _check_tensors(header)
    return header, 8 + length


def _header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The parsed header, and its length.

    Raises:
        SurplusError: It is none of safetensors.
    """
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
        raise SurplusError("a header that is none of safetensors")
    return _parsed(file.read(length)), length


def _parsed(raw: bytes) -> dict[str, Any]:
    """The header, in which no name stands twice and nothing but the padding of the format follows."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise SurplusError("a header in which a name stands twice")
        return dict(pairs)

    if len(raw) - len(raw.rstrip(b" ")) > 8:  # the format aligns tensors to 8 bytes
        raise SurplusError("a header with more room than its tensors need")
    try:
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise SurplusError("a header that is none of safetensors") from None
    if not isinstance(found, dict):
        raise SurplusError("a header that is none of safetensors")
    return found


def _check_metadata(metadata: Any) -> None:
    """Refuse free text.

    Raises:
        SurplusError: There is some.
    """
    if not isinstance(metadata, dict):
        raise SurplusError("a header that is none of safetensors")
    for name, value in metadata.items():
        if value not in _PLAIN.get(name, ()):
            raise SurplusError("text in its header (__metadata__)")


def _check_tensors(header: dict[str, Any]) -> int:
    """Check that tensors lie back to back, each as long as its shape says; where the last one ends.

    Raises:
        SurplusError: They do not.
    """
    place = 0
    try:
        for one in sorted(header.values(), key=lambda one: one["data_offsets"]):
            begin, end = one["data_offsets"]
            bits = prod(one["shape"]) * _BITS[one["dtype"]]
            if set(one) != {"dtype", "shape", "data_offsets"} or begin != place or (end - begin) * 8 != bits:
                raise SurplusError("data between its tensors")
            place = end
    except (KeyError, TypeError, ValueError):
        raise SurplusError("a header that is none of safetensors") from None
    return place


def tensors_sha256(path: Path) -> str:
    """Compute the SHA-256 of the tensors of a file, whatever else it holds and in whatever order they lie.

    Args:
        path: A safetensors file.

    Raises:
        SurplusError: The file is no safetensors.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        header, begin = read_header(file, path.stat().st_size)
        for name in sorted(header):
            first, end = header[name]["data_offsets"]
            digest.update(json.dumps([name, header[name]["dtype"], header[name]["shape"]]).encode())
            for part in read_parts(file, begin + first, end - first):
                digest.update(part)
    return digest.hexdigest()


def read_parts(file: BinaryIO, begin: int, length: int) -> Iterator[bytes]:
    """Read a stretch of a file, a megabyte at a time."""
    file.seek(begin)
    while length > 0 and (part := file.read(min(length, _AT_ONCE))):
        yield part
        length -= len(part)
