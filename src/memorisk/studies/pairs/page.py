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
    """One of the two benchmarks as a study.

    Args:
        ready: The benchmark.
        kind: "reid" or "copies".
        work: Of one detector.
        read: Makes every number from what is finished.
        page: Lays them out.
        **more: What else may not change in its folder, beside whose images are where and what is drawn.
    """

    def run(folder: RunFolder, progress: Progress) -> None:
        """Write who is in which part, and measure the detectors."""
        write_table(folder / SPLIT, ready.division.table(ready.store.manifest))
        run_pair_cells(folder, ready.cells, work, progress)

    def report(benchmark: PairBenchmark) -> StudyReport:
        """Report the leaderboard, the tables and the figures."""
        frames = {"leaderboard": benchmark.board, **benchmark.figures}
        return StudyReport(
            page=page(benchmark), layout=_layout(benchmark), frames=frames, opening=[board_text(benchmark)]
        )

    identity = {"benchmark": kind, "data_hash": ready.store.data_hash, "division": ready.division_hash}
    return Study(
        out=ready.out,
        settings={"images": str(ready.images), "out": str(ready.out), **asdict(ready.options)},
        identity={**identity, "seed": ready.options.seed, **more},
        run=run,
        read=read,
        report=report,
    )


def board_text(benchmark: PairBenchmark) -> str:
    """The sentences and the leaderboard as Markdown; empty without a measured detector.

    Args:
        benchmark: The benchmark.
    """
    if not len(benchmark.board):
        return ""
    lines = "\n".join(f"- {escape_markdown(line)}" for line in findings(benchmark))
    return "\n\n".join([lines, "## Leaderboard", markdown_table(benchmark.board, board_columns(benchmark))])


def board_columns(benchmark: PairBenchmark) -> list[Column]:
    """The columns of the leaderboard that tell something, those of the protocol first."""
    columns = _layout(benchmark).shown(benchmark.board, "leaderboard")
    if benchmark.options.protocol == "corrected":
        return columns
    return sorted(columns, key=lambda c: (not c.row_heading, not c.source.endswith("_paper")))


def _layout(benchmark: PairBenchmark) -> TableLayout:
    return TableLayout(columns=benchmark.columns, captions=CAPTIONS)


CAPTIONS = {
    "parts": "Patients and pairs of each part.",
    "detectors": "Every detector that was asked for.",
    "missing": "Methods of the paper's table 2 without weights at hand.",
}


def lead(benchmark: PairBenchmark, question: str) -> list[Block]:
    """Lay out what stands before the contents: the findings, counts, and what failed.

    Args:
        benchmark: The benchmark.
        question: That it answers.
    """
    blocks: list[Block] = []
    if len(benchmark.board):
        items: list[Text] = [[Name(line)] for line in findings(benchmark)]
        blocks.append(Callout("note", question, [Steps(items)]))
    else:
        blocks.append(Callout("warning", "No detector was measured", [Paragraph("What failed is told below.")]))
    d = benchmark.division
    facts = [
        Fact("Detectors", count(len(benchmark.board))),
        Fact("Data sets", count(len(d.names))),
        Fact("Test patients", count(d.patients("test"))),
        Fact("Test images", count(len(d.rows("test")))),
        Fact("Failed", count(len(benchmark.failed))),
    ]
    return [*blocks, Facts(facts), *failure_blocks(benchmark.failed)]


def board_blocks(benchmark: PairBenchmark, caption: str) -> list[Block]:
    """Lay out the leaderboard.

    Args:
        benchmark: The benchmark.
        caption: Of it.
    """
    if not len(benchmark.board):
        return []
    shown_caption = f"{caption} The reference is {benchmark.reference}."
    saved = "tables/leaderboard.parquet"
    return [
        Table(
            frame=texts_as_missing(benchmark.board),
            columns=board_columns(benchmark),
            caption=shown_caption,
            elsewhere=saved,
        )
    ]


def _tables(benchmark: PairBenchmark, *names: str) -> list[Block]:
    return table_blocks(_layout(benchmark), *(benchmark.table(name) for name in names))


def setup_blocks(benchmark: PairBenchmark) -> list[Block]:
    """Lay out what was run, with notes on the division."""
    split = "as given" if benchmark.division.how == "given" else "drawn by patient"
    sentences: list[Text] = [f"Validation and test patients: {split}."]
    sentences += [[Name(note)] for note in benchmark.division.notes]
    return [Steps(sentences), *_tables(benchmark, "parts", "detectors", "missing")]


def reid_page(benchmark: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        benchmark: Of `benchmark_reid`.
    """
    matches = benchmark.table("false_matches")
    sections = [
        Section("Leaderboard", [*board_blocks(benchmark, _REID_CAPTION), *joint_figure(benchmark)], "leaderboard"),
        Section("Data sets", _tables(benchmark, "table_2"), "datasets"),
        Section("Less the reference", _tables(benchmark, "differences"), "differences"),
        Section("Decisions", _tables(benchmark, "table_4"), "decisions"),
        Section(
            "One against all", [*_tables(benchmark, "false_matches"), *score_figures(benchmark, matches.ours)], "all"
        ),
        Section("What was run", setup_blocks(benchmark), "setup"),
        Section("How to read this", [Steps(_REID_READING)], "reading"),
    ]
    return Page(
        title="Re-identification",
        subtitle=["Which detector tells that two images are of one patient? ", Name(benchmark.source)],
        lead=lead(benchmark, "What is told of patients who chose nothing?"),
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


def copies_page(benchmark: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        benchmark: Of `benchmark_copies`.
    """
    strongest = [*strongest_figure(benchmark)] if len(benchmark.board) else []
    sections = [
        Section("Leaderboard", [*board_blocks(benchmark, _COPIES_CAPTION), *joint_figure(benchmark)], "leaderboard"),
        Section("Strongest copies", [*strongest, *_tables(benchmark, "figure_4", "strongest")], "strongest"),
        Section("Less the reference", _tables(benchmark, "differences"), "differences"),
        Section("Recall against strength", strength_figures(benchmark), "strength"),
        Section("Thresholds", _tables(benchmark, "thresholds"), "thresholds"),
        Section("What was run", setup_blocks(benchmark), "setup"),
        Section("How to read this", [Steps(_COPIES_READING)], "reading"),
    ]
    return Page(
        title="Augmented copies",
        subtitle=["Which detector still recognises an image that was changed? ", Name(benchmark.source)],
        lead=lead(benchmark, "What is recognised of copies of patients who chose nothing?"),
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
