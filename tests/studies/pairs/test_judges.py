"""What is found among all pairs, against the scores of every pair by itself."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.images.store import ImageStore
from memorisk.scores.similarity import HeadSimilarity
from memorisk.studies.pairs.detectors import read_detector
from memorisk.studies.pairs.similarity import ImageSimilarity, VectorSimilarity, copies_store, open_similarity
from tests.studies.pairs.conftest import GROUPS, stored


@pytest.fixture(scope="module")
def store(people: Path) -> ImageStore:
    return stored(people, **GROUPS)


def judge_of(name: str, store: ImageStore, headed: Path) -> ImageSimilarity:
    contender = read_detector(str(headed) if name == "head" else name)
    return open_similarity(contender, store, np.arange(20), size=None, precision="auto", device="cpu")


def every_score(judge: ImageSimilarity, rows: np.ndarray) -> np.ndarray:
    """[n, n], a pair at a time."""
    a, b = np.meshgrid(rows, rows, indexing="ij")
    return judge.scores(a.ravel(), b.ravel()).reshape(len(rows), len(rows))


@pytest.mark.parametrize("name", ["mse", "ncc", "pixels:4", "small_cnn@none", "head"])
def test_the_closest_and_the_histogram_are_those_of_all_pairs(name: str, store: ImageStore, headed: Path) -> None:
    judge, rows = judge_of(name, store, headed), np.arange(5, 60)
    groups = store.manifest.groups[rows].astype(str)
    every = every_score(judge, rows)
    other = groups[:, None] != groups[None]
    closest = judge.closest(rows, groups)
    assert closest is not None
    assert np.allclose(closest, np.where(other, every, -np.inf).max(axis=1), rtol=1e-9, atol=1e-9)
    pairs = every[np.triu(other)]
    between = np.sort(pairs)
    between = (between[1:] + between[:-1])[np.diff(between) > 1e-6] / 2  # rounding moves no pair over such an edge
    edges = between[:: len(between) // 8]
    counts = judge.histogram(rows, groups, edges)
    assert np.array_equal(counts, np.histogram(pairs, edges)[0])


def test_a_head_has_its_own_half_and_similarities_are_shown_as_such(store: ImageStore, headed: Path) -> None:
    judge = judge_of("head", store, headed)
    assert isinstance(judge, VectorSimilarity)
    assert isinstance(judge.similarity, HeadSimilarity)
    assert judge.at_half == 0.0
    same = judge.scores(np.array([3]), np.array([3]))
    assert same[0] == judge.similarity.head.bias
    cosine = judge_of("small_cnn@none", store, headed)
    assert np.allclose(cosine.scores(np.arange(5), np.arange(5)), 1.0)
    assert np.isnan(cosine.at_half)


def test_a_copy_without_a_score_is_none(store: ImageStore, headed: Path) -> None:
    rows = np.array([2, 7])
    copies = np.array(store.images[rows])
    copies[0] = 255
    made = copies_store(store, copies, rows, ["white", "other"])
    for name, expected in (("ncc", [np.nan, 1.0]), ("mse", None), ("ssim", None)):
        found = judge_of(name, store, headed).copies(made, rows)
        if expected is not None:
            assert np.allclose(found, expected, equal_nan=True)
        assert np.isfinite(found[1])
    pixels = open_similarity(
        read_detector("pixels", measure="correlation"), store, rows, size=None, precision="auto", device="cpu"
    )
    assert np.allclose(pixels.copies(made, rows), [np.nan, 1.0], equal_nan=True)


def test_ssim_is_for_listed_pairs_alone(store: ImageStore, headed: Path) -> None:
    judge, rows = judge_of("ssim", store, headed), np.arange(4)
    groups = store.manifest.groups[rows].astype(str)
    assert judge.closest(rows, groups) is None
    assert judge.histogram(rows, groups, [0.0, 1.0]) is None
