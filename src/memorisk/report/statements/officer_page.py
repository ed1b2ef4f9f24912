"""A privacy statement on one printed side, for readers who judge a release without being engineers.

The page has plain words alone: no symbol, no test, no unit of a loss. Numbers are counts of people, images or cases. An
appendix matches the sentences of each part with the questions of a data-protection impact assessment (GDPR, Article
35(7)) and of the European Data Protection Board's Opinion 28/2024 on AI models. It states facts and gives no legal
advice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from memorisk.images.alterations.plants import IN_WORDS, PLANT_KINDS
from memorisk.report.blocks import (
    Block,
    Callout,
    Definitions,
    Figure,
    Kind,
    Link,
    Name,
    Page,
    Panel,
    Paragraph,
    Section,
    Strong,
    Table,
    Text,
    words,
)
from memorisk.report.glance import dots_figure
from memorisk.report.kinds import kind_of
from memorisk.report.statements.statement import (
    ALSO,
    FAIL,
    FOUND,
    HEADLINES,
    HELD_OUT_PIXELS,
    NOT_ASKED,
    OFFICER_TITLE,
    PASS,
    UNDECIDED,
    AuditStatement,
    StatedReason,
    Statement,
)
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.class_reasons import times_as_probable
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL, POWER, share_words
from memorisk.statistics.verdicts.reasons import Bearing

APPENDIX = "appendix"
"""Id of the section that begins a new sheet in print."""
_MOST, _MOST_OF_ONE = 3, 8
"""Largest numbers of sentences of a kind on the page, for several runs and for one; the model card has all."""
_VERDICTS: Mapping[str, tuple[Kind, str, str]] = {
    PASS: (
        "pass",
        HEADLINES[PASS],
        "This is no proof that nobody can be recognised. It holds for what stands below, and for these files alone.",
    ),
    FAIL: (
        "fail",
        HEADLINES[FAIL],
        "The audit found signs that what is to be released shows more of people in the training data than it may.",
    ),
    UNDECIDED: (
        "undecided",
        HEADLINES[UNDECIDED],
        "This is not a pass. Something has to be known or looked at first; the model card lists what.",
    ),
}
_NEXT: Mapping[str, str] = {
    PASS: "Decide on the release. Look again after any change of the files, of the data or of who may use them.",
    FAIL: "Do not release. {have}Let the engineer look at whom the run's report names, change the data or the "
    "training, and audit the new files.",
    UNDECIDED: "Do not release yet. Let the engineer do what the model card lists under “What would decide it”, and "
    "ask for this page again.",
}
_WHO = (
    "The controller decides whether to release, for what purpose, and which risk is acceptable. The data-protection "
    "officer advises and may ask for more. The engineer answers for what was audited: that these are the files, the "
    "training data and the people. The audit decides none of this."
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
_STATUS: Mapping[str, str] = {
    PASS: "nothing was found",
    FAIL: "signs were found",
    UNDECIDED: "it could not be decided",
    NOT_ASKED: "it says nothing of privacy",
}
_COUNTED = frozenset(
    (
        *("confirmed-pairs", "same-pixels", "held-out-pixels", "listed-patients", "nearer-than-every-held-out"),
        *("nearly-identical", "too-many-nearly-identical", "held-out-nearly-identical", "second-look", "singled-out"),
    )
)
"""Codes of the reasons of a set's verdict that its counts already state."""


def officer_page(statement: Statement) -> Page:
    """Lay out a statement on one side, and its appendix.

    Args:
        statement: Statement of finished runs.
    """
    kind, headline, sentence = _VERDICTS[statement.verdict.status]
    headline = _after_left_out(statement, headline)
    tried, others = _kinds_tried(statement)
    if statement.verdict.status == PASS and others:
        headline += f": copies that are {_either(tried)}, and no others"
        sentence = f"It says nothing of copies that are {_either(others)}. {sentence}"
    figures = list(_people_figure(statement.audits[0])) if len(statement.audits) == 1 else []
    lead: list[Block] = [
        Callout(kind, headline, [Paragraph(sentence)]),
        *([Panel(figures)] if figures else []),
        Definitions([(title, say(statement)) for title, say in _PARTS.items()]),
        Paragraph(_SIGNED),
    ]
    return Page(
        title=OFFICER_TITLE,
        lead=lead,
        sections=[Section("Appendix: where each part belongs", _appendix(statement), APPENDIX)],
        footer=[],
    )


def _people_figure(audit: AuditStatement) -> Iterator[Figure]:
    """Draw the people that one audit found among all that it could have found; nothing where it counted neither."""
    value = {figure.name: int(figure.value) for figure in audit.figures if figure.value is not None}
    if audit.kind in ("classifier", "losses"):
        n, every, what = value.get("flagged"), audit.n_units, "stand out"
        if not value.get("classes_tested"):
            return
    else:
        n, what = value.get("to_leave_out_people"), "recognisable in a generated image"
        if not n and audit.status != PASS:  # an audit that could not look counts none, which says nothing
            return
        every = next((part.units for part in audit.data if part.part == "training"), 0)
    if n is not None and every and n <= every:
        yield dots_figure(n, every, audit.units, what)


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


def _kinds_tried(statement: Statement) -> tuple[list[str], list[str]]:
    """Return the kinds of copies that every audit of a set covers, and the others, in plain words."""
    planted = [
        {figure.name.removeprefix(FOUND) for figure in audit.figures if figure.name.startswith(FOUND)}
        for audit in statement.audits
        if kind_of(audit.kind).of_generated_set
    ]
    tried = set.intersection(*planted) if planted else set(PLANT_KINDS)
    others = set(PLANT_KINDS) - tried
    return [phrase for kind, phrase in IN_WORDS.items() if kind in tried], [
        phrase for kind, phrase in IN_WORDS.items() if kind in others
    ]


def _either(names: Sequence[str]) -> str:
    """Join names by commas, the last by "or"."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _what(statement: Statement) -> Text:
    """Name the released files by their content, and the audit of them; the person who ran it is to be filled in."""
    files: dict[str, list[str]] = {}
    for one in statement.released[:_MOST]:
        held = "a model" if one.pixels is None else f"images of {one.pixels.words}"
        files.setdefault(held, []).append(
            f"in {plural(one.files, 'file', 'files')} (checksum begins {one.sha256[:12]})"
        )
    named = [f"{held} {' and '.join(places)}" for held, places in files.items()]
    more = len(statement.released) - _MOST
    contents = _capital("; ".join([*named, *([f"and {more} more"] if more > 0 else [])]))
    unbound = "No file was tied to this audit: it does not say that the files to be released are what was audited."
    return [
        f"{contents}." if files else Strong(unbound),
        f" Audited with memorisk {statement.memorisk}. Name and version of what is released: {_BLANK} Carried out by, "
        f"and date: {_BLANK}",
    ]


def _people(statement: Statement) -> Text:
    """Count the people behind each audit."""
    return _of_each(statement, _people_of) or "The audit counted no people."


def _people_of(audit: AuditStatement) -> str:
    """Count the people of one audit, part by part."""
    if not audit.n_units or audit.kind == "feature":
        return ""
    parts = [f"{part.units:,} {_PEOPLE.get(part.part, part.part)}" for part in audit.data if part.units]
    if audit.units != "patients":
        return f"{audit.n_units:,} images; whose they are was not said, so that each counts as one person"
    if len(parts) > 1:
        return " and ".join(parts)
    every = next((part.units for part in audit.data if part.units), audit.n_units)
    scored = "" if every == audit.n_units else f", of whom {audit.n_units:,} could be judged"
    return f"{every:,} patients{scored}"


def _of_each(statement: Statement, say: Callable[[AuditStatement], str]) -> str:
    """Join the sentences on all audits, each with its name where there are several; equal sentences come once."""
    names: dict[str, list[str]] = {}
    for audit in statement.audits:
        names.setdefault(say(audit), []).append(kind_of(audit.kind).subject)
    several = len(statement.audits) > 1
    named = (
        (f"{_capital(' and '.join(dict.fromkeys(of)))}: " if several else "", sentence)
        for sentence, of in names.items()
    )
    return _joined([name + sentence for name, sentence in named if sentence])


def _looked(statement: Statement) -> Text:
    """Describe the question of each audit."""
    return _of_each(statement, lambda audit: kind_of(audit.kind).looked_for)


def _found(statement: Statement) -> Text:
    """Describe what each audit found, in counts, and where audits contradict each other."""
    most = _MOST_OF_ONE if len(statement.audits) == 1 else 1
    findings = _of_each(statement, lambda audit: _found_by(audit, most))
    return _joined([findings, *map(_capital, _plain_reasons(statement.verdict.contradictions, most))])


def _found_by(audit: AuditStatement, most: int) -> str:
    """Describe what one audit found, its counts and its reasons: so many at most, and the number of further ones."""
    text = "; ".join([_capital(_STATUS[audit.status]), *_counts(audit, most)])
    if audit.status not in (FAIL, UNDECIDED):
        return text
    because = "; ".join(_plain_reasons([one for one in audit.reasons if one.code not in _COUNTED], most))
    return f"{text}. {'Why' if audit.status == UNDECIDED else 'Besides'}: {because}" if because else text


def _plain_reasons(reasons: Sequence[StatedReason], most: int) -> list[str]:
    """Take the plain sentences of failures and doubts, so many at most, and count the others."""
    plain = list(dict.fromkeys(one.plain for one in reasons if one.bears_on in (Bearing.FAIL, Bearing.DOUBT)))
    n_more = len(plain) - most
    counted = n_more > 0 and most > 1  # of several runs the callout sends to the model card
    return [*plain[:most], *([f"{plural(n_more, 'more reason', 'more reasons')} in the model card"] if counted else [])]


def _counts(audit: AuditStatement, most: int) -> Iterator[str]:
    """Word the figures that are counts of people or images, or cases out of a hundred; so many zeros at most."""
    value = {figure.name: figure.value for figure in audit.figures}
    units = audit.units

    def some(name: str, phrase: str, phrases: str) -> Iterator[str]:
        """Yield a phrase for one, another for more; yield nothing where it was not counted."""
        if (n := value.get(name)) is not None:
            yield f"{n:,.0f} {phrase if n == 1 else phrases}" if n else f"no {phrase}"

    one = units.removesuffix("s")
    if audit.kind in ("classifier", "losses"):
        if value.get("classes_tested") or value.get("flagged"):
            of = f" of {audit.n_units:,}" if audit.n_units else ""
            share = f", up to {100 * audit.level:.0f} in 100 of these by chance" if audit.level else ""
            chance = share if value.get("flagged") else ""
            yield from some("flagged", f"{one}{of} stands out{chance}", f"{units}{of} stand out{chance}")
        else:
            yield f"nobody could have stood out, so that no list of {units} was possible"
        who = {("auc/", "target_auc/"): "an outsider", ("twin_auc/",): "somebody who has a model without the image"}
        best = {
            whom: 100 * max(attacks)
            for names, whom in who.items()
            if (attacks := [v for n, v in value.items() if n.startswith(names) and v is not None])
        }
        right = " would name the right one in {:.0f} of 100 cases at best"
        parts = [whom + (f" in {n:.0f}" if place else right.format(n)) for place, (whom, n) in enumerate(best.items())]
        if parts:
            yield f"of a training image and a new one, {', '.join(parts)}; 50 is guessing"
    if kind_of(audit.kind).of_generated_set:
        yield from _copied(audit, most)
    if audit.kind == "watch":
        yield from some("listed", "training patient stood out at the last look", "training patients stood out at the "
                        "last look")  # fmt: skip


def _copied(audit: AuditStatement, most: int) -> Iterator[str]:
    """Word the evidence of copies, the gravest first; negative results come only where evidence is missing."""
    figures = {figure.name: figure for figure in audit.figures}
    values = {name: figure.value for name, figure in figures.items() if figure.value is not None}
    counts = {name: int(value) for name, value in values.items()}
    ahead = figures.get("ahead")
    units = audit.units
    one = units.removesuffix("s")

    def people(n: int, part: str) -> str:
        return plural(n, f"{part} {one}", f"{part} {units}")

    clauses = list[str]()
    if n := counts.get("confirmed"):
        clauses.append(f"a person confirmed {plural(n, 'pair as a copy', 'pairs as copies')}")
    if n := counts.get("same_pixels"):
        whose = f" (of {people(counts['same_pixels_people'], 'training')})" if counts.get("same_pixels_people") else ""
        clauses.append(plural(n, "generated image is a training image", "generated images are training images") + whose)
    if n := counts.get(HELD_OUT_PIXELS):
        what = plural(n, "generated image is an image", "generated images are images")
        clauses.append(f"{what} of somebody on whom nothing should have been trained, point for point")
    if n := counts.get("listed"):
        clauses.append(f"{people(n, 'training')} {'is' if n == 1 else 'are'} nearer to the set than chance explains")
    near, held = counts.get("nearly_identical", 0), counts.get("nearly_identical_held_out", 0)
    if near or held:
        who = " and ".join(people(m, part) for m, part in ((near, "training"), (held, "held-out")) if m)
        clauses.append(f"{who} {'has' if near + held == 1 else 'have'} a nearly identical generated image")
    if n := counts.get("second_look"):
        what = plural(n, "generated image lies", "generated images lie")
        clauses.append(f"{what} on an image of {people(counts.get('second_look_people', 0), 'training')} (second look)")
    if n := counts.get("singled_out"):
        clauses.append(plural(n, "generated image points at one person", "generated images each point at one person"))
    if (n := counts.get("ahead")) and ahead is not None and ahead.p_value is not None and ahead.p_value <= AHEAD_LEVEL:
        more = f"{people(n, 'training')} {'lies' if n == 1 else 'lie'} nearer to the set than every held-out one"
        clauses.append(f"{more}, more than chance explains")
    if not clauses:
        zeros = {
            "listed": f"no training {one} is nearer to the set than chance explains",
            "singled_out": "no generated image points at one person",
            "same_pixels": "no generated image is a training image",
        }
        clauses += [words for name, words in zeros.items() if name in counts][:most]
    if n := counts.get("dismissed"):
        as_none = plural(n, "pair, which counts as no copy", "pairs, which count as no copies")
        clauses.append(f"a person dismissed {as_none}")
    yield from clauses


def _noticed(statement: Statement) -> Text:
    """Describe what would have been noticed."""
    most = len(PLANT_KINDS) if len(statement.audits) == 1 else 1
    sentences = list(dict.fromkeys(sentence for audit in statement.audits for sentence in _would_notice(audit, most)))
    sentences = [*sentences[: 2 * _MOST], *_mostly_missed(statement)]
    return _joined(sentences) or "Not known: nothing was hidden on purpose to find out what would be noticed."


def _mostly_missed(statement: Statement) -> Iterator[str]:
    """Name the kinds of copies that were tried, are not required, and of which an audit missed more than half."""
    kinds = {
        figure.name.removeprefix(ALSO)
        for audit in statement.audits
        for figure in audit.figures
        if figure.name.startswith(ALSO) and figure.value is not None and figure.value < 1 / 2
    }
    if missed := [words for kind, words in IN_WORDS.items() if kind in kinds]:
        most = len(missed) if len(statement.audits) == 1 else _MOST
        more = f", and {len(missed) - most} more" if len(missed) > most else ""
        yield f"Other kinds, mostly missed: {', '.join(missed[:most])}{more}."


def _would_notice(audit: AuditStatement, most: int) -> Iterator[str]:
    """Word what one audit would have noticed of a copy or of a person; among kinds of copies the least noticed ones."""
    value = {figure.name: figure for figure in audit.figures}
    planted = {name.removeprefix(FOUND): one for name, one in value.items() if name.startswith(FOUND) and one.n}
    if planted:
        least = sorted(planted.items(), key=lambda item: item[1].value or 0)[:most]
        counts = [
            f"{(one.value or 0) * (one.n or 0):.0f} of {one.n} {IN_WORDS.get(kind, kind)}"
            for kind, one in (planted.items() if most >= len(planted) else least)
        ]
        yield "Copies were hidden in the set to see which would be noticed."
        yield f"{'Noticed' if most >= len(planted) else 'Noticed least'}: {', '.join(counts)}."
    gap = value.get("noticeable_gap")
    if audit.kind in ("classifier", "losses"):
        yield (
            f"A single person would have been noticed in {share_words(POWER)} where training makes the right answer on "
            f"their images {times_as_probable(gap.value)}, or more."
            if gap is not None and gap.value is not None
            else "A single person could have gone unnoticed, even if strongly remembered."
        )
    missed = value.get("miss_rate")
    if missed is not None and missed.high is not None and most > 1:
        yield f"Of copies of the kinds that the promise names at most {1000 * missed.high:.0f} in 1,000 are kept."


def _unnoticed(statement: Statement) -> Text:
    """Describe what was not looked at; only the first of many."""
    texts = list(dict.fromkeys(text for audit in statement.audits for text in _not_examined(audit)))
    most = _MOST if len(statement.audits) > 1 else _MOST_OF_ONE
    more = [f"And {len(texts) - most} more, in the model card."] if len(texts) > most else []
    entries: list[Text] = [Name(text) for text in texts[:most]]
    pieces: list = []
    for text in [*entries, *more]:
        pieces += [text, " "]
    return [*pieces, "People whose images took no part, and what somebody with other data could find out, were not "
            "looked at."]  # fmt: skip


def _not_examined(audit: AuditStatement) -> Iterator[str]:
    """Yield what one audit did not look at, kinds of copies in plain words."""
    if kinds := [IN_WORDS.get(kind, kind) for kind in audit.kinds_not_tried]:
        yield f"Copies that are {_either(kinds)}: not tried."
    yield from audit.not_examined


def _next(statement: Statement) -> Text:
    """Describe what to do; for generated images with the number that must be removed."""
    (n, people), units = (0, 0), "patients"
    for audit in statement.audits:
        counts = {figure.name: int(figure.value) for figure in audit.figures if figure.value is not None}
        if kind_of(audit.kind).of_generated_set:
            (n, people), units = (counts.get("to_leave_out", 0), counts.get("to_leave_out_people", 0)), audit.units
    images = plural(n, "generated image points", "generated images point")
    whom = plural(people, f"training {units.removesuffix('s')}", f"training {units}")
    have = f"In all, {images} at {whom} and must go, unless somebody looks and finds no copy. " if n else ""
    return _NEXT[statement.verdict.status].format(have=have)


_PARTS: Mapping[str, Callable[[Statement], Text]] = {
    "What was looked for": _looked,
    "What was found": _found,
    "What to do next": _next,
    "How many people": _people,
    "What would have been noticed": _noticed,
    "What was not looked at": _unnoticed,
    "What is released, and by whom it was audited": _what,
    "Who decides what": lambda _: _WHO,
}
_BESIDE: Sequence[tuple[str, str, str]] = (
    (
        "What is released, and by whom it was audited",
        "(a) a systematic description of the processing and its purposes. The purposes are not on this page.",
        "Documentation of the model. Who audited it, inside or outside, is one of the elements authorities look at.",
    ),
    (
        "How many people",
        "(a) whose data, and how many. Whether fewer would do is a question of (b), necessity and proportionality, "
        "which no audit answers.",
        "Selection of the training data and its reduction to what is needed.",
    ),
    (
        "What was looked for",
        "(c) the risks to the rights and freedoms of the people.",
        "Whether personal data of people in the training data can be extracted from the model, or obtained from it by "
        "queries, intentionally or not.",
    ),
    (
        "What was found",
        "(c) how likely and how severe the risks are. The audit gives counts; severity is to be judged.",
        "Tests of resistance to attacks, such as membership inference and the repetition of training data. A model is "
        "anonymous only if the likelihood of extraction, and of obtaining data by queries, is insignificant.",
    ),
    (
        "What would have been noticed",
        "(c) how far the assessment reaches.",
        "Scope, frequency and quality of the tests.",
    ),
    (
        "What was not looked at",
        "(c) risks that remain to be assessed by other means.",
        "All means reasonably likely to be used, by the controller or by another person; among them model inversion "
        "and reconstruction, which this audit does not try.",
    ),
    (
        "What to do next",
        "(d) measures to address the risks, safeguards and security.",
        "Measures taken in training and on the outputs of the model.",
    ),
    (
        "Who decides what",
        "Article 35(2): the controller seeks the advice of the data-protection officer. Article 36: where a high risk "
        "remains, the supervisory authority is consulted first.",
        "Whether a legitimate interest is a legal basis, and what follows from unlawful development, are further "
        "questions of the Opinion; this page says nothing of them.",
    ),
)


def _appendix(statement: Statement) -> list[Block]:
    """Match the sentences of each part with the questions of an impact assessment and of the Opinion."""
    frame = pd.DataFrame(_BESIDE, columns=["part", "assessment", "opinion"])
    frame["said"] = [_plain(_PARTS[part](statement)) for part in frame["part"]]
    columns = [
        words("part", "Part", row=True),
        words("said", "What this page says", wide=True),
        words("assessment", "Impact assessment, GDPR Article 35(7)", wide=True),
        words("opinion", "EDPB Opinion 28/2024 on AI models", wide=True),
    ]
    text = (
        "The table says where the sentences of a part may serve. It is no legal advice, and the audit is one piece of "
        "evidence among others. The model card and the statement of these runs hold every figure with its limits."
    )
    return [Paragraph(text), Table(frame=frame, columns=columns, caption="Each part beside the questions it bears on.")]


def _plain(text: Text) -> str:
    """Return the words of a text; a table's cell isolates all of them as it does a name."""
    pieces = [text] if isinstance(text, (str, Name, Strong, Link)) else text
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)


def _joined(sentences: Sequence[str]) -> str:
    """Join different sentences of several audits, one after the other."""
    return " ".join(text if text.endswith(".") else f"{text}." for text in dict.fromkeys(sentences))


def _capital(text: str) -> str:
    """Begin a sentence with a capital letter."""
    return text[:1].upper() + text[1:]
