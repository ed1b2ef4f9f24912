"""Shares recognised, right and falsely flagged against loops; each pool's own null keeps its false flags."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import percentile_threshold, specificity_threshold
from memorisk.statistics.copies.copy_detection import Queries, corrected_pools, detect, false_flags, published_pools


def test_shares_by_loops():
    rng = np.random.default_rng(0)
    distance, source, right = rng.normal(size=60), rng.integers(0, 15, 60), rng.random(60) < 0.6
    cut = percentile_threshold(distance, 50)
    found = detect(distance, source, cut, right=right, seed=2)
    assert found.share == np.mean(distance < cut.value)
    assert found.right_share == np.mean((distance < cut.value) & right)
    assert found.recognised.trials == found.right.trials == len(np.unique(source))
    assert found.right.successes <= found.recognised.successes
    assert found.n_copies == 60
    flags = false_flags(distance, source, cut)
    assert flags.successes == sum((distance[source == s] < cut.value).any() for s in np.unique(source))
    unknown = detect(distance, source, cut)
    assert np.isnan(unknown.right_share)
    assert unknown.right.trials == 0


def test_the_interval_covers_over_sources():
    """Copies of a source stand or fall together: counted as units they would cover far less."""
    rng, repeats, covered, naive = np.random.default_rng(1), 500, 0, 0
    cut = percentile_threshold(np.linspace(-3, 3, 101), 50)
    for i in range(repeats):
        distance = (rng.normal(size=(40, 1)) + 0.3 * rng.normal(size=(40, 5))).ravel()
        found = detect(distance, np.repeat(np.arange(40), 5), cut, seed=i).recognised
        covered += found.low <= 0.5 <= found.high
        alone = detect(distance, np.arange(200), cut).recognised
        naive += alone.low <= 0.5 <= alone.high
    assert covered >= stats.binom.ppf(0.001, repeats, 0.95)
    assert naive < stats.binom.ppf(0.001, repeats, 0.95)


def pools(rng, n_train, n_validation):
    """Copies and nulls in a space in which nothing was learned: queries against n references each."""
    train, validation, new = (rng.normal(size=(n, 6)) for n in (n_train, n_validation, 200))

    def asked(queries, references, group, source=None):
        d = cdist(queries, references)
        right = None if source is None else d.argmin(1) == source
        return Queries(d.min(1), group, len(references), right)

    copies = [x + 0.5 * rng.normal(size=x.shape) for x in (train, validation)]
    return (
        asked(copies[0], train, np.arange(n_train), np.arange(n_train)),
        asked(new, train, np.arange(200)),
        asked(copies[1], validation, np.arange(n_validation), np.arange(n_validation)),
        asked(new, validation, np.arange(200)),
        asked(train, validation, np.arange(n_train)),
    )


def test_own_nulls_keep_the_level_and_the_published_threshold_does_not():
    rng, repeats = np.random.default_rng(2), 60
    own, published = [], []
    for i in range(repeats):
        train, null, validation, other, _ = pools(rng, 80, 80)
        found = corrected_pools(train, null, validation, other, seed=i)
        assert found[0].false_flags.trials == 100
        assert found[0].threshold.n_units == 100
        own.append([pool.false_flags.estimate for pool in found])
        train, null, validation, _, baseline = pools(rng, 400, 40)
        tau = published_pools(train, validation, baseline)[0].threshold
        published.append(false_flags(null.distance, null.group, tau).estimate)
        assert tau.value == np.percentile(baseline.distance, 5)
    own = np.array(own)
    errors = own.std(0) / np.sqrt(repeats)
    assert (own.mean(0) <= 0.05 + 3 * errors).all()
    assert (own.mean(0) >= 5 / 101 - 3 * errors).all()
    assert np.mean(published) > 0.05 + 3 * np.std(published) / np.sqrt(repeats)


def test_a_recognised_copy_is_not_yet_a_right_one():
    rng = np.random.default_rng(3)
    train, null, validation, other, _ = pools(rng, 80, 80)
    found = corrected_pools(train, null, validation, other, specificity=0.2)[0].detection
    assert 0 < found.right_share < found.share


def test_few_identities_flag_nothing_and_unequal_pools_are_refused():
    rng = np.random.default_rng(4)
    train, _, validation, _, _ = pools(rng, 80, 80)
    few = Queries(rng.normal(size=12), np.arange(12), 80)
    found = corrected_pools(train, few, validation, few)
    assert found[0].detection.share == 0
    assert not found[0].threshold.kept
    with pytest.raises(InputError, match="equal_pools"):
        corrected_pools(train, few, validation, Queries(few.distance, few.group, 79))
    with pytest.raises(InputError, match="one source each"):
        detect([1.0, 2.0], [1], specificity_threshold(np.arange(20.0)))
