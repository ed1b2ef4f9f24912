"""NumPy's npy (format versions 1 to 3): a header, and the numbers that it declares.

The header is a Python expression, in which spaces, comments and repeated keys could say anything: only the form that
NumPy itself writes is taken.
"""

import re
from math import prod

from memorisk.images.containers.parsing import Reader, SurplusError

HEAD = 1024
"""Bytes of a file that hold the header that NumPy writes, and more."""
_FORM = re.compile(
    rb"\{'descr': '([<>|]([uif])([1248]))', 'fortran_order': (False|True), 'shape': \(([0-9, ]*)\), \}( *)\n"
)
_ALIGNED = 64
_GROWTH = 21  # digits that NumPy leaves room for, so that a first axis can grow in place (numpy.lib.format)


def npy_surplus(head: bytes, size: int, *, depth: int = 16) -> None:
    """Parse an array file.

    Args:
        head: Its beginning, `HEAD` bytes or all of it.
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
    if (found := _FORM.fullmatch(text := reader.take(length))) is None:
        raise SurplusError("a header that is not as NumPy writes it")
    shape = tuple(int(n) for n in found[5].replace(b" ", b"").split(b",") if n)
    if text.partition(b"(")[2].partition(b")")[0] != repr(shape)[1:-1].encode() or len(found[6]) > _ALIGNED + _GROWTH:
        raise SurplusError("a header with more room than an npy array needs")
    bits = 8 * int(found[3])
    if bits > depth:
        raise SurplusError(f"numbers of {bits} bits, of which the audit sees {depth}")
    if (more := size - reader.place - prod(shape) * bits // 8) > 0:
        raise SurplusError(f"{more:,} bytes after the end of the npy array")
    if more < 0:
        raise SurplusError("an npy array that ends too early")
