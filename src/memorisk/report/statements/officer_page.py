"""A privacy statement on one printed side, for whoever has to judge a release without being an engineer.

Plain words alone: no symbol, no test, no unit of a loss. Numbers are counts of people, images or cases. An appendix
sets the sentences of each part beside the questions of a data-protection impact assessment (GDPR, Article 35(7)) and of
the European Data Protection Board's Opinion 28/2024 on AI models. It states facts and gives no legal advice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from memorisk.report.blocks import (
    Block,
    Callout,
    Definitions,
    Kind,
    Link,
    Name,
    Page,
    Paragraph,
    Section,
    Strong,
    Table,
    Text,
    words,
)
from memorisk.report.statements.statement import FAIL, NOT_ASKED, PASS, UNDECIDED, AuditStatement, Released, Statement
from memorisk.runs.errors import plural

APPENDIX = "appendix"
"""Id of the section that begins a new sheet in print."""
_MOST = 3
"""Sentences of a kind on the page; the model card has all."""
_VERDICTS: Mapping[str, tuple[Kind, str, str]] = {
    PASS: (
        "pass",
        "Nothing was found of what was looked for",
        "This is no proof that nobody can be recognised. It holds for what stands below, and for these files alone.",
    ),
    FAIL: (
        "fail",
        "Not ready for release",
        "The audit found signs that what is to be released shows more of people in the training data than it may.",
    ),
    UNDECIDED: (
        "undecided",
        "Could not be decided",
        "This is not a pass. Something has to be known or looked at first; the model card lists what.",
    ),
}
_NEXT: Mapping[str, str] = {
    PASS: "Decide on the release. Look again after any change of the files, of the data or of who may use them.",
    FAIL: "Do not release. Let the engineer look at whom the audit names, change the data or the training, and audit "
    "the new files.",
    UNDECIDED: "Do not release yet. Let the engineer do what the model card lists under “What would decide it”, and "
    "ask for this page again.",
}
_WHO = (
    "The controller decides whether to release, for what purpose, and which risk is acceptable. The data-protection "
    "officer advises and may ask for more. The engineer answers for what was audited: that these are the files, the "
    "training data and the people. The audit decides none of this."
)
_LOOKED: Mapping[str, str] = {
    "classifier": "Whether a model of this kind answers differently for a person because their images were in its "
    "training, and whether an outsider could tell from it who was.",
    "losses": "Whether the models answer differently for a person because their images were in the training, and "
    "whether an outsider could tell from it who was.",
    "feature": "Whether the model reacts to one mark, such as a name in an image, that it may have seen once.",
    "synthetic": "Whether generated images are copies of images of people in the training data.",
    "filter": "Which generated images are too close to an image of a person in the training data and must stay out.",
    "synthesize": "Whether images could be drawn of which none is too close to an image of a person in the training "
    "data.",
    "watch": "Whether the generator began to repeat its training images while it was trained.",
    "quality": "Only how good the generated images are, which says nothing of privacy.",
}
_PEOPLE: Mapping[str, str] = {
    "training": "patients in the training data",
    "held out": "patients whom nothing was trained on",
    "calibration": "new patients who set the threshold",
}
"""Whose images a part holds."""
_STATUS: Mapping[str, str] = {
    PASS: "nothing was found",
    FAIL: "signs were found",
    UNDECIDED: "it could not be decided",
    NOT_ASKED: "it says nothing of privacy",
}
_KEPT: Mapping[str, str] = {
    PASS: "the kept images come with a guarantee",
    FAIL: "what was drawn may not be shared",
    UNDECIDED: "the kept images come without the guarantee that a release needs",
}
"""The same of runs that leave images out."""
_NAMES: Mapping[str, str] = {
    "classifier": "the model",
    "losses": "the models",
    "feature": "one mark",
    "synthetic": "generated images",
    "filter": "images left out",
    "synthesize": "images drawn anew",
    "watch": "the training",
    "quality": "quality",
}
"""What an audit is about, where there are several."""
_COPIES: Mapping[str, str] = {"exact": "unchanged", "noised": "with noise", "jpeg": "compressed", "flipped": "mirrored",
                              "rotated": "turned"}  # fmt: skip
"""Planted copies in plain words, by kind."""


def officer_page(statement: Statement) -> Page:
    """Lay out a statement on one side, and its appendix.

    Args:
        statement: Of finished runs.
    """
    kind, headline, sentence = _VERDICTS[statement.verdict.status]
    lead: list[Block] = [
        Callout(kind, headline, [Paragraph(sentence)]),
        Definitions([(title, say(statement)) for title, say in _PARTS.items()]),
    ]
    return Page(
        title="What the audit says: one page for the data-protection officer",
        lead=lead,
        sections=[Section("Appendix: where each part belongs", _appendix(statement), APPENDIX)],
        footer=[],
    )


def _what(statement: Statement) -> Text:
    """Name what is released, by its content, and what looked at it; who ran that is left to be filled in."""
    files = [_released(one) for one in statement.released[:_MOST]]
    more = len(statement.released) - _MOST
    told = _capital("; ".join([*files, *([f"and {more} more"] if more > 0 else [])]))
    unbound = "No file was tied to this audit: it does not say that the files to be released are what was audited."
    return [f"{told}." if files else Strong(unbound), f" Audited with memorisk {statement.memorisk}",
            ". Carried out by, and date: ........................................"]  # fmt: skip


def _released(one: Released) -> str:
    """Name a file or folder with the first digits of its checksum."""
    what = "a model" if one.what == "weights" else "images"
    return f"{what} in {plural(one.files, 'file', 'files')} (checksum begins {one.sha256[:12]})"


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
    return " and ".join(parts) if len(parts) > 1 else f"{audit.n_units:,} patients"


def _of_each(statement: Statement, say: Callable[[AuditStatement], str]) -> str:
    """Put what is said of each audit one after the other, each by its name where there are several."""
    several = len(statement.audits) > 1
    named = ((f"{_capital(_NAMES[audit.kind])}: " if several else "", say(audit)) for audit in statement.audits)
    return _joined([name + told for name, told in named if told])


def _looked(statement: Statement) -> Text:
    """Say what each audit asked."""
    return _of_each(statement, lambda audit: _LOOKED[audit.kind])


def _found(statement: Statement) -> Text:
    """Say what each audit found, in counts."""
    return _of_each(statement, _found_by)


def _found_by(audit: AuditStatement) -> str:
    """Say what one audit found."""
    said = _KEPT if audit.kind in ("filter", "synthesize") else _STATUS
    return "; ".join([_capital(said[audit.status]), *_counts(audit)])


def _counts(audit: AuditStatement) -> Iterator[str]:
    """Word the figures that are counts of people or images, or cases out of a hundred."""
    value = {figure.name: figure.value for figure in audit.figures}
    units = audit.units

    def some(name: str, phrase: str, phrases: str) -> Iterator[str]:
        """Yield a phrase for one, another for more; nothing where it was not counted."""
        if (n := value.get(name)) is not None:
            yield f"{n:,.0f} {phrase if n == 1 else phrases}" if n else f"no {phrase}"

    one = units.removesuffix("s")
    if audit.kind in ("classifier", "losses"):
        if value.get("classes_tested") or value.get("flagged"):
            yield from some("flagged", f"{one} stands out", f"{units} stand out")
        else:
            yield f"nobody could have stood out, so that no list of {units} was possible"
        attacks = [v for n, v in value.items() if n.startswith(("auc/", "target_auc/")) and v is not None]
        if attacks:
            yield (
                "of a training image and a new one an outsider would name the right one in "
                f"{100 * max(attacks):.0f} of 100 cases at best, where 50 is guessing"
            )
    if audit.kind == "synthetic":
        yield from some("listed", f"training {one} is nearer to the set than chance explains",
                        f"training {units} are nearer to the set than chance explains")  # fmt: skip
        yield from some("singled_out", "generated image points at one person", "generated images point at one person")
        yield from some("same_pixels", "generated image is a training image", "generated images are training images")
    if audit.kind in ("filter", "synthesize"):
        yield from some("kept", "image was kept", "images were kept")
        yield from some("rejected", "image was left out", "images were left out")
    if audit.kind == "watch":
        yield from some("listed", "training patient stood out at the last look", "training patients stood out at the "
                        "last look")  # fmt: skip


def _noticed(statement: Statement) -> Text:
    """Say what would have been noticed."""
    told = [sentence for audit in statement.audits for sentence in _would_notice(audit)]
    return _joined(told[: 2 * _MOST]) or "Not known: nothing was hidden on purpose to find out what would be noticed."


def _would_notice(audit: AuditStatement) -> Iterator[str]:
    """Word what one audit would have noticed of a copy or of a person."""
    value = {figure.name: figure for figure in audit.figures}
    planted = {name.removeprefix("found/"): one for name, one in value.items() if name.startswith("found/") and one.n}
    if planted:
        counts = [
            f"{(one.value or 0) * (one.n or 0):.0f} of {one.n} {_COPIES.get(kind, kind)}"
            for kind, one in planted.items()
        ]
        yield f"Copies were hidden in the set to see which would be noticed. Noticed: {', '.join(counts)}."
    gap = value.get("noticeable_gap")
    if audit.kind in ("classifier", "losses"):
        yield (
            "A single person on whom training made a large difference would have been noticed in four of five cases."
            if gap is not None and gap.value is not None
            else "A single person could have gone unnoticed, even if strongly remembered."
        )
    missed = value.get("miss_rate")
    if missed is not None and missed.high is not None:
        yield f"Of copies of the kinds that were named at most {1000 * missed.high:.0f} in 1,000 are missed."


def _unnoticed(statement: Statement) -> Text:
    """Say what was not looked at; the first of many."""
    told = list(dict.fromkeys(text for audit in statement.audits for text in audit.not_examined))
    more = [f"And {len(told) - _MOST} more, in the model card."] if len(told) > _MOST else []
    shown: list[Text] = [Name(text) for text in told[:_MOST]]
    pieces: list = []
    for text in [*shown, *more]:
        pieces += [text, " "]
    return [*pieces, "People whose images took no part, and what somebody with other data could find out, were not "
            "looked at."]  # fmt: skip


def _next(statement: Statement) -> Text:
    """Say what to do."""
    return _NEXT[statement.verdict.status]


_PARTS: Mapping[str, Callable[[Statement], Text]] = {
    "What is released, and by whom it was audited": _what,
    "How many people": _people,
    "What was looked for": _looked,
    "What was found": _found,
    "What would have been noticed": _noticed,
    "What was not looked at": _unnoticed,
    "What to do next": _next,
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
    """Set what each part says beside the questions of an impact assessment and of the Opinion."""
    frame = pd.DataFrame(_BESIDE, columns=["part", "assessment", "opinion"])
    frame["said"] = [_plain(_PARTS[part](statement)) for part in frame["part"]]
    columns = [
        words("part", "Part", row=True),
        words("said", "What this page says", wide=True),
        words("assessment", "Impact assessment, GDPR Article 35(7)", wide=True),
        words("opinion", "EDPB Opinion 28/2024 on AI models", wide=True),
    ]
    told = (
        "The table says where the sentences of a part may serve. It is no legal advice, and the audit is one piece of "
        "evidence among others. The model card and the statement beside this page hold every figure with its limits."
    )
    return [Paragraph(told), Table(frame=frame, columns=columns, caption="Each part beside the questions it bears on.")]


def _plain(text: Text) -> str:
    """Take the words of a text; a table's cell isolates all of them as it does a name."""
    pieces = [text] if isinstance(text, (str, Name, Strong, Link)) else text
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)


def _joined(told: Sequence[str]) -> str:
    """Put different sentences of several audits one after the other."""
    return " ".join(text if text.endswith(".") else f"{text}." for text in dict.fromkeys(told))


def _capital(text: str) -> str:
    """Begin a sentence."""
    return text[:1].upper() + text[1:]
