"""One small audit of the built-in digits, shared by the tests that look at what a run leaves behind."""

from pathlib import Path

import pytest

from memorisk.audits.classifier.run import audit_classifier

SMALL = {"models": 6, "epochs": 4, "processes": 1}


@pytest.fixture(scope="session")
def small_run(tmp_path_factory) -> Path:
    """A finished run folder: digits, three twin pairs, four epochs."""
    out = tmp_path_factory.mktemp("small") / "run"
    audit_classifier("digits", out=out, **SMALL)
    return out
