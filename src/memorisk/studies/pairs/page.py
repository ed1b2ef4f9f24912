"""The run folder and the page of both benchmarks: tables as Parquet and Markdown, the terminal's leaderboard.

``bench reid`` shows its leaderboard, tables 2 and 4, differences, one against all, figures 1 and 6; ``bench
copies`` its leaderboard, figures 1, 4 and 5, differences, thresholds.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Fact,
    Facts,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
)
from memorisk.report.columns import count
from memorisk.runs.files import write_table
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Progress
from memorisk.studies.engine.study import Study, StudyReport
from memorisk.studies.engine.tables import (
    TableLayout,
    escape_markdown,
    failure_blocks,
    markdown_table,
    table_blocks,
    texts_as_missing,
)
from memorisk.studies.pairs.cells import CellMeasurement, run_pair_cells
from memorisk.studies.pairs.figures import joint_figure, score_figures, strength_figures, strongest_figure
from memorisk.studies.pairs.plan import BenchmarkSetup
from memorisk.studies.pairs.results import PairBenchmark, findings

SPLIT = "split.parquet"


def pair_study(
    ready: BenchmarkSetup,
    kind: str,
    work: CellMeasurement,
    read: Callable[[], PairBenchmark],
    page: Callable[[PairBenchmark], Page],
    **more: Any,
) -> Study[PairBenchmark]:
    """Return one of the two benchmarks as a study.

    Args:
        ready: Benchmark before anything is computed.
        kind: "reid" or "copies".
        work: Function that measures one detector.
        read: Function that computes every number from what is finished.
        page: Function that lays the numbers out.
        **more: Further settings that may not change in its folder, besides the images, their division and the seed.
    """

    def run(folder: RunFolder, progress: Progress) -> None:
        """Write the part of each patient, and measure the detectors."""
        write_table(folder / SPLIT, ready.division.table(ready.store.manifest))
        run_pair_cells(folder, ready.cells, work, progress)

    def report(result: PairBenchmark) -> StudyReport:
        """Report the leaderboard, the tables and the figures."""
        frames = {"leaderboard": result.board, **result.figures}
        return StudyReport(page=page(result), layout=_layout(result), frames=frames, opening=[board_text(result)])

    identity = {"benchmark": kind, "data_hash": ready.store.data_hash, "division": ready.division_hash}
    return Study(
        out=ready.out,
        settings={"images": str(ready.images), "out": str(ready.out), **asdict(ready.options)},
        identity={**identity, "seed": ready.options.seed, **more},
        run=run,
        read=read,
        report=report,
    )


def board_text(result: PairBenchmark) -> str:
    """Format the sentences and the leaderboard as Markdown; empty without a measured detector.

    Args:
        result: Benchmark with its numbers.
    """
    if not len(result.board):
        return ""
    lines = "\n".join(f"- {escape_markdown(line)}" for line in findings(result))
    return "\n\n".join([lines, "## Leaderboard", markdown_table(result.board, board_columns(result))])


def board_columns(result: PairBenchmark) -> list[Column]:
    """Return the columns of the leaderboard that hold something, those of the protocol first."""
    columns = _layout(result).shown(result.board, "leaderboard")
    if result.options.protocol == "corrected":
        return columns
    return sorted(columns, key=lambda c: (not c.row_heading, not c.source.endswith("_paper")))


def _layout(result: PairBenchmark) -> TableLayout:
    return TableLayout(columns=result.columns, captions=CAPTIONS)


CAPTIONS = {
    "parts": "Patients and pairs of each part.",
    "detectors": "Every requested detector.",
    "missing": "Methods of the paper's table 2 without weights at hand.",
}


def lead(result: PairBenchmark, question: str) -> list[Block]:
    """Lay out the blocks before the contents: the findings, counts, and failures.

    Args:
        result: Benchmark with its numbers.
        question: Question that it answers.
    """
    blocks: list[Block] = []
    if len(result.board):
        items: list[Text] = [[Name(line)] for line in findings(result)]
        blocks.append(Callout("note", question, [Steps(items)]))
    else:
        blocks.append(Callout("warning", "No detector was measured", [Paragraph("The failures are listed below.")]))
    d = result.division
    facts = [
        Fact("Detectors", count(len(result.board))),
        Fact("Data sets", count(len(d.names))),
        Fact("Test patients", count(d.patients("test"))),
        Fact("Test images", count(len(d.rows("test")))),
        Fact("Failed", count(len(result.failed))),
    ]
    return [*blocks, Facts(facts), *failure_blocks(result.failed)]


def board_blocks(result: PairBenchmark, caption: str) -> list[Block]:
    """Lay out the leaderboard.

    Args:
        result: Benchmark with its numbers.
        caption: Caption of the leaderboard.
    """
    if not len(result.board):
        return []
    shown_caption = f"{caption} The reference is {result.reference}."
    saved = "tables/leaderboard.parquet"
    return [
        Table(
            frame=texts_as_missing(result.board), columns=board_columns(result), caption=shown_caption, elsewhere=saved
        )
    ]


def _tables(result: PairBenchmark, *names: str) -> list[Block]:
    return table_blocks(_layout(result), *(result.table(name) for name in names))


def setup_blocks(result: PairBenchmark) -> list[Block]:
    """Lay out what was run, with notes on the division."""
    split = "as given" if result.division.how == "given" else "drawn by patient"
    sentences: list[Text] = [f"Validation and test patients: {split}."]
    sentences += [[Name(note)] for note in result.division.notes]
    return [Steps(sentences), *_tables(result, "parts", "detectors", "missing")]


def reid_page(result: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        result: Result of `benchmark_reid`.
    """
    matches = result.table("false_matches")
    sections = [
        Section("Leaderboard", [*board_blocks(result, _REID_CAPTION), *joint_figure(result)], "leaderboard"),
        Section("Data sets", _tables(result, "table_2"), "datasets"),
        Section("Less the reference", _tables(result, "differences"), "differences"),
        Section("Decisions", _tables(result, "table_4"), "decisions"),
        Section("One against all", [*_tables(result, "false_matches"), *score_figures(result, matches.ours)], "all"),
        Section("What was run", setup_blocks(result), "setup"),
        Section("How to read this", [Steps(_REID_READING)], "reading"),
    ]
    return Page(
        title="Re-identification",
        subtitle=["Which detector tells that two images are of one patient? ", Name(result.source)],
        lead=lead(result, "What is recognised of patients who chose nothing?"),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id. Scores are in cells/, who is in which part in "
                          "split.parquet.")],
    )  # fmt: skip


_REID_CAPTION = "Detectors by their area under the ROC curve: mean over data sets, where there are several."
_REID_READING = [
    "Positive pairs: all pairs of different images of a test patient; for each of them one pair of two patients of the "
    "same data set. Scores of different detectors do not compare, their order does.",
    "Every patient counts one: a patient's pairs weigh 1 / their number. Counted alike, as papers do, a few patients "
    "with many images are the result; those numbers are in columns of their own.",
    "Intervals are delete-one-patient jackknives, of 95 % each by itself, not all of them at once. They are for these "
    "trained detectors: another training may be better or worse.",
    "An order of estimates is a selection: the first of many is expected to do less well on the next patients. "
    "Differences to the reference are paired: both see the same pairs.",
    "Nothing here is a promise about copies that a generator makes; a filter's promise is memorisk filter's.",
]


def copies_page(result: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        result: Result of `benchmark_copies`.
    """
    strongest = [*strongest_figure(result)] if len(result.board) else []
    sections = [
        Section("Leaderboard", [*board_blocks(result, _COPIES_CAPTION), *joint_figure(result)], "leaderboard"),
        Section("Strongest copies", [*strongest, *_tables(result, "figure_4", "strongest")], "strongest"),
        Section("Less the reference", _tables(result, "differences"), "differences"),
        Section("Recall against strength", strength_figures(result), "strength"),
        Section("Thresholds", _tables(result, "thresholds"), "thresholds"),
        Section("What was run", setup_blocks(result), "setup"),
        Section("How to read this", [Steps(_COPIES_READING)], "reading"),
    ]
    return Page(
        title="Augmented copies",
        subtitle=["Which detector still recognises an image that was changed? ", Name(result.source)],
        lead=lead(result, "What is recognised of copies of patients who chose nothing?"),
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
    "higher does not matter here; bench detectors tests that.",
    "One rule makes the threshold of every detector. Half of the pairs of two patients reach the first one, so that a "
    "detector that knows nothing recognises half of the copies.",
    "Every patient counts one. Intervals are over patients, of 95 % each by itself, not all of them at once, with the "
    "thresholds as the validation patients made them.",
    "Copies are made from the seed and not kept. What is drawn for an image is the same at every strength: the noise "
    "of a stronger copy is that of the weaker one, enlarged.",
    "These are copies of the stated kinds; a generator's copies are others.",
]
