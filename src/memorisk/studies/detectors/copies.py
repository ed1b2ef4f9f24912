"""Augmented copies of the parts' images: made once a run, the same for every detector, gone when it is finished.

They are pictures of patients, changed a little. They lie in the run folder, readable by its owner alone, only while
detectors are computed from them; the same seed makes the same copies again.
"""

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.decoding.decoding import hash_pixels
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.runs.files import atomic_path, read_array, read_table, write_table
from memorisk.runs.progress import Progress
from memorisk.runs.unfinished import reserve_array

COPIES = "copies"
_IMAGES, _ROWS = "images.npy", "rows.parquet"


@dataclass(frozen=True)
class CopiedRows:
    """Where the copies of one strength lie.

    Attributes:
        folder: Holds ``images.npy`` [n, H, W, C] and ``rows.parquet``.
    """

    folder: Path

    @property
    def done(self) -> bool:
        """Whether they are all there."""
        return (self.folder / _ROWS).is_file()

    def store(self, manifest: Manifest) -> ImageStore:
        """The copies as a store, in the order of the rows they are copies of.

        Args:
            manifest: Of all images.
        """
        rows = read_table(self.folder / _ROWS)
        images = read_array(self.folder / _IMAGES, mmap=True)
        nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
        hashes, of = rows["pixel_hash"].to_numpy(dtype=object), rows["row"].to_numpy()
        return ImageStore(images, manifest.subset(of), self.folder.name, self.folder, nothing, hashes)


def make_copies(
    out: Path, store: ImageStore, rows: np.ndarray, strength: str, *, seed: int, progress: Progress
) -> CopiedRows:
    """Copies of some images at one strength, or those that were made before.

    Args:
        out: The run folder.
        store: The images.
        rows: Which.
        strength: "weak" or "strong".
        seed: Of the copies.
        progress: Called with (stage, done, total).

    Raises:
        InputError: An image of which no copy can be made.
        MissingExtraError: kornia is not installed.
    """
    from memorisk.training.detectors.contrastive.augmentations import augmented_copies

    found = CopiedRows(out / COPIES / strength)
    if found.done:
        return found
    found.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with atomic_path(found.folder / _IMAGES) as temporary:
        reserve_array(temporary, (len(rows), *store.images.shape[1:]), store.images.dtype)
        images = np.load(temporary, mmap_mode="r+", allow_pickle=False)
        told = partial(progress, f"making {strength} copies")
        augmented_copies(store.images, rows, strength, seed=seed, out=images, progress=told)
        hashes = [hash_pixels(image) for image in images]
        images.flush()
    write_table(found.folder / _ROWS, pd.DataFrame({"row": rows, "pixel_hash": np.array(hashes, dtype=object)}))
    return found


def remove_copies(out: Path) -> None:
    """Remove the copies of a run; what was measured on them stays."""
    shutil.rmtree(out / COPIES, ignore_errors=True)
