"""What the parsers share: the exception that names a surplus, and a reader that never leaves its bytes."""


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
