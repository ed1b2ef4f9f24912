"""Images of a run as pages show them: whole, or as small pictures that are kept in the run folder."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from memorisk.audits.run_images import RunImages
from memorisk.runs.checksums import is_intact
from memorisk.runs.files import fingerprint, write_bytes
from memorisk.runs.locks import ANSWERS_LOCK, folder_lock

CACHE = "thumbnails"
"""Name of the folder of small pictures in a run folder, for its owner alone."""
THUMBNAIL_SIDE = 160
_WIDEST = 1600  # largest side of a picture in a page, in pixels; a larger image is shrunk


class ViewedImages(RunImages):
    """Images of a run, with small pictures of them.

    Args:
        folder: Path of the run folder.
        config: Settings of the run, with paths restored.
        sources: Setting that names the images of each part.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        super().__init__(folder, config, sources)
        self._swept = False

    def thumbnail(self, part: str, row: int) -> bytes:
        """Return a small PNG, from the cache or made now.

        Raises:
            InputError: The same errors as `PartImages.pixels`.
        """
        images = self.part(part)
        name = fingerprint(self.config.get("run"), part, images.name(row), THUMBNAIL_SIDE, length=20)
        path = self.folder / CACHE / f"{name}.png"
        if is_intact(path):
            return path.read_bytes()
        picture = png(images.pixels(row), side=THUMBNAIL_SIDE)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with folder_lock(self.folder, name=ANSWERS_LOCK, wait=True):
                if not self._swept:
                    self._swept = True
                    for partial in path.parent.glob(".*.part"):  # by a viewer that was killed
                        partial.unlink(missing_ok=True)
                write_bytes(path, picture, recorded=True)
        except OSError:  # a full or a read-only disk: it is made again next time
            pass
        return picture


def png(pixels: np.ndarray, *, side: int = _WIDEST) -> bytes:
    """Encode an image as PNG, shrunk to a side where it is larger; 16 bits from its darkest to its brightest value."""
    array = np.asarray(pixels)
    if array.dtype != np.uint8:
        low, high = float(array.min()), float(array.max())
        array = np.rint((array.astype(np.float64) - low) * (255 / max(high - low, 1))).astype(np.uint8)
    image = Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array))
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()
