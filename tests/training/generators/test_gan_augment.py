"""Adaptive augmentation's transformations: each alone against a plain one, its frequency, and its derivatives."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal
import scipy.stats
import torch
import torch.nn.functional as F
from scipy.spatial.transform import Rotation

from memorisk.training.generators.kinds import gan_augmentation as gan_augment
from memorisk.training.generators.kinds import gan_augmentation as gan_moves
from memorisk.training.generators.kinds.gan_augmentation import (
    AugmentationDraws,
    augment,
    draw_augmentations,
    move_between_pixels,
    move_pixels,
    recolour,
)

SIDE = 16
BLITS, GEOMETRY, COLOURS = 3, 5, 5


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(b: int = 4, channels: int = 3, side: int = SIDE) -> torch.Tensor:
    return torch.rand(b, channels, side, side, generator=generator(7), dtype=torch.float64) * 2 - 1


class Only(gan_augment._BatchDraws):
    """Takes one transformation, always, and remembers its values."""

    def __init__(self, which: int, b: int = 4):
        super().__init__(b, 0.5, generator(which))
        self.which, self.asked, self.value = which, 0, torch.zeros(0)

    def kept(self, value: torch.Tensor, neutral: float, p: float | None = None) -> torch.Tensor:
        self.asked += 1
        if self.asked - 1 != self.which:
            return torch.full_like(value, neutral)
        self.value = value
        return value


class Remembering(gan_augment._BatchDraws):
    """Remembers what came of each draw."""

    def __init__(self, b: int, p: float):
        super().__init__(b, p, generator(11))
        self.values: list[torch.Tensor] = []
        self.counts: list[int] = []

    def kept(self, value: torch.Tensor, neutral: float, p: float | None = None) -> torch.Tensor:
        found = super().kept(value, neutral, p)
        self.values.append(found)
        self.counts.append(int((found != neutral).sum()))
        return found


@pytest.mark.parametrize("letters", ["b", "g", "c", "bgc"])
@pytest.mark.parametrize("channels", [1, 3])
def test_probability_zero_changes_no_bit(letters: str, channels: int) -> None:
    x = images(32, channels).float()
    assert torch.equal(augment(x, draw_augmentations(32, 0.0, generator(), letters=letters, side=SIDE)), x)
    assert not torch.equal(augment(x, draw_augmentations(32, 0.5, generator(), letters=letters, side=SIDE)), x)


def test_an_image_that_nothing_was_drawn_for_keeps_its_bits_beside_others() -> None:
    x, drawn = images(64).float(), draw_augmentations(64, 0.1, generator(), side=SIDE)
    alone = torch.stack([(m == torch.eye(len(m[0]))).flatten(1).all(1) for m in (drawn.blit, drawn.geometry)]).all(0)
    alone &= (drawn.colour == torch.eye(4)).flatten(1).all(dim=1)
    assert 0 < int(alone.sum()) < 64
    changed = (augment(x, drawn) != x).flatten(1).any(dim=1)
    assert torch.equal(changed, ~alone)


def test_flips_turns_and_whole_pixels_are_torchs_own() -> None:
    x = images()
    for which in range(BLITS):
        dice = Only(which, len(x))
        matrix = gan_augment._blits(dice, SIDE)
        found = move_pixels(x, matrix)
        for image, seen, value, back in zip(x, found, dice.value, matrix, strict=True):
            if which == 0:
                wanted = image.flip(-1) if value == -1 else image
            elif which == 1:
                wanted = image.rot90(int(value), (-2, -1))
            else:
                right, down = -int(back[0, 2]), -int(back[1, 2])
                assert max(abs(right), abs(down)) <= SIDE / 8
                padded = F.pad(image[None], (2, 2, 2, 2), mode="reflect")[0]
                wanted = padded[:, 2 - down : 2 - down + SIDE, 2 - right : 2 - right + SIDE]
            assert torch.equal(seen, wanted)


def naive_move(image: np.ndarray, back) -> np.ndarray:
    """One channel: scipy's upfirdn to twice the side, a plain formula for the source, scipy's linear interpolation."""
    line, side = np.array(gan_moves._SYM6), len(image)
    centre = (line * np.arange(12)).sum() / line.sum() - 5
    large = np.pad(image, 6, mode="reflect")
    for axis in (0, 1):
        large = scipy.signal.upfirdn(line * 2**0.5, large, up=2, axis=axis)
    large = large[17 : 17 + 2 * side, 17 : 17 + 2 * side]
    seen, middle = np.zeros((2 * side + 10, 2 * side + 10)), (side - 1) / 2
    for row in range(len(seen)):
        for column in range(len(seen)):
            x, y = back((column - 5 - centre) / 2 - middle, (row - 5 - centre) / 2 - middle)
            places = []
            for place in (y + middle, x + middle):
                while not 0 <= place <= side - 1:
                    place = -place if place < 0 else 2 * (side - 1) - place
                places.append([2 * place + centre])
            seen[row, column] = scipy.ndimage.map_coordinates(large, places, order=1)[0]
    for axis in (0, 1):
        seen = scipy.signal.upfirdn(line[::-1] / 2**0.5, seen, down=1, axis=axis)
    return seen[11 : 11 + 2 * side : 2, 11 : 11 + 2 * side : 2]


def rotated(angle: float, x: float, y: float) -> tuple[float, float]:
    return math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y


@pytest.mark.parametrize("which", range(GEOMETRY))
def test_each_geometric_transformation_is_the_plain_one(which: int) -> None:
    x, dice = images(1, 1, 8), Only(which, 1)
    matrix = gan_augment._geometry(dice, 8)
    value = float(dice.value[0])
    shift = matrix[0, :2, 2].tolist()
    back = {
        0: lambda x, y: (x / value, y / value),
        1: partial(rotated, value),
        2: lambda x, y: (x / value, y * value),
        3: partial(rotated, value),
        4: lambda x, y: (x + shift[0], y + shift[1]),
    }[which]
    assert shift != [0, 0] if which == 4 else shift == [0, 0]
    found = move_between_pixels(x, matrix)[0, 0].numpy()
    np.testing.assert_allclose(found, naive_move(x[0, 0].numpy(), back), atol=1e-9)


def test_geometric_transformations_follow_their_order() -> None:
    dice = Remembering(6, 0.8)
    found = gan_augment._geometry(dice, SIDE)
    scale, before, stretch, after, _ = dice.values
    for k in range(6):
        first = np.eye(2) * float(scale[k])  # the first that an image meets
        second, fourth = (Rotation.from_euler("z", -float(a[k])).as_matrix()[:2, :2] for a in (before, after))
        third = np.diag([float(stretch[k]), 1 / float(stretch[k])])
        forward = fourth @ third @ second @ first
        np.testing.assert_allclose(found[k, :2, :2].numpy(), np.linalg.inv(forward), atol=1e-12)


def test_no_movement_gives_the_image_back_and_a_slope_stays_a_slope() -> None:
    x = images(1, 1)
    same = move_between_pixels(x, torch.eye(3, dtype=torch.float64)[None])
    torch.testing.assert_close(same[..., 4:-4, 4:-4], x[..., 4:-4, 4:-4], rtol=0, atol=1e-10)
    slope = torch.arange(32, dtype=torch.float64).expand(1, 1, 32, 32)
    shift = torch.eye(3, dtype=torch.float64)[None].clone()
    shift[:, 0, 2] = 0.3
    found = move_between_pixels(slope, shift)[..., 8:-8]
    torch.testing.assert_close(found, slope[..., 8:-8] + 0.3, rtol=0, atol=1e-9)


@pytest.mark.parametrize("which", range(COLOURS))
def test_each_change_of_colour_is_the_plain_one(which: int) -> None:
    x, dice = images(), Only(which)
    found = recolour(x, gan_augment._colours(dice))
    for image, seen, value in zip(x.numpy(), found.numpy(), dice.value.tolist(), strict=True):
        luma = image.mean(axis=0)
        wanted = {
            0: image + value,
            1: image * value,
            2: image - 2 * luma * value,
            3: np.einsum("ij,jhw->ihw", Rotation.from_rotvec(np.full(3, value / 3**0.5)).as_matrix(), image),
            4: luma + (image - luma) * value,
        }[which]
        np.testing.assert_allclose(seen, wanted, atol=1e-12)


def test_a_grey_image_is_coloured_as_three_equal_channels() -> None:
    grey, drawn = images(16, 1), draw_augmentations(16, 0.8, generator(), letters="c", side=SIDE)
    three = augment(grey.expand(-1, 3, -1, -1), drawn)
    torch.testing.assert_close(augment(grey, drawn), three.mean(dim=1, keepdim=True))
    torch.testing.assert_close(three, three.mean(dim=1, keepdim=True).expand(-1, 3, -1, -1))


def test_each_transformation_comes_as_often_as_it_should() -> None:
    n, p = 20_000, 0.3
    turning = 1 - math.sqrt(1 - p)
    for drawing, shares in (
        (partial(gan_augment._blits, side=SIDE), (p / 2, 3 * p / 4, p)),
        (partial(gan_augment._geometry, side=SIDE), (p, turning, p, turning, p)),
        (gan_augment._colours, (p, p, p / 2, p, p)),
    ):
        dice = Remembering(n, p)
        drawing(dice)
        for count, share in zip(dice.counts, shares, strict=True):
            assert scipy.stats.binomtest(count, n, share).pvalue > 1e-3


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    first, again, other = (draw_augmentations(8, 0.6, generator(seed), side=SIDE) for seed in (3, 3, 4))
    assert all(torch.equal(getattr(first, n), getattr(again, n)) for n in ("blit", "geometry", "colour"))
    assert not torch.equal(first.geometry, other.geometry)


def test_gradients_flow_twice() -> None:
    x, drawn = images(3, 1, 8).requires_grad_(), draw_augmentations(3, 0.8, generator(1), side=8)

    def seen(x: torch.Tensor) -> torch.Tensor:
        return augment(x, drawn)

    assert isinstance(drawn, AugmentationDraws)
    assert bool((seen(x) != x).flatten(1).any(dim=1).all())
    assert torch.autograd.gradcheck(seen, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(seen, x, fast_mode=True)
