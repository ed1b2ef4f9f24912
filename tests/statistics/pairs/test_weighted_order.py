"""Weighted order statistics are those of scores written out as often as they weigh."""

import numpy as np
import pytest

from memorisk.statistics.pairs.weights import lower_weighted_quantile, weight_below


@pytest.mark.parametrize("seed", range(5))
def test_whole_weights_are_repetitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score, weight = rng.normal(size=30).round(1), rng.integers(1, 6, 30)  # rounded: some scores are tied
    written_out = np.repeat(score, weight)
    found, below = weight_below(score, weight.astype(np.float64))
    assert found.tolist() == sorted(set(score.tolist()))
    np.testing.assert_allclose(below, [(written_out < t).mean() for t in found], atol=1e-12)
    for share in (0.0, 0.1, 0.5, 1.0):
        naive = max(t for t in written_out if (written_out < t).sum() <= share * len(written_out))
        assert lower_weighted_quantile(score, weight.astype(np.float64), share) == naive
