"""What a real browser makes of a page: nothing runs but the page's own script, and everybody can read it."""

import re

import pytest

from memorisk.report.page import render_page
from tests.audits.classifier_results import HOSTILE
from tests.report.chromium import Chromium
from tests.report.test_page import full_page
from tests.thorough import thorough

pytestmark = pytest.mark.browser

CONTRAST = """
(() => {
  const channel = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const ground = node => {
    for (let e = node; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const poor = []; let seen = 0;
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  for (let t = walker.nextNode(); t; t = walker.nextNode()) {
    const e = t.parentElement;
    if (!t.data.trim() || ["SCRIPT", "STYLE"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const ink = parse(e instanceof SVGElement ? style.fill : style.color);
    const a = light(ink), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    seen += 1;
    if (ratio < 4.5) poor.push([t.data.trim().slice(0, 30), Math.round(ratio * 100) / 100]);
  }
  return {seen, poor};
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, names in (("plain", tuple("abcdefgh")), ("hostile", HOSTILE)):
        made[name] = folder / f"{name}.html"
        made[name].write_text(render_page(full_page(names)), encoding="utf-8")
    return made


def test_hostile_names_run_nothing_and_ask_for_nothing(browser: Chromium, pages):
    browser.open(pages["hostile"])
    assert browser.evaluate("document.title").startswith("Report: <script>document.title='hacked'</script>")
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.evaluate("document.images.length") == len(HOSTILE)
    assert browser.requests() == [pages["hostile"].resolve().as_uri()]
    assert browser.complaints() == []
    handlers = "[...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(a => a.startsWith('on')))"
    assert browser.evaluate(f"{handlers}.length") == 0
    assert browser.evaluate("document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0


def test_the_policy_would_stop_a_script_that_got_in(browser: Chromium, pages, tmp_path):
    html = pages["plain"].read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    attack = "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"
    broken.write_text(html.replace("<footer>", attack + "<footer>"), encoding="utf-8")
    browser.open(broken)
    assert browser.evaluate("document.title") == "Report: a"
    assert any("Content Security Policy" in c for c in browser.complaints())


@pytest.mark.parametrize("name", ["plain", "hostile"])
@pytest.mark.parametrize("width", [320, thorough(390), thorough(820), thorough(1280)])
def test_nothing_sticks_out_sideways(browser: Chromium, pages, name, width):
    browser.open(pages[name], width=width)
    browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert browser.evaluate("innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    out = browser.evaluate(
        "[...document.querySelectorAll('p, li, dt, dd, h1, h2, h3, figure, .callout, svg')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert out == []


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_contrast(browser: Chromium, pages, dark):
    browser.open(pages["hostile"], dark=dark)
    found = browser.evaluate(CONTRAST)
    assert found["seen"] > 150
    assert found["poor"] == []
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 24, 30)" if dark else "rgb(255, 255, 255)")


def test_names_cannot_turn_the_text_around_them(browser: Chromium, pages):
    browser.open(pages["hostile"])
    directions = browser.evaluate("[...document.querySelectorAll('bdi')].map(e => getComputedStyle(e).unicodeBidi)")
    assert set(directions) == {"isolate"}
    marks = browser.evaluate("/[\\u202a-\\u202e\\u2066-\\u2069\\u200e\\u200f]/.test(document.body.textContent)")
    assert marks is False


def test_tables_sort_by_keyboard_and_say_so(browser: Chromium, pages):
    browser.open(pages["plain"])
    head = "document.querySelector('table.sortable thead').rows[0].cells[1]"
    names = "[...document.querySelector('table.sortable').tBodies[0].rows].map(r => r.cells[0].textContent).join('')"
    assert browser.evaluate(names) == "abcdefgh"
    browser.evaluate(f"{head}.querySelector('button').focus()")
    browser.press("Enter")
    assert browser.evaluate(names) == "hgfedcba"
    assert browser.evaluate(f"{head}.getAttribute('aria-sort')") == "descending"
    browser.press("Enter")
    assert browser.evaluate(names) == "abcdefgh"
    assert browser.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert browser.evaluate("document.querySelectorAll('[aria-sort]').length") == 1


def test_first_tab_leads_past_the_contents(browser: Chromium, pages):
    browser.open(pages["plain"])
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.className") == "skip"
    assert browser.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.id") == "main"
    outline = "(document.activeElement.blur(), document.querySelector('nav a').focus({focusVisible: true}), "
    assert browser.evaluate(outline + "getComputedStyle(document.activeElement).outlineStyle)") == "solid"


def test_a_first_screen_without_pictures_is_not_torn_apart(browser: Chromium, pages):
    browser.open(pages["plain"], width=1280, height=900)
    place = "document.querySelector('.lead > {}').getBoundingClientRect().{}"
    assert browser.evaluate(place.format(".facts", "top")) - browser.evaluate(place.format(".callout", "bottom")) < 60


def test_print_unfolds_and_leaves_the_contents_out(browser: Chromium, pages, tmp_path):
    browser.open(pages["plain"], media="print")
    shown = "document.querySelector('nav').getClientRects().length"
    assert browser.evaluate(shown) == 0
    folded = "[...document.querySelectorAll('details')].map(d => d.lastElementChild.getBoundingClientRect().height)"
    assert min(browser.evaluate(folded)) > 0
    # A button in a table's head would keep Chromium from repeating the head on the next sheet.
    assert browser.evaluate("getComputedStyle(document.querySelector('th button')).display") == "contents"
    browser.open(pages["plain"])
    browser.pdf(tmp_path / "page.pdf")
    data = (tmp_path / "page.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 2
    assert browser.evaluate("[...document.querySelectorAll('details')].some(d => d.open)") is False
