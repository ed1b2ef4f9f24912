"""The cut of the second look: its level on people who took no part, and people under two ids."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.alignments import alignment_cut
from memorisk.statistics.copies.tails import tail_cut


def people(rng, n, shape=1.0):
    """Similarities of chance: exponential on Fisher's scale, or with a lighter tail."""
    return np.tanh(0.2 + 0.04 * rng.exponential(size=n) ** shape)


@pytest.mark.parametrize("shape", [1.0, 0.7])
@pytest.mark.parametrize("n", [40, 200])
def test_new_people_are_beyond_the_cut_as_often_as_stated(n, shape):
    rng = np.random.default_rng(0)
    trials, runs = 500, 4000
    beyond = 0
    for _ in range(runs):
        cut = alignment_cut(people(rng, n, shape), trials, chance=0.2)
        beyond += int(cut.confirmed(people(rng, trials, shape)).sum())
    # the predictive tail is exact of an exponential; 0.2 * 4,000 = 800 are expected, correlated within a run
    assert beyond < 800 * 1.35
    if shape == 1.0:
        assert beyond > 800 * 0.65


@pytest.mark.parametrize(("n_made", "told"), [(20, 0.18), (50, 0.10), (200, 0.03), (300, 0.03)])
def test_a_generator_with_a_wider_tail_is_beyond_the_cut_as_often_as_the_docs_tell(n_made, told):
    expected, width = [], 0.04
    for seed in range(400):
        rng = np.random.default_rng([3, seed])
        held, made = rng.exponential(width, 200), rng.exponential(2 * width, min(n_made, 200))
        cut = alignment_cut(np.tanh(np.concatenate([held, made])), n_made).tail.cut
        expected.append(n_made * np.exp(-cut / (2 * width)))  # exact, of images on training images
    error = np.std(expected) / np.sqrt(len(expected))
    assert abs(np.mean(expected) - told) < 3 * error + 0.005  # docs/statistics.md, "Confirmed by alignment"; rounded


def test_people_under_two_ids_are_left_out_of_the_tail():
    rng = np.random.default_rng(1)
    null = people(rng, 200)
    plain = alignment_cut(null, 1000)
    copies = np.r_[null, np.full(8, 0.95)]
    with_copies = alignment_cut(copies, 1000)
    assert with_copies.apart == 8
    assert with_copies.similarity == pytest.approx(plain.similarity, abs=1e-12)
    many = alignment_cut(np.r_[null, np.full(60, 0.95)], 1000)  # more than can be told from a tail: the cut is beyond
    assert many.apart == 0
    assert not many.confirmed(0.95)


def test_without_outliers_it_is_the_cut_of_the_tail():
    null = people(np.random.default_rng(2), 100)
    assert alignment_cut(null, 300).tail == tail_cut(np.sort(np.arctanh(null)), 300, 0.01)


def test_few_people_allow_no_cut():
    cut = alignment_cut([0.2, 0.3, 0.25], 100)
    assert cut.similarity is None
    assert not cut.confirmed([0.99]).any()
    assert alignment_cut([], 100).similarity is None


@pytest.mark.parametrize("null", [[0.2, np.nan], [1.2], [-0.1], [[0.5]]])
def test_what_is_no_similarity_is_refused(null):
    with pytest.raises(InputError, match="lie between 0 and 1"):
        alignment_cut(null, 100)
