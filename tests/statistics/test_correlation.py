"""Spearman against SciPy, and M against attack success without circularity."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from memorisk.runs.errors import InputError
from memorisk.statistics.rank_correlation import attack_agreement, spearman


@pytest.mark.parametrize("levels", [None, 4, 2])
def test_spearman_equals_scipy(levels):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 80))
    y = y + 0.5 * x
    if levels:
        x, y = np.floor(levels * rng.random(80)), np.round(y)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-13)
    assert spearman(np.exp(x), y) == pytest.approx(spearman(x, y), abs=1e-13)
    assert np.isnan(spearman(np.ones(80), y))
    with pytest.raises(InputError, match="must not hold NaN"):
        spearman(np.where(x == x.max(), np.nan, x), y)
    with pytest.raises(InputError, match="two equally long columns"):
        spearman(x, y[:-1])


# -- M against attack success


def noise_run(rng, *, seeds=4, n=200, memorized=0.0, hard=False):
    """Twins' gaps, and whether M as an attack was right about each image in each seed."""
    sign = np.stack([rng.permutation(np.arange(n) % 2) * 2 - 1 for _ in range(seeds)])
    difficulty = rng.gamma(2.0, 0.5, n) if hard else np.ones(n)
    strength = memorized * rng.gamma(0.5, 1.0, n)
    gap = difficulty * rng.normal(0, 0.7, (seeds, n)) + sign * strength
    return gap, sign, ((gap > 0) == (sign > 0)).astype(float)


def test_equals_the_definition_image_by_image():
    rng = np.random.default_rng(3)
    gap, sign, success = noise_run(rng, seeds=3, n=40, memorized=0.5)
    sign[0, :4] = 0
    success[0, :4] = np.nan
    success[1, 10] = np.nan
    got = attack_agreement(gap, sign, success, np.arange(40))
    rhos, high, low, own_high = [], [], [], []
    for s in range(3):
        xs, ys = [], []
        for x in range(40):
            if np.isnan(success[s, x]):
                continue
            others = [sign[t, x] * gap[t, x] for t in range(3) if t != s and sign[t, x] != 0]
            xs.append(np.mean(others))
            ys.append(success[s, x])
            own = sign[s, x] * gap[s, x]
            own_high += [success[s, x]] if own > 0.3 else []
        rhos.append(spearmanr(xs, ys).statistic)
        high += [y for m, y in zip(xs, ys, strict=True) if m > 0.3]
        low += [y for m, y in zip(xs, ys, strict=True) if m <= 0.1]
    assert got.other_seeds.spearman.estimate == pytest.approx(np.mean(rhos), abs=1e-12)
    assert got.other_seeds.success_high == pytest.approx(np.mean(high))
    assert got.other_seeds.success_low == pytest.approx(np.mean(low))
    assert got.other_seeds.difference.estimate == pytest.approx(np.mean(high) - np.mean(low))
    assert (got.other_seeds.n_high, got.other_seeds.n_low) == (len(high), len(low))
    assert got.circular.success_high == np.mean(own_high) == 1.0


@pytest.mark.parametrize("hard", [False, True])
def test_pure_noise_agrees_only_in_the_circular_form(hard):
    """Nothing is memorized; with ``hard``, some images' losses are noisier in every seed."""
    rng = np.random.default_rng(4)
    runs = [attack_agreement(*noise_run(rng, hard=hard), np.arange(200), max_groups=20) for _ in range(100)]
    for values in (
        [r.other_seeds.spearman.estimate for r in runs],
        [r.other_seeds.difference.estimate for r in runs],
    ):
        assert abs(np.mean(values)) <= 2 * np.std(values, ddof=1) / np.sqrt(100)
    assert np.mean([r.other_seeds.spearman.contains(0) for r in runs]) >= 0.9
    assert np.mean([r.other_seeds.difference.contains(0) for r in runs]) >= 0.9
    assert np.mean([r.circular.spearman.estimate for r in runs]) > 0.8
    assert all(r.circular.spearman.low > 0.5 for r in runs)
    assert np.mean([r.circular.difference.estimate for r in runs]) > 0.8


def test_memorized_images_agree_in_both_forms():
    got = attack_agreement(*noise_run(np.random.default_rng(5), n=600, memorized=1.0), np.arange(600))
    assert got.other_seeds.spearman.low > 0
    assert got.other_seeds.difference.low > 0
    assert got.other_seeds.spearman.estimate < got.circular.spearman.estimate


def test_groups_are_the_units():
    """Five copies of every image, one patient: as many groups, the same interval."""
    rng = np.random.default_rng(6)
    gap, sign, success = noise_run(rng, n=60, memorized=0.5)
    once = attack_agreement(gap, sign, success, np.arange(60)).other_seeds
    copies = attack_agreement(*(np.repeat(v, 5, axis=1) for v in (gap, sign, success)), np.repeat(np.arange(60), 5))
    assert copies.other_seeds.spearman.low == pytest.approx(once.spearman.low, abs=1e-9)
    assert copies.other_seeds.difference.high == pytest.approx(once.difference.high, abs=1e-9)
    assert copies.other_seeds.spearman.n_groups == 60


def test_blocks_of_groups_replace_single_deletions():
    gap, sign, success = noise_run(np.random.default_rng(7), n=300, memorized=0.5)
    every = attack_agreement(gap, sign, success, np.arange(300), max_groups=300).other_seeds.spearman
    blocks = attack_agreement(gap, sign, success, np.arange(300), max_groups=60).other_seeds.spearman
    assert (every.n_groups, blocks.n_groups) == (300, 60)
    drawn = [attack_agreement(gap, sign, success, np.arange(300), max_groups=60, seed=s).other_seeds for s in (0, 1)]
    assert blocks == drawn[0].spearman != drawn[1].spearman
    assert blocks.estimate == every.estimate
    assert (blocks.high - blocks.low) == pytest.approx(every.high - every.low, rel=0.25)


def test_one_seed_has_the_circular_form_only():
    got = attack_agreement(*noise_run(np.random.default_rng(8), seeds=1), np.arange(200))
    assert np.isnan(got.other_seeds.spearman.estimate)
    assert "needs M from another seed" in got.other_seeds.spearman.method
    assert got.circular.spearman.low > 0
    gap, sign, success = noise_run(np.random.default_rng(8))
    for bad, message in (
        ((gap, sign, success[:1], np.arange(200)), "must be .seeds, images."),
        ((gap, sign * 3, success, np.arange(200)), "signs must be"),
        ((gap, sign, success * 2, np.arange(200)), "between 0"),
    ):
        with pytest.raises(InputError, match=message):
            attack_agreement(*bad)
