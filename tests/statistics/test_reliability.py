"""The ceiling: a planted reliability comes back with an interval that covers it."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.probes import above_class_median
from memorisk.statistics.reliability import auroc_ceiling, split_half
from tests.thorough import thorough


def planted(rng, n_groups=80, n_seeds=4, spread=0.7, most=2):
    """Signed gaps with a true M of variance ``spread^2`` (half of it the patient's) and noise of variance 1."""
    size = rng.integers(1, most + 1, n_groups)
    group = np.repeat(np.arange(n_groups), size)
    label = (np.arange(n_groups) % 3)[group]
    own = (rng.normal(size=n_groups)[group] + rng.normal(size=len(group))) / np.sqrt(2)
    return label * 2.0 + spread * own + rng.normal(size=(n_seeds, len(group))), label, group


def test_one_split_by_hand():
    rng = np.random.default_rng(0)
    signed, label, group = planted(rng, n_seeds=2, most=1)
    found = split_half(signed, label, group)
    a, b = (row - np.array([row[label == c].mean() for c in range(3)])[label] for row in signed)
    r = np.corrcoef(a, b)[0, 1]
    assert found.half == pytest.approx(r)
    assert found.reliability.estimate == pytest.approx(2 * r / (1 + r))
    assert (found.n_seeds, found.n_splits, found.n_groups) == (2, 1, 80)
    auc = []
    for one, two in ((signed[0], signed[1]), (signed[1], signed[0])):
        rank = [(one[label == c] <= v).sum() / ((label == c).sum() + 1) for v, c in zip(one, label, strict=True)]
        auc.append(roc_auc_score(above_class_median(two, label), rank))
    assert found.half_auroc.estimate == pytest.approx(np.mean(auc))


@pytest.mark.parametrize("spread", [thorough(0.0), 0.7])
def test_planted_reliability_is_covered(spread):
    """Truth: spread^2 / (spread^2 + 1 / S), whatever lies between the classes."""
    rng = np.random.default_rng(1)
    truth = spread**2 / (spread**2 + 1 / 4)
    hits, estimates = [], []
    for _ in range(300):
        found = split_half(*planted(rng, spread=spread)).reliability
        hits.append(found.contains(truth))
        estimates.append(found.estimate)
    slack = 2 * np.sqrt(0.95 * 0.05 / 300)
    assert np.mean(hits) >= 0.93 - slack
    assert abs(np.median(estimates) - truth) < 0.03


def test_noise_alone_predicts_nothing_of_itself():
    rng = np.random.default_rng(2)
    inside = []
    for _ in range(300):
        inside.append(split_half(*planted(rng, spread=0.0)).half_auroc.contains(0.5))
    assert np.mean(inside) >= 0.93 - 2 * np.sqrt(0.95 * 0.05 / 300)


def test_more_seeds_raise_the_ceiling():
    rng = np.random.default_rng(3)
    signed, label, group = planted(rng, n_groups=300, n_seeds=12)
    few, many = split_half(signed[:2], label, group), split_half(signed, label, group)
    assert many.reliability.estimate > few.reliability.estimate + 0.1
    assert many.half_auroc.estimate > few.half_auroc.estimate + 0.05
    assert many.n_splits == 20
    assert split_half(signed[:5], label, group).n_splits == 10


def test_seeds_that_did_not_score_an_image_are_left_out():
    rng = np.random.default_rng(4)
    signed, label, group = planted(rng, n_seeds=2)
    holes = signed.copy()
    holes[0, group == 0] = np.nan
    found = split_half(holes, label, group)
    without = split_half(signed[:, group != 0], label[group != 0], group[group != 0])
    assert found.n_groups == without.n_groups == 79
    assert found.half_auroc.estimate == pytest.approx(without.half_auroc.estimate)
    assert found.half == pytest.approx(without.half)


def test_what_cannot_be_had():
    rng = np.random.default_rng(5)
    signed, label, group = planted(rng)
    one = split_half(signed[:1], label, group)
    assert "two halves need 2" in one.reliability.method
    assert np.isnan(one.half_auroc.estimate)
    few = split_half(signed[:, :2], label[:2], group[:2])
    assert np.isnan(few.reliability.estimate)
    opposed = split_half(signed[:1] * [[1.0], [-1.0]], label, group)
    assert (opposed.half, opposed.reliability.estimate) == (pytest.approx(-1), pytest.approx(-1))  # the least there is
    with pytest.raises(InputError, match="do not fit"):
        split_half(signed, label[:-1], group)


def test_the_ceiling_follows_the_normal_formula():
    """`A(r) = P(X > X' | Y above, Y' below the median)`, against 400,000 simulated pairs for each r."""
    rng = np.random.default_rng(6)
    for r in (0.2, 0.6, 0.9):
        x, z = rng.normal(size=(2, 400_000))
        y = r * x + np.sqrt(1 - r**2) * z
        half = roc_auc_score(y > 0, x)
        reliability = 2 * r / (1 + r)
        true = rng.normal(size=400_000)
        noisy = np.sqrt(reliability) * true + np.sqrt(1 - reliability) * z
        # standard error of an AUROC of 200,000 against 200,000 is below 0.001
        assert auroc_ceiling(half) == pytest.approx(roc_auc_score(noisy > 0, true), abs=0.005)
    np.testing.assert_allclose(auroc_ceiling([0.3, 0.5, 1.0]), [0.5, 0.5, 1.0])
    assert np.isnan(auroc_ceiling(np.nan))


def test_a_probe_that_knew_the_true_m_exceeds_the_half_and_reaches_the_ceiling():
    rng = np.random.default_rng(7)
    n, held = 400, []
    for _ in range(200):
        true = 0.7 * rng.normal(size=n)
        signed = true + rng.normal(size=(4, n))
        found = split_half(signed, np.zeros(n), np.arange(n))
        best = roc_auc_score(above_class_median(signed.mean(axis=0), np.zeros(n)), true)
        assert best > found.half_auroc.estimate
        held.append(found.ceiling.low <= best <= found.ceiling.high)
    # the probe's own AUROC has a sampling error of 0.02 beside the interval's, so that somewhat fewer are held
    assert np.mean(held) >= 0.90 - 2 * np.sqrt(0.95 * 0.05 / 200)


def test_noise_has_no_ceiling():
    """Where the halves agree by chance alone the formula gives 0.5 of any limit; that is no interval of a ceiling."""
    rng = np.random.default_rng(8)
    ceilings = [split_half(*planted(rng, spread=0.0)).ceiling for _ in range(200)]
    unknown = [np.isnan([c.estimate, c.low, c.high]).all() for c in ceilings]
    assert np.mean(unknown) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / 200)
    assert all("no ceiling follows: more seeds" in c.method for c, gone in zip(ceilings, unknown, strict=True) if gone)
    assert all(0.5 < c.low < c.estimate < c.high for c, gone in zip(ceilings, unknown, strict=True) if not gone)
