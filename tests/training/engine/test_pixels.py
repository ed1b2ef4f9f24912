"""Pixels reach the network as (x / range - mean) / std, wherever they are held."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from memorisk.images.stacked_images import StackedImages
from memorisk.models.classifiers.specs import model_spec
from memorisk.runs.errors import InputError
from memorisk.training.engine.pixels import (
    Normalisation,
    PixelSource,
    _ahead,
    _on_device,
    check_images,
    choose_normalisation,
    dataset_normalisation,
)

CPU = torch.device("cpu")


def picture(dtype: type, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_images_are_copied_in_blocks_without_a_warning(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    images = picture(dtype, 7, 5, 6, 3)
    images.flags.writeable = False  # as memory-mapped images and cached ones are
    order = np.array([6, 0, 3, 1, 2, 5, 4])
    monkeypatch.setattr("memorisk.training.engine.pixels._COPIED_BYTES", 2 * images[0].nbytes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held = _on_device(images, CPU)
        stacked = _on_device(StackedImages([images[:3], images[3:]], order=order), CPU)
        as_tensor = _on_device(torch.tensor(images), CPU)
    np.testing.assert_array_equal(held.numpy(), images)
    np.testing.assert_array_equal(stacked.numpy(), images[order])
    np.testing.assert_array_equal(as_tensor.numpy(), images)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_dataset_normalisation_is_mean_and_deviation(dtype: type) -> None:
    images = picture(dtype, 7, 5, 6, 3)
    scaled = images.astype(np.float64) / np.iinfo(dtype).max
    got = dataset_normalisation(images)
    # both sums are in float64, over a few hundred values: rounding stays below 1e-13 of them
    np.testing.assert_allclose(got.mean, scaled.mean(axis=(0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(got.std, scaled.std(axis=(0, 1, 2)), rtol=1e-12)
    assert dataset_normalisation(torch.from_numpy(images)) == got


def test_dataset_normalisation_does_not_depend_on_order() -> None:
    images = picture(np.uint8, 50, 8, 8, 1)
    assert dataset_normalisation(images) == dataset_normalisation(images[::-1])


def test_constant_channel_is_centred_and_not_blown_up() -> None:
    images = np.full((3, 4, 4, 1), 200, dtype=np.uint8)
    got = dataset_normalisation(images)
    assert got.std == (1 / 255,)
    source = PixelSource(images, np.arange(3), device=CPU, dtype=torch.float32, normalisation=got)
    assert float(next(source.batches([torch.arange(3)])).abs().max()) < 1e-4


def test_model_normalisation_averages_colours_for_grey() -> None:
    spec = model_spec("resnet50")
    grey = choose_normalisation(np.zeros((1, 2, 2, 1), np.uint8), "model", spec)
    assert grey is not None
    assert grey.mean == pytest.approx((np.mean(spec.mean),))
    colour = choose_normalisation(np.zeros((1, 2, 2, 3), np.uint8), "model", spec)
    assert colour == Normalisation(spec.mean, spec.std)
    assert choose_normalisation(np.zeros((1, 2, 2, 1), np.uint8), "none") == Normalisation((0.0,), (1.0,))
    with pytest.raises(InputError, match="no model specification"):
        choose_normalisation(np.zeros((1, 2, 2, 3), np.uint8), "model")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_batches_are_the_naive_conversion(dtype: type, tmp_path: Path) -> None:
    images = picture(dtype, 9, 5, 4, 3)
    rows, slots = np.array([8, 1, 1, 5, 0]), [torch.tensor([4, 0]), torch.tensor([2, 3, 1])]
    how = Normalisation((0.2, 0.5, 0.7), (0.1, 0.25, 0.3))
    np.save(tmp_path / "images.npy", images)
    held = (images, np.load(tmp_path / "images.npy", mmap_mode="r"), torch.from_numpy(images))
    batches = [
        list(PixelSource(kind, rows, device=CPU, dtype=torch.float32, normalisation=how).batches(slots))
        for kind in held
    ]
    for index, chosen in enumerate(slots):
        naive = (images[rows[chosen]] / np.iinfo(dtype).max - how.mean) / how.std
        got = batches[0][index]
        # three roundings of float32 at values of up to |x| / std; the difference of near numbers keeps absolute error
        atol = 3 * np.finfo(np.float32).eps * 1 / min(how.std)
        np.testing.assert_allclose(got.numpy(), naive.transpose(0, 3, 1, 2), rtol=0, atol=atol)
        assert got.is_contiguous(memory_format=torch.channels_last)
        assert all(torch.equal(got, other[index]) for other in batches[1:])


def test_features_pass_unchanged() -> None:
    features = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    assert choose_normalisation(features, "dataset") is None
    source = PixelSource(features, np.array([5, 0]), device=CPU, dtype=torch.float32, normalisation=None)
    np.testing.assert_array_equal(next(source.batches([torch.tensor([1, 0])])).numpy(), features[[0, 5]])


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((2, 4, 4, 1), np.float32),
        np.zeros((2, 4, 4), np.uint8),
        np.zeros((2, 4), np.uint8),
        np.zeros((2, 4, 4, 1), np.int16),
    ],
)
def test_other_arrays_are_refused(images: np.ndarray) -> None:
    with pytest.raises(InputError, match="needed are uint8 or uint16"):
        check_images(images)


@pytest.mark.parametrize("rows", [[-1, 0], [0, 3]])
def test_rows_outside_are_refused(rows: list[int]) -> None:
    with pytest.raises(InputError, match="there are 3 images"):
        PixelSource(
            np.zeros((3, 2, 2, 1), np.uint8), np.array(rows), device=CPU, dtype=torch.float32, normalisation=None
        )


def test_gathering_ahead_keeps_order_and_goes_two_ahead() -> None:
    asked: list[int] = []

    def gather(chosen: torch.Tensor) -> torch.Tensor:
        asked.append(int(chosen))
        return chosen * 10

    stream = _ahead(gather, [torch.tensor(i) for i in range(6)])
    assert int(next(stream)) == 0
    assert max(asked) <= 2
    assert [int(x) for x in stream] == [10, 20, 30, 40, 50]
    assert asked == list(range(6))
