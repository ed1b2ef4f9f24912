"""Markers of a JPEG, JPEG-LS or JPEG 2000 stream (ITU T.81 B, T.800 A), read without decoding: size, end, scans."""

import re
from collections.abc import Iterator

_START, _END, _SCAN = b"\xff\xd8", b"\xff\xd9", 0xDA
_MEANINGLESS = b"\0" + bytes(range(1, 255, 2)) * 2  # without ff, which begins markers; 00 first, which undoes one
_JPEG_2000 = b"\xff\x4f\xff\x51"
_FRAMES = frozenset((*range(0xC0, 0xD0), 0xF7)) - {0xC4, 0xC8, 0xCC}


def is_jpeg(stream: bytes) -> bool:
    """Return whether a stream begins as JPEG or JPEG-LS."""
    return stream[:2] == _START


def declared_size(stream: bytes) -> tuple[int, int] | None:
    """Return the width and height that a stream declares, or None where it declares neither."""
    if stream[:4] == _JPEG_2000 and len(stream) >= 24:
        x1, y1, x0, y0 = (int.from_bytes(stream[i : i + 4], "big") for i in (8, 12, 16, 20))
        return x1 - x0, y1 - y0
    for marker, content in _segments(stream):
        if marker in _FRAMES and len(content) >= 5:
            return int.from_bytes(content[3:5], "big"), int.from_bytes(content[1:3], "big")
    return None


def declared_precision(stream: bytes) -> int | None:
    """Return the number of bits of a value that a stream declares, or None where it does not."""
    if stream[:4] == _JPEG_2000 and len(stream) > 42:
        return (stream[42] & 0x7F) + 1
    return next((content[0] for marker, content in _segments(stream) if marker in _FRAMES and content), None)


def has_end(stream: bytes) -> bool:
    """Return whether a stream has its end marker, padding aside."""
    return _END in stream[-16:]


def with_more_data(stream: bytes) -> bytes | None:
    """Return the stream with meaningless data in front of its last end marker; None where it has none.

    A decoder that has all its data skips them. One that lacks data takes them for the missing ones: within a segment
    directly, between two segments after the restart marker that it expects there.
    """
    end = stream.rfind(_END)
    if end < 0:
        return None
    restarts = re.findall(rb"\xff([\xd0-\xd7])", stream[max(stream.rfind(b"\xff\xda"), 0) : end])
    restart = bytes([0xFF, 0xD0 + (restarts[-1][0] - 0xCF) % 8 if restarts else 0xD0])
    return stream[:end] + _MEANINGLESS + restart + _MEANINGLESS + stream[end:]


def scans_missing(stream: bytes) -> bool:
    """Return whether a progressive JPEG lacks scans: some coefficient was never sent to its last bit."""
    component_ids: bytes | None = None
    lowest: dict[int, list[int]] = {}
    for marker, content in _segments(stream):
        if marker in _FRAMES:
            if marker not in (0xC2, 0xCA) or len(content) < 6:
                return False
            component_ids = content[6::3][: content[5]]
            lowest = {c: [99] * 64 for c in component_ids}
        elif marker == _SCAN and component_ids is not None and content and len(content) >= 4 + 2 * content[0]:
            first, last, bits = content[1 + 2 * content[0] : 4 + 2 * content[0]]
            for component in content[1 : 1 + 2 * content[0] : 2]:
                if component in lowest:
                    lowest[component][first : last + 1] = [bits & 15] * (min(last, 63) + 1 - first)
    return any(bit for bits_of in lowest.values() for bit in bits_of)


def scans(stream: bytes) -> int:
    """Count the scans."""
    return sum(marker == _SCAN for marker, _ in _segments(stream))


def _segments(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the marker and content of each segment of a JPEG, without the coded data after a scan's header."""
    place = 2 if is_jpeg(stream) else len(stream)
    while place + 4 <= len(stream):
        if stream[place] != 0xFF:  # coded data: the next ff that is neither stuffed, a fill byte nor a restart
            place = stream.find(b"\xff", place)
            if place < 0:
                return
        marker = stream[place + 1]
        if marker == 0xFF:
            place += 1
        elif marker in (0x00, 0x01) or 0xD0 <= marker <= 0xD8:
            place += 2
        elif marker == 0xD9:
            return
        else:
            length = int.from_bytes(stream[place + 2 : place + 4], "big")
            yield marker, stream[place + 4 : place + 2 + length]
            place += 2 + max(length, 2)
