"""Windows of images, each embedded by one network, for copies that hold a part of their source.

``default:views`` embeds the whole image, the image turned by 10 and 20 degrees either way, and nine windows of 85 % of
its side, at three places across and down, each at 32 pixels: a turned copy or a crop shows one of these views, or
nearly. An image that is only ever a copy is embedded whole. ``default:places`` embeds sixteen windows of 35 % of the
side, at four places across and down, each at 16 pixels: a region that was pasted, or left free, holds one of these at
its own place. Both together multiply 4.5 times as many numbers as the whole image at 64 pixels, and 1.25 times as many
of a copy.

A window whose pixels spread by less than one grey level of 8 bits has no details. Its vector is zeros: it is like no
other.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from memorisk.scores.parts import PLACES, VIEWS, Comparison

LEAST_SPREAD = 1 / 255
"""Least standard deviation of the pixels of a window, in [0, 1]; a window below it has no details."""
PASS_PIXELS = 1 << 19
"""Number of pixels of the windows in one pass of the network: more no longer fit into a processor's cache."""


@dataclass(frozen=True)
class WindowGrid:
    """Grid of windows of an image."""

    share: float
    """Side of a window, as a share of the image's."""
    across: int
    """Number of windows in a row, and of rows."""
    side: int
    """Side in pixels at which a window is embedded."""
    whole: bool
    """Whether the whole image is embedded as well, before the windows."""
    turns: tuple[float, ...] = ()
    """Angles in degrees by which the whole image is turned about its centre, each a view after the whole image."""

    @property
    def n(self) -> int:
        """Return the number of windows, the whole image included."""
        return self.across**2 + self.whole + len(self.turns)

    @property
    def of_copies(self) -> "WindowGrid":
        """Return the windows of images that are only ever copies, of which a comparison of views reads the whole."""
        return replace(self, across=0, turns=()) if self.whole else self

    def describe(self) -> dict[str, Any]:
        """Return the values that the vectors depend on, in the form of JSON."""
        return asdict(self) | {"least_spread": LEAST_SPREAD}

    def cut(self, images: torch.Tensor) -> torch.Tensor:
        """Cut images [b, c, h, w] into [b, W, c, side, side]: the whole image, turned ones, windows row by row."""
        height, width = images.shape[-2:]
        tall, wide = (max(1, round(self.share * size)) for size in (height, width))
        steps = range(self.across)
        corners = [
            (round(y * (height - tall) / (self.across - 1)), round(x * (width - wide) / (self.across - 1)))
            for y in steps
            for x in steps
        ]
        windows = [images] if self.whole else []
        windows += [_turned(images, angle) for angle in self.turns]
        windows += [images[..., y : y + tall, x : x + wide] for y, x in corners]
        return torch.stack([self._resized(window) for window in windows], dim=1)

    def _resized(self, window: torch.Tensor) -> torch.Tensor:
        size = (self.side, self.side)
        if window.shape[-2:] == size:
            return window
        return F.interpolate(window, size, mode="bilinear", antialias=True, align_corners=False)


def _turned(images: torch.Tensor, degrees: float) -> torch.Tensor:
    """Turn images [b, c, h, w] about their centre; borders are repeated."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = images.new_tensor([[cos, -sin, 0.0], [sin, cos, 0.0]]).expand(len(images), 2, 3)
    places = F.affine_grid(turn, list(images.shape), align_corners=False)
    return F.grid_sample(images, places, mode="bilinear", padding_mode="border", align_corners=False)


GRIDS: Mapping[Comparison, WindowGrid] = {
    VIEWS: WindowGrid(share=0.85, across=3, side=32, whole=True, turns=(-20.0, -10.0, 10.0, 20.0)),
    PLACES: WindowGrid(share=0.35, across=4, side=16, whole=False),
}
"""Windows by the comparison that they are for."""


def source_grid(comparison: Comparison | None, as_copies: bool) -> WindowGrid | None:
    """Return the windows that are embedded for a comparison; None for whole images."""
    if comparison is None:
        return None
    return GRIDS[comparison].of_copies if as_copies else GRIDS[comparison]


class WindowedNetwork(nn.Module):
    """A network over the windows of each image.

    Args:
        network: Network from pixels [b, c, side, side] in [0, 1] to [b, d]; it is not copied.
        grid: Grid of the windows.
    """

    def __init__(self, network: nn.Module, grid: WindowGrid) -> None:
        super().__init__()
        self.network = network
        self.grid = grid

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, c, h, w] to the vectors of the windows, one after the other, [b, W * d]."""
        windows = self.grid.cut(x)
        flat = windows.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        a_pass = max(1, PASS_PIXELS // self.grid.side**2)
        vectors = torch.cat([self.network(some) for some in flat.split(a_pass)])
        details = flat.float().std(dim=(1, 2, 3), keepdim=False) >= LEAST_SPREAD
        return (vectors * details[:, None]).reshape(len(x), -1)
