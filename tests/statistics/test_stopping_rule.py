"""The error of many looks: its shares, and that a training which memorizes nothing is stopped as seldom as promised."""

from bisect import bisect_left

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.memorized_share import memorized_share
from memorisk.statistics.multiple_testing.stopping import ErrorSpending, held_out_for_limit, should_stop

M, N, DRAWN, LOOKS, NOMINAL = 150, 120, 60, 8, 0.05


def test_the_error_is_shared_and_no_more_than_shared():
    planned = ErrorSpending(0.05, 20)
    assert sum(planned.of_look(k) for k in range(1, 40)) == pytest.approx(0.05)
    assert planned.of_look(21) == 0
    open_ended = [ErrorSpending(0.05).of_look(k) for k in range(1, 2000)]
    assert 0.0499 < sum(open_ended) < 0.05
    assert open_ended == sorted(open_ended, reverse=True)
    for error, looks in ((0.0, 3), (0.6, 3), (0.05, 0)):
        with pytest.raises(InputError):
            ErrorSpending(error, looks)
    with pytest.raises(InputError, match="counted from 1"):
        planned.of_look(0)


@pytest.mark.parametrize("error", [0.05, 0.01, 0.0025])
def test_a_lower_limit_is_possible_from_so_many_held_out_patients_on(error):
    n = held_out_for_limit(NOMINAL, error)
    lows = [memorized_share(np.zeros(400), np.ones(k), nominal=NOMINAL, level=1 - 2 * error).low for k in (n - 1, n)]
    assert lows[0] == 0
    assert lows[1] > 0.9


def test_patience_asks_for_looks_in_a_row():
    assert should_stop([False, True], 1)
    assert not should_stop([True, False], 1)
    assert not should_stop([True, True, False, True], 2)
    assert should_stop([False, True, True], 2)
    assert not should_stop([True], 2)


def test_a_training_that_memorizes_nothing_is_stopped_as_seldom_as_bonferroni_says():
    """Looks depend through the same real images; the rule's counts are held to `memorized_share` itself below.

    A look of the exact test errs with the probability that its discrete law attains, so that all of them stop at most
    their sum, which lies below 0.05; the count of 1,000 may exceed it by what 1,000 draws allow and no more.
    """
    error = ErrorSpending(0.05, LOOKS).of_look(1)
    share, test = _share_rule(error), _test_rule(error)
    stopped = np.zeros((1000, 2), dtype=bool)
    for training in range(1000):
        _, looks = _training(training, copied=[0.0] * LOOKS)
        stopped[training] = [any(share(*d) for d in looks), any(test(*d) for d in looks)]
    by_share, by_test = stopped.sum(axis=0)
    attained = LOOKS * _attained(error)
    assert 0 < attained <= 0.05
    assert 0 < by_test <= stats.binom.ppf(0.999, 1000, attained)  # what cannot err proves nothing
    assert by_share <= stats.binom.ppf(0.999, 1000, 0.05)


def test_a_training_that_copies_a_share_is_stopped():
    error = ErrorSpending(0.05, LOOKS).of_look(1)
    share, test = _share_rule(error), _test_rule(error)
    stopped = []
    for training in range(40):
        _, looks = _training(training, copied=[0, 0.3, 0.6, 0.9, 0.9])
        stopped.append([any(share(*d) for d in looks), any(test(*d) for d in looks), share(*looks[0])])
    found = np.array(stopped).mean(axis=0)
    assert found[0] >= 0.95
    assert found[1] == 1
    assert found[2] <= 0.05


def test_the_counts_of_this_file_are_the_rule():
    error = ErrorSpending(0.05, LOOKS).of_look(1)
    share, test = _share_rule(error), _test_rule(error)
    said = []
    for training in range(6):
        _, looks = _training(training, copied=np.linspace(0, 0.5, LOOKS))
        for train, held in looks:
            found = memorized_share(train, held, nominal=NOMINAL, level=1 - 2 * error)
            assert share(train, held) == found.above
            assert test(train, held) == (found.p_value <= error)
            said.append(found.above)
    assert {True, False} == set(said)


def _training(seed, copied):
    """Real points of one population, and at each look the distances of both parts to newly drawn ones."""
    rng = np.random.default_rng([17, seed])
    real, looks = rng.normal(size=(M + N, 2)), []
    for share in copied:
        drawn = rng.normal(size=(DRAWN, 2))
        k = round(share * DRAWN)
        drawn[:k] = real[rng.permutation(M)[:k]]
        apart = (real**2).sum(axis=1)[:, None] - 2 * real @ drawn.T + (drawn**2).sum(axis=1)
        distance = np.sqrt(np.maximum(apart.min(axis=1), 0))
        looks.append((distance[:M], distance[M:]))
    return real, looks


def _share_rule(error):
    """The lower limit as a count: training patients before the j-th held-out one; both found by asking it."""

    def above(inside, place):
        """Whether the limit lies above the rate with so many before the held-out patient of this place."""
        train = np.r_[np.full(inside, place - 0.5), np.full(M - inside, N + 1.0)]
        return memorized_share(train, np.arange(1.0, N + 1), nominal=NOMINAL, level=1 - 2 * error).above

    count = bisect_left(range(M + 1), True, key=lambda c: above(c, 1))
    place = bisect_left(range(1, N + 1), True, key=lambda j: not above(M, j))
    return lambda train, held: int((train < np.sort(held)[place - 1]).sum()) >= count


def _attained(error):
    """The probability that the exact test of one look reaches its error, from the law of a random order itself."""
    bar = int(NOMINAL * (N + 1))
    law = stats.nhypergeom(M + N, M, bar)
    reached = law.sf(np.arange(M + 1) - 1)
    return float(reached[reached <= error].max())


def _test_rule(error):
    """The exact test as a count before the held-out patient at the bar."""
    bar = int(NOMINAL * (N + 1))

    def rejects(inside):
        """Whether so many before the bar are too many."""
        train = np.r_[np.zeros(inside), np.full(M - inside, N + 1.0)]
        return memorized_share(train, np.arange(1.0, N + 1), nominal=NOMINAL).p_value <= error

    count = bisect_left(range(M + 1), True, key=rejects)
    return lambda train, held: int((train < np.sort(held)[bar - 1]).sum()) >= count
