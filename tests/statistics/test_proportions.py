import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals import clopper_pearson


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
