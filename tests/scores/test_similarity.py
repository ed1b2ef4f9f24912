"""How alike two vectors are: heads and measures give what their definitions give."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.scores import pairs
from memorisk.scores.distances import MEASURES, fit_measure, pairwise, rowwise
from memorisk.scores.pairs import check_head
from memorisk.scores.similarity import HeadSimilarity, MeasureSimilarity, Similarity


def vectors(n: int, d: int = 12, seed: int = 0, *, doubled: bool = True) -> np.ndarray:
    """Positive rows; some of them twice, so that there are ties."""
    x = np.random.default_rng(seed).random((n, d)).astype(np.float32)
    if doubled:
        x[n // 2 :: 3] = x[: len(x[n // 2 :: 3])]
    return x


def head_similarity(d: int = 12) -> HeadSimilarity:
    return HeadSimilarity(check_head(np.random.default_rng(5).normal(size=d), 0.7, d))


def all_scores(similarity: Similarity, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The naive definition."""
    if isinstance(similarity, HeadSimilarity):
        return pairs.score(u, v, similarity.head.weight, similarity.head.bias)
    assert isinstance(similarity, MeasureSimilarity)
    return -pairwise(u, v, similarity.measure)


CASES = ["head", "cosine", "cityblock", "dice"]


def make(name: str, reference: np.ndarray) -> Similarity:
    if name == "head":
        return head_similarity()
    return MeasureSimilarity(fit_measure(name, reference, binarise="median" if name == "dice" else None))


@pytest.mark.parametrize("name", CASES)
def test_row_by_row_is_the_diagonal(name: str) -> None:
    u, v = vectors(40), vectors(40, seed=1)
    similarity = make(name, v)
    assert np.array_equal(similarity.scores(u, v), np.diag(all_scores(similarity, u, v)))
    assert np.array_equal(similarity.scores(u, v), similarity.scores(v, u))


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_row_by_row(name: str) -> None:
    u, v = vectors(30), vectors(30, seed=1)
    measure = fit_measure(name, np.concatenate([u, v]), binarise="median" if name in ("dice", "matching") else None)
    assert np.array_equal(rowwise(u, v, measure), np.diag(pairwise(u, v, measure)))


@pytest.mark.parametrize("name", CASES)
def test_nearest_and_reaching_are_those_of_a_sort(name: str) -> None:
    u, v = vectors(50), vectors(70, seed=2)
    similarity = make(name, v)
    score = all_scores(similarity, u, v)
    order = np.argsort(-score, axis=1, kind="stable")[:, :4]
    found = similarity.nearest(u, v, 4)
    assert np.array_equal(found.scores, np.take_along_axis(score, order, axis=1))
    for threshold in (float(np.quantile(score, 0.9)), float(score.max()), float(score.max()) + 1, float(score.min())):
        first, second = np.nonzero(score >= threshold)
        by_score = np.lexsort((second, first, -score[first, second]))
        for limit in (None, 7):
            reached = similarity.reaching(u, v, threshold, limit=limit)
            assert reached.count == len(first)
            assert np.array_equal(reached.queries, first[by_score][:limit])
            assert np.array_equal(reached.references, second[by_score][:limit])
            assert np.array_equal(reached.scores, score[first, second][by_score][:limit])


@pytest.mark.parametrize("name", ["head", "cosine"])
def test_pairs_of_a_group_are_left_out(name: str) -> None:
    u = vectors(60)
    groups = np.arange(60) // 4
    similarity = make(name, u)
    score = all_scores(similarity, u, u)
    score[groups[:, None] == groups[None]] = -np.inf
    threshold = float(np.quantile(score[np.isfinite(score)], 0.8))
    reached = similarity.reaching(u, u, threshold, exclude_same=(groups, groups))
    assert reached.count == int((score >= threshold).sum())
    assert np.array_equal(similarity.nearest(u, u, exclude_same=(groups, groups)).scores[:, 0], score.max(axis=1))


def test_only_a_head_has_probabilities() -> None:
    assert head_similarity().at_half == 0
    assert np.isnan(make("cosine", vectors(5)).at_half)


def test_rows_that_do_not_fit_are_refused() -> None:
    similarity = head_similarity()
    with pytest.raises(InputError, match="pair by pair"):
        similarity.scores(vectors(3), vectors(4))
    with pytest.raises(InputError, match="3 rows are compared with 4"):
        make("cosine", vectors(5)).scores(vectors(3), vectors(4))
    bad = vectors(3)
    bad[1, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        similarity.scores(bad, vectors(3))
