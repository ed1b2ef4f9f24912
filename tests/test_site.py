"""The documentation site: every page is found, every link leads somewhere, and nothing is fetched from elsewhere."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from cyclopts import App

from memorisk import _PUBLIC
from memorisk.audits.feature import page as feature_page
from memorisk.audits.filter import wording as filter_words
from memorisk.cli.program import app
from memorisk.report.kinds import KINDS
from memorisk.report.statements.statement import run_headline
from tests.commands import refusal
from tests.report.chromium import Chromium
from tests.report.conftest import browser

__all__ = ["browser"]

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
each_page = pytest.mark.parametrize(
    "page", [ROOT / "README.md", *PAGES, *NOTEBOOKS], ids=lambda page: page.relative_to(ROOT).as_posix()
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_FETCHING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
HEADLINES = (
    feature_page.FOUND,
    filter_words.NO_THRESHOLD,
    *(run_headline(status, audit) for status in ("pass", "fail", "undecided") for audit in KINDS),
)
"""Words of every verdict."""
_NOT_FETCHED = {"canonical", "prev", "next"}


def pages_of(nav: Any) -> Iterator[str]:
    """The pages of a navigation, in their order."""
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from pages_of(entry)


def commands_of(app: App, before: str = "memorisk") -> Iterator[str]:
    """Every command as it is typed."""
    for name in app:
        if not name.startswith("-"):
            inner = [*commands_of(app[name], f"{before} {name}")]
            yield from inner or [f"{before} {name}"]


class Fetched(HTMLParser):
    """Addresses that a browser asks for by itself when it opens a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _FETCHING and given.get("rel") not in _NOT_FETCHED:
            self.found.append(given.get(_FETCHING[tag]) or "")


def is_elsewhere(address: str) -> bool:
    return bool(re.match(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", address, re.IGNORECASE))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    for library in ("mkdocs", "material", "mkdocstrings", "nbconvert"):
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("site")
    asked = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        asked, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_stands_in_the_navigation_once() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    results = [page for page in PAGES if page.parent.name == "results" and page.name != "index.md"]
    shown = [page for page in (*PAGES, *NOTEBOOKS) if page not in results]
    assert sorted(pages_of(nav)) == sorted(page.relative_to(DOCS).as_posix() for page in shown)
    listed = _LINK.findall((DOCS / "results" / "index.md").read_text("utf-8"))
    assert sorted(listed) == sorted(page.name for page in results)


def text_of(page: Path) -> str:
    """What a page says besides code; of a notebook its cells of text."""
    written = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(written)["cells"]
        written = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return _CODE.sub("", written)


@each_page
def test_relative_links_lead_to_files(page: Path) -> None:
    text = text_of(page)
    targets = [link.partition("#")[0] for link in _LINK.findall(text) if not is_elsewhere(link)]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@each_page
def test_links_into_pages_lead_to_headings(page: Path) -> None:
    text = text_of(page)
    for link in _LINK.findall(text):
        target, _, anchor = link.partition("#")
        place = page if not target else page.parent / target
        if anchor and not is_elsewhere(link) and place.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", place.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
            assert anchor in slugs, link


def test_the_start_page_names_every_command() -> None:
    said = (DOCS / "index.md").read_text("utf-8")
    commands = [*commands_of(app)]
    assert "memorisk audit classifier" in commands
    assert [command for command in commands if not re.search(rf"`{command}[ `]", said)] == []


def test_commands_of_the_start_page_lack_only_what_they_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is refused for a file or folder in capitals, and for nothing else: its flags are right and enough."""
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"`(memorisk [^`]+)`", (DOCS / "index.md").read_text("utf-8"))
    commands = [command for command in commands if re.search(r"\b[A-Z]{3,}\b", command)]
    assert len(commands) > 20
    for command in commands:
        line = refusal(capsys, *shlex.split(command)[1:])
        assert set(re.findall(r"\b[A-Z]{3,}\b", command)) & set(re.findall(r"\b[A-Z]{3,}\b", line)), (command, line)
    assert [*tmp_path.iterdir()] == []


def test_the_reference_shows_every_public_name() -> None:
    shown = re.findall(r"^::: (\S+)$", (DOCS / "reference.md").read_text("utf-8"), re.MULTILINE)
    assert {f"{module}.{name}" for name, module in _PUBLIC.items()} <= set(shown)
    assert len(shown) == len(set(shown))


def headings_of_reports() -> set[str]:
    """Titles of sections and of verdicts in the reports, as a reader sees them."""
    found = set()
    for file in (file for room in ("audits", "studies") for file in (ROOT / "src" / "memorisk" / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Section" and node.args:
                title = ast.unparse(node.args[0])
                title = re.sub(
                    r"\{[\w.]*units\}", "patients", re.sub(r"\{[\w.]*units\.capitalize\(\)\}", "Patients", title)
                )
                found |= {ast.literal_eval(title.removeprefix("f"))} if title[0] in "f'\"" else set()
    for file in (ROOT / "src" / "memorisk" / "studies").rglob("*.yaml"):
        page = yaml.safe_load(file.read_text("utf-8")).get("page") or {}
        found |= {section["title"] for section in page.get("sections", ())}
    return found | set(HEADLINES)


@pytest.mark.thorough
def test_the_page_on_reading_reports_names_every_section_and_verdict() -> None:
    said = " ".join((DOCS / "report.md").read_text("utf-8").split())
    named = headings_of_reports()
    assert len(named) > 80
    assert [title for title in named if title not in said] == []


def test_every_verdict_has_an_entry_among_wrong_conclusions() -> None:
    said = " ".join((DOCS / "wrong-conclusions.md").read_text("utf-8").split())
    assert [verdict for verdict in HEADLINES if verdict not in said] == []


def test_every_heading_on_that_page_is_one_of_a_report() -> None:
    text = (DOCS / "report.md").read_text("utf-8")
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    titles = [
        title
        for heading in headings
        if not heading.startswith(("The box", "The first screen"))
        for title in heading.split(", ")
    ]
    known = " / ".join(headings_of_reports())
    assert len(titles) > 15
    assert [title for title in titles if title not in known] == []


def test_pictures_are_small_and_shown() -> None:
    pictures = sorted((DOCS / "pictures").iterdir())
    shown = {name for page in PAGES for name in re.findall(r"\]\(pictures/([\w.-]+)\)", page.read_text("utf-8"))}
    assert {picture.name for picture in pictures} == shown
    assert all(picture.suffix == ".png" and picture.stat().st_size < 150_000 for picture in pictures)


def test_what_the_page_on_extending_names_is_there() -> None:
    text = (DOCS / "extending.md").read_text("utf-8")
    files = [name for name in re.findall(r"`([\w/]+\.(?:py|html))`", text) if "/" in name and "NAME" not in name]
    places = {name: ROOT / name if name.startswith("tests/") else ROOT / "src" / "memorisk" / name for name in files}
    assert [name for name, place in places.items() if not place.is_file()] == []
    sources = "\n".join(place.read_text("utf-8") for place in places.values())
    names = set(re.findall(r"`([A-Za-z_]\w{3,})`", text)) - set(app)
    defined = {name for name in names if re.search(rf"\b{name}\b", sources)}
    assert len(names) > 60
    assert names - defined == set()


@pytest.mark.thorough
def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES) + len(NOTEBOOKS)  # and the page of what is not found
    for page in pages:
        asked = Fetched()
        asked.feed(page.read_text("utf-8"))
        assert asked.found, page
        assert [address for address in asked.found if is_elsewhere(address)] == [], page
    for style in site.rglob("*.css"):
        addresses = re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")]+)", style.read_text("utf-8"))
        assert [address for address in addresses if is_elsewhere(address)] == [], style


class Quiet(SimpleHTTPRequestHandler):
    """Server of files that logs nothing."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("class order", "own-training.html"),
        ("gallery", "report.html"),
        ("which file may be released", "release.html"),
        ("officer page", "release.html"),
    ],
)
def test_the_search_leads_to_the_page_that_answers(site: Path, browser: Chromium, query: str, answer: str) -> None:
    """The first result of the site's own search, in a browser; results and records do not come before it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{server.server_port}/index.html?{urlencode({'q': query})}")
        first = None
        for _ in range(100):
            first = browser.evaluate("document.querySelector('a.md-search-result__link')?.getAttribute('href') ?? null")
            if first:
                break
            time.sleep(0.1)
        server.shutdown()
    assert first is not None
    assert first.partition("?")[0].endswith(answer)


@pytest.mark.thorough
def test_notebooks_are_pages_with_their_code_and_pictures(site: Path) -> None:
    for notebook in NOTEBOOKS:
        place = (site / notebook.relative_to(DOCS)).with_suffix(".html")
        page = place.read_text("utf-8")
        pictures = re.findall(r'<img[^>]* src="([^"]+)"', page)
        assert [name for name in pictures if not (place.parent / name).is_file()] == []
        made = json.loads(notebook.read_text("utf-8"))["cells"]
        outputs = [output for cell in made for output in cell.get("outputs", [])]
        assert sum(name.startswith(f"{notebook.stem}/") for name in pictures) == sum(
            "image/png" in output.get("data", {}) for output in outputs
        )
        assert "memorisk" in "".join(re.findall(r"<code>.*?</code>", page, re.DOTALL))
        assert not (site / notebook.relative_to(DOCS)).exists()


@pytest.mark.thorough
def test_the_reference_has_signatures_and_examples(site: Path) -> None:
    page = (site / "reference.html").read_text("utf-8")
    for name, module in _PUBLIC.items():
        assert f'id="{module}.{name}"' in page
    assert ":::" not in page
    assert "doctest:" not in page
