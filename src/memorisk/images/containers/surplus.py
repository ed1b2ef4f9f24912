"""What an image file holds besides one image: `surplus` chooses the parser, and parses PNG and npy itself.

PNG (ISO/IEC 15948, third edition): which chunks a plain picture has, and that the pixels fill their data exactly.
Refused besides text, EXIF, animation and unknown chunks: transparency (pixels under it are not what an audit sees),
palettes (colours that no pixel uses can hold anything), and a profile that is not one of the known ones.

npy of NumPy (format versions 1 to 3): a header, and the numbers that it declares. The header is a Python
expression, in which spaces, comments and repeated keys could say anything: only the form that NumPy itself writes
is taken.
"""

import re
import zlib
from math import prod
from pathlib import Path
from struct import pack

from memorisk.images.containers.jpeg import jpeg_surplus
from memorisk.images.containers.parsing import Reader, SurplusError, check_profile, resolutions
from memorisk.images.containers.safetensors import is_safetensors, tensor_surplus

_HIDDEN = {
    b"tEXt": "text", b"zTXt": "text", b"iTXt": "text", b"eXIf": "EXIF data", b"tIME": "a date", b"sPLT": "a palette",
    b"PLTE": "a palette, whose unused colours can hold anything", b"hIST": "a histogram",
    b"tRNS": "transparency, under which pixels are not seen",
    b"acTL": "an animation", b"fcTL": "further frames", b"fdAT": "further frames",
}  # fmt: skip
_SRGB = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
_DISPLAY = {
    b"gAMA": {pack(">I", gamma) for gamma in (45455, 100000)},
    b"cHRM": {pack(">8I", *_SRGB)},
    b"sRGB": {bytes([intent]) for intent in range(4)},
    b"pHYs": {pack(">2IB", n, n, 1) for n in resolutions(0.0254)} | {pack(">2IB", 1, 1, 0)},
    b"sBIT": {bytes([bits] * samples) for bits in range(1, 17) for samples in (1, 3)},
    b"bKGD": {pack(">H", grey) * samples for grey in (0, 1, 3, 15, 255, 65535) for samples in (1, 3)},
    b"cICP": {bytes(code) for code in ((1, 13, 0, 1), (12, 13, 0, 1), (9, 16, 0, 1), (9, 18, 0, 1))},
}
"""Chunks about how pixels are shown, with what programs write there: in any other value text could stand."""
_SAMPLES = {0: 1, 2: 3}
"""Samples of a pixel by colour type: grey, RGB."""
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16)}
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Adam7: first column, first row, step of columns, step of rows (section 8.2)."""
_PIECE = 1 << 20


def png_surplus(data: bytes, *, depth: int = 16) -> None:
    """Parse a PNG file.

    Args:
        data: The file.
        depth: Bits of a sample that an audit saw.

    Raises:
        SurplusError: It holds something besides the pixels of one image, or samples of more bits.
    """
    reader = Reader(data, "PNG")
    reader.take(8)
    seen: list[bytes] = []
    pixels: list[bytes] = []
    header = b""
    while not seen or seen[-1] != b"IEND":
        name, body = _chunk(reader)
        if not seen and name != b"IHDR":
            raise SurplusError("a chunk before its header")
        if name == b"IDAT":
            if pixels and seen[-1] != b"IDAT":
                raise SurplusError("image data in two places")
            if not body:
                raise SurplusError("an empty chunk (IDAT)")
            pixels.append(body)
        elif name in seen:
            raise SurplusError(f"a chunk that stands twice ({_printable(name)})")
        elif name == b"IHDR":
            header = body
        else:
            _check_chunk(name, body)
        seen.append(name)
    reader.end()
    _check_pixels(b"".join(pixels), _raw_size(header, depth))


def _chunk(reader: Reader) -> tuple[bytes, bytes]:
    """Name and content of the next chunk, whose checksum must be right: four bytes of one that is not are free."""
    length, name = reader.number(4), reader.take(4)
    body = reader.take(length)
    if reader.number(4) != zlib.crc32(body, zlib.crc32(name)):
        raise SurplusError(f"a chunk with a wrong checksum ({_printable(name)})")
    return name, body


def _check_chunk(name: bytes, body: bytes) -> None:
    """Refuse a chunk that holds more than how pixels are shown.

    Raises:
        SurplusError: It does.
    """
    if name in _HIDDEN:
        raise SurplusError(f"{_HIDDEN[name]} ({_printable(name)})")
    if name == b"iCCP":
        _check_embedded(body)
    elif name == b"IEND":
        if body:
            raise SurplusError("data in its last chunk (IEND)")
    elif name not in _DISPLAY:
        raise SurplusError(f"an unknown chunk ({_printable(name)})")
    elif body not in _DISPLAY[name]:
        raise SurplusError(f"unusual values in a chunk about display ({_printable(name)})")


def _check_embedded(body: bytes) -> None:
    """Refuse a colour profile that is not a known one; its name is free text and must be what Pillow writes."""
    name, _, rest = body.partition(b"\0")
    if name.strip().lower() not in (b"icc profile", b"srgb", b"icc"):
        raise SurplusError("text in the name of its colour profile (iCCP)")
    try:
        decoder = zlib.decompressobj()
        profile = decoder.decompress(rest[1:], _PIECE)
    except zlib.error:
        raise SurplusError("a broken colour profile (iCCP)") from None
    if not decoder.eof or decoder.unused_data or rest[:1] != b"\0":
        raise SurplusError("data after its colour profile (iCCP)")
    if len(rest) > _longest(len(profile)):
        raise SurplusError("data among its colour profile (iCCP)")
    check_profile(profile)


def _longest(size: int) -> int:
    """Bytes that compressed data have at most (zlib's ``deflateBound``): blocks that give nothing can be of any number.

    Args:
        size: Bytes before compression.
    """
    return size + (size >> 3) + (size >> 6) + 64


def _raw_size(header: bytes, audited: int) -> int:
    """Bytes of all rows before compression, each with its filter byte.

    Raises:
        SurplusError: It is no header of a plain picture, or its samples have more bits than the audited ones.
    """
    if len(header) != 13:
        raise SurplusError("a header that is none of PNG")
    width, height = (int.from_bytes(header[i : i + 4], "big") for i in (0, 4))
    depth, colour, compression, filtering, interlace = header[8:]
    if colour in (4, 6):
        raise SurplusError("transparency, under which pixels are not seen")
    if colour == 3:
        raise SurplusError(_HIDDEN[b"PLTE"])
    if depth not in _DEPTHS.get(colour, ()) or compression or filtering or interlace > 1 or not width * height:
        raise SurplusError("a header that is none of PNG")
    seen = audited if colour == 0 else 8  # of colours of 16 bits Pillow, and so every audit, gives the upper 8
    if depth > seen:
        raise SurplusError(f"samples of {depth} bits, of which the audit sees the upper {seen}")
    bits = depth * _SAMPLES[colour]
    passes = _PASSES if interlace else ((0, 0, 1, 1),)
    total = 0
    for left, top, right, down in passes:
        columns, rows = -(-(width - left) // right), -(-(height - top) // down)
        if columns > 0 and rows > 0 and columns * bits % 8:
            raise SurplusError("rows with bits of no pixel")
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total


def _check_pixels(data: bytes, expected: int) -> None:
    """Inflate image data, a megabyte at a time, to exactly as many bytes as the pixels need.

    Raises:
        SurplusError: It gives more or fewer, or more data follow.
    """
    decoder, n_bytes = zlib.decompressobj(), 0
    if len(data) > _longest(expected):
        raise SurplusError("more image data than its pixels need (IDAT)")
    try:
        while not decoder.eof and n_bytes <= expected:
            part = decoder.decompress(data, _PIECE)
            n_bytes, data = n_bytes + len(part), decoder.unconsumed_tail
            if not part and not data and not decoder.eof:
                break
    except zlib.error:
        raise SurplusError("broken image data (IDAT)") from None
    if n_bytes < expected or (not decoder.eof and n_bytes == expected):
        raise SurplusError("image data that end too early (IDAT)")
    if n_bytes > expected or decoder.unused_data:
        raise SurplusError("data after its pixels (IDAT)")


def _printable(name: bytes) -> str:
    return name.decode("ascii") if name.isalpha() else name.hex()


NPY_HEAD = 1024
"""Bytes of a file that hold the header that NumPy writes, and more."""
_FORM = re.compile(
    rb"\{'descr': '([<>|]([uif])([1248]))', 'fortran_order': (False|True), 'shape': \(([0-9, ]*)\), \}( *)\n"
)
_ALIGNED = 64
_GROWTH = 21  # digits that NumPy leaves room for, so that a first axis can grow in place (numpy.lib.format)


def npy_surplus(head: bytes, size: int, *, depth: int = 16) -> None:
    """Parse an array file.

    Args:
        head: Its beginning, `NPY_HEAD` bytes or all of it.
        size: Bytes of the file.
        depth: Bits of a value that an audit saw.

    Raises:
        SurplusError: It holds something other than one array of numbers, or numbers of more bits.
    """
    reader = Reader(head, "npy array")
    reader.take(6)
    major, minor = reader.take(2)
    if major not in (1, 2, 3) or minor:
        raise SurplusError("a header that is none of npy")
    length = int.from_bytes(reader.take(2 if major == 1 else 4), "little")
    if length > reader.left:
        raise SurplusError("a header with more room than an npy array needs")
    if (match := _FORM.fullmatch(text := reader.take(length))) is None:
        raise SurplusError("a header that is not as NumPy writes it")
    shape = tuple(int(n) for n in match[5].replace(b" ", b"").split(b",") if n)
    if text.partition(b"(")[2].partition(b")")[0] != repr(shape)[1:-1].encode() or len(match[6]) > _ALIGNED + _GROWTH:
        raise SurplusError("a header with more room than an npy array needs")
    bits = 8 * int(match[3])
    if bits > depth:
        raise SurplusError(f"numbers of {bits} bits, of which the audit sees {depth}")
    if (more := size - reader.place - prod(shape) * bits // 8) > 0:
        raise SurplusError(f"{more:,} bytes after the end of the npy array")
    if more < 0:
        raise SurplusError("an npy array that ends too early")


UNCHECKED = "a format that may hold more than one image (PNG, JPEG and npy are checked)"
"""Words for a file of any other format."""
_PNG, _JPEG, _NPY = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\x93NUMPY"


def surplus(path: Path, *, depth: int = 16, walk: bool = True) -> str | None:
    """Name what an image file holds besides one image.

    Args:
        path: PNG, JPEG or npy; any other format is named, because it cannot be checked.
        depth: Bits of a value that an audit saw, 8 or 16.
        walk: Walk through the coded data of a JPEG, too, some 2 MB a second.

    Returns:
        A phrase such as "text (tEXt)"; None for a file that holds pixels alone.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(NPY_HEAD)
        try:
            if head.startswith(_NPY):
                npy_surplus(head, path.stat().st_size, depth=depth)
            elif head.startswith(_PNG):
                png_surplus(head + file.read(), depth=depth)
            elif head.startswith(_JPEG):
                jpeg_surplus(head + file.read(), walk=walk)
            else:
                return UNCHECKED
        except SurplusError as error:
            return str(error)
    return None


def weights_surplus(path: Path) -> list[str]:
    """Name everything that a safetensors file holds besides tensors.

    Args:
        path: The file, known by its content or its name; files of other formats are not looked into.

    Returns:
        A phrase each; none for tensors alone, and for other formats.

    Raises:
        OSError: The file cannot be read.
    """
    if not is_safetensors(path):
        return []
    with path.open("rb") as file:
        try:
            return tensor_surplus(file, path.stat().st_size)
        except SurplusError as error:
            return [str(error)]
