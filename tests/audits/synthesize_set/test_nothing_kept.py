"""A loop that keeps nothing: what it says of the auditor, of exposed patients, of its own threshold, and of the end."""

from pathlib import Path

import pytest

from memorisk.audits.synthesize.options import synthesize_options
from memorisk.audits.synthesize.verdict import loop_verdict
from memorisk.report.result import Result
from tests.audits.synthesize_set.conftest import run
from tests.audits.synthesize_set.making import HERE


@pytest.fixture(scope="module")
def nothing(place: Path) -> Result:
    """A generator of training images alone, and an auditor that was named, in ``nothing``."""
    return run(
        place, "nothing", f"{HERE}:only_copies", images=5, most_tries=2, held_out=str(place / "held"), auditor="pca:8"
    )


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
