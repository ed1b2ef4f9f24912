"""Schemas and words of a study, read from YAML files of its package.

A file holds what is the same in every run: the columns of each table with their units and formats, its title, note,
and headings in the paper, the order of tables and figures on the page, and how to read it. The modules of the package
hold what differs from run to run: rows, figures, and findings.

    columns: {detector: {heading: Detector, row: true}, dataset: Data set}   # columns that several tables share
    tables:
      table_2:
        title: Re-identification across data sets
        paper: [Method, Section]                     # headings of the table as the paper prints it
        columns: [detector, dataset, {auc: {heading: "AUC [95 %]", format: decimal, interval: true}}]
        note: Every patient counts one.
        empty: no detector was measured              # why the table has no rows
    frames: {figure_1: {title: Figure 1, columns: [detector]}}               # further numbers of tables
    page:
      title: Re-identification
      sections: [{title: Data sets, id: datasets, shows: [table_2]}]
      reading: [Every patient counts one.]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from memorisk.report.blocks import Column
from memorisk.report.columns import FORMATS
from memorisk.runs.yaml_files import parse_yaml


@dataclass(frozen=True, kw_only=True)
class FrameSchema:
    """Form of a data frame on a page and in Markdown."""

    title: str = ""
    columns: tuple[Column, ...] = ()
    with_figure: bool = False
    """Whether the page shows the frame with its figure and not below its table."""


@dataclass(frozen=True, kw_only=True)
class TableSchema(FrameSchema):
    """Form of a table of the study."""

    paper: tuple[str, ...] = ()
    """Headings of the table as the paper prints it."""
    caption: str = ""
    """Caption of a table without intervals."""
    note: str = ""
    """Note on how the table is made, or what differs from the paper and why."""
    empty: str = ""
    """Reason why the table has no rows, if it has none."""
    again: FrameSchema | None = None
    """Second look at the same numbers."""


@dataclass(frozen=True, kw_only=True)
class SectionSchema:
    """Section of a page."""

    title: str
    id: str
    shows: tuple[str, ...]
    """Names of tables, and of blocks that the study's code makes, in their order."""
    optional: bool = False
    """Whether the section is left out when it shows nothing."""
    answer: str = ""
    """Sentence that answers the title, with names of values in braces; it is shown where the run has the values."""
    of: str = ""
    """Table and column, as "table_1.excess", that give the answer its values: the {span} of the estimates, and the
    number of intervals {n_measured}, of those above 0 {n_above} and of those below 0 {n_below}."""


@dataclass(frozen=True, kw_only=True)
class PageSchema:
    """Page of a study, without its numbers."""

    title: str = ""
    subtitle: str = ""
    sections: tuple[SectionSchema, ...] = ()
    reading: tuple[str, ...] = ()
    """Sentences of the last section, which may hold the names of values in braces."""
    footer: str = ""


@dataclass(frozen=True, kw_only=True)
class StudyLayout:
    """Schemas of a study's tables and of its page."""

    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    frames: Mapping[str, FrameSchema] = field(default_factory=dict)
    """Further frames, by name."""
    page: PageSchema = field(default_factory=PageSchema)
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Sentences that the study's code adds to notes and pages, by name."""
    note_heading: str = "How it is made. "
    """Words before the note of a table."""
    empty_columns: bool = False
    """Whether columns that hold nothing are shown."""


@cache
def read_layout(package: str, *names: str) -> StudyLayout:
    """Read the schemas of a study.

    Args:
        package: Name of its package.
        *names: Names of its files without their ending; the parts of later files are added to those of earlier ones.
    """
    content: dict[str, Any] = {}
    for name in names:
        text = resources.files(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
        for part, values in parse_yaml(text).items():
            content[part] = content.get(part, {}) | values if isinstance(values, dict) else values
    shared = {name: _column(name, values) for name, values in content.pop("columns", {}).items()}
    tables = {name: TableSchema(**_frame_fields(values, shared)) for name, values in content.pop("tables").items()}
    frames = {name: FrameSchema(**_frame_fields(values, shared)) for name, values in content.pop("frames", {}).items()}
    return StudyLayout(tables=tables, frames=frames, page=_page(content.pop("page")), **content)


def _page(values: Mapping[str, Any]) -> PageSchema:
    sections = tuple(SectionSchema(**one | {"shows": tuple(one["shows"])}) for one in values["sections"])
    return PageSchema(**{**values, "sections": sections, "reading": tuple(values["reading"])})


def _frame_fields(values: Mapping[str, Any], shared: Mapping[str, Column]) -> dict[str, Any]:
    """Return the fields of a table's or a frame's schema."""
    fields = {**values, "columns": _columns(values["columns"], shared)}
    if "paper" in values:
        fields["paper"] = tuple(values["paper"])
    if "again" in values:
        fields["again"] = FrameSchema(**_frame_fields(values["again"], shared))
    return fields


def _columns(listed: Sequence[str | Mapping[str, Any]], shared: Mapping[str, Column]) -> tuple[Column, ...]:
    """Return columns; each is the name of a shared one, or names with their own settings."""
    columns: list[Column] = []
    for one in listed:
        columns += [shared[one]] if isinstance(one, str) else [_column(name, values) for name, values in one.items()]
    return tuple(columns)


def _column(source: str, values: str | Mapping[str, Any]) -> Column:
    """Return one column; a text alone is the heading of a column of words."""
    settings: dict[str, Any] = {"heading": values} if isinstance(values, str) else dict(values)
    settings["row_heading"] = settings.pop("row", False)
    limits = settings.pop("interval", None)
    if limits:
        settings["interval"] = (f"{source}_low", f"{source}_high") if limits is True else tuple(limits)
    column = Column(source=source, **settings)
    if column.format not in FORMATS:
        raise ValueError(f"column {source}: format {column.format} does not exist")
    return column
