"""Small detectors and what they are trained on, for several tests."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.training.detectors.options import DetectorOptions

SIDE = 16
TINY = DetectorOptions(
    backbone="small_cnn@none",
    loss="infonce",
    epochs=3,
    frozen_epochs=1,
    batch_size=16,
    lr=1e-3,
    checkpoint_seconds=0,
    device="cpu",
)


def scans(root: Path, n: int = 60, per_patient: int = 2) -> ImageStore:
    """A store of blotchy grey images, ``per_patient`` of each patient; only its folder is on the disk."""
    rng = np.random.default_rng(7)
    coarse = rng.random((n, 4, 4))
    fine = np.kron(coarse, np.ones((4, 4)))
    smooth = sum(np.roll(fine, shift, axis=axis) for axis in (1, 2) for shift in (-1, 0, 1)) / 6
    images = np.rint(smooth * 255).astype(np.uint8)[..., None]
    ids = [f"image{i:03}" for i in range(n)]
    table = pd.DataFrame(
        {"image": ids, "path": ids, "label": [""] * n, "group": [f"patient{i // per_patient:03}" for i in range(n)]},
        dtype=object,
    )
    folder = root / "stores" / "scans"
    folder.mkdir(parents=True, exist_ok=True)
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    return ImageStore(images, Manifest(table, None, "scans"), "scans", folder, nothing, hashes)


def divided_scans(root: Path) -> Path:
    """A table of two images of each of 30 patients, with a given split; two patients share an image."""
    images, folder, rows = scans(root).images, root / "data", ["image,patient,part"]
    images[2] = images[0]
    folder.mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image[..., 0]).save(folder / f"{i:02}.png")
        rows.append(f"{i:02}.png,p{i // 2:02},{'train' if i < 30 else 'val' if i < 44 else 'test'}")
    (folder / "table.csv").write_text("\n".join(rows))
    return folder / "table.csv"


def with_images(store: ImageStore, images: np.ndarray) -> ImageStore:
    """The same store with other pixels."""
    return replace(store, images=images, pixel_hashes=np.array([hash_pixels(image) for image in images], dtype=object))


def parts(store: ImageStore) -> tuple[np.ndarray, np.ndarray]:
    """The first two thirds of the images to train on, the last to choose the epoch."""
    cut = 2 * len(store.images) // 3
    return np.arange(cut), np.arange(cut, len(store.images))
