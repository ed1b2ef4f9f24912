"""Reasons of checks: each is a code of a `Check` with its numbers as fields, and why it keeps a pass away."""

import math
from collections.abc import Iterable
from dataclasses import fields

from memorisk.statistics.verdicts.checks import COULD_NOT_LOOK, Check
from memorisk.statistics.verdicts.class_reasons import models_remedy
from memorisk.statistics.verdicts.reasons import REASONS, ClassReason, Gravity, Reason, Words
from memorisk.statistics.verdicts.remedies import Claim, SmallerClaim, Ways, rounded_up
from memorisk.statistics.verdicts.units import UnitNames


class CheckReason(ClassReason):
    """Outcome of a check that keeps a pass away."""

    seeds: tuple[int, ...] = ()
    """Seeds in which it was noticed."""
    n_classes: int = 1
    """Number of classes for which it speaks; the label is that of the least power."""
    by_models = False
    """Whether more models settle it."""

    @property
    def place(self) -> str:
        """Class or classes as they begin a sentence."""
        where = f"{self.of_class}: " if self.label else ""
        return where if self.n_classes == 1 else f"{self.n_classes} classes, least in {where}"

    @property
    def way_place(self) -> str:
        """Class as it begins the remedy; empty where several classes share it."""
        return f"{self.of_class}: " if self.label and self.n_classes == 1 else ""

    @property
    def in_seeds(self) -> str:
        """Seeds in brackets."""
        named = "seed" if len(self.seeds) == 1 else "seeds"
        return f" ({named} {', '.join(map(str, self.seeds))})" if self.seeds else ""


class SomeTrainingsRemember(CheckReason, code="some-trainings-remember"):
    """Groups whose losses differ between twins in more single seeds than chance explains."""

    n_groups: int = 0
    largest_gap: float
    text = Words(
        "{place}{n_groups:{one}|{many}} not flagged with losses that differ between twins by up to {largest_gap:.2g} "
        "{loss_unit} in single seeds, in more seeds than chance explains{in_seeds}: some trainings remember them, or "
        "it is wrong who was trained on what in some"
    )
    plain = Words("{n_groups:{one} seems|{many} seem} to be remembered by some of the models and not by others")
    remedy = Words("{way_place}a check of who was trained on what in each model (per_group, uneven), then more models")


class ReversedPatients(CheckReason, code="reversed-patients", gravity=Gravity.FIRST):
    """Groups whose losses are higher under the models that were trained on them."""

    n_groups: int = 0
    largest_gap: float
    text = Words(
        "{place}{n_groups:{one} has|{many} have} higher losses under the models that were trained on the same images "
        "than under the others, by up to {largest_gap:.2g} {loss_unit} in the mean of all seeds, which no training "
        "does (per_group, reversed)"
    )
    plain = Words(
        "{n_groups:{one} seems|{many} seem} to be known less well to the models that were trained on the same images, "
        "which no training does, so that the records of who was trained on what may be wrong"
    )
    remedy = Words(
        "{way_place}a check of who was trained on what for {n_groups:{one}|{many}} marked as reversed "
        "in per_group (members and others may be exchanged)"
    )


class LittlePower(CheckReason, code="little-power"):
    """Audit in which a group that some trainings remember could go unnoticed."""

    half_gap: float
    half_seeds: float
    half_cases: float
    half_needed: float
    quarter_gap: float
    quarter_seeds: float
    quarter_cases: float
    quarter_needed: float
    n_seeds: int
    by_models = True
    text = Words(
        "{place}one {one} that some trainings remember could go unnoticed: {half_gap:.2g} {loss_unit} in "
        "{half_seeds:.0f} of {n_seeds} trainings would have been noticed in {half_cases:.0f} of 100 cases "
        "({half_needed:.0f} needed), {quarter_gap:.2g} {loss_unit} in {quarter_seeds:.0f} in {quarter_cases:.0f} "
        "({quarter_needed:.0f} needed)"
    )
    plain = Words("a single {one} that only some of the models remember could go unnoticed")


class TiedLosses(CheckReason, code="tied-losses", gravity=Gravity.FIRST):
    """Losses that are equal by rounding or saturation."""

    text = Words(
        "{place}most losses of many unseen images are equal under both models of a seed, by rounding or saturation, so "
        "that the spread between trainings is unknown"
    )
    plain = Words("the numbers that the models gave were rounded too much to compare them")

    @Words
    def remedy(self) -> str:
        digits = f"{self.way_place}losses as 64-bit or 32-bit numbers with all their digits"
        if not self.units.loss_scale.of_answers:
            return f"{digits}, not of 16 bits"
        return f"{digits}, or logits (columns logit:CLASS), not probabilities of 16 bits"


class LossesAtCeiling(CheckReason, code="losses-at-ceiling", gravity=Gravity.FIRST):
    """Losses that are clipped to a largest value."""

    n_groups: int
    ceiling: float
    text = Words(
        "losses end at a ceiling ({ceiling:.4g} {loss_unit} at most), which several models or images share to the "
        "last digit: the gap of {n_groups:{one}|{many}} with a loss there is not known"
    )
    plain = Words(
        "the numbers that the models gave were cut off at a largest value, so that {n_groups:{one}|{many}} could not "
        "be compared"
    )

    @Words
    def remedy(self) -> str:
        logits = ", or logits (columns logit:CLASS)" if self.units.loss_scale.of_answers else ""
        return f"losses that are not clipped{logits}"


class FewPatients(CheckReason, code="few-patients"):
    """Groups that are too few to see one that some trainings remember."""

    text = Words("{place}the {many} are too few to distinguish one {one} that some trainings remember from chance")
    plain = Words("the {many} are too few to see a single {one} that only some of the models remember")
    remedy = Words("{way_place}more {many}, in the test part, too")


class SharedHalves(CheckReason, code="shared-halves", gravity=Gravity.VOID):
    """Seeds that divided the groups alike."""

    n_draws: int
    n_seeds: int
    text = Words(
        "independent draws of who was trained on what: {n_draws} in {n_seeds} seeds{in_seeds}. What the members of a "
        "half that returns have in common looks like memory"
    )
    plain = Words("several models were trained on the same part of the data, so that they cannot be compared")
    remedy = Words("the halves drawn anew for each seed")


class FewCoins(CheckReason, code="few-coins"):
    """Groups that are too few to see whether the halves were drawn anew."""

    n_groups: int
    n_needed: int
    text = Words("the {many} are too few ({n_groups}) to see whether the halves were drawn anew for each seed")
    plain = Words("the {many} are too few to see whether the models were trained on parts drawn anew")
    remedy = Words("at least {n_needed} {many} among the canaries")


class MembersAnsweredWorse(CheckReason, code="members-answered-worse", gravity=Gravity.FIRST):
    """Seeds in which members have the higher losses."""

    text = Words("members have systematically higher losses than non-members{in_seeds}, which no training does")
    plain = Words(
        "models {verb} those they were trained on worse than others, which no training does, so that the records of "
        "who was trained on what may be wrong"
    )
    remedy = Words("a check of who was trained on what in these seeds (members and others may be exchanged)")


class FewHeldOut(CheckReason, code="few-held-out"):
    """Held-out groups that are too few to single out an image."""

    n_held: int
    n_needed: int
    text = Words(
        "{n_held} held-out {many} are too few to show how near a synthetic image comes to one {one} by chance: no "
        "image could be singled out"
    )
    plain = Words("{n_held} held-out {many} are too few to tell a copy from chance")
    remedy = Words("--held-out with {n_needed} {many} or more")


class EqualDistances(CheckReason, code="equal-distances"):
    """Distances of held-out groups that are equal or 0."""

    text = Words(
        "distances of held-out {many} are equal or 0, so that no distance tells a copy from chance: no image could be "
        "singled out"
    )
    plain = Words("the detector does not tell different {many} apart, so that it cannot see copies")
    remedy = Words("a detector that tells different {many} apart (--detector)")


class NoNearThreshold(CheckReason, code="no-near-threshold"):
    """Real images that do not show how alike two different groups can be."""

    text = Words(
        "nearly identical images could not be looked for: the real images do not show how alike two different {many} "
        "can be"
    )
    plain = Words("nearly identical images could not be looked for")
    remedy = Words("more {many}, or larger images, in which different {many} differ (--size)")


class NearPairsLeft(CheckReason, code="near-pairs-left"):
    """Pairs that look alike and were not compared in detail."""

    n_pairs: int
    text = Words(
        "{n_pairs:,} pairs of a synthetic and a training image that look alike were not compared in detail, because "
        "there are too many"
    )
    plain = Words("{n_pairs:,} pairs of images that look alike were too many to be compared in detail")
    remedy = Words("the set in parts, each audited by itself")


class ColoursNotCompared(CheckReason, code="colours-not-compared"):
    """Coloured images whose single channels and differences of channels could not be compared."""

    text = Words(
        "whether the colours of the set hold training images could not be looked for: the real images do not show how "
        "alike the colours of two different {many} can be, or there are too many pairs"
    )
    plain = Words("the colours of the set could not be compared with those of training images")
    remedy = Words("--channels 1, which compares and releases grey images; or more {many}")


class NoAlignmentCut(CheckReason, code="no-alignment-cut"):
    """Images that are too few for a second look."""

    text = Words("the second look could confirm no pair: too few images show how alike two different {many} can be")
    plain = Words("whether a generated image lies on a training image could not be seen")
    remedy = Words("more held-out {many}, and more synthetic images")


class NoRandomSplit(CheckReason, code="no-random-split"):
    """Parts of which it cannot be tested whether they are a random split."""

    text = Words(
        "whether training and held-out {many} are a random split could not be tested: in one part every {one} shares "
        "an image with another {one}"
    )
    plain = Words("whether the held-out {many} are comparable with those in the training could not be tested")
    remedy = Words("held-out {many} without any image of the training {many}")


class NoPairThreshold(CheckReason, code="no-pair-threshold"):
    """Planted copies that are too few for a threshold."""

    text = Words(
        "images could not be compared with what they were generated from: too few planted copies give a threshold"
    )
    plain = Words("generated images could not be compared with the images they were generated from")
    remedy = Words("more --plants, or a detector that gives probabilities (--detector)")


class NoHeldOutPairs(CheckReason, code="no-held-out-pairs"):
    """Classes of conditions without a held-out image."""

    text = Words(
        "images could not be compared with what they were generated from: no held-out image has the class of such a "
        "training image, so that chance is not known"
    )
    plain = Words("generated images could not be compared with the images they were generated from")
    remedy = Words("held-out images of the classes of the training images")


class DismissalsNotCompared(CheckReason, code="dismissals-not-compared"):
    """Dismissed pairs that held-out groups cannot be compared with."""

    n_pairs: int
    text = Words(
        "{n_pairs:,} nearly identical pairs were dismissed by a person, and numbers of images differ so much that "
        "held-out {many} cannot show how many there are by chance"
    )
    plain = Words(
        "a person dismissed {n_pairs:,} pairs of nearly identical images, and how many there are by chance is not known"
    )
    remedy = Words(
        "held-out {many} with as many images as training {many} have; or the set without the images of these pairs "
        "(memorisk release SET CLEAN --without RUN, the pairs confirmed)"
    )


def check_reasons(checks: Iterable[Check], units: UnitNames) -> list[Reason]:
    """Return the reasons of the checks that keep a pass away, for `verdict.decide`.

    Classes that could not be looked at for one reason share it, with the numbers of the class of least power.

    Args:
        checks: Outcomes of any checks.
        units: Names of a group.
    """
    doubts = [check for check in checks if check.is_doubt]
    blind: dict[str, list[Check]] = {}
    for check in doubts:
        if check.outcome == COULD_NOT_LOOK:
            blind.setdefault(check.reason, []).append(check)
    noticed = [_reason(check, units) for check in doubts if check.outcome != COULD_NOT_LOOK]
    return noticed + [_reason(min(alike, key=_least_power), units, len(alike)) for alike in blind.values()]


def _least_power(check: Check) -> float:
    """Return the power of a check for sorting; a check without one comes first."""
    return -1.0 if math.isnan(check.power) else check.power


def _reason(check: Check, units: UnitNames, n_classes: int = 1) -> Reason:
    """Make the reason of one check; its numbers are the fields of the same names."""
    kind, ways = REASONS[check.reason], ()
    assert issubclass(kind, CheckReason)
    if kind.by_models:
        needed, noticed = (check.numbers.get(name, math.inf) for name in ("models_needed", "noticed_gap"))
        claims = (SmallerClaim(claim=Claim.NOTICE, value=rounded_up(noticed)),) if math.isfinite(noticed) else ()
        ways = (Ways((models_remedy(needed, check.label if n_classes == 1 else ""),), claims),)
    numbers = {
        field.name: int(number) if field.type is int else number
        for field in fields(kind)
        if (number := check.numbers.get(field.name)) is not None
    }
    return kind(**numbers, label=check.label, seeds=check.seeds, n_classes=n_classes, units=units, ways=ways)
