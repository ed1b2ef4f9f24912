"""Augmented copies: METHODS' operations and probabilities, reproducible row by row, never equal to their source."""

import numpy as np
import pytest
import torch

from memorisk.images.alterations.operations import mirror
from memorisk.runs.errors import InputError
from memorisk.training.detectors.contrastive.augmentations import (
    OPERATIONS,
    STRENGTHS,
    augmented_copies,
    blank_rows,
    load_strength,
    operations_without_effect,
)
from memorisk.training.detectors.contrastive.operations import (
    bias_field,
    blur,
    log_gamma,
    motion,
    noise,
    turn_and_scale,
    upside_down,
)
from tests.training.helpers import Digits

pytest.importorskip("kornia")

METHODS_P = {
    "weak": {"rotation": 0.7, "scale": 0.5, "mirror": 0.5, "upside_down": 0.5, "bias_field": 0.4, "log_gamma": 0.4,
             "noise": 0.3, "blur": 0.2, "motion": 0.2},
    "strong": {"rotation": 1, "scale": 1, "mirror": 0.6, "upside_down": 0.6, "bias_field": 0.8, "log_gamma": 0.8,
               "noise": 0.8, "blur": 0.8, "motion": 0.7},
}  # fmt: skip


@pytest.fixture
def pictures() -> torch.Tensor:
    """Smooth images that no symmetry leaves alone, [6, 3, 24, 20]."""
    generator = torch.Generator().manual_seed(1)
    small = torch.rand(6, 3, 6, 5, generator=generator, dtype=torch.float64)
    return torch.nn.functional.interpolate(small, size=(24, 20), mode="bilinear")


def test_the_strengths_are_those_of_methods() -> None:
    for name, probabilities in METHODS_P.items():
        strength = load_strength(name)
        assert dict(zip(OPERATIONS, strength.probability, strict=True)) == probabilities
        assert (strength.degrees, strength.coefficients, strength.log_gamma) == (20, 0.3, 0.1)
        assert (strength.deviation, strength.sigma) == (0.05, 1)
    assert (STRENGTHS["weak"].scale, STRENGTHS["strong"].scale) == (0.2, 0.4)
    with pytest.raises(InputError, match=r"unknown strength of augmentation 'stron'. Did you mean 'strong'"):
        load_strength("stron")


@pytest.mark.parametrize("name", ["weak", "strong"])
def test_operations_act_as_often_as_stated_and_within_their_ranges(name: str) -> None:
    strength, n = load_strength(name), 20_000
    draws = strength.draw((n, 1, 4, 4), torch.Generator().manual_seed(3))
    acting = strength._acting(draws.uniform)
    assert acting.any(dim=1).all()
    none = float(np.prod([1 - p for p in strength.probability]))  # where nothing is drawn, one of the nine is
    for share, p in zip(acting.double().mean(dim=0).tolist(), strength.probability, strict=True):
        expected = p + none / len(OPERATIONS)
        assert abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / n)
    assert len(draws.normal) == int(acting[:, OPERATIONS.index("noise")].sum())
    values = strength._magnitudes(draws.uniform, dict(zip(OPERATIONS, acting.T, strict=True)))
    turned, scaled = acting[:, 0], acting[:, 1]
    for drawn, largest in (
        (values["degrees"][turned], 20), (values["factor"][scaled] - 1, strength.scale), (values["log_gamma"], 0.1),
    ):  # fmt: skip
        assert largest / 10 - 1e-9 <= float(drawn.abs().min()) < 0.15 * largest
        assert 0.95 * largest < float(drawn.abs().max()) <= largest
        assert 0.45 < float((drawn > 0).double().mean()) < 0.55
    assert not values["degrees"][~turned].any()
    assert (values["factor"][~scaled] == 1).all()
    assert 0.005 <= float(values["deviation"].min()) < float(values["deviation"].max()) <= 0.05
    assert 0.4 <= float(values["sigma"].min()) < float(values["sigma"].max()) <= 1
    assert values["coefficients"].shape == (n, 10)
    assert float(values["coefficients"].abs().max()) <= 0.3


def test_the_bias_field_is_monais(pictures: torch.Tensor) -> None:
    intensity = pytest.importorskip("monai.transforms.intensity.array")
    theirs = intensity.RandBiasField(degree=3, coeff_range=(-0.3, 0.3), prob=1.0, dtype=np.float64)
    coefficients = torch.rand(6, 10, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 0.6 - 0.3
    ours = bias_field(pictures, coefficients)
    for image, found, drawn in zip(pictures, ours, coefficients, strict=True):
        theirs._coeff, theirs._do_transform = drawn.tolist(), True
        expected = np.asarray(theirs(image, randomize=False))
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-6)  # its places are float32


def test_log_gamma_is_torchios_power() -> None:
    x = torch.tensor([[0.0, 0.25], [0.5, 1.0]], dtype=torch.float64)[None, None].repeat(2, 1, 1, 1)
    found = log_gamma(x, torch.tensor([0.1, -0.1], dtype=torch.float64))
    np.testing.assert_allclose(found[:, 0, 0, 1], [0.25 ** np.exp(0.1), 0.25 ** np.exp(-0.1)], rtol=1e-12)
    np.testing.assert_array_equal(found[:, 0, 0, 0], 0)
    np.testing.assert_array_equal(found[:, 0, 1, 1], 1)


def test_rotation_scale_and_flips_move_pixels_where_they_should() -> None:
    x = torch.zeros(1, 1, 9, 9, dtype=torch.float64)
    x[0, 0, 4, 6] = 1  # two right of the centre
    one = torch.ones(1, dtype=torch.float64)
    for degrees, factor, at in ((90, 1, (2, 4)), (0, 1.5, (4, 7)), (180, 2, (4, 0))):
        found = turn_and_scale(x, degrees * one, factor * one)[0, 0]
        assert divmod(int(found.argmax()), 9) == at
    assert divmod(int(mirror(x)[0, 0].argmax()), 9) == (4, 2)
    x[0, 0, 1, 6] = 2
    assert divmod(int(upside_down(x)[0, 0].argmax()), 9) == (7, 6)
    grey = torch.full((1, 1, 9, 9), 0.7, dtype=torch.float64)
    grey[0, 0, 4, 4] = 0.3
    assert float(turn_and_scale(grey, 45 * one, 0.5 * one)[0, 0, 0, 0]) == pytest.approx(0.3)  # darkest outside


def test_blur_and_motion_are_averages_along_what_they_say() -> None:
    x = torch.zeros(2, 1, 15, 15, dtype=torch.float64)
    x[:, :, 7, 7] = 1
    wide = blur(x, torch.tensor([0.5, 1.0], dtype=torch.float64))
    assert float(wide[0, 0, 7, 7]) > float(wide[1, 0, 7, 7])
    ratio = float(wide[1, 0, 7, 8] / wide[1, 0, 7, 7])
    assert ratio == pytest.approx(np.exp(-0.5), rel=1e-9)
    smeared = motion(x, torch.tensor([0.0, 90.0], dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
    assert float(smeared.sum()) == pytest.approx(2)
    np.testing.assert_allclose(smeared[0, 0, 7, 6:9], 1 / 3, atol=1e-12)
    np.testing.assert_allclose(smeared[1, 0, 6:9, 7], 1 / 3, atol=1e-12)


def test_noise_has_its_deviation() -> None:
    x = torch.zeros(2, 1, 100, 100, dtype=torch.float64)
    normal = torch.randn(2, 1, 100, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = noise(x, torch.tensor([0.01, 0.05], dtype=torch.float64), normal)
    np.testing.assert_allclose(found.std(dim=(1, 2, 3)), [0.01, 0.05], rtol=0.03)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_changes_every_picture(pictures: torch.Tensor, operation: str) -> None:
    copies = load_strength("weak").only(operation).apply(pictures, torch.Generator().manual_seed(0))
    levels = (copies * 255).round() != (pictures * 255).round()
    assert levels.flatten(1).any(dim=1).all()


def test_applying_leaves_global_random_state_and_its_input_alone(pictures: torch.Tensor) -> None:
    before, kept = torch.get_rng_state(), pictures.clone()
    one = load_strength("strong").apply(pictures.float(), torch.Generator().manual_seed(4))
    two = load_strength("strong").apply(pictures.float(), torch.Generator().manual_seed(4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(pictures, kept)
    assert torch.equal(one, two)
    assert one.shape == pictures.shape
    assert one.dtype == torch.float32
    assert float(one.min()) >= 0
    assert float(one.max()) <= 1


def _images(channels: int, dtype: type, n: int = 23) -> np.ndarray:
    rng = np.random.default_rng(5)
    coarse = rng.random((n, 4, 4, channels))
    fine = coarse.repeat(4, axis=1).repeat(4, axis=2)
    return np.rint(fine * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize(("channels", "dtype"), [(1, np.uint8), (3, np.uint8), (1, np.uint16), (3, np.uint16)])
def test_a_row_has_the_same_copy_whatever_is_asked_beside_it(channels: int, dtype: type) -> None:
    images = _images(channels, dtype)
    everything = np.arange(len(images))
    whole = augmented_copies(images, everything, "strong", seed=1)
    assert (whole.dtype, whole.shape) == (images.dtype, images.shape)
    assert not (whole == images).reshape(len(images), -1).all(axis=1).any()
    for block in (1, 5):
        np.testing.assert_array_equal(augmented_copies(images, everything, "strong", seed=1, block=block), whole)
    some = np.array([7, 2, 19, 7])
    np.testing.assert_array_equal(augmented_copies(images, some, "strong", seed=1, block=3), whole[some])
    out = np.empty_like(images)
    assert augmented_copies(images, everything, "strong", seed=1, out=out) is out
    np.testing.assert_array_equal(out, whole)


def test_copies_of_another_seed_differ(digits: Digits) -> None:
    first, other = (augmented_copies(digits.images, np.arange(40), "weak", seed=seed) for seed in (1, 2))
    assert (other != first).reshape(40, -1).any(axis=1).all()


def test_no_copy_equals_its_source_even_where_most_operations_do_nothing() -> None:
    symmetric = np.zeros((300, 8, 8, 1), dtype=np.uint8)
    symmetric[:, 2:6, 2:6] = 255  # flips leave it, log-gamma too
    copies = augmented_copies(symmetric, np.arange(300), "weak", seed=0)
    assert not (copies == symmetric).reshape(300, -1).all(axis=1).any()
    assert operations_without_effect(symmetric[:4], "weak") == ("mirror", "upside_down", "log_gamma")
    assert operations_without_effect(_images(1, np.uint8), "weak") == ()


def test_images_without_anything_to_recognise_are_named() -> None:
    images = _images(1, np.uint8)
    images[3], images[8] = 0, 77
    assert blank_rows(images, np.arange(10)).tolist() == [3, 8]
    with pytest.raises(InputError, match="the 2 images in rows 3, 8 have one grey level only"):
        augmented_copies(images, np.arange(10), "weak", seed=0)
    with pytest.raises(InputError, match="the image in row 8 has one grey level only"):
        augmented_copies(images, [8], "weak", seed=0)


@pytest.mark.parametrize(
    ("images", "rows", "given", "message"),
    [
        (np.zeros((2, 8, 8), np.uint8), [0], {}, "needed are uint8 or uint16"),
        (np.zeros((2, 8, 8, 1), np.float32), [0], {}, "needed are uint8 or uint16"),
        (np.zeros((2, 8, 8, 1), np.uint8), [2], {}, "rows must be whole numbers from 0 to 1"),
        (np.zeros((2, 8, 8, 1), np.uint8), [0], {"seed": -1}, "seed is -1"),
        (np.zeros((2, 8, 8, 1), np.uint8), [0], {"block": 0}, "block is 0"),
        (np.arange(18, dtype=np.uint8).reshape(2, 3, 3, 1), [0], {}, "4 pixels a side or more"),
    ],
)
def test_what_cannot_be_copied_is_refused(images: np.ndarray, rows: list, given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        augmented_copies(images, rows, "weak", **{"seed": 0} | given)
