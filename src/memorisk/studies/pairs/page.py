"""The run folder and the page of both benchmarks: tables as Parquet and Markdown, the terminal's leaderboard.

``bench reid`` shows its leaderboard, tables 2 and 4, differences, one against all, figures 1 and 6; ``bench
copies`` its leaderboard, figures 1, 4 and 5, differences, thresholds.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    Table,
    Text,
)
from memorisk.report.columns import count
from memorisk.report.page import render_page
from memorisk.runs.environment import machine, versions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_table, write_text
from memorisk.runs.folder import RunFolder, check_out_folder, open_run
from memorisk.studies.detectors.tables import has_values, heading
from memorisk.studies.engine.tables import (
    corrected_block,
    escape_markdown,
    markdown_table,
    paper_block,
    texts_as_missing,
)
from memorisk.studies.pairs.figures import joint_figure, score_figures, strength_figures, strongest_figure
from memorisk.studies.pairs.plan import BenchmarkSetup
from memorisk.studies.pairs.results import PairBenchmark, findings
from memorisk.studies.rare_distinctive.results import StudyTable

TABLES, REPORT, SPLIT = "tables", "report.html", "split.parquet"


def check_benchmark_folder(folder: Path, tables_only: bool) -> None:
    """Refuse to lay out a run that is not there.

    Raises:
        InputError: It is not.
    """
    if tables_only and not folder.is_dir():
        raise InputError(f"--out {one_line(folder)} is not there: a benchmark that was never run has no tables")


@contextmanager
def open_bench(
    folder: Path, ready: BenchmarkSetup, config: Mapping[str, Any], identity: Mapping[str, Any]
) -> Iterator[RunFolder]:
    """Open the run folder, write who is in which part, and log begin and end.

    Args:
        folder: Of the run.
        ready: The benchmark.
        config: Its settings.
        identity: What may not change in the folder.

    Raises:
        InputError: The folder holds something else.
    """
    check_out_folder(folder, {"run": identity}, identity=["run"])
    with open_run(folder, {**config, "run": dict(identity)}, identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        write_table(run / SPLIT, ready.division.table(ready.store.manifest))
        yield run
        run.log("finished", failed=[cell.name for cell in ready.cells if not cell.done])


def write_bench(run: RunFolder, found: PairBenchmark, page: Page) -> None:
    """Every table as Parquet and Markdown, and the page.

    Args:
        run: The run folder.
        found: The benchmark.
        page: Its page.
    """
    folder = run.subfolder(TABLES)
    frames = {"leaderboard": found.board, **found.figures}
    for table in found.tables:
        frames |= {f"{table.name}_paper": table.paper, f"{table.name}_ours": table.ours}
    for name, frame in frames.items():
        if len(frame.columns):
            write_table(folder / f"{name}.parquet", frame)
    write_text(folder / "tables.md", tables_text(found))
    write_text(run / REPORT, render_page(page))


def tables_text(found: PairBenchmark) -> str:
    """All tables as Markdown, the leaderboard first.

    Args:
        found: The benchmark.
    """
    blocks = [board_text(found)] if len(found.board) else []
    for table in found.tables:
        blocks.append(f"## {heading(table)}")
        if table.why_empty:
            blocks.append(f"Empty: {table.why_empty}.")
            continue
        if len(table.paper.columns):
            blocks += ["As the paper prints it:", markdown_table(table.paper), "Corrected, intervals are 95 %:"]
        blocks += [markdown_table(table.ours, shown_columns(found, table)), escape_markdown(table.note)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def board_text(found: PairBenchmark) -> str:
    """The sentences and the leaderboard as Markdown; empty without a measured detector.

    Args:
        found: The benchmark.
    """
    from memorisk.studies.pairs.results import findings

    if not len(found.board):
        return ""
    said = "\n".join(f"- {escape_markdown(line)}" for line in findings(found))
    return "\n\n".join([said, "## Leaderboard", markdown_table(found.board, board_columns(found))])


def board_columns(found: PairBenchmark) -> list[Column]:
    """The columns of the leaderboard that tell something, those of the protocol first."""
    columns = [c for c in found.columns["leaderboard"] if has_values(found.board, c.source)]
    if found.options.protocol == "corrected":
        return columns
    return sorted(columns, key=lambda c: (not c.row_heading, not c.source.endswith("_paper")))


def shown_columns(found: PairBenchmark, table: StudyTable) -> list[Column]:
    """The columns of a table's corrected numbers that hold something."""
    return [c for c in found.columns[table.name] if has_values(table.ours, c.source)]


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
    return [Table(frame=texts_as_missing(found.board), columns=board_columns(found), caption=said, elsewhere=saved)]


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
            blocks.append(paper_block(table))
        blocks.append(corrected_block(table, shown_columns(found, table), CAPTIONS.get(name, "Intervals are 95 %.")))
        if table.note:
            blocks.append(Paragraph([Strong("How it is made. "), Name(table.note)]))
    return blocks


def setup_blocks(found: PairBenchmark) -> list[Block]:
    """What was run, and what must be said of the division."""
    split = "as given" if found.division.how == "given" else "drawn by patient"
    said: list[Text] = [f"Validation and test patients: {split}."]
    said += [[Name(note)] for note in found.division.notes]
    return [Steps(said), *table_blocks(found, "parts", "detectors", "missing")]


def reid_page(found: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        found: Of `benchmark_reid`.
    """
    matches = found.table("false_matches")
    sections = [
        Section("Leaderboard", [*board_blocks(found, _REID_CAPTION), *joint_figure(found)], "leaderboard"),
        Section("Data sets", table_blocks(found, "table_2"), "datasets"),
        Section("Less the reference", table_blocks(found, "differences"), "differences"),
        Section("Decisions", table_blocks(found, "table_4"), "decisions"),
        Section("One against all", [*table_blocks(found, "false_matches"), *score_figures(found, matches.ours)], "all"),
        Section("What was run", setup_blocks(found), "setup"),
        Section("How to read this", [Steps(_REID_READING)], "reading"),
    ]
    return Page(
        title="Re-identification",
        subtitle=["Which detector tells that two images are of one patient? ", Name(found.source)],
        lead=lead(found, "What is told of patients who chose nothing?"),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id. Scores are in cells/, who is in which part in "
                          "split.parquet.")],
    )  # fmt: skip


_REID_CAPTION = "Detectors by their area under the ROC curve: mean over data sets, where there are several."
_REID_READING = [
    "Positive pairs: all pairs of different images of a test patient; beside each one pair of two patients of the same "
    "data set. Scores of different detectors do not compare, their order does.",
    "Every patient counts one: a patient's pairs weigh 1 / their number. Counted alike, as papers do, a few patients "
    "with many images are the result; those numbers stand beside.",
    "Intervals are delete-one-patient jackknives, of 95 % each by itself, not all of them at once. They are for these "
    "trained detectors: another training may be better or worse.",
    "An order of estimates is a selection: the first of many is expected to do less well on the next patients. "
    "Differences to the reference are paired: both see the same pairs.",
    "Nothing here is a promise about copies that a generator makes; a filter's promise is memorisk filter's.",
]


def copies_page(found: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        found: Of `benchmark_copies`.
    """
    strongest = [*strongest_figure(found)] if len(found.board) else []
    sections = [
        Section("Leaderboard", [*board_blocks(found, _COPIES_CAPTION), *joint_figure(found)], "leaderboard"),
        Section("Strongest copies", [*strongest, *table_blocks(found, "figure_4", "strongest")], "strongest"),
        Section("Less the reference", table_blocks(found, "differences"), "differences"),
        Section("Recall against strength", strength_figures(found), "strength"),
        Section("Thresholds", table_blocks(found, "thresholds"), "thresholds"),
        Section("What was run", setup_blocks(found), "setup"),
        Section("How to read this", [Steps(_COPIES_READING)], "reading"),
    ]
    return Page(
        title="Augmented copies",
        subtitle=["Which detector still recognises an image that was changed? ", Name(found.source)],
        lead=lead(found, "What is recognised of copies of patients who chose nothing?"),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id. Scores are in cells/, who is in which part in "
                          "split.parquet.")],
    )  # fmt: skip


_COPIES_CAPTION = (
    "Detectors by the share of the strongest copies that they recognise, at the threshold above which half of the "
    "validation pairs of two patients lie: mean over families and, where there are several, over data sets."
)
_COPIES_READING = [
    "A copy is recognised where its score with its own source reaches the threshold. Whether another image scores "
    "higher is not asked; bench detectors asks that.",
    "One rule makes the threshold of every detector. Half of the pairs of two patients reach the first one, so that a "
    "detector that knows nothing recognises half of the copies.",
    "Every patient counts one. Intervals are over patients, of 95 % each by itself, not all of them at once, with the "
    "thresholds as the validation patients made them.",
    "Copies are made from the seed and not kept. What is drawn for an image is the same at every strength: the noise "
    "of a stronger copy is that of the weaker one, enlarged.",
    "These are copies of the stated kinds; a generator's copies are others.",
]
