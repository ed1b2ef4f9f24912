"""safetensors: the length of a header, a JSON header, and the tensors back to back.

The format's own library refuses gaps and overlaps between tensors when it loads them; a gate has no such library and
must not need one.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from memorisk.images.containers.parsing import SurplusError

METADATA = "__metadata__"
_PLAIN = {"format": ("pt", "np", "tf", "flax", "mlx")}
"""Metadata that say nothing but which library wrote the file."""
_MEMBERS = ("dtype", "shape", "data_offsets")
_NONE = "a header that is none of safetensors"
_ALIGNED = 8
"""Tensors begin at a multiple of so many bytes; spaces fill the header."""
_AT_ONCE = 1 << 20
_LARGEST_HEADER = 100_000_000  # the format's own limit
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class _Header:
    """Declarations of a header, and what else it holds."""

    tensors: dict[str, dict[str, Any]]
    """``dtype``, ``shape`` and ``data_offsets`` by name, in the order of the file."""
    begin: int
    """Place of the first tensor in the file."""
    end: int
    """Bytes of all tensors."""
    surplus: list[str]


def is_safetensors(path: Path) -> bool:
    """Tell whether a file is safetensors, by its name or by its first bytes: readers go by these.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    return path.suffix.lower() == ".safetensors" or (start[8:] == b"{" and length <= path.stat().st_size - 8)


def tensor_surplus(file: BinaryIO, size: int) -> list[str]:
    """Name everything that a safetensors file holds besides tensors.

    Args:
        file: Open at its beginning.
        size: Bytes of the file.

    Returns:
        A noun phrase each; none for tensors alone.

    Raises:
        SurplusError: The file is no safetensors.
    """
    header = _header(file, size)
    after = size - header.begin - header.end
    return [*header.surplus, *([f"{after:,} bytes after its last tensor"] if after else [])]


def read_header(file: BinaryIO, size: int) -> tuple[dict[str, dict[str, Any]], int]:
    """Read the tensors that a file declares, whatever else it holds.

    Args:
        file: Open at its beginning.
        size: Bytes of the file.

    Returns:
        Each tensor's ``dtype``, ``shape`` and ``data_offsets`` by name, and where the first one begins in the file.

    Raises:
        SurplusError: The file is no safetensors.
    """
    header = _header(file, size)
    return header.tensors, header.begin


def in_order(tensors: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Lay tensors out as the format's own library does: larger types first, then by name.

    Any other order, of some hundred tensors, has room for some hundred letters.

    Args:
        tensors: As `read_header` gives them.

    Returns:
        The same in the order of the file, with ``data_offsets`` in it.
    """
    types, ordered, place = list(_BITS), {}, 0
    for name in sorted(tensors, key=lambda name: (-types.index(tensors[name]["dtype"]), name)):
        begin, end = tensors[name]["data_offsets"]
        ordered[name] = {**tensors[name], "data_offsets": [place, place + end - begin]}
        place += end - begin
    return ordered


def is_in_order(path: Path) -> bool:
    """Tell whether a file begins as ``memorisk release`` writes these tensors.

    Args:
        path: A safetensors file.

    Raises:
        SurplusError: The file is no safetensors.
    """
    with path.open("rb") as file:
        tensors, begin = read_header(file, path.stat().st_size)
        file.seek(0)
        return file.read(begin) == header_bytes(in_order(tensors))


def header_bytes(tensors: dict[str, dict[str, Any]]) -> bytes:
    """Write the header of a file that holds these tensors and nothing else, with its length before it.

    Args:
        tensors: As `in_order` gives them.
    """
    header = json.dumps(tensors, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    header += b" " * (-len(header) % _ALIGNED)
    return len(header).to_bytes(8, "little") + header


def _header(file: BinaryIO, size: int) -> _Header:
    """Parse the header.

    Raises:
        SurplusError: It is none of safetensors.
    """
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
        raise SurplusError(_NONE)
    raw = file.read(length)
    header = _parsed(raw)
    surplus = [] if _is_plain(raw, header) else ["a header with more room than its tensors need"]
    surplus += _free_text(header.pop(METADATA, {}))
    if more := sum(len(set(one) - set(_MEMBERS)) for one in header.values() if isinstance(one, dict)):
        surplus.append(f"more about its tensors than type, shape and place ({more:,} entries)")
    tensors, end = _declared(header)
    if end > size - 8 - length:
        raise SurplusError("a safetensors file that ends too early")
    return _Header(tensors, 8 + length, end, surplus)


def _parsed(raw: bytes) -> dict[str, Any]:
    """The header's JSON, in which no name stands twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise SurplusError("a header in which a name stands twice")
        return dict(pairs)

    try:
        header = json.loads(raw.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise SurplusError(_NONE) from None
    if not isinstance(header, dict):
        raise SurplusError(_NONE)
    return header


def _is_plain(raw: bytes, header: dict[str, Any]) -> bool:
    """Return whether a header is written as JSON libraries write it, with no more than the format's padding after it.

    Spaces between its parts, and escapes where none are needed, can say anything.
    """
    text = raw.rstrip(b" ")
    if len(raw) - len(text) > _ALIGNED:
        return False
    forms = (
        json.dumps(header, separators=separators, ensure_ascii=escaped)
        for separators in ((",", ":"), (", ", ": "))
        for escaped in (False, True)
    )
    return any(text == form.encode("utf-8", "surrogatepass") for form in forms)


def _free_text(metadata: Any) -> list[str]:
    """Name metadata that say more than which library wrote the file.

    Raises:
        SurplusError: They are none of safetensors.
    """
    if not isinstance(metadata, dict):
        raise SurplusError(_NONE)
    n = sum(value not in _PLAIN.get(name, ()) for name, value in metadata.items())
    return [f"text in its header ({METADATA}, {n:,} {'entry' if n == 1 else 'entries'})"] if n else []


def _declared(header: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], int]:
    """Tensors that lie back to back, each as long as its shape says; and where the last one ends.

    Raises:
        SurplusError: They do not.
    """
    place = 0
    try:
        for one in sorted(header.values(), key=lambda one: one["data_offsets"]):
            begin, end = one["data_offsets"]
            if any(type(n) is not int or n < 0 for n in (begin, end, *one["shape"])):
                raise SurplusError(_NONE)
            if begin != place or (end - begin) * 8 != prod(one["shape"]) * _BITS[one["dtype"]]:
                raise SurplusError("data between its tensors")
            place = end
    except (KeyError, TypeError, ValueError):
        raise SurplusError(_NONE) from None
    return {name: {member: one[member] for member in _MEMBERS} for name, one in header.items()}, place


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


def tensors_of(path: Path | None) -> str | None:
    """Identify the tensors of a safetensors file, whatever else it holds (`tensors_sha256`).

    Args:
        path: Weights; None for none.

    Returns:
        SHA-256; None where there is no such file or it is of another format.
    """
    if path is None or not path.is_file() or not is_safetensors(path):
        return None
    try:
        return tensors_sha256(path)
    except SurplusError:  # the format's own library says what is wrong
        return None


def read_parts(file: BinaryIO, begin: int, length: int) -> Iterator[bytes]:
    """Read a stretch of a file, a megabyte at a time."""
    file.seek(begin)
    while length > 0 and (part := file.read(min(length, _AT_ONCE))):
        yield part
        length -= len(part)
