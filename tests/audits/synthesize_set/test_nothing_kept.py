"""A loop that keeps nothing: what it says of the auditor, of exposed patients, of its own threshold, and of the end."""

from pathlib import Path

import pytest

from memorisk.audits.synthesize.options import synthesize_options
from memorisk.audits.synthesize.verdict import loop_verdict
from memorisk.audits.synthesize.words import exposed
from memorisk.audits.synthetic.words import Terms
from memorisk.console_synthesize import show_loop
from memorisk.report.frames import truths
from memorisk.report.result import Result
from tests.audits.synthesize_set.conftest import run
from tests.audits.synthesize_set.making import HERE, N_TRAIN


@pytest.fixture(scope="module")
def nothing(place: Path) -> Result:
    """A generator of training images alone, and an auditor that was named, in ``nothing``."""
    return run(
        place, "nothing", f"{HERE}:only_copies", images=5, most_tries=2, held_out=str(place / "held"), auditor="pca:8"
    )


@pytest.fixture(scope="module")
def hopeless(place: Path) -> Result:
    """Some training images as they are among blends, at a threshold that takes everybody for a copy."""
    return run(place, "hopeless", f"{HERE}:some_identical", images=20, most_tries=3, families=("rotation",))


def page_of(place: Path, out: str) -> str:
    """The report's text."""
    return (place / out / "report.html").read_text()


def test_an_auditor_that_was_named_had_nothing_to_look_at(nothing: Result, place: Path) -> None:
    page = page_of(place, "nothing")
    assert nothing.verdict["audited"] is None
    assert f"Nothing was kept, so the auditor {nothing.verdict['auditor']} had nothing to look at." in page
    assert "pca" in nothing.verdict["auditor"]
    assert "No auditor was named" not in page
    assert "not asked" not in page
    run(place, "unasked", f"{HERE}:only_copies", images=2, most_tries=1)
    assert "No auditor was named" in page_of(place, "unasked")


def test_nothing_kept_is_not_called_a_missing_guarantee(nothing: Result, made: Result, place: Path) -> None:
    v, page = nothing.verdict, page_of(place, "nothing")
    assert (v["status"], v["gate"], v["n_empty"]) == ("fail", "nothing-kept", 5)
    assert v["guarantee"]
    assert "no promise" not in page
    assert "Every place was filled" not in page
    assert "Of 5 places, 5 stayed empty" in page
    assert "Not to be shared" not in page
    assert made.verdict["gate"] == "no-guarantee"
    assert "Every place was filled" in page_of(place, "out")
    numbers = nothing.summary["numbers"]
    settings = {"detector": "pixels", "generator": "g:f", "fail_on": "never"}
    assert loop_verdict(numbers, synthesize_options(settings))["gate"] == "never"
    some = loop_verdict(numbers | {"n_kept": 1}, synthesize_options(settings | {"fail_on": "no-guarantee"}))
    assert some["gate"] == "no-guarantee"


def test_identical_images_and_scores_are_counted_apart(nothing: Result, hopeless: Result, place: Path) -> None:
    whose = {f"train{seed % N_TRAIN:03d}" for seed in nothing.per_image["seed"]}
    v = nothing.verdict
    assert (v["n_exposed"], v["n_identical"], v["n_by_score"]) == (len(whose), len(whose), 0)
    assert all(truths(nothing.per_image, "singled_out"))
    assert nothing.per_group["n_singled_out"].tolist() == nothing.per_group["n_rejected"].tolist()
    v, ledger = hopeless.verdict, hopeless.per_image
    same = set(ledger["nearest_group"][ledger["reason"] == "same pixels"])
    by_score = set(ledger["nearest_group"][ledger["reason"] == "score"]) - same
    singled = set(ledger["nearest_group"][ledger["singled_out"]]) - same
    assert min(len(same), len(by_score)) > 0
    assert (v["n_identical"], v["n_by_score"], v["n_by_score_singled_out"]) == (len(same), len(by_score), len(singled))
    assert v["n_exposed"] == v["n_singled_out"] == len(same) + len(singled) < len(hopeless.per_group)
    page = page_of(place, "hopeless")
    assert v["exposed"] in page
    assert f"Only a score points at {len(by_score)} more" in v["exposed"]
    assert "who are copied nowhere, the same threshold rejects 100" in v["exposed"]
    assert f"{len(same)} by identical pixels" in page
    unknown = exposed(Terms("patients"), v | {"real_rejected": None})
    assert "is not known" in unknown
    assert exposed(Terms("patients"), v | {"n_identical": 0, "n_by_score": 0}) == ""


def test_the_terminal_counts_them_apart(hopeless: Result, place: Path, capsys) -> None:
    show_loop(hopeless, place / "hopeless", as_json=False)
    out, v = capsys.readouterr().out, hopeless.verdict
    assert f"exposed training patients: {v['n_exposed']}: {v['n_identical']} by identical pixels" in out
    assert f"only a score points: {v['n_by_score']}; the threshold rejects 100 % of new patients (95 to 100 %)" in out
    assert "NOTHING WAS KEPT" in out
