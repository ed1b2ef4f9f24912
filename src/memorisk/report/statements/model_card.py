"""A section for a model card, from a privacy statement: the same numbers in plain words, ``model-card.md``.

Every text of the statement is of unknown origin to a page on the web. The section shows it as text, and takes nothing
in it for Markdown or HTML.
"""

from collections.abc import Iterable, Iterator, Sequence

from memorisk.report.flagged import NOT_TESTED
from memorisk.report.kinds import kind_of
from memorisk.report.statements.statement import (
    FAIL,
    HEADLINES,
    PASS,
    UNDECIDED,
    WAYS,
    AuditStatement,
    Figure,
    Released,
    Statement,
)
from memorisk.report.text import visible
from memorisk.runs.errors import plural

HEADING = "## Privacy: what the model remembers of people"
_SPECIAL = {ord(c): f"\\{c}" for c in "\\`*_{}[]#|~$"} | {ord("<"): "&lt;", ord(">"): "&gt;", ord("&"): "&amp;"}
_STATUS = {
    PASS: f"**{HEADLINES[PASS]}.** This holds for what is listed below and nothing else.",
    FAIL: f"**{HEADLINES[FAIL]}.**",
    UNDECIDED: f"**{HEADLINES[UNDECIDED]}.** That is not a pass.",
}
COUNTS_OF_LISTS = ("flagged", "listed")
"""Figures that say how many people are on a list: without a value no list was possible."""
_ONE = {
    "pass": "nothing was found of what was looked for",
    "fail": "failed",
    "undecided": "could not be decided, which is no pass",
    "not asked": "says nothing of privacy",
}


def model_card(statement: Statement) -> str:
    """Return the section in Markdown.

    Args:
        statement: Statement of finished runs.
    """
    return "\n".join(_lines(statement)).rstrip("\n") + "\n"


def _lines(statement: Statement) -> Iterator[str]:
    verdict = statement.verdict
    yield from (HEADING, "", _STATUS[verdict.status], "")
    yield from _bullets(verdict.why)
    if verdict.contradictions:
        yield from ("Where the runs do not fit together:", "", *_bullets(one.text for one in verdict.contradictions))
    if verdict.what_would_decide and verdict.status != "pass":
        yield from (f"{WAYS[verdict.status]}:", "", *_bullets(verdict.what_would_decide))
    yield from _released(statement)
    for number, audit in enumerate(statement.audits, 1):
        yield from _audit(number, audit)
    version = escaped(statement.memorisk)
    yield f"Made by memorisk {version} from `privacy-statement.json`, which says the same for machines."


def _released(statement: Statement) -> Iterator[str]:
    """List the audited files."""
    if not statement.released:
        yield from (
            "**No file was tied to these results**: they do not say that the files here are what was audited.",
            "",
        )
        return
    yield from ("These results are about the following, and about nothing else:", "")
    rows = [
        [_what(one), one.form, f"`{one.sha256}`", f"{one.files:,}", ", ".join(str(n + 1) for n in one.audits)]
        for one in statement.released
    ]
    yield from _table(("What", "Form", "SHA-256", "Files", "Runs"), rows)


def _what(released: Released) -> str:
    """Name a released part, with size, channels and depth for images."""
    return released.what if released.pixels is None else f"{released.what}, {released.pixels.words}"


def _audit(number: int, audit: AuditStatement) -> Iterator[str]:
    """Describe one run."""
    yield from (f"### {number}. {kind_of(audit.kind).title}: {_ONE[audit.status]}", "", escaped(audit.question), "")
    yield from _bullets(audit.why)
    if audit.subject.why:
        yield from (escaped(audit.subject.why), "")
    rows = [_number(figure) for figure in audit.figures if figure.name in COUNTS_OF_LISTS or figure.value is not None
            or figure.high is not None or figure.low is not None or figure.p_value is not None]  # fmt: skip
    yield from _table(("Figure", "Value", "Interval", "p", "Counted"), rows)
    kinds = f"Copies of the kinds {', '.join(audit.kinds_not_tried)}: none was planted."
    yield from _titled("Not examined", (*([kinds] if audit.kinds_not_tried else []), *audit.not_examined))
    yield from _titled("What the figures rest on", audit.assumptions)
    yield from _titled("Limits", [limit for limit in audit.limits if limit not in audit.not_examined])
    yield from (_how(audit), "")


def _number(figure: Figure) -> list[str]:
    """Format a figure as a row."""
    level = "" if figure.confidence is None else f" ({100 * figure.confidence:.4g} %)"
    if figure.low is not None and figure.high is not None:
        interval = f"{_short(figure.low)} to {_short(figure.high)}{level}"
    elif figure.high is not None:
        interval = f"at most {_short(figure.high)}{level}"
    elif figure.low is not None:
        interval = f"at least {_short(figure.low)}{level}"
    else:
        interval = ""
    counted = "" if figure.n is None else f"{figure.n:,} {escaped(figure.unit)}"
    value = NOT_TESTED if figure.name in COUNTS_OF_LISTS and figure.value is None else _short(figure.value)
    return [escaped(figure.title), value, interval, _short(figure.p_value), counted]


def _how(audit: AuditStatement) -> str:
    """Return method, units, level, data and seeds in one paragraph."""
    data = "; ".join(
        f"{escaped(part.part)} `{escaped(part.fingerprint)}`"
        + ("" if part.images is None else f" ({plural(part.images, 'image', 'images')})")
        for part in audit.data
    )
    level = "" if audit.level is None else f" Level {_short(audit.level)}; {escaped(audit.correction)}."
    units = "" if audit.n_units is None else f" Independent units: {audit.n_units:,} {audit.units}."
    models = "" if audit.n_models is None else f" Models: {audit.n_models:,}."
    seeds = f" Seeds: {', '.join(map(str, audit.seeds))}." if audit.seeds else ""
    method = f"Method: {escaped(audit.method.name)} ({escaped(audit.method.source)})."
    return f"{method}{units}{models}{level} Data: {data or 'not given'}.{seeds}"


def _short(value: float | None) -> str:
    """Write a number for a reader: whole numbers with commas, else four significant digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _titled(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield from (f"{title}:", "", *_bullets(texts))


def _bullets(texts: Iterable[str]) -> Iterator[str]:
    lines = [f"- {escaped(text)}" for text in texts]
    yield from (*lines, "") if lines else ()


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield f"| {' | '.join(headings)} |"
        yield f"|{'---|' * len(headings)}"
        yield from (f"| {' | '.join(row)} |" for row in rows)
        yield ""


def escaped(text: object) -> str:
    """Return a text of unknown origin on one line of Markdown, in which nothing is markup or becomes a link."""
    return (
        visible(text)
        .translate(_SPECIAL)
        .replace("://", ":&#47;&#47;")
        .replace("@", "&#64;")
        .replace("www.", "www&#46;")
    )
