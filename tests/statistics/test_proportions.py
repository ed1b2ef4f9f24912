import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import paired_share_difference
from memorisk.statistics.intervals.shares import clopper_pearson


def test_limits_are_scipys():
    for trials in (1, 7, 60):
        for successes in range(trials + 1):
            for level in (0.9, 0.95):
                found = clopper_pearson(successes, trials, level)
                theirs = stats.binomtest(successes, trials).proportion_ci(level, method="exact")
                np.testing.assert_allclose([found.low, found.high], [theirs.low, theirs.high], atol=1e-9)
                assert found.estimate == successes / trials


def test_coverage_is_never_below_the_level():
    """Exactly, by summing the binomial over the outcomes whose interval holds the share."""
    n = 25
    limits = [clopper_pearson(k, n) for k in range(n + 1)]
    for share in np.linspace(0.001, 0.999, 200):
        covered = sum(
            stats.binom.pmf(k, n, share) for k, found in enumerate(limits) if found.low <= share <= found.high
        )
        assert covered >= 0.95


def test_without_trials_nothing_is_known():
    found = clopper_pearson(0, 0)
    assert np.isnan(found.estimate)
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize("arguments", [(3, 2), (-1, 2), (1, 2, 95)])
def test_misfits_are_refused(arguments):
    with pytest.raises(InputError):
        clopper_pearson(*arguments)


@pytest.mark.parametrize("more", [0.0, 0.02, 0.2, 0.5])
@pytest.mark.parametrize("fewer", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("n", [5, 30])
def test_a_paired_difference_of_shares_is_covered_whatever_it_is(n: int, more: float, fewer: float) -> None:
    covered = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            chance = stats.multinomial.pmf([b, c, n - b - c], n, [more, fewer, 1 - more - fewer])
            interval = paired_share_difference(*_pairs(n, b, c))
            covered += chance * (interval.low <= more - fewer <= interval.high)
    assert covered >= 0.95


def test_a_paired_difference_is_sure_where_mcnemars_test_is() -> None:
    for b in range(0, 15):
        for c in range(0, 15):
            interval = paired_share_difference(*_pairs(40, b, c))
            p = stats.binomtest(b, b + c).pvalue if b + c else 1.0
            assert (interval.low > 0 or interval.high < 0) == (p < 0.04)
            mirrored = paired_share_difference(*_pairs(40, c, b))
            assert (interval.low, interval.high) == pytest.approx((-mirrored.high, -mirrored.low))


def test_a_paired_difference_needs_the_same_units() -> None:
    with pytest.raises(InputError, match="give the same units in one order"):
        paired_share_difference([True], [True, False])
    nothing = paired_share_difference([], [])
    assert (nothing.low, nothing.high) == (-1, 1)


def _pairs(n: int, more: int, fewer: int) -> tuple[np.ndarray, np.ndarray]:
    """Return units of which some have the property in the second run alone, some in the first alone, others in both."""
    rest = np.arange(n - more - fewer) % 2 == 0
    after = np.concatenate([np.ones(more, bool), np.zeros(fewer, bool), rest])
    before = np.concatenate([np.zeros(more, bool), np.ones(fewer, bool), rest])
    return after, before
