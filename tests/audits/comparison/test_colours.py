"""Training images in the colours of generated ones, which luma and the mean of channels do not show."""

from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from memorisk.audits.comparison.colours import NO_COLOURS, Colours, look_at_colours
from memorisk.audits.comparison.sets import Sets
from memorisk.runs.workload import no_progress
from tests.audits.synthetic.making import store_of

N, N_MADE, HIDDEN, SIDE = 60, 40, 10, 40
UNSEEN = np.cross([0.299, 0.587, 0.114], [1, 1, 1])  # neither luma nor the mean of the channels changes along it
UNSEEN /= np.abs(UNSEEN).max()


def fields(seed: int, n: int) -> np.ndarray:
    """Pictures of fine and of coarse structure, each its own, [n, SIDE, SIDE], of mean 0."""
    noise = np.random.default_rng(seed).normal(size=(2, n, SIDE, SIDE))
    return 120 * gaussian_filter(noise[0], (0, 1.5, 1.5)) + 200 * gaussian_filter(noise[1], (0, 5, 5))


def grey(seed: int, n: int) -> np.ndarray:
    return np.repeat((128 + fields(seed, n))[..., None], 3, axis=3)


def coloured(seed: int, n: int) -> np.ndarray:
    """Pictures of a common tint, whose colours follow the luma in part, and differ by coarse stains."""
    stain = gaussian_filter(np.random.default_rng([seed, 1]).normal(size=(n, SIDE, SIDE)), (0, 4, 4))
    luma = fields(seed, n)
    return np.stack([150 + luma, 110 + 0.8 * luma + 90 * stain, 90 + 0.6 * luma - 60 * stain], axis=3)


def pixels(images: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(images), 0, 255).astype(np.uint8)


def look(folder: Path, train: np.ndarray, held: np.ndarray, made: np.ndarray) -> Colours:
    stores = [
        store_of(pixels(images), folder, name) for name, images in (("train", train), ("held", held), ("set", made))
    ]
    return look_at_colours(Sets(stores[0], stores[2], stores[1], 0, 0, frozenset(), ()), frozenset(), no_progress)


def hide(made: np.ndarray, train: np.ndarray, direction: np.ndarray, amplitude: float) -> np.ndarray:
    """Add the luma of training images to the first images along a direction of colour."""
    luma = train[:HIDDEN] @ [0.299, 0.587, 0.114]
    carriers = 0.5 * made[:HIDDEN] + 64 + (luma - 128)[..., None] / 128 * amplitude * direction
    return np.concatenate([carriers, made[HIDDEN:]])


@pytest.mark.parametrize("draw", [grey, coloured])
def test_honest_sets_hold_no_training_image_in_their_colours(tmp_path: Path, draw) -> None:
    found = look(tmp_path, draw(0, N), draw(1, N), draw(2, N_MADE))
    assert (found.n_unlike_real, found.alike, found.could_not_look) == (0, {}, False)


@pytest.mark.parametrize("direction", [UNSEEN, -UNSEEN, [0, 0, 1]], ids=["unseen", "its inverse", "blue alone"])
@pytest.mark.parametrize("draw", [grey, coloured])
def test_carriers_are_named_with_the_image_that_they_hide(tmp_path: Path, draw, direction) -> None:
    train = draw(0, N)
    made = hide(grey(2, N_MADE), train, np.array(direction), 60)
    if np.array_equal(direction, [0, 0, 1]):  # instead of the picture, not over it
        made[:HIDDEN, ..., 2] = train[:HIDDEN] @ [0.299, 0.587, 0.114]
    found = look(tmp_path, train, draw(1, N), made)
    assert set(found.alike) == {(row, row) for row in range(HIDDEN)}
    assert found.n_unlike_real == (HIDDEN if draw is grey else 0)


def test_colour_of_any_kind_is_counted_where_real_images_are_grey(tmp_path: Path) -> None:
    made = grey(2, N_MADE)
    made[:3, 5, 5, 0] += 3
    made[3:6, 5, 5, 0] += 2
    assert look(tmp_path, grey(0, N), grey(1, N), made).n_unlike_real == 3
    noisy = grey(1, N)
    noisy[0, 0, 0, 2] += 3
    assert look(tmp_path, grey(0, N), noisy, made).n_unlike_real == 0


def test_grey_sets_have_no_colours_to_look_at(tmp_path: Path) -> None:
    one = [images[..., :1] for images in (grey(0, N), grey(1, N), grey(2, N_MADE))]
    assert look(tmp_path, *one) is NO_COLOURS


def test_few_people_do_not_show_how_alike_colours_can_be(tmp_path: Path) -> None:
    assert look(tmp_path, coloured(0, 8), coloured(1, 8), coloured(2, 8)).could_not_look
