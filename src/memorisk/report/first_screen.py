"""First screen of a run: what a reader must see of it first, as data.

A kind of runs declares the function that makes it of an outcome (`RunKind.first_screen`). The report lays it out as
its lead, the terminal prints it, and a notebook shows it. A report shows the answer before it explains it: one
sentence, pictures, four numbers and one thing to do are in sight, and everything else is folded below them
(`recipes/first_screens.py` counts the words before the first scroll).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memorisk.report.blocks import (
    Block,
    Callout,
    Details,
    Fact,
    Facts,
    Kind,
    Name,
    Panel,
    Paragraph,
    Steps,
    Strong,
    Table,
    Text,
)
from memorisk.report.columns import capitalized
from memorisk.report.kinds import kind_of, load_part
from memorisk.report.result import Result, redact
from memorisk.report.statements.statement import WAYS, run_headline

MOST_SENTENCES = 6
"""Largest number of sentences of a list that the terminal prints; a page folds each list."""
MOST_FACTS = 4
"""Largest number of facts of a page that are in sight; the others are folded."""
BOXES: Mapping[str, Kind] = {"pass": "pass", "fail": "fail", "undecided": "undecided"}
"""Kind of the box around a verdict, by status."""


@dataclass(frozen=True, kw_only=True)
class FirstScreen:
    """Verdict, reasons, what to do, and the numbers to remember; the report has all else."""

    kind: Kind
    """Kind of the box around the verdict."""
    headline: str
    sentences: Sequence[Text] = ()
    """Sentences on what a reader is to conclude, each a paragraph. The first is the answer; on a page the others are
    folded."""
    next_step: str = ""
    """First remedy, on a page; the terminal prints a list of remedies."""
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Reasons, remedies and promises by their heading; empty ones are left out."""
    warnings: Mapping[str, str] = field(default_factory=dict)
    """Limits of the numbers that must not be missed, by their title."""
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    """Tables that the terminal and a notebook show; in the report they have sections of their own."""
    notes: Sequence[Text] = ()
    """Notes for the terminal and a notebook; in the report they have sections of their own."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Further files of the run folder that a reader may need next, by what they are."""

    def blocks(self, pictures: Sequence[Block] = ()) -> list[Block]:
        """Lay out the lead of the report.

        Args:
            pictures: Figures and galleries that answer the heading.
        """
        answer: list[Block] = [Paragraph(sentence) for sentence in self.sentences[:1]]
        if self.next_step:
            answer.append(Paragraph([Strong("Needed: "), Name(self.next_step)]))
        warnings = [
            Callout("warning", title, [Details("What this means", [Paragraph(Name(text))])])
            for title, text in self.warnings.items()
        ]
        folded = [
            Details(f"{heading} ({len(sentences)})", [Steps([Name(capitalized(sentence)) for sentence in sentences])])
            for heading, sentences in self.lists.items()
            if sentences
        ]
        if rest := self.sentences[1:]:
            folded.append(Details("What this says, and of what", [Paragraph(sentence) for sentence in rest]))
        if more := self.facts[MOST_FACTS:]:
            folded.append(Details("More numbers", [Facts(more)]))
        return [
            Callout(self.kind, self.headline, answer),
            *warnings,
            *([Panel(pictures)] if pictures else []),
            *([Facts(self.facts[:MOST_FACTS])] if self.facts else []),
            *folded,
        ]


def first_screen(outcome: Any, kind: str = "") -> FirstScreen:
    """Return the first screen of a finished run, without ids where the run hides them.

    Args:
        outcome: Result of the run, as its function returned it.
        kind: Name of its kind; by default the kind that the verdict of a `Result` names.
    """
    if isinstance(outcome, Result) and outcome.redacted:
        outcome = outcome.replace(verdict=redact(outcome).verdict)
    place = kind_of(kind or outcome.verdict.get("audit") or "classifier").first_screen
    return load_part(place)(outcome) if place else verdict_screen(outcome)


def verdict_screen(result: Result, headline: str = "") -> FirstScreen:
    """Return what the first screen of every verdict has: box, headline, reasons and remedies.

    Args:
        result: Result with the verdict.
        headline: Headline where the kind has one of its own.
    """
    status = result.status if result.status in BOXES else "undecided"
    ways = {WAYS[status]: result.what_would_decide} if status in WAYS else {}
    return FirstScreen(
        kind=BOXES[status],
        headline=headline or run_headline(status, result.verdict.get("audit")),
        lists={"Why": result.why, **ways},
        next_step=next((str(reason["next"]) for reason in result.reasons if reason.get("next")), "") if ways else "",
    )
