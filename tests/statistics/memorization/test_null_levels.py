"""Levels and power of the sign-flip p-values by simulation.

Nothing is memorized unless planted: gaps are heavy-tailed (t, 3 degrees of freedom), each image with its own scale.
Repeats are independent, images of one repeat are not (they share test images), so standard errors are over repeats.
"""

import numpy as np
import pytest
from scipy import stats

from memorisk.statistics.memorization.sign_flips import sign_flip_p_values
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg
from tests.thorough import thorough

LEVELS = (0.01, 0.05, 0.1, 0.2)


def noise(rng, sizes, seeds, scale=1.0):
    group = np.repeat(np.arange(len(sizes)), sizes)
    shared = 0.7 * rng.standard_t(3, (seeds, len(sizes)))[:, group]
    return (shared + rng.standard_t(3, (seeds, len(group)))) * scale * np.exp(
        0.7 * rng.standard_normal(len(group))
    ), group


def coins(rng, n, seeds):
    """In each seed groups are paired and a fair coin per pair puts one of the two in A; an odd one out is unscored."""
    sign = np.zeros((seeds, n), dtype=int)
    for row in sign:
        coin = rng.choice([-1, 1], n // 2)
        row[rng.permutation(n)[: 2 * (n // 2)]] = np.stack([coin, -coin], axis=1).ravel()
    return sign


def share_at_most(p, level):
    """Mean share of p <= level over repeats, and its standard error; p is one array per repeat."""
    shares = np.array([np.mean(x <= level) for x in p if len(x)])
    return shares.mean(), shares.std(ddof=1) / np.sqrt(len(shares))


@pytest.mark.parametrize(("n", "n_test"), [(17, 3), thorough(21, 4), thorough(120, 20)])
def test_level_holds_overall_and_in_rare_classes(n, n_test):
    rng = np.random.default_rng(n)
    p = []
    for _ in range(400 if n < 50 else 200):
        gap, _ = noise(rng, np.ones(n + n_test, dtype=int), 4)
        data = gap[:, :n], coins(rng, n, 4), np.arange(n), gap[:, n:], np.arange(n_test)
        found = sign_flip_p_values(*data)
        p.append(found.p_value[~np.isnan(found.p_value)])
    for level in LEVELS:
        share, error = share_at_most(p, level)
        assert share <= level + 3 * error
        # p-values are multiples of 1 / (n 16) or more, so a level just under a multiple is met only up to one step.
        assert share >= level - 1 / ((n_test + 1) * 16) - 3 * error


def test_level_holds_with_random_flips():
    rng = np.random.default_rng(2)
    p = []
    for i in range(300):
        gap, _ = noise(rng, np.ones(30, dtype=int), 12)
        p.append(
            sign_flip_p_values(
                gap[:, :24], coins(rng, 24, 12), np.arange(24), gap[:, 24:], np.arange(6), max_draws=1000, seed=i
            ).p_value
        )
    for level in LEVELS:
        share, error = share_at_most(p, level)
        assert abs(share - level) <= 3 * error


def test_a_pooled_null_fails_in_rare_classes():
    """Above 5 % in rare classes, under 5 % in common ones, where rare classes' noise is 1.8 times as large."""
    rng = np.random.default_rng(3)
    rare_within, rare_pooled, common_pooled = [], [], []
    for _ in range(250):
        common, _ = noise(rng, np.ones(240, dtype=int), 4)
        rare, _ = noise(rng, np.ones(20, dtype=int), 4, scale=1.8)
        sign, common_sign = coins(rng, 17, 4), coins(rng, 200, 4)
        pool = np.concatenate([common[:, 200:], rare[:, 17:]], axis=1)
        within = sign_flip_p_values(rare[:, :17], sign, np.arange(17), rare[:, 17:], np.arange(3)).p_value
        rare_within.append(within[~np.isnan(within)])
        pooled = sign_flip_p_values(rare[:, :17], sign, np.arange(17), pool, np.arange(43)).p_value
        rare_pooled.append(pooled[~np.isnan(pooled)])
        common_pooled.append(
            sign_flip_p_values(common[:, :200], common_sign, np.arange(200), pool, np.arange(43)).p_value
        )
    within, error = share_at_most(rare_within, 0.05)
    assert within <= 0.05 + 3 * error
    pooled, error = share_at_most(rare_pooled, 0.05)
    assert pooled - 3 * error > 0.05
    common, error = share_at_most(common_pooled, 0.05)
    assert common < 0.05 + 3 * error


def test_no_size_of_album_is_listed_more_often():
    """At the depth of a list; beside 3 standard errors over repeats a factor of 1.5: patients' noise is shared."""
    rng = np.random.default_rng(4)
    bins, level = {"one image": (1, 1), "2 to 9": (2, 9), "10 and more": (10, 60)}, 0.003
    p: dict[str, list] = {b: [] for b in bins}
    for _ in range(40):
        sizes = np.minimum(rng.zipf(1.8, 100), 60)
        gap, group = noise(rng, sizes, 7)
        canary = group < 84
        data = gap[:, canary], coins(rng, 84, 7)[:, group[canary]], group[canary], gap[:, ~canary], group[~canary]
        found = sign_flip_p_values(*data, max_draws=1)
        for b, (low, high) in bins.items():
            p[b].append(found.p_value[(found.n_images >= low) & (found.n_images <= high)])
    for b in bins:
        share, error = share_at_most(p[b], level)
        assert share <= 1.5 * level + 3 * error, b


def test_the_level_holds_whatever_the_noise_of_each_patient():
    """Of the scored alone, by coins: unseen patients may be quieter, a tenth of patients noisier."""
    rng = np.random.default_rng(7)
    listed = []
    for _ in range(250):
        gap, _ = noise(rng, np.ones(60, dtype=int), 6)
        gap *= np.where(rng.random(60) < 0.1, 6.0, 1.0)
        gap[:, 50:] *= 0.2
        data = gap[:, :50], rng.choice([-1, 1], (6, 50)), np.arange(50), gap[:, 50:], np.arange(10)
        listed.append(benjamini_hochberg(sign_flip_p_values(*data, level=0.1).p_value, 0.1).n_rejected > 0)
    assert np.sum(listed) <= stats.binom.isf(1e-4, 250, 0.12)  # 60 in the null where 50 alone could reach it


def test_a_patient_of_many_gaps_does_not_hide_one_of_few():
    """Beside five at 20 units, one at 6 is found as often as without them, since the listed leave the null."""
    found = {0: 0, 5: 0}
    for beside in found:
        rng = np.random.default_rng(8)
        for _ in range(40):
            gap, _ = noise(rng, np.ones(120, dtype=int), 8, scale=0.3)
            sign = rng.choice([-1, 1], (8, 100))
            gap[:, 0] = 6 * sign[:, 0] * (1 + 0.3 * rng.standard_normal(8))
            gap[:, 1 : 1 + beside] = 20 * sign[:, 1 : 1 + beside] * (1 + 0.3 * rng.standard_normal((8, beside)))
            data = gap[:, :100], sign, np.arange(100), gap[:, 100:], np.arange(20)
            found[beside] += benjamini_hochberg(sign_flip_p_values(*data, level=0.1).p_value, 0.1).rejected[0]
    assert found[0] > 25
    assert found[5] >= found[0] - 3 * np.sqrt(40 * 0.1)


def test_planted_images_are_found_in_rare_classes():
    rng = np.random.default_rng(5)
    found = missed = 0
    for _ in range(100):
        gap, _ = noise(rng, np.ones(20, dtype=int), 8)
        sign = coins(rng, 16, 8)
        gap[:, :2] += 6 * sign[:, :2]
        p = sign_flip_p_values(gap[:, :16], sign, np.arange(16), gap[:, 16:], np.arange(4)).p_value
        found += np.sum(p[:2] <= 0.05)
        missed += np.sum(p[:2] > 0.05)
    assert found / (found + missed) > 0.9


def test_one_memorized_image_of_a_large_group_is_found():
    """Where no other group is as large."""
    rng = np.random.default_rng(6)
    p = []
    for _ in range(60):
        sizes = np.concatenate([[15], rng.geometric(0.4, 99)])
        gap, group = noise(rng, sizes, 8)
        canary = group < 80
        sign = coins(rng, 80, 8)
        gap[:, 0] += 12 * sign[:, 0]
        data = gap[:, canary], sign[:, group[canary]], group[canary], gap[:, ~canary], group[~canary]
        p.append(sign_flip_p_values(*data).p_value[0])
    assert np.mean(np.array(p) <= 0.05) > 0.8
