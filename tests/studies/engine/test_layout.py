"""Schemas of studies: files of all packages are whole, and a small one becomes tables and a page."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from memorisk.report.blocks import Callout, Paragraph, Steps, Table
from memorisk.studies.detectors.results import LAYOUT as DETECTORS
from memorisk.studies.engine.layout import StudyLayout, read_layout
from memorisk.studies.engine.pages import answer_numbers, answer_sentence, lead_blocks, study_page
from memorisk.studies.engine.rows import distinct, rows_of
from memorisk.studies.engine.tables import fill_table, table_blocks, table_frames, tables_markdown
from memorisk.studies.generators.tables import LAYOUT as GENERATORS
from memorisk.studies.pairs.results import LAYOUTS
from memorisk.studies.rare_distinctive.results import LAYOUT as RARE
from memorisk.studies.unique_features.results import LAYOUT as UNIQUE

NAN = float("nan")
SMALL = """
columns: {name: {heading: Name, row: true}}
tables:
  table_1:
    title: First
    paper: [Name, Share]
    note: Every patient counts one.
    empty: nothing was measured
    columns:
      - name
      - share: {heading: "Share [95 %]", format: percent, interval: true}
      - mean: {heading: Mean, format: decimal, interval: [least, most], missing: not known}
frames: {drawn: {title: What is drawn, with_figure: true, columns: [name]}}
page:
  title: Small
  sections:
    - {title: Numbers, id: numbers, shows: [table_1, figure_1]}
    - {title: Pictures, id: pictures, shows: [pictures], optional: true}
  reading: ["Limits hold {level}."]
  footer: "{held}."
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyLayout:
    (tmp_path / "small_study").mkdir()
    (tmp_path / "small_study" / "__init__.py").write_text("")
    (tmp_path / "small_study" / "study.yaml").write_text(SMALL)
    monkeypatch.syspath_prepend(str(tmp_path))
    read_layout.cache_clear()
    return read_layout("small_study", "study")


@pytest.mark.parametrize(
    "layout", [DETECTORS, GENERATORS, RARE, UNIQUE, *LAYOUTS.values()], ids=lambda layout: layout.page.title
)
def test_every_table_of_a_study_is_on_its_page(layout: StudyLayout) -> None:
    shown = [name for section in layout.page.sections for name in section.shows]
    assert len(set(shown)) == len(shown)
    by_measure = {name for name in layout.tables if name.startswith("measures_")}  # one section shows those there are
    assert set(layout.tables) - by_measure <= set(shown)
    for schema in (*layout.tables.values(), *layout.frames.values()):
        assert len({column.source for column in schema.columns}) == len(schema.columns)
        assert all(column.heading for column in schema.columns)


def test_rows_become_a_table_in_both_forms(small: StudyLayout) -> None:
    rows = [{"name": "a", "share": 0.5, "share_low": 0.25, "share_high": 0.75}]
    drawn = pd.DataFrame({"name": ["b"]})
    table = fill_table(small, "table_1", rows, paper=[("a", "50")], note=["One more."], extra={"drawn": drawn})
    assert table.paper.to_dict("records") == [{"Name": "a", "Share": "50"}]
    assert (table.note, table.why_empty) == ("Every patient counts one. One more.", "")
    first, of_figure = table.views()
    assert [column.source for column in first.columns] == ["name", "share"]  # the mean holds nothing
    assert of_figure.with_figure
    assert set(table_frames([table])) == {"table_1_paper", "table_1_ours", "table_1_drawn"}
    assert "| a | 50.0\N{NO-BREAK SPACE}% [25.0" in tables_markdown([table])
    assert [block.caption for block in table_blocks(table) if isinstance(block, Table)] == [
        "As the paper prints it.",
        "Corrected. Intervals are 95 %.",
    ]


def test_a_table_without_rows_says_why(small: StudyLayout) -> None:
    assert fill_table(small, "table_1", []).why_empty == "nothing was measured"
    empty = fill_table(small, "table_1", [], why_empty="the reference failed")
    assert empty.why_empty == "the reference failed"
    assert list(empty.paper) == ["Name", "Share"]
    assert not len(fill_table(small, "table_1", [{"name": "a"}]).paper.columns)


def test_a_page_follows_its_schema(small: StudyLayout) -> None:
    table = fill_table(small, "table_1", [{"name": "a"}])
    lead = lead_blocks(Callout("note", "Answer", []), {"Tables": 1}, {"b": "no room"})
    blocks = {"figure_1": [Paragraph("drawn")], "pictures": []}
    page = study_page(small, [table], blocks, lead=lead, level="95 %", held="No image")
    assert [section.id for section in page.sections] == ["numbers", "reading"]
    assert page.sections[0].blocks[-1] == Paragraph("drawn")
    assert page.sections[1].blocks == [Steps(["Limits hold 95 %."])]
    assert page.footer == [Paragraph("No image.")]
    assert [type(block).__name__ for block in page.lead] == ["Callout", "Facts", "Callout"]
    with pytest.raises(KeyError):
        study_page(small, [table], {}, lead=[], level="", held="")


def test_a_section_begins_with_its_answer_where_the_run_has_the_values(small: StudyLayout) -> None:
    table = fill_table(small, "table_1", [{"name": "a"}])
    (section, *others) = small.page.sections
    asked = replace(small, page=replace(small.page, sections=(replace(section, answer="In {n} of 2."), *others)))
    rest = {"lead": lead_blocks(Callout("note", "Answer", []), {}, {}), "level": "95 %", "held": "No image"}
    blocks = {"figure_1": [], "pictures": []}
    shown, silent = (
        study_page(asked, [table], blocks, answers=values, **rest).sections[0].blocks
        for values in ({section.id: {"n": 1}}, {})
    )
    assert shown[0] == Paragraph("In 1 of 2.")
    assert [type(block) for block in shown[1:]] == [type(block) for block in silent]


def test_answers_count_intervals_that_leave_out_zero(small: StudyLayout) -> None:
    columns = small.tables["table_1"].columns
    frame = pd.DataFrame(
        {
            "share": [0.25, 0.5, -0.5, 0.0, 0.75],
            "share_low": [0.125, 0.0, -0.75, -0.25, NAN],
            "share_high": [0.5, 0.75, -0.25, 0.25, NAN],
        }
    )
    percent = "\N{NO-BREAK SPACE}%"
    span = f"\N{MINUS SIGN}50.0{percent} to 75.0{percent}"
    expected = {"span": span, "n_measured": 4, "n_above": 1, "n_below": 1}
    assert answer_numbers(frame, columns, "share") == expected
    assert answer_numbers(frame.head(1), columns, "share")["span"] == f"25.0{percent}"
    assert answer_numbers(frame.tail(1), columns, "share") == {}
    assert answer_numbers(pd.DataFrame(), columns, "share") == {}
    (section, *others) = small.page.sections
    asked = replace(section, answer="{n_above} of {n_measured:row|rows}.", of="table_1.share")
    layout = replace(small, page=replace(small.page, sections=(asked, *others)))
    rest = {"lead": [Paragraph("Answer")], "level": "95 %", "held": "No image"}
    blocks = {"figure_1": [], "pictures": []}
    page = study_page(layout, [fill_table(layout, "table_1", frame)], blocks, **rest)
    assert page.sections[0].blocks[0] == Paragraph("1 of 4 rows.")
    empty = study_page(layout, [fill_table(layout, "table_1", [])], blocks, **rest)
    assert not [block for block in empty.sections[0].blocks if block == Paragraph("0 of 0 rows.")]


@pytest.mark.parametrize(
    "layout", [DETECTORS, GENERATORS, RARE, UNIQUE, *LAYOUTS.values()], ids=lambda layout: layout.page.title
)
def test_every_heading_of_a_study_has_an_answer(layout: StudyLayout) -> None:
    descriptions = {"setup", "pictures", "canaries", "images"}  # what was run, and galleries
    assert {section.id for section in layout.page.sections if not section.answer} <= descriptions
    values = {"span": "1", "n_measured": 1, "n_above": 1, "n_below": 1}
    for section in layout.page.sections:
        if section.of:
            table, column = section.of.split(".")
            assert [one.source for one in layout.tables[table].columns].count(column) == 1
            assert "{" not in answer_sentence(section, values)


def test_an_unknown_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong_study").mkdir()
    (tmp_path / "wrong_study" / "__init__.py").write_text("")
    (tmp_path / "wrong_study" / "study.yaml").write_text(SMALL.replace("format: percent", "format: per-cent"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="column share: format per-cent does not exist"):
        read_layout("wrong_study", "study")


def test_rows_are_chosen_by_values() -> None:
    frame = pd.DataFrame({"dataset": ["a", "a", "b"], "seed": [0, 1, 0]})
    assert rows_of(frame, dataset="a", seed=0).index.tolist() == [0]
    assert rows_of(frame, dataset="c").empty
    assert rows_of(pd.DataFrame(), dataset="a").empty
    assert distinct(frame, "dataset") == [("a",), ("b",)]
