"""What tests of models share."""

import pytest


@pytest.fixture(autouse=True)
def _from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models without records of their files, as those from elsewhere: a test that changes a file meets its reader."""
    monkeypatch.setattr("memorisk.runs.files.write_record", lambda *_: None)
