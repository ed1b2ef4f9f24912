"""Small pictures inside a page."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from memorisk.report.blocks import MOST_BYTES, Thumbnail, data_uri


def decoded(uri: str) -> np.ndarray:
    assert uri.startswith("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",", 1)[1]))))


def test_small_images_are_enlarged_by_whole_factors_so_that_pixels_stay_sharp():
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8)
    shown = decoded(data_uri(pixels[:, :, None], side=40))
    np.testing.assert_array_equal(shown, np.kron(pixels, np.ones((5, 5), dtype=np.uint8)))


def test_large_images_are_shrunk_to_fit():
    pixels = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    assert decoded(data_uri(pixels, side=150)).shape == (150, 100, 3)


def test_a_picture_that_would_be_large_is_a_webp_and_halved_until_it_fits():
    noise = np.random.default_rng(0).integers(0, 256, (480, 480, 3), dtype=np.uint8)
    uri = data_uri(noise, side=480)
    assert uri.startswith("data:image/webp;base64,")
    content = base64.b64decode(uri.split(",", 1)[1])
    assert len(content) <= MOST_BYTES
    assert Image.open(io.BytesIO(content)).size == (240, 240)
    smooth = np.add.outer(np.arange(480), np.arange(480))[:, :, None] // 4
    fits = data_uri((smooth + noise // 32).astype(np.uint8), side=480)
    assert fits.startswith("data:image/webp")
    assert Image.open(io.BytesIO(base64.b64decode(fits.split(",", 1)[1]))).size == (480, 480)


def test_sixteen_bits_are_stretched_to_eight():
    pixels = np.array([[1000, 1100], [1200, 2000]], dtype=np.uint16)
    np.testing.assert_array_equal(decoded(data_uri(pixels, side=2)), np.array([[0, 26], [51, 255]]))
    np.testing.assert_array_equal(decoded(data_uri(np.full((2, 2), 9, dtype=np.uint16), side=2)), np.zeros((2, 2)))


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 2)), np.zeros((2, 2, 5), dtype=np.uint8), np.zeros(4, dtype=np.uint8), np.zeros((0, 2), np.uint8)],
)
def test_other_arrays_are_refused(pixels):
    with pytest.raises(ValueError, match="a thumbnail needs"):
        data_uri(pixels)


def test_a_picture_is_never_fetched_from_somewhere():
    with pytest.raises(ValueError, match="never an address"):
        Thumbnail(data_uri="https://example.org/a.png", caption=[])
