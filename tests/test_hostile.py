"""File names and labels are data: a whole audit of names that try to be something else, down to the browser."""

import json
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from memorisk.images.identity import normal_id
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.commands import answer, class_folders, picture, refusal
from tests.report.chromium import Chromium, find_chromium

pytestmark = pytest.mark.usefixtures("drawn")

LABELS = [
    "<img src=x onerror=\"document.title='hacked'\">",
    "'\"; {{7*7}} {% raise %} ${7*7} $\\frac{1}{0}$ \u202egnp.exe\u202c",
    "\U0001f60e e\u0301 \u05e9\u05dc\u05d5\u05dd\nsecond line\t\x1b[31mred\x1b[0m \x07",
]
NAMES = [
    "<svg onload=document.title='hacked'>.png",
    "<b>bold<!--.png",
    "\"quoted\" 'twice' `thrice`.png",
    "line\nbreak\r.png",
    "\x1b[2J\x1b[1;1Hwiped.png",
    "\u202egnp.tpircs\u202c.png",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u200b\ufeff.png",
    "$\\alpha_{1}^2$ %s %n {0} {{7*7}}.png",
    "=cmd('calc')!A0,\"x\";y\t.png",
    "&lt;script&gt; &amp; &#0; a|b.png",
    "-rf --out -.png",
    "w" * 251 + ".png",
    "\u5f20" * 80 + ".png",
    " javascript:alert(1) .png",
]
AUDIT = ("--models", 4, "--epochs", 2, "--processes", 1, "--fail-on", "never")
SHOWS = "document.body.innerText"


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return class_folders(tmp_path_factory.mktemp("hostile") / "set", LABELS, NAMES)


@pytest.fixture(scope="module")
def run(images, tmp_path_factory) -> Path:
    from memorisk.cli.main import main

    out = tmp_path_factory.mktemp("hostile_run") / "run"
    assert main(["audit", "classifier", str(images), "--out", str(out), "--gallery", *map(str, AUDIT)]) == 0
    return out


def lines_of(text: str) -> list[str]:
    """Lines of a terminal, after looking that nothing in them moves a cursor, rings a bell or turns the direction."""
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        assert line.isprintable(), repr(line)
    return text[:-1].split("\n")


def test_the_terminal_gets_a_row_for_each_class_and_no_control_characters(capsys, images, run):
    code, out, err = answer(capsys, "audit", "classifier", images, "--out", run, "--gallery", *AUDIT)
    assert (code, err) == (0, "")
    lines = lines_of(out)
    head = next(place for place, line in enumerate(lines) if line.startswith("Class"))
    table = lines[head + 1 : lines.index("")]  # a long name goes on below, in a line without a tier
    rows = [line for line in table if {"LOW", "MODERATE", "HIGH"} & set(line.split())]
    assert len(rows) == len(LABELS), table
    assert {row[:3] for row in rows} == {normalize("NFC", label)[:3] for label in LABELS}
    assert lines[-1].startswith("Report: ")
    for command in (
        ("images", "check", images),
        ("compare", run, run),
        ("audit", "classifier", images, "--out", run, "--dry-run", *AUDIT),
    ):
        _, out, err = answer(capsys, *command)
        assert err == ""
        lines_of(out)


def test_tables_and_json_keep_names_in_their_one_form(capsys, images, run):
    labels = {normal_id(label) for label in LABELS}
    expected = {normal_id(f"{label}/{name}") for label in LABELS for name in NAMES}
    for name in ("per_image", "manifest", "scores"):
        table = pd.read_parquet(run / f"{name}.parquet")
        assert set(table["image"]) == expected, name
        assert set(table["label"]) == labels
    assert set(pd.read_parquet(run / "per_class.parquet")["label"]) == labels
    groups = pd.read_parquet(run / "per_group.parquet")
    assert set(groups["group"]) < expected  # those that were scored
    assert set(groups["label"]) == labels
    assert set(json.loads((run / "verdict.json").read_text(encoding="utf-8"))["tiers"]) == labels
    _, out, err = answer(capsys, "audit", "classifier", images, "--out", run, "--gallery", *AUDIT, "--json")
    assert err == ""
    assert set(json.loads(out)["tiers"]) == labels


def test_a_name_that_is_no_text_is_refused_in_one_line(capsys, images, tmp_path):
    folder = class_folders(tmp_path / "set", ["a", "b"], [f"{k}.png" for k in range(14)])
    Image.fromarray(picture(99, 0)).save(tmp_path / "x.png")
    (tmp_path / "x.png").rename(folder / "a" / "bad\udcff.png")
    line = refusal(capsys, "audit", "classifier", folder, "--out", tmp_path / "out", *AUDIT)
    assert "not UTF-8" in line
    assert not (tmp_path / "out").exists()


def test_a_table_of_hostile_names_is_audited_as_it_is(capsys, tmp_path):
    """Labels that no folder can have, in columns with names of their own."""
    labels = ["</title></script><script>document.title='hacked'</script>", "a\\..\\b\n{{7*7}}", "../../etc/passwd"]
    rows = []
    for c, label in enumerate(labels):
        for k in range(14):
            Image.fromarray(picture(100 * c + k, c)).save(tmp_path / f"{c}-{k}.png")
            rows.append({"image": f"{c}-{k}.png", "label": label, "patient": f"<p>{c}\n{k}", "<i>note</i>": "=1+1"})
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "run"
    code, shown, err = answer(capsys, "audit", "classifier", tmp_path / "table.csv", "--out", out, *AUDIT)
    assert (code, err) == (0, "")
    lines_of(shown)
    assert set(pd.read_parquet(out / "per_class.parquet")["label"]) == set(labels)
    assert pd.read_parquet(out / "manifest.parquet")["<i>note</i>"].tolist() == ["=1+1"] * 42
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script>document.title" not in page
    assert "&lt;script&gt;document.title=" in page


@pytest.fixture(scope="module")
def browser():
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with Chromium(path) as running:
        yield running


@pytest.mark.thorough
@pytest.mark.browser
def test_the_report_executes_nothing_and_asks_for_nothing(browser, run):
    page = run / "report.html"
    browser.open(page)
    browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert "hacked" not in browser.evaluate("document.title")
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.complaints() == []
    handlers = "[...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(a => a.startsWith('on')))"
    assert browser.evaluate(f"{handlers}.length") == 0
    assert browser.evaluate("document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0
    assert browser.evaluate("document.images.length") > 0
    text = browser.evaluate(SHOWS)
    assert LABELS[0] in text
    assert "{{7*7}}" in text
    assert "49" not in {word for word in text.split() if "7*7" in word}


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "width", "dark"), [("desktop", 1280, False), ("phone", 390, False), ("dark", 1280, True)]
)
def test_nothing_sticks_out_of_the_page(browser, run, tmp_path, name, width, dark):
    browser.open(run / "report.html", width=width, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.screenshot(tmp_path / f"{name}.png")
    pixels = np.asarray(Image.open(tmp_path / f"{name}.png").convert("L"))
    assert pixels.shape[1] == width
    assert pixels.std() > 5, "an empty page"


@pytest.mark.thorough
@pytest.mark.browser
def test_it_prints(browser, run, tmp_path):
    browser.open(run / "report.html")
    browser.pdf(tmp_path / "report.pdf")
    data = (tmp_path / "report.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") >= 2


# Manifests of any text

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
cell = st.one_of(
    text, st.sampled_from(["../x.png", "/etc/passwd", "C:\\x.png", "", " ", "a.png", "b.png", "nan", "1e9"])
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "set").mkdir()
    for k, name in enumerate(("a.png", "b.png")):
        Image.fromarray(picture(k, k)).save(folder / "set" / name)
    Image.fromarray(picture(9, 0)).save(folder / "x.png")
    return folder


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(cell, cell, cell), max_size=6),
    columns=st.sampled_from([("image", "label", "patient"), ("file", "class", "group"), ("x", "y", "z")]),
    suffix=st.sampled_from([".csv", ".parquet"]),
)
def test_any_table_is_read_as_it_is_or_refused_in_one_line(folder, rows, columns, suffix):
    table = pd.DataFrame(rows, columns=list(columns), dtype=object)
    path = folder / "set" / f"table{suffix}"
    if suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    said = ""
    try:
        manifest = load_manifest(path, ImageOptions(image_column=columns[0], label_column=columns[1]))
    except InputError as error:
        manifest, said = None, str(error)
    if manifest is None:
        assert said.isprintable()
        return
    assert manifest.n == len({normalize("NFC", name).strip() for name, _, _ in rows})  # equal rows are one image
    assert len(set(manifest.images)) == manifest.n
    if all(Path(name.strip()).is_absolute() for name, _, _ in rows):
        return  # a table that names each file by an absolute path says where its images are
    root = (folder / "set").resolve()
    for row in range(manifest.n):
        assert root in Path(manifest.file(row)).resolve().parents
