"""Size, channels and depth of an image, and those that the header of a PNG file declares.

Only Python's own library is needed, because the gate on releases runs where no image library is installed.
"""

from dataclasses import dataclass
from struct import unpack
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import numpy as np

LEAST_VOXELS = 8
"""Fewest voxels along each side of a volume, so that its slices are never taken for the channels of an image."""
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
"""Number of channels of a pixel by colour type of PNG (section 11.2.1); a palette holds colours."""
_HEADER_END = 26


@dataclass(frozen=True)
class PixelForm:
    """Form of an image's pixels, or of a volume's voxels: its depth then takes the place of channels."""

    height: int
    width: int
    channels: int
    bits: int
    """Number of bits of a sample."""

    @property
    def words(self) -> str:
        """Describe the form, as in "32 x 32 grey pixels of 8 bits" (width x height, of volumes x depth)."""
        if self.is_volume:
            return f"{self.width} x {self.height} x {self.channels} grey voxels of {self.bits} bits"
        colour = {1: "grey", 2: "grey and transparent", 3: "colour", 4: "colour and transparent"}[self.channels]
        return f"{self.width} x {self.height} {colour} pixels of {self.bits} bits"

    @property
    def is_volume(self) -> bool:
        """Return whether this is the form of a volume."""
        return self.channels >= LEAST_VOXELS

    @classmethod
    def of_array(cls, image: "np.ndarray") -> Self:
        """Return the form of pixels [h, w, c]."""
        height, width, channels = image.shape
        return cls(height, width, channels, 8 * image.dtype.itemsize)

    def covers(self, other: Self) -> bool:
        """Return whether an image of another form shows no more than one of this form; grey is within colour."""
        same = (self.height, self.width, self.bits) == (other.height, other.width, other.bits)
        if self.is_volume or other.is_volume:
            return same and other.channels == self.channels
        return same and other.channels <= self.channels

    @classmethod
    def of_png(cls, data: bytes) -> Self | None:
        """Read the form that a PNG file declares.

        Args:
            data: Bytes of the file, or of its beginning.

        Returns:
            Form of the image; None for another file.
        """
        if len(data) < _HEADER_END or not data.startswith(PNG_SIGNATURE) or data[12:16] != b"IHDR":
            return None
        width, height, bits, colour = unpack(">2I2B", data[16:_HEADER_END])
        return cls(height, width, _CHANNELS[colour], bits) if colour in _CHANNELS else None
