"""Image sets with planted truth, made from the built-in digits: mislabelled images, and images given several times.

Used by ``recipes/validity.py`` and, at a smaller size, by the tests.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.images.published.digits import digits_manifest
from memorisk.images.readers.digits import read_digit


@dataclass(frozen=True)
class Planted:
    """Arrays for an npz, and which rows are planted.

    Attributes:
        images: [N, 8, 8, 1] uint8.
        labels: [N] class names.
        groups: [N] group names.
        planted: [N] whether the row is planted (mislabelled).
        copies: [N] how often its group's image is there.
    """

    images: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    planted: np.ndarray
    copies: np.ndarray

    def save(self, path: Path) -> Path:
        """Write what `memorisk audit classifier` reads."""
        np.savez(path, images=self.images, labels=self.labels.astype(str), groups=self.groups.astype(str))
        return path


def digits_arrays() -> tuple[np.ndarray, np.ndarray]:
    """The built-in long-tailed digits: images [N, 8, 8, 1] and labels [N]."""
    manifest = digits_manifest()
    return np.stack([read_digit(int(f)) for f in manifest.table["frame"]]), manifest.labels


def mislabelled(*, share: float = 0.05, least: int = 2, seed: int = 0) -> Planted:
    """The digits with some images filed under a wrong label, the same share of every class.

    In every class ``max(least, share n)`` images of other classes take the class's label; a model can fit them only by
    remembering them.
    """
    images, labels = digits_arrays()
    rng = np.random.default_rng(seed)
    wrong, planted = labels.copy(), np.zeros(len(labels), dtype=bool)
    sizes = dict(zip(*np.unique(labels.astype(str), return_counts=True), strict=True))
    common = np.array([sizes[str(label)] > 100 for label in labels])  # rare classes keep all of theirs
    for name, n in sizes.items():
        free = np.flatnonzero((labels != name) & ~planted & common)
        taken = rng.choice(free, size=max(least, round(share * n)), replace=False)
        wrong[taken], planted[taken] = name, True
    names = np.array([f"digit-{i:04d}" for i in range(len(labels))], dtype=object)
    return Planted(images, wrong, names, planted, np.ones(len(labels), dtype=int))


def duplicated(*, per_class: int = 60, wrong: bool = False, seed: int = 0) -> Planted:
    """Six whole classes with some images given 2, 4 or 8 times as one group each; with ``wrong`` those are mislabelled.

    Groups of one size and label are partners for each other, so that all copies of an image are in one twin.
    """
    images, labels = digits_arrays()
    rng = np.random.default_rng(seed)
    rows, names, copies, given = [], [], [], []
    for name in ("4", "5", "6", "7", "8", "9"):
        chosen = rng.permutation(np.flatnonzero(labels == name))[:per_class]
        for place, row in enumerate(chosen):
            times = (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8)[place % 12] if not wrong else (1, 2, 4, 8)[place % 4]
            bad = wrong and place < per_class // 3
            label = str((int(name) - 4 + 1 + rng.integers(5)) % 6 + 4) if bad else name
            times = times if bad or not wrong else 1
            for _ in range(times):
                rows.append(row)
                names.append(f"digit-{row:04d}")
                copies.append(times)
                given.append((label, bad))
    return Planted(
        images[rows],
        np.array([g[0] for g in given], dtype=object),
        np.array(names, dtype=object),
        np.array([g[1] for g in given], dtype=bool),
        np.array(copies),
    )
