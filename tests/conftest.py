"""Fixtures that every room's tests share."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real image sets beside the project; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the real image sets (../shared/data) are not beside this checkout")
    return SHARED
