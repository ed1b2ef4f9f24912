"""The viewer in a real browser: a review by keys, hostile names, nothing asked of anybody else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memorisk.audits.comparison.review_files import CONFIRM, DISMISS
from memorisk.view.review import FILE, PairReview
from tests.report.chromium import Chromium
from tests.view.conftest import audited

pytestmark = pytest.mark.browser


def address(browser: Chromium) -> str:
    return str(browser.evaluate("location.pathname"))


def press(browser: Chromium, key: str, *, loads: bool = True) -> None:
    browser.press(key)
    if loads:
        browser.await_load()


def test_pairs_are_judged_by_keys_alone_and_the_audit_takes_the_review(
    browser: Chromium, serving: Callable[[Path], str], run: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    link, review = serving(run.parent), PairReview(run)
    home = link.split("/?")[0]
    asked: list[str] = []
    browser.open(link)
    assert address(browser) == "/"
    assert "token" not in browser.evaluate("location.href")
    for text in ("not ready", "Look at the pairs", "Judge the next open pair"):
        asked += browser.requests()
        click = f"[...document.links].find(link => link.textContent.includes({text!r}))?.click()"
        if text == "not ready":
            click = "document.querySelector('th a').click()"
        browser.evaluate(click)
        browser.await_load()
    assert address(browser).endswith("/pair/0")

    press(browser, "c", loads=False)  # the first answer of a session asks who judges
    assert browser.evaluate("document.getElementById('why').open")
    assert browser.evaluate("document.getElementById('reason').getClientRects().length") == 0  # a copy needs no reason
    browser.evaluate("document.getElementById('by').value = 'Dr. B'")
    press(browser, "Enter")
    assert PairReview(run).reviewer == "Dr. B"
    assert address(browser).endswith("/pair/1")
    press(browser, "u")
    assert address(browser).endswith("/pair/0")
    assert PairReview(run).progress.open == len(review)
    press(browser, "n")
    press(browser, "p")
    for place in range(len(review)):
        assert address(browser).endswith(f"/pair/{place}")
        if place == 1:
            press(browser, "c")
            continue
        press(browser, "d", loads=False)
        assert browser.evaluate("document.getElementById('why').open")
        assert browser.evaluate("document.getElementById('reason').getClientRects().length") == 1
        if not place:
            browser.evaluate("document.getElementById('reason').value = 'another person'")
        press(browser, "Enter")  # the reason and the name of the last answer stand there already
        asked += browser.requests()
    said = PairReview(run)
    assert said.progress.open == 0
    assert said.answer(1).verdict == CONFIRM
    assert {said.answer(place).reason for place in range(len(said)) if place != 1} == {"another person"}
    n = len(review.rows(1))  # of one content
    assert f"A person confirmed {n} pair{'s' * (n > 1)}" in browser.evaluate("document.body.innerText")
    assert all(url.startswith(home) for url in asked)
    assert browser.evaluate("document.title") != "hacked"

    result = audited(sets, tmp_path / "again", review=run / FILE)
    table = result.tables["review"]
    assert set(table.loc[table["verdict"] == DISMISS, "pair"]) == set(review.keys) - {review.keys[1]}


@pytest.mark.parametrize("width", [1280, 390])
def test_no_name_runs_a_script_and_every_page_fits(
    browser: Chromium, serving: Callable[[Path], str], run: Path, width: int
) -> None:
    link = serving(run.parent)
    home = link.split("/?")[0]
    browser.open(link)
    key = browser.evaluate("document.querySelector('th a').getAttribute('href')")
    for path in ("/", key, f"{key}/pairs", f"{key}/pair/0", f"{key}/pair/1", f"/compare?run={key[5:]}&run={key[5:]}"):
        browser.open(home + path, width=width)
        assert browser.evaluate("document.title") != "hacked"
        assert browser.complaints() == []
        assert {url.split("/", 3)[2] for url in browser.requests()} == {home.split("/")[2]}
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        unseen = "[...document.images].filter(i => !i.complete || !i.naturalWidth).length"
        assert browser.evaluate(unseen) == 0, path


def test_zoom_moves_all_pictures_in_step_and_the_difference_is_amplified(
    browser: Chromium, serving: Callable[[Path], str], run: Path
) -> None:
    link = serving(run.parent)
    browser.open(link)
    key = browser.evaluate("document.querySelector('th a').getAttribute('href')")
    browser.open(f"{link.split('/?')[0]}{key}/pair/0")
    press(browser, "+", loads=False)
    moved = browser.evaluate("[...new Set([...document.querySelectorAll('.pane img')].map(i => i.style.transform))]")
    assert len(moved) == 1
    assert "scale(1.5)" in moved[0]
    press(browser, "0", loads=False)
    assert "scale(1)" in browser.evaluate("document.querySelector('.pane img').style.transform")
    browser.evaluate("gain.value = 12; gain.dispatchEvent(new Event('input'))")
    assert browser.evaluate("getComputedStyle(document.getElementById('difference')).filter") == "brightness(12)"
