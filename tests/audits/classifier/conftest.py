"""What tests of a classifier's audit share."""

import pytest

from memorisk.report.figures import memorization as figures


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, a third of the time of a small audit: for tests that read numbers or words.

    tests/report draws them from such values, and so do the tests of whole runs and pages here.
    """
    for name in ("interval_plot", "frequency_plot", "null_against_members", "roc_log", "p_value_histogram"):
        monkeypatch.setattr(figures, name, lambda *_, **__: "<svg></svg>")
