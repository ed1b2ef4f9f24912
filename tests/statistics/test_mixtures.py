"""Divergences of mixtures on a line against a wide, fine sum over the definition, and against closed forms."""

import math

import numpy as np
import pytest
from scipy import special, stats

from memorisk.statistics.privacy.mixtures import log_of_sum, renyi_divergence


def naive(shifts_p, weights_p, shifts_q, weights_q, noise, order):
    """The definition on a grid four times as fine and reaching further than any peak can lie."""
    reach = order * (np.abs(shifts_p).max() + np.abs(shifts_q).max()) + 30 * noise
    step = min(noise / 16, noise**2 / (4 * (4 + math.sqrt(order * max(np.ptp(shifts_p), np.ptp(shifts_q))))))
    x = np.arange(-reach, reach, step)

    def log_density(shifts, weights):
        return special.logsumexp(stats.norm.logpdf(x[:, None], shifts, noise) + np.log(weights), axis=1)

    exponent = order * log_density(shifts_p, weights_p) + (1 - order) * log_density(shifts_q, weights_q)
    return (special.logsumexp(exponent) + math.log(step)) / (order - 1)


@pytest.mark.parametrize("noise", [0.5, 1.5, 6.0])
@pytest.mark.parametrize("rate", [0.01, 0.5, 0.95])
@pytest.mark.parametrize("order", [1.05, 2.3, 11.0, 60.5])
def test_divergence_equals_the_definition_wherever_its_peaks_lie(noise, rate, order):
    alone = (np.zeros(1), np.ones(1))
    for size in (1, 4):
        counts = np.arange(size + 1.0)
        mixture = (counts, stats.binom.pmf(counts, size, rate))
        opposite = (-mixture[0], mixture[1])
        for p, q in ((mixture, alone), (alone, mixture), (mixture, opposite)):
            found = renyi_divergence(*p, *q, noise=noise, order=order)
            assert found == pytest.approx(naive(*p, *q, noise, order), rel=1e-8, abs=1e-11)


def test_single_normals_have_the_closed_form():
    for shift, noise, order in ((1.0, 0.4, 3.5), (-2.0, 1.0, 20.0), (5.0, 3.0, 1.2)):
        found = renyi_divergence(np.array([shift]), np.ones(1), np.zeros(1), np.ones(1), noise=noise, order=order)
        assert found == pytest.approx(order * shift**2 / (2 * noise**2), rel=1e-10)


def test_an_order_too_large_for_the_grid_says_nothing():
    counts = np.arange(501.0)
    weights = stats.binom.pmf(counts, 500, 0.01)
    assert renyi_divergence(counts, weights, np.zeros(1), np.ones(1), noise=1.0, order=250.0) == math.inf


def test_log_of_sum_neither_overflows_nor_loses_small_terms():
    logs = np.array([1000.0, 999.0, -2000.0])
    assert log_of_sum(logs) == pytest.approx(special.logsumexp(logs), rel=1e-15)
