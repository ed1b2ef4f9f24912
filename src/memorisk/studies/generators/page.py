"""The page of the study: who is memorized; against size, steps and copies; DiT against GAN; figure 3; table 3."""

from collections.abc import Mapping, Sequence

from memorisk.report.blocks import (
    Block,
    Callout,
    Fact,
    Facts,
    Heading,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Strong,
    Table,
)
from memorisk.report.formats import count
from memorisk.studies.generators.config import GeneratorsStudy
from memorisk.studies.generators.figures import (
    copies_figure,
    distance_figures,
    memorized_figure,
    size_figure,
    step_figure,
)
from memorisk.studies.generators.findings import findings, learned_nothing
from memorisk.studies.generators.gallery import pair_gallery
from memorisk.studies.generators.reading import Reading
from memorisk.studies.generators.tables import shown_columns
from memorisk.studies.rare_distinctive.blocks import corrected, printed, with_gaps
from memorisk.studies.rare_distinctive.parts import StudyTable

_IDS = ("sources", "closest")
"""Tables that name images and patients."""


def generators_page(
    study: GeneratorsStudy, reading: Reading, tables: Sequence[StudyTable], failed: Mapping[str, str]
) -> Page:
    """Lay out the study.

    Args:
        study: As its file asks for it.
        reading: What was measured.
        tables: Of `tables.generator_tables`.
        failed: Why generators are not there, by name.
    """
    named, options = {table.name: table for table in tables}, study.options
    hidden = "Ids of images and patients are left out; tables/ in the study's folder has them."
    copies = _table(named["copies"])
    if named["copies"].extra:
        levels = named["copies"].extra["levels"]
        shown = shown_columns(named["copies"], "levels")
        copies.insert(-1, Table(frame=with_gaps(levels), columns=shown, caption="By number of copies."))
    listed = [Paragraph(hidden)] if options.redact else [b for name in _IDS for b in _table(named[name])]
    sections = [
        Section("Who is memorized", [*_table(named["memorized"]), *memorized_figure(named["memorized"])], "memorized"),
        Section("Training-set size", [*_table(named["sizes"]), *size_figure(named["sizes"])], "sizes"),
        Section("Steps and epochs", [*_table(named["steps"]), *step_figure(named["steps"])], "steps"),
        Section("Copies", [*copies, *copies_figure(named["copies"])], "copies"),
        Section("DiT against GAN", _table(named["generators"]), "generators"),
        Section("Distances", [*_table(named["distances"]), *distance_figures(reading)], "distances"),
        Section("Pseudo-conditions", _table(named["table_3"]), "table-3"),
        Section("Sources and closest pairs", listed, "sources"),
        Section("What was run", _table(named["trained"]), "setup"),
        Section("How to read this", _how_to_read(), "reading"),
    ]
    pictures = pair_gallery(reading) if options.gallery and not options.redact else []
    if pictures:
        sections.insert(8, Section("Pictures", pictures, "pictures"))
    held = "images of the training data, as was asked for" if pictures else "no image"
    return Page(
        title="What generators memorize",
        subtitle="A study of generators of images, by kind, training-set size, copies and epochs",
        lead=_lead(reading, named, failed),
        sections=sections,
        footer=[Paragraph(f"This page holds {held}. Every reading is a row of tables/readings.parquet.")],
        redacted=study.options.redact,
    )


def _lead(reading: Reading, named: Mapping[str, StudyTable], failed: Mapping[str, str]) -> list[Block]:
    lines = findings(named["memorized"].ours, named["copies"].ours)
    blocks: list[Block] = [Steps(lines)] if lines else [Paragraph("No generator is finished yet.")]
    facts = [
        Fact("Generators", count(len({cell.name for cell in reading.cells} | failed.keys()))),
        Fact("Finished", count(len(reading.cells) - len(reading.unfinished))),
        Fact("Data sets", count(len({cell.data.name for cell in reading.cells}))),
        Fact("Failed", count(len(failed))),
    ]
    lead: list[Block] = [Callout("note", "What was memorized?", blocks), Facts(facts)]
    doubts = learned_nothing(reading.table)
    if doubts:
        lead.append(Callout("warning", "What cannot be judged", [Steps(doubts)]))
    if failed:
        items = [[Strong("Failed: "), Name(name), ": ", Name(why)] for name, why in failed.items()]
        lead.append(Callout("warning", "Not everything is finished", [Steps(items)]))
    return lead


def _table(table: StudyTable) -> list[Block]:
    """A table in a paper's layout where it has one, ours below it, and how it is made."""
    blocks: list[Block] = [Heading(table.title)]
    if table.why_empty:
        return [*blocks, Paragraph(f"Empty: {table.why_empty}.")]
    caption = "Intervals are 95 %."
    if len(table.paper.columns):
        blocks.append(printed(table))
    return [
        *blocks,
        corrected(table, shown_columns(table), caption),
        Paragraph([Strong("How it is made. "), table.note]),
    ]


def _how_to_read() -> list[Block]:
    return [
        Steps(
            [
                "Patients are divided before anything is trained. Of those who are held out no generator saw an image, "
                "and they are asked for the nearest generated image just as training patients are. Where nobody is "
                "memorized both are equally near, however narrow or wide the generated set.",
                "A share whose interval holds the rate without memory is no proof that nobody is memorized: a copy of "
                "one patient among thousands moves no share. The list and the closest pairs look for that.",
                "More generated images find more: what a generator knows it shows only when asked often enough. Shares "
                "compare generators asked for as many images.",
                "A detector that does not recognise a changed copy does not see it. Several detectors are read "
                "side by side; none of them was chosen for its result.",
                "Generators differ in kind, size and settings at once: a table of two kinds compares these two "
                "trainings, not all that could be made of either.",
                "Each interval holds 95 % by itself, not all of them at once. The largest of many is a selection.",
            ]
        )
    ]
