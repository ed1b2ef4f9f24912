"""What runs looked for and found, what it means for a person, and what they missed: words of the officer's page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memorisk.images.alterations.plants import IN_WORDS, PLANT_KINDS
from memorisk.report.blocks import Name, Text
from memorisk.report.kinds import kind_of
from memorisk.report.statements.officer.words import capital, either, joined, of_each
from memorisk.report.statements.statement import (
    ALSO,
    DRAWN_PIXELS,
    FAIL,
    FOUND,
    HELD_OUT_PIXELS,
    NOT_ASKED,
    OTHER_PIXELS,
    PASS,
    UNDECIDED,
    AuditStatement,
    Figure,
    StatedReason,
    Statement,
)
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL, POWER, share_words
from memorisk.statistics.verdicts.reasons import Bearing
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale, find_scale

MOST, MOST_OF_ONE = 3, 8
"""Largest numbers of sentences of a kind on the page, for several runs and for one; reports and model card have all."""
_STATUS: Mapping[str, str] = {
    PASS: "nothing was found",
    FAIL: "signs were found",
    UNDECIDED: "it could not be decided",
    NOT_ASKED: "it says nothing of privacy",
}
_OUTSIDER, _WITH_MODELS = "an outsider", "a person who also has models without the image"
_ATTACKERS: Mapping[str, str] = {
    "auc": _OUTSIDER,
    "target_auc": _OUTSIDER,
    "reference_auc": _WITH_MODELS,
    "target_reference_auc": _WITH_MODELS,
    "twin_auc": _WITH_MODELS,
}
"""Attackers by the beginnings of the names of figures that are AUCs: an outsider needs the model alone."""
_OF_SUBGROUPS = frozenset(("subgroup-more-exposed", "subgroup-copied-more"))
"""Codes of the reasons that name a group of people; they limit a verdict and decide none."""
_OF_CLASSES = "classes_tested"
"""Name of a figure of every audit that lists people by class: of classifiers, of losses, of generators."""
_OF_MARK = "noticeable"
"""Name of the figure of every audit of a mark: the sensitivity that would have been noticed."""
_COUNTED = frozenset(
    (
        *("confirmed-pairs", "same-pixels", "other-part-pixels", "held-out-pixels", "watch-same-pixels"),
        *("listed-patients", "nearer-than-every-held-out"),
        *("nearly-identical", "too-many-nearly-identical", "held-out-nearly-identical", "second-look", "singled-out"),
    )
)
"""Codes of the reasons of a set's verdict that its counts already state."""


@dataclass(frozen=True, kw_only=True)
class Affected:
    """People found by one audit, each once."""

    n: int
    n_all: int
    """Number of people that it could have found."""
    units: str
    """Name of that many of them, as in "training patients"."""
    words: str
    """Clause on them, as in "stand out"."""


def affected_people(audit: AuditStatement) -> Affected | None:
    """Count the different people found by one audit; None where it could have found none, which says nothing.

    Args:
        audit: Statement of one run.
    """
    counts = {figure.name: int(figure.value) for figure in audit.figures if figure.value is not None}
    if kind_of(audit.kind).of_generated_set:
        n, n_all = counts.get("to_leave_out_people"), _training_people(audit)
        could = bool(n) or audit.status == PASS
        whose, clauses = "training ", ("is pointed at by a generated image", "are pointed at by a generated image")
    else:
        n, n_all = counts.get("flagged"), audit.n_units or 0
        could, whose, clauses = bool(counts.get(_OF_CLASSES)), "", ("stands out", "stand out")
    if not could or n is None or not 0 < n_all >= n:
        return None
    units = audit.units.removesuffix("s") if n == 1 else audit.units
    return Affected(n=n, n_all=n_all, units=f"{whose}{units}", words=clauses[n != 1])


def _training_people(audit: AuditStatement) -> int:
    """Return the number of people in the training data of an audit; 0 where it is unknown."""
    return next((part.units or 0 for part in audit.data if part.part == "training"), 0)


def consequences(statement: Statement) -> Text:
    """Describe what each finding means for a person, by the kind of run.

    Args:
        statement: Statement of finished runs.
    """
    return of_each(statement, _faced)


def _faced(audit: AuditStatement) -> str:
    """Describe what a person faces by one audit, with how often an attacker is right."""
    best: dict[str, Figure] = {}
    for figure in audit.figures:
        whom = _ATTACKERS.get(figure.name.partition("/")[0])
        if whom is not None and figure.value is not None:
            best[whom] = max(figure, best.get(whom, figure), key=lambda one: one.value or 0.0)
    cases = list[str]()
    for whom in filter(best.__contains__, dict.fromkeys(_ATTACKERS.values())):
        right = "in {:.0f}" if cases else "names the right one in {:.0f} of 100 cases"
        cases.append(f"{whom} {right.format(100 * (best[whom].value or 0.0))}{_limits_in_words(best[whom])}")
    measured = f" Of a training image and a new one, {', '.join(cases)}; guessing is right in 50." if cases else ""
    return kind_of(audit.kind).faces + measured


def _limits_in_words(auc: Figure) -> str:
    """Word the limits of an AUC in cases of 100; empty where it has none."""
    return "" if auc.low is None or auc.high is None else f" ({100 * auc.low:.0f} to {100 * auc.high:.0f})"


def kinds_tried(statement: Statement) -> tuple[list[str], list[str]]:
    """Return the kinds of copies that every audit of a set covers, and the others, in plain words.

    Args:
        statement: Statement of finished runs.
    """
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


def looked_for(statement: Statement) -> Text:
    """Describe the question of each audit.

    Args:
        statement: Statement of finished runs.
    """
    return of_each(statement, lambda audit: kind_of(audit.kind).looked_for)


def findings(statement: Statement) -> Text:
    """Describe what each audit found, in counts, and where audits contradict each other.

    Args:
        statement: Statement of finished runs.
    """
    most = MOST_OF_ONE if len(statement.audits) == 1 else 1
    findings = of_each(statement, lambda audit: _found_by(audit, most))
    return joined([findings, *map(capital, _plain_reasons(statement.verdict.contradictions, most))])


def _found_by(audit: AuditStatement, most: int) -> str:
    """Describe what one audit found: so many counts at most, the gravest reasons, and the number of further ones."""
    of_subgroups = [reason.plain for reason in audit.reasons if reason.code in _OF_SUBGROUPS]
    text = "; ".join([capital(_STATUS[audit.status]), *_counts(audit, most), *of_subgroups])
    if audit.status not in (FAIL, UNDECIDED):
        return text
    uncounted = [one for one in audit.reasons if one.code not in _COUNTED]
    because = "; ".join(_plain_reasons(uncounted, min(most, MOST)))
    return f"{text}. {'Why' if audit.status == UNDECIDED else 'Besides'}: {because}" if because else text


def _plain_reasons(reasons: Sequence[StatedReason], most: int) -> list[str]:
    """Take the plain sentences of failures and doubts, so many at most, and count the others."""
    plain = list(dict.fromkeys(one.plain for one in reasons if one.bears_on in (Bearing.FAIL, Bearing.DOUBT)))
    n_more = len(plain) - most
    counted = n_more > 0 and most > 1  # of several runs the callout sends to their reports
    more = [f"{plural(n_more, 'more reason', 'more reasons')} in the audit's report"] if counted else []
    return [*plain[:most], *more]


def _counts(audit: AuditStatement, most: int) -> Iterator[str]:
    """Word the figures that are counts of people or images, or cases out of a hundred; so many zeros at most."""
    value = {figure.name: figure.value for figure in audit.figures}
    units = audit.units

    def some(name: str, phrase: str, phrases: str) -> Iterator[str]:
        """Yield a phrase for one, another for more; yield nothing where it was not counted."""
        if (n := value.get(name)) is not None:
            yield f"{n:,.0f} {phrase if n == 1 else phrases}" if n else f"no {phrase}"

    one = units.removesuffix("s")
    if _OF_CLASSES in value:
        if value.get(_OF_CLASSES) or value.get("flagged"):
            of = f" of {audit.n_units:,}" if audit.n_units else ""
            share = f", up to {100 * audit.level:.0f} in 100 of these by chance" if audit.level else ""
            chance = share if value.get("flagged") else ""
            yield from some("flagged", f"{one}{of} stands out{chance}", f"{units}{of} stand out{chance}")
            if (gap := value.get("flagged_gap")) is not None:
                yield f"for half of them {_scale_of(audit).effect_on_person(gap)}, or more"
        else:
            yield f"no {units.removesuffix('s')} could have been flagged, so that no list of {units} was possible"
    if kind_of(audit.kind).of_generated_set:
        yield from _copied(audit, most)
    if audit.kind == "watch":
        if copies := value.get(DRAWN_PIXELS):
            yield plural(int(copies), "drawn image is a training image", "drawn images are training images")
        if value.get("listed") or not copies:
            one, many = (f"training {who} stood out at the last look" for who in ("patient", "patients"))
            yield from some("listed", one, many)


def _scale_of(audit: AuditStatement) -> LossScale:
    """Return the scale of the losses of an audit of models."""
    return find_scale(str(audit.settings.get("scale", CROSS_ENTROPY.name)))


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
    if n := counts.get(OTHER_PIXELS):
        what = plural(n, "generated image is an image", "generated images are images")
        clauses.append(f"{what} of a person in a further part of the data, point for point")
    if n := counts.get(HELD_OUT_PIXELS):
        what = plural(n, "generated image is", "generated images are")
        clauses.append(f"{what}, point for point, an image of a person who should not have been in the training")
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
        as_none = plural(n, "pair, which does not count as a copy", "pairs, which do not count as copies")
        clauses.append(f"a person dismissed {as_none}")
    yield from clauses


def noticed(statement: Statement) -> Text:
    """Describe what would have been noticed.

    Args:
        statement: Statement of finished runs.
    """
    most = len(PLANT_KINDS) if len(statement.audits) == 1 else 1
    sentences = list(dict.fromkeys(sentence for audit in statement.audits for sentence in _would_notice(audit, most)))
    sentences = [*sentences[: 2 * MOST], *_mostly_missed(statement)]
    return joined(sentences) or "Not known: nothing was hidden on purpose to find out what would be noticed."


def _mostly_missed(statement: Statement) -> Iterator[str]:
    """Name the kinds of copies that were tried, are not required, and of which an audit missed more than half."""
    kinds = {
        figure.name.removeprefix(ALSO)
        for audit in statement.audits
        for figure in audit.figures
        if figure.name.startswith(ALSO) and figure.value is not None and figure.value < 1 / 2
    }
    if missed := [words for kind, words in IN_WORDS.items() if kind in kinds]:
        most = len(missed) if len(statement.audits) == 1 else MOST
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
    if _OF_CLASSES in value:
        yield (
            f"A single person would have been noticed in {share_words(POWER)} where "
            f"{_scale_of(audit).effect_on_person(gap.value)}, or more."
            if gap is not None and gap.value is not None
            else "A single person could have gone unnoticed, even if strongly remembered."
        )
    if (mark := value.get(_OF_MARK)) is not None:
        yield (
            f"A model that is {mark.value:.3g} times as sensitive to the mark as models that never saw it would have "
            f"been noticed in {share_words(POWER)}."
            if mark.value is not None
            else "A mark that the model remembers could have gone unnoticed."
        )
    missed = value.get("miss_rate")
    if missed is not None and missed.high is not None and most > 1:
        yield f"Of copies of the kinds that the promise names at most {1000 * missed.high:.0f} in 1,000 are kept."


def not_looked_at(statement: Statement) -> Text:
    """Describe what was not looked at; only the first of many.

    Args:
        statement: Statement of finished runs.
    """
    texts = list(dict.fromkeys(text for audit in statement.audits for text in _not_examined(audit)))
    most = MOST if len(statement.audits) > 1 else MOST_OF_ONE
    more = [f"And {len(texts) - most} more, in the model card."] if len(texts) > most else []
    entries: list[Text] = [Name(text) for text in texts[:most]]
    pieces: list = []
    for text in [*entries, *more]:
        pieces += [text, " "]
    return [*pieces, "The audit did not look at people whose images took no part, or at what an attacker with other "
            "data could find out."]  # fmt: skip


def _not_examined(audit: AuditStatement) -> Iterator[str]:
    """Yield what one audit did not look at, kinds of copies in plain words."""
    if kinds := [IN_WORDS.get(kind, kind) for kind in audit.kinds_not_tried]:
        yield f"Copies that are {either(kinds)}: not tried."
    yield from audit.not_examined
