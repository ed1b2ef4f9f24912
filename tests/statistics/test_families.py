"""Lists in many classes: the level over the whole audit, and what METHODS' form does instead."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.multiple_testing.families import family_lists
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg

Q = 0.05


def _null(rng, sizes):
    return [rng.random(n) for n in sizes]


def _any_listed(p, correction):
    return any(r.rejected.any() for r in family_lists(p, [np.full(len(x), 1e-9) for x in p], Q, correction).rejections)


def test_with_nothing_memorized_somebody_is_listed_in_at_most_q_of_audits():
    rng = np.random.default_rng(0)
    sizes, repeats = [5, 8, 20, 40, 100, 100, 100, 150, 150, 150], 2000
    listed = {"bh": 0, "bh-within": 0, "by": 0}
    for _ in range(repeats):
        p = _null(rng, sizes)
        for name in listed:
            listed[name] += _any_listed(p, name)
    two_sd = 2 * np.sqrt(Q * (1 - Q) / repeats)
    assert abs(listed["bh"] / repeats - Q) < two_sd  # exact for independent p-values
    assert listed["by"] / repeats < Q
    # METHODS' form: every class has its own chance of a false list
    expected = 1 - (1 - Q) ** len(sizes)
    assert abs(listed["bh-within"] / repeats - expected) < 2 * np.sqrt(expected * (1 - expected) / repeats)


def test_the_false_share_averaged_over_listed_classes_is_at_most_q():
    rng = np.random.default_rng(1)
    sizes, planted, repeats = [20, 40, 60, 100, 100, 100], [8, 0, 10, 0, 0, 0], 600
    false_share, found = [], []
    for _ in range(repeats):
        p = _null(rng, sizes)
        for values, k in zip(p, planted, strict=True):
            values[:k] = rng.beta(0.02, 1, size=k)
        lists = family_lists(p, [np.full(n, 1e-9) for n in sizes], Q).rejections
        shares = [r.rejected[k:].sum() / r.rejected.sum() for r, k in zip(lists, planted, strict=True) if r.n_rejected]
        false_share.append(np.mean(shares) if shares else 0.0)
        found.append(lists[0].rejected[:8].mean())
    assert np.mean(false_share) < Q + 2 * np.std(false_share) / np.sqrt(repeats)
    assert np.mean(found) > 0.5


def test_one_class_is_plain_benjamini_hochberg():
    rng = np.random.default_rng(2)
    p = rng.beta(0.3, 1, size=50)
    found = family_lists([p], [np.full(50, 1e-6)], Q)
    assert (found.rejections[0].rejected == benjamini_hochberg(p, Q).rejected).all()
    assert found.level[0] == Q


def test_classes_without_p_values_do_not_count():
    p = np.array([1e-4, 0.5, 0.9])
    alone = family_lists([p], [np.full(3, 1e-6)], Q)
    beside = family_lists([p, np.full(4, np.nan), np.empty(0)], [np.full(3, 1e-6), np.full(4, np.nan), np.empty(0)], Q)
    assert (beside.rejections[0].rejected == alone.rejections[0].rejected).all()
    assert list(beside.selected) == [True, False, False]
    assert beside.smallest_list[1:] == [None, None]
    with pytest.raises(InputError, match="Did you mean 'bh'"):
        family_lists([p], [p], Q, "bhh")
