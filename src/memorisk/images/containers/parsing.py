"""What the parsers share: `SurplusError` names a surplus, `Reader` never leaves its bytes, and known colour profiles.

A few public colour profiles (ICC) are known by their content; any other may hold text or tables of somebody's own.
The date in the header (bytes 24 to 35) is left out of the comparison, because Little CMS writes the time of day
there. It must be a date all the same.
"""

import hashlib
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
        """Return how many bytes were not read yet."""
        return len(self.data) - self.place

    def take(self, n: int) -> bytes:
        """Read the next ``n`` bytes.

        Raises:
            SurplusError: There are fewer.
        """
        if n > self.left:
            raise SurplusError(f"a {self.what} that ends too early")
        part = self.data[self.place : self.place + n]
        self.place += n
        return part

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


KNOWN = {
    "f05e871ae8d9f56127c6d4c5af6e77b7a2980e1fce8c2155188a813b71e323df": "sRGB of Little CMS (Pillow)",
    "eddaf344b5edea13269e0d20055f335610e5e0b6e33e6e536f2701bc18c5f7d5": "sRGB of Artifex (Ghostscript)",
    "d3aaaa8ad45ec8a0108fd393a07488073ee24561fd5ed2d1f88c59771278cabd": "grey of Artifex (Ghostscript)",
    "76c42fb897fe303726a520cc678bacd1400772a39265889ded8e5ea46a4534a3": "sRGB of the free ICC profiles",
    "1018bc538a0ce5a780337a80551f4e270b68851c110cd65f6186a9f06bf5a318": "grey of the free ICC profiles",
}
"""SHA-256 of public profiles with the date set to zero."""
_DATE = slice(24, 36)
_LATEST = (2100, 12, 31, 23, 59, 59)


def check_profile(profile: bytes) -> None:
    """Refuse a profile that is not one of the known ones.

    Args:
        profile: ICC profile, as it stands in the file.

    Raises:
        SurplusError: It is another one, or its date is none.
    """
    date = [int.from_bytes(profile[i : i + 2], "big") for i in range(24, 36, 2)]
    dated = all(value <= latest for value, latest in zip(date, _LATEST, strict=True))
    plain = profile[: _DATE.start] + bytes(12) + profile[_DATE.stop :]
    if not dated or hashlib.sha256(plain).hexdigest() not in KNOWN:
        raise SurplusError(f"a colour profile beyond the plain ones (ICC, {len(profile):,} bytes)")
