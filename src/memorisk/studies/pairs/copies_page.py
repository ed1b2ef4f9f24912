"""The page of ``bench copies``: leaderboard, figures 1, 4 and 5, differences, thresholds."""

from memorisk.report.blocks import Name, Page, Paragraph, Section, Steps
from memorisk.studies.pairs.blocks import board_blocks, lead, setup_blocks, table_blocks
from memorisk.studies.pairs.figures import joint_figure, strength_figures, strongest_figure
from memorisk.studies.pairs.results import PairBenchmark


def copies_page(found: PairBenchmark) -> Page:
    """Lay out a benchmark; the same benchmark gives the same page.

    Args:
        found: Of `benchmark_copies`.
    """
    strongest = [*strongest_figure(found)] if len(found.board) else []
    sections = [
        Section("Leaderboard", [*board_blocks(found, _CAPTION), *joint_figure(found)], "leaderboard"),
        Section("Strongest copies", [*strongest, *table_blocks(found, "figure_4", "strongest")], "strongest"),
        Section("Less the reference", table_blocks(found, "differences"), "differences"),
        Section("Recall against strength", strength_figures(found), "strength"),
        Section("Thresholds", table_blocks(found, "thresholds"), "thresholds"),
        Section("What was run", setup_blocks(found), "setup"),
        Section("How to read this", [Steps(_READING)], "reading"),
    ]
    return Page(
        title="Augmented copies",
        subtitle=["Which detector still recognises an image that was changed? ", Name(found.source)],
        lead=lead(found, "What is recognised of copies of patients who chose nothing?"),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id. Scores are in cells/, who is in which part in "
                          "split.parquet.")],
    )  # fmt: skip


_CAPTION = (
    "Detectors by the share of the strongest copies that they recognise, at the threshold above which half of the "
    "validation pairs of two patients lie: mean over families and, where there are several, over data sets."
)
_READING = [
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
