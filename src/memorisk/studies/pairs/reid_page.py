"""The page of ``bench reid``: leaderboard, tables 2 and 4, differences, one against all, figures 1 and 6."""

from memorisk.report.blocks import Name, Page, Paragraph, Section, Steps
from memorisk.studies.pairs.blocks import board_blocks, lead, setup_blocks, table_blocks
from memorisk.studies.pairs.figures import joint_figure, score_figures
from memorisk.studies.pairs.results import PairBenchmark


def reid_page(found: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        found: Of `benchmark_reid`.
    """
    matches = found.table("false_matches")
    sections = [
        Section("Leaderboard", [*board_blocks(found, _CAPTION), *joint_figure(found)], "leaderboard"),
        Section("Data sets", table_blocks(found, "table_2"), "datasets"),
        Section("Less the reference", table_blocks(found, "differences"), "differences"),
        Section("Decisions", table_blocks(found, "table_4"), "decisions"),
        Section("One against all", [*table_blocks(found, "false_matches"), *score_figures(found, matches.ours)], "all"),
        Section("What was run", setup_blocks(found), "setup"),
        Section("How to read this", [Steps(_READING)], "reading"),
    ]
    return Page(
        title="Re-identification",
        subtitle=["Which detector tells that two images are of one patient? ", Name(found.source)],
        lead=lead(found, "What is told of patients who chose nothing?"),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id. Scores are in cells/, who is in which part in "
                          "split.parquet.")],
    )  # fmt: skip


_CAPTION = "Detectors by their area under the ROC curve: mean over data sets, where there are several."
_READING = [
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
