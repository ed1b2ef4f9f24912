"""The page of a filter in a real browser: it fits, is readable, asks for nothing, and escapes every name."""

from pathlib import Path

import pytest

from memorisk.report.result import Result
from tests.audits.filter.conftest import run
from tests.report.chromium import Chromium
from tests.report.conftest import browser
from tests.report.test_page_browser import CONTRAST

__all__ = ["browser"]  # the fixture


@pytest.mark.thorough
@pytest.mark.browser
def test_it_fits_the_screen_has_contrast_and_asks_for_nothing(browser: Chromium, place: Path, filtered: Result) -> None:
    run(place, "page-few", families="copies", miss_rate=0.01)
    for name in ("out", "page-few"):
        page = place / name / "report.html"
        for width, dark in ((320, False), (1280, True)):
            browser.open(page, width=width, dark=dark)
            browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.requests() == [page.resolve().as_uri()]
            assert browser.complaints() == []
            found = browser.evaluate(CONTRAST)
            assert found["seen"] > 50
            assert found["poor"] == []


@pytest.mark.browser
def test_the_order_is_that_of_the_questions(browser: Chromium, place: Path, filtered: Result) -> None:
    browser.open(place / "out" / "report.html")
    heads = browser.evaluate("[...document.querySelectorAll('.sections h2')].map(h => h.textContent)")
    assert heads == [
        "The kept set, audited", "What is promised", "What it cost", "Whom rejected images point at", "Scores",
        "Not read",
        "What this does not say", "How it was done",
    ]  # fmt: skip
    words = browser.evaluate("document.body.innerText")
    assert "For a random copy, made by noise (0.01, 0.1), of a random new identity" in words
    assert "c0/broken.png" in words
    assert browser.evaluate("document.images.length") == 10  # each once
