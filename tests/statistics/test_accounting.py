"""The accountant against Opacus, dp-accounting, direct integration and closed forms."""

import logging
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from opacus.accountants import RDPAccountant as OpacusAccountant
from opacus.accountants.analysis import rdp as opacus_rdp
from scipy import integrate, stats

from memorisk.runs.errors import InputError
from memorisk.statistics.privacy.accounting import (
    DEFAULT_ORDERS,
    epsilon_from_rdp,
    noise_for_epsilon,
    rdp_epsilon,
    sampled_gaussian_rdp,
)
from memorisk.statistics.privacy.mixtures import renyi_divergence
from tests.thorough import thorough

GRID = [(z, q, steps) for z in (0.5, 1.0, 4.0) for q in (0.002, 0.05, 0.5, 1.0) for steps in (1, 100, 3000)]
WHOLE = [float(a) for a in range(2, 64)]


def dp_accounting_epsilon(z, q, steps, delta, orders):
    accountant = RdpAccountant(orders)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z)), steps)
    return accountant.get_epsilon(delta)


def test_default_orders_are_opacuss_and_four_more():
    assert list(DEFAULT_ORDERS[:-4]) == OpacusAccountant.DEFAULT_ALPHAS


@pytest.mark.filterwarnings("ignore:Optimal order")
@pytest.mark.parametrize("delta", [1e-5, thorough(1e-7)])
def test_epsilon_is_opacuss_at_its_own_orders_whole_and_fractional(delta):
    orders = OpacusAccountant.DEFAULT_ALPHAS
    compared = 0
    for z, q, steps in GRID:
        theirs = opacus_rdp.get_privacy_spent(
            orders=orders,
            rdp=opacus_rdp.compute_rdp(q=q, noise_multiplier=z, steps=steps, orders=orders),
            delta=delta,
        )[0]
        if math.isfinite(theirs) and theirs > 0:  # theirs gives 0 and less where total variation already bounds delta
            assert rdp_epsilon(z, q, steps, delta, orders) == pytest.approx(theirs, rel=1e-7, abs=1e-6)
            compared += 1
    assert compared >= 30


@pytest.mark.parametrize("delta", [1e-5, 1e-7])
def test_epsilon_is_dp_accountings_at_whole_orders(delta):
    for z, q, steps in GRID:
        found = rdp_epsilon(z, q, steps, delta, WHOLE)
        assert found == pytest.approx(dp_accounting_epsilon(z, q, steps, delta, WHOLE), abs=1e-3, rel=1e-9)


@pytest.mark.parametrize(
    ("z", "q", "steps"), [(1.0, 0.01, 1000), (0.8, 0.005, 2000), (1.5, 0.05, 400), (4.0, 0.1, 1000)]
)
def test_epsilon_of_usual_trainings_is_dp_accountings_at_the_default_orders(z, q, steps):
    found = rdp_epsilon(z, q, steps, 1e-5)
    assert 0.5 < found < 8
    assert found == pytest.approx(dp_accounting_epsilon(z, q, steps, 1e-5, DEFAULT_ORDERS), abs=1e-3)


def test_dp_accountings_small_fractional_orders_are_an_upper_bound_only():
    """Why whole orders are compared: it adds the absolute values of a series whose signs alternate."""
    logging.getLogger("absl").setLevel(logging.ERROR)
    found = rdp_epsilon(1.0, 0.1, 100, 1e-5)
    theirs = dp_accounting_epsilon(1.0, 0.1, 100, 1e-5, DEFAULT_ORDERS)
    assert 1e-3 < theirs - found < 0.01
    assert found == pytest.approx(rdp_epsilon(1.0, 0.1, 100, 1e-5, np.arange(1.1, 12, 0.1)), abs=1e-6)


@pytest.mark.parametrize("z", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("q", [0.003, 0.3])
@pytest.mark.parametrize("order", [1.3, 2.0, 4.7, 17.0])
def test_divergence_is_the_definitions_integral(z, q, order):
    def integrand(x):
        ratio = np.logaddexp(math.log(1 - q), math.log(q) + (2 * x - 1) / (2 * z**2))
        return math.exp(order * ratio + stats.norm.logpdf(x, 0, z))

    peaks = [0, order / 2, order]
    area = integrate.quad(integrand, -12 * z, order + 12 * z, points=peaks, limit=500, epsabs=0, epsrel=1e-12)[0]
    expected = math.log(area) / (order - 1)
    assert sampled_gaussian_rdp(z, q, [order])[0] == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("order", [2.0, 3.0, 9.0, 40.0])
@pytest.mark.parametrize("z", [0.6, 1.0, 5.0])
def test_integration_equals_the_closed_form_at_whole_orders_in_both_directions(z, order):
    q = 0.05
    mixture, alone = (np.array([0.0, 1.0]), np.array([1 - q, q])), (np.zeros(1), np.ones(1))
    closed = sampled_gaussian_rdp(z, q, [order])[0]
    assert renyi_divergence(*mixture, *alone, noise=z, order=order) == pytest.approx(closed, rel=1e-9, abs=1e-13)
    assert renyi_divergence(*alone, *mixture, noise=z, order=order) <= closed * (1 + 1e-9)


def test_without_sampling_a_step_is_the_gaussian_mechanism():
    orders = [1.5, 2.0, 10.0]
    np.testing.assert_allclose(sampled_gaussian_rdp(2.0, 1.0, orders), np.array(orders) / 8)
    np.testing.assert_array_equal(sampled_gaussian_rdp(2.0, 0.0, orders), 0)
    assert rdp_epsilon(0.0, 0.1, 10, 1e-5) == math.inf
    assert rdp_epsilon(1.0, 0.1, 0, 1e-5) == 0


def test_epsilon_is_never_below_the_exact_one():
    """One unsampled release: its exact delta at the epsilon found is at most the delta asked for."""
    for z in (0.5, 1.0, 3.0):
        epsilon = rdp_epsilon(z, 1.0, 1, 1e-5)
        exact = stats.norm.cdf(1 / (2 * z) - epsilon * z) - math.exp(epsilon) * stats.norm.cdf(
            -1 / (2 * z) - epsilon * z
        )
        assert 0 < exact <= 1e-5


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize(("q", "steps"), [(0.01, 2000), (0.25, 120)])
def test_noise_spends_epsilon_and_never_more(epsilon, q, steps):
    z = noise_for_epsilon(epsilon, 1e-5, q, steps)
    assert rdp_epsilon(z, q, steps, 1e-5) <= epsilon
    assert rdp_epsilon(z * (1 - 1.1e-4), q, steps, 1e-5) > epsilon


def test_conversion_ignores_orders_that_say_nothing():
    assert epsilon_from_rdp([2.0, 4.0], np.array([math.inf, 0.5]), 1e-5) == epsilon_from_rdp(
        [4.0], np.array([0.5]), 1e-5
    )
    assert epsilon_from_rdp([2.0], np.array([math.inf]), 1e-5) == math.inf
    assert epsilon_from_rdp([2.0], np.array([1e-12]), 1e-5) == 0  # total variation below delta


def test_without_noise_any_step_on_a_record_spends_everything():
    assert rdp_epsilon(0.0, 0.1, 10, 1e-5) == math.inf
    assert rdp_epsilon(0.0, 0.0, 10, 1e-5) == rdp_epsilon(0.0, 0.1, 0, 1e-5) == 0.0


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: rdp_epsilon(-1.0, 0.1, 10, 1e-5), "noise_multiplier"),
        (lambda: rdp_epsilon(math.nan, 0.1, 10, 1e-5), "noise_multiplier"),
        (lambda: rdp_epsilon(1.0, 1.5, 10, 1e-5), "sampling_rate"),
        (lambda: rdp_epsilon(1.0, 0.1, -1, 1e-5), "steps"),
        (lambda: rdp_epsilon(1.0, 0.1, 10, 0.0), "delta"),
        (lambda: rdp_epsilon(1.0, 0.1, 10, 1e-5, [1.0]), "orders"),
        (lambda: sampled_gaussian_rdp(0.0, 0.1, [2.0]), "noise_multiplier"),
        (lambda: epsilon_from_rdp([2.0, 3.0], np.ones(1), 1e-5), "one divergence for each order"),
        (lambda: noise_for_epsilon(0.0, 1e-5, 0.1, 10), "epsilon"),
        (lambda: noise_for_epsilon(math.inf, 1e-5, 0.1, 10), "epsilon"),
        (lambda: noise_for_epsilon(1.0, 1e-5, 0.1, 0), "steps"),
        (lambda: noise_for_epsilon(1e-3, 1e-9, 0.1, 10, [1.5]), "no noise multiplier"),
    ],
)
def test_misfits_are_refused_by_name(call, word):
    with pytest.raises(InputError, match=word):
        call()
