"""Changes inside packed or checksummed files: without them nearly every changed byte ends at a checksum."""

import contextlib
import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

Change = Callable[[bytes, int], bytes]
_PNG = b"\x89PNG\r\n\x1a\n"
_LIMIT = 1 << 20
ODD = (None, True, 0, -1, 1.5, 1e308, float("nan"), 10**30, "", "x", "\ud800", "<b>", [], {}, [[]], {"": None})
"""Values that may stand anywhere in JSON and belong almost nowhere."""


def whole_png(data: bytes, change: Change, size: int) -> bytes:
    """Change a PNG, then correct the checksum of each chunk that is still found."""
    changed = change(data, size)
    out, place = bytearray(_PNG), len(_PNG)
    if not changed.startswith(_PNG):
        return changed
    while place + 8 <= len(changed):
        (length,) = struct.unpack(">I", changed[place : place + 4])
        if place + 12 + length > len(changed):
            break
        body = changed[place + 4 : place + 8 + length]
        out += struct.pack(">I", length) + body + struct.pack(">I", zlib.crc32(body))
        place += 12 + length
    return bytes(out + changed[place:])[:size]


def inside_gzip(data: bytes, change: Change, size: int) -> bytes:
    """Change what a gzip file holds; a file that is none is changed as it is."""
    if data[:2] != b"\x1f\x8b":
        return change(data, size)
    try:
        inner = zlib.decompressobj(wbits=31).decompress(data, _LIMIT)
    except zlib.error:
        return change(data, size)
    return gzip.compress(change(inner, _LIMIT), 1, mtime=0)[:size]


def inside_zip(data: bytes, change: Change, size: int) -> bytes:
    """Change one member of a zip archive, chosen by the data's own checksum; what is none is changed as it is."""
    if data[:2] != b"PK" or zlib.crc32(data) % 4 == 0:
        return change(data, size)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, info.compress_type, archive.read(info)) for info in archive.infolist()[:64]]
    except Exception:  # a broken archive, whatever is wrong with it
        return change(data, size)
    if not members:
        return change(data, size)
    chosen = zlib.crc32(data) // 4 % len(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for k, (name, kind, content) in enumerate(members):
            archive.writestr(zipfile.ZipInfo(name), change(content, _LIMIT) if k == chosen else content, kind)
    return out.getvalue()[:size]


def inside_any(data: bytes, change: Change, size: int) -> bytes:
    """What fits the first bytes."""
    if data.startswith(_PNG):
        return whole_png(data, change, size)
    return inside_zip(data, change, size) if data[:2] == b"PK" else inside_gzip(data, change, size)


def inside_json(data: bytes, change: Change, size: int) -> bytes:
    """Change one value of a JSON text for one of another kind, or take it away; else the bytes as they stand."""
    changed = change(data, size)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return changed
    rng = random.Random(zlib.crc32(changed))
    found = [*places(content)]
    if not found or rng.random() < 0.2:
        return changed
    for _ in range(rng.choice((1, 1, 1, 3))):
        holder, key = rng.choice(found)
        with contextlib.suppress(LookupError):  # an earlier change took it away
            if rng.random() < 0.25:
                del holder[key]
            else:
                holder[key] = rng.choice((*ODD, rng.choice(found)[0], holder[key]))
    try:
        return json.dumps(content).encode("utf-8", "surrogatepass")[:size]
    except (ValueError, RecursionError):  # it holds itself now
        return changed


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value in a value, with what holds it."""
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in list(keys):
        yield content, key
        yield from places(content[key])


def by_name(suffix: str, data: bytes, change: Change, size: int) -> bytes:
    """What fits a file of that suffix."""
    if suffix == ".json":
        return inside_json(data, change, size)
    return inside_any(data, change, size)
