"""Patients with several images and replaced records: valid, tight, monotone."""

import math

import numpy as np
import pytest
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from dp_accounting.pld import PLDAccountant
from scipy import integrate, stats

from memorisk.runs.errors import InputError
from memorisk.statistics.privacy.accounting import DEFAULT_ORDERS, epsilon_from_rdp, rdp_epsilon, sampled_gaussian_rdp
from memorisk.statistics.privacy.patient_epsilon import group_epsilon, group_privacy_epsilon, replace_one_epsilon
from tests.thorough import thorough

DELTA = 1e-5
TRAININGS = [(1.0, 0.01, 1000), (2.0, 0.1, 500), (0.7, 0.02, 200)]


def accountant(z, q, steps):
    rdp = steps * sampled_gaussian_rdp(z, q, DEFAULT_ORDERS)
    return lambda delta: epsilon_from_rdp(DEFAULT_ORDERS, rdp, delta)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_group_privacy_solves_for_delta_from_the_safe_side(size):
    """A pure Gaussian mechanism: epsilon_of is known, and the chained delta is at most, and almost, the one asked."""
    z = 8.0

    def epsilon_of(delta):
        return math.sqrt(2 * math.log(1.25 / delta)) / z

    found = group_privacy_epsilon(epsilon_of, DELTA, size)
    single = found / size
    delta = 1.25 * math.exp(-((single * z) ** 2) / 2)
    assert epsilon_of(delta) == pytest.approx(single)
    chained = sum(math.exp(j * single) for j in range(size)) * delta
    assert 0.999 * DELTA < chained <= DELTA * (1 + 1e-9)
    assert group_privacy_epsilon(epsilon_of, DELTA, 1) == epsilon_of(DELTA)


def test_group_privacy_that_no_delta_fulfils_is_infinite():
    assert group_privacy_epsilon(lambda delta: -math.log(delta), 1e-5, 3) == math.inf


@pytest.mark.parametrize("training", TRAININGS)
def test_patient_epsilon_is_the_accountants_for_one_image_and_rises_with_more(training):
    found = [group_epsilon(*training, DELTA, size) for size in range(1, 5)]
    assert found[0] == rdp_epsilon(*training, DELTA)
    assert (np.diff(found) > 0).all()
    for size, epsilon in enumerate(found, start=1):
        assert epsilon <= group_privacy_epsilon(accountant(*training), DELTA, size) * (1 + 1e-9)


@pytest.mark.parametrize(("training", "size"), [thorough((1.0, 0.02, 200), 4), ((2.0, 0.1, 100), 2)])
def test_patient_epsilon_is_above_and_near_dp_accountings_numerical_one(training, size):
    z, q, steps = training
    theirs = PLDAccountant(value_discretization_interval=1e-3)
    counts = list(range(size + 1))
    theirs.compose(MixtureOfGaussiansDpEvent(z, counts, list(stats.binom.pmf(counts, size, q))), steps)
    exact = theirs.get_epsilon(DELTA)
    assert exact < group_epsilon(*training, DELTA, size) < 1.25 * exact


@pytest.mark.parametrize("training", TRAININGS)
def test_replaced_record_costs_more_than_one_removed_and_no_more_than_two(training):
    found = replace_one_epsilon(*training, DELTA)
    assert rdp_epsilon(*training, DELTA) < found <= group_privacy_epsilon(accountant(*training), DELTA, 2) * (1 + 1e-9)


def test_without_sampling_a_replaced_record_is_twice_the_shift():
    z, steps = 10.0, 4
    assert replace_one_epsilon(z, 1.0, steps, DELTA) == pytest.approx(rdp_epsilon(z / 2, 1.0, steps, DELTA), rel=0.01)
    assert group_epsilon(z, 1.0, steps, DELTA, 3) == pytest.approx(rdp_epsilon(z / 3, 1.0, steps, DELTA), rel=0.01)


def delta_of_directions(z, q, epsilon, angle):
    """Exact delta of one step with gradient (1, 0) replaced by (cos, sin) of the angle, by integration in the plane."""
    x = np.linspace(-1 - 9 * z, 1 + 9 * z, 601)
    first, second = np.meshgrid(x, x, indexing="ij")

    def density(a, b):
        return stats.norm.pdf(first - a, scale=z) * stats.norm.pdf(second - b, scale=z)

    p = (1 - q) * density(0, 0) + q * density(1, 0)
    other = (1 - q) * density(0, 0) + q * density(math.cos(angle), math.sin(angle))
    return integrate.trapezoid(integrate.trapezoid(np.maximum(p - math.exp(epsilon) * other, 0), x), x)


def test_opposite_gradients_are_the_worst_case_of_a_replaced_record():
    for epsilon in (0.05, 0.3):
        deltas = [delta_of_directions(0.9, 0.3, epsilon, angle) for angle in (0.5, math.pi / 2, 2.5, math.pi)]
        assert (np.diff(deltas) > 0).all()


def test_replaced_record_is_safe_for_one_step():
    """The exact delta of one step at the epsilon found is at most the delta asked for."""
    z, q, delta = 0.9, 0.3, 1e-3
    epsilon = replace_one_epsilon(z, q, 1, delta)
    assert 0 < delta_of_directions(z, q, epsilon, math.pi) <= delta
    assert delta_of_directions(z, q, epsilon / 2, math.pi) > delta


def test_no_noise_and_no_steps():
    assert replace_one_epsilon(0.0, 0.1, 10, DELTA) == math.inf
    assert group_epsilon(0.0, 0.1, 10, DELTA, 3) == math.inf
    assert replace_one_epsilon(1.0, 0.1, 0, DELTA) == group_epsilon(1.0, 0.0, 10, DELTA, 3) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: group_epsilon(1.0, 0.1, 10, DELTA, 0),
        lambda: group_privacy_epsilon(lambda d: 1.0, DELTA, 0),
    ],
)
def test_groups_without_images_are_refused(call):
    with pytest.raises(InputError, match="group_size"):
        call()


def test_impossible_claims_are_refused():
    with pytest.raises(InputError, match="delta"):
        group_privacy_epsilon(lambda d: 1.0, 0.0, 2)
