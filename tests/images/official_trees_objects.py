"""CIFAR-100, STL-10 and SVHN in miniature, in their official layouts."""

from pathlib import Path

import numpy as np
from scipy.io import savemat

from tests.images.making import write


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def cifar100(root: Path) -> Path:
    """Six training and three test images, without the files of names."""
    root.mkdir(parents=True, exist_ok=True)
    for seed, (file, n) in enumerate({"train.bin": 6, "test.bin": 3}.items()):
        labels = np.array([[i % 20, 10 * i] for i in range(n)], np.uint8)
        write(root / file, np.hstack([labels, values(seed, n, 3072)]).tobytes())
    return root


def stl10(root: Path) -> Path:
    """Four training images, and as many without labels."""
    root.mkdir(parents=True, exist_ok=True)
    for file in ("train_X.bin", "unlabeled_X.bin"):
        write(root / file, values(0, 4, 3, 96, 96).tobytes())
    write(root / "train_y.bin", bytes([1, 10, 3, 2]))
    return root


def svhn(root: Path) -> Path:
    """Five training images."""
    root.mkdir(parents=True, exist_ok=True)
    labels = np.array([[10], [1], [2], [9], [1]], np.uint8)
    savemat(root / "train_32x32.mat", {"X": values(0, 32, 32, 3, 5), "y": labels}, do_compression=True)
    return root


OBJECT_LAYOUTS = {"cifar100": (cifar100, 9), "stl10": (stl10, 4), "svhn": (svhn, 5)}
OBJECT_SIDES = {"cifar100": 32, "stl10": 96, "svhn": 32}
