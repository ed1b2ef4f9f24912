"""Table 3: whose generated image is taken for whom, and what that is of strangers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memorisk.statistics.quality.retrieval_score import irs
from memorisk.studies.generators import memorization

N, HELD = 120, 80


def read(memorized: float, *, at_half: float = float("nan"), copies: bool = True) -> Any:
    """A reading: so many pairs are copies, strangers score about -5, copies about -1."""
    rng = np.random.default_rng(0)
    own = np.where(np.arange(N) < memorized * N, -1.0, -5.0) + rng.normal(0, 0.1, N)
    found = {
        "pair_score": own, "pair_row": np.arange(N), "beside_score": rng.normal(-5, 0.1, HELD),
        "beside_row": np.zeros(HELD, dtype=int), "at_half": np.array(at_half),
        "synthetic_nearest": np.arange(N) // 2, "held_nearest": np.arange(HELD),
    }  # fmt: skip
    if copies:
        found["copy_score"] = rng.normal(-1, 0.1, HELD)
    groups = np.array([f"p{i}" for i in range(N + HELD)], dtype=object)
    cell = SimpleNamespace(
        data=SimpleNamespace(groups=groups), training=SimpleNamespace(rows=np.arange(N)),
        options=SimpleNamespace(seed=0),
    )  # fmt: skip
    return SimpleNamespace(cell=cell, arrays=found, detector="d", step=1, held_groups=groups[N:])


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memorization, "named_columns", lambda cell: {"arm": "a"})


def whole(one: Any) -> Any:
    """A study of one reading."""
    return SimpleNamespace(last=[one])


def row(one: Any) -> dict[str, Any]:
    return memorization.memrate_rows(whole(one)).to_dict("records")[0]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_mem_rate_is_the_share_of_pairs_that_are_copies(share: float) -> None:
    found = row(read(share))
    assert found["mem_rate"] == pytest.approx(share, abs=0.05)
    assert found["held_rate"] == 0
    assert (found["excess_low"] > 0) == (share > 0)
    assert found["threshold"] == "misses at most 5% of weak copies"


def test_a_probability_is_its_own_threshold() -> None:
    found = row(read(0.5, at_half=-3.0, copies=False))
    assert found["threshold"] == "probability 0.5"
    assert found["mem_rate"] == 0.5


def test_without_copies_there_is_no_rate_but_a_retrieval_score() -> None:
    found = row(read(0.5, copies=False))
    assert "mem_rate" not in found or np.isnan(found["mem_rate"])
    assert found["irs_all"] == irs(N // 2, N, N).estimate


def test_retrieval_is_compared_at_the_same_number() -> None:
    found = memorization.retrieval(read(0.0))
    assert found["irs_n"] == HELD
    assert found["irs_held"] == irs(HELD, HELD, N).estimate
    assert found["irs"] < found["irs_held"]


def test_a_generator_without_pairs_is_no_row() -> None:
    one = read(0.0)
    del one.arrays["pair_score"]
    assert not len(memorization.memrate_rows(whole(one)))
