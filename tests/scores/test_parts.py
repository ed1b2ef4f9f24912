"""The search by parts against its definition, and what it finds of crops and pasted regions."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.scores import parts
from memorisk.scores.parts import NO_WINDOW, PLACES, VIEWS, PartsSimilarity, fit_parts

WINDOWS, COLUMNS = 6, 12


def tables(seed=0, n=40, m=60):
    """Vectors of windows that share a mean, and some windows without details."""
    rng = np.random.default_rng(seed)
    left, right = (rng.normal(size=(size, WINDOWS, COLUMNS)) + np.arange(COLUMNS) for size in (n, m))
    for table in (left, right):
        table[rng.random(table.shape[:2]) < 0.1] = 0
    return left.astype(np.float32), right.astype(np.float32)


def opened(comparison, reference, components=8, slices=1):
    return PartsSimilarity(fit_parts(reference, components), WINDOWS, comparison, slices=slices)


def flat(table):
    return table.reshape(len(table), -1)


def by_definition(similarity, left, right):
    """[n, m] distances, window by window; of volumes the windows of a slice with those of the same slice."""
    x, y = (similarity.measure.rows(table).astype(np.float64) for table in (left, right))
    out = np.full((len(x), len(y)), NO_WINDOW)
    for i in range(len(x)):
        for j in range(len(y)):
            for w in range(WINDOWS):
                one, other = x[i, w], y[j, w]
                whole = w % similarity.slices
                if similarity.comparison == VIEWS:
                    one, other = (x[i, w], y[j, whole]) if similarity.sources_ask else (x[i, whole], y[j, w])
                if one.any() and other.any():
                    out[i, j] = min(out[i, j], np.square(one - other).sum() / 2)
    return out


@pytest.mark.parametrize("tile", [1, 100, 1 << 22])  # with as many pairs by the definition at a time
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("comparison", [PLACES, VIEWS])
@pytest.mark.parametrize("slices", [1, 3])
def test_the_search_is_that_of_the_definition(slices, comparison, turned, tile, monkeypatch):
    monkeypatch.setattr(parts, "_TILES", tile)
    monkeypatch.setattr(parts, "_LEAST_TILE", 1)
    monkeypatch.setattr(parts, "_PAIRS", tile)
    monkeypatch.setattr(parts, "_IMAGES", tile)
    left, right = tables()
    right[7] = right[3]  # a tie, which the lower row wins
    similarity = opened(comparison, np.concatenate([left, right]), slices=slices)
    similarity = similarity.reversed if turned else similarity
    true = by_definition(similarity, left, right)
    nearest = similarity.nearest(flat(left), flat(right), 4)
    order = np.argsort(true, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(nearest.rows, order)
    np.testing.assert_allclose(-nearest.scores, np.take_along_axis(true, order, 1), rtol=0, atol=1e-12)
    few = min(len(left), len(right))
    np.testing.assert_allclose(-similarity.scores(flat(left[:few]), flat(right[:few])), np.diag(true), atol=1e-12)
    threshold = -np.quantile(true, 0.05)
    reaching = similarity.reaching(flat(left), flat(right), threshold)
    pairs = set(zip(reaching.queries, reaching.references, strict=True))
    assert pairs == set(zip(*np.nonzero(-true >= threshold), strict=True))
    assert (np.diff(reaching.scores) <= 0).all()
    assert similarity.reaching(flat(left), flat(right), threshold, limit=3).count == reaching.count


@pytest.mark.parametrize("tile", [1, 100, 1 << 22])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("comparison", [PLACES, VIEWS])
def test_one_pass_answers_both_ways(comparison, turned, tile, monkeypatch):
    monkeypatch.setattr(parts, "_TILES", tile)
    monkeypatch.setattr(parts, "_LEAST_TILE", 1)
    left, right = tables()
    right[7], right[5] = right[3], 0  # a tie, and an image without details
    left[6], left[8] = 0, left[2]
    similarity = opened(comparison, np.concatenate([left, right]))
    similarity = similarity.reversed if turned else similarity
    forth, back = similarity.nearest_both_ways(flat(left), flat(right), 4)
    for one, other in ((forth, similarity.nearest(flat(left), flat(right), 4)),
                       (back, similarity.reversed.nearest(flat(right), flat(left)))):  # fmt: skip
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_array_equal(one.scores, other.scores)


def test_of_copies_the_first_window_is_enough():
    left, right = tables()
    similarity = opened(VIEWS, right)
    whole, alone = (similarity.nearest(flat(table), flat(right), 3) for table in (left, left[:, :1]))
    np.testing.assert_array_equal(whole.rows, alone.rows)
    np.testing.assert_array_equal(whole.scores, alone.scores)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 2), (700, 6), (4097, 1)])
def test_the_first_guess_of_the_kth_largest_is_never_too_high(n, k):
    tile = np.random.default_rng(n).standard_normal((20, n)).astype(np.float32)
    guess, exact = parts._kth_largest(tile, k), np.sort(tile, axis=1)[:, -k]
    assert (guess <= exact).all()
    assert ((tile >= guess[:, None]).sum(axis=1) <= 3 * k).all()


def test_pairs_of_one_group_are_left_out():
    left, right = tables()
    similarity = opened(PLACES, np.concatenate([left, right]))
    groups = np.arange(len(left)) % 3, np.arange(len(right)) % 3
    true = by_definition(similarity, left, right)
    true[groups[0][:, None] == groups[1]] = np.inf
    nearest = similarity.nearest(flat(left), flat(right), 2, exclude_same=groups)
    np.testing.assert_array_equal(nearest.rows, np.argsort(true, axis=1, kind="stable")[:, :2])
    alone = similarity.nearest(flat(left), flat(right), 2, exclude_same=(np.zeros(len(left)), np.zeros(len(right))))
    assert (alone.rows == -1).all()
    assert (alone.scores == -np.inf).all()


def test_a_copy_is_at_distance_0_and_reversing_exchanges_the_roles():
    left, right = tables()
    right[9, 3] = right[11, 2] = right[0, 0] + np.arange(COLUMNS)[::-1]
    left[4, 0] = right[9, 3]  # the whole of one shows the fourth window of the other
    left[5, 2] = right[11, 2]  # a region at its own place
    for comparison, row, source in ((VIEWS, 4, 9), (PLACES, 5, 11)):
        similarity = opened(comparison, right)
        nearest = similarity.nearest(flat(left), flat(right))
        assert (nearest.rows[row, 0], nearest.scores[row, 0]) == (source, 0)
        back = similarity.reversed.nearest(flat(right), flat(left))
        assert (back.rows[source, 0], back.scores[source, 0]) == (row, 0)
    assert opened(VIEWS, right).nearest(flat(right), flat(left)).scores[9, 0] < 0


def test_windows_without_details_are_like_no_other():
    left, right = tables()
    blank = np.zeros_like(left[:1])
    similarity = opened(PLACES, right)
    assert similarity.scores(flat(blank), flat(blank)).tolist() == [-NO_WINDOW]
    nearest = similarity.nearest(
        flat(np.repeat(blank, 3, axis=0)), flat(right), 2, exclude_same=([0, 1, 9], [0, 1] * 30)
    )
    assert (nearest.scores == -NO_WINDOW).all()
    assert nearest.rows.tolist() == [[1, 3], [0, 2], [0, 1]]


def test_components_are_the_directions_of_most_variance():
    rng = np.random.default_rng(3)
    spread = np.array([9.0, 4.0, 1.0, 0.1, 0.1, 0.1])
    table = (rng.normal(size=(500, 1, 6)) * spread + 20).astype(np.float32)
    measure = fit_parts(table, 2)
    assert measure.whitening.shape == (6, 2)
    rows = (table[:, 0] / np.linalg.norm(table[:, 0], axis=1, keepdims=True) - measure.mean) @ measure.whitening
    np.testing.assert_allclose(np.cov(rows.T), np.eye(2), atol=0.1)


def test_windows_that_are_all_alike_are_refused():
    with pytest.raises(InputError, match="all alike"):
        fit_parts(np.ones((5, 2, 3)), 2)
    with pytest.raises(InputError, match="fewer than two windows"):
        fit_parts(np.zeros((5, 2, 3)), 2)
