"""A page is one clean file: its policy fits it, its names are data, its structure can be read without eyes."""

import base64
import hashlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from memorisk.report.blocks import (
    Callout,
    Column,
    Definitions,
    Details,
    Fact,
    Facts,
    Figure,
    Gallery,
    Heading,
    Link,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Strong,
    Table,
    Thumbnail,
)
from memorisk.report.figures import memorization as figures
from memorisk.report.page import cell_html, render_page, sort_key, table_rows
from tests.audits.classifier_results import HOSTILE

PIXEL = "data:image/png;base64,iVBORw0KGgo="
COLUMNS = (
    Column(source="name", heading="Name", row_heading=True),
    Column(source="m", heading="M", format="decimal", interval=("low", "high")),
    Column(source="tier", heading="Tier", tones={"HIGH": "bad"}),
    Column(source="why", heading="Why", missing="no reason", wide=True),
)
VOID = {"meta", "img", "link", "br", "hr", "input", "path", "use", "rect"}


def frame(names) -> pd.DataFrame:
    n = len(names)
    return pd.DataFrame(
        {
            "name": pd.Series(list(names), dtype=object),
            "m": [0.1 * i for i in range(n)],
            "low": [0.0] * n,
            "high": [float("nan")] + [1.0] * (n - 1),
            "tier": "HIGH",
            "why": pd.Series([None] * n, dtype=object),
        }
    )


def full_page(names=("a", "b", "c")) -> Page:
    """A page with every kind of block, and names wherever names can stand."""
    table = Table(frame=frame(names), columns=COLUMNS, caption="A table.")
    figure = Figure(
        svg=figures.interval_plot(names, [0.1] * len(names), [0] * len(names), [1] * len(names)),
        title="A figure.",
        caption=["Of ", Name(names[0])],
        alternative=[Name(n) for n in names],
        table=table,
    )
    thumbnails = [Thumbnail(data_uri=PIXEL, caption=[Name(n), ["class ", Name(n)]], alternative=n) for n in names]
    blocks = [
        Paragraph(["A ", Strong("strong"), " word, ", Name(names[0]), ", a ", Link("link", "second"), "."]),
        Heading("A heading"),
        Steps([Name(n) for n in names], ordered=True),
        Definitions([(Name(n), Name(n)) for n in names]),
        Definitions([("Setting", Name(n)) for n in names], compact=True),
        table,
        figure,
        Gallery(items=thumbnails, caption="Pictures."),
        Details(["More of ", Name(names[0])], [Paragraph("Folded.")]),
        Callout("warning", ["Mind ", Name(names[0])], [Paragraph("Text."), Heading("Within"), Steps(["x"])]),
    ]
    lead = [Callout("fail", "Not ready", [Paragraph("Why.")]), Facts([Fact("Images", "3", "of 4")])]
    sections = [Section("First", blocks, "first"), Section("Second", [Paragraph("End.")], "second")]
    return Page(
        title=["Report: ", Name(names[0])], subtitle="On names", lead=lead, sections=sections, footer=blocks[:1]
    )


class Outline(HTMLParser):
    """Tags, attributes and nesting of a page; fails where a tag is closed that is not open."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open[-1] == tag, (self.open[-3:], tag)
        self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in {"style", "script"}:
            self.text.append(data)


@pytest.mark.parametrize("names", [("a", "b", "c"), HOSTILE])
def test_page_is_well_formed_and_structured(names):
    page = Outline(render_page(full_page(names)))
    assert page.open == []
    tags = [t for t, _ in page.tags]
    assert tags.count("main") == tags.count("h1") == tags.count("nav") == tags.count("header") == 1
    levels = [int(t[1]) for t in tags if re.fullmatch(r"h[1-6]", t)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for key in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(key, ids[0]) in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
    assert all(a.get("scope") in {"row", "col"} for t, a in page.tags if t == "th")
    assert all("alt" in a for t, a in page.tags if t == "img")
    assert all(
        a.get("tabindex") == "0" and a.get("role") == "region" for _, a in page.tags if a.get("class") == "scroll"
    )


@pytest.mark.parametrize("names", [("a", "b", "c"), HOSTILE])
def test_policy_names_the_very_style_and_script_and_nothing_else(names):
    html = render_page(full_page(names))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    rules = dict(r.split(" ", 1) for r in policy[1].replace("&#39;", "'").split("; "))
    expected = {}
    for tag in ("style", "script"):
        found = re.findall(f"<{tag}>(.*?)</{tag}>", html, flags=re.DOTALL)
        assert len(found) == 1
        expected[tag] = "'sha256-" + base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode() + "'"
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": expected["style"],
        "script-src": expected["script"],
        "base-uri": "'none'",
        "form-action": "'none'",
    }


@pytest.mark.parametrize("names", [("a", "b", "c"), HOSTILE])
def test_page_asks_for_nothing_and_carries_no_inline_code(names):
    html = render_page(full_page(names))
    page = Outline(html)
    for tag, attributes in page.tags:
        assert not any(k.startswith("on") or k == "style" for k in attributes), (tag, attributes)
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "audio", "video"}
        for key in ("src", "href", "srcset", "data", "action", "poster"):
            assert attributes.get(key, "#").startswith(("#", "data:image/png;base64,"))
    assert [t for t, _ in page.tags].count("script") == 1
    assert not re.search(r"url\((?!#)|@import", html)


def test_names_are_shown_letter_by_letter():
    page = Outline(render_page(full_page(HOSTILE)))
    text = "".join(page.text)
    for name in HOSTILE:
        shown = name.encode("utf-8", "backslashreplace").decode().replace("\n", "\\n").replace("\t", "\\t")
        shown = shown.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066")
        assert shown in text


def test_same_page_same_bytes():
    first = render_page(full_page(HOSTILE))
    assert first == render_page(full_page(HOSTILE))
    first.encode("utf-8")


def test_a_fresh_process_writes_the_same_bytes_as_one_that_has_drawn_before():
    code = (
        "import hashlib; from tests.report.test_page import *; "
        "print(hashlib.sha256(render_page(full_page(HOSTILE)).encode()).hexdigest())"
    )
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == hashlib.sha256(render_page(full_page(HOSTILE)).encode()).hexdigest()


def test_cells():
    row = {"m": 0.25, "low": -0.5, "high": 1.0, "tier": "HIGH", "n": None, "t": "<b>"}
    column = Column(source="m", heading="", format="decimal", interval=("low", "high"))
    assert str(cell_html(row, column)) == '0.250 <span class="ci">[−0.500, 1.000]</span>'
    assert str(cell_html(row | {"low": float("nan")}, column)) == "0.250"
    assert str(cell_html(row, Column(source="t", heading=""))) == "<bdi>&lt;b&gt;</bdi>"
    badge = cell_html(row, Column(source="tier", heading="", tones={"HIGH": "bad"}))
    assert str(badge) == '<span class="badge bad">HIGH</span>'
    assert "not available" in cell_html(row, Column(source="n", heading="", format="count"))
    assert "none &lt;" in cell_html(row, Column(source="n", heading="", format="count", missing="none <"))
    assert str(cell_html(row, Column(source="t", heading="", format="count"))) == "<bdi>&lt;b&gt;</bdi>"


def test_sort_keys_are_the_numbers_themselves():
    column = Column(source="m", heading="", format="percent")
    assert float(sort_key({"m": 0.123456789012345}, column)) == 0.123456789012345
    assert sort_key({"m": None}, column) == sort_key({}, column) == sort_key({"m": "text"}, column) == ""
    assert sort_key({"m": 1}, Column(source="m", heading="")) == ""


@pytest.mark.parametrize(
    ("n", "expected"), [(0, (0, 0, 0)), (12, (12, 0, 0)), (14, (14, 0, 0)), (15, (10, 5, 0)), (60, (10, 40, 10))]
)
def test_long_tables_fold_and_say_what_they_leave_out(n, expected):
    table = Table(frame=frame([str(i) for i in range(n)]) if n else frame(["x"]).head(0), columns=COLUMNS, caption="C.",
                  visible_rows=10, most_rows=50, elsewhere="per_group.parquet")  # fmt: skip
    first, folded, left_out = table_rows(table)
    assert (len(first), len(folded), left_out) == expected
    html = render_page(Page("T", [table], []))
    assert ("5 more rows" in html) == (n == 15)
    assert ("10 further rows are not shown here; all are in <code>per_group.parquet</code>" in html) == (n == 60)
    assert ("None." in html) == (n == 0)
    assert ("sortable" in re.sub("<style>.*?</style>|<script>.*?</script>", "", html, flags=re.DOTALL)) == (
        n in (12, 14)
    )


def test_a_table_may_have_columns_that_no_frame_column_feeds():
    table = Table(frame=frame("ab")[["name"]], columns=COLUMNS, caption="C.")
    assert "not available" in render_page(Page("T", [table], []))


def test_percent_signs_do_not_break_from_their_number():
    assert "95\u00a0%" in render_page(Page("T", [Paragraph("95 % of it")], []))
