"""The bound on kept copies, held to simulated loops in which it is known who is a copy."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.pairs.regenerated_copies import regenerated_copies


def loop(rng: np.random.Generator, copying: np.ndarray, missed: np.ndarray, passing: np.ndarray, tries: int):
    """One loop over places: rejected images of each, whether it is filled, whether by a copy."""
    n = len(copying)
    rejected, filled, by_copy = np.zeros(n, int), np.zeros(n, bool), np.zeros(n, bool)
    for _ in range(tries):
        copy = rng.random(n) < copying
        passes = rng.random(n) < np.where(copy, missed, passing)
        rejected += ~filled & ~passes
        by_copy |= ~filled & passes & copy
        filled |= passes
    return rejected, filled, by_copy


@pytest.mark.parametrize(
    ("copying", "missed", "passing", "tries"),
    [
        (np.full(80, 0.3), np.full(80, 0.1), np.full(80, 1.0), 20),  # nothing else is rejected: the bound is attained
        (np.full(80, 0.3), np.full(80, 0.1), np.full(80, 0.8), 20),
        (np.repeat([0.0, 1.0], 40), np.full(80, 0.1), np.full(80, 1.0), 4),  # half of the places give only copies
        (np.linspace(0, 0.9, 80), np.full(80, 0.05), np.linspace(1, 0.5, 80), 8),
    ],
)
def test_kept_copies_are_no_more_than_the_bound_on_average(copying, missed, passing, tries) -> None:
    rng, alpha = np.random.default_rng(0), 0.1
    runs = [loop(rng, copying, missed, passing, tries) for _ in range(600)]
    kept_copies = np.array([by_copy.sum() for _, _, by_copy in runs])
    rejected = np.array([lost.sum() for lost, _, _ in runs])
    kept = np.array([filled.sum() for _, filled, _ in runs])
    slack = 3 * kept_copies.std() / np.sqrt(len(runs))
    assert kept_copies.mean() <= alpha / (1 - alpha) * rejected.mean() + slack
    found = [regenerated_copies(lost, filled, miss_rate=alpha, tries=tries) for lost, filled, _ in runs]
    true = kept_copies.mean() / kept.mean()
    assert np.mean([one.share for one in found]) >= true - 3 * slack / kept.mean()
    assert np.mean([one.high >= true for one in found]) >= 0.94
    if (passing == 1).all() and (copying == 0.3).all():
        assert kept_copies.mean() >= alpha / (1 - alpha) * rejected.mean() - slack


def test_a_place_of_copies_alone_holds_one_more_often_the_more_it_is_tried() -> None:
    ones = np.ones(4000)
    for tries in (1, 5):
        _, _, by_copy = loop(np.random.default_rng(1), ones, 0.05 * ones, ones, tries)
        bound = regenerated_copies(np.zeros(4), np.ones(4, bool), miss_rate=0.05, tries=tries).place
        assert bound == min(1.0, tries * 0.05)
        assert by_copy.mean() <= bound
        assert by_copy.mean() == pytest.approx(1 - 0.95**tries, abs=0.03)


def test_formula_by_hand_and_ends() -> None:
    found = regenerated_copies([0, 2, 1, 0], [True, True, False, True], miss_rate=0.2, tries=3)
    assert found.share == pytest.approx(0.25 * 3 / 3)
    assert found.share <= found.high <= 1
    assert (found.n_kept, found.n_rejected, found.first.successes, found.first.trials) == (3, 3, 2, 4)
    clean = regenerated_copies(np.zeros(100), np.ones(100, bool), miss_rate=0.05, tries=20)
    assert clean.share == 0
    assert 0 < clean.high < 0.01  # no rejection in a hundred places does not mean that there never is one
    nothing = regenerated_copies([5, 5], [False, False], miss_rate=0.05, tries=5)
    assert np.isnan(nothing.share)
    assert nothing.high == 1
    for bad in ({"miss_rate": 0.0}, {"tries": 0}):
        with pytest.raises(InputError):
            regenerated_copies([0], [True], **{"miss_rate": 0.05, "tries": 2} | bad)
    with pytest.raises(InputError, match="give one of each"):
        regenerated_copies([0, 1], [True], miss_rate=0.05, tries=2)
