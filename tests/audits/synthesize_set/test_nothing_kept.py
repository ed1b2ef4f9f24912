"""A loop that keeps nothing: what it says of the auditor, of exposed patients, of its own threshold, and of the end."""

from pathlib import Path

import pytest

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
