"""The numbers of attacks: on the audit's models, and on the very model that is to be released.

The numbers are in ``attacks.parquet``, ``summary.json`` and ``verdict.json`` of a classifier audit; losses are in nats.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import nan
from typing import Annotated

from memorisk.report.numbers import INLINE, OMITTED, Key
from memorisk.statistics.intervals.means import Interval
from memorisk.statistics.jackknife import JackknifeInterval

ALL = "(all)"
"""Label of an attack's row over all classes."""
CONTROL, BLIND, PERMUTED = "unseen_loss", "blind", "permuted"
"""Names of the controls of attacks on the very model."""
CONTROL_LEVEL = 1 - 0.05 / 2
"""Confidence level of the interval of each of two controls of attacks on a generator, which hold together at 95 %."""
CONTROL_OF = "control_of_"
"""Beginning of the name of a control that is an attack on twins, before the attack's name."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, interval: Interval | JackknifeInterval) -> "Limits":
        """Keep the numbers of an interval."""
        return cls(estimate=interval.estimate, low=interval.low, high=interval.high)


@dataclass(frozen=True, kw_only=True)
class RocCurve:
    """Points of a ROC curve for logarithmic axes."""

    fpr: tuple[float, ...] = ()
    tpr: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Success of an attack on images with large and with small M."""

    spearman: Limits | None = None
    success_high: float = nan
    """Share of the images with M above 0.3 that the attack finds."""
    success_low: float = nan
    """Share of those with M up to 0.1."""
    difference: Limits | None = None
    n_high: int | None = None
    n_low: int | None = None


@dataclass(frozen=True, kw_only=True)
class AttackAgreement:
    """`Agreement` with M of other seeds than the attacked one, and with its own, where the question is circular."""

    other_seeds: Agreement | None = None
    circular: Agreement | None = None


@dataclass(frozen=True, kw_only=True)
class Agreements(AttackAgreement):
    """Agreements of the loss attack, and of the attack that paper 000 names as its strongest."""

    strongest: AttackAgreement | None = None


@dataclass(frozen=True, kw_only=True)
class AttackAuc:
    """AUC of an attack with its interval."""

    estimate: Annotated[float, Key("auc")] = nan
    low: float = nan
    high: float = nan
    p_at_most_gate: Annotated[float, Key("p_auc")] = nan
    """p-value of the null hypothesis that the AUC is at most that of the gate."""


@dataclass(frozen=True, kw_only=True)
class SureRate:
    """Share of members that an attack finds at few false positives."""

    at_1_percent: Annotated[float, Key("tpr_at_1pct")] = nan
    low: Annotated[float, Key("tpr_low")] = nan
    high: Annotated[float, Key("tpr_high")] = nan
    p_at_most: Annotated[float, Key("p_tpr")] = nan
    at_01_percent: Annotated[float, Key("tpr_at_01pct")] = nan


@dataclass(frozen=True, kw_only=True)
class AttackCounts:
    """Images, groups and models that an attack was measured on; means over the models.

    Twins of one seed are two models; trainings are as many as seeds.
    """

    n_members: int = 0
    n_non_members: int = 0
    n_groups: int = 0
    n_member_groups: int = 0
    n_non_member_groups: int = 0
    n_models: int = 0
    n_seeds: int = 0


@dataclass(frozen=True, kw_only=True)
class AttackNumbers:
    """One attack on some images."""

    auc: Annotated[AttackAuc, INLINE]
    rate: Annotated[SureRate, INLINE]
    balanced_accuracy: float = nan
    counts: Annotated[AttackCounts, INLINE]
    conditional: bool = False
    """Whether the interval is for these models alone."""
    of_trainings: float = 0.0
    """Share of the variance that is of trainings."""
    by_coin: bool = False
    """Whether a fair coin divided members from non-members."""
    control: bool = False
    note: str = ""

    @property
    def at_chance(self) -> bool:
        """Return whether the interval of the AUC contains 0.5, as that of a control must."""
        return self.auc.low <= 0.5 <= self.auc.high


@dataclass(frozen=True, kw_only=True)
class AttackRow:
    """A row of ``attacks.parquet``: an attack on a class, or on ``ALL``."""

    label: str
    attack: str
    access: str = ""
    """Access to the model that the attack needs (`scores.twin_attacks.Access`)."""
    numbers: Annotated[AttackNumbers, INLINE]
    auc_rounded: float = nan
    """AUC where the model gives probabilities with two decimals; NaN where that was not computed."""
    auc_label_alone: float = nan
    """AUC where the model gives its label alone."""


@dataclass(frozen=True, kw_only=True)
class BesideTwins:
    """A number of the very model, and where one more twin's would lie."""

    target: float
    twins: float
    low: float
    high: float
    within: bool

    @property
    def from_mean(self) -> "BesideTwins":
        """Return the same as differences from the twins' mean.

        Example:
            >>> BesideTwins(target=74_500.0, twins=74_600.0, low=74_598.5, high=74_601.5, within=False).from_mean
            BesideTwins(target=-100.0, twins=0.0, low=-1.5, high=1.5, within=False)
        """
        target, low, high = (value - self.twins for value in (self.target, self.low, self.high))
        return replace(self, target=target, twins=0.0, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Replication:
    """Whether the very model is one more twin."""

    loss_members: BesideTwins | None = None
    loss: BesideTwins | None = None
    accuracy: BesideTwins | None = None
    replicated: bool
    n_models: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cliques:
    """Drawn images that repeat one another or show one patient, in cliques of two or more."""

    n_cliques: int
    n_images: int
    """Number of drawn images in all cliques."""
    n_largest_images: int
    """Number of images of the largest clique."""
    n_flagged: int
    """Number of cliques that are flagged with a training patient."""
    chance_pairs: float | None
    """Upper limit of the expected number of such pairs among as many images of different people; None where only
    identical pixels count as repeated."""


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """Images that the very generator drew, and what the audit of copies says of them."""

    n_drawn_images: int
    seed: int
    """Random seed of the draws."""
    sampling_steps: int
    least_noticed_share: float
    """Share of its draws from which on an image is almost surely (`levels.POWER`) among them."""
    status: str
    """Status of the audit: pass, fail or undecided."""
    codes: tuple[str, ...]
    """Codes of its reasons."""
    certain: bool
    """Whether a failure needs no statistics: pixels settle it."""
    n_certain_patients: int
    other_parts: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict[str, int])
    """Number of images in each further part of the split, whose pixels alone are compared."""
    other_copies: Annotated[Mapping[str, int], OMITTED] = field(default_factory=dict[str, int])
    """Number of drawn images with the pixels of an image in a further part, by the part."""
    n_listed_patients: int | None
    """Number of patients that it lists; None where no list was possible, as in the next two."""
    n_singled_images: int | None
    n_confirmed_images: int | None
    """Number of drawn images that its second look confirms as copies."""
    n_held_out_patients: int
    promise: str | None
    """Power for planted copies, in words; None without plants."""
    cliques: Cliques
    folder: str
    """Run folder of the audit, below that of the run."""
    sha256: str
    """Checksum of the list of its files."""


@dataclass(frozen=True, kw_only=True)
class TargetVerdict:
    """Verdict on the very model."""

    replicated: bool
    aucs: Mapping[str, float] = field(default_factory=dict[str, float])
    extraction: Annotated[Extraction | None, OMITTED] = None
    """Images drawn from a generator; None where none were."""


@dataclass(frozen=True, kw_only=True)
class TargetAudit:
    """The very model that is to be released: what attackers find in it, and whether the twins speak for it."""

    file: str = ""
    sha256: str | None = None
    tensors_sha256: str | None = None
    base: Annotated[str | None, OMITTED] = None
    """Name of the base of a LoRA."""
    base_sha256: Annotated[str | None, OMITTED] = None
    """SHA-256 of the only file under which that base can be released."""
    n_members: int | None = None
    n_non_members: int | None = None
    accuracy_members: float | None = None
    accuracy_test: float | None = None
    loss_members: float | None = None
    loss_test: float | None = None
    explained: Annotated[float | None, OMITTED] = None
    """Share of the noise in its training images that a generator explains, beyond a trivial prediction."""
    beats_guessing: Annotated[bool | None, OMITTED] = None
    """Whether that is surely above 0; None for a classifier, and where it is not known."""
    guidance: Annotated[float | None, OMITTED] = None
    """Scale of classifier-free guidance of a generator's guided loss; None without guidance."""
    attacks: Mapping[str, AttackNumbers] = field(default_factory=dict[str, AttackNumbers])
    """Over all classes, by name."""
    access: Annotated[Mapping[str, str], OMITTED] = field(default_factory=dict[str, str])
    """Access to the model that each attack needs, by its name; of a classifier the answers."""
    control: AttackNumbers | None = None
    """Loss of models that saw neither side."""
    own_controls: Annotated[Mapping[str, AttackNumbers], OMITTED] = field(default_factory=dict[str, AttackNumbers])
    """Attacks on twins of a generator that saw neither side, by the name of the attack on it."""
    blind: Annotated[AttackNumbers | None, OMITTED] = None
    """Probe of the images of a generator's audit, without any model."""
    permuted: Annotated[AttackNumbers | None, OMITTED] = None
    """Loss of a generator with membership permuted among the patients of each class."""
    classes: tuple[AttackRow, ...] = ()
    replication: Replication | None = None
    verdict: TargetVerdict | None = None

    @property
    def controls(self) -> dict[str, AttackNumbers]:
        """Return what must not tell members from others, by name: with any exception no attack can be read."""
        every = {CONTROL: self.control, BLIND: self.blind, PERMUTED: self.permuted}
        of_attacks = {f"{CONTROL_OF}{name}": numbers for name, numbers in self.own_controls.items()}
        return {name: numbers for name, numbers in every.items() if numbers is not None} | of_attacks

    def control_confidence(self, name: str) -> float:
        """Return the confidence level of the interval of a control.

        Args:
            name: Name of the control, as in `controls`.
        """
        if self.blind is None:
            return 0.95
        return CONTROL_LEVEL if name in (BLIND, PERMUTED) else twin_control_level(len(self.own_controls))


def twin_control_level(n_own: int) -> float:
    """Return the confidence level of each attack on twins that saw neither side, which share the level of one control.

    Args:
        n_own: Number of attacks with a control of their own, in addition to the loss.
    """
    return 1 - (1 - CONTROL_LEVEL) / (1 + n_own)
