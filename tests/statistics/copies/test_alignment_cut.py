"""The cut of the second look: its level on people who took no part, and people under two ids."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.alignments import alignment_cut
from memorisk.statistics.copies.tails import EXPECTED_PAIRS, tail_cut


def people(rng, n, shape=1.0):
    """Similarities of chance: exponential on Fisher's scale, or with a lighter tail."""
    return np.tanh(0.2 + 0.04 * rng.exponential(size=n) ** shape)


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
        assert beyond > 200  # and is no empty promise


@pytest.mark.parametrize("wider", [0.5, 1, 2, 3])
@pytest.mark.parametrize(("n_held", "n_made"), [(60, 8), (60, 50), (200, 8), (200, 20), (200, 50), (200, 300)])
def test_a_generator_with_another_tail_is_beyond_the_cut_at_most_as_often_as_stated(wider, n_held, n_made):
    expected, width = [], 0.04
    for seed in range(200):
        rng = np.random.default_rng([3, seed])
        held, made = rng.exponential(width, n_held), rng.exponential(wider * width, min(n_made, 200))
        cut = alignment_cut(np.tanh(held), np.tanh(made), n_made).tail.cut
        expected.append(n_made * np.exp(-cut / (wider * width)))  # exact, of images on training images
    assert np.mean(expected) < EXPECTED_PAIRS + 3 * np.std(expected) / np.sqrt(len(expected))


def test_few_synthetic_images_have_a_cut_from_both_parts_for_more_images():
    held, few = people(np.random.default_rng(1), 200), people(np.random.default_rng(2), 5)
    both = np.sort(np.arctanh(np.r_[held, few]))
    assert alignment_cut(held, few, 5).tail == tail_cut(both, 5 * 205 / 5, EXPECTED_PAIRS)
    expected = []
    for rng in map(np.random.default_rng, range(400)):
        held, made = rng.exponential(0.04, 200), rng.exponential(0.08, 5)
        expected.append(5 * np.exp(-alignment_cut(np.tanh(held), np.tanh(made), 5).tail.cut / 0.08))
    assert np.mean(expected) < 0.03  # docs/statistics.md, "Confirmed by alignment"


def test_people_under_two_ids_are_left_out_of_the_tail():
    rng = np.random.default_rng(1)
    null, control = people(rng, 200), people(rng, 200)
    plain = alignment_cut(null, control, 1000)
    copies = np.r_[control, np.full(8, 0.95)]
    with_copies = alignment_cut(null, copies, 1000)
    assert with_copies.apart == 8
    assert with_copies.similarity == pytest.approx(plain.similarity, abs=1e-12)
    many = alignment_cut(null, np.r_[control, np.full(60, 0.95)], 1000)  # more than can be told from a tail
    assert many.apart == 0
    assert not many.confirmed(0.95)


def test_one_copy_in_a_small_control_does_not_raise_the_cut():
    rng = np.random.default_rng(3)
    null, control = people(rng, 200), people(rng, 30)
    found = alignment_cut(null, np.r_[control, 0.95], 31)
    assert found.apart == 1
    assert found.confirmed(0.9)
    assert found.similarity == pytest.approx(alignment_cut(null, control, 31).similarity, abs=0.01)


def test_without_outliers_it_is_the_larger_cut_of_the_tails():
    rng = np.random.default_rng(2)
    held, control = people(rng, 100), people(rng, 50)
    cuts = [tail_cut(np.sort(np.arctanh(part)), 300, EXPECTED_PAIRS) for part in (np.r_[held, control], control)]
    assert alignment_cut(held, control, 300).tail == max(cuts, key=lambda tail: tail.cut)


def test_few_people_allow_no_cut():
    cut = alignment_cut([0.2, 0.3, 0.25], [0.2], 100)
    assert cut.similarity is None
    assert not cut.confirmed([0.99]).any()
    assert alignment_cut([], [], 100).similarity is None


@pytest.mark.parametrize("null", [[0.2, np.nan], [1.2], [-0.1], [[0.5]]])
def test_what_is_no_similarity_is_refused(null):
    with pytest.raises(InputError, match="lie between 0 and 1"):
        alignment_cut(null, [0.5], 100)
    with pytest.raises(InputError, match="lie between 0 and 1"):
        alignment_cut([0.5], null, 100)
