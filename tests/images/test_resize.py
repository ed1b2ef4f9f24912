"""Resizing against the definition of an antialiased triangle filter, torch's and torchvision's own."""

import numpy as np
import pytest
import torch
from PIL import Image

from memorisk.images.pixels import is_grey, resize_image, to_luma
from memorisk.runs.errors import InputError


def noise(height, width, channels, dtype=np.uint8, seed=0):
    limit = np.iinfo(dtype).max
    return np.random.default_rng(seed).integers(0, limit + 1, (height, width, channels)).astype(dtype)


def triangle_weights(n_in, n_out):
    """The definition: a triangle over the pixels, as wide as an output pixel where that is wider than an input one."""
    scale = n_in / n_out
    support = max(scale, 1.0)
    weights = np.zeros((n_out, n_in))
    for i in range(n_out):
        centre = (i + 0.5) * scale
        for j in range(n_in):
            weights[i, j] = max(0.0, 1 - abs(j + 0.5 - centre) / support)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("shape", [(40, 30, 3), (9, 25, 1), (16, 16, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.uint8, 1.0), (np.uint16, 1.0)])
def test_squash_is_the_antialiased_triangle_filter(shape, dtype, tolerance):
    """Within a level: Pillow rounds after each direction, the definition once at the end."""
    image = noise(*shape, dtype=dtype)
    wanted = np.einsum("ia,jb,abc->ijc", triangle_weights(shape[0], 12), triangle_weights(shape[1], 12), image)
    found = resize_image(image, 12, "squash")
    assert found.shape == (12, 12, shape[2])
    assert found.dtype == dtype
    assert np.abs(found - wanted).max() <= tolerance


def test_squash_agrees_with_torch():
    image = noise(60, 45, 3)
    tensor = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    wanted = torch.nn.functional.interpolate(tensor, (20, 20), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
    assert np.abs(resize_image(image, 20, "squash") - wanted.numpy()).max() <= 1.0


def test_a_striped_image_does_not_alias():
    """Stripes of one pixel, shrunk four times, are an even grey; taking every fourth pixel would be black or white."""
    stripes = np.zeros((64, 64, 1), dtype=np.uint8)
    stripes[:, ::2] = 255
    inner = resize_image(stripes, 16, "squash")[2:-2, 2:-2]
    assert inner.min() >= 126
    assert inner.max() <= 129


@pytest.mark.parametrize("rule", ["squash", "crop", "pad"])
def test_an_image_of_the_size_is_left_alone(rule):
    image = noise(14, 14, 3)
    assert (resize_image(image, 14, rule) == image).all()


def test_crop_keeps_the_middle_square():
    image = noise(10, 30, 3)
    assert (resize_image(image, 10, "crop") == image[:, 10:20]).all()
    scaled = np.asarray(Image.fromarray(image).resize((15, 5), Image.Resampling.BILINEAR))
    assert (resize_image(image, 5, "crop") == scaled[:, 5:10]).all()
    assert resize_image(noise(7, 100, 1), 12, "crop").shape == (12, 12, 1)


def test_pad_keeps_the_whole_image_on_black():
    image = noise(10, 20, 3) | 1
    padded = resize_image(image, 20, "pad")
    assert (padded[5:15] == image).all()
    assert not padded[:5].any()
    assert not padded[15:].any()
    assert resize_image(noise(1, 500, 1), 8, "pad").shape == (8, 8, 1)


def test_sixteen_bits_keep_their_range():
    ramp = np.linspace(0, 65535, 64).astype(np.uint16)[None, :, None].repeat(64, axis=0)
    small = resize_image(ramp, 16, "squash")
    assert small.dtype == np.uint16
    assert len(np.unique(small)) == 16
    assert small[0, -1, 0] > 60000


def test_luma_and_grey():
    image = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], dtype=np.uint8)
    assert to_luma(image)[0, :, 0].tolist() == [76, 150, 29, 255]
    assert is_grey(noise(4, 4, 1))
    assert is_grey(noise(4, 4, 1).repeat(3, axis=2))
    assert not is_grey(image)


def test_unknown_rule():
    with pytest.raises(InputError, match="Did you mean 'squash'"):
        resize_image(noise(4, 4, 1), 2, "sqaush")
