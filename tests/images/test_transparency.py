"""Pictures under transparent pixels, which readers show as black and most loaders of images show."""

from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from memorisk.audits.comparison.sets import MIN_GREY_LEVELS
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.transparency import count_hiding

_PICTURE = np.random.default_rng(0).integers(40, 256, (32, 32), dtype=np.uint8)
_MASK = np.zeros((32, 32), dtype=np.uint8)
_MASK[8:24, 8:24] = 255


def _rgba(picture: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return np.dstack([picture, picture, picture, alpha])


def _hiding(place: Path, **options: object) -> int:
    found = ImageOptions(**options)  # pyright: ignore[reportArgumentType]
    return count_hiding(load_manifest(place, found), found, MIN_GREY_LEVELS)


@pytest.mark.parametrize("depth", [8, 16])
def test_a_picture_under_alpha_is_counted_in_every_kind_of_file(tmp_path: Path, depth: int) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    rgba = _rgba(_PICTURE, _MASK)
    Image.fromarray(rgba).save(folder / "colour.png")
    Image.merge("LA", (Image.fromarray(_PICTURE), Image.fromarray(_MASK))).save(folder / "grey.png")
    Image.fromarray(rgba).save(folder / "picture.webp", lossless=True, exact=True)
    tifffile.imwrite(folder / "page.tif", rgba, photometric="rgb", extrasamples=["unassalpha"])
    assert _hiding(folder, depth=depth) == 4
    np.save(tmp_path / "images.npy", np.stack([rgba, _rgba(_PICTURE, np.full_like(_MASK, 255))]))
    assert _hiding(tmp_path / "images.npy", depth=depth) == 1


def test_a_modality_in_place_of_alpha_is_counted(tmp_path: Path) -> None:
    other = np.random.default_rng(1).integers(0, 256, (32, 32), dtype=np.uint8)
    Image.fromarray(_rgba(_PICTURE, other)).save(tmp_path / "0.png")
    assert _hiding(tmp_path) == 1


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(_rgba(_PICTURE, np.full_like(_MASK, 255)), id="opaque"),
        pytest.param(_rgba(_PICTURE, np.full_like(_MASK, 100)), id="dimmed everywhere"),
        pytest.param(_rgba(np.where(_MASK, _PICTURE, 0).astype(np.uint8), _MASK), id="black below"),
        pytest.param(_rgba(np.where(_MASK, _PICTURE, 255).astype(np.uint8), _MASK), id="white below"),
        pytest.param(_rgba(_PICTURE, np.where(np.arange(1024).reshape(32, 32) < 10, 0, 255)), id="an edge of 1 %"),
        pytest.param(_PICTURE, id="without alpha"),
    ],
)
def test_an_image_that_shows_all_it_holds_is_not_counted(tmp_path: Path, image: np.ndarray) -> None:
    Image.fromarray(image.astype(np.uint8)).save(tmp_path / "0.png")
    assert _hiding(tmp_path) == 0
