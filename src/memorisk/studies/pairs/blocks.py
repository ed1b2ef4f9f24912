"""Blocks that the pages of both benchmarks share."""

from memorisk.report.blocks import (
    Block,
    Callout,
    Fact,
    Facts,
    Heading,
    Name,
    Paragraph,
    Steps,
    Strong,
    Table,
    Text,
)
from memorisk.report.formats import count
from memorisk.studies.detectors.tables import heading
from memorisk.studies.pairs.results import PairBenchmark
from memorisk.studies.pairs.wording import findings
from memorisk.studies.pairs.writing import board_columns, shown
from memorisk.studies.rare_distinctive.blocks import corrected, printed, with_gaps

CAPTIONS = {
    "parts": "Patients and pairs of each part.",
    "detectors": "Every detector that was asked for.",
    "missing": "Methods of the paper's table 2 without weights at hand.",
}


def lead(found: PairBenchmark, question: str) -> list[Block]:
    """What stands before the contents: the findings, counts, and what failed.

    Args:
        found: The benchmark.
        question: That it answers.
    """
    blocks: list[Block] = []
    if len(found.board):
        items: list[Text] = [[Name(line)] for line in findings(found)]
        blocks.append(Callout("note", question, [Steps(items)]))
    else:
        blocks.append(Callout("warning", "No detector was measured", [Paragraph("What failed is told below.")]))
    d = found.division
    facts = [
        Fact("Detectors", count(len(found.board))),
        Fact("Data sets", count(len(d.names))),
        Fact("Test patients", count(d.patients("test"))),
        Fact("Test images", count(len(d.rows("test")))),
        Fact("Failed", count(len(found.failed))),
    ]
    blocks.append(Facts(facts))
    if found.failed:
        items = [[Strong("Failed: "), Name(name), ": ", Name(why)] for name, why in found.failed.items()]
        blocks.append(Callout("warning", "Not everything is finished", [Steps(items)]))
    return blocks


def board_blocks(found: PairBenchmark, caption: str) -> list[Block]:
    """The leaderboard.

    Args:
        found: The benchmark.
        caption: Of it.
    """
    if not len(found.board):
        return []
    said = f"{caption} The reference is {found.reference}."
    saved = "tables/leaderboard.parquet"
    return [Table(frame=with_gaps(found.board), columns=board_columns(found), caption=said, elsewhere=saved)]


def table_blocks(found: PairBenchmark, *names: str) -> list[Block]:
    """Tables in the paper's layout where they have one, the corrected numbers below, and how they are made.

    Args:
        found: The benchmark.
        *names: Of the tables.
    """
    blocks: list[Block] = []
    for name in names:
        table = found.table(name)
        blocks.append(Heading(heading(table)))
        if table.why_empty:
            blocks.append(Paragraph(f"Empty: {table.why_empty}."))
            continue
        if len(table.paper.columns):
            blocks.append(printed(table))
        blocks.append(corrected(table, shown(found, table), CAPTIONS.get(name, "Intervals are 95 %.")))
        if table.note:
            blocks.append(Paragraph([Strong("How it is made. "), Name(table.note)]))
    return blocks


def setup_blocks(found: PairBenchmark) -> list[Block]:
    """What was run, and what must be said of the division."""
    split = "as given" if found.division.how == "given" else "drawn by patient"
    said: list[Text] = [f"Validation and test patients: {split}."]
    said += [[Name(note)] for note in found.division.notes]
    return [Steps(said), *table_blocks(found, "parts", "detectors", "missing")]
