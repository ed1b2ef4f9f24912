"""Page of a study: what its schema says, with the tables, figures and findings of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from memorisk.report.blocks import Block, Callout, Column, Details, Fact, Facts, Page, Paragraph, Section, Steps, Text
from memorisk.report.columns import FORMATS, column_numbers, count
from memorisk.report.glance import first_picture
from memorisk.statistics.verdicts.reasons import Count
from memorisk.studies.engine.layout import SectionSchema, StudyLayout
from memorisk.studies.engine.tables import StudyTable, failure_blocks, table_blocks

FINDINGS_IN_SIGHT = 1
"""Number of findings that a page does not fold."""


def study_page(
    layout: StudyLayout,
    tables: Sequence[StudyTable],
    blocks: Mapping[str, Sequence[Block]],
    *,
    lead: Sequence[Block],
    subtitle: Text = "",
    redacted: bool = False,
    answers: Mapping[str, Mapping[str, Any]] | None = None,
    **values: Any,
) -> Page:
    """Lay out the page of a study in the order of its schema; the last section says how to read it.

    Args:
        layout: Schemas of the study.
        tables: Tables of the study.
        blocks: Further blocks of its sections, as figures, by name; they replace a table of the same name.
        lead: Blocks before the contents.
        subtitle: Subtitle, in place of the schema's.
        redacted: Whether ids and images are left out.
        answers: Values of the sentence that answers a section's title, by the section's id.
        **values: Values of the names in braces in the schema's sentences.
    """
    page, blocks_by_name = layout.page, {table.name: table_blocks(table) for table in tables} | dict(blocks)
    by_name = {table.name: table for table in tables}
    values_by_id = dict(answers or {})
    for section in page.sections:
        if section.of:
            table, source = section.of.split(".")
            values_by_id[section.id] = answer_numbers(by_name[table].ours, by_name[table].schema.columns, source)
    sections = [
        Section(
            s.title,
            [
                *([Paragraph(answer_sentence(s, values_by_id[s.id]))] if values_by_id.get(s.id) else []),
                *(block for name in s.shows for block in blocks_by_name[name]),
            ],
            s.id,
        )
        for s in page.sections
    ]
    optional = {s.id for s in page.sections if s.optional}
    answer, *rest = lead
    reading: list[Text] = [sentence.format_map(values) for sentence in page.reading]
    return Page(
        title=page.title,
        subtitle=subtitle or page.subtitle,
        lead=[answer, *first_picture(sections), *rest],
        sections=[
            *(section for section in sections if section.blocks or section.id not in optional),
            Section("How to read this", [Steps(reading)], "reading"),
        ],
        footer=[Paragraph(page.footer.format_map(values))],
        redacted=redacted,
    )


def answer_sentence(section: SectionSchema, values: Mapping[str, Any]) -> str:
    """Write the sentence that answers the title of a section.

    Args:
        section: Schema of the section.
        values: Values of the names in braces; ``{n:cell|cells}`` is a number with its noun.
    """
    return section.answer.format_map({name: Count(v) if isinstance(v, int) else v for name, v in values.items()})


def answer_numbers(frame: pd.DataFrame, columns: Sequence[Column], source: str) -> dict[str, Any]:
    """Return the numbers of a column that the answer of a section may state.

    Args:
        frame: Table with the estimates and their limits.
        columns: Columns of the table.
        source: Name of the column of the estimates.

    Returns:
        ``span`` of the estimates, as "12.0 % to 34.0 %"; number of intervals, and of those that lie above and below 0:
        ``n_measured``, ``n_above``, ``n_below``. Nothing without an interval.
    """
    column = next(one for one in columns if one.source == source)
    low, high = (column_numbers(frame, limit) for limit in column.interval or (source, source))
    measured = np.isfinite(low) & np.isfinite(high)
    if not measured.any():
        return {}
    estimates = column_numbers(frame, source)
    ends = [FORMATS[column.format](end) for end in (np.nanmin(estimates), np.nanmax(estimates))]
    counted = {"n_measured": measured, "n_above": measured & (low > 0), "n_below": measured & (high < 0)}
    return {"span": " to ".join(dict.fromkeys(ends))} | {name: int(chosen.sum()) for name, chosen in counted.items()}


def finding_blocks(findings: Sequence[Text]) -> list[Block]:
    """Lay out the findings of a study: the first ones are in sight, the others are folded.

    Args:
        findings: Sentences, of which the first answers the question of the study.
    """
    first, more = findings[:FINDINGS_IN_SIGHT], findings[FINDINGS_IN_SIGHT:]
    return [*map(Paragraph, first), *([Details(f"More findings ({len(more)})", [Steps(more)])] if more else [])]


def lead_blocks(
    answer: Callout, facts: Mapping[str, int | Fact], failed: Mapping[str, str], *warnings: Callout
) -> list[Block]:
    """Lay out the blocks before the contents: the answer, numbers to remember, warnings, and failures.

    Args:
        answer: Answer to the question of the study.
        facts: Numbers by name.
        failed: Reason of each failure, by name.
        *warnings: Callouts that limit the answer.
    """
    items = [fact if isinstance(fact, Fact) else Fact(name, count(fact)) for name, fact in facts.items()]
    return [answer, Facts(items), *warnings, *failure_blocks(failed)]
