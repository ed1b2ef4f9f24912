"""One small audit of the built-in digits, shared by the tests that look at what a run leaves behind."""

from pathlib import Path

import pytest

from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.synthetic import analysis
from memorisk.report.figures.sheet import Sheet

SMALL = {"models": 6, "epochs": 4, "processes": 1}


@pytest.fixture(scope="session", autouse=True)
def without_second_look():
    """No second look, which would lay thousands of pairs on one another in a hundred small audits.

    `tests.audits.synthetic.test_second_look` and the commands that tests start as processes take it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "look_again", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def small_run(tmp_path_factory) -> Path:
    """A finished run folder: digits, three twin pairs, four epochs."""
    out = tmp_path_factory.mktemp("small") / "run"
    audit_classifier("digits", out=out, **SMALL)
    return out


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are not drawn to their end, for tests that read numbers or words: tests of pages draw them."""
    monkeypatch.setattr(Sheet, "svg", lambda _: "<svg></svg>")
