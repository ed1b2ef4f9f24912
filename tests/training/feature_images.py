"""Small folders of real files for tests of features."""

from pathlib import Path

import numpy as np
from PIL import Image

from tests.images.dicom_making import dicom, save


def png_folder(root: Path, n: int = 12, side: int = 16, colour: bool = False, twins: bool = True) -> Path:
    """PNG files of ``n`` images, two a patient; with ``twins`` the last two have the pixels of the first."""
    root.mkdir(parents=True)
    for number in range(n):
        seed = 0 if twins and number >= n - 2 else number
        shape = (side, side, 3) if colour else (side, side)
        pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"p{number // 2:02}_{number % 2}.png")
    return root


def dicom_folder(root: Path, n: int = 4, side: int = 16) -> Path:
    """DICOM files of ``n`` images of 12 bits, two a patient."""
    for number in range(n):
        pixels = np.random.default_rng(number).integers(0, 4096, (side, side), dtype=np.uint16)
        save(dicom(pixels, bits=12, PatientID=f"patient{number // 2}"), root / f"image{number}.dcm")
    return root
