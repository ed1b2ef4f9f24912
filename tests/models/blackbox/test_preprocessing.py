"""Preprocessing is declared once; what it cannot be, and pixels that do not fit it, are refused in one line."""

import numpy as np
import pytest

from memorisk.models.blackbox.preprocessing import Preprocessing, preprocessing_from
from memorisk.models.classifiers.specs import IMAGENET_MEAN, IMAGENET_STD
from memorisk.runs.errors import InputError


@pytest.mark.parametrize(
    ("text", "channels", "mean", "std"),
    [
        ("imagenet", 3, IMAGENET_MEAN, IMAGENET_STD),
        ("half", 1, (0.5,), (0.5,)),
        ("half", 3, (0.5,) * 3, (0.5,) * 3),
        ("none", 3, (0.0,) * 3, (1.0,) * 3),
        ("0.13/0.31", 1, (0.13,), (0.31,)),
        ("0.49,0.48,0.45/0.2", 3, (0.49, 0.48, 0.45), (0.2,) * 3),
    ],
)
def test_texts(text: str, channels: int, mean: tuple, std: tuple) -> None:
    made = preprocessing_from(text, (8, 6), channels)
    assert made == Preprocessing((8, 6), channels, mean, std)
    assert made.describe() == {"size": [8, 6], "channels": channels, "mean": list(mean), "std": list(std)}


def test_apply_against_the_naive_form() -> None:
    made = preprocessing_from("0.49,0.48,0.45/0.2,0.3,0.4", (5, 7), 3)
    pixels = np.random.default_rng(0).random((4, 5, 7, 3), dtype=np.float32)
    before = pixels.copy()
    out = made.apply(pixels)
    naive = ((pixels - np.float32(made.mean)) / np.float32(made.std)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(out, naive, rtol=1e-6)
    assert out.dtype == np.float32
    assert out.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(pixels, before)
    made.check(out)
    assert made.apply(pixels[:0]).shape == (0, 3, 5, 7)


@pytest.mark.parametrize(
    ("text", "size", "channels", "said"),
    [
        ("imagenett", 8, 3, "neither 'imagenet'"),
        ("0.5", 8, 1, "numbers of the form"),
        ("a/b\n", 8, 1, "numbers of the form"),
        ("0.5/0", 8, 1, "above 0"),
        ("0.5/nan", 8, 1, "finite"),
        ("0.1,0.2/0.5", 8, 3, "must be 3 finite numbers"),
        ("imagenet", 8, 1, "of 3 channels"),
        ("half", 8, 2, "1 or 3"),
        ("half", 0, 1, "1 or more"),
    ],
)
def test_refusals(text: str, size: int, channels: int, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        preprocessing_from(text, size, channels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        (np.zeros((2, 8, 8, 1), np.float32), "declares"),
        (np.zeros((8, 8, 3), np.float32), "declares"),
        (np.zeros((2, 8, 8, 3), np.uint8), "must be float32"),
        (np.full((2, 8, 8, 3), 255, np.float32), r"must lie in \[0, 1\]"),
        (np.full((2, 8, 8, 3), np.nan, np.float32), r"must lie in \[0, 1\]"),
    ],
)
def test_pixels_that_do_not_fit(pixels: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said):
        preprocessing_from("half", 8, 3).apply(pixels)
