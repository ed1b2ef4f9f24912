"""JPEG (ITU T.81): one sequential Huffman image, and every byte of its coded data used.

A decoder passes in silence over data that follow the last block of a scan, over scans that later ones overwrite and
over tables that nothing uses. Whole images fit there. So the coded data are walked through, symbol by symbol, without
computing a pixel. Progressive and arithmetic coding are refused: their passes overlay each other, and a file of these
kinds is rare among generated images.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil

from memorisk.images.containers.icc import check_profile
from memorisk.images.containers.parsing import Reader, SurplusError

_SEQUENTIAL = (0xC0, 0xC1)
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {0xC4, 0xC8, 0xCC}
_APPLICATION = {
    0xE1: "EXIF or XMP data (APP1)",
    0xE2: "a preview or a profile of several parts (APP2)",
    0xED: "Photoshop data (APP13)",
}
_PROFILE = b"ICC_PROFILE\0\x01\x01"
_AHEAD = 8
"""Bits of a code that one look into a table decides (T.81, F.2.2.3 does a bit at a time)."""

_Table = tuple[list[tuple[int, int]], dict[tuple[int, int], int]]


@dataclass
class _Component:
    """Of the frame: its sampling and whether a scan has coded it."""

    across: int
    down: int
    quantisation: int
    coded: bool = False


@dataclass
class _State:
    """What the segments before a scan have set."""

    width: int = 0
    height: int = 0
    components: dict[int, _Component] = field(default_factory=dict)
    huffman: dict[int, _Table] = field(default_factory=dict)
    unused: set[tuple[str, int]] = field(default_factory=set)
    interval: int = 0
    profile: bool = False


def jpeg_surplus(data: bytes, *, walk: bool = True) -> None:
    """Parse a JPEG file to its last bit.

    Args:
        data: The file.
        walk: Walk through the coded data, some 2 MB a second; else they are passed over, and data after the last block
            are not found.

    Raises:
        SurplusError: It holds something besides the pixels of one image.
    """
    reader, state = Reader(data, "JPEG"), _State()
    reader.take(2)
    while True:
        if reader.number(1) != 0xFF:
            raise SurplusError("data between its segments")
        marker = reader.number(1)
        if marker == 0xD9:
            break
        body = reader.take(_length(reader))
        if marker == 0xDA:
            _read_scan(body, reader, state, walk=walk)
        else:
            _read_segment(marker, body, state)
    reader.end()
    if not state.components or not all(one.coded for one in state.components.values()):
        raise SurplusError("a JPEG that ends too early")
    _refuse_unused(state)


def _length(reader: Reader) -> int:
    length = reader.number(2)
    if length < 2:
        raise SurplusError("a segment that is none of JPEG")
    return length - 2


def _read_segment(marker: int, body: bytes, state: _State) -> None:
    """Take over what a segment sets.

    Raises:
        SurplusError: It holds something besides.
    """
    if marker == 0xE0:
        _check_jfif(body)
    elif marker == 0xE2 and body.startswith(_PROFILE) and not state.profile:
        check_profile(body[len(_PROFILE) :])
        state.profile = True
    elif marker == 0xEE and body.startswith(b"Adobe") and len(body) == 12:
        return
    elif marker == 0xFE:
        raise SurplusError("a comment (COM)")
    elif 0xE0 <= marker <= 0xEF:
        raise SurplusError(_APPLICATION.get(marker, f"application data (APP{marker - 0xE0})"))
    elif marker in _OTHER_FRAMES:
        raise SurplusError("progressive or arithmetic coding, whose passes can overlay each other")
    elif marker in _SEQUENTIAL:
        _read_frame(body, state)
    elif marker == 0xDB:
        _read_quantisation(Reader(body, "quantisation table"), state)
    elif marker == 0xC4:
        _read_huffman(Reader(body, "Huffman table"), state)
    elif marker == 0xDD and len(body) == 2:
        state.interval = int.from_bytes(body, "big")
    else:
        raise SurplusError(f"an unknown segment (FF{marker:02X})")


def _check_jfif(body: bytes) -> None:
    """Refuse a preview.

    Raises:
        SurplusError: There is one, or the segment is another application's.
    """
    if body[:5] != b"JFIF\0" or len(body) != 14:
        raise SurplusError("a preview or application data (APP0)")
    if body[12:] != b"\0\0":
        raise SurplusError("a preview (APP0)")


def _read_frame(body: bytes, state: _State) -> None:
    """The size and the components (T.81, B.2.2)."""
    if state.components:
        raise SurplusError("a second image")
    reader = Reader(body, "frame header")
    if reader.number(1) != 8:
        raise SurplusError("samples of other than 8 bits")
    state.height, state.width = reader.number(2), reader.number(2)
    for _ in range(reader.number(1)):
        name, sampling, table = reader.take(3)
        if not 1 <= sampling >> 4 <= 4 or not 1 <= sampling & 15 <= 4 or name in state.components:
            raise SurplusError("a frame header that is none of JPEG")
        state.components[name] = _Component(sampling >> 4, sampling & 15, table)
    reader.end()
    if not state.height or not state.width:
        raise SurplusError("a frame header that is none of JPEG")


def _read_quantisation(reader: Reader, state: _State) -> None:
    """Tables of steps, each named once until a scan uses it (B.2.4.1)."""
    while reader.left:
        kind = reader.number(1)
        reader.take(128 if kind >> 4 else 64)
        _set_table("quantisation", kind & 15, state)


def _read_huffman(reader: Reader, state: _State) -> None:
    """Tables of codes (B.2.4.2)."""
    while reader.left:
        kind, counts = reader.number(1), reader.take(16)
        state.huffman[kind] = _decoding_table(counts, reader.take(sum(counts)))
        _set_table("Huffman", kind, state)


def _set_table(kind: str, number: int, state: _State) -> None:
    """Note a table that nothing uses yet.

    Raises:
        SurplusError: It replaces one that nothing used.
    """
    if (kind, number) in state.unused:
        raise SurplusError(f"a {kind} table that nothing uses")
    state.unused.add((kind, number))


def _refuse_unused(state: _State) -> None:
    """Refuse tables that no scan used.

    Raises:
        SurplusError: There are some.
    """
    if state.unused:
        raise SurplusError(f"a {sorted(state.unused)[0][0]} table that nothing uses")


@lru_cache(maxsize=64)
def _decoding_table(counts: bytes, symbols: bytes) -> _Table:
    """Codes by their first eight bits, as (length, symbol), length 0 for longer ones; those by length and code."""
    short, longer = [(0, 0)] * (1 << _AHEAD), {}
    code = place = 0
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            if code >= 1 << length:
                raise SurplusError("a Huffman table that is none")
            if length <= _AHEAD:
                first = code << (_AHEAD - length)
                short[first : first + (1 << (_AHEAD - length))] = [(length, symbols[place])] * (1 << (_AHEAD - length))
            else:
                longer[length, code] = symbols[place]
            code, place = code + 1, place + 1
        code <<= 1
    return short, longer


def _read_scan(header: bytes, reader: Reader, state: _State, *, walk: bool) -> None:
    """Read a scan, whose coded data must end where its last block ends (E.2.3, F.2.2).

    Raises:
        SurplusError: More data follow, or fewer.
    """
    parts, coded = _scan_components(header, state), _coded_data(reader)
    if not walk:
        return
    across, down = (max(getattr(one, side) for one in state.components.values()) for side in ("across", "down"))
    if len(parts) == 1:
        component, *tables = parts[0]
        columns, rows = ceil(state.width * component.across / across), ceil(state.height * component.down / down)
        units, blocks = ceil(columns / 8) * ceil(rows / 8), [tables]
    else:
        units = ceil(state.width / (8 * across)) * ceil(state.height / (8 * down))
        blocks = [tables for one, *tables in parts for _ in range(one.across * one.down)]
    interval = state.interval or units
    expected = ceil(units / interval)
    if len(coded) != expected:
        raise SurplusError("data after its last block" if len(coded) > expected else "a JPEG that ends too early")
    for number, segment in enumerate(coded):
        _walk_segment(segment, blocks, min(interval, units - number * interval))


def _scan_components(header: bytes, state: _State) -> list[tuple]:
    """Components of a scan with their tables (B.2.3)."""
    reader = Reader(header, "scan header")
    parts = []
    for _ in range(reader.number(1)):
        name, tables = reader.take(2)
        component = state.components.get(name)
        if component is None or component.coded:
            raise SurplusError("a scan of what is coded already")
        component.coded = True
        names = (tables >> 4, 16 | tables & 15)
        if not all(one in state.huffman for one in names):
            raise SurplusError("a scan without its tables")
        state.unused -= {("Huffman", one) for one in names} | {("quantisation", component.quantisation)}
        parts.append((component, *(state.huffman[one] for one in names)))
    if reader.take(3) != b"\0\x3f\0" or not parts:
        raise SurplusError("a scan header that is none of sequential JPEG")
    reader.end()
    return parts


def _coded_data(reader: Reader) -> list[bytes]:
    """The coded data up to the next marker, without stuffing, cut at restart markers, which count from 0 to 7."""
    begin, data, found = reader.place, reader.data, []
    place = begin
    while True:
        place = data.find(b"\xff", place)
        if place < 0 or place + 1 >= len(data):
            raise SurplusError("a JPEG that ends too early")
        after = data[place + 1]
        if after == 0:
            place += 2
        elif after == 0xD0 + len(found) % 8:
            found.append(data[begin:place])
            begin = place = place + 2
        else:
            break
    found.append(data[begin:place])
    reader.place = place
    return [part.replace(b"\xff\0", b"\xff") for part in found]


def _walk_segment(segment: bytes, blocks: list, units: int) -> None:
    """Walk through the blocks between two restart markers; fewer than eight bits may be left."""
    bits = _Bits(segment)
    for _ in range(units):
        for first, others in blocks:
            bits.skip(bits.symbol(first) & 15)
            k = 1
            while k < 64:
                symbol = bits.symbol(others)
                size = symbol & 15
                if size:
                    k += (symbol >> 4) + 1
                    bits.skip(size)
                elif symbol == 0xF0:
                    k += 16
                else:
                    break
            if k > 64:
                raise SurplusError("coded data that are none of JPEG")
    bits.end()


class _Bits:
    """Bits of coded data from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._next, self._held, self._n = data, 0, 0, 0

    def _fill(self) -> None:
        """Hold at least 16 bits; beyond the end they are ones, as encoders pad."""
        part = self._data[self._next : self._next + 4]
        self._next += 4
        self._held = (self._held & ((1 << self._n) - 1)) << 32 | int.from_bytes(part + b"\xff" * (4 - len(part)), "big")
        self._n += 32

    def symbol(self, table: _Table) -> int:
        """Decode the next symbol."""
        if self._n < 16:
            self._fill()
        held, n = self._held, self._n
        length, symbol = table[0][(held >> (n - _AHEAD)) & 0xFF]
        if length:
            self._n = n - length
            return symbol
        for length in range(_AHEAD + 1, 17):
            found = table[1].get((length, (held >> (n - length)) & ((1 << length) - 1)))
            if found is not None:
                self._n = n - length
                return found
        raise SurplusError("coded data that are none of JPEG")

    def skip(self, n: int) -> None:
        """Pass over the next ``n`` bits, at most 15."""
        if self._n < 16:
            self._fill()
        self._n -= n

    def end(self) -> None:
        """Refuse data that were not needed, and data that were missing.

        Raises:
            SurplusError: A whole byte or more is left, or was needed beyond the end.
        """
        left = (len(self._data) - self._next) * 8 + self._n
        if left < 0:
            raise SurplusError("a JPEG that ends too early")
        if left >= 8:
            raise SurplusError(f"{left // 8:,} bytes of data after its last block")
