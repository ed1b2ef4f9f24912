"""What the parsers share: the exception that names a surplus, and a reader that never leaves its bytes."""

from math import ceil, floor

_USUAL = (72, 75, 96, 100, 120, 144, 150, 180, 200, 240, 250, 300, 350, 360, 400, 500, 600, 1200)
"""Dots an inch that programs set."""


class SurplusError(Exception):
    """A file holds more than its image, or breaks its format where more could lie; the message is a noun phrase."""


class Reader:
    """Bytes read from the front.

    Args:
        data: The file.
        what: Name of the format, for messages.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what, self.place = data, what, 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self.data) - self.place

    def take(self, n: int) -> bytes:
        """Read the next ``n`` bytes.

        Raises:
            SurplusError: There are fewer.
        """
        if n > self.left:
            raise SurplusError(f"a {self.what} that ends too early")
        found = self.data[self.place : self.place + n]
        self.place += n
        return found

    def number(self, size: int) -> int:
        """Read a big-endian unsigned number of ``size`` bytes."""
        return int.from_bytes(self.take(size), "big")

    def end(self) -> None:
        """Refuse bytes that follow.

        Raises:
            SurplusError: There are some.
        """
        if self.left:
            raise SurplusError(f"{self.left:,} bytes after the end of the {self.what}")


def resolutions(inches: float) -> list[int]:
    """Pixels in a length at the usual resolutions, rounded either way; any other number could say something.

    Args:
        inches: A unit of length is so many to an inch: 0.0254 for a metre, 2.54 for a centimetre.
    """
    return sorted({round_up(dpi / inches) for dpi in _USUAL for round_up in (floor, ceil)})
