"""Every image ever drawn: its number, attempt and seed, its scores, whether it was kept, and its stored form.

The ledger is written a block at a time while the loop runs, in numbers alone (rows of the training images, no ids).
At the end it is put together as what a filter says of a set (`audits.filter.screening`).

A drawn image is brought to the form in which training images are stored, as its file would be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.filter.screening import Matches, Screening
from memorisk.images.copies.near_copies import SamePixels
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import PixelRule
from memorisk.images.store import ImageStore
from memorisk.models.settings import GeneratorConfig
from memorisk.runs.checksums import is_intact
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_array, read_table, write_array, write_table

PLAN_COLUMNS = ("image", "number", "attempt", "seed", "label", "class", "source", "condition")


@dataclass(frozen=True, eq=False)
class Block:
    """Images that were drawn and screened together."""

    plan: pd.DataFrame
    """Plan with one row per image: `training.generators.draws.plan_draws`."""
    hashes: np.ndarray
    """Hashes of the pixels as they were compared, [n]."""
    matches: tuple[Matches, ...]
    """Matches by every detector."""
    same: SamePixels
    """Identical pixels of the n images and training images: as they are, mirrored or turned."""
    identical_other: np.ndarray
    """Row of the image with the same pixels in a further part of TRAIN, [n]; -1 for none."""
    of_source: np.ndarray
    """Score of the image and the training image that it was conditioned on, [D, n]; NaN without such an image."""
    reason: np.ndarray
    """Reason of the rejection, [n]; empty for kept images."""
    quality: np.ndarray
    """Features by which quality is measured, [n, d]."""

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def kept(self) -> np.ndarray:
        """Return which images are kept, [n] of bool."""
        return self.reason == ""

    def save(self, folder: Path, name: str) -> None:
        """Write it, the table last: a block without its table is drawn again."""
        columns = {name: self.plan[name].to_numpy() for name in PLAN_COLUMNS if name != "source"}
        columns |= {"pixel_hash": self.hashes, "identical": self.same.row, "reason": self.reason}
        columns |= {"orientation": self.same.orientation, "identical_other": self.identical_other}
        for place, matches in enumerate(self.matches):
            columns |= {f"score_{place}": matches.score, f"row_{place}": matches.row, f"second_{place}": matches.second}
            columns[f"of_source_{place}"] = self.of_source[place]
        write_array(folder / f"{name}.npy", self.quality, recorded=True)
        write_table(folder / f"{name}.parquet", pd.DataFrame(columns), recorded=True)

    @classmethod
    def load(cls, folder: Path, name: str, plan: pd.DataFrame) -> "Block | None":
        """Return what `save` left of a part of the plan; None where nothing is left, or it is of another part.

        Args:
            folder: Folder of the blocks.
            name: Name of this block.
            plan: Rows that the block is to hold.
        """
        if not all(is_intact(folder / f"{name}.{ending}") for ending in ("npy", "parquet")):
            return None
        try:
            table = read_table(folder / f"{name}.parquet")
            quality = read_array(folder / f"{name}.npy")
            if table["seed"].tolist() != plan["seed"].tolist() or len(quality) != len(plan):
                return None
            n = sum(column.startswith("score_") for column in table)
            columns = [[table[f"{what}_{i}"].to_numpy() for what in ("score", "row", "second")] for i in range(n)]
            return cls(
                plan=plan,
                hashes=table["pixel_hash"].to_numpy(dtype=object),
                matches=tuple(Matches(*three) for three in columns),
                same=SamePixels(table["identical"].to_numpy(), table["orientation"].to_numpy()),
                identical_other=table["identical_other"].to_numpy(),
                of_source=np.array([table[f"of_source_{i}"].to_numpy() for i in range(n)]),
                reason=table["reason"].to_numpy(dtype=object),
                quality=quality,
            )
        except (OSError, ValueError, KeyError, EOFError):
            return None


@dataclass(frozen=True, eq=False)
class Ledger:
    """All blocks of a loop, in the order in which they were drawn."""

    blocks: tuple[Block, ...]
    n_asked: int
    """Places that were to be filled."""

    @property
    def plan(self) -> pd.DataFrame:
        """Return a row for each drawn image."""
        return pd.concat([block.plan for block in self.blocks], ignore_index=True)

    @property
    def hashes(self) -> np.ndarray:
        """Hashes of the pixels as they were compared, [S]."""
        return np.concatenate([block.hashes for block in self.blocks])

    @property
    def reason(self) -> np.ndarray:
        """Reason why an image was rejected, [S]; empty for kept ones."""
        return np.concatenate([block.reason for block in self.blocks])

    @property
    def of_source(self) -> np.ndarray:
        """Score of an image and what it was conditioned on, [D, S]; NaN without a condition."""
        return np.concatenate([block.of_source for block in self.blocks], axis=1)

    def score(self, detector: int) -> np.ndarray:
        """Return the best score of each image over all training images, [S], by one detector."""
        return np.concatenate([block.matches[detector].score for block in self.blocks])

    @property
    def quality(self) -> np.ndarray:
        """Features by which quality is measured, [S, d]."""
        return np.concatenate([block.quality for block in self.blocks])

    @property
    def first(self) -> np.ndarray:
        """Rows of the first draw of every place, [n_asked]: what the generator gives without the loop."""
        return np.flatnonzero(self.plan["attempt"].to_numpy() == 0)

    @property
    def kept(self) -> np.ndarray:
        """Rows of the kept images, [K], by their numbers."""
        rows = np.flatnonzero(self.reason == "")
        return rows[np.argsort(self.plan["number"].to_numpy()[rows], kind="stable")]

    def screened(self, thresholds: Sequence[float], real: tuple[Matches, ...]) -> Screening:
        """Return the detectors' scores of everything drawn.

        Args:
            thresholds: Threshold of each detector.
            real: Matches of the calibration images.
        """
        every = [block.matches for block in self.blocks]
        joined = [
            Matches(*(np.concatenate([getattr(m[place], what) for m in every]) for what in ("score", "row", "second")))
            for place in range(len(thresholds))
        ]
        same = [np.concatenate([getattr(b.same, what) for b in self.blocks]) for what in ("row", "orientation")]
        others = np.concatenate([block.identical_other for block in self.blocks])
        return Screening(tuple(thresholds), tuple(joined), real, SamePixels(*same), others)


@dataclass(frozen=True)
class StoredForm:
    """Form in which a drawn image is stored with training images."""

    rule: PixelRule
    shape: tuple[int, int, int]
    """Height, width and channels of the training images as they are stored."""

    @classmethod
    def of(cls, train: ImageStore, config: GeneratorConfig, options: ImageOptions) -> "StoredForm":
        """Return the form of a training set, where a generator's images can be brought to it.

        Args:
            train: The training images.
            config: Configuration of the generator.
            options: Options by which images are read.

        Raises:
            InputError: Sizes, channels or depth do not go together.
        """
        _, height, width, channels = (int(n) for n in train.images.shape)
        drawn, stored = f"{config.size[0]} x {config.size[1]}", f"{height} x {width}"
        name = one_line(config.name, 60)
        if train.images.dtype != np.uint8:
            raise InputError(f"{name} draws 8-bit images, and training images are stored at 16: leave depth out")
        if options.size is None and tuple(config.size) != (height, width):
            raise InputError(f"{name} draws images of {drawn}, and training images are stored at {stored}: give --size")
        return cls(PixelRule.of(options), (height, width, channels))

    def pixels(self, images: np.ndarray) -> np.ndarray:
        """Bring drawn images to this form.

        Args:
            images: Images as they were drawn, uint8 [n, H, W, C].

        Returns:
            Images in the stored form, uint8 [n, *shape].

        Raises:
            InputError: They are coloured, and the training images are grey.
        """
        stored = np.empty((len(images), *self.shape), dtype=np.uint8)
        for row, image in enumerate(images):
            one = self.rule.prepare(image)
            if one.shape[2] > self.shape[2]:
                raise InputError(
                    "the generator's images are coloured, and the training images grey: give channels, 3 or 1"
                )
            stored[row] = one
        return stored

    def note(self, config: GeneratorConfig) -> str:
        """Say what is done to an image before it is compared; empty for nothing."""
        if (*config.size, config.channels) == self.shape:
            return ""
        drawn, stored = (" x ".join(map(str, form)) for form in ((*config.size, config.channels), self.shape))
        return f"Images are drawn as {drawn}, kept as such, and compared as {stored}, as training images are stored."


def read_images(folder: Path, names: list[str]) -> np.ndarray:
    """Return images on the disk as they were drawn, uint8 [n, H, W, C]."""
    from PIL import Image

    images = []
    for name in names:
        with Image.open(folder / f"{name}.png") as file:
            image = np.asarray(file)
        images.append(image[..., None] if image.ndim == 2 else image)
    return np.stack(images)
