"""JPEG (ITU T.81): one sequential Huffman image, and every byte of its coded data used.

A decoder passes in silence over data that follow the last block of a scan, over scans that later ones overwrite and
over tables, codes and steps that nothing uses. Whole images and texts fit there. So the coded data are walked through,
symbol by symbol, without computing a pixel, and what could be coded in two ways must be coded as encoders do.
Progressive and arithmetic coding are refused: their passes overlay each other, and a file of these kinds is rare among
generated images.

Not seen: blocks of the last column and row of units that lie outside the picture, up to 15 pixels wide.
"""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil

from memorisk.images.containers.parsing import Reader, SurplusError, check_profile, resolutions

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

_ONCE = frozenset((0xE0, 0xE2, 0xEE, 0xDD))
_COMPONENTS = (b"\1", b"\1\2\3", b"\1\2\3\4", b"\0", b"\0\1\2", b"RGB", b"CMYK")
"""Names of components that encoders give."""
_DENSITIES = {b"\0\0\1\0\1"} | {
    bytes((unit, *n.to_bytes(2, "big") * 2)) for unit, inches in ((1, 1.0), (2, 2.54)) for n in resolutions(inches)
}
"""Of JFIF: unit, columns and rows in it."""
_STANDARD_CODES = frozenset((
    "2f66814c875b53173f057d784a16a34d0d1f9aa91cdfa7143c41be02c9c7b005",
    "602f734c8c12c1d9d049a18fd91d9ef3d3d8c402665f90db3d97721fc49e4804",
    "a6283a08f5d97906b66adcc812e32396ea83059e55dd4cc91934cf447559aeb6",
    "13f90e3c9dc476c66f24347f6ad29cea93262e99faed279970c2f74e0557f445",
))  # fmt: skip
"""SHA-256 of the Huffman tables K.3 to K.6 of T.81: most images leave codes of them unused."""
_STEPS = (
    bytes.fromhex(
        "100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d3c3933383740485c4e404457453738506d51575f626768673e4d71"
        "797064785c656763"
    ),
    bytes((17, 18, 18, 24, 21, 24, 47, 26, 26, 47, 99, 66, 56, 66)) + bytes([99]) * 50,
)
"""Quantisation tables K.1 and K.2 in the order of a file; libjpeg scales them by its quality."""

_Table = tuple[list[tuple[int, int]], dict[tuple[int, int], int], set[int]]
"""Codes by their first bits, those longer than that, and the symbols that were met."""


@dataclass
class _Codes:
    """A Huffman table."""

    symbols: bytes
    standard: bool
    table: _Table


@dataclass
class _Steps:
    """A quantisation table."""

    standard: bool
    used: set[int] = field(default_factory=lambda: {0})
    """Places of coefficients that some block has; the first is that of the mean, which every block has."""


@dataclass
class _Component:
    """Component of the frame: its sampling, and whether a scan has coded it."""

    across: int
    down: int
    quantisation: int
    coded: bool = False


@dataclass
class _State:
    """Settings from the segments before a scan."""

    width: int = 0
    height: int = 0
    components: dict[int, _Component] = field(default_factory=dict)
    huffman: dict[int, _Codes] = field(default_factory=dict)
    quantisation: dict[int, _Steps] = field(default_factory=dict)
    tables: list[_Codes | _Steps] = field(default_factory=list)
    """All that there were."""
    unused: set[tuple[str, int]] = field(default_factory=set)
    interval: int = 0
    once: set[int] = field(default_factory=set)
    """Markers met of segments of which there is one."""


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
    _refuse_unused(state, walked=walk)


def _length(reader: Reader) -> int:
    length = reader.number(2)
    if length < 2:
        raise SurplusError("a segment that is none of JPEG")
    return length - 2


def _read_segment(marker: int, body: bytes, state: _State) -> None:
    """Apply a segment to the state.

    Raises:
        SurplusError: It holds something besides.
    """
    if marker in state.once:
        raise SurplusError(f"a segment that stands twice (FF{marker:02X})")
    state.once |= {marker} & _ONCE
    if marker == 0xE0:
        _check_jfif(body)
    elif marker == 0xE2 and body.startswith(_PROFILE):
        check_profile(body[len(_PROFILE) :])
    elif marker == 0xEE and body.startswith(b"Adobe") and len(body) == 12:
        _check_adobe(body)
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
    if body[5] != 1 or body[6] > 2 or body[7:12] not in _DENSITIES:
        raise SurplusError("a resolution of its own (APP0)")


def _check_adobe(body: bytes) -> None:
    """Refuse values that no encoder writes: version, two flags of old ones, transformation of colours.

    Raises:
        SurplusError: There are some.
    """
    if body[5:7] not in (b"\0\x64", b"\0\x65") or body[7] & 0x3F or any(body[8:11]) or body[11] > 2:
        raise SurplusError("application data (APP14)")


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
    if not state.height or not state.width or bytes(state.components) not in _COMPONENTS:
        raise SurplusError("a frame header that is none of JPEG")


def _read_quantisation(reader: Reader, state: _State) -> None:
    """Tables of steps, each named once until a scan uses it (B.2.4.1)."""
    while reader.left:
        kind = reader.number(1)
        if kind & 0xEC:
            raise SurplusError("a quantisation table that is none")
        steps = reader.take(128 if kind >> 4 else 64)
        state.quantisation[kind & 15] = _Steps(steps in _standard_steps())
        state.tables.append(state.quantisation[kind & 15])
        _set_table("quantisation", kind & 15, state)


def _read_huffman(reader: Reader, state: _State) -> None:
    """Tables of codes (B.2.4.2)."""
    while reader.left:
        kind, counts = reader.number(1), reader.take(16)
        symbols = reader.take(sum(counts))
        if len(set(symbols)) < len(symbols):
            raise SurplusError("a Huffman table that is none")
        standard = hashlib.sha256(counts + symbols).hexdigest() in _STANDARD_CODES
        state.huffman[kind] = _Codes(symbols, standard, (*_decoding_table(counts, symbols), set()))
        state.tables.append(state.huffman[kind])
        _set_table("Huffman", kind, state)


def _set_table(kind: str, number: int, state: _State) -> None:
    """Note a table that nothing uses yet.

    Raises:
        SurplusError: It replaces one that nothing used.
    """
    if (kind, number) in state.unused:
        raise SurplusError(f"a {kind} table that nothing uses")
    state.unused.add((kind, number))


@lru_cache(maxsize=1)
def _standard_steps() -> frozenset[bytes]:
    """The quantisation tables of T.81 at every quality of libjpeg's, 1 to 100."""
    scales = [5000 // quality if quality < 50 else 200 - 2 * quality for quality in range(1, 101)]
    return frozenset(
        bytes(min(max((step * scale + 50) // 100, 1), 255) for step in steps) for steps in _STEPS for scale in scales
    )


def _refuse_unused(state: _State, *, walked: bool) -> None:
    """Refuse tables that no scan used, and parts of others where the coded data were walked through.

    Raises:
        SurplusError: There are some.
    """
    if state.unused:
        raise SurplusError(f"a {sorted(state.unused)[0][0]} table that nothing uses")
    for table in state.tables if walked else ():
        if table.standard:
            continue
        if isinstance(table, _Codes) and set(table.symbols) > table.table[2]:
            raise SurplusError("a Huffman table with codes that nothing uses")
        if isinstance(table, _Steps) and len(table.used) < 64:
            raise SurplusError("a quantisation table with steps that nothing uses")


@lru_cache(maxsize=64)
def _decoding_table(counts: bytes, symbols: bytes) -> tuple[list[tuple[int, int]], dict[tuple[int, int], int]]:
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
        if not all(one in state.huffman for one in names) or component.quantisation not in state.quantisation:
            raise SurplusError("a scan without its tables")
        state.unused -= {("Huffman", one) for one in names} | {("quantisation", component.quantisation)}
        steps = state.quantisation[component.quantisation]
        parts.append((component, *(state.huffman[one].table for one in names), steps.used))
    if reader.take(3) != b"\0\x3f\0" or not parts:
        raise SurplusError("a scan header that is none of sequential JPEG")
    reader.end()
    return parts


def _coded_data(reader: Reader) -> list[bytes]:
    """The coded data up to the next marker, without stuffing, cut at restart markers, which count from 0 to 7."""
    begin, data, segments = reader.place, reader.data, []
    place = begin
    while True:
        place = data.find(b"\xff", place)
        if place < 0 or place + 1 >= len(data):
            raise SurplusError("a JPEG that ends too early")
        after = data[place + 1]
        if after == 0:
            place += 2
        elif after == 0xD0 + len(segments) % 8:
            segments.append(data[begin:place])
            begin = place = place + 2
        else:
            break
    segments.append(data[begin:place])
    reader.place = place
    return [part.replace(b"\xff\0", b"\xff") for part in segments]


def _walk_segment(segment: bytes, blocks: list, units: int) -> None:
    """Walk through the blocks between two restart markers; fewer than eight bits may be left."""
    bits = _Bits(segment)
    for _ in range(units):
        for first, others, places in blocks:
            bits.skip(bits.symbol(first) & 15)
            k, last = 1, 0
            while k < 64:
                symbol = bits.symbol(others)
                size = symbol & 15
                if size:
                    k += (symbol >> 4) + 1
                    places.add(k - 1)
                    bits.skip(size)
                elif symbol == 0xF0:
                    k += 16
                else:
                    if symbol or last == 0xF0:
                        raise SurplusError("coded data that are none of JPEG")
                    break
                last = symbol
            if k > 64 or (k == 64 and last == 0xF0):
                raise SurplusError("coded data that are none of JPEG")
    bits.end()


class _Bits:
    """Bits of coded data from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._next, self._held, self._n = data, 0, 0, 0

    def _fill(self) -> None:
        """Hold at least 16 bits; beyond the end they are ones, as encoders pad.

        Raises:
            SurplusError: Bits beyond the end were needed; a few bytes could else stand for any number of blocks.
        """
        if self._left < 0:
            raise SurplusError("a JPEG that ends too early")
        part = self._data[self._next : self._next + 4]
        self._next += 4
        self._held = (self._held & ((1 << self._n) - 1)) << 32 | int.from_bytes(part + b"\xff" * (4 - len(part)), "big")
        self._n += 32

    @property
    def _left(self) -> int:
        """Bits that were not passed; negative beyond the end."""
        return (len(self._data) - self._next) * 8 + self._n

    def symbol(self, table: _Table) -> int:
        """Decode the next symbol."""
        if self._n < 16:
            self._fill()
        held, n = self._held, self._n
        length, symbol = table[0][(held >> (n - _AHEAD)) & 0xFF]
        if length:
            self._n = n - length
            table[2].add(symbol)
            return symbol
        for length in range(_AHEAD + 1, 17):
            value = table[1].get((length, (held >> (n - length)) & ((1 << length) - 1)))
            if value is not None:
                self._n = n - length
                table[2].add(value)
                return value
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
        left = self._left
        if left < 0:
            raise SurplusError("a JPEG that ends too early")
        if left >= 8:
            raise SurplusError(f"{left // 8:,} bytes of data after its last block")
        if ~(self._held >> (self._n - left)) & ((1 << left) - 1):
            raise SurplusError("bits of data after its last block")
