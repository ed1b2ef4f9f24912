"""Resizing by a stated rule, and colour to grey.

All three rules use Pillow's bilinear filter with its support widened by the scale when the image shrinks: the
antialiased triangle filter, which is also what torchvision's ``Resize`` gives. ``squash``, the papers' rule, changes
the aspect ratio. An image that has the size already is left as it is, bit for bit.
"""

import numpy as np
from PIL import Image

from memorisk.images.options import Resize
from memorisk.runs.errors import unknown_name


def resize_image(image: np.ndarray, size: int, rule: Resize) -> np.ndarray:
    """Resize to a square.

    * ``squash``: both sides to ``size``.
    * ``crop``: the shorter side to ``size``, the longer in proportion (rounded), then the middle square.
    * ``pad``: the longer side to ``size``, the shorter in proportion (rounded, at least 1), black on both sides of
      it. Where pixels do not divide evenly the middle lies up and left.

    Args:
        image: [h, w, c] uint8 or uint16, c in {1, 3}.
        size: Side in pixels.
        rule: One of the three.

    Returns:
        [size, size, c], the same type.

    Raises:
        InputError: Unknown rule.
    """
    height, width = image.shape[:2]
    if rule == "squash":
        return _scale(image, size, size)
    if rule == "crop":
        scale = size / min(height, width)
        scaled = _scale(image, max(size, round(height * scale)), max(size, round(width * scale)))
        top, left = (scaled.shape[0] - size) // 2, (scaled.shape[1] - size) // 2
        return scaled[top : top + size, left : left + size]
    if rule == "pad":
        scale = size / max(height, width)
        scaled = _scale(image, min(size, max(1, round(height * scale))), min(size, max(1, round(width * scale))))
        padded = np.zeros((size, size, image.shape[2]), dtype=image.dtype)
        top, left = (size - scaled.shape[0]) // 2, (size - scaled.shape[1]) // 2
        padded[top : top + scaled.shape[0], left : left + scaled.shape[1]] = scaled
        return padded
    raise unknown_name("resize rule", rule, ("squash", "crop", "pad"))


def to_luma(image: np.ndarray) -> np.ndarray:
    """Colour to grey: 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), rounded; [h, w, 3] -> [h, w, 1], the same type."""
    weighted = image.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    return np.rint(weighted).astype(image.dtype)[..., None]


def is_grey(image: np.ndarray) -> bool:
    """Whether [h, w, c] has one channel, or three that are equal everywhere."""
    if image.shape[2] == 1:
        return True
    first = image[..., 0]
    return bool((first == image[..., 1]).all() and (first == image[..., 2]).all())


def _scale(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[:2] == (height, width):
        return image
    if image.dtype == np.uint8:
        pixels = Image.fromarray(image[..., 0] if image.shape[2] == 1 else np.ascontiguousarray(image))
        scaled = np.asarray(pixels.resize((width, height), Image.Resampling.BILINEAR))
        return scaled.reshape(height, width, image.shape[2])
    # Pillow has no filter for several 16-bit channels: each goes through its 32-bit floats
    limit = np.iinfo(image.dtype).max
    scaled = np.empty((height, width, image.shape[2]), dtype=image.dtype)
    for c in range(image.shape[2]):
        channel = Image.fromarray(np.ascontiguousarray(image[..., c], dtype=np.float32))
        floats = np.asarray(channel.resize((width, height), Image.Resampling.BILINEAR))
        scaled[..., c] = np.clip(np.rint(floats), 0, limit)
    return scaled
