"""Sentences of checks: why a pass is kept away, and what would settle it."""

from collections.abc import Iterable
from dataclasses import dataclass

from memorisk.runs.errors import one_line
from memorisk.statistics.verdicts.checks import Check
from memorisk.statistics.verdicts.verdict import UNDECIDED, Finding, UnitNames


@dataclass(frozen=True)
class Sentence:
    """Templates over the fields and numbers of a check; ``{many}`` and ``{one}`` name patients."""

    why: str
    way: str
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
        "more models (--models), or more {many} of it",
    ),
    "tied-losses": Sentence(
        "most losses of many unseen images are equal under both models of a seed, by rounding or saturation, so that "
        "nobody can know how much trainings differ",
        "losses as 64-bit or 32-bit numbers with all their digits, or logits (columns logit:CLASS), not probabilities "
        "of 16 bits",
        first=True,
    ),
    "few-patients": Sentence(
        "the {many} are too few to tell one {one} that some trainings remember from chance",
        "more {many} of it, in the test part, too",
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
}
"""Sentences by the reason of a check."""


def findings(checks: Iterable[Check], units: UnitNames) -> list[Finding]:
    """Render the checks that keep a pass away, for `verdict.decide`.

    Args:
        checks: Outcomes of any checks.
        units: What a group is called.
    """
    return [_finding(check, units) for check in checks if check.is_doubt]


def _finding(check: Check, units: UnitNames) -> Finding:
    """Render one check."""
    sentence, where = SENTENCES[check.reason], f"class {one_line(check.label, 80)}: " if check.label else ""
    seeds = f" (seeds {', '.join(map(str, check.seeds))})" if check.seeds else ""
    words = {"one": units.one, "many": units.many, "in_seeds": seeds, **check.numbers}
    words["counted"] = units.count(int(check.numbers.get("n_groups", 0)))
    why, way = (where + text.format(**words) for text in (sentence.why, sentence.way))
    return Finding(UNDECIDED, why, way, first=sentence.first, voids=check.voids)
