"""Test one class at a time, and tabulate classes and groups (METHODS section 1, "Null and p-value").

A class has its memorization, null, list and mean. The null is not pooled over classes: a pooled null rejects 11 %
at nominal 5 % in rare classes and 4 % in common ones. `images` holds the images, `utility` the models' accuracy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import nan

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.scores.memorization import group_table, memorization
from memorisk.statistics.contrasts import unpaired_difference
from memorisk.statistics.intervals.means import Interval, jackknife_interval, these_groups_interval, two_way_interval
from memorisk.statistics.memorization.nulls import UnitPValues, unit_p_values
from memorisk.statistics.memorization.sign_flips import scaled_gaps, sign_flip_p_values, typical_error
from memorisk.statistics.multiple_testing.families import FamilyLists, family_lists
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg
from memorisk.statistics.randomization.sign_flips import ImagesElsewhere
from memorisk.statistics.verdicts.checks import COULD_NOT_LOOK, NOTHING, NOTICED, Check
from memorisk.statistics.verdicts.levels import PASS_POWER, POWER, VERDICT_CORRECTION, VERDICT_LEVEL
from memorisk.statistics.verdicts.noticeable_gap import (
    MIN_ROOM,
    STRATA,
    ClassList,
    class_list,
    noticeable_gap,
    power,
    seeds_needed,
)
from memorisk.statistics.verdicts.reversed_groups import reversed_groups
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale
from memorisk.statistics.verdicts.tiers import tier
from memorisk.statistics.verdicts.uneven_gaps import (
    ClassGaps,
    UnevenGaps,
    uneven_gap_noticed,
    uneven_gaps,
    uneven_seeds_needed,
)


@dataclass(frozen=True)
class ClassCounts:
    """Images and groups of a class."""

    n_images: int
    share: float
    """Share of all images."""
    n_groups: int
    n_images_scored: int
    n_groups_scored: int
    n_test_groups: int


@dataclass(frozen=True)
class ListPower:
    """Power of the verdict's list of a class to notice one patient; NaN without a list."""

    room: float = nan
    gap: float = nan
    """Noticeable gap, in the stratum where least is noticed."""
    stratum: str = ""
    """Name of that stratum (`noticeable_gap.STRATA`)."""
    strata: Mapping[str, float] = field(default_factory=dict)
    """Noticeable gap of each stratum that has scored patients."""
    power: float = nan
    low: float = nan
    high: float = nan
    notice_power: float = nan
    """Power at the gap that a pass must notice."""
    models_needed: float = nan
    """Number of models needed for a pass; NaN where these suffice, or none do."""


@dataclass(frozen=True)
class ListNumbers:
    """The lists of a class: the one that is shown, the verdict's, and what the latter would have noticed."""

    smallest_list: float
    """Smallest number of groups that a list could hold; NaN where no list is possible."""
    level: float
    n_flagged: int
    """Number of groups on the list that is shown."""
    n_verdict_flagged: int
    why_not: str
    """Why the class has no list; empty where it has one."""
    power: ListPower
    uneven: Check | None
    """Outcome of the check of uneven gaps among groups that no list holds; None where the class is not tested, or where
    all that is noticed are reversed groups, whose gaps would hide the power of the check."""
    n_uneven: int
    """Number of groups that no list holds, whose losses differ between twins in more seeds than chance explains."""
    reversals: Check | None = None
    """Outcome of the check of groups whose losses are higher under the models that were trained on them; None where
    there are none."""


NO_LISTS = ListNumbers(nan, nan, 0, 0, "", ListPower(), None, 0)


@dataclass(frozen=True)
class ClassFindings:
    """The results of one class.

    Attributes:
        label: The class.
        counts: Numbers of images and groups of the class.
        mean: Mean M over groups, in the unit of the losses, as are the numbers below.
        median: Median M over groups.
        trimmed: Trimmed mean of M over groups.
        tier: Tier by the mean.
        test_mean: Mean gain of unseen images.
        high_over_groups: Upper limit of ``excess`` over groups and trainings.
        excess: Mean M less ``test_mean``, where the design needs it.
        blocked: Reason why no p-values may be given; empty where they may.
        prerequisite_p: p-value of the check that unseen canaries look like test images.
        groups: Rows of ``per_group``.
        images: p-values of the scored images, by item index (descriptive where groups hold several images).
        table: Mean gap of each scored group in each seed, [G, S], signed by membership; NaN where the group
            had no partner.
        sample: Gaps of the images, for the check of uneven ones.
        floor: Smallest p-value that each group could have had, [G]; NaN without p-values.
        listing: Data of the class's list, at the verdict's level over one class; None without p-values.
        lists: Filled by `list_groups`.
    """

    label: str
    counts: ClassCounts
    mean: Interval
    median: Interval
    trimmed: Interval
    tier: str
    test_mean: float
    excess: Interval
    high_over_groups: float
    blocked: str
    prerequisite_p: float
    groups: pd.DataFrame
    images: dict[int, float]
    table: np.ndarray
    sample: ClassGaps
    floor: np.ndarray
    listing: ClassList | None
    lists: ListNumbers = NO_LISTS

    @property
    def row(self) -> dict[str, object]:
        """The row of ``per_class``."""
        counts, lists = self.counts, self.lists
        return {
            "label": self.label,
            "n": counts.n_images,
            "frequency": counts.share,
            "n_groups": counts.n_groups,
            "n_scored": counts.n_images_scored,
            "n_groups_scored": counts.n_groups_scored,
            "n_test_groups": counts.n_test_groups,
            **_columns(self.mean, "mean", ""),
            **_columns(self.median, "median", "median_"),
            **_columns(self.trimmed, "trimmed_mean", "trimmed_"),
            "df": self.mean.df,
            "tier": self.tier,
            "smallest_list": lists.smallest_list,
            "list_level": lists.level,
            "flagged": lists.n_flagged,
            "testable": not lists.why_not,
            "why_not": lists.why_not,
            "prerequisite_p": self.prerequisite_p,
            "room": lists.power.room,
            "noticeable_gap": lists.power.gap,
            "noticeable_stratum": lists.power.stratum,
            **{f"noticeable_gap_{stratum}": lists.power.strata.get(stratum, nan) for stratum in STRATA},
            "noticeable_power": lists.power.power,
            "noticeable_low": lists.power.low,
            "noticeable_high": lists.power.high,
            "notice_power": lists.power.notice_power,
            "models_needed": lists.power.models_needed,
            "verdict_flagged": lists.n_verdict_flagged,
            "blocked": self.blocked,
            "test_mean": self.test_mean,
            **_columns(self.excess, "excess", "excess_"),
            "high_over_groups": self.high_over_groups,
            "reversed": 0 if lists.reversals is None else int(lists.reversals.numbers["n_groups"]),
            "uneven": lists.n_uneven,
            "uneven_largest": nan if lists.uneven is None else lists.uneven.numbers.get("largest_gap", nan),
            "uneven_power": nan if lists.uneven is None else lists.uneven.power,
        }


def gaps_elsewhere(evidence: Evidence) -> dict[str, ImagesElsewhere]:
    """Add up the gaps of the images that patients have in other classes than one, for each class.

    Args:
        evidence: Score table of the audit, S seeds by I items.

    Returns:
        For each class the sums of `sign_flips.scaled_gaps`, signed by membership, and the number of these images, of
        its U scored patients and then of its V unseen ones, each by sorted id: `[S, U + V]` and `[U + V]`. Empty where
        no patient has images in several classes, where a row of each image holds all of its findings, which is a class
        of its own, and in the `paper` design.
    """
    items, sign = evidence.items, evidence.sign
    if is_asymmetric(evidence) or not items.whole.all():
        return {}
    scored, test = (items.split == "canary") & (sign != 0).any(axis=0), items.split == "test"
    used = np.flatnonzero(scored | test)
    label, sign = items.label[used], np.where(test[used], 1, sign[:, used])
    gap = np.where(sign != 0, sign * evidence.gap[:, used], 0.0)
    ids = np.char.add(np.where(test[used], "1", "0"), items.group[used].astype(str))  # scored patients come first
    patient = np.unique(ids, return_inverse=True)[1]
    n_patients, classes = int(patient.max(initial=-1)) + 1, {}
    for name in sorted(set(label.tolist())):
        of_class = label == name
        scaled = scaled_gaps(gap[:, of_class], typical_error(gap[:, of_class]))
        classes[name] = np.array([np.bincount(patient[of_class], row, n_patients) for row in scaled])
    sizes = {name: np.bincount(patient[label == name], minlength=n_patients) for name in classes}
    all_sizes = np.bincount(patient, minlength=n_patients)
    elsewhere, total = {}, sum(classes.values())
    for name, own in classes.items():
        members = np.unique(patient[label == name])
        others = all_sizes - sizes[name]
        sums = np.where(others > 0, total - own, 0.0)
        elsewhere[name] = ImagesElsewhere(sums[:, members], others[members])
    return elsewhere if any(own.sizes.any() for own in elsewhere.values()) else {}


def audit_class(
    evidence: Evidence,
    label: str,
    *,
    prerequisite_p: float,
    blocked: str | None,
    scale: LossScale = CROSS_ENTROPY,
    elsewhere: ImagesElsewhere | None = None,
) -> ClassFindings:
    """Score, test and summarise one class; its list is made with those of the other classes by ``list_groups``.

    Args:
        evidence: Score table of the audit, S seeds by I items.
        label: The class.
        prerequisite_p: p-value of the check that unseen canaries look like test images.
        blocked: Reason why no p-values may be given; None where they may.
        scale: Scale of the losses.
        elsewhere: Images of the class's patients in other classes, of `gaps_elsewhere`.

    Returns:
        Mean, median and trimmed mean of the gaps with intervals, p-values and the data of the list.

    Source:
        METHODS section 1, "Null and p-value" and "Class summary".
    """
    items = evidence.items
    of_class = items.label == label
    sign, gap = evidence.sign, evidence.gap
    scored = np.flatnonzero(of_class & (items.split == "canary") & (sign != 0).any(axis=0))
    test = np.flatnonzero(of_class & (items.split == "test"))
    groups, unit = np.unique(items.group[scored].astype(str), return_inverse=True)
    test_groups, test_unit = np.unique(items.group[test].astype(str), return_inverse=True)
    table = group_table(gap[:, scored], sign[:, scored], items.group[scored].astype(str)).values
    unseen = group_table(gap[:, test], np.ones((len(gap), len(test))), items.group[test].astype(str)).values

    why_not = blocked or _untested_reason(len(scored), len(test))
    p = floor = np.full(len(groups), np.nan)
    image_p: dict[int, float] = {}
    listing = None
    if why_not is None:
        listing = _list_data(evidence, scored, test, elsewhere)
        null = _p_values(evidence, scored, unit, test, test_unit, elsewhere)
        p, floor = null.p_value, null.floor
        own = p[unit]  # of patients with one image each
        if len(groups) < len(scored) or len(test_groups) < len(test) or elsewhere is not None:
            own = _p_values(evidence, scored, np.arange(len(scored)), test, np.arange(len(test))).p_value
        image_p = dict(zip(scored.tolist(), own.tolist(), strict=True))

    m = memorization(gap[:, scored], sign[:, scored])
    per_group = _group_rows(label, groups, unit, m, sign[:, scored]).assign(p_value=p)
    mean = these_groups_interval(table)
    excess = _excess(evidence, table, unseen, mean)
    return ClassFindings(
        label=label,
        counts=ClassCounts(
            n_images=int(of_class.sum()),
            share=float(of_class.sum() / len(set(items.image))),
            n_groups=len(np.unique(items.group[of_class].astype(str))),
            n_images_scored=len(scored),
            n_groups_scored=len(groups),
            n_test_groups=len(test_groups),
        ),
        mean=mean,
        median=jackknife_interval(table, "median"),
        trimmed=jackknife_interval(table, "trimmed_mean"),
        tier=tier(mean.estimate, len(table), scale),
        test_mean=float(unseen.mean()) if unseen.size else nan,
        excess=excess,
        high_over_groups=excess.high if is_asymmetric(evidence) else two_way_interval(table).high,
        blocked=why_not or "",
        prerequisite_p=prerequisite_p,
        groups=per_group,
        images=image_p,
        table=table,
        sample=ClassGaps(
            own=np.where(sign[:, scored] != 0, sign[:, scored] * gap[:, scored], nan),
            group=items.group[scored].astype(str),
            unseen=gap[:, test],
            unseen_group=items.group[test].astype(str),
        ),
        floor=floor,
        listing=listing,
    )


def _list_data(
    evidence: Evidence, scored: np.ndarray, test: np.ndarray, elsewhere: ImagesElsewhere | None
) -> ClassList:
    """Collect the data of a class's list; its level is divided among the classes later."""
    items, gap = evidence.items, evidence.gap
    sign, flip = evidence.sign[:, scored], not is_asymmetric(evidence)
    if not flip:
        gap, sign = gap.mean(axis=0, keepdims=True), np.ones((1, len(scored)))
    of_scored, of_test = items.group[scored].astype(str), items.group[test].astype(str)
    return class_list(
        gap[:, scored], sign, of_scored, gap[:, test], of_test, VERDICT_LEVEL, elsewhere=elsewhere, flip=flip
    )


def is_asymmetric(evidence: Evidence) -> bool:
    """Say whether the roles of the two models are not symmetric, so that signs may not be flipped."""
    return evidence.design == "paper" and evidence.assigned is None


def _excess(evidence: Evidence, table: np.ndarray, unseen: np.ndarray, mean: Interval) -> Interval:
    """Compute the class mean less the mean gain of unseen images of the class, with its limits; the verdict reads it.

    Twins are symmetric, so that unseen images gain nothing on average. In the `paper` design the candidate is better by
    its larger training set, also on images that it never saw: the class's mean test gap is subtracted, seed by seed,
    and the test groups' own chance is added to the interval.
    """
    if not is_asymmetric(evidence):
        return mean
    if not unseen.size or not len(table):
        return replace(mean, estimate=nan, low=nan, high=nan)
    drift = unseen.mean(axis=0)
    return unpaired_difference(two_way_interval(table - drift), two_way_interval(unseen - drift))


def list_groups(
    findings: list[ClassFindings], options: AnalysisOptions, *, seeds: np.ndarray, flip: bool, advise: bool = True
) -> list[ClassFindings]:
    """Make the lists of all classes, at one level over the whole audit (``statistics.multiple_testing``).

    Each class has two lists: the one that is shown, at the requested level and correction, and the verdict's, at its
    own. By default they are the same.

    Args:
        findings: Results of all classes, from `audit_class`.
        options: Level and correction of the list that is shown, and the gap that a pass must notice.
        seeds: Numbers of the seeds, [S]; the first is that of the simulated patients behind the noticeable gap.
        flip: Whether the roles of the two models are symmetric.
        advise: Whether to compute the number of models that a pass needs where these are too few.

    Returns:
        The same with the columns of the lists, the noticeable gap and the adjusted p-values.
    """
    lists = _lists(findings, options.level, options.correction)
    fixed = _lists(findings, VERDICT_LEVEL, VERDICT_CORRECTION)
    n_classes, seed = max(sum(f.listing is not None for f in findings), 1), abs(int(seeds[0]))
    unlisted = uneven_gaps([f.sample for f in findings], notice=options.notice, flip=flip, seed=seed)
    listed = []
    for i, finding in enumerate(findings):
        shortest, n, why_not = lists.smallest_list[i], len(finding.groups), finding.blocked
        if not why_not and shortest is not None and shortest > n:
            why_not = (
                f"with so few models and test images no list is shorter than {shortest}, and the class has {n} scored"
            )
        gaps = unlisted[i]
        uneven = gaps.uneven & ~fixed.rejections[i].rejected
        is_reversed = _reversed(finding, uneven) if flip else np.zeros(n, bool)
        uneven &= ~is_reversed
        numbers = ListNumbers(
            smallest_list=nan if shortest is None else float(shortest),
            level=float(lists.level[i]),
            n_flagged=lists.rejections[i].n_rejected,
            n_verdict_flagged=fixed.rejections[i].n_rejected,
            why_not=why_not,
            power=_list_power(finding.listing, fixed.rejections[i].rejected, n_classes, options.notice, seed, advise),
            uneven=None
            if finding.listing is None or (is_reversed.any() and not uneven.any())
            else _uneven_check(finding, gaps, uneven, seeds),
            n_uneven=int(uneven.sum()),
            reversals=_reversed_check(finding, is_reversed),
        )
        groups = finding.groups.assign(
            adjusted=benjamini_hochberg(finding.groups["p_value"], options.level).adjusted,
            flagged=lists.rejections[i].rejected,
            uneven=uneven,
            reversed=is_reversed,
        )
        listed.append(replace(finding, lists=numbers, groups=groups))
    return _with_models_for_uneven(listed, options.notice, flip=flip, seed=seed) if advise else listed


def _with_models_for_uneven(
    findings: list[ClassFindings], notice: float, *, flip: bool, seed: int
) -> list[ClassFindings]:
    """Note with how many models the check of uneven gaps has its power, where it lacks it in some class."""
    weak = [f.lists.uneven is not None and f.lists.uneven.reason == "little-power" for f in findings]
    if not any(weak):
        return findings
    samples = [f.sample for f in findings if f.listing is not None]
    seeds = uneven_seeds_needed(samples, notice=notice, flip=flip, seed=seed)
    needed = {} if seeds is None else {"models_needed": 2.0 * seeds}
    if seeds is None and (gap := uneven_gap_noticed(samples, above=notice, flip=flip, seed=seed)) is not None:
        needed = {"noticed_gap": gap}
    noted = []
    for finding, lacks in zip(findings, weak, strict=True):
        check = finding.lists.uneven
        if lacks and check is not None:
            lists = replace(finding.lists, uneven=replace(check, numbers={**check.numbers, **needed}))
            finding = replace(finding, lists=lists)
        noted.append(finding)
    return noted


def _uneven_check(finding: ClassFindings, gaps: UnevenGaps, uneven: np.ndarray, seeds: np.ndarray) -> Check:
    """State the outcome of the check of uneven gaps in a class; ``uneven`` leaves out listed groups."""
    check = Check(name="uneven-gaps", outcome=COULD_NOT_LOOK, reason=gaps.reason, label=finding.label)
    sample = finding.sample
    if uneven.any():
        largest = float(gaps.largest[uneven].max())
        groups = np.unique(sample.group)[uneven]
        exchanged = (sample.own[:, np.isin(sample.group, groups)] <= -largest / 2).any(axis=1)
        numbers = {"n_groups": float(uneven.sum()), "largest_gap": largest}
        affected = tuple(int(seed) for seed in seeds[exchanged])
        return replace(check, outcome=NOTICED, reason="some-trainings-remember", numbers=numbers, seeds=affected)
    if gaps.reason:
        return check
    half, quarter = gaps.powers
    numbers = {"n_seeds": float(len(seeds)), "half_needed": 100 * PASS_POWER, "quarter_needed": 100 * POWER}
    for name, power_ in (("half", half), ("quarter", quarter)):
        numbers |= {f"{name}_gap": power_.gap, f"{name}_seeds": power_.n_seeds, f"{name}_cases": 100 * power_.power}
    check = replace(check, power=min(half.power, quarter.power), numbers=numbers)
    if gaps.is_powerful:
        return replace(check, outcome=NOTHING)
    return replace(check, reason="little-power")


def _reversed(finding: ClassFindings, uneven: np.ndarray) -> np.ndarray:
    """Return which groups carry a mean below 0, or are uneven with a mean below 0 in other trainings, [G]."""
    carries = reversed_groups(finding.table)
    if finding.listing is None:
        return carries
    rows = np.flatnonzero(uneven)
    return carries | np.isin(np.arange(len(carries)), [i for i in rows if _is_below_zero(finding.table[i : i + 1])])


def _is_below_zero(table: np.ndarray) -> bool:
    """Return whether the interval over trainings of one group's mean gap lies below 0, [1, S]."""
    return these_groups_interval(table).high < 0


def _reversed_check(finding: ClassFindings, is_reversed: np.ndarray) -> Check | None:
    """State that groups are reversed; None where none is."""
    if not is_reversed.any():
        return None
    largest = float(-np.nanmean(finding.table[is_reversed], axis=1).min())
    numbers = {"n_groups": float(is_reversed.sum()), "largest_gap": largest}
    return Check(
        name="reversed-patients", outcome=NOTICED, reason="reversed-patients", label=finding.label, numbers=numbers
    )


def _lists(findings: list[ClassFindings], level: float, correction: str) -> FamilyLists:
    p_values = [f.groups["p_value"].to_numpy(dtype=np.float64) for f in findings]
    return family_lists(p_values, [f.floor for f in findings], level, correction)


def _list_power(
    listing: ClassList | None, listed: np.ndarray, n_classes: int, notice: float, seed: int, advise: bool
) -> ListPower:
    """Compute the class's room and noticeable gap, and the number of models with which a pass is possible."""
    if listing is None:
        return ListPower()
    shared = replace(listing, level=VERDICT_LEVEL / n_classes, listed=listed)
    gap = noticeable_gap(shared, seed=seed)
    worst = gap.worst
    notice_power = power(shared, notice, seed=seed) if gap.room >= MIN_ROOM else nan
    seeds = None
    if advise and not (notice_power >= PASS_POWER and worst.gap <= notice):
        seeds = seeds_needed(shared, notice, seed=seed)
    needed = nan if seeds is None else 2.0 * seeds
    return ListPower(
        room=gap.room,
        gap=worst.gap,
        stratum=worst.stratum,
        strata={stratum.stratum: stratum.gap for stratum in gap.strata},
        power=worst.power,
        low=worst.low,
        high=worst.high,
        notice_power=notice_power,
        models_needed=needed,
    )


def _p_values(
    evidence: Evidence,
    scored: np.ndarray,
    unit: np.ndarray,
    test: np.ndarray,
    test_unit: np.ndarray,
    elsewhere: ImagesElsewhere | None = None,
) -> UnitPValues:
    gap = evidence.gap
    if is_asymmetric(evidence):
        return unit_p_values(gap[:, scored].mean(axis=0), unit, gap[:, test].mean(axis=0), test_unit)
    level = VERDICT_LEVEL / len(set(evidence.items.label))
    return sign_flip_p_values(
        gap[:, scored], evidence.sign[:, scored], unit, gap[:, test], test_unit, elsewhere=elsewhere, level=level
    )


def _untested_reason(n_scored: int, n_test: int) -> str | None:
    if not n_scored:
        return "no image of this class was scored"
    if not n_test:
        return "the test part holds no image of this class"
    return None


def _group_rows(label: str, groups: np.ndarray, unit: np.ndarray, m: np.ndarray, sign: np.ndarray) -> pd.DataFrame:
    counts = np.bincount(unit, minlength=len(groups))
    largest = np.full(len(groups), -np.inf)
    np.maximum.at(largest, unit, m)
    seeds = np.zeros(len(groups), dtype=np.int64)
    np.maximum.at(seeds, unit, (sign != 0).sum(axis=0))
    return pd.DataFrame(
        {
            "label": pd.Series([label] * len(groups), dtype=object),
            "group": groups.astype(object),
            "n_images": counts.astype(np.int64),
            "M": largest,
            "M_mean": np.bincount(unit, weights=m, minlength=len(groups)) / np.maximum(counts, 1),
            "n_seeds": seeds,
        }
    )


def _columns(interval: Interval, name: str, prefix: str) -> dict[str, float]:
    return {name: interval.estimate, f"{prefix}low": interval.low, f"{prefix}high": interval.high}
