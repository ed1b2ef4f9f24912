"""Folders of digits for the filter: patients of the generator, new ones, and a set with known copies among it."""

from pathlib import Path

import numpy as np
from PIL import Image

from memorisk.images.copies.duplicates import details, near_pairs
from memorisk.images.copies.near_copies import thumbnails
from tests.audits.synthetic.making import parts

N_TRAIN, N_NEW, N_SET, COPIED = 150, 119, 60, 10
OF = {"group_from": r"([a-z]+\d+)_", "detector": "pixels", "auditor": "pca:16"}
IDENTICAL, BROKEN = "c1/s010_0.png", "c0/broken.png"


def digit_sets() -> dict[str, np.ndarray]:
    """Training, new and synthetic digits; the first synthetic ones are noised copies, the next one an exact copy."""
    train, new, made = parts(n_train=N_TRAIN, n_held=N_NEW + 1, n_synthetic=N_SET)
    alike = near_pairs(details(thumbnails(new)), threshold=0.95)  # one is nearly another: they are one person
    new = np.delete(new, alike.second, axis=0)
    noise = np.random.default_rng(0).integers(-6, 7, train[:COPIED].shape)
    made[:COPIED] = np.clip(train[:COPIED].astype(int) + noise, 0, 255)
    made[COPIED] = train[20]
    return {"train": train, "new": new, "set": made}


def write_folders(root: Path) -> dict[str, str]:
    """Folders of PNG files of these sets, the synthetic ones in two classes and with a broken file; by name."""
    for name, images in digit_sets().items():
        for row, image in enumerate(images):
            file = (
                root
                / name
                / (f"c{row % 2 if row != COPIED else 1}" if name == "set" else ".")
                / f"{name[0]}{row:03d}_0.png"
            )
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[..., 0]).save(file)
    (root / "set" / BROKEN).write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    return {name: str(root / name) for name in ("train", "new", "set")}


def contents(folder: Path, leave_out: tuple[str, ...] = ()) -> dict[str, bytes]:
    """The bytes of every file below a folder."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in leave_out)
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}
