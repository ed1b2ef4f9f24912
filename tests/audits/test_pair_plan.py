"""Searches on paper: 10 million by 10 million, cards, hours, refusals."""

import json
from typing import Any

import numpy as np
import pytest

from memorisk.audits.pair_plan import plan_pairs
from memorisk.audits.pair_plan_options import PairPlanOptions
from memorisk.runs.errors import InputError
from memorisk.scores.pairs import gpu, jobs, survey
from memorisk.scores.search_cost import CARDS
from tests.commands import answer

LARGE = {"synthetic": 10_000_000, "train": 10_000_000, "timing": False}


def test_ten_million_by_ten_million() -> None:
    plan = plan_pairs(PairPlanOptions(**LARGE, neighbours=10, listed=1000, bins=100, card="h200"))
    assert plan.counts.pairs == 10**14
    assert plan.operations == 2 * 512 * 10**14
    assert plan.jobs == len(list(jobs(10_000_000)))
    assert plan.input_bytes == 2 * 10**7 * 512 * 4
    assert plan.answer_bytes == 16 * 10**8 + 24 * 1000 + 8 * 100
    assert plan.hours_here is None
    assert plan.gpu is not None
    assert plan.gpu.kept
    assert plan.gpu.cards_for_memory == 1
    assert plan.gpu.hours is None
    # a subtraction and an addition a column, each at half the rate that counts a multiply-add as two
    assert plan.gpu.hours_at_peak == pytest.approx(10**14 * 512 * 2 / (67e12 / 2) / 3600)


def test_cards_share_rows_and_not_the_second_table() -> None:
    def on(card: str, cards: int = 1, measure: str = "head", **more: Any):
        """What cards of a kind take."""
        found = plan_pairs(PairPlanOptions(**{**LARGE, "card": card, "cards": cards, "measure": measure, **more})).gpu
        assert found is not None
        return found

    one, four = on("H200", share=0.25), on("H200", 4, share=0.5)
    assert (one.hours, four.hours) == (one.hours_at_peak / 0.25, four.hours_at_peak / 0.5)
    assert one.hours_at_peak == 4 * four.hours_at_peak
    small = on("A100")  # 20 GB a table, of which a card keeps what takes less than 20
    assert (small.kept, small.cards_for_memory) == (False, None)
    row = 4 * (512 + gpu.CHUNK)
    assert small.sent_again_bytes == (-(-10_000_000 // gpu.ROWS) - 1) * row * 10_000_000
    few = on("A100", train=1_000_000)
    assert few.cards_for_memory == -(-10_000_000 * row // 20_000_000_000)
    assert not few.kept
    assert on("A100", few.cards_for_memory, train=1_000_000).kept
    assert on("H100", measure="euclidean").hours_at_peak == on("H100").hours_at_peak / 2


def test_hours_here_are_those_of_a_small_search_shared_by_workers() -> None:
    plan = plan_pairs(PairPlanOptions(synthetic=16_125, train=13_563, width=32, workers=3))
    assert plan.counts.pairs == 218_703_375
    assert plan.pairs_per_second is not None
    assert plan.pairs_per_second > 0
    assert plan.hours_here == 218_703_375 / plan.pairs_per_second / 3 / 3600
    assert plan.gpu is None


def test_answers_take_the_bytes_that_were_planned() -> None:
    u = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    plan = plan_pairs(PairPlanOptions(synthetic=200, width=8, neighbours=3, listed=50, bins=4, timing=False))
    found = survey(u, None, np.ones(8), 0.0, k=3, threshold=-1e9, limit=50, edges=np.arange(5.0))
    assert found.pairs is not None
    assert found.top is not None
    assert found.counts is not None
    held = (*vars(found.pairs).values(), found.top.indices, found.top.logits, found.counts)
    assert sum(part.nbytes for part in held if isinstance(part, np.ndarray)) == plan.answer_bytes
    assert plan.input_bytes == u.nbytes
    assert plan.counts.pairs == found.work.pairs


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("plan", "pairs", "--synthetic", 10**7, "--train", 10**7, "--card", "A100", "--no-timing")
    code, out, _ = answer(capsys, *given)
    assert code == 0
    assert "pairs: 100,000,000,000,000\n" in out
    assert "no share of a card's peak was measured" in out
    assert "the second table is too large" in out
    told = json.loads(answer(capsys, *given, "--share", "0.5", "--json")[1])
    assert told["counts"]["pairs"] == 10**14
    assert told["gpu"]["hours"] == 2 * told["gpu"]["hours_at_peak"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"synthetic": 0}, "synthetic is 0"),
        ({"train": 0}, "train is 0"),
        ({"train": None, "measure": "cosine"}, "a measure compares two tables"),
        ({"measure": "cosin"}, "cosine"),
        ({"card": "H20"}, "H200"),
        ({"card": "T4", "rate": 1.0, "memory": 1.0}, "give either"),
        ({"rate": 1.0}, "give both"),
        ({"share": 0.5}, "name the card"),
        ({"card": "T4", "share": 1.5}, "between 0 and 1"),
        ({"rate": -1.0, "memory": 1.0}, "must be > 0"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan_pairs(PairPlanOptions(**{**LARGE, **settings}))


def test_every_card_is_found_by_its_name() -> None:
    for name, card in CARDS.items():
        found = PairPlanOptions(**LARGE, card=name.lower()).chosen_card
        assert found == card
