"""Images whose files hold a picture under transparent pixels or in them, which a comparison never sees.

Every reader composites alpha over black. A loader that converts images to RGB leaves alpha out, as most do, so that a
network was trained on the picture below: a mask that is stored as alpha hides what lies outside it from an audit alone.
"""

import warnings
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import STRAY_SHARE, PixelRule, grey_levels
from memorisk.images.readers.arrays import array_shapes
from memorisk.images.readers.greys import opacity_is_picture, to_depth
from memorisk.images.readers.registry import SHARDS, file_format
from memorisk.images.store import manifest_sources
from memorisk.runs.errors import InputError

_BRIGHT = 32
"""Least level, of 256, of a pixel that shows its opacity: rounding of the pixel then changes it by 4 levels at most."""


def count_hiding(manifest: Manifest, options: ImageOptions, least_levels: int) -> int:
    """Count the images of a manifest that hold a picture under transparent pixels or in them.

    Args:
        manifest: Manifest of the images.
        options: Options by which the images are read.
        least_levels: Fewest grey levels, of 256, of a picture.
    """
    rule, n = PixelRule.of(options), 0
    may_hide = cache(_may_be_transparent)
    for source in manifest_sources(manifest):
        try:
            if may_hide(source.file):
                on_black, opaque = rule.read(source), rule.read(source, opaque=True)
                n += hides_picture(on_black, opaque, least_levels) or is_shaded(on_black, opaque)
        except (InputError, OSError):  # the store counts such an image, with the reason
            continue
    return n


def hides_picture(on_black: np.ndarray, opaque: np.ndarray, least_levels: int) -> bool:
    """Return whether pixels that are black by transparency hold a picture of their own.

    Up to `STRAY_SHARE` of the pixels may, as those at an edge do.

    Args:
        on_black: Pixels [h, w, c], composited over black.
        opaque: Pixels [h, w, c] without transparency.
        least_levels: Fewest grey levels, of 256, of a picture; where a pixel on black has fewer, it shows nothing.
    """
    below = to_depth(on_black, 8).max(axis=2) < least_levels
    hidden = below & (to_depth(opaque, 8).max(axis=2) >= least_levels)
    return hidden.mean() > STRAY_SHARE and grey_levels(opaque[hidden][:, None]) - 1 >= least_levels


def is_shaded(on_black: np.ndarray, opaque: np.ndarray) -> bool:
    """Return whether transparency itself is a picture, as a modality in place of alpha is (`opacity_is_picture`).

    Args:
        on_black: Pixels [h, w, c], composited over black.
        opaque: Pixels [h, w, c] without transparency.
    """
    visible, whole = (to_depth(image, 8).max(axis=2).astype(float) for image in (on_black, opaque))
    alpha = np.where(whole >= _BRIGHT, 255 * visible / np.maximum(whole, 1), 255)
    return opacity_is_picture(np.rint(alpha).astype(np.uint8))


def _may_be_transparent(file: str) -> bool:
    """Return whether some image of a file may have transparent pixels, by its header; rows of shards may."""
    file_type = file_format(file)
    if file_type is None or file_type.kind not in ("raster", "arrays"):
        return False
    if file_type.kind == "raster":
        with warnings.catch_warnings(action="ignore"), Image.open(file) as image:
            return image.has_transparency_data
    if file_type.module == SHARDS:
        return True
    return any(len(shape) == 4 and 4 in (shape[1], shape[3]) for shape, _ in array_shapes(Path(file)).values())
