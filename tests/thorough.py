"""Parameters of a test that `make test` leaves out and `make test-all` runs."""

from typing import Any

import pytest


def thorough(*values: Any) -> Any:
    """Mark one set of parameters as a repetition of what the others show."""
    return pytest.param(*values, marks=pytest.mark.thorough)
