"""Page of a study: tables 1 to 11 and figures 1 to 8 of paper 000, with the corrected numbers."""

from collections.abc import Mapping, Sequence
from math import factorial

import numpy as np

from memorisk.report.blocks import (
    Block,
    Callout,
    Details,
    Fact,
    Name,
    Page,
    Paragraph,
    Steps,
    Strong,
    Text,
)
from memorisk.report.columns import column_numbers, count
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.reasons import Count
from memorisk.studies.engine.layout import SectionSchema
from memorisk.studies.engine.pages import answer_sentence, lead_blocks, study_page
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.rare_distinctive.figures import (
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
from memorisk.studies.rare_distinctive.results import LAYOUT, StudyRuns

SIGNIFICANT = 0.05
"""Level below which a p-value counts in an answer."""
_FEWEST_CLASSES = next(n for n in range(2, 100) if 2 / factorial(n) < SIGNIFICANT)
"""Fewest classes whose orders by frequency and by mean M can agree so well that chance is below that level."""
_GUESSING = 0.5  # AUC of an attacker who guesses


def rarity_page(runs: StudyRuns, tables: Sequence[StudyTable]) -> Page:
    """Lay out a study.

    Args:
        runs: Finished and failed parts of the study.
        tables: Tables of ``studies.rare_distinctive.tables.study_tables``.
    """
    by_name = {table.name: table for table in tables}
    figures = (figure_1, figure_2, figure_3, figure_4a, figure_4b, figure_5, figure_6, figure_8)
    blocks = {figure.__name__: figure(by_name) for figure in figures} | {"figure_7": figure_7(runs)}
    held = "images, as requested, and no id" if runs.pictured else "no image and no id"
    answers = _answers(by_name)
    return study_page(LAYOUT, tables, blocks, lead=_lead(runs, tables, answers), answers=answers, held=held)


def _answers(by_name: Mapping[str, StudyTable]) -> dict[str, dict[str, int]]:
    """Count for each section with an answer what its table says; sections without numbers have none."""
    table = by_name["table_1"].ours
    rho, p = column_numbers(table, "class_rho"), column_numbers(table, "class_p")
    auc_low = column_numbers(by_name["table_8"].ours, "low")
    counts = {
        "rarity": {
            "n_cells": np.isfinite(rho).sum(),
            "n_negative": (rho < 0).sum(),
            "n_significant": ((rho < 0) & (p < SIGNIFICANT)).sum(),
            "n_possible": (column_numbers(table, "class_smallest_p") < SIGNIFICANT).sum(),
            "n_unranked": np.isnan(rho).sum(),
        },
        "attacks": {"n_measured": np.isfinite(auc_low).sum(), "n_exposed": (auc_low > _GUESSING).sum()},
    }
    return {
        section: {name: int(n) for name, n in numbers.items()}
        for section, numbers in counts.items()
        if next(iter(numbers.values()))
    }


def _lead(runs: StudyRuns, tables: Sequence[StudyTable], answers: Mapping[str, Mapping[str, int]]) -> list[Block]:
    empty = [table.name.removeprefix("table_") for table in tables if table.why_empty]
    protocol: list[Block] = [Paragraph(LAYOUT.sentences["paper" if runs.protocol == "paper" else "corrected"])]
    if empty:
        protocol.append(Paragraph(f"Empty tables: {', '.join(empty)}; each says why."))
    section = LAYOUT.page.sections[0]
    blocks = [
        Paragraph(_rarity_answer(section, answers, bool(runs.cells))),
        Details(f"Protocol: {runs.protocol}", protocol),
    ]
    datasets = {dataset for _, dataset in runs.cells}
    facts = {
        "Architectures": len({architecture for architecture, _ in runs.cells}),
        "Data sets": Fact("Data sets", count(len(datasets)), "the independent units of a study"),
        "Cells finished": len(runs.cells),
    }
    warnings = list[Callout]()
    if doubts := tables[0].doubts:
        cells = plural(len(runs.cells), "cell", "cells")
        title = LAYOUT.sentences["untrained"].format(n=f"{len(doubts):,}", cells=cells)
        warnings.append(Callout("warning", title, [Details("Which cells", [Steps([Name(line) for line in doubts])])]))
    return lead_blocks(Callout("note", section.title, blocks), facts, runs.failed, *warnings)


def _rarity_answer(section: SectionSchema, answers: Mapping[str, Mapping[str, int]], any_cell: bool) -> Text:
    """Answer whether rare classes are memorized more: whether that was shown, and whether it could have been."""
    if section.id not in answers:
        return LAYOUT.sentences["no_ranks"] if any_cell else "No cell has numbers yet."
    values = answers[section.id]
    outcome = "shown" if values["n_significant"] else "not_shown" if values["n_possible"] else "too_few_classes"
    unranked = LAYOUT.sentences["unranked"] if values["n_unranked"] else ""
    numbers = {name: Count(n) for name, n in values.items()} | {"fewest": Count(_FEWEST_CLASSES)}
    answer, rest = (text.format_map(numbers) for text in (LAYOUT.sentences[outcome], unranked))
    return [Strong(answer), f" {answer_sentence(section, values)} {rest}".rstrip()]
