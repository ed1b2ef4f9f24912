"""The memorized share: held to its definition, to simulated coverage, and to permutations."""

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.memorized_share import can_show_memorization, memorized_share
from memorisk.statistics.copies.reversed_queries import reversed_queries
from tests.thorough import thorough


def test_it_is_what_uncorrected_p_values_flag():
    rng = np.random.default_rng(0)
    for _ in range(20):
        train, held = rng.normal(size=80), rng.normal(size=rng.integers(20, 90))
        found = memorized_share(train, held, nominal=0.1)
        p = reversed_queries(train, held, sizes="any").p_value
        assert found.estimate == pytest.approx((p <= 0.1).mean())
        np.testing.assert_array_equal(found.flagged, np.flatnonzero(p <= 0.1))


@pytest.mark.parametrize(("m", "n"), [(1, 200), (2, 200), (60, 19), (60, 85), (60, 86), (400, 90)])
def test_what_can_be_shown_is_what_a_set_of_copies_shows(m, n):
    everyone = memorized_share(np.zeros(m), np.ones(n))
    assert can_show_memorization(m, n) == (everyone.low > everyone.attained)


def test_a_patient_counts_once_by_the_nearest_image():
    found = memorized_share(
        [0.5, 9.0, 9.0, 9.0], np.arange(1.0, 40.0), ["b", "b", "a", "a"], [f"h{i}" for i in range(39)]
    )
    assert (found.n_train, found.estimate, found.flagged.tolist()) == (2, 0.5, ["b"])


@pytest.mark.parametrize("copied", [thorough(0.0), 0.1, thorough(0.9)])
def test_the_interval_covers(copied):
    """W of a copied patient is a tenth of a new one's; the true share is known."""
    rng, draws, nominal = np.random.default_rng(1), 1000, 0.05
    quantile = stats.gamma.ppf(nominal, 8)
    truth = (1 - copied) * nominal + copied * stats.gamma.cdf(10 * quantile, 8)
    inside = 0
    for _ in range(draws):
        train = rng.gamma(8, size=100) / np.where(rng.random(100) < copied, 10, 1)
        found = memorized_share(train, rng.gamma(8, size=60), nominal=nominal)
        inside += found.low <= truth <= found.high
    assert inside / draws >= 0.95


def test_the_p_value_is_that_of_all_orders():
    rng = np.random.default_rng(2)
    train, held = rng.normal(-0.3, size=30), rng.normal(size=24)
    found = memorized_share(train, held, nominal=0.08)
    both, counts = np.concatenate([train, held]), []
    for _ in range(20_000):
        order = rng.permutation(both)
        counts.append((order[:30] < np.sort(order[30:])[1]).sum())
    seen = np.mean(np.array(counts) >= len(found.flagged))
    assert abs(found.p_value - seen) <= 4 * np.sqrt(seen * (1 - seen) / len(counts))


def test_the_null_keeps_its_level():
    rng = np.random.default_rng(3)
    p = np.array([memorized_share(rng.normal(size=50), rng.normal(size=40)).p_value for _ in range(2000)])
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / len(p))


def test_too_few_held_out_patients_give_no_share():
    found = memorized_share([0.1, 0.2], range(1, 19))
    assert np.isnan(found.estimate)
    assert (found.low, found.high, found.p_value, found.above) == (0.0, 1.0, 1.0, False)
    assert "at least 19" in found.words


def test_ties_count_against_the_patient():
    assert memorized_share(np.ones(50), np.ones(50)).estimate == 0


@pytest.mark.parametrize(
    ("train", "held", "more", "said"),
    [
        ([np.nan], [1.0], {}, "finite"),
        ([1.0], [1.0], {"nominal": 0.0}, "nominal"),
        ([1.0], [1.0], {"train_group": ["a"], "held_group": ["a"]}, "split by patient"),
        ([1.0], [1.0], {"train_group": ["a", "b"]}, "do not fit"),
    ],
)
def test_what_is_no_question_is_refused(train, held, more, said):
    with pytest.raises(InputError, match=said):
        memorized_share(train, held, **more)
