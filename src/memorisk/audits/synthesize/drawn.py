"""Drawn images beside real ones: brought to the form in which training images are stored, as their files would be."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.decoding.decoding import PixelRule, hash_pixels
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.store import ImageStore
from memorisk.models.generators.generators import GeneratorConfig
from memorisk.runs.errors import InputError, one_line


@dataclass(frozen=True)
class StoredForm:
    """How a drawn image is stored beside training images."""

    rule: PixelRule
    shape: tuple[int, int, int]
    """Height, width and channels of the training images as they are stored."""

    @classmethod
    def of(cls, train: ImageStore, config: GeneratorConfig, options: ImageOptions) -> "StoredForm":
        """The form of a training set, where a generator's images can be brought to it.

        Args:
            train: The training images.
            config: Of the generator.
            options: How images are read.

        Raises:
            InputError: Sizes, channels or depth do not go together.
        """
        _, height, width, channels = (int(n) for n in train.images.shape)
        drawn, stored = f"{config.size[0]} x {config.size[1]}", f"{height} x {width}"
        name = one_line(config.name, 60)
        if train.images.dtype != np.uint8:
            raise InputError(f"{name} draws 8-bit images, and training images are stored at 16: leave depth out")
        if options.size is None and tuple(config.size) != (height, width):
            raise InputError(f"{name} draws images of {drawn}, and training images are stored at {stored}: give size")
        return cls(PixelRule.of(options), (height, width, channels))

    def pixels(self, images: np.ndarray) -> np.ndarray:
        """Drawn images in this form.

        Args:
            images: [n, H, W, C] uint8.

        Returns:
            [n, *shape] uint8.

        Raises:
            InputError: They are coloured, and the training images are grey.
        """
        made = np.empty((len(images), *self.shape), dtype=np.uint8)
        for row, image in enumerate(images):
            one = self.rule.prepare(image)
            if one.shape[2] > self.shape[2]:
                raise InputError(
                    "the generator's images are coloured, and the training images grey: give channels, 3 or 1"
                )
            made[row] = one
        return made

    def note(self, config: GeneratorConfig) -> str:
        """What is done to an image before it is compared; empty for nothing."""
        if (*config.size, config.channels) == self.shape:
            return ""
        drawn, stored = (" x ".join(map(str, form)) for form in ((*config.size, config.channels), self.shape))
        return f"Images are drawn as {drawn}, kept as such, and compared as {stored}, as training images are stored."


def store_of_drawn(train: ImageStore, pixels: np.ndarray, names: list[str], labels: list[str], name: str) -> ImageStore:
    """Pixels in the stored form as a store beside the training images, so that their features are kept there.

    Args:
        train: The training images.
        pixels: [n, H, W, C] uint8.
        names: [n] ids.
        labels: [n].
        name: Of the set.
    """
    hashes = np.array([hash_pixels(image) for image in pixels], dtype=object)
    return store_of_hashes(train, pixels, hashes, names, labels, name)


def store_of_hashes(
    train: ImageStore, pixels: np.ndarray, hashes: np.ndarray, names: list[str], labels: list[str], name: str
) -> ImageStore:
    """As `store_of_drawn`, of images whose hashes are known."""
    table = pd.DataFrame({"image": names, "path": "", "label": labels, "group": names}, dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    manifest = Manifest(table, None, name)
    return replace(train, images=pixels, manifest=manifest, pixel_hashes=hashes, skipped=nothing, key="drawn")


def read_images(folder: Path, names: list[str]) -> np.ndarray:
    """[n, H, W, C] uint8 of images on the disk, as they were drawn."""
    from PIL import Image

    images = []
    for name in names:
        with Image.open(folder / f"{name}.png") as file:
            image = np.asarray(file)
        images.append(image[..., None] if image.ndim == 2 else image)
    return np.stack(images)
