"""Page of a study: tables 1 to 11 and figures 1 to 8 of paper 000, with the corrected numbers."""

from collections.abc import Callable, Sequence

from memorisk.report.blocks import (
    Block,
    Callout,
    Fact,
    Facts,
    Page,
    Paragraph,
    Section,
    Steps,
)
from memorisk.report.columns import count
from memorisk.studies.engine.tables import StudyTable, failure_blocks, table_blocks
from memorisk.studies.rare_distinctive.figures import (
    Tables,
    figure_1,
    figure_2,
    figure_3,
    figure_4a,
    figure_4b,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
)
from memorisk.studies.rare_distinctive.results import StudyRuns
from memorisk.studies.rare_distinctive.tables import LAYOUT

_PROTOCOLS = {
    "paper": "Models were trained as published, a candidate on the training and the canary part, an independent on the "
    "training part: the candidate has more data and more steps, so that M mixes memorization with “more data helps”.",
    "corrected": "Models were trained in the corrected form, in twin pairs alike in everything but which of two "
    "comparable patients they saw. The tables in the paper's layout are its statistics of these models, not a "
    "repetition of its trainings; for that there is the protocol “paper”.",
}
_SECTIONS: tuple[tuple[str, str, tuple[str, ...], tuple[Callable[[Tables], list[Block]], ...]], ...] = (
    ("Are rare classes memorized more?", "rarity", ("table_1", "table_5"), (figure_1, figure_4b, figure_8)),
    ("Distinctiveness, intervened on", "intervention", ("table_3", "table_6"), (figure_5, figure_6)),
    ("Distinctiveness, measured; where it is stored", "atypicality", ("table_2", "table_7"), (figure_2,)),
    ("What an attacker could see", "attacks", ("table_8",), (figure_4a,)),
    ("Defences", "defences", ("table_4", "table_11"), (figure_3,)),
    ("What was run", "setup", ("table_9", "table_10"), ()),
)


def study_page(runs: StudyRuns, tables: Sequence[StudyTable]) -> Page:
    """Lay out a study.

    Args:
        runs: Finished and failed parts of the study.
        tables: Tables of ``studies.rare_distinctive.tables.study_tables``.
    """
    by_name = {table.name: table for table in tables}
    sections = []
    for title, key, chosen, figures in _SECTIONS:
        blocks = table_blocks(LAYOUT, *(by_name[name] for name in chosen))
        blocks += [block for figure in figures for block in figure(by_name)]
        sections.append(Section(title, blocks, key))
    sections.append(Section("What the classes look like", figure_7(runs), "images"))
    sections.append(Section("How to read this", _how_to_read(), "reading"))
    held = "images, as requested, and no id" if runs.pictured else "no image and no id"
    return Page(
        title="Rare, distinctive, memorized",
        subtitle="A study of several architectures and data sets",
        lead=_lead(runs, tables),
        sections=sections,
        footer=[Paragraph(f"Each cell's own report lies in its folder. This page holds {held}.")],
    )


def _lead(runs: StudyRuns, tables: Sequence[StudyTable]) -> list[Block]:
    empty = [table.name.removeprefix("table_") for table in tables if table.why_empty]
    blocks: list[Block] = [Paragraph(_PROTOCOLS.get(runs.protocol, _PROTOCOLS["corrected"]))]
    if empty:
        blocks.append(Paragraph(f"Empty tables: {', '.join(empty)}; each says why."))
    facts = [
        Fact("Architectures", count(len({architecture for architecture, _ in runs.cells}))),
        Fact("Data sets", count(len({dataset for _, dataset in runs.cells})), "the independent units of a study"),
        Fact("Cells finished", count(len(runs.cells))),
        Fact("Parts that failed", count(len(runs.failed))),
    ]
    lead: list[Block] = [Callout("note", f"Protocol: {runs.protocol}", blocks), Facts(facts)]
    return [*lead, *failure_blocks(runs.failed)]


def _how_to_read() -> list[Block]:
    return [
        Steps(
            [
                "Tables in the paper's layout hold its statistics; what is printed there without an interval has one "
                "in the table below.",
                "Cells share data sets and architectures share families, so that cells are not independent: the unit "
                "of a study is the data set, of a data set the class, of a class the patient.",
                "Where no patient ids were given, every image counts as a patient of its own.",
                "Each interval holds 95 % by itself, not all of them at once.",
                "Choosing the cell, class or architecture with the largest effect is a selection: what is chosen is "
                "then too large and its interval too sure.",
            ]
        )
    ]
