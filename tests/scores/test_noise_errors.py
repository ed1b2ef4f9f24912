"""Weights of noise levels: what they equal, what they leave, and that they find more than one level alone."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.scores.noise_errors import ODD, joined_losses, level_weights


def losses(seed: int = 0, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw losses of three pairs at four levels, which differ in size and in noise; the first half is unseen."""
    rng = np.random.default_rng(seed)
    base = rng.gamma(2.0, 1.0, (1, 4, n)) * np.array([0.1, 1, 10, 100])[None, :, None]
    noise = rng.standard_normal((2, 3, 4, n)) * np.array([0.01, 0.1, 5, 20])[:, None]
    pair = rng.standard_normal((2, 3, 4, 1)) * 3  # one model of a pair is the better one everywhere
    return base + pair[0] + noise[0], base + pair[1] + noise[1], np.arange(n) < n // 2


def test_weights_are_those_of_the_definition():
    a, b, unseen = losses()
    gap = (b - a)[:, :, unseen]
    n = unseen.sum()
    inverse = [
        1 / np.sqrt(sum(((g - g.mean()) ** 2).sum() for g in gap[:, level]) / (len(gap) * (n - 1)))
        for level in range(gap.shape[1])
    ]
    joined = [sum(w * g for w, g in zip(inverse, pair, strict=True)) for pair in gap]
    scale = np.sqrt(sum(((g - g.mean()) ** 2).sum() for g in joined) / (len(gap) * (n - 1)))
    assert np.allclose(level_weights(a, b, unseen), np.array(inverse) / scale, rtol=1e-12)


def test_gaps_of_unseen_images_have_one_standard_deviation_whatever_the_units():
    a, b, unseen = losses()
    for factor in (1.0, 1e-6, 1e6):
        weights = level_weights(factor * a, factor * b, unseen)
        gap = joined_losses(factor * b, weights) - joined_losses(factor * a, weights)
        about = gap[:, unseen] - gap[:, unseen].mean(axis=1, keepdims=True)
        assert np.isclose(about.std(axis=1, ddof=1).mean(), 1, atol=0.05)


def test_an_odd_image_counts_with_a_limit_and_not_in_the_mean_of_its_pair():
    a, b, unseen = losses()
    even = level_weights(a, b, unseen)
    b[:, 1, 7] += np.array([400.0, -700, 900])  # thousands of times the gap of another image
    gap = (b - a)[:, :, unseen]

    def spread(g: np.ndarray) -> float:
        square = np.square(g - np.median(g, axis=1, keepdims=True)).mean(axis=0)
        limit = ODD * np.median(square)
        centre = g[:, square <= limit].mean(axis=1, keepdims=True)
        return float(np.sqrt(np.minimum(np.square(g - centre).mean(axis=0), limit).sum() / (g.shape[1] - 1)))

    inverse = np.array([1 / spread(gap[:, level]) for level in range(4)])
    weights = level_weights(a, b, unseen)
    assert np.allclose(weights, inverse / spread(np.einsum("l,slj->sj", inverse, gap)), rtol=1e-12)
    assert (even / weights < 1.1).all()


def test_scored_images_do_not_choose_the_weights():
    a, b, unseen = losses()
    other = b.copy()
    other[:, :, ~unseen] += 1000
    assert np.array_equal(level_weights(a, b, unseen), level_weights(a, other, unseen))


def test_weighted_levels_find_more_than_any_single_level():
    a, b, unseen = losses(n=4000)
    remembered = ~unseen
    b[:, :, remembered] += np.array([0.007, 0.07, 3.5, 14])[:, None]  # half a spread at every level

    def effect(weights: np.ndarray) -> float:
        gap = (joined_losses(b, weights) - joined_losses(a, weights)).mean(axis=0)
        return (gap[remembered].mean() - gap[unseen].mean()) / gap[unseen].std()

    single = [effect(np.eye(4)[level]) for level in range(4)]
    assert effect(level_weights(a, b, unseen)) > 1.5 * max(single)


def test_a_level_at_which_unseen_gaps_are_all_zero_is_not_left_out_in_silence():
    """Its weight would be 0, whatever the gaps of scored images are: all that is remembered there would go unseen."""
    a, b, unseen = losses()
    a[:, 1] = b[:, 1] = 0.01
    b[:, 1, ~unseen] = 0.0
    with pytest.raises(InputError, match=r"the same loss at level 2 of 4: .* or leave that level out$"):
        level_weights(a, b, unseen)


def test_losses_that_cannot_be_weighted_are_refused():
    a, b, unseen = losses()
    with pytest.raises(InputError, match="same loss"):
        level_weights(a, a, unseen)
    with pytest.raises(InputError, match="at least two"):
        level_weights(a, b, np.arange(400) < 1)
    with pytest.raises(InputError, match=r"\[pairs, levels, images\]"):
        level_weights(a[0], b[0], unseen)
    with pytest.raises(InputError, match="diverged"):
        level_weights(np.where(a == a.max(), np.inf, a), b, unseen)
