"""Images made by formulas: decided by their numbers, of many kinds, and never blank."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from memorisk.runs.errors import InputError

RECIPE = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "procedural_pictures.py"))
KINDS, procedural_image, procedural_images = (
    RECIPE[name] for name in ("KINDS", "procedural_image", "procedural_images")
)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("side", [16, 48])
def test_kinds_fill_the_range(name: str, side: int) -> None:
    made = np.stack([KINDS[name](np.random.default_rng(seed), side) for seed in range(6)])
    assert made.shape == (6, side, side)
    assert made.min() >= 0
    assert made.max() <= 1
    assert (made.std(axis=(1, 2)) > 0.01).sum() >= 5
    assert len(np.unique(made.reshape(6, -1), axis=0)) == 6


def test_an_image_is_decided_by_its_number() -> None:
    several = procedural_images(5, seed=3, side=32, first=10)
    assert several.dtype == np.uint8
    np.testing.assert_array_equal(several[2], procedural_image(3, 12, 32))
    assert not np.array_equal(several[2], procedural_image(4, 12, 32))
    assert procedural_images(0, seed=0, side=32).shape == (0, 32, 32, 3)


def test_half_are_grey() -> None:
    made = procedural_images(200, seed=0, side=16)
    grey = (made == made[..., :1]).all(axis=(1, 2, 3)).sum()
    assert 74 <= grey <= 126  # 99.98 % of 200 fair coins


@pytest.mark.parametrize("wrong", [{"n": -1}, {"side": 7}, {"seed": -1}, {"first": -1}])
def test_numbers_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="needed are 0 or more, side 8"):
        procedural_images(**{"n": 1, "seed": 0, "side": 16, **wrong})
