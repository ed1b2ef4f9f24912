"""Small sets for the audit of synthetic images: digits, a generator that copies nobody, and one that does."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from memorisk.audits.comparison import second_look
from memorisk.audits.comparison.second_look import KeptDetails
from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore

N_TRAIN, N_HELD, N_SYNTHETIC = 120, 99, 150


@cache
def digits() -> np.ndarray:
    """[1797, 8, 8, 1] uint8 in a random order that is always the same."""
    pixels, _ = load_digits(return_X_y=True)
    greys = np.rint(np.asarray(pixels) * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    return greys[np.random.default_rng(0).permutation(len(greys))]


def blended(images: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    """Images between two others each: like them, copies of none."""
    rng = np.random.default_rng(seed)
    one, other = rng.integers(len(images), size=(2, n))
    share = rng.uniform(0.3, 0.7, (n, 1, 1, 1))
    return np.rint(share * images[one] + (1 - share) * images[other]).astype(np.uint8)


def parts(seed: int = 0, n_train: int = N_TRAIN, n_held: int = N_HELD, n_synthetic: int = N_SYNTHETIC):
    """Training, held-out and synthetic digits; the last are blended from digits of neither part."""
    images = digits()[np.random.default_rng([1, seed]).permutation(1797)]
    others = images[n_train + n_held :]
    return images[:n_train], images[n_train : n_train + n_held], blended(others, n_synthetic, seed)


def store_of(images: np.ndarray, folder: Path, name: str = "set", groups: Any = None, labels: Any = None) -> ImageStore:
    """A store of images in memory; features of it are kept beside ``folder``."""
    ids = [f"{name}-{row:04d}" for row in range(len(images))]
    table = pd.DataFrame(
        {
            "image": ids,
            "path": [f"{i}.png" for i in ids],
            "label": [""] * len(ids) if labels is None else [str(v) for v in labels],
            "group": ids if groups is None else [str(g) for g in groups],
        },
        dtype=object,
    )
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []})
    return ImageStore(images, Manifest(table, None, name), name, folder / "stores" / name, nothing, hashes)


def write_sets(folder: Path, copied: int = 0, noise: int = 0) -> dict[str, str]:
    """``train.npz``, ``held.npz`` and ``set.npz`` in a folder, the first synthetic ones copies; their paths by name."""
    train, held, synthetic = parts()
    rng = np.random.default_rng(5)
    if copied:
        moved = train[:copied].astype(int) + rng.integers(-noise, noise + 1, train[:copied].shape)
        synthetic = np.concatenate([synthetic[copied:], np.clip(moved, 0, 255).astype(np.uint8)])
    groups = [f"patient-{row:04d}" for row in range(len(train) + len(held))]
    np.savez(folder / "train.npz", images=train, groups=groups[: len(train)])
    np.savez(folder / "held.npz", images=held, groups=groups[len(train) :])
    np.savez(folder / "set.npz", images=synthetic)
    return {name: str(folder / f"{name}.npz") for name in ("train", "held", "set")}


def laid_once() -> Callable[..., Any]:
    """Return the second look's alignment of an image, computed once for the same pixels: it takes most of the time."""
    lay, known = second_look._lay, {}  # pyright: ignore[reportPrivateUsage]

    def laid(image: np.ndarray, near: Sequence[int], details: KeptDetails, flagged: Sequence[int] = ()) -> Any:
        """Rows and alignments, as they were before."""
        rows = (*near, *flagged)
        pixels = [hash_pixels(np.asarray(one)) for one in (image, *(details.images[row] for row in rows))]
        pair = (*pixels, *rows, len(near))
        if pair not in known:
            known[pair] = lay(image, near, details, flagged)
        return known[pair]

    return laid
