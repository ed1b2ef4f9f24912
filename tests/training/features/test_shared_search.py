"""Searches as jobs: every answer is that of one search, to the bit, ties included, whatever the blocks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memorisk.runs.arrays import npy_file_of, share_array
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.executors.placement import Placement
from memorisk.scores.distances import MEASURES, fit_measure
from memorisk.scores.pairs import check_head
from memorisk.scores.similarity import LOCAL_SEARCH, HeadSimilarity, MeasureSimilarity
from memorisk.training.features import search_jobs
from memorisk.training.features.search_jobs import DistributedSearch

D = 12
GROUPS = np.array([f"p{i}" for i in np.random.default_rng(1).integers(0, 9, 90)])


def vectors(n: int, seed: int) -> np.ndarray:
    """Positive rows on a coarse grid, a third of them twice: ties everywhere."""
    x = (np.random.default_rng(seed).integers(1, 5, (n, D)) / 4).astype(np.float32)
    x[n // 2 :: 3] = x[: len(x[n // 2 :: 3])]
    return x


U, V = vectors(90, 0), vectors(60, 3)
HEAD = check_head(np.random.default_rng(5).integers(-4, 4, D) / 2, 0.5, D)


def by_jobs(folder: Path, rows: int, **more: Any) -> DistributedSearch:
    """All in this process, block by block, however small."""
    return DistributedSearch(Placement(folders=(folder,)), folder, worth=0, rows=rows, **more)


def same(one: Any, other: Any) -> None:
    """Every array of two answers, bit for bit."""
    for name, value in vars(one).items():
        if name != "work":
            assert np.array_equal(value, getattr(other, name)), name


@pytest.mark.parametrize("name", MEASURES)
def test_neighbours_and_counts_by_every_measure(name: str, tmp_path: Path) -> None:
    binary = name in ("dice", "matching")
    measure = fit_measure(name, np.concatenate([U, V]), binarise="median" if binary else None)
    search, groups = by_jobs(tmp_path, 37), (GROUPS, GROUPS[:60])
    for exclude in (None, groups):
        same(
            search.nearest(U, V, measure, 3, exclude_same=exclude),
            LOCAL_SEARCH.nearest(U, V, measure, 3, exclude_same=exclude),
        )
    edges = [-np.inf, 0.0, 0.5, 1.0, np.inf]
    mine = search.histogram(U, V, measure, edges, exclude_same=groups)
    assert np.array_equal(mine, LOCAL_SEARCH.histogram(U, V, measure, edges, exclude_same=groups))


@pytest.mark.parametrize("rows", [7, 64])
@pytest.mark.parametrize("v", [None, V], ids=["itself", "another"])
def test_everything_that_is_asked_of_a_head(v: np.ndarray | None, rows: int, tmp_path: Path) -> None:
    groups = GROUPS if v is None else (GROUPS, GROUPS[:60])
    asked: dict[str, Any] = {"threshold": -3.0, "limit": 40, "k": 4, "edges": [-np.inf, -4, -2, 0, np.inf]}
    for exclude in (None, groups):
        mine = by_jobs(tmp_path, rows).survey(U, v, HEAD, exclude_same=exclude, **asked)
        here = LOCAL_SEARCH.survey(U, v, HEAD, exclude_same=exclude, **asked)
        same(mine.pairs, here.pairs)
        same(mine.top, here.top)
        assert np.array_equal(mine.counts, here.counts)
        assert mine.pairs is not None
        assert mine.pairs.count > 40  # more than are listed, so that the cut is the whole's


@pytest.mark.parametrize("name", ["head", "cityblock"])
def test_a_similarity_says_the_same_by_whomever_it_is_searched(name: str, tmp_path: Path) -> None:
    here: HeadSimilarity | MeasureSimilarity = (
        HeadSimilarity(HEAD) if name == "head" else MeasureSimilarity(fit_measure(name, V))
    )
    there, edges = replace(here, search=by_jobs(tmp_path, 16)), [-6.0, -3.0, -1.0, 0.5]
    same(there.nearest(U, V, 2), here.nearest(U, V, 2))
    same(there.reaching(U, V, -2.0, limit=9), here.reaching(U, V, -2.0, limit=9))
    counts = here.histogram(U, edges, exclude_same=GROUPS)
    assert np.array_equal(there.histogram(U, edges, exclude_same=GROUPS), counts)
    scores = np.concatenate([here.scores(np.repeat(U[i : i + 1], 89 - i, axis=0), U[i + 1 :]) for i in range(89)])
    apart = np.concatenate([GROUPS[i] != GROUPS[i + 1 :] for i in range(89)])
    scores = np.sort(scores[apart])
    side = "left" if name == "head" else "right"  # which edge a bin holds: the engines' own conventions
    inner = np.diff([*np.searchsorted(scores, edges[:-1], side), np.searchsorted(scores, edges[-1], "right")])
    if name != "head":
        inner = np.diff([np.searchsorted(scores, edges[0], "left"), *np.searchsorted(scores, edges[1:], "right")])
    assert np.array_equal(counts, inner)


def test_what_is_answered_is_not_asked_again_and_what_is_damaged_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, asked = fit_measure("euclidean", V), []
    real = search_jobs.distances.nearest
    monkeypatch.setattr(search_jobs.distances, "nearest", lambda *a, **k: asked.append(len(a[0])) or real(*a, **k))
    first = by_jobs(tmp_path, 30).nearest(U, V, measure)
    assert asked == [30, 30, 30]
    same(by_jobs(tmp_path, 30).nearest(U, V, measure), first)
    assert asked == [30, 30, 30]
    answer = sorted(tmp_path.glob("*.npz"))[1]
    answer.write_bytes(answer.read_bytes()[:-40])
    same(by_jobs(tmp_path, 30).nearest(U, V, measure), first)
    assert asked == [30, 30, 30, 30]
    table = share_array(tmp_path, V)
    with open(table.path, "r+b") as file:  # noqa: PTH123 - in place, as a failing disk does
        file.seek(-4, 2)
        file.write(b"\0\0\0\0")
    with pytest.raises(MemoriskError, match=r"is damaged: remove it"):
        by_jobs(tmp_path, 45).nearest(U, V, measure)


def test_small_searches_stay_here_and_bad_rows_are_named_before_anything_is_written(tmp_path: Path) -> None:
    measure, bad = fit_measure("euclidean", V), U.copy()
    DistributedSearch(Placement("dask", "tcp://127.0.0.1:1"), tmp_path).nearest(U, V, measure)
    bad[77, 3] = np.nan
    with pytest.raises(InputError, match="row 77 of the queries hold NaN"):
        by_jobs(tmp_path, 10).nearest(bad, V, measure)
    with pytest.raises(InputError, match=r"row 77 of the first vectors \(u\) hold NaN"):
        by_jobs(tmp_path, 10).survey(bad, None, HEAD, k=1)
    assert not list(tmp_path.iterdir())


def test_a_table_that_lies_on_shared_storage_is_read_where_it_is(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", U)
    table = np.load(tmp_path / "table.npy", mmap_mode="r")
    assert npy_file_of(table) == tmp_path / "table.npy"
    assert npy_file_of(table[1:]) is npy_file_of(table[::-1]) is npy_file_of(U) is npy_file_of(table[:, :3]) is None
    assert share_array(tmp_path / "not", table, [tmp_path]).path == str(tmp_path / "table.npy")
    copied = share_array(tmp_path, table[10:20], [tmp_path])
    assert np.array_equal(copied.open(), U[10:20])
    assert share_array(tmp_path, table, [tmp_path / "elsewhere"]).path != str(tmp_path / "table.npy")
