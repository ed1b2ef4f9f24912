"""NumPy's npy (format versions 1 to 3): a header, and the numbers that it declares."""

import ast
from math import prod

from memorisk.images.containers.parsing import Reader, SurplusError

_NUMBERS = {f"{order}{kind}{size}" for order in "<>|" for kind in "uif" for size in (1, 2, 4, 8)} | {"|b1"}
_ALIGNED = 64
_GROWTH = 21  # digits that NumPy leaves room for, so that a first axis can grow in place (numpy.lib.format)


def npy_surplus(data: bytes) -> None:
    """Parse an array file.

    Raises:
        SurplusError: It holds something other than one array of numbers.
    """
    reader = Reader(data, "npy array")
    reader.take(6)
    major, _ = reader.take(2)
    length = int.from_bytes(reader.take(2 if major == 1 else 4), "little")
    text = reader.take(length)
    described = text.rstrip(b"\n").rstrip(b" ")
    if length - len(described) > _ALIGNED + _GROWTH or not text.endswith(b"\n") or text.count(b"\n") != 1:
        raise SurplusError("a header with more room than an npy array needs")
    try:
        header = ast.literal_eval(described.decode("ascii"))
        n, kind = prod(header["shape"]), header["descr"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise SurplusError("a header that is none of npy") from None
    if set(header) != {"descr", "fortran_order", "shape"} or kind not in _NUMBERS:
        raise SurplusError("an npy array of something other than numbers")
    reader.take(n * int(kind[2:]))
    reader.end()
