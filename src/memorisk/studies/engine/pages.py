"""Page of a study: what its schema says, with the tables, figures and findings of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from memorisk.report.blocks import Block, Callout, Details, Fact, Facts, Page, Paragraph, Section, Steps, Text
from memorisk.report.columns import count
from memorisk.report.glance import first_picture
from memorisk.studies.engine.layout import StudyLayout
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
    values_by_id = answers or {}
    sections = [
        Section(
            s.title,
            [
                *([Paragraph(s.answer.format_map(values_by_id[s.id]))] if s.id in values_by_id else []),
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


def finding_blocks(findings: Sequence[Text]) -> list[Block]:
    """Lay out the findings of a study: the first ones are in sight, the others are folded.

    Args:
        findings: Sentences, of which the first answers the question of the study.
    """
    first, more = findings[:FINDINGS_IN_SIGHT], findings[FINDINGS_IN_SIGHT:]
    return [Steps(first), *([Details(f"More findings ({len(more)})", [Steps(more)])] if more else [])]


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
