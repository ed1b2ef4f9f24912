"""Augmentations do what their names say, draw alike for twins, and are refused where they do nothing."""

import numpy as np
import pytest
import torch

from memorisk.runs.errors import InputError
from memorisk.training.augment import AUGMENTATIONS, build_augmentation
from memorisk.training.fit import fit
from memorisk.training.options import TrainOptions
from memorisk.training.pixels import Normalisation, PixelSource
from tests.training.helpers import Digits, NoisyNet, weights_of


def source_of(images: np.ndarray) -> PixelSource:
    channels = images.shape[-1]
    how = Normalisation((0.0,) * channels, (1.0,) * channels) if images.ndim == 4 else None
    rows = np.arange(len(images))
    return PixelSource(images, rows, device=torch.device("cpu"), dtype=torch.float32, normalisation=how)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS))
def test_contract(name: str, digits: Digits) -> None:
    """Shape and range are kept, pixels change, and the draw is the generator's."""
    x = next(source_of(digits.images).batches([torch.arange(40)]))
    out = AUGMENTATIONS[name](x, generator())
    assert out.shape == x.shape
    assert not torch.equal(out, x)
    assert torch.equal(out, AUGMENTATIONS[name](x, generator()))
    assert not torch.equal(out, AUGMENTATIONS[name](x, generator(1)))
    # bilinear weights sum to one up to rounding
    assert float(out.min()) >= float(x.min()) - 1e-5
    assert float(out.max()) <= float(x.max()) + 1e-5


@pytest.mark.parametrize(("name", "dim"), [("hflip", 3), ("vflip", 2)])
def test_flips_mirror_about_half(name: str, dim: int) -> None:
    x = torch.arange(1000 * 4.0).reshape(1000, 1, 2, 2)
    out = AUGMENTATIONS[name](x, generator())
    flipped = (out == x.flip(dim)).flatten(1).all(dim=1)
    assert ((out == x).flatten(1).all(dim=1) | flipped).all()
    assert abs(float(flipped.float().mean()) - 0.5) < 4 * np.sqrt(0.25 / 1000)


def test_rotation_keeps_distances_from_the_centre_on_oblong_images() -> None:
    """A blob 12 px right of the centre of a 41 x 61 image stays 12 px from it, turned by up to 20 degrees."""
    row, column = torch.meshgrid(torch.arange(41.0) - 20, torch.arange(61.0) - 30, indexing="ij")
    blob = torch.exp(-((row**2 + (column - 12) ** 2) / 8))[None, None].repeat(200, 1, 1, 1)
    out = AUGMENTATIONS["rotate"](blob, generator())[:, 0]
    mass = out.sum(dim=(1, 2))
    y, x = (out * row).sum(dim=(1, 2)) / mass, (out * column).sum(dim=(1, 2)) / mass
    # interpolation moves a centre of mass by far less than a tenth of a pixel
    torch.testing.assert_close(torch.hypot(x, y), torch.full((200,), 12.0), rtol=0, atol=0.1)
    degrees = torch.rad2deg(torch.atan2(y, x))
    assert degrees.abs().max() < 20.5
    assert degrees.min() < -17
    assert degrees.max() > 17


def test_crop_enlarges_a_part() -> None:
    """On a ramp the slope after a crop is the share of the side kept: 0.8 to 1."""
    ramp = torch.arange(50.0).repeat(200, 1, 50, 1)
    out = AUGMENTATIONS["crop"](ramp, generator())
    slope = out[:, 0, 25, 26] - out[:, 0, 25, 25]
    assert float(slope.min()) >= 0.8 - 1e-4
    assert float(slope.max()) <= 1 + 1e-4
    assert float(slope.max() - slope.min()) > 0.15


def test_refusals(digits: Digits) -> None:
    with pytest.raises(InputError, match="Did you mean 'hflip'"):
        build_augmentation(["hflipp"], source_of(digits.images))
    symmetric = np.repeat(np.arange(8, dtype=np.uint8)[None, :, None, None], 8, axis=2).repeat(5, axis=0)
    with pytest.raises(InputError, match="'hflip' changes no pixel of these images"):
        build_augmentation(["vflip", "hflip"], source_of(symmetric))
    with pytest.raises(InputError, match="these are features"):
        build_augmentation(["hflip"], source_of(np.zeros((4, 3), np.float32)))
    assert build_augmentation([], source_of(digits.images)) is None


def test_augmented_training_is_reproducible_and_another_one(digits: Digits) -> None:
    results = []
    for augment in ("rotate,crop", "rotate,crop", None):
        model = NoisyNet()
        with torch.no_grad():
            for value in model.parameters():
                value.fill_(0.1)
        fit(
            model, digits.images, digits.labels, np.arange(80), TrainOptions(epochs=1, lr=1e-2, augment=augment), seed=0
        )
        results.append(weights_of(model))
    assert results[0] == results[1]
    assert results[0] != results[2]
