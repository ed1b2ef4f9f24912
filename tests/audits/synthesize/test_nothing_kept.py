"""A loop that keeps nothing: what it says of exposed patients, of its own threshold, and of the end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memorisk.audits.filter.page import exposed_facts
from memorisk.audits.filter.result import FilterNumbers
from memorisk.audits.filter.verdict import FEWER_COPIES
from memorisk.audits.filter.wording import exposed_words
from memorisk.audits.synthesize import rounds
from memorisk.audits.synthesize.options import synthesize_options
from memorisk.audits.synthesize.plan import SynthesizePlan
from memorisk.audits.synthesize.result import LoopNumbers, LoopSummary
from memorisk.audits.synthesize.run import synthesize
from memorisk.audits.synthesize.verdict import NEARLY_ALL, empty_places, loop_verdict
from memorisk.cli.show.runs import show_outcome, show_plan
from memorisk.report.columns import booleans
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.runs.errors import MemoriskError
from tests.audits.synthesize.conftest import run
from tests.audits.synthesize.making import HERE, N_TRAIN, OF

HOPELESS = {"images": 20, "most_tries": 3, "families": ("rotation",)}


@pytest.fixture(scope="module")
def nothing(place: Path) -> Result:
    """A generator of training images alone, in ``nothing``."""
    return run(place, "nothing", f"{HERE}:only_copies", images=5, most_tries=2)


@pytest.fixture(scope="module")
def hopeless(place: Path) -> Result:
    """Some training images as they are among blends, at a threshold that takes everybody for a copy."""
    return run(place, "hopeless", f"{HERE}:some_identical", **HOPELESS)


def page_of(place: Path, out: str) -> str:
    """The report's text."""
    return (place / out / "report.html").read_text()


def numbers_of(result: Result, **changes: Any) -> FilterNumbers:
    """Those of everything drawn, some of them others."""
    return from_json(FilterNumbers, result.summary["numbers"] | changes)


def test_nothing_kept_is_undecided_and_not_called_a_missing_guarantee(nothing: Result, place: Path) -> None:
    v, page = nothing.verdict, page_of(place, "nothing")
    assert (v["status"], v["audited"], v["n_empty"]) == ("undecided", None, 5)
    assert "no set is there to audit" in v["why"][0]
    assert not (place / "nothing" / "audit").exists()
    assert v["guarantee"]
    assert "no promise" not in page
    assert "Of 5 places, 5 stayed empty" in page
    settings = synthesize_options({"detector": "pixels", "generator": "g:f", "fail_on": "never"})
    assert loop_verdict(from_json(LoopNumbers, nothing.summary["numbers"]), settings)["gate"] == "never"


def test_identical_images_and_scores_are_counted_apart(nothing: Result, hopeless: Result, place: Path) -> None:
    whose = {f"train{seed % N_TRAIN:03d}" for seed in nothing.per_image["seed"]}
    v = nothing.verdict
    assert (v["n_exposed"], v["n_identical"], v["n_by_score"]) == (len(whose), len(whose), 0)
    assert all(booleans(nothing.per_image, "singled_out"))
    assert nothing.per_group["n_singled_out"].tolist() == nothing.per_group["n_rejected"].tolist()
    v, ledger = hopeless.verdict, hopeless.per_image
    same = set(ledger["nearest_group"][ledger["reason"] == "same pixels"])
    by_score = set(ledger["nearest_group"][ledger["reason"] == "score"]) - same
    singled = set(ledger["nearest_group"][ledger["singled_out"]]) - same
    assert min(len(same), len(by_score)) > 0
    assert (v["n_identical"], v["n_by_score"], v["n_by_score_singled_out"]) == (len(same), len(by_score), len(singled))
    assert v["n_exposed"] == len(same) + len(singled) < len(hopeless.per_group)
    page = page_of(place, "hopeless")
    assert v["exposed"] in page
    assert f"for several patients are nearest to {len(by_score - singled)} more" in v["exposed"]
    assert f"expose {v['n_exposed']} patients: {len(same)} by an image" in v["exposed"]
    assert "The same threshold rejects 100" in v["exposed"]
    assert f"{len(same)} by pixels" in page
    assert "is not known" in exposed_words(numbers_of(hopeless, real_rejected=None))
    assert exposed_words(numbers_of(hopeless, n_identical=0, n_by_score=0)) == ""


def test_nobody_is_counted_twice(hopeless: Result) -> None:
    numbers = numbers_of(hopeless, n_exposed=5, n_identical=2, n_by_score=4, n_by_score_singled_out=3)
    tiles = exposed_facts(numbers)
    assert (tiles[0].value, tiles[0].note) == ("5", "2 by pixels, 3 by score")
    assert tiles[1].value == "1 patient"
    assert "5 patients: 2 by an image" in exposed_words(numbers)
    assert "for several patients are nearest to 1 more" in exposed_words(numbers)


def test_the_terminal_counts_them_apart(hopeless: Result, place: Path, capsys) -> None:
    show_outcome(hopeless, "synthesize", place / "hopeless", as_json=False)
    out, v = capsys.readouterr().out, hopeless.verdict
    others = v["n_by_score"] - v["n_by_score_singled_out"]
    assert f"Exposed patients: {v['n_exposed']} ({v['n_identical']} by pixels" in out
    assert f"Similar, not singled out: {others} patients (false alarms: 95" in out
    assert "NOTHING WAS KEPT" in out


def test_a_hopeless_threshold_is_told_and_tried_once(hopeless: Result, place: Path, monkeypatch) -> None:
    v, said = hopeless.verdict, []
    assert v["real_rejected"]["low"] >= NEARLY_ALL
    assert (v["gave_up"], v["n_drawn"], v["n_attempts"], v["status"]) == (True, 20, 1, "undecided")
    assert "Of 20 places, 20 stayed empty after 1 try: the threshold rejects 95 to 100" in page_of(place, "hopeless")
    assert not any("--most-tries" in way or FEWER_COPIES in way for way in v["what_would_decide"])
    assert len(v["what_would_decide"]) == len(set(v["what_would_decide"]))
    assert "no place was tried again" in page_of(place, "hopeless")
    monkeypatch.setattr(rounds, "BLOCK", 8)
    honest, calls, copies = rounds.screen_block, [], f"{HERE}:some_identical"

    def killed(*arguments):
        """Fail at the third block."""
        calls.append(1)
        if len(calls) == 3:
            raise MemoriskError("killed")
        return honest(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(rounds, "screen_block", killed)
        with pytest.raises(MemoriskError, match="killed"):
            run(place, "resumed", copies, batch=8, progress=lambda *call: said.append(call), **HOPELESS)
    drawing = [stage for stage, _, _ in said if stage.startswith(rounds.STAGE)]
    assert "95 to 100 % of new patients" in drawing[0]
    assert run(place, "resumed", copies, batch=8, **HOPELESS).verdict == v


def test_a_dry_run_says_that_little_will_pass(place: Path, capsys) -> None:
    how = {"calibration": str(place / "new"), "dry_run": True, "generator": f"{HERE}:some_identical"} | OF
    plan = synthesize(place / "train", place / "dry", **how | HOPELESS)
    assert isinstance(plan, SynthesizePlan)
    assert plan.new_rejected is not None
    assert plan.new_rejected.estimate == 1
    show_plan(plan, as_json=False)
    out = capsys.readouterr().out
    assert "rejected of new patients: 100.0 % (95" in out
    assert "Few images or none will pass" in out
    usual = synthesize(place / "train", place / "dry", **how)
    assert isinstance(usual, SynthesizePlan)
    assert usual.new_rejected is not None
    assert usual.new_rejected.high < NEARLY_ALL
    assert not any("will pass" in note for note in usual.notes)
    assert not (place / "dry").exists()


def test_where_some_pass_every_place_keeps_its_tries(nothing: Result, place: Path) -> None:
    assert (nothing.verdict["gave_up"], nothing.verdict["n_drawn"]) == (False, 10)  # nothing passed, new people would
    assert nothing.verdict["what_would_decide"] == [FEWER_COPIES]  # no threshold lets the very pixels pass
    numbers = from_json(LoopNumbers, nothing.summary["numbers"])
    assert f"What would fill them: {FEWER_COPIES}." in empty_places(numbers)
    by_score = replace(numbers, filter=numbers_of(nothing, rejected={"score": 10}))
    ways = loop_verdict(by_score, synthesize_options({"generator": "g:f"}))["what_would_decide"]
    assert ways[0] == FEWER_COPIES  # new people would pass: the generator copies
    assert ways[-1] == "a larger --most-tries"
    found = run(place, "some", f"{HERE}:some_far", **HOPELESS)
    some = found.verdict
    assert 0 < some["n_kept"] < 20
    assert (some["hopeless"], some["gave_up"], some["n_attempts"]) == (True, False, 3)
    told = empty_places(from_json(LoopSummary, found.summary).numbers)
    assert f"{some['n_empty']} stayed empty after 3 tries: the threshold rejects" in told
    assert "--most-tries" not in told
