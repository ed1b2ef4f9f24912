"""Interventions against their oracles: PIL and torchvision, scipy image by image, torch's pooling, plain loops."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from torchvision import transforms

from memorisk.images.alterations import interventions
from memorisk.images.alterations.interventions import (
    INTERVENTIONS,
    find_intervention,
    intervene,
    pixel_changes,
    write_intervened,
)
from memorisk.runs.errors import InputError

DTYPES = (np.uint8, np.uint16)


def some(dtype=np.uint8, n=5, height=12, width=17, channels=3, seed=0) -> np.ndarray:
    top = np.iinfo(dtype).max
    images = np.random.default_rng(seed).integers(0, top, (n, height, width, channels), dtype, endpoint=True)
    images[0, 0, 0], images[0, 0, 1] = 0, top
    return images


@pytest.mark.parametrize("name", INTERVENTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_intervention_keeps_type_and_shape_and_never_writes_to_what_it_is_given(name, dtype, channels):
    images = some(dtype, channels=channels)
    kept = images.copy()
    images.setflags(write=False)
    for function in (INTERVENTIONS[name].function, lambda x: intervene(INTERVENTIONS[name], x)):
        changed = function(images)
        assert changed.dtype == dtype
        assert changed.shape == images.shape
        assert not np.shares_memory(changed, images)
        np.testing.assert_array_equal(images, kept)


@pytest.mark.parametrize("name", INTERVENTIONS)
def test_batches_change_nothing(name, monkeypatch):
    images = some(n=9)
    whole = INTERVENTIONS[name].function(images)
    monkeypatch.setattr(interventions, "_BATCH_VALUES", 2 * images[0].size)
    np.testing.assert_array_equal(intervene(INTERVENTIONS[name], images), whole)
    one_by_one = np.concatenate([INTERVENTIONS[name].function(images[i : i + 1]) for i in range(9)])
    np.testing.assert_array_equal(whole, one_by_one)


def test_grayscale_is_torchvisions_of_a_pil_image_bit_for_bit():
    every = np.stack(np.meshgrid(*[np.arange(0, 256, 5, dtype=np.uint8)] * 3), -1).reshape(1, -1, 52, 3)
    oracle = transforms.Grayscale(num_output_channels=3)
    for images in (every, some(n=3)):
        expected = np.stack([np.asarray(oracle(Image.fromarray(i))) for i in images])
        np.testing.assert_array_equal(intervene(INTERVENTIONS["grayscale"], images), expected)


def test_grayscale_of_16_bits_is_the_stated_luma_and_the_tensor_form_lies_within_its_own_rounding():
    images = some(np.uint16, n=3)
    luma = np.rint(images.astype(np.float64) @ np.array([0.299, 0.587, 0.114]))
    mine = intervene(INTERVENTIONS["grayscale"], images)
    assert np.abs(mine.astype(np.float64) - luma[..., None]).max() <= 1  # weights in 65536ths
    eight = some(n=3)
    tensor = transforms.Grayscale(3)(torch.from_numpy(eight).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).numpy()
    assert np.abs(intervene(INTERVENTIONS["grayscale"], eight).astype(int) - tensor.astype(int)).max() <= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_grey_images_are_left_as_they_are(dtype):
    levels = np.arange(np.iinfo(dtype).max + 1, dtype=dtype).reshape(1, 16, -1, 1)
    for grey in (levels, np.repeat(levels, 3, axis=-1)):
        np.testing.assert_array_equal(intervene(INTERVENTIONS["grayscale"], grey), grey)
        changes = pixel_changes(INTERVENTIONS["grayscale"], grey, np.array([0]))
        assert changes.share.tolist() == [0.0]
        assert changes.mean.tolist() == [0.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_blur_is_scipys_of_each_channel_and_a_gaussian_by_its_formula(dtype):
    images = some(dtype, n=2, height=64, width=80)
    blurred = intervene(INTERVENTIONS["blur"], images)
    for i, c in np.ndindex(2, 3):
        expected = ndimage.gaussian_filter(images[i, ..., c].astype(float), sigma=2.0, mode="nearest")
        assert np.abs(blurred[i, ..., c] - expected).max() <= 0.5 + 1e-6
    point = np.zeros((1, 64, 64, 1), np.uint16)
    point[0, 32, 32] = 65535
    offsets = np.arange(64) - 32
    bell = np.exp(-(offsets**2) / (2 * 2.0**2)) * (np.abs(offsets) <= 8)
    formula = 65535 * np.outer(bell, bell) / bell.sum() ** 2
    assert np.abs(intervene(INTERVENTIONS["blur"], point)[0, ..., 0] - formula).max() <= 0.5 + 1e-6


def test_edges_are_the_sobel_magnitude_of_the_luma_by_plain_loops():
    images = some(n=1, height=6, width=7)
    luma = np.pad(intervene(INTERVENTIONS["grayscale"], images)[0, ..., 0].astype(float), 1, mode="edge")
    smooth = (1, 2, 1)
    expected = np.zeros((6, 7))
    for y, x in np.ndindex(6, 7):
        gx = sum(smooth[d] * (luma[y + d, x + 2] - luma[y + d, x]) for d in range(3))
        gy = sum(smooth[d] * (luma[y + 2, x + d] - luma[y, x + d]) for d in range(3))
        expected[y, x] = min(255.0, np.rint(np.sqrt(gx**2 + gy**2) / 4))
    found = intervene(INTERVENTIONS["edges-only"], images)[0]
    for channel in range(3):
        np.testing.assert_array_equal(found[..., channel], expected)
    step = np.zeros((1, 8, 8, 3), np.uint16)
    step[:, :, 4:] = 65535
    edges = intervene(INTERVENTIONS["edges-only"], step)[0, ..., 0]
    assert set(edges[:, 3:5].ravel().tolist()) == {65535}
    assert edges[:, [0, 1, 2, 5, 6, 7]].max() == 0


def test_colour_only_is_pooling_to_two_by_two_and_bilinear_interpolation():
    images = some(n=3, height=16, width=24)
    tensor = torch.from_numpy(images.astype(np.float64)).permute(0, 3, 1, 2)
    pooled = torch.nn.functional.adaptive_avg_pool2d(tensor, 2)
    expected = torch.nn.functional.interpolate(pooled, size=(16, 24), mode="bilinear", align_corners=False)
    found = intervene(INTERVENTIONS["colour-only"], images)
    assert np.abs(found - expected.permute(0, 2, 3, 1).numpy()).max() <= 0.5 + 1e-6


def test_colour_only_keeps_the_mean_colour_of_odd_sides_too_and_constant_images_as_they_are():
    images = some(np.uint16, n=4, height=7, width=5)
    found = intervene(INTERVENTIONS["colour-only"], images)
    constant = np.broadcast_to(np.array([3, 200, 77], np.uint8), (1, 7, 5, 3))
    np.testing.assert_array_equal(intervene(INTERVENTIONS["colour-only"], constant), constant)
    # a mirrored image has the mirrored quarters: nothing of the middle row is lost or counted twice
    np.testing.assert_array_equal(intervene(INTERVENTIONS["colour-only"], images[:, ::-1]), found[:, ::-1])
    middle = found[:, 3, 2].astype(float)  # halfway between all four quarters
    halves = [np.array([1, 1, 1, 0.5, 0, 0, 0]) / 3.5, np.array([1, 1, 0.5, 0, 0]) / 2.5]
    quarters = [
        np.einsum("h,nhwc,w->nc", a, images, b)
        for a in (halves[0], halves[0][::-1])
        for b in (halves[1], halves[1][::-1])
    ]
    assert np.abs(middle - np.mean(quarters, axis=0)).max() <= 0.5 + 1e-6


def test_what_changes_is_counted_by_image():
    images = np.zeros((3, 2, 2, 3), np.uint8)
    images[1, 0, 0] = (255, 0, 0)  # luma 76
    images[2] = (10, 20, 30)
    changes = pixel_changes(INTERVENTIONS["grayscale"], images, np.array([2, 0, 1]))
    assert changes.share.tolist() == [1.0, 0.0, 0.25]
    assert changes.mean[2] == pytest.approx((179 + 76 + 76) / 12 / 255)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_written_array_holds_changed_rows_and_copies_of_the_others(tmp_path, monkeypatch, dtype):
    images = some(dtype, n=11)
    np.save(tmp_path / "store.npy", images)
    mapped = np.load(tmp_path / "store.npy", mmap_mode="r")
    monkeypatch.setattr(interventions, "_BATCH_VALUES", 3 * images[0].size)
    write_intervened(tmp_path / "out.npy", INTERVENTIONS["blur"], mapped, np.array([9, 2, 3]))
    found = np.load(tmp_path / "out.npy", allow_pickle=False)
    expected = images.copy()
    expected[[2, 3, 9]] = intervene(INTERVENTIONS["blur"], images[[2, 3, 9]])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "store.npy"), images)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.npy", "out.npy.checksum", "store.npy"]
    assert (tmp_path / "out.npy").stat().st_mode & 0o777 == 0o600


def test_unknown_names_and_images_of_another_kind_are_refused():
    with pytest.raises(InputError, match="Did you mean 'grayscale'"):
        find_intervention("greyscale")
    for wrong in (np.zeros((2, 4, 4, 3), np.float32), np.zeros((2, 4, 4, 2), np.uint8), np.zeros((2, 4), np.uint8)):
        with pytest.raises(InputError, match="needs uint8 or uint16"):
            intervene(INTERVENTIONS["blur"], wrong)
