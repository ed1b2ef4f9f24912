"""Plants read blind: p-values as the audit would have given, and a bound that holds as often as it says."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.planted_copies import copies_bound, plant_power, planted_p_values
from memorisk.statistics.copies.reversed_queries import reversed_queries
from memorisk.statistics.intervals.shares import clopper_pearson
from tests.thorough import thorough

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("sizes", ["any", "matched"])
def test_p_of_a_plant_is_what_its_patient_would_have_had(sizes):
    rng = np.random.default_rng(0)
    train, held = rng.integers(0, 30, 60) / 4, rng.integers(0, 30, 40) / 4
    ours, theirs = np.repeat(np.arange(15), 4), rng.integers(0, 12, 40)
    distance, source = rng.integers(0, 20, 15) / 4, rng.permutation(15)
    p = planted_p_values(distance, np.full(15, 4), held, theirs, sizes=sizes)
    for d, unit, value in zip(distance, source, p, strict=True):
        changed = train + 100.0
        changed[np.flatnonzero(ours == unit)[2]] = d
        result = reversed_queries(changed, held, ours, theirs + 100, sizes=sizes)
        assert value == result.p_value[unit]


def test_recall_counts_one_plant_of_each_source():
    p = np.array([0.01, 0.01, 0.5, 0.01, 0.9, 0.02])
    source = np.array(["a", "a", "a", "b", "c", "c"])
    kinds = ["flip", "noise", "crop", "flip", "flip", "noise"]
    found = plant_power(p <= 0.02, source, kinds=kinds, seed=1)
    assert found.recall.trials == 3
    assert found.kinds["flip"] == clopper_pearson(2, 3)
    assert found.kinds["noise"] == clopper_pearson(2, 2)
    assert found.kinds["crop"] == clopper_pearson(0, 1)


def test_recall_covers_over_sources():
    """Plants of one source are alike; a random plant of a random source is found with probability 0.7."""
    rng, repeats, covered = np.random.default_rng(1), 400, 0
    cut = stats.norm.cdf(np.sqrt(1.09) * stats.norm.ppf(0.7))
    for i in range(repeats):
        z = rng.normal(size=(30, 1)) + 0.3 * rng.normal(size=(30, 4))
        p = stats.norm.cdf(z).ravel()
        found = plant_power(p <= cut, np.repeat(np.arange(30), 4), seed=i).recall
        covered += found.low <= 0.7 <= found.high
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)


@pytest.mark.parametrize(("share", "recall"), [(0.01, 0.9), thorough(0.01, 0.4), thorough(0.002, 0.7)])
def test_the_bound_holds_jointly(share, recall):
    rng, repeats, held, n = np.random.default_rng(2), 1000, 0, 500
    for _ in range(repeats):
        plants = clopper_pearson(int(rng.binomial(60, recall)), 60)
        held += copies_bound(int(rng.binomial(n, share * recall)), n, plants).upper >= share
    assert held >= stats.binom.ppf(0.001, repeats, 0.95)


def test_zero_found_by_the_formula():
    plants = clopper_pearson(100, 100)
    found = copies_bound(0, 10_000, plants)
    assert found.upper == pytest.approx((1 - 0.025 ** (1 / 10_000)) / plants.low)
    assert found.rule_of_three == pytest.approx(3 / (10_000 * plants.low))
    assert 1 < found.upper / found.rule_of_three < 1.25
    assert copies_bound(0, 10, clopper_pearson(0, 5)).upper == 1
    assert np.isnan(copies_bound(3, 10, plants).rule_of_three)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: planted_p_values([1.0], [0], [1.0]), "at least 1"),
        (lambda: planted_p_values([1.0], [1, 1], [1.0]), "number of images"),
        (lambda: plant_power([True], [1, 2]), "one source"),
        (lambda: copies_bound(0, 10, clopper_pearson(1, 2, 0.9)), "one level"),
        (lambda: copies_bound(11, 10, clopper_pearson(1, 2)), "is not a share"),
    ],
)
def test_misfits_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(("copies", "said"), [(1, 0.035), (4, 0.13), (8, 0.23), (16, 0.39)])
def test_a_set_without_what_was_found_passes_with_a_copy_as_often_as_the_docs_say(copies: int, said: float) -> None:
    """Counted: of a detector that notices each copy with probability r, and overlooks the same ones again."""
    rng = np.random.default_rng(copies)
    share = np.linspace(0.9, 0.99, 19)
    audits = 40_000
    passes = rng.binomial(40, share[:, None], (19, audits)) >= 38
    missed = rng.binomial(copies, share[:, None], (19, audits)) < copies
    worst = (passes & missed).mean(axis=1).max()
    exact = (stats.binom.sf(37, 40, share) * (1 - share**copies)).max()
    assert abs(worst - exact) < 5 * np.sqrt(exact / audits)
    assert said - 0.01 < exact <= said
    assert f"{100 * said:g} %" in (ROOT / "docs" / "synthetic.md").read_text("utf-8").partition("what was found\n")[2]
