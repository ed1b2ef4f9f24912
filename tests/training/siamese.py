"""Small images of patients who can be told apart, and the settings of quick trainings on them."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import ndimage

from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.training.autoencoders.latent_store import Latents, load_latents
from memorisk.training.detectors.options import LatentOptions

SIDE = 16
TINY = LatentOptions(
    backbone="small_cnn@none",
    dimension=16,
    epochs=2,
    batch_size=16,
    lr=2e-3,
    stage2_epochs=2,
    stage2_batch_size=16,
    pairs=48,
    checkpoint_seconds=0,
    device="cpu",
)


def patients(root: Path, n: int = 24, each: int = 3, datasets: int = 1) -> ImageStore:
    """A store of ``each`` noisy views of the blotches of ``n`` patients; only its folder is on the disk."""
    rng = np.random.default_rng(11)
    own = ndimage.gaussian_filter(rng.random((n, SIDE, SIDE)), (0, 2, 2))
    own = (own - own.min(axis=(1, 2), keepdims=True)) / np.ptp(own, axis=(1, 2), keepdims=True)
    views = np.repeat(own, each, axis=0) + rng.normal(0, 0.05, (n * each, SIDE, SIDE))
    images = np.rint(views.clip(0, 1) * 255).astype(np.uint8)[..., None]
    ids = [f"image{i:03}" for i in range(len(images))]
    columns = {"image": ids, "path": ids, "label": [""] * len(ids)}
    columns["group"] = [f"patient{i // each:03}" for i in range(len(ids))]
    if datasets > 1:
        columns["dataset"] = [f"set{(i // each) % datasets}" for i in range(len(ids))]
    folder = root / "stores" / "patients"
    folder.mkdir(parents=True, exist_ok=True)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    manifest = Manifest(pd.DataFrame(columns, dtype=object), None, "patients")
    return ImageStore(images, manifest, "patients", folder, nothing, hashes)


def latents_of(store: ImageStore) -> Latents:
    """Pixels as latents."""
    return load_latents(store, "pixels", device="cpu")


def parts(latents: Latents) -> tuple[np.ndarray, np.ndarray]:
    """The first two thirds of the images to train on, the last to choose the epoch."""
    cut = 2 * len(latents) // 3
    return np.arange(cut), np.arange(cut, len(latents))
