"""A privacy statement on one printed side, for readers who judge a release without being engineers.

The page has plain words alone: no symbol, no test, no unit of a loss. Numbers are counts of people, images or cases. An
appendix matches the sentences of each part with the questions of a data-protection impact assessment (GDPR, Article
35(7)) and of the European Data Protection Board's Opinion 28/2024 on AI models. It states facts and gives no legal
advice.
"""

from collections.abc import Callable, Mapping

from memorisk.report.blocks import Block, Callout, Definitions, Kind, Page, Panel, Paragraph, Section, Strong, Text
from memorisk.report.glance import dots_figure
from memorisk.report.kinds import kind_of
from memorisk.report.statements.officer.appendix import appendix_blocks
from memorisk.report.statements.officer.findings import (
    MOST,
    affected_people,
    consequences,
    findings,
    kinds_tried,
    looked_for,
    not_looked_at,
    noticed,
)
from memorisk.report.statements.officer.words import capital, either, of_each
from memorisk.report.statements.statement import (
    FAIL,
    HEADLINES,
    OFFICER_TITLE,
    PASS,
    UNDECIDED,
    AuditStatement,
    Statement,
)
from memorisk.runs.errors import plural

APPENDIX = "appendix"
"""Id of the section that begins a new sheet in print."""
_VERDICTS: Mapping[str, tuple[Kind, str, str]] = {
    PASS: (
        "pass",
        "No sign was found that {claim}",
        "This does not prove that no person can be recognised. It holds for what is listed below, and for these files "
        "alone.",
    ),
    FAIL: (
        "fail",
        "Signs were found that {claim}",
        f"{HEADLINES[FAIL]}: what is to be released shows more of people in the training data than it may.",
    ),
    UNDECIDED: (
        "undecided",
        "It could not be decided whether {claim}",
        "This is not a pass. Something has to be known or looked at first; the audit's report lists what.",
    ),
}
"""Kind of the box, headline of runs with one claim, and sentence, by status."""
_NEXT: Mapping[str, str] = {
    PASS: "Decide on the release. Look again after any change of the files, of the data or of who may use them.",
    FAIL: "Do not release. {have}Let the engineer look at what the run's report shows, change the data or the "
    "training, and audit the new files.",
    UNDECIDED: "Do not release yet. Let the engineer do what the audit's report lists under “What would decide it”, "
    "and ask for this page again.",
}
_WHO = (
    "The controller decides whether to release, for what purpose, and which risk is acceptable. The data-protection "
    "officer advises. The engineer answers for the files, the training data and the people. The audit decides nothing."
)
_BLANK = "........................................"
"""Line for text that the reader fills in."""
_SIGNED = (
    "Data-protection officer: [   ] no objection   [   ] objection. Name, date and signature: "
    "............................................................"
)
_PEOPLE: Mapping[str, str] = {
    "training": "patients in the training data",
    "held out": "patients whom nothing was trained on",
    "calibration": "new patients who set the threshold",
}
"""Names of the people whose images a part holds."""


def officer_page(statement: Statement) -> Page:
    """Lay out a statement on one side, and its appendix.

    Args:
        statement: Statement of finished runs.
    """
    kind, _, sentence = _VERDICTS[statement.verdict.status]
    headline = _after_left_out(statement, _headline(statement))
    tried, others = kinds_tried(statement)
    if statement.verdict.status == PASS and others:
        headline += f". Tried: copies that are {either(tried)}, and no others"
        sentence = f"It says nothing of copies that are {either(others)}. {sentence}"
    affected = affected_people(statement.audits[0]) if len(statement.audits) == 1 else None
    figure = (
        [] if affected is None else [dots_figure(affected.n, affected.n_all, statement.audits[0].units, affected.words)]
    )
    parts = {title: text for title, say in _PARTS.items() if (text := say(statement))}
    lead: list[Block] = [
        Callout(kind, headline, [Paragraph(sentence)]),
        *([Panel(figure)] if figure else []),
        Definitions(list(parts.items())),
        Paragraph(_SIGNED),
    ]
    return Page(
        title=OFFICER_TITLE,
        lead=lead,
        sections=[Section("Appendix: where each part belongs", appendix_blocks(parts), APPENDIX)],
        footer=[],
    )


def _headline(statement: Statement) -> str:
    """Make the headline of the claim that all runs share; runs of different claims have the headline of a statement."""
    claims = {kind_of(audit.kind).claim for audit in statement.audits}
    claim = claims.pop() if len(claims) == 1 else ""
    status = statement.verdict.status
    return _VERDICTS[status][1].format(claim=claim) if claim else HEADLINES[status]


def _after_left_out(statement: Statement, headline: str) -> str:
    """Put before a headline how many images runs left out, and near to how many people these are."""
    sentences = [_left_out(audit) for audit in statement.audits if kind_of(audit.kind).chooses_images]
    return f"{' '.join(sentences)} {headline}" if sentences else headline


def _left_out(audit: AuditStatement) -> str:
    """Count the images that one run left out and kept, and the people whose images the left-out ones come near."""
    value = {figure.name: int(figure.value) for figure in audit.figures if figure.value is not None}
    n_rejected, people, n_kept = (value.get(name, 0) for name in ("rejected", "rejected_people", "kept"))
    whom = plural(people, f"training {audit.units.removesuffix('s')}", f"training {audit.units}")
    near = f", near to {whom}," if people else ""
    images = plural(n_rejected, f"generated image{near} was", f"generated images{near} were")
    return f"{images} left out, {n_kept:,} kept."


def _what(statement: Statement) -> Text:
    """Name the released files by their content, and the audit of them; the person who ran it is to be filled in."""
    files: dict[str, list[str]] = {}
    for one in statement.released[:MOST]:
        held = "a model" if one.pixels is None else f"images of {one.pixels.words}"
        files.setdefault(held, []).append(
            f"in {plural(one.files, 'file', 'files')} (checksum begins {one.sha256[:12]})"
        )
    named = [f"{held} {' and '.join(places)}" for held, places in files.items()]
    more = len(statement.released) - MOST
    contents = capital("; ".join([*named, *([f"and {more} more"] if more > 0 else [])]))
    unbound = "No file was tied to this audit: it does not say that the files to be released are what was audited."
    return [
        f"{contents}." if files else Strong(unbound),
        f" Audited with memorisk {statement.memorisk}. Name and version of what is released: {_BLANK} Carried out by, "
        f"and date: {_BLANK}",
    ]


def _people(statement: Statement) -> Text:
    """Count the people behind each audit."""
    return of_each(statement, _people_of)


def _people_of(audit: AuditStatement) -> str:
    """Count the people of one audit, part by part."""
    if not audit.n_units or audit.kind == "feature":
        return ""
    affected = affected_people(audit)
    listed = ""
    if affected is not None and affected.n:
        different = "different " if affected.n > 1 else ""
        listed = f"; {affected.n:,} {different}{affected.units} {affected.words}"
    parts = [f"{part.units:,} {_PEOPLE.get(part.part, part.part)}" for part in audit.data if part.units]
    if audit.units != "patients":
        images = plural(audit.n_units, "image", "images")
        return f"{images}; whose they are is unknown, so that each counts as one person{listed}"
    if len(parts) > 1:
        return " and ".join(parts) + listed
    every = next((part.units for part in audit.data if part.units), audit.n_units)
    scored = "" if every == audit.n_units else f", of whom {audit.n_units:,} could be judged"
    return f"{plural(every, 'patient', 'patients')}{scored}{listed}"


def _next(statement: Statement) -> Text:
    """Describe what to do; for generated images with the number that must be removed."""
    (n, people), units = (0, 0), "patients"
    for audit in statement.audits:
        counts = {figure.name: int(figure.value) for figure in audit.figures if figure.value is not None}
        if kind_of(audit.kind).of_generated_set:
            (n, people), units = (counts.get("to_leave_out", 0), counts.get("to_leave_out_people", 0)), audit.units
    images = plural(n, "generated image points", "generated images point")
    whom = plural(people, f"training {units.removesuffix('s')}", f"training {units}")
    have = f"In all, {images} at {whom} and must go, unless a person looks at them and finds no copy. " if n else ""
    return _NEXT[statement.verdict.status].format(have=have)


_PARTS: Mapping[str, Callable[[Statement], Text]] = {
    "What was looked for": looked_for,
    "What was found": findings,
    "What a person faces": consequences,
    "What to do next": _next,
    "How many people": _people,
    "What would have been noticed": noticed,
    "What was not looked at": not_looked_at,
    "What is released, and by whom it was audited": _what,
    "Who decides what": lambda _: _WHO,
}
"""Text of each part; parts without one are left out."""
