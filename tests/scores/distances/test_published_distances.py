"""The published rules do what the published code does, by SciPy and NumPy alone."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from memorisk.runs.errors import InputError
from memorisk.scores.distances import PAPER_MEASURES
from memorisk.scores.distances.published_code import MAXIMISED, published_neighbours


def embeddings(n: int, m: int, d: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d))


def as_published(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The published code: cdist with its defaults, |x| by its sum for Jensen-Shannon, the largest cosine."""
    if name == "jensenshannon":
        x, y = (np.abs(t) / np.abs(t).sum(axis=1, keepdims=True) for t in (x, y))
    found = cdist(x, y, metric=name)
    return found.max(axis=1) if name in ("cosine", "correlation") else found.min(axis=1)


@pytest.mark.parametrize("name", PAPER_MEASURES)
def test_every_measure_is_the_published_one(name: str) -> None:
    x, y = embeddings(40, 30)
    found = published_neighbours(name, x, y, threads=1)
    expected = as_published(name, x, y)
    np.testing.assert_allclose(found.scores, -expected if name in MAXIMISED else expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["cosine", "correlation"])
def test_a_copy_is_not_found_by_the_largest_distance(name: str) -> None:
    _, y = embeddings(1, 200, d=16)
    found = published_neighbours(name, y + 1e-6, y, threads=1)
    assert not (found.indices == np.arange(200)).any()  # the source is the last that the rule would take
    assert (found.scores < -1).all()


@pytest.mark.parametrize("name", ["mahalanobis", "seuclidean"])
def test_the_same_pair_is_at_another_distance_in_every_call(name: str) -> None:
    x, y = embeddings(20, 20)
    alone = published_neighbours(name, x, y, threads=1).scores
    beside = published_neighbours(name, np.concatenate([x, 9 * x]), y, threads=1).scores[:20]
    assert not np.allclose(alone, beside, rtol=0.05)


def test_minkowski_is_euclidean_again() -> None:
    x, y = embeddings(30, 20)
    power, plain = (published_neighbours(name, x, y, threads=1).scores for name in ("minkowski", "euclidean"))
    np.testing.assert_allclose(power, plain, rtol=1e-12)


def test_matching_of_real_numbers_is_the_share_that_differs() -> None:
    x, y = embeddings(5, 20)
    x[0, :3] = y[7, :3]
    found = published_neighbours("matching", x, y, threads=1)
    np.testing.assert_allclose(found.scores, [0.5, 1, 1, 1, 1])
    assert found.indices[0] == 7


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = embeddings(33, 20)
    whole = published_neighbours("cosine", x, y)
    monkeypatch.setattr("memorisk.scores.distances.published_code._PAIRS", 40)
    parts = published_neighbours("cosine", x, y)
    np.testing.assert_array_equal(whole.scores, parts.scores)
    np.testing.assert_array_equal(whole.indices, parts.indices)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("mahalanobis", lambda x: np.tile(x, (1, 9)), "no inverse"),
        ("mahalanobis", lambda x: np.c_[x, x[:, 0]], "singular"),
        ("seuclidean", lambda x: np.c_[x, np.ones(len(x))], "without variance"),
        ("cosine", lambda x: x * (np.arange(len(x)) > 0)[:, None], "zero or constant"),
    ],
)
def test_what_scipy_cannot_compute_is_said(name: str, change, said: str) -> None:
    x, y = (change(table) for table in embeddings(20, 20))
    with pytest.raises(InputError, match=said):
        published_neighbours(name, x, y, threads=1)


@pytest.mark.parametrize("name", ["cosine", "correlation", "dice", "matching"])
def test_blocks_of_queries_and_references_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 3, (17, 4)) + 0.5, rng.integers(0, 3, (40, 4)) + 0.5  # many equal distances
    x[:, 0], y[:, 0] = np.arange(17), np.arange(40)[::-1]  # no constant rows
    whole = published_neighbours(name, x, y)
    monkeypatch.setattr("memorisk.scores.distances.published_code._NUMBERS", 12)  # three rows of a table
    blocks = published_neighbours(name, x, y)
    np.testing.assert_array_equal(blocks.indices, whole.indices)
    np.testing.assert_array_equal(blocks.scores, whole.scores)
