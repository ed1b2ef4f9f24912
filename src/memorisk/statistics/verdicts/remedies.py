"""Remedies of an undecided audit as data, and their sentences: what decides it, what cannot, what can be shown instead.

A doubt has remedies, each of which would settle it; they are listed in the order of their cost. Code acts on their
numbers, `advice` renders them. More models settle the doubts of all classes and attacks together, so that one number
is advised, the largest. A doubt that no feasible remedy settles leaves the audit undecided whatever else is done: that
comes first, with the smaller claim that these data can carry.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, nan

from memorisk.runs.errors import listed, one_line
from memorisk.statistics.verdicts.units import UnitNames

MOST_NAMED = 3
"""Largest number of reasons that a sentence names; the others are counted."""


MOST_TIMES = 100
"""Largest number of times the patients at hand that a sentence asks for; beyond it only "many more"."""


ONCE_SETTLED = "once that is settled, for the other reasons: "
"""Beginning of a remedy that decides nothing before what these data cannot decide is settled otherwise."""


class Way(StrEnum):
    """Kind of a remedy."""

    MODELS = "models"
    BALANCED = "balanced"
    """The design balanced, which scores every patient outside the test part."""
    SCORED = "scored"
    """Scored patients of a class."""
    UNSEEN = "unseen"
    """Patients that the given model never saw."""
    PATIENTS = "patients"
    """Patients of the whole audit or of a class, more than there are."""
    PLANTS = "plants"
    """Planted copies of each kind."""
    OWN_DETECTOR = "default-detector"
    """The detector that comes with memorisk, in place of weak features."""
    HELD_OUT = "held-out"
    """Held-out patients that the generator never saw."""
    TRAINED_DETECTOR = "trained-detector"
    """A further detector, trained on images of this kind."""


class Claim(StrEnum):
    """Part of the claim that a smaller claim changes."""

    NOTICE = "notice"
    """Gap of a single patient from which on a pass notices."""
    ATTACK_GATE = "attack-gate"
    """AUC that no attack reaches."""
    WITHOUT_CLASS = "without-class"
    """A set without a class, or with the class joined to another."""
    RECALL = "recall"
    """Probability with which one copy of any planted kind is noticed."""
    KINDS = "plant-kinds"
    """Kinds of copies that a pass is about."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A way to settle a doubt, with the numbers that tell whether it can be gone."""

    way: Way
    needed: float = nan
    """Number that settles the doubt; infinite where no number does, NaN where the number is not known."""
    present: float = nan
    """Number at hand; NaN where it is not known."""
    most: float = inf
    """Largest number that these data allow."""
    label: str = ""
    """Class; empty for the whole audit."""

    @property
    def feasible(self) -> bool:
        """Return whether these data allow it."""
        return not math.isinf(self.needed) and not self.needed > self.most


@dataclass(frozen=True, kw_only=True)
class SmallerClaim:
    """A claim that these data can carry, in place of one that they cannot."""

    claim: Claim
    value: float = nan
    label: str = ""
    kinds: tuple[str, ...] = ()
    """Kinds of copies that a pass is then about."""
    left_out: tuple[str, ...] = ()
    """Kinds of copies of which nothing is then known."""


@dataclass(frozen=True)
class Ways:
    """Alternatives that settle one doubt, the cheapest first, and what can be shown where none is feasible."""

    remedies: tuple[Remedy, ...] = ()
    instead: tuple[SmallerClaim, ...] = ()

    @property
    def best(self) -> Remedy | None:
        """Return the cheapest feasible remedy; None where these data allow none."""
        return next((remedy for remedy in self.remedies if remedy.feasible), None)


def chosen_remedies(ways: Sequence[Ways]) -> list[Remedy]:
    """Choose the cheapest feasible remedy of each doubt, and join those that one action carries out.

    Args:
        ways: Ways to settle each doubt.

    Returns:
        Remedies with the largest number, at most one for each way and class; models are those of the whole audit.
    """
    joined: dict[tuple[Way, str], Remedy] = {}
    for remedy in (best for own in ways if (best := own.best) is not None):
        place = (remedy.way, "" if remedy.way in (Way.MODELS, Way.BALANCED) else remedy.label)
        before = joined.get(place)
        if before is None or math.isnan(before.needed) or remedy.needed > before.needed:
            joined[place] = remedy
    return list(joined.values())


def claims_instead(ways: Sequence[Ways]) -> list[SmallerClaim]:
    """Collect the smaller claims that these data carry where they settle some doubt in no way.

    Args:
        ways: Ways to settle each doubt.

    Returns:
        Weakest claim of each kind, which all doubts of the kind need, and every class that is left out; nothing where
        some doubt would stay whatever is claimed.
    """
    weakest: dict[tuple[Claim, str], SmallerClaim] = {}
    closed = [own.instead for own in ways if own.best is None]
    for claim in (claim for claims in closed for claim in claims if all(closed)):
        place = (claim.claim, claim.label if claim.claim is Claim.WITHOUT_CLASS else "")
        if place not in weakest or claim.value > weakest[place].value:
            weakest[place] = claim
    return list(weakest.values())


def advice(ways: Sequence[str | Ways], units: UnitNames, *, n_models: int = 0, elsewhere: bool = False) -> list[str]:
    """Say what would decide an audit, and what these data cannot decide.

    Where these data leave a doubt open, the remedies of the others decide nothing by themselves; each says so.

    Args:
        ways: Sentence, or ways with numbers, that settle each doubt; in the order in which to settle them.
        units: Names of a group.
        n_models: Models of the audit; 0 for unknown.
        elsewhere: Whether the models were trained by something else, so that no option of this command trains more.
    """
    numbered = [way for way in ways if isinstance(way, Ways)]
    first = next((i for i, way in enumerate(ways) if isinstance(way, Ways)), len(ways))
    sentences = [way for way in ways[:first] if isinstance(way, str)]
    closed = [way for way in numbered if way.best is None]
    if closed:
        cannot = list(dict.fromkeys(closed_words(way, units) for way in closed))
        more = f"; and {len(cannot) - MOST_NAMED} more such reasons" if len(cannot) > MOST_NAMED else ""
        sentences.append(f"these data cannot decide it: {'; '.join(cannot[:MOST_NAMED])}{more}")
        sentences += [claim_words(claim, units) for claim in claims_instead(numbered)]
    start = ONCE_SETTLED if closed else ""
    sentences += [
        f"{start}{remedy_words(remedy, units, n_models=n_models, elsewhere=elsewhere)}"
        for remedy in chosen_remedies(numbered)
    ]
    return [*sentences, *(way for way in ways[first:] if isinstance(way, str))]


def alternatives(ways: Ways, units: UnitNames) -> str:
    """Say in one sentence what settles a doubt, the cheapest first, then what these data do not allow, then claims.

    Args:
        ways: Ways to settle the doubt.
        units: Names of a group.
    """
    feasible = [remedy_words(remedy, units) for remedy in ways.remedies if remedy.feasible]
    others = [_infeasible_words(remedy, units) for remedy in ways.remedies if not remedy.feasible]
    cannot = f"{'' if feasible else 'these data cannot decide it'}"
    if others:
        cannot = f"{cannot}: {', and '.join(others)}" if cannot else ", and ".join(others)
    parts = ["; or ".join(feasible), cannot, *(claim_words(claim, units) for claim in ways.instead)]
    return "; ".join(part for part in parts if part)


def remedy_words(remedy: Remedy, units: UnitNames, *, n_models: int = 0, elsewhere: bool = False) -> str:
    """Say how to carry out a feasible remedy: the command, the number, and what it costs.

    Args:
        remedy: The remedy.
        units: Names of a group.
        n_models: Models of the audit; 0 for unknown.
        elsewhere: Whether the models were trained by something else.
    """
    n, present, place = remedy.needed, remedy.present, _place(remedy.label)
    if remedy.way is Way.MODELS:
        return _models_words(n, n_models, elsewhere=elsewhere)
    if remedy.way is Way.BALANCED:
        option = "halves drawn among all patients outside the test part" if elsewhere else "--design balanced"
        return f"the design balanced in place of this one ({option}), which scores every patient outside the test part"
    if remedy.way is Way.SCORED:
        return (
            f"{place}at least {_count(n)} scored {units.many} ({_count(present)} now), by moving some from other parts"
        )
    if remedy.way is Way.PLANTS:
        return f"--plants {_count(n)} in place of {_count(present)}, in a new folder"
    if remedy.way is Way.OWN_DETECTOR:
        return "--detector default, which is trained to find copies, in place of weak features"
    if remedy.way is Way.TRAINED_DETECTOR:
        return (
            "a further --detector trained on images like these (memorisk train detector); the audit shows whether it "
            "helps"
        )
    more = f"; {_count(n - present)} more than the {_count(present)} there are" if present < n else ""
    if remedy.way is Way.HELD_OUT:
        return f"--held-out with about {_count(n)} {units.many} that the generator never saw{more}"
    return f"{place}about {_count(n)} {units.many} that the given model never saw{more}"


def closed_words(ways: Ways, units: UnitNames) -> str:
    """Say that these data allow none of the remedies of a doubt, and what it would take.

    Args:
        ways: Ways to settle the doubt.
        units: Names of a group.
    """
    parts = dict.fromkeys(_infeasible_words(remedy, units) for remedy in ways.remedies)
    return f"{_place(ways.remedies[0].label)}{', and '.join(parts)}"


def _infeasible_words(remedy: Remedy, units: UnitNames) -> str:
    """Say of one remedy that these data do not allow it, and what it would take."""
    if remedy.way is Way.MODELS:
        return f"not with up to {_count(remedy.most)} models, by the spread of these trainings"
    if remedy.way is Way.PLANTS:
        return f"not with more --plants, of which {_count(remedy.most)} {units.many} allow no more than one each"
    what = {
        Way.HELD_OUT: f"held-out {units.many}",
        Way.SCORED: f"scored {units.many} of it, and others in the test part",
        Way.UNSEEN: f"{units.many} that the given model never saw",
    }.get(remedy.way, f"{units.many}, test part included")
    have = remedy.most + (remedy.way is Way.SCORED) if math.isfinite(remedy.most) else remedy.present
    with_these = (
        f"not with these {_count(have)} {units.many}" if math.isfinite(have) else f"not with these {units.many}"
    )
    many = not math.isfinite(remedy.needed) or remedy.needed > MOST_TIMES * have
    need = f"many more {what}" if many else f"about {_rounded(remedy.needed)} {what}"
    return f"{with_these} (it would take {need})"


_OF_NO_STATEMENT = "and no statement or gate takes such a pass"
"""End of a claim that is smaller than that of a statement."""


def claim_words(claim: SmallerClaim, units: UnitNames) -> str:
    """Say which smaller claim these data can carry, and what a pass then leaves open.

    Args:
        claim: The smaller claim.
        units: Names of a group.
    """
    start, value = "what can be shown instead: ", claim.value
    if claim.claim is Claim.NOTICE:
        return (
            f"{start}that a single {units.one} with a gap of {value:.2g} {units.loss_unit} or more would be "
            f"noticed (--notice {value:.2g}); smaller gaps are then left open, {_OF_NO_STATEMENT}"
        )
    if claim.claim is Claim.ATTACK_GATE:
        return (
            f"{start}that no attack reaches AUC {value:g} (--attack-gate {value:g}); up to there members may be "
            f"distinguished from others, {_OF_NO_STATEMENT}"
        )
    if claim.claim is Claim.RECALL:
        return (
            f"{start}that one copy of any planted kind would be noticed with probability {value:g} (--recall {value:g})"
        )
    if claim.claim is Claim.KINDS:
        return (
            f"{start}a pass about no other kinds than {listed(claim.kinds, len(claim.kinds))} (--plant-kinds "
            f"{' '.join(claim.kinds)}); copies that are {listed(claim.left_out, len(claim.left_out))} may then be in "
            "the set, and memorisk gate asks for them"
        )
    return (
        f"{start}the other classes, in a set without class {one_line(claim.label, 80)} or with it joined to another "
        f"class; alone, the audit then reports nothing on its {units.many}"
    )


def _models_words(n: float, n_models: int, *, elsewhere: bool) -> str:
    """Say how many models, with the command and the time it takes."""
    if math.isnan(n):
        return "losses of more models" if elsewhere else "more models (--models)"
    number = int(n)
    more = f", {number - n_models} more than these" if 0 < n_models < number else ""
    if elsewhere:
        return f"losses of about {number} models{more}"
    if not more:
        return f"about {number} models (--models {number})"
    times = (number - n_models) / n_models
    long = "as long" if 0.9 < times < 1.1 else f"{times:.2g} times as long"
    return (
        f"about {number} models (--models {number}): the same command trains {number - n_models} more in addition, "
        f"which takes about {long} as these did"
    )


def rounded_up(value: float) -> float:
    """Round a number above 0 up to two digits.

    Args:
        value: The number.

    Example:
        >>> rounded_up(0.1231)
        0.13
    """
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(round(value / digit, 6)) * digit, 6)


def _place(label: str) -> str:
    return f"class {one_line(label, 80)}: " if label else ""


def _count(n: float) -> str:
    return f"{math.ceil(n):,}" if math.isfinite(n) else "more"


def _rounded(n: float) -> str:
    """Word an estimate with two digits."""
    digits = max(0, len(str(int(n))) - 2)
    return f"{math.ceil(n / 10**digits) * 10**digits:,}"
