"""The cut of the second look: its level on people who took no part, and people under two ids."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.alignments import alignment_cut
from memorisk.statistics.copies.pairs_of_people import EXPECTED_PAIRS
from memorisk.statistics.copies.singled_out import tail_cut

SIZES = (1.0, 0.6)
"""Scales of strengths in windows of two sizes."""


def people(rng, n, shape=1.0):
    """[n, 2] strengths of chance: exponential on Fisher's scale, or with a lighter tail; sizes are not independent."""
    of_all, own = rng.exponential(size=(n, 1)), rng.exponential(size=(n, 2))
    mixed = np.where(rng.random((n, 1)) < 0.5, of_all, own)
    return np.array(SIZES) * (0.2 + 0.04 * mixed**shape)


def column(values):
    """Strengths in windows of one size."""
    return np.asarray(values, dtype=float)[:, None]


@pytest.mark.parametrize("shape", [1.0, 0.7])
@pytest.mark.parametrize("n", [40, 200])
def test_new_people_are_beyond_the_cut_at_most_as_often_as_stated(n, shape):
    rng = np.random.default_rng(0)
    trials, runs = 500, 4000
    beyond = 0
    for _ in range(runs):
        cut = alignment_cut(people(rng, n, shape), people(rng, n, shape), trials, chance=0.2)
        beyond += int(cut.confirmed(people(rng, trials, shape)).sum())
    assert beyond < 800  # 0.2 * 4,000; the larger of two cuts has fewer
    if shape == 1.0:
        assert beyond > 150  # a quarter of the stated number, less the half of people whose sizes exceed together


@pytest.mark.parametrize("wider", [0.5, 1, 2, 3])
@pytest.mark.parametrize(("n_held", "n_made"), [(60, 8), (60, 50), (200, 8), (200, 20), (200, 50), (200, 300)])
def test_a_generator_with_another_tail_is_beyond_the_cut_at_most_as_often_as_stated(wider, n_held, n_made):
    expected, width = [], 0.04
    for seed in range(200):
        rng = np.random.default_rng([3, seed])
        held, made = rng.exponential(width, n_held), rng.exponential(wider * width, min(n_made, 200))
        cut = alignment_cut(column(held), column(made), n_made).values[0]
        expected.append(n_made * np.exp(-cut / (wider * width)))  # exact, of images on training images
    assert np.mean(expected) < EXPECTED_PAIRS + 3 * np.std(expected) / np.sqrt(len(expected))


def test_few_synthetic_images_have_a_cut_from_both_parts_for_more_images():
    held, few = people(np.random.default_rng(1), 200), people(np.random.default_rng(2), 5)
    for number, size in enumerate(alignment_cut(held, few, 5).sizes):
        both = np.sort(np.r_[held[:, number], few[:, number]])
        assert size.tail == tail_cut(both, 5 * 205 / 5, EXPECTED_PAIRS / 2)
    expected = []
    for rng in map(np.random.default_rng, range(400)):
        held, made = rng.exponential(0.04, 200), rng.exponential(0.08, 5)
        expected.append(5 * np.exp(-alignment_cut(column(held), column(made), 5).values[0] / 0.08))
    assert np.mean(expected) < 0.03  # docs/statistics.md, "Confirmed by alignment"


def test_people_under_two_ids_are_left_out_of_the_tail():
    rng = np.random.default_rng(1)
    null, control = people(rng, 200), people(rng, 200)
    plain = alignment_cut(null, control, 1000)
    with_copies = alignment_cut(null, np.r_[control, np.full((8, 2), 1.8)], 1000)
    assert with_copies.apart == 8
    np.testing.assert_allclose(with_copies.values, plain.values, atol=1e-12)
    many = alignment_cut(null, np.r_[control, np.full((60, 2), 1.8)], 1000)  # more than can be told from a tail
    assert many.apart == 0
    assert not many.confirmed([1.8, 1.8])


def test_one_copy_in_a_small_control_does_not_raise_the_cut():
    rng = np.random.default_rng(3)
    null, control = people(rng, 200), people(rng, 30)
    cut = alignment_cut(null, np.r_[control, np.full((1, 2), 1.8)], 31)
    assert cut.apart == 1
    assert cut.confirmed([1.4, 0.0])
    np.testing.assert_allclose(cut.values, alignment_cut(null, control, 31).values, atol=0.1)


def test_each_size_has_the_larger_cut_of_the_tails_at_its_share_of_the_chance():
    rng = np.random.default_rng(2)
    held, control = people(rng, 100), people(rng, 50)
    cut = alignment_cut(held, control, 300)
    assert cut.chance == pytest.approx(EXPECTED_PAIRS)
    for number, size in enumerate(cut.sizes):
        parts = np.r_[held, control][:, number], control[:, number]
        cuts = [tail_cut(part, 300, EXPECTED_PAIRS / 2) for part in parts]
        assert size.tail == max(cuts, key=lambda tail: tail.cut)


def test_a_small_window_is_confirmed_by_its_own_cut():
    rng = np.random.default_rng(4)
    cut = alignment_cut(people(rng, 200), people(rng, 200), 300)
    between = cut.values.mean()
    assert cut.values[1] < between < cut.values[0]
    assert cut.confirmed([[between, 0.0], [0.0, between], [0.0, 0.0]]).tolist() == [False, True, False]


def test_few_people_allow_no_cut():
    cut = alignment_cut(column([0.2, 0.3, 0.25]), column([0.2]), 100)
    assert np.isinf(cut.values).all()
    assert not cut.confirmed([[3.0]]).any()
    nobody = np.empty((0, 1))
    assert np.isinf(alignment_cut(nobody, nobody, 100).values).all()


@pytest.mark.parametrize("null", [[[0.2], [np.nan]], [[np.inf]], [0.5], [[0.1, 0.2]]])
def test_what_is_no_table_of_strengths_is_refused(null):
    with pytest.raises(InputError, match="a column for each size"):
        alignment_cut(null, [[0.5]], 100)
    with pytest.raises(InputError, match="a column for each size"):
        alignment_cut([[0.5]], null, 100)
