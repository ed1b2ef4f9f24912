"""Families that a filter promises, and what the threshold of each costs.

A threshold that misses few copies of a family can leave out most of a set where the detector takes other people for
such copies. The cost of a family is the share of new people, and of the synthetic images, that its threshold leaves
out. A filter whose user names no families promises those that its detectors can detect: of each family the strongest
copies at a cost of at most `MOST_NEW_PEOPLE`. All candidates share the confidence, so that the promise holds for those
that are chosen (`statistics.pairs.guarantee`). Where people are too few for candidates of every strength, whole
families are the candidates; that depends on numbers of people alone, and on no score.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from memorisk.audits.filter.calibration import CalibratedThreshold, calibrate, counted_guarantees, guaranteed_thresholds
from memorisk.audits.filter.decisions import real_share, synthetic_share
from memorisk.audits.filter.families import COPIES, Family, parse_families
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.result import FamilyCost
from memorisk.audits.filter.screening import Screening, ScreeningDetector, screen
from memorisk.audits.filter.sets import FilterSets
from memorisk.images.alterations.families import FAMILIES, PLANTED
from memorisk.runs.errors import InputError, listed
from memorisk.runs.workload import Progress
from memorisk.statistics.pairs.guarantee import MissGuarantee

MOST_NEW_PEOPLE = 0.1
"""Largest share of new people that the threshold of a family may leave out if the family was not named."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Families that can be promised, and whether there are people enough for it."""

    alternatives: tuple[tuple[Family, ...], ...]
    """Alternatives of each family, the strongest copies first; a named family has itself as its one alternative."""
    counted: tuple[MissGuarantee, ...]
    """Identities for the strongest copies of each."""
    named: bool
    """Whether the user named them: then all are promised at any cost."""

    @property
    def families(self) -> tuple[Family, ...]:
        """Return the strongest copies of each family."""
        return tuple(each[0] for each in self.alternatives)

    @property
    def n_copies(self) -> int:
        """Return how many copies are made at most, if every candidate is tried."""
        pairs = zip(self.alternatives, self.counted, strict=True)
        return sum(len(each) * guarantee.n_identities for each, guarantee in pairs if each[0].copied)

    @property
    def shared(self) -> int:
        """Return how many thresholds share the confidence: detectors times candidates."""
        return self.counted[0].detectors

    @property
    def enough(self) -> bool:
        """Return whether there are people enough for every guarantee."""
        return all(guarantee.kept for guarantee in self.counted)


@dataclass(frozen=True, eq=False)
class Choice:
    """Families that are promised, with their thresholds, and what every candidate that was tried costs."""

    families: tuple[Family, ...]
    counted: tuple[MissGuarantee, ...]
    """Guarantee of each family, with the number of identities that there are and that it needs."""
    calibrated: tuple[CalibratedThreshold, ...] = ()
    costs: tuple[FamilyCost, ...] = ()
    thresholds: tuple[float, ...] = ()
    """Threshold of each detector: the smallest of its families', or the given one; none where no family is promised,
    and where identities are missing."""

    @property
    def missing(self) -> int:
        """Return the number of identities that are missing, in the family that lacks most."""
        return max((guarantee.missing for guarantee in self.counted), default=0)


def count_candidates(sets: FilterSets, n_detectors: int, options: ScreeningOptions) -> Candidates:
    """Count identities for the families that were named, or for all that can be chosen.

    Args:
        sets: Sets with the calibration images of new identities and the look-alikes among them.
        n_detectors: Number of detectors that share the confidence with the families.
        options: Families, miss rate and confidence.
    """
    if options.families or options.threshold:
        return _counted([(family,) for family in parse_families(options.families or (COPIES,))], sets, n_detectors,
                        options, named=True)  # fmt: skip
    planted = [(Family(name),) for name in PLANTED]
    whole = [(Family(name, strengths),) for name, strengths in FAMILIES.items()]
    graded = [
        tuple(Family(name, strengths[:n]) for n in range(len(strengths), 0, -1)) for name, strengths in FAMILIES.items()
    ]
    candidates = _counted([*graded, *planted], sets, n_detectors, options, named=False)
    return candidates if candidates.enough else _counted([*whole, *planted], sets, n_detectors, options, named=False)


def _counted(
    alternatives: Sequence[tuple[Family, ...]],
    sets: FilterSets,
    n_detectors: int,
    options: ScreeningOptions,
    *,
    named: bool,
) -> Candidates:
    shared = n_detectors * sum(map(len, alternatives))
    counted = counted_guarantees(sets, [each[0] for each in alternatives], shared, options)
    return Candidates(tuple(alternatives), tuple(counted), named)


def choose_families(
    opened: Sequence[ScreeningDetector],
    sets: FilterSets,
    candidates: Candidates,
    options: ScreeningOptions,
    progress: Progress,
) -> Choice:
    """Compute thresholds and costs of candidates, and choose who is promised.

    Args:
        opened: The detectors.
        sets: Sets with calibration images; their synthetic images are those whose cost is counted.
        candidates: Candidates of `count_candidates`, with enough people.
        options: Miss rate, confidence, seed, device.
        progress: Called with (stage, done, total).

    Returns:
        Families that are promised; none where no family can be detected at an acceptable cost.

    Raises:
        InputError: Features are not available.
    """
    matched = screen(opened, sets, [math.inf] * len(opened), progress)
    chosen: list[tuple[Family, MissGuarantee, list[CalibratedThreshold]]] = []
    costs: list[FamilyCost] = []
    for alternatives, counted in zip(candidates.alternatives, candidates.counted, strict=True):
        for family in alternatives:
            calibrated = calibrate(opened, sets, [family], candidates.shared, options, progress)
            cost = _cost(family, guaranteed_thresholds(calibrated, len(opened)), matched, sets, options.seed)
            promised = candidates.named or (cost.new is not None and cost.new.estimate <= MOST_NEW_PEOPLE)
            costs.append(replace(cost, promised=promised))
            if promised:
                chosen.append((family, counted, calibrated))
                break
    calibrated = sorted((each for _, _, part in chosen for each in part), key=lambda each: each.detector)
    thresholds = guaranteed_thresholds(calibrated, len(opened)) if chosen else []
    return Choice(
        tuple(family for family, _, _ in chosen), tuple(part for _, part, _ in chosen), tuple(calibrated),
        tuple(costs), tuple(thresholds),
    )  # fmt: skip


def choose_thresholds(
    opened: Sequence[ScreeningDetector],
    sets: FilterSets,
    candidates: Candidates,
    options: ScreeningOptions,
    progress: Progress,
) -> Choice:
    """Choose families and thresholds, or take the thresholds that the user gave; arguments as for `choose_families`.

    Raises:
        InputError: Features are not available.
    """
    if not options.threshold:
        return choose_families(opened, sets, candidates, options, progress)
    calibrated = calibrate(opened, sets, candidates.families, candidates.shared, options, progress)
    pairs = zip(options.thresholds, opened, strict=True)
    thresholds = tuple(one.similarity.at_half if value is None else value for value, one in pairs)
    return Choice(candidates.families, candidates.counted, tuple(calibrated), thresholds=thresholds)


def _cost(family: Family, thresholds: list[float], matched: Screening, sets: FilterSets, seed: int) -> FamilyCost:
    """Count what the thresholds of one family leave out."""
    at_these = replace(matched, thresholds=tuple(thresholds))
    new, _ = real_share(matched.real, thresholds, sets, seed)
    return FamilyCost(
        family=family.words,
        thresholds=tuple(thresholds),
        synthetic=synthetic_share(at_these) if len(matched.identical) else None,
        new=new,
        promised=False,
    )


def refuse_unaffordable(choice: Choice, opened: Sequence[ScreeningDetector]) -> None:
    """Refuse to screen without a threshold.

    Args:
        choice: Choice of `choose_thresholds`.
        opened: The detectors.

    Raises:
        InputError: No family can be detected at an acceptable cost.
    """
    if not choice.families:
        raise InputError(none_affordable(choice.costs, [one.name for one in opened]))


def why_unaffordable(costs: Sequence[FamilyCost], detectors: Sequence[str]) -> str:
    """Return why no family can be promised at a bearable cost; empty where one can, or none was tried."""
    return none_affordable(costs, detectors) if costs and not any(cost.promised for cost in costs) else ""


def none_affordable(costs: Sequence[FamilyCost], detectors: Sequence[str]) -> str:
    """Say that no family can be detected by likeness, and which family costs least.

    Args:
        costs: Costs of all candidates.
        detectors: Names of the detectors.
    """
    least = min(costs, key=lambda cost: math.inf if cost.new is None else cost.new.estimate)
    share = np.nan if least.new is None else 100 * least.new.estimate
    return (
        f"{listed(list(detectors))}: no family of copies can be distinguished from likeness, since each threshold "
        f"leaves out more than {100 * MOST_NEW_PEOPLE:g} % of new people (least: {least.family}, {share:.0f} %): give "
        "another --detector, or --families to promise some at their cost (--dry-run with --families copies shows it)"
    )
