"""Sentences of checks: why a pass is kept away, and what would settle it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from memorisk.runs.errors import one_line
from memorisk.statistics.verdicts.checks import COULD_NOT_LOOK, Check
from memorisk.statistics.verdicts.remedies import Claim, SmallerClaim, Ways, rounded_up
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.statistics.verdicts.verdict import UNDECIDED, Finding, models_remedy


@dataclass(frozen=True)
class Sentence:
    """Templates over the fields and numbers of a check; ``{many}`` and ``{one}`` name patients."""

    why: str
    way: str = ""
    """The way out; empty where more models are one, ``models_needed`` of the check's numbers."""
    first: bool = False
    """Whether it must be settled before more models or patients are of use."""


SENTENCES: dict[str, Sentence] = {
    "some-trainings-remember": Sentence(
        "{counted} not flagged with losses that differ between twins by up to {largest_nats:.2g} nats in single "
        "seeds, in more seeds than chance explains{in_seeds}: some trainings remember them, or it is wrong who was "
        "trained on what in some",
        "a check of who was trained on what in each model (per_group, uneven), then more models",
    ),
    "little-power": Sentence(
        "one {one} that some trainings remember could go unnoticed: {half_nats:.2g} nats in {half_seeds:.0f} of "
        "{n_seeds:.0f} trainings would have been noticed in {half_cases:.0f} of 100 cases ({half_needed:.0f} needed), "
        "{quarter_nats:.2g} nats in {quarter_seeds:.0f} in {quarter_cases:.0f} ({quarter_needed:.0f} needed)",
    ),
    "tied-losses": Sentence(
        "most losses of many unseen images are equal under both models of a seed, by rounding or saturation, so that "
        "the spread between trainings is unknown",
        "losses as 64-bit or 32-bit numbers with all their digits, or logits (columns logit:CLASS), not probabilities "
        "of 16 bits",
        first=True,
    ),
    "few-patients": Sentence(
        "the {many} are too few to tell one {one} that some trainings remember from chance",
        "more {many}, in the test part, too",
    ),
    "shared-halves": Sentence(
        "independent draws of who was trained on what: {n_draws:.0f} in {n_seeds:.0f} seeds{in_seeds}. What the "
        "members of a half that returns have in common looks like memory",
        "the halves drawn anew for each seed",
        first=True,
    ),
    "few-coins": Sentence(
        "the {many} are too few ({n_groups:.0f}) to see whether the halves were drawn anew for each seed",
        "at least {n_needed:.0f} {many} among the canaries",
    ),
    "members-answered-worse": Sentence(
        "members have systematically higher losses than non-members{in_seeds}, which no training does",
        "a check of who was trained on what in these seeds (members and others may be exchanged)",
        first=True,
    ),
    "few-held-out": Sentence(
        "{n_held:.0f} held-out {many} are too few to show how near a synthetic image comes to one {one} by chance: no "
        "image could be singled out",
        "--held-out with {n_needed:.0f} {many} or more",
    ),
    "equal-distances": Sentence(
        "distances of held-out {many} are equal or 0, so that no distance tells a copy from chance: no image could be "
        "singled out",
        "a detector that tells different {many} apart (--detector)",
    ),
    "no-near-threshold": Sentence(
        "nearly identical images could not be looked for: the real images do not show how alike two different {many} "
        "can be",
        "more {many}, or larger images, in which different {many} differ (--size)",
    ),
    "near-pairs-left": Sentence(
        "{n_pairs:,.0f} pairs of a synthetic and a training image that look alike were not compared in detail, because "
        "there are too many",
        "the set in parts, each audited by itself",
    ),
    "no-alignment-cut": Sentence(
        "the second look could confirm no pair: too few images show how alike two different {many} can be",
        "more held-out {many}, and more synthetic images",
    ),
    "no-random-split": Sentence(
        "whether training and held-out {many} are a random split could not be tested: in one part every {one} shares "
        "an image with another {one}",
        "held-out {many} without any image of the training {many}",
    ),
    "no-pair-threshold": Sentence(
        "images could not be compared with what they were generated from: too few planted copies give a threshold",
        "more --plants, or a detector that gives probabilities (--detector)",
    ),
    "no-held-out-pairs": Sentence(
        "images could not be compared with what they were generated from: no held-out image has the class of such a "
        "training image, so that chance is not known",
        "held-out images of the classes of the training images",
    ),
    "dismissals-not-compared": Sentence(
        "{n_pairs:,.0f} nearly identical pairs were dismissed by a person, and numbers of images differ so much that "
        "held-out {many} cannot show how many there are by chance",
        "held-out {many} with as many images as training {many} have; or the set without the images of these pairs "
        "(memorisk release SET CLEAN --without RUN, the pairs confirmed)",
    ),
}
"""Sentences by the reason of a check."""


def findings(checks: Iterable[Check], units: UnitNames) -> list[Finding]:
    """Render the checks that keep a pass away, for `verdict.decide`.

    Classes that could not be looked at for one reason share a finding, with the numbers of the class of least power.

    Args:
        checks: Outcomes of any checks.
        units: What a group is called.
    """
    doubts = [check for check in checks if check.is_doubt]
    blind: dict[str, list[Check]] = {}
    for check in doubts:
        if check.outcome == COULD_NOT_LOOK:
            blind.setdefault(check.reason, []).append(check)
    rendered = [_finding(check, units) for check in doubts if check.outcome != COULD_NOT_LOOK]
    return rendered + [_finding(min(alike, key=_least_power), units, n_alike=len(alike)) for alike in blind.values()]


def _least_power(check: Check) -> float:
    """Power of a check for sorting; a check without one comes first."""
    return -1.0 if math.isnan(check.power) else check.power


def _finding(check: Check, units: UnitNames, n_alike: int = 1) -> Finding:
    """Render one check; ``n_alike`` counts the classes for which it speaks."""
    sentence, where = SENTENCES[check.reason], f"class {one_line(check.label, 80)}: " if check.label else ""
    place = where if n_alike == 1 else f"{n_alike} classes, least in {where}"
    seeds = f" (seeds {', '.join(map(str, check.seeds))})" if check.seeds else ""
    words = {"one": units.one, "many": units.many, "in_seeds": seeds, **check.numbers}
    words["counted"] = units.count(int(check.numbers.get("n_groups", 0)))
    why, ways = place + sentence.why.format(**words), ()
    if not sentence.way:
        needed, noticed = (check.numbers.get(name, math.inf) for name in ("models_needed", "noticed_nats"))
        claims = (SmallerClaim(claim=Claim.NOTICE, value=rounded_up(noticed)),) if math.isfinite(noticed) else ()
        ways = (Ways((models_remedy(needed, check.label if n_alike == 1 else ""),), claims),)
    way = (where if n_alike == 1 and sentence.way else "") + sentence.way.format(**words)
    return Finding(UNDECIDED, why, way, ways=ways, first=sentence.first, voids=check.voids)
