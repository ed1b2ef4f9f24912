"""The page of the study: tables 1 to 3, figures 3 to 6, and what the sections of paper 002 say in words."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Fact,
    Facts,
    Heading,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Strong,
)
from memorisk.report.formats import count
from memorisk.report.frames import numbers
from memorisk.studies.rare_distinctive.blocks import CORRECTED, corrected, printed
from memorisk.studies.rare_distinctive.parts import StudyTable
from memorisk.studies.unique_features.columns import COLUMNS, PUBLISHED, PUBLISHED_TITLE
from memorisk.studies.unique_features.config import UniqueStudy
from memorisk.studies.unique_features.figures import (
    epoch_figures,
    latent_figures,
    redraw_figures,
    seed_figures,
    variant_notes,
)
from memorisk.studies.unique_features.findings import findings, learned_nothing
from memorisk.studies.unique_features.gallery import canary_gallery
from memorisk.studies.unique_features.reading import Reading
from memorisk.studies.unique_features.tables import heading

_PROTOCOLS = {
    "paper": "One seed for all models of a run and no references, as published: what is significant here is so by rank "
    "among the mark's controls, which rejects fixed letters too often or too rarely (docs/results/mark_level.md).",
    "corrected": "Every model has a seed of its own, and beside the canary models stand references, trained alike "
    "without the mark. Tables in the paper's layout are its statistics of these models.",
}


def unique_page(study: UniqueStudy, reading: Reading, tables: Sequence[StudyTable], failed: dict[str, str]) -> Page:
    """Lay out the study.

    Args:
        study: As its file asks for it.
        reading: Every finished model.
        tables: Of `tables.unique_tables`.
        failed: Why trainings are not there.
    """
    named = {table.name: table for table in tables}
    sections = [
        Section("Is a mark remembered that was seen once?", [*_table(named["table_2"])], "black-box"),
        Section("The white-box score", [*_table(named["table_1"]), *redraw_figures(named["seeds"])], "white-box"),
        Section("Regularisers", [*_table(named["table_3"]), *variant_notes(reading)], "regularisers"),
        Section("Chance of the training", [*_table(named["seeds"]), *seed_figures(named["seeds"], study)], "seeds"),
        Section("Early or late?", epoch_figures(named["epochs"]) or _table(named["epochs"]), "epochs"),
        Section("Influential images", [*_table(named["influence"]), *_table(named["before_after"])], "influence"),
        Section("Where it is stored", [*_table(named["latents"]), *latent_figures(named["latents"])], "latents"),
        Section("What was run", [*_mark(study), *_table(named["networks"])], "setup"),
        Section("How to read this", _how_to_read(), "reading"),
    ]
    pictures = canary_gallery(reading) if study.options.gallery and not study.options.redact else []
    if pictures:
        sections.insert(3, Section("Canaries", pictures, "canaries"))
    names = "" if study.options.redact else "It names the mark, which may be a person's name. "
    held = "images of the training data, as was asked for" if pictures else "no image; images are named by their row"
    return Page(
        title="Unique features",
        subtitle="Does a network remember a mark that it saw once? A study on canaries",
        lead=_lead(study, reading, named, failed),
        sections=sections,
        footer=[Paragraph(f"{names}This page holds {held}. Every model is a row of tables/models.parquet.")],
        redacted=study.options.redact,
    )


def _lead(study: UniqueStudy, reading: Reading, named: dict[str, StudyTable], failed: dict[str, str]) -> list[Block]:
    blocks: list[Block] = [Paragraph(_protocol(study))]
    lines = findings(named["table_1"].ours, named["table_2"].ours)
    if lines:
        blocks.append(Steps(lines))
    facts = [
        Fact("Models trained", count(len(reading.answers))),
        Fact("Data sets", count(len(reading.sets))),
        Fact("Canary models", count(sum(a.marked for a in reading.answers))),
        Fact("Networks that failed", count(len(failed))),
    ]
    lead: list[Block] = [Callout("note", "Was the mark remembered?", blocks), Facts(facts)]
    doubts = learned_nothing(named["networks"].ours)
    if doubts:
        lead.append(Callout("warning", "Networks that learned nothing", [Steps(doubts)]))
    if failed:
        items = [[Strong("Failed: "), Name(name), ": ", Name(why)] for name, why in failed.items()]
        lead.append(Callout("warning", "Not everything is finished", [Steps(items)]))
    return lead


def _protocol(study: UniqueStudy) -> str:
    if study.protocol == "corrected" and not study.options.references:
        return "No references were trained: nothing here says what models do that never saw the mark."
    return _PROTOCOLS[study.protocol]


def _mark(study: UniqueStudy) -> list[Block]:
    """The mark, unless it shall be left out."""
    options = study.options
    if options.redact:
        return [Paragraph("The mark is left out; config.yaml in the study's folder names it.")]
    return [Paragraph(["Mark: ", Name(options.mark), f", {options.place}, opacity {options.opacity:g}."])]


def _table(table: StudyTable) -> list[Block]:
    """A table in the paper's layout where it has one, ours below it, and what differs."""
    blocks: list[Block] = [Heading(heading(table))]
    if table.why_empty:
        return [*blocks, Paragraph(f"Empty: {table.why_empty}.")]
    if len(table.paper.columns):
        blocks.append(printed(table))
    shown = [(COLUMNS[table.name], CORRECTED)]
    shown += [(PUBLISHED[table.name], PUBLISHED_TITLE)] if table.name in PUBLISHED else []
    for columns, caption in shown:
        there = [c for c in columns if c.source in table.ours and not _empty(table.ours, c)]
        blocks.append(corrected(table, there, caption))
    return [*blocks, Paragraph([Strong("How it is made. "), table.note])]


def _empty(frame: pd.DataFrame, column: Column) -> bool:
    return column.format != "text" and bool(np.isnan(numbers(frame, column.source)).all())


def _how_to_read() -> list[Block]:
    return [
        Steps(
            [
                "A canary is the one training image that carries the mark. A reference is a model trained alike, "
                "without it. Canary models and references differ in nothing else, so that what tells them apart is "
                "the mark.",
                "“Remembered” is said where the p of all canaries together is at most 5 % or the white-box difference "
                "lies above 0: of networks that remember nothing up to one in thirteen.",
                "“Found alone” is a test of one model against all references at 5 %: without any "
                "memory one in twenty is found; it needs 19 references. They share these, so that such findings come "
                "together or not at all; the p of all canaries together is one test.",
                "M is a natural logarithm: 0.69 is twice as sensitive to the mark, beyond what references are.",
                "What is true of canaries drawn at random is no promise for a given image.",
                "Each interval holds 95 % by itself, not all of them at once. The largest of many is a selection.",
            ]
        )
    ]
