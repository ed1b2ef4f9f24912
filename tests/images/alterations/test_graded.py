"""Copies of a stated family and strength."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from memorisk.images.alterations.families import FAMILIES
from memorisk.images.alterations.graded import augmented, to_unit
from memorisk.images.alterations.operations import rotate, shift_and_scale
from memorisk.runs.errors import InputError


def pictures(n: int = 6, side: int = 16, channels: int = 1, dtype: type = np.uint8) -> np.ndarray:
    rng = np.random.default_rng(3)
    coarse = ndimage.gaussian_filter(rng.random((n, side, side + 4, channels)), (0, 2, 2, 0))
    low, high = coarse.min(), coarse.max()
    return np.rint((coarse - low) / (high - low) * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("channels", "dtype"), [(1, np.uint8), (3, np.uint16)])
def test_stronger_copies_are_further_away(family: str, channels: int, dtype: type) -> None:
    images = pictures(channels=channels, dtype=dtype)
    rows = np.array([4, 1, 2])
    distances = []
    for strength in FAMILIES[family]:
        copies = augmented(images, rows, family, strength, seed=5)
        assert copies.shape == images[rows].shape
        assert copies.dtype == images.dtype
        distances.append(np.abs(copies.astype(float) - images[rows]).mean())
    assert np.all(np.diff(distances) > 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_copy_depends_on_its_own_row_and_the_seed(family: str) -> None:
    images, strength = pictures(), FAMILIES[family][-1]
    alone = augmented(images, np.array([3]), family, strength, seed=9)
    among = augmented(images, np.array([0, 3, 5]), family, strength, seed=9)[1:2]
    np.testing.assert_array_equal(alone, among)
    if family == "noise":
        assert not np.array_equal(alone, augmented(images, np.array([3]), family, strength, seed=10))


def test_blur_is_a_gaussian_of_nine_pixels() -> None:
    images = pictures()
    wanted = ndimage.gaussian_filter(images[..., 0].astype(float), (0, 2, 2), radius=(0, 4, 4), mode="mirror")
    found = augmented(images, np.arange(6), "blur", 2.0, seed=0)[..., 0]
    assert np.abs(found - wanted).max() <= 0.51


def test_rotation_turns_counter_clockwise_about_the_centre() -> None:
    x = to_unit(pictures(side=16))[:, :, :, :16]
    turned = rotate(x, torch.full((6,), 90.0))
    torch.testing.assert_close(turned, torch.rot90(x, 1, (2, 3)), atol=1e-5, rtol=0)


def test_brightness_and_contrast_are_torchvisions() -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    images = pictures(channels=3)
    x = torch.from_numpy(images).movedim(-1, 1).float() / 255
    for family, factor, adjust in (
        ("brightness", 1.6, functional.adjust_brightness),
        ("darkening", 1.6, lambda y, f: functional.adjust_brightness(y, 1 / f)),
        ("contrast", 1.6, functional.adjust_contrast),
    ):
        wanted = adjust(x, factor).movedim(1, -1).numpy() * 255
        assert np.abs(augmented(images, np.arange(6), family, factor, seed=0) - wanted).max() <= 0.51


def test_jpeg_is_what_pillow_writes_and_reads() -> None:
    images = pictures(channels=3)
    buffer = BytesIO()
    Image.fromarray(images[2]).save(buffer, format="JPEG", quality=40)
    found = augmented(images, np.array([2]), "jpeg", 40, seed=0)[0]
    np.testing.assert_array_equal(found, np.asarray(Image.open(buffer)))


@pytest.mark.parametrize(
    ("family", "strength", "rows", "said"),
    [
        ("blurr", 1, [0], "Did you mean 'blur'"),
        ("jpeg", 0, [0], "from 1 to 95"),
        ("blur", 0, [0], "above 0"),
        ("noise", float("nan"), [0], "0 or more"),
        ("blur", 1, [6], "from 0 to 5"),
    ],
)
def test_what_cannot_be_is_refused(family: str, strength: float, rows: list[int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        augmented(pictures(), np.array(rows), family, strength, seed=0)


def test_images_too_small_for_the_kernel_are_refused() -> None:
    with pytest.raises(InputError, match="5 pixels a side"):
        augmented(np.zeros((1, 4, 9, 1), np.uint8), np.array([0]), "blur", 1, seed=0)


def test_images_are_turned_enlarged_and_shifted_at_once() -> None:
    x = to_unit(pictures(side=16))[:, :, :, :16]
    none, one = torch.zeros(6), torch.ones(6)
    torch.testing.assert_close(shift_and_scale(x, none, one, none, none), x, atol=1e-6, rtol=0)
    right = shift_and_scale(x, none, one, one / 8, none)
    torch.testing.assert_close(right[..., 2:], x[..., :-2], atol=1e-5, rtol=0)
    turned = shift_and_scale(x, torch.full((6,), 90.0), one, none, none)
    torch.testing.assert_close(turned, torch.rot90(x, 1, (2, 3)), atol=1e-5, rtol=0)
    larger = shift_and_scale(x, none, 2 * one, none, none)
    wanted = torch.nn.functional.interpolate(x[:, :, 4:12, 4:12], (16, 16), mode="bilinear", align_corners=False)
    torch.testing.assert_close(larger[:, :, 2:14, 2:14], wanted[:, :, 2:14, 2:14], atol=1e-5, rtol=0)
