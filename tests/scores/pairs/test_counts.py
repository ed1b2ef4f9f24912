"""Counts of a search, against searches that are counted; shards of any size merge to the same bytes."""

from typing import Any

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.scores.distances import fit_measure, nearest, neighbours
from memorisk.scores.distances.bounds import Form
from memorisk.scores.pairs import Job, search, survey
from memorisk.scores.pairs.quantization import Grid
from memorisk.scores.pairs.queries import merge
from memorisk.scores.search_cost import PairCounts, count_pairs

RNG = np.random.default_rng(0)
U, V = RNG.normal(size=(301, 24)).astype(np.float32), RNG.normal(size=(170, 24)).astype(np.float32)
WEIGHT = RNG.normal(size=24)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Sizes of tiles and of blocks that a search evaluates and makes ready."""
    found: dict[str, list[int]] = {"tiles": [], "blocks": []}
    evaluates, prepares = (search.evaluate, neighbours.evaluate), (Grid.prepare, Form.prepare)

    def tile(place: int, which: int) -> Any:
        """An evaluator that notes its tile."""

        def noted(*given: Any) -> Any:
            """One tile."""
            found["tiles"].append(given[place].size)
            return evaluates[which](*given)

        return noted

    def block(which: int) -> Any:
        """What makes a block ready, noted."""

        def noted(self: Any, rows: Any, first: int, last: int, workers: Any) -> Any:
            """One block."""
            found["blocks"].append(last - first)
            return prepares[which](self, rows, first, last, workers)

        return noted

    monkeypatch.setattr(search, "evaluate", tile(4, 0))
    monkeypatch.setattr(neighbours, "evaluate", tile(3, 1))
    monkeypatch.setattr(Grid, "prepare", block(0))
    monkeypatch.setattr(Form, "prepare", block(1))
    return found


@pytest.mark.parametrize("block", [None, 64, 150, 301])
@pytest.mark.parametrize("alone", [False, True])
def test_a_head_looks_at_what_was_counted(seen: dict[str, list[int]], block: int | None, alone: bool) -> None:
    others = None if alone else V
    found = survey(U, others, WEIGHT, 0.5, edges=[-9.0, 0.0, 9.0], k=3, block=block, threads=1)
    counted = count_pairs(len(U), None if alone else len(V), 24, head=True, block=block)
    assert counted == PairCounts(
        found.work.pairs, sum(seen["tiles"]), found.work.columns, len(seen["tiles"]), counted.first_blocks,
        len(seen["blocks"]) - counted.first_blocks,
    )  # fmt: skip
    assert counted.pairs == (301 * 150 if alone else 301 * 170)


@pytest.mark.parametrize("block", [None, 64])
def test_a_measure_looks_at_what_was_counted(seen: dict[str, list[int]], block: int | None) -> None:
    nearest(U, V, fit_measure("cityblock", V), block=block, threads=1)
    counted = count_pairs(len(U), len(V), 24, head=False, block=block)
    assert (counted.tile_pairs, counted.tiles) == (sum(seen["tiles"]), len(seen["tiles"]))
    assert counted.first_blocks + counted.second_blocks == len(seen["blocks"])
    assert counted.columns == 24 * counted.pairs == 24 * 301 * 170


def test_any_shards_merge_to_the_same_bytes() -> None:
    asked: dict[str, Any] = {"edges": [-9.0, 0.0, 9.0], "k": 4, "threshold": 1.0, "limit": 50, "threads": 1}
    for others in (None, V):
        whole = survey(U, others, WEIGHT, 0.5, **asked)
        for seed in range(4):
            cuts = np.sort(np.random.default_rng(seed).choice(np.arange(1, len(U)), size=seed + 1, replace=False))
            shards = [Job(int(a), int(b)) for a, b in zip([0, *cuts], [*cuts, len(U)], strict=True)]
            order = np.random.default_rng(seed).permutation(len(shards))
            parts = merge(survey(U, others, WEIGHT, 0.5, **asked, job=shards[i]) for i in order)
            assert [x.tobytes() for x in _arrays(parts)] == [x.tobytes() for x in _arrays(whole)]
            assert parts.work.pairs == whole.work.pairs


def _arrays(found: Any) -> list[np.ndarray]:
    """All that a survey answered."""
    pairs, top = found.pairs, found.top
    return [pairs.first, pairs.second, pairs.logit, np.array(pairs.count), top.indices, top.logits, found.counts]


def test_the_sizes_of_the_paper_and_of_a_hospital_network() -> None:
    paper = count_pairs(16_125, 13_563, 512, head=True)
    assert (paper.pairs, paper.first_blocks, paper.second_blocks) == (218_703_375, 2, 2 * 7)
    large = count_pairs(10_000_000, 10_000_000, 512, head=True)
    assert (large.pairs, large.columns) == (10**14, 512 * 10**14)
    assert (large.first_blocks, large.second_blocks) == (1221, 1221 * 4883)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(InputError, match="0 rows: give at least 1"):
        count_pairs(0, 5, 8, head=True)
    with pytest.raises(InputError, match="a measure compares two tables"):
        count_pairs(5, None, 8, head=False)
