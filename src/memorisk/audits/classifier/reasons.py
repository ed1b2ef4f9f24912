"""Reasons of a classifier audit besides its classes, attacks and checks: split, patients, coverage, models, target."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_numbers import (
    BLIND,
    CONTROL,
    CONTROL_OF,
    PERMUTED,
    AttackAuc,
    BesideTwins,
    Limits,
    Replication,
    TargetAudit,
)
from memorisk.audits.classifier.evidence import WHOLE, Context
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.classifier.pages.wording import attack_title
from memorisk.audits.classifier.result import TRAINED_ELSEWHERE, ClassUtility, LookAlikes, Unscored, Utility
from memorisk.audits.subgroups import SubgroupReason
from memorisk.images.identity import IdDoubt, IdsInDoubt
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.reasons import FAIL, LIMIT, SUPPORT, Gravity, Number, Reason, Words
from memorisk.statistics.verdicts.units import UnitNames

CONTROL_NAMES = {
    CONTROL: "the loss of models that saw neither",
    BLIND: "a probe of the images without any model",
    PERMUTED: "the loss under permuted membership",
}
"""Controls of all attacks on the very model, as subjects in sentences."""
PAIR_TABLE = "look_alikes"
"""Name of the table that lists pairs of look-alikes."""
_FIRST = Gravity.FIRST


class NotRandom(Reason, code="split-not-random", gravity=_FIRST):
    """Split without which no model and no patient more gives a p-value."""

    text = Words("the split is not known to be random by group, so that its test part is not a null")
    plain = Words(
        "the people that no model saw were not chosen at random, so that they cannot be compared with the others"
    )
    remedy = Words(
        "a split drawn at random by patient; if the given one was, say so (--splits given-random; for losses leave out "
        "--no-random-split)"
    )


class UnknownPatients(Reason, code="unknown-patients", gravity=_FIRST):
    """Images without a patient id: the null then may hold the patient it is to be held against."""

    n_without: int
    """Number of images without an id; 0 where no image has one."""
    plain = Words("it is not known whose each image is, so that what is remembered of a person may have stayed hidden")
    remedy = Words(
        "patient ids (--group-from, --group-column; of losses a column group); or --one-image-per-patient, where no "
        "patient has two images"
    )

    @Words
    def text(self) -> str:
        missing = plural(self.n_without, "image has", "images have") + " no patient id"
        return (
            f"{missing if self.n_without else 'no patient ids were given'}: a patient with images in training and test "
            "part hides what is remembered of them"
        )


class WithoutPartner(Reason, code="without-partner", gravity=_FIRST):
    """Groups that no model of a pair alone saw."""

    n_groups: int
    n_images: int
    text = Words("{counted} had no partner, so nothing is known of them")
    plain = Words("{counted} could not be compared, so that nothing is known of them")
    remedy = Words(
        "every image seen by one model of a pair and not by the other: the same audit in a new folder divides them "
        "between the models, too (audit classifier)"
    )

    @property
    def counted(self) -> str:
        """Groups and images in words."""
        return unpaired_count(self.n_groups, self.n_images, self.units)


class NothingLearned(Reason, code="nothing-learned", gravity=_FIRST):
    """Models that are not surely better than guessing."""

    utility: str
    """Accuracy and guessing, in words."""
    trained_here: bool
    own_function: bool = False
    """Whether the user's function made the models: it takes no settings of the built-in training."""
    text = Words(
        "the models are not surely better than guessing on unseen images ({utility}): a pass needs models that learned "
        "the task"
    )
    plain = Words("the audited models did not surely learn their task, so that they do not speak for one that did")

    @Words
    def remedy(self) -> str:
        of_answers = self.units.loss_scale.of_answers
        options = "--epochs, --lr, --model, --weights" if of_answers else ""
        if self.own_function:
            scale = "[0, 1]" if of_answers else "[-1, 1]"
            options = f"--train-settings; its models are scored on images in {scale}"
        how = (f" ({options})" if options else "") if self.trained_here else ", and losses of the models that it makes"
        return f"the training that the released model really had{how}"


class ImagesIgnored(Reason, code="images-ignored", gravity=_FIRST):
    """Function of the user's that may train on other images than those that it receives."""

    control_loss: float
    """Mean loss on unseen images of the model that was trained on altered ones."""
    model_loss: float
    """The same of the models of the audit, in the mean."""
    p: float
    """Probability of so large a loss where the function ignores what it receives."""

    @Words
    def text(self) -> str:
        altered = "with their labels exchanged" if self.units.loss_scale.of_answers else "as negatives"
        return (
            f"the training function may not use the images that it receives: a model that it trained on them {altered} "
            f"has a mean loss of {self.control_loss:.3g} {self.units.loss_unit} on unseen images as they are, the "
            f"models of the audit have {self.model_loss:.3g} (p {Number(self.p):p})"
        )

    plain = Words(
        "it could not be seen that the models learned from the images of this audit, so that what they remember of a "
        "person may have stayed hidden"
    )
    remedy = Words("a training function that learns from the images of its arguments, and from no others")


class UnknownLearning(Reason, code="learning-unknown", gravity=_FIRST):
    """Models of which it is not known whether they learned anything."""

    plain = Words("whether the audited models learned their task is not known")

    @Words
    def text(self) -> str:
        compared = "answers could not be compared with guessing"
        if not self.units.loss_scale.of_answers:
            compared = "errors could not be compared with those of a trivial prediction"
        return f"whether the models learned anything is not known: their {compared}"

    @Words
    def remedy(self) -> str:
        several = f"at least two {self.units.many} in the test part"
        if not self.units.loss_scale.of_answers:
            return f"{several}; of a table of losses the column trivial, the error of a trivial prediction"
        return f"{several}; of images with several labels rows of the label {WHOLE}"


class FewTestGroups(Reason, code="few-test-groups", gravity=_FIRST):
    """Test part in which some class has too few groups to tell learning from chance."""

    text = Words(
        "whether the models learned anything is not known: a class has a single {one} in the test part, too few to say"
    )
    plain = Words("whether the audited models learned their task is not known: too few {many} were new to them")
    remedy = Words("at least two {many} of each class in the test part")


class TargetNotCompared(Reason, code="target-not-compared", gravity=_FIRST):
    """Given model that was not compared with its twins."""

    text = Words("whether the given model is like its twins is not known: it was not compared with them")
    plain = Words("whether the model to be released is like the audited ones is not known")
    remedy = Words("the audit repeated, with --target")


class OtherModel(Reason, code="target-unlike-twins", gravity=_FIRST):
    """Given model that is not one more twin, so that only the attacks on it speak for it."""

    outside: tuple[BesideTwins, ...]
    names: tuple[str, ...]
    """Name of each number in which it differs."""
    plain = Words("the model to be released is unlike the audited ones, so that these do not speak for it")

    @Words
    def remedy(self) -> str:
        how = "--steps and its other settings"
        if self.units.loss_scale.of_answers:
            how = "--train, or its settings; --design matched trains them on nearly all of its images"
        return f"twins by the very recipe of the given model ({how})"

    @Words
    def text(self) -> str:
        parts, scale = [], self.units.loss_scale
        for name, part in zip(self.names, self.outside, strict=True):
            compared, whose, unit = part, "is", ""
            if not scale.of_answers:  # only differences of such losses have a size that says something
                compared, whose, unit = part.from_mean, "less the twins' mean is", f" {scale.unit}"
            limits = f"{compared.low:.3g} to {compared.high:.3g}{unit}"
            parts.append(f"its {name} {whose} {compared.target:.3g}{unit}, one more twin's {limits}")
        details = f" ({'; '.join(parts)})" if parts else ""
        return f"the given model is another model than the twins{details}: only the attacks on it speak for it"


class TargetControlFails(Reason, code="target-control-fails", gravity=_FIRST):
    """Given generator whose members and test patients differ without it, so that no attack on it can be read."""

    aucs: tuple[Limits, ...]
    names: tuple[str, ...]
    """Name of each control that fails, as in `TargetAudit.controls`."""
    plain = Words(
        "the {many} in the training and the new ones differ in more than that, so that attacks on the generator itself "
        "show nothing"
    )
    remedy = Words("a test part drawn at random by {one} from the same data as the training")

    @Words
    def text(self) -> str:
        parts = "; ".join(map(control_words, self.names, self.aucs))
        return (
            f"the members and the test {self.units.many} of the given generator differ by themselves, or may: {parts}; "
            "no attack on it concludes anything"
        )


class TargetLearnedNothing(Reason, code="target-learned-nothing", gravity=_FIRST):
    """Given generator that predicts noise no better than a trivial prediction, so that attacks on it see nothing."""

    explained: float
    """Share of the noise that it explains."""
    text = Words(
        "the given generator does not surely predict the noise in the images of its training better than a trivial "
        "prediction (it explains {explained:.2g} of that): attacks on it may see nothing"
    )
    plain = Words("the generator to be released does not surely work on these images, so that attacks on it see little")
    remedy = Words("the images as the generator was trained on them (--size, --resize, --channels)")


class PatientsLookAlike(Reason, code="patients-look-alike", gravity=_FIRST):
    """Pairs of images of different patients that are the same or nearly so."""

    n_pairs: int
    how: str
    """Sentence that says in what the pairs are alike."""
    plain = Words("{n_pairs:pair of images suggests|pairs of images suggest} that one person was counted as two")
    remedy = Words(
        "one id for each person, by the records; where two people do look alike, the set without one image of the pair "
        f"(tables/{PAIR_TABLE}.parquet lists the pairs)"
    )

    @Words
    def text(self) -> str:
        different = "" if self.units.one == "image" else f" of different {self.units.many}"
        return (
            f"{plural(self.n_pairs, f'pair of images{different} is', f'pairs of images{different} are')} {self.how}: "
            "one person under two ids would be in both halves of the models, which hides what is remembered"
        )


class LookAlikesUnseen(Reason, code="look-alikes-unseen"):
    """Images that cannot show whether one person has two ids."""

    because: str
    text = Words("whether one person has two ids could not be seen in the images: {because}")
    plain = Words("whether one person was counted as two could not be seen in the images")
    remedy = Words("more {many}, or larger images, in which different people differ (--size)")


class OneImageByWord(Reason, code="one-image-by-word", bears_on=SUPPORT):
    """Pass that rests on the user's word that no patient has two images."""

    text = Words("no patient has two images, as the user stated (--one-image-per-patient)")
    plain = Words("that no person has two images is the word of the user")


class MembersUnconfirmed(Reason, code="members-unconfirmed", bears_on=LIMIT):
    """Losses of which nothing shows that the table names the right members."""

    largest_mean: float
    """Largest mean M of a class."""
    text = Words(
        "the mean gap M is surely above 0 in no class (the largest is {largest_mean:.3g} {loss_unit}): losses with a "
        "wrong list of who was trained on what look the same"
    )
    plain = Words("the numbers would look the same if the list of who was in the training were wrong")


class SubgroupMoreExposed(SubgroupReason, code="subgroup-more-exposed", bears_on=LIMIT):
    """Level of a column whose patients are surely remembered more than the others of the same class."""

    difference: float
    low: float
    high: float
    mean_low: float
    """Lower limit of the mean M of the level."""
    text = Words(
        "{subgroup} ({n_patients}) are remembered more than the other {many} of the same class, by "
        "{difference:.3g} {loss_unit} on average ({low:.3g} to {high:.3g}, p {adjusted_p:p} after "
        "correction)"
    )
    plain = Words("{many} with {subgroup_value} are remembered more than others with the same diagnosis or class")


class SubgroupAboveGate(SubgroupMoreExposed, code="subgroup-above-gate", bears_on=FAIL):
    """Level that is remembered more than others, with a mean M that surely reaches the gate of classes."""

    text = Words(
        "{subgroup} ({n_patients}) are remembered more than the other {many} of the same class, by "
        "{difference:.3g} {loss_unit} on average ({low:.3g} to {high:.3g}, p {adjusted_p:p} after "
        "correction), and their mean gap M reaches the gate, by the lower limit of its interval, {mean_low:.3g} "
        "{loss_unit}"
    )
    plain = Words(
        "training on an image of {many} with {subgroup_value} changes {change} more than is allowed, "
        "on average, and more than for others with the same diagnosis or class"
    )


def members_unconfirmed(per_class: pd.DataFrame, context: Context, units: UnitNames) -> list[Reason]:
    """Note, of models trained elsewhere, that no loss confirms who was trained on what.

    A training lowers the losses of its members a little on average; where it does so in some class, the list of members
    is not made up.

    Args:
        per_class: One row per class.
        context: Context of the audit: who made the models.
        units: Names of a group, with the scale of losses.
    """
    low, flagged, mean = (per_class[name].to_numpy(dtype=float) for name in ("low", "verdict_flagged", "mean"))
    if context.model != TRAINED_ELSEWHERE or (low > 0).any() or (flagged > 0).any():
        return []
    largest = float(np.nanmax(mean, initial=-math.inf))
    return [MembersUnconfirmed(largest_mean=largest, units=units)] if math.isfinite(largest) else []


def control_name(name: str) -> str:
    """Return a control of attacks on the very model as the subject of a sentence.

    Args:
        name: Name of the control, as in `TargetAudit.controls`.
    """
    if name.startswith(CONTROL_OF):
        return f"{attack_title(name.removeprefix(CONTROL_OF))} on models that saw neither"
    return CONTROL_NAMES.get(name, name)


def control_words(name: str, auc: AttackAuc | Limits) -> str:
    """Say what a control of attacks on the very model gives, as a clause.

    Args:
        name: Name of the control, as in `TargetAudit.controls`.
        auc: AUC with its interval; NaN where it could not be measured.
    """
    words = control_name(name)
    if math.isnan(auc.low):
        return f"{words} could not be measured"
    return f"{words} has AUC {auc.estimate:.2f} ({auc.low:.2f} to {auc.high:.2f})"


def unknown_patients(n_without: int, *, some_given: bool) -> UnknownPatients:
    """Return the doubt of images without a patient id.

    Args:
        n_without: Number of images without an id.
        some_given: Whether any image has one.
    """
    return UnknownPatients(n_without=n_without if some_given else 0)


def identity_reasons(doubts: Sequence[IdDoubt]) -> list[Reason]:
    """Return doubts about the identity of people as reasons, without ids."""
    return [IdsInDoubt(doubt=doubt.why, way=doubt.what_would_decide) for doubt in doubts]


def look_alike_reasons(alike: LookAlikes, units: UnitNames, *, one_image: bool = False) -> list[Reason]:
    """Return the doubt that patients who look alike are one person, or that the images could not show it.

    Args:
        alike: Pairs of images.
        units: Names of a group.
        one_image: Whether the user states that no patient has two images; pairs that were seen contradict it.
    """
    if alike.n_pairs:
        return [PatientsLookAlike(n_pairs=alike.n_pairs, how=alike.how, units=units)]
    return [LookAlikesUnseen(because=alike.why_not, units=units)] if alike.why_not and not one_image else []


def other_reasons(
    context: Context, options: AnalysisOptions, unscored: Unscored, utility: Utility | None, units: UnitNames
) -> list[Reason]:
    """List what else keeps a pass away, and must be settled before more models or patients are of use.

    A split that was not drawn at random, patients who are not known or under several ids, people not scored, models
    that learned nothing, a target unlike its twins.
    """
    reasons: list[Reason] = [] if context.random_split else [NotRandom()]
    if (not context.groups_given or context.n_without_group) and not options.one_image_per_patient:
        reasons.append(unknown_patients(context.n_without_group, some_given=bool(context.groups_given)))
    reasons += identity_reasons(context.id_doubts)
    if n := unscored.n_groups_without_partner:
        reasons.append(WithoutPartner(n_groups=n, n_images=unscored.n_images_without_partner, units=units))
    if isinstance(utility, ClassUtility) and utility.balanced_accuracy_low == -math.inf:
        reasons.append(FewTestGroups(units=units))
    elif utility is None or utility.beats_guessing is None:
        reasons.append(UnknownLearning(units=units))
    elif utility.beats_guessing is False:
        here, own = bool(context.training), bool(context.training and context.training.get("function"))
        reasons.append(NothingLearned(utility=utility.words, trained_here=here, own_function=own, units=units))
    if context.target is None:
        return reasons
    return [*reasons, *_target_reasons(context.target, units)]


def _target_reasons(target: TargetAudit, units: UnitNames) -> list[Reason]:
    """List what keeps attacks on the very model, or its twins, from speaking for it."""
    reasons: list[Reason] = []
    failed = {name: of.auc for name, of in target.controls.items() if not of.at_chance}
    if failed and target.blind is not None:
        names = tuple(failed)
        aucs = tuple(Limits(estimate=auc.estimate, low=auc.low, high=auc.high) for auc in failed.values())
        reasons.append(TargetControlFails(aucs=aucs, names=names, units=units))
    if target.beats_guessing is False:
        reasons.append(TargetLearnedNothing(explained=target.explained or 0.0, units=units))
    if target.replication is None:
        reasons.append(TargetNotCompared())
    elif not target.replication.replicated:
        reasons.append(_other_model(target.replication, units))
    return reasons


def unpaired_count(n_groups: int, n_images: int, units: UnitNames) -> str:
    """Count the groups without a partner, as a sentence; images alone where each image is a group."""
    images = f"{n_images} image{'s' if n_images != 1 else ''}"
    return images if units.one == "image" else f"{units.count(n_groups)} ({images})"


def _other_model(replication: Replication, units: UnitNames) -> OtherModel:
    """Name the numbers by which the given model is not one more twin."""
    parts = {
        "loss on what it was trained on": replication.loss_members,
        "test loss": replication.loss,
        "test accuracy": replication.accuracy,
    }
    outside = {name: part for name, part in parts.items() if part is not None and not part.within}
    return OtherModel(outside=tuple(outside.values()), names=tuple(outside), units=units)
