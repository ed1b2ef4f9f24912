"""What a GAN of the StyleGAN2 kind is built from."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from memorisk.runs.errors import InputError, one_line, several

SIDES = (8, 16, 32, 64, 128, 256, 512, 1024)
_START = 4
_WIDEST = {"style": 1 << 14, "mapping_layers": 1 << 6, "features": 1 << 20, "features_max": 1 << 14}
"""Far above any published network; a damaged description is refused before its weights are made room for."""


@dataclass(frozen=True, kw_only=True)
class GanSpec:
    """Its images, and the widths of its networks."""

    size: int
    """Pixels a side of the images, one of `SIDES`."""
    channels: int
    """Of the images, 1 or 3."""
    style: int
    """Numbers of z and w."""
    mapping_layers: int
    """From z to w."""
    features: int
    """Feature maps times pixels a side."""
    features_max: int
    """Most feature maps of a layer."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "GanSpec":
        """What JSON says of one.

        Raises:
            InputError: Something is missing, unknown or out of range.
        """
        names = {field.name for field in fields(cls)}
        if set(given) != names or not all(isinstance(n, int) and not isinstance(n, bool) for n in given.values()):
            raise InputError(f"a GAN is described by whole numbers: {', '.join(sorted(names))}; not {one_line(given)}")
        spec = cls(**given)
        spec.validate()
        return spec

    def validate(self) -> None:
        """Check what can be wrong.

        Raises:
            InputError: Images that it cannot draw, or a width below 1.
        """
        if self.size not in SIDES or self.channels not in (1, 3):
            sides = ", ".join(map(str, SIDES))
            raise InputError(
                f"images have {self.size} pixels a side and {several(self.channels, 'channel', 'channels')}; a GAN "
                f"takes squares of {sides} pixels (a size resizes them) with 1 or 3 channels"
            )
        for name in ("style", "mapping_layers", "features", "features_max"):
            if not 1 <= getattr(self, name) <= _WIDEST[name]:
                raise InputError(f"{name} of a GAN is {getattr(self, name)}; it must lie from 1 to {_WIDEST[name]:,}")

    @property
    def sides(self) -> tuple[int, ...]:
        """Of the blocks: 4, 8, ..., size."""
        return tuple(_START << k for k in range((self.size // _START).bit_length()))

    def width(self, side: int) -> int:
        """Feature maps at a side."""
        return max(1, min(self.features // side, self.features_max))

    @property
    def styles(self) -> int:
        """How many w an image takes: one a layer, and one for the last image."""
        return 2 * len(self.sides)

    @property
    def noise_sides(self) -> tuple[int, ...]:
        """Side of the noise of each layer."""
        return tuple(side for k, side in enumerate(self.sides) for _ in range(1 if k == 0 else 2))
