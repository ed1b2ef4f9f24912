"""What the loop promises, and what it does not: certain copies, families, bounds."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.synthesize.options import synthesize_options
from memorisk.audits.synthesize.page import loop_page
from memorisk.audits.synthesize.plan import SynthesizePlan
from memorisk.audits.synthesize.result import LoopNumbers, LoopSummary
from memorisk.audits.synthesize.run import synthesize
from memorisk.audits.synthesize.verdict import loop_verdict
from memorisk.cli.show.common import plain_text
from memorisk.cli.show.runs import show_outcome, show_plan
from memorisk.images.alterations.families import FAMILIES, PLANTED
from memorisk.images.copies.near_copies import ORIENTATIONS
from memorisk.report.columns import percent
from memorisk.report.numbers import from_json
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from tests.audits.synthesize.conftest import run
from tests.audits.synthesize.making import HERE, N_NEW, OF, copied


def test_a_training_image_mirrored_or_turned_is_not_kept(place: Path) -> None:
    found = run(place, "turned", f"{HERE}:some_turned", images=40, batch=16)
    ledger = found.per_image
    source = np.array([copied(seed) for seed in ledger["seed"]])
    copies = ledger[source >= 0]
    assert len(copies) > 10
    assert set(copies["reason"]) == {"same pixels"}
    assert copies["nearest_group"].tolist() == [f"train{row:03d}" for row in source[source >= 0]]
    assert len(set(copies["orientation"]) & set(ORIENTATIONS)) > 4
    assert (copies["score"] < copies["threshold"]).to_numpy().any()  # the detector alone lets them pass
    assert set(ledger["orientation"][source < 0]) == {""}
    assert found.verdict["n_identical"] == len(set(source[source >= 0]))


def told(result: Result, place: Path, capsys: pytest.CaptureFixture[str], **numbers) -> tuple[dict, str, str]:
    """Verdict, terminal and page of a result some of whose numbers are others."""
    known = result.summary["numbers"] | numbers
    verdict = loop_verdict(
        from_json(LoopNumbers, known), synthesize_options({"detector": "pixels", "generator": "g:f"})
    )
    changed = replace(result, summary=result.summary | {"numbers": known}, verdict=verdict)
    show_outcome(changed, "synthesize", place / "out", as_json=False)
    return verdict, capsys.readouterr().out, render_page(loop_page(changed))


def test_a_bound_on_copies_names_what_it_is_about(made: Result, place: Path, capsys) -> None:
    verdict, out, page = told(made, place, capsys)
    most = plain_text(percent(verdict["copies"]["high"])).plain
    assert f"Copies made by noise among the kept: at most {most} (95 % limit; other kinds: not covered)" in out
    assert "Copies made by noise among the kept" in page
    assert "limit; other kinds: not covered" in page
    assert "kept copies that are made so are at most 0.0526 times the rejected images" in page
    for text in (out, page):
        assert "The guarantee does not cover other kinds of copies (" in text
        assert "on average (" not in text
        assert "Copies among the kept" not in text


def test_a_limit_of_all_kept_images_is_not_told_as_one(made: Result, place: Path, capsys) -> None:
    _, out, page = told(made, place, capsys, copies=made.verdict["copies"] | {"high": 1.0})
    for text in (out, page):
        assert "any share" in text
        assert "at most 100" not in text


def test_where_nothing_was_rejected_the_limit_alone_is_told(made: Result, place: Path, capsys) -> None:
    none = made.verdict["copies"] | {"share": 0.0, "high": 0.039, "n_rejected": 0}
    _, out, page = told(made, place, capsys, copies=none)
    assert "at most 3.9 % (95 % limit" in out
    assert "at most 0" not in out
    assert "at most 0 %" not in page
    assert "at most 3.9" in page


@pytest.mark.parametrize("unknown", [{"doubts": ["copies of others are not found"]}, {"n_train_unread": 2}])
def test_no_bound_where_training_images_are_not_known(made: Result, place: Path, capsys, unknown: dict) -> None:
    _, out, page = told(made, place, capsys, **unknown)
    assert "among the kept: at most" not in out
    assert "training images are not all known" in page
    assert "nothing bounds how many copies are kept" in page
    assert "Over all places" not in page


def test_who_does_not_calibrate_is_told_in_the_terminal(place: Path, capsys) -> None:
    found = run(place, "own", new="train", images=4)
    assert (found.verdict["n_drawn"], found.verdict["n_calibration"]) == (0, 0)
    assert "80 patients left out, named among the training patients" in found.verdict["why"]
    show_outcome(found, "synthesize", place / "own", as_json=False)
    assert "80 patients left out, named among the training patients" in capsys.readouterr().out
    shutil.copytree(place / "new", place / "one")
    shutil.copy(place / "train" / "train005_0.png", place / "one")
    one = run(place, "one-out", new="one", images=4)
    assert one.verdict["filtered"]
    show_outcome(one, "synthesize", place / "one-out", as_json=False)
    assert "Calibration: 1 patient left out, named among the training patients" in capsys.readouterr().out


def planned(place: Path, **settings) -> SynthesizePlan:
    """Plan of a loop over the folders that names no family."""
    plan = synthesize(
        place / "train", place / "planned", generator=f"{HERE}:copying", calibration=place / "new", dry_run=True,
        seed=1, **OF | {"families": (), "images": 6} | settings,
    )  # fmt: skip
    assert isinstance(plan, SynthesizePlan)
    return plan


def test_the_dry_run_shows_what_each_family_costs_as_the_run_does(place: Path, capsys) -> None:
    plan = planned(place, miss_rate=0.1)
    assert {cost.new.trials for cost in plan.costs if cost.new is not None} == {N_NEW}
    assert {cost.promised for cost in plan.costs} == {True, False}
    show_plan(plan, as_json=False)
    shown = capsys.readouterr().out
    assert shown.count("not promised") == sum(not cost.promised for cost in plan.costs)
    assert "New people left out" in " ".join(shown.split())
    assert "Synthetic images left out" not in " ".join(shown.split())  # nothing is drawn yet
    done = run(place, "default-families", families=(), miss_rate=0.1, images=6)
    assert from_json(LoopSummary, done.summary).numbers.filter.promise.costs == plan.costs


def test_where_no_family_can_be_told_the_dry_run_shows_the_costs_and_the_run_ends_in_one_line(
    place: Path, capsys
) -> None:
    plan = planned(place, miss_rate=0.075)  # people enough for whole families alone, which pixels do not tell
    assert (len(plan.costs), plan.new_rejected) == (len(FAMILIES) + len(PLANTED), None)
    assert not any(cost.promised for cost in plan.costs)
    show_plan(plan, as_json=False)
    assert "no family of copies can be distinguished from likeness" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InputError, match="give another --detector, or --families"):
        run(place, "unaffordable", families=(), miss_rate=0.075)
    assert not (place / "unaffordable").exists()


def test_where_people_are_missing_the_dry_run_shows_no_costs(place: Path) -> None:
    plan = planned(place, miss_rate=0.01)
    assert (plan.missing > 0, plan.costs) == (True, ())
