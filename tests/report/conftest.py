"""A browser for the tests that look at pages."""

from collections.abc import Iterator

import pytest

from tests.report.chromium import Chromium, find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with Chromium(path) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def _drawn(drawn: None) -> None:
    """Pages and figures as they are."""
