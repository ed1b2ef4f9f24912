"""Images for the store, and what it must hold by definition."""

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from memorisk.images.manifest import Manifest
from memorisk.images.pixels import is_grey, resize_image, to_luma
from memorisk.images.readers.registry import read_image


def write_images(folder: Path, n: int, *, shape=(12, 10), colour=(), seed=0) -> Manifest:
    """``n`` PNG files of noise, grey but for the rows named, in two classes."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for i in range(n):
        pixels = rng.integers(0, 256, (*shape, 3)).astype(np.uint8)
        Image.fromarray(pixels if i in colour else pixels[..., 0]).save(folder / f"{i:04d}.png")
    names = [f"{i:04d}" for i in range(n)]
    labels = ["even" if i % 2 == 0 else "odd" for i in range(n)]
    table = pd.DataFrame({"image": names, "path": [f"{i}.png" for i in names], "label": labels, "group": names})
    return Manifest(table, folder, "noise")


def naive(manifest, options):
    """The definition: read, make grey what is grey, resize, give all rows the same channels."""
    images = [read_image(manifest.file(row), depth=options.depth) for row in range(manifest.n)]
    if options.channels == 1:
        images = [image[..., :1] if is_grey(image) else to_luma(image) for image in images]
    if options.size:
        images = [resize_image(image, options.size, options.resize) for image in images]
    grey = all(is_grey(image) for image in images)
    channels = (1 if grey else 3) if options.channels == "auto" else options.channels
    return np.stack(
        [image[..., :1] if channels == 1 else np.broadcast_to(image, (*image.shape[:2], 3)) for image in images]
    )
