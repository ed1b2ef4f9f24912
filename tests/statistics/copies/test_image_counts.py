"""Patients of many images among patients of few: honest sets keep their level, and copies are still seen."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from memorisk.audits.synthetic.pixel_counts import near_p
from memorisk.runs.errors import InputError
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.memorized_share import memorized_share
from memorisk.statistics.copies.reversed_queries import precedence_p, preceding_units, reversed_queries
from memorisk.statistics.exchangeability.image_numbers import image_counts
from memorisk.statistics.verdicts.levels import PREREQUISITE_LEVEL
from tests.thorough import thorough

M, N, DRAWN, SPREAD = 40, 60, 60, 0.7


def patients(counts, first=0):
    """Ids of the images of patients with so many."""
    return np.repeat(np.arange(len(counts)) + first, counts)


def distances(seed, ours, theirs, copies=0):
    """Of images of training and held-out patients to a set of new people, some of it copies of training images."""
    rng = np.random.default_rng([5, seed])
    train, held = (
        rng.normal(size=(groups.max() + 1, 2))[groups] + SPREAD * rng.normal(size=(len(groups), 2))
        for groups in (ours, theirs)
    )
    drawn = rng.normal(size=(DRAWN, 2)) * np.sqrt(1 + SPREAD**2)
    drawn[:copies] = train[rng.permutation(len(train))[:copies]]
    return [np.sqrt(((part[:, None] - drawn) ** 2).sum(-1)).min(1) for part in (train, held)]


def set_p(train, held):
    """Kolmogorov and Smirnov's one-sided p: are training patients nearer, all together?"""
    return stats.ks_2samp(train, held, alternative="greater").pvalue


def test_p_is_that_of_all_splits():
    of_train, of_held = np.array([1, 2, 2, 5, 7]), np.array([1, 1, 2, 1])
    ranks = stats.rankdata(np.concatenate([of_train, of_held]))
    sums = np.array([ranks[list(chosen)].sum() for chosen in combinations(range(9), 4)])
    seen = ranks[5:].sum()
    exact = min(1, 2 * min((sums <= seen).mean(), (sums >= seen).mean()))
    found = image_counts(patients(of_train), patients(of_held, 100))
    assert found.p_value == pytest.approx(exact, abs=0.01)
    assert (found.mean_train, found.mean_held, found.one_each, found.words) == (17 / 5, 5 / 4, False, "")
    assert found.train.tolist() == list(range(17))
    assert found.held.tolist() == list(range(5))
    assert image_counts([1, 2, 3], [4, 5]).p_value == 1
    with pytest.raises(InputError):
        image_counts([], [1])


def test_a_random_split_is_alike_but_for_one_in_a_hundred():
    rng, p = np.random.default_rng(2), []
    for seed in range(300):
        counts = rng.permutation(rng.geometric(0.3, size=60))
        p.append(image_counts(patients(counts[:40]), patients(counts[40:], 100), seed=seed).p_value)
    said = np.array(p)
    assert (said <= PREREQUISITE_LEVEL).sum() <= stats.binom.ppf(0.999, len(said), PREREQUISITE_LEVEL)
    assert 0.1 < (said <= 0.2).mean() < 0.3  # valid, and no more careful than ties make it


@pytest.mark.parametrize(("of_train", "of_held"), [(5, 1), thorough(1, 5)])
def test_unlike_numbers_count_one_image_each_drawn_by_lot(of_train, of_held):
    ours, theirs = patients([of_train] * M), patients([of_held] * N, 100)
    found = image_counts(ours, theirs)
    assert found.one_each
    assert np.array_equal(ours[found.train], np.arange(M))
    assert np.array_equal(theirs[found.held], np.arange(N) + 100)
    again, other = image_counts(ours, theirs), image_counts(ours, theirs, seed=1)
    assert np.array_equal(again.train, found.train)
    assert not np.array_equal(np.r_[other.train, other.held], np.r_[found.train, found.held])
    assert f"{of_train:.1f} images on average and held-out patients {of_held:.1f}" in found.words
    assert "as many images as training patients have" in found.words


def test_an_honest_set_keeps_its_level_where_training_patients_have_five_images():
    """By all images the same sets are called nearer far too often: what the mend is for."""
    ours, theirs, mended, plain = patients([5] * M), patients([1] * N, M), [], []
    for seed in range(200):
        train, held = distances(seed, ours, theirs)
        asked, counted = reversed_queries(train, held, ours, theirs, seed=seed), image_counts(ours, theirs, seed=seed)
        share = memorized_share(train[counted.train], held[counted.held], ours[counted.train], theirs[counted.held])
        one_each = set_p(train[counted.train], held[counted.held])
        mended.append([share.p_value <= 0.05, one_each <= 0.01, asked.p_ahead <= 0.05])
        w = group_values(train, ours)
        by_all = precedence_p(int((w < held.min()).sum()), M, N)
        plain.append([memorized_share(w, held).p_value <= 0.05, set_p(w, held) <= 0.01, by_all <= 0.05])
        assert asked.ahead == preceding_units(train, held, ours, counted).sum()
    for count, level in zip(np.sum(mended, axis=0), (0.05, 0.01, 0.05), strict=True):
        assert count <= stats.binom.ppf(0.999, 200, level)
    assert (np.mean(plain, axis=0) > (0.4, 0.9, 0.1)).all()


def test_copies_are_still_seen_by_one_image_each():
    ours, theirs, seen = patients([5] * M), patients([1] * N, M), []
    for seed in range(20):
        train, held = distances(seed, ours, theirs, copies=DRAWN)
        asked = reversed_queries(train, held, ours, theirs, seed=seed)
        counted = image_counts(ours, theirs, seed=seed)
        seen.append([asked.p_ahead <= 0.05, set_p(train[counted.train], held[counted.held]) <= 0.01])
    assert (np.mean(seen, axis=0) >= (0.9, 0.5)).all()  # 60 of 200 images are copied, and 40 of these counted
    assert near_p(8, 0, M, N) < 0.01
