"""Numbers of a classifier audit: the content of ``summary.json`` and ``verdict.json``; tables are files of their own.

Page, terminal, statement and comparison read these dataclasses, and `analysis` fills them; those of attacks are in
`attack_numbers`. Losses and the gaps that M averages are in nats, of generators in SD (`ClassifierSummary.scale`). A
default applies where an older version, or a table of losses, has no value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Annotated, Any

import pandas as pd

from memorisk.audits.arms import REGIMES, Axis
from memorisk.audits.classifier.attack_numbers import Agreements, RocCurve, TargetAudit, TargetVerdict
from memorisk.report.numbers import INLINE, OMITTED, Key, from_known
from memorisk.report.quantities import Quantity
from memorisk.report.result import Result
from memorisk.statistics.privacy.measured_epsilon import EpsilonBound
from memorisk.statistics.verdicts.checks import Check
from memorisk.statistics.verdicts.levels import POWER, VERDICT_CORRECTION, VERDICT_LEVEL, share_words
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY
from memorisk.statistics.verdicts.units import UnitNames

SCHEMA = 2
TRAINED_ELSEWHERE = "trained elsewhere"
"""Text in place of a network's name, for models that memorisk did not train."""
INTERVENTION_TABLE = "intervention"
"""Name of the table of an intervention."""
_GAP = Quantity(
    f"Gap in {{loss_unit}} with which one of the {{units}} would have been noticed in {share_words(POWER)}",
    "short",
    "noticeable_gap",
)
_BALANCED = Quantity("Balanced accuracy on unseen images", "decimal", "balanced_accuracy")
_EPSILON = Quantity("Epsilon promised, one image added or removed", "power", "epsilon")
_EPSILON_REPLACED = Quantity("Epsilon promised, one image replaced", "power", "replace_one_epsilon")
_EPSILON_PATIENT = Quantity("Epsilon promised, all images of a patient", "power", "per_patient_epsilon")


@dataclass(frozen=True, kw_only=True)
class ImageCounts:
    """Images by what became of them, with their groups and classes."""

    n_images: int | None = None
    n_groups: int | None = None
    n_classes: int | None = None
    n_train: int | None = None
    """Number of images that every model was trained on, so that they are not scored."""
    n_canary: int | None = None
    n_test: int | None = None
    n_validation: int | None = None
    """Number of images set aside for choosing models."""
    n_skipped: int | None = None
    """Number of unreadable images."""
    n_missing: int | None = None
    """Number of rows of the source without a file, and of files that are not images."""
    n_not_sampled: int | None = None

    @property
    def training_sentence(self) -> str:
        """Return how many images all models saw, so that none was scored; empty where there are none."""
        n = self.n_train
        if n is None or n < 1:
            return ""
        which = "image that every model was trained on is" if n == 1 else "images that every model was trained on are"
        return f"{n:,} {which} not scored: this says nothing of what is remembered of {'it' if n == 1 else 'them'}."


@dataclass(frozen=True, kw_only=True)
class ModelsTrained:
    """The models of the audit, and how they were trained."""

    n_models: int | None = None
    images_each: Annotated[float | None, Key("n_trained_on")] = None
    """Mean over the models."""
    seeds: tuple[int, ...] = ()
    model: str = ""
    n_parameters: int | None = None
    """Number of the network's parameters; None where memorisk did not build it."""
    pixels: tuple[int, ...] = ()
    """Height and width of the images that they saw; empty for models trained elsewhere."""
    training: Mapping[str, Any] = field(default_factory=dict[str, Any])
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Unscored:
    """Images and groups that the audit says nothing about."""

    n_images: Annotated[int | None, Key("not_scored_images")] = None
    n_groups: Annotated[int | None, Key("not_scored_groups")] = None
    n_groups_without_partner: Annotated[int, Key("without_partner")] = 0
    n_images_without_partner: Annotated[int, Key("without_partner_images")] = 0
    not_auditable: tuple[str, ...] = ()
    """Classes too small to be divided."""


@dataclass(frozen=True, eq=False)
class LookAlikes:
    """Pairs of images of different patients that are the same or nearly so."""

    table: pd.DataFrame
    """Two rows per pair, one per image: ``pair, image, group, part, similarity``, the most alike pair first."""
    how: str
    """Kind of likeness, as in "nearly the same"."""
    why_not: str = ""
    """Reason why no search was possible; empty after a search."""

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.table) // 2


@dataclass(frozen=True, kw_only=True)
class Noticeable:
    """The gap of one patient that is noticed in the class where least is."""

    gap: Annotated[float, _GAP]
    """NaN or infinite where no simulated gap is found often enough."""
    label: str = ""
    stratum: str = ""
    """Patients of this class among which least is noticed (`noticeable_gap.STRATA`)."""
    strata: dict[str, float] = field(default_factory=dict)
    """Gap of each stratum in the class where least of it is noticed."""
    power: float = nan
    low: float = nan
    high: float = nan
    probability: float = nan
    """Probability with which a noticeable gap is found."""
    notice: float = nan
    """Gap that a pass must notice."""

    @property
    def simulated(self) -> tuple[float, float, float] | None:
        """The power at the gap with its limits, as far as it was kept."""
        return None if isnan(self.low) else (self.power, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class NullSample:
    """Values of M for the figure of members against chance."""

    members: tuple[float, ...] = ()
    null: tuple[float, ...] = ()


LEAST_COMPARED = 3
"""Fewest images of a class that is compared with others."""


@dataclass(frozen=True, kw_only=True)
class RarestAgainstTop:
    """The rarest class against the most memorized one (top less rarest) and against the most frequent (rarest less it).

    NaN where nothing was compared: the rarest may be the most memorized itself, or none the most frequent.
    """

    label_rarest: str = ""
    n_rarest: int | None = None
    mean_rarest: float = nan
    label_top: str = ""
    n_top: int | None = None
    mean_top: float = nan
    difference: float = nan
    low: float = nan
    high: float = nan
    label_most_frequent: str = ""
    n_most_frequent: int | None = None
    mean_most_frequent: float = nan
    difference_most_frequent: float = nan
    low_most_frequent: float = nan
    high_most_frequent: float = nan

    @property
    def too_rare(self) -> bool:
        """Return whether the rarest class has too few images for its mean to say anything of the class."""
        return self.n_rarest is not None and self.n_rarest < LEAST_COMPARED


@dataclass(frozen=True, kw_only=True)
class FindingsUtility:
    """Utility of the models on the test part where images have several findings; nothing is balanced over classes."""

    test_accuracy: float
    """Share of images of which all findings are right."""
    test_balanced_accuracy: None = None
    balanced_accuracy_low: None = None
    chance: None = None
    majority_share: float
    """Share of the commonest set of findings."""
    n_classes: int
    loss_test: float
    """Mean loss of all findings of an image."""
    loss_guessing: float
    """Mean loss of naming each finding by its frequency outside the test part."""
    beats_guessing: bool | None
    """Whether the lower 97.5 % limit of the mean difference lies above 0."""

    @property
    def words(self) -> str:
        """Return how good the models are and how good guessing is, in numbers."""
        return f"loss of all findings {self.loss_test:.2f} nats, by frequencies {self.loss_guessing:.2f}"


@dataclass(frozen=True, kw_only=True)
class ClassUtility:
    """Accuracy of the models on the test part: mean over models, with that of guessing."""

    test_accuracy: float = nan
    test_balanced_accuracy: Annotated[float, _BALANCED] = nan
    balanced_accuracy_low: float | None = None
    """Lower 97.5 % limit over test groups and models; None where images have several labels, minus infinity where a
    class has one test group."""
    chance: float = nan
    beats_guessing: bool | None = None
    majority_share: float = nan
    n_classes: int | None = None

    @property
    def words(self) -> str:
        """Return how good the models are and how good guessing is, in numbers."""
        return f"balanced accuracy {self.test_balanced_accuracy:.2f}, chance {self.chance:.2f}"


@dataclass(frozen=True, kw_only=True)
class DenoisingUtility:
    """Share of a trivial prediction's loss that generators avoid on unseen images."""

    explained: Annotated[
        float, Quantity("Share of a trivial prediction's loss avoided on unseen images", "percent", "loss_avoided")
    ]
    """One minus the mean error over the trivial prediction's, mean over models."""
    explained_low: float | None
    """Lower 97.5 % limit over groups of unseen images and models; None with one such group."""
    beats_guessing: bool | None
    """Whether that limit lies above 0."""

    @property
    def words(self) -> str:
        """Return how good the models are, in numbers."""
        least = "" if self.explained_low is None else f", at least {self.explained_low:.2f}"
        return f"share of a trivial prediction's loss avoided {self.explained:.2f}{least}"


Utility = FindingsUtility | DenoisingUtility | ClassUtility


@dataclass(frozen=True, kw_only=True)
class PlaceboRepeat:
    """One repeat of the audit where no memorization is possible; rare classes are those below 5 % of the images."""

    n_listed: Annotated[int, Key("listed")]
    n_p_values: Annotated[int, Key("all_n")]
    n_small: Annotated[int, Key("all_small")]
    """Number of p-values of at most 0.05."""
    n_test_groups: Annotated[int, Key("all_n_test")]
    n_rare_p_values: Annotated[int, Key("rare_n")]
    n_rare_small: Annotated[int, Key("rare_small")]
    n_rare_test_groups: Annotated[int, Key("rare_n_test")]


@dataclass(frozen=True, kw_only=True)
class PlaceboShare:
    """Share of p-values of at most 0.05 over all repeats, and the band in which chance leaves it."""

    share: float
    low: float
    high: float
    canary_groups_each: Annotated[float, Key("canaries")] = nan
    test_groups_each: Annotated[float, Key("tests")] = nan


@dataclass(frozen=True, kw_only=True)
class Placebo:
    """Findings of the whole audit where there was nothing to find."""

    repeats: tuple[PlaceboRepeat, ...] = ()
    n_repeats: int | None = None
    n_with_list: Annotated[int | None, Key("with_list")] = None
    """Number of repeats in which at least one patient was flagged."""
    every: Annotated[PlaceboShare | None, Key("all"), OMITTED] = None
    rare: Annotated[PlaceboShare | None, OMITTED] = None


@dataclass(frozen=True, kw_only=True)
class PrivacyPromise:
    """Promise of a private training; epsilons are NaN where they are unbounded or not known."""

    epsilon: Annotated[float, _EPSILON] = nan
    """Epsilon of one image added or removed."""
    delta: Annotated[float, Quantity("Delta of these", "power", "delta")] = nan
    noise_multiplier: float = nan
    clip: float = nan
    sampling_rate: float = nan
    steps: int = 0
    n_trained: int | None = None
    replace_one_epsilon: Annotated[float, _EPSILON_REPLACED] = nan
    patients_known: bool = False
    largest_group: int | None = None
    per_patient_epsilon: Annotated[float | None, _EPSILON_PATIENT] = None


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The regime of the training, its promise, and the lower bound that was measured."""

    regime: str = ""
    promise: PrivacyPromise | None = None
    bound: EpsilonBound | None = None


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """Effect of ``--intervene``, with a sentence for each target class; the table ``intervention`` has its numbers."""

    name: str = ""
    description: str = ""
    classes: tuple[str, ...] = ()
    named: bool = False
    """The user named the classes; else they are those below 5 % of the images."""
    left_out: tuple[str, ...] = ()
    n_images_changed: int = 0
    n_trainings: int = 0
    warnings: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorstPatient:
    """Patient with the largest attack AUC over the models, without the id."""

    auc: float
    low: float
    """Lower limit that holds for all patients together."""
    high: float
    p: float
    """Exact p under the coins of the twins; NaN where these are not known to be fair."""
    adjusted_p: float
    """p by Holm over patients."""
    n_patients: int


@dataclass(frozen=True, kw_only=True)
class PatientAucCurve:
    """Share of patients with an attack AUC of at least each value, and the share that chance gives."""

    auc: tuple[float, ...]
    share: tuple[float, ...]
    chance: tuple[float, ...]
    worst: WorstPatient | None = None


@dataclass(frozen=True, kw_only=True)
class ClassifierSummary:
    """``summary.json`` of a classifier audit."""

    dataset: str = ""
    design: str = ""
    protocol: str = ""
    images: Annotated[ImageCounts, INLINE]
    models: Annotated[ModelsTrained, INLINE]
    data_hash: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    weights_kept: bool | None = None
    pseudonymised: bool | None = None
    groups_given: bool | None = None
    notes: tuple[str, ...] = ()
    form: str = ""
    list_level: Annotated[float | None, Key("level_q")] = None
    """Level of the list that is shown."""
    correction: str = ""
    noticeable: Noticeable | None = None
    unscored: Annotated[Unscored, INLINE]
    roc: Mapping[str, RocCurve] = field(default_factory=dict[str, RocCurve])
    null: NullSample | None = None
    agreement: Agreements | None = None
    rarest_vs_top: RarestAgainstTop | None = None
    patient_auc: PatientAucCurve | None = None
    prerequisites: Mapping[str, float] = field(default_factory=dict[str, float])
    """p by class, of unseen canaries against test images."""
    utility: Utility | None = None
    scale: str = CROSS_ENTROPY.name
    """Name of the scale of the losses."""
    placebo: Placebo | None = None
    target: TargetAudit | None = None
    privacy: Privacy | None = None
    intervention: Annotated[Intervention | None, OMITTED] = None

    @classmethod
    def read(cls, summary: Mapping[str, Any]) -> "ClassifierSummary":
        """Read a saved document."""
        return from_known(cls, summary)

    @property
    def units(self) -> UnitNames:
        """Return the name of a group, an image where each counts as a patient, else a patient; and the scale."""
        n, alone = self.images, not self.groups_given
        if self.groups_given is None:
            alone = n.n_groups is not None and n.n_images == n.n_groups
        return UnitNames(*(("image", "images") if alone else ("patient", "patients")), self.scale)

    @property
    def audited(self) -> str:
        """Return which models the verdict is about, in a sentence."""
        models = self.models
        if not models.model:
            return ""
        several = "models" if models.n_models is None else f"{models.n_models:,} models"
        if models.model == TRAINED_ELSEWHERE:
            return f"Audited were {several} trained elsewhere, by their losses."
        height, width, *depth = models.pixels or (0, 0)
        sides, what = " x ".join(map(str, (width, height, *depth))), "volumes" if depth else "images"
        size = f", {what} of {sides} {'voxels' if depth else 'pixels'}" if models.pixels else ""
        by = "your training function made" if models.training.get("function") else "were trained for this audit"
        file = (
            "not the file that is to be released"
            if self.target is None
            else "and, for what attackers see, the very file that was given"
        )
        return f"Audited were {several} ({models.model}{size}) that {by}, on parts of the data; {file}."

    @property
    def images_each(self) -> float | None:
        """Number of images each model was trained on: |T| + |C|/2, in the paper's design |T| + |C|."""
        n = self.images
        if self.models.images_each is not None or n.n_train is None or n.n_canary is None:
            return self.models.images_each
        return n.n_train + (n.n_canary if self.design == "paper" else n.n_canary / 2)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rule that gave a verdict."""

    form: int = 1
    level: float = VERDICT_LEVEL
    correction: str = VERDICT_CORRECTION
    power: float | None = None
    notice: float | None = None
    attack_gate: float | None = None


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Images that the audit left out."""

    n_skipped: int = 0
    n_missing: int = 0
    n_not_sampled: int = 0


@dataclass(frozen=True, kw_only=True)
class HeadlineAuc:
    """AUC of an attack over all classes."""

    auc: float
    low: float
    high: float
    control: bool


@dataclass(frozen=True, kw_only=True)
class ClassifierVerdict:
    """``verdict.json`` of a classifier audit."""

    schema: int = 1
    audit: str = "classifier"
    """Kind of the audit: of a classifier, also by its losses alone, or of a generator."""
    gate: str = ""
    status: str = "undecided"
    audited: str = ""
    """Description of the audited models."""
    reasons: tuple[Mapping[str, Any], ...] = ()
    """Reasons of the status, each with code, bearing, gravity, fields and sentences (`Reason.as_record`)."""
    why: tuple[str, ...] = ()
    what_would_decide: tuple[str, ...] = ()
    tiers: Mapping[str, str] = field(default_factory=dict[str, str])
    flagged_groups: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number by class, on the list that is shown."""
    level: float | None = None
    """Level of the list that is shown."""
    rule: Rule = Rule()
    noticeable: Noticeable | None = None
    left_out: LeftOut = LeftOut()
    aucs: Mapping[str, HeadlineAuc] = field(default_factory=dict[str, HeadlineAuc])
    design: str | None = None
    protocol: str | None = None
    n_models: int | None = None
    seeds: tuple[int, ...] = ()
    data_hash: str = ""
    target: TargetVerdict | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    not_scored: Unscored = Unscored()
    checks: tuple[Check, ...] = ()
    """Outcomes of the checks."""

    @classmethod
    def read(cls, verdict: Mapping[str, Any]) -> "ClassifierVerdict":
        """Read a saved document."""
        return from_known(cls, verdict)


@dataclass(frozen=True, kw_only=True)
class ClassOutlook:
    """Forecast of what an audit could say of a class, before anything is trained."""

    label: str
    n_images: Annotated[int, Key("n")]
    n_groups_scored: int
    n_test_groups: int
    smallest_list: float
    """Smallest list of a class that lists alone; NaN where no list is possible."""
    testable: bool
    why_not: str
    room: float
    """Room of a single patient on the list, were trainings to differ by nothing but the patient's gap."""

    @property
    def could_be_flagged(self) -> str:
        """Say whether a patient could be flagged, and if not, why."""
        if self.testable:
            return "yes"
        return "no: more --models are needed" if self.smallest_list > self.n_groups_scored else f"no: {self.why_not}"


@dataclass(frozen=True, kw_only=True)
class SubgroupOutlook:
    """Forecast of how well an audit could compare a subgroup with the others of the same class."""

    subgroup: str
    n_patients: int | None
    """Number of scored patients; None where it is too small to be shown."""
    noticeable: float
    """Difference of the mean gap that would be noticed; NaN where nothing can be compared."""


@dataclass(frozen=True, kw_only=True)
class WithoutPartner:
    """Groups that no model of a pair alone saw, so that they are not scored."""

    n_groups: Annotated[int, Key("without_partner")]
    n_images: Annotated[int, Key("without_partner_images")]


@dataclass(frozen=True)
class DefenceResult:
    """Several audits side by side, which differ in the regime of the training or in the network."""

    table: pd.DataFrame
    """A row for each arm; columns as `retraining.defences.DEFENCE_COLUMNS` says."""
    results: dict[str, Result]
    """The whole audit of each."""
    reference: str
    """The arm that the others are compared with: the first regime, or the network with the fewest parameters."""
    axis: Axis = REGIMES
    """Difference between the arms."""

    @property
    def passed(self) -> bool:
        """Return whether every arm passed its gate."""
        return all(r.status == "pass" for r in self.results.values())
