"""Augmentations do what their names say, draw alike for twins, and are refused where they do nothing."""

import numpy as np
import pytest
import torch

from memorisk.runs.errors import InputError
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import AUGMENTATIONS, Normalisation, PixelSource, build_augmentation
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
    """Shape is kept, range too but for contrast, pixels change, and the draw is the generator's."""
    x = next(source_of(digits.images).batches([torch.arange(40)]))
    out = AUGMENTATIONS[name](x, generator())
    assert out.shape == x.shape
    assert not torch.equal(out, x)
    assert torch.equal(out, AUGMENTATIONS[name](x, generator()))
    assert not torch.equal(out, AUGMENTATIONS[name](x, generator(1)))
    if name == "contrast":
        return
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


@pytest.mark.parametrize("name", ["contrast", "shift1", "hflip"])
def test_channels_stay_last_in_memory(name: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 9, 7, 3)).astype(np.uint8)
    x = next(source_of(images).batches([torch.arange(20)]))
    assert AUGMENTATIONS[name](x, generator()).stride() == x.stride() == (189, 1, 21, 3)


@pytest.mark.parametrize("channels", [1, 3])
def test_contrast_is_tensorflows_image_by_image(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (200, 9, 7, channels)).astype(np.uint8)
    x = next(source_of(images).batches([torch.arange(200)]))
    out = AUGMENTATIONS["contrast"](x, generator()).double()
    draw = torch.rand(200, generator=generator())
    for image, changed, f in zip(x.double(), out, 0.8 + 0.4 * draw.double(), strict=True):
        for channel, new in zip(image, changed, strict=True):
            naive = (channel - channel.mean()) * f + channel.mean()
            torch.testing.assert_close(new, naive, rtol=0, atol=1e-6)  # float32 arithmetic against float64
    assert float(draw.min()) < 0.02  # both ends are reached
    assert float(draw.max()) > 0.98


def test_contrast_does_the_same_to_normalised_pixels() -> None:
    images = np.random.default_rng(0).integers(0, 256, (50, 8, 8, 3)).astype(np.uint8)
    how = Normalisation((0.1, 0.5, 0.9), (0.2, 0.3, 0.4))
    where = {"device": torch.device("cpu"), "dtype": torch.float64}
    plain, scaled = (
        next(PixelSource(images, np.arange(50), normalisation=n, **where).batches([torch.arange(50)]))
        for n in (Normalisation((0.0,) * 3, (1.0,) * 3), how)
    )
    mean, std = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in (how.mean, how.std))
    back = AUGMENTATIONS["contrast"](scaled, generator()) * std + mean
    torch.testing.assert_close(back, AUGMENTATIONS["contrast"](plain, generator()), rtol=0, atol=1e-12)


def test_shift1_is_a_part_put_back() -> None:
    """Against a loop over images; each of the four places about equally often."""
    x = torch.rand(800, 3, 6, 5)
    out = AUGMENTATIONS["shift1"](x, generator())
    places = torch.randint(2, (800, 2), generator=generator())
    for image, changed, (row, column) in zip(x, out, places.tolist(), strict=True):
        part = image[:, row : row + 5, column : column + 4]
        naive = torch.cat([part, part[:, -1:]], dim=1)
        assert torch.equal(changed, torch.cat([naive, naive[:, :, -1:]], dim=2))
    counts = np.bincount((places[:, 0] * 2 + places[:, 1]).numpy(), minlength=4)
    assert np.abs(counts - 200).max() < 4 * np.sqrt(800 * 0.25 * 0.75)


@pytest.mark.parametrize(("row", "column"), [(1, 1), (1, 22), (22, 1), (22, 22)])
def test_a_mark_one_pixel_from_a_corner_survives_shift1(row: int, column: int) -> None:
    """A.4: "so that we ensure we do not remove the unique features"."""
    x = torch.rand(60, 1, 28, 28)
    mark = torch.rand(1, 5, 5) + 2
    x[:, :, row : row + 5, column : column + 5] = mark
    found = []
    for image in AUGMENTATIONS["shift1"](x, generator()):
        windows = image.unfold(1, 5, 1).unfold(2, 5, 1)  # [1, 24, 24, 5, 5]
        found.append(tuple((windows == mark).all(dim=(0, 3, 4)).nonzero()[0].tolist()))
    assert set(found) == {(row - r, column - c) for r in (0, 1) for c in (0, 1)}


def test_refusals(digits: Digits) -> None:
    with pytest.raises(InputError, match="Did you mean 'hflip'"):
        build_augmentation(["hflipp"], source_of(digits.images))
    symmetric = np.repeat(np.arange(8, dtype=np.uint8)[None, :, None, None], 8, axis=2).repeat(5, axis=0)
    with pytest.raises(InputError, match="'hflip' changes no pixel of these images"):
        build_augmentation(["vflip", "hflip"], source_of(symmetric))
    with pytest.raises(InputError, match="these are features"):
        build_augmentation(["hflip"], source_of(np.zeros((4, 3), np.float32)))
    with pytest.raises(InputError, match="'shift1' needs at least 2 px a side"):
        build_augmentation(["shift1"], source_of(np.zeros((4, 1, 5, 1), np.uint8)))
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
