"""The audit rehearsed before anything is trained: does an honest set pass with this number of models?

A rehearsal is the plan of an audit (its patients, classes and twins) with simulated losses in which no patient is
remembered and two trainings differ by noise alone. The audit's own analysis judges them, so that everything that keeps
a pass away counts: the room of lists, the noticeable gap, uneven gaps, intervals of attacks.

The noise of the trainings is not known beforehand. It is assumed to be that of `recipes/verdict_truth.py`: heavy-tailed
(t, `LossScale.tails` degrees of freedom), of another size for each image (log-normal, `LossScale.spread`), in the
median `LossScale.noise`, for classifiers 0.1 nats. A rehearsal therefore speaks of the data and of the number of
models. It cannot speak of trainings that differ more.

The first trainings measure the noise (`measured_noise`), so that a run states its noticeable gap anew after `PILOT`
pairs of models.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from memorisk.audits.classifier.analysis import PER_CLASS, class_findings, design_checks, verdict_table
from memorisk.audits.classifier.evidence import Context, Evidence, margin_of_loss, stack_evidence
from memorisk.audits.classifier.options import TwinOptions
from memorisk.audits.classifier.planning.plan import Parts, Plan, make_plan
from memorisk.audits.classifier.tables.attacks import (
    ALL,
    attack_rows,
    attacks_for_verdict,
    paper_attacks,
    reference_attacks,
)
from memorisk.audits.classifier.tables.classes import is_asymmetric
from memorisk.images.manifest import Manifest
from memorisk.runs.errors import listed, plural
from memorisk.statistics.verdicts.attack_verdict import attack_findings
from memorisk.statistics.verdicts.class_reasons import MOST_MODELS
from memorisk.statistics.verdicts.noticeable_gap import MAX_SEEDS
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale
from memorisk.statistics.verdicts.tiers import MIN_GROUPS
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.statistics.verdicts.verdict import PASS, decide, few_seeds

GAP_RANGE = (0.5, 1.5)
"""Noticeable gap of the report over that of the plan, least and most: the noise of trainings differs by set. On eight
sets it was 0.5 to 1.4 (`recipes/plan_gap.py`)."""

OptionsT = TypeVar("OptionsT", bound=TwinOptions)
"""Options of an audit of twins."""

PILOT = 2
"""Number of pairs of models that measure the noise of trainings. One pair cannot tell an image whose losses vary from
one that varied by chance; with two the stated gap is within a factor of 1.5 of the report's on the eight sets."""

BLUR = 0.25
"""Deviation, as a share of the class, by which ranks of noise are redrawn: of a few trainings, an image's own rank is
chance in part."""

REHEARSALS, ENOUGH = 5, 4
"""Number of rehearsals of the attacks, and of those that must pass: a number of models with which 9 of 10 honest audits
pass is taken in 92 of 100 cases, one with which 4 of 10 pass in 9."""

_STEPS = (2, 4, 6, 8, 12, 16, 24, 32, 48)
"""Numbers of models that are tried, above one that is too small."""


class Obstacle(StrEnum):
    """Part of the verdict that leaves an honest audit undecided."""

    CLASSES = "classes"
    """A single patient would not be noticed in some class, or the mean gap has a wide interval."""
    UNEVEN = "uneven"
    """A patient that some trainings remember would not be noticed."""
    ATTACKS = "attacks"
    """The interval of an attack's AUC contains the gate."""


@dataclass(frozen=True)
class Rehearsal:
    """Outcome of honest audits of one plan."""

    n_models: int
    gap: float
    """Noticeable gap; infinite where no gap is noticed in some class, NaN where `obstacles` left it open."""
    obstacles: tuple[Obstacle, ...]
    """Obstacles to a pass; empty where an honest audit passes."""

    @property
    def can_pass(self) -> bool:
        """Return whether an honest audit passes."""
        return not self.obstacles


def rehearse(plan: Plan, options: TwinOptions, *, whole: bool = True) -> Rehearsal:
    """Judge honest audits of a plan.

    What the classes notice is much the same in every draw, since it is itself a mean over simulated patients: one
    rehearsal tells. Whether the interval of an attack's AUC ends below the gate changes from draw to draw, so that
    `ENOUGH` of `REHEARSALS` must show it.

    Args:
        plan: Plan of the audit, with its number of models.
        options: Options of the audit.
        whole: Whether to look at the classes where the attacks alone keep a pass away.
    """
    if few_seeds(len(plan.designs)) is not None:
        return Rehearsal(2 * len(plan.designs), math.inf, (Obstacle.CLASSES,))
    obstacles, draw, failed = [], 0, 0
    while draw - failed < ENOUGH and failed <= REHEARSALS - ENOUGH:
        failed += _attacks_doubtful(honest_evidence(plan, draw, scale=options.loss_scale), options)
        draw += 1
    if failed > REHEARSALS - ENOUGH:
        obstacles.append(Obstacle.ATTACKS)
    gap = math.nan
    if whole or not obstacles:
        gap, doubts = _classes(honest_evidence(plan, 0, scale=options.loss_scale), options)
        obstacles = [*doubts, *obstacles]
    return Rehearsal(2 * len(plan.designs), gap, tuple(obstacles))


@dataclass(frozen=True)
class Choice(Generic[OptionsT]):
    """Number of models of an audit, and whether an honest audit passes with it."""

    options: OptionsT
    """Options of the audit, with the number."""
    named: bool
    """Whether the user, or the run that is resumed, named the number."""
    rehearsal: Rehearsal | None = None
    """Rehearsal that chose the number; None where no number of models can pass, or where a run is resumed."""
    needed: int | None = None
    """Smallest number of models that can pass; None where no number up to `MOST_MODELS` can."""


def choose_models(manifest: Manifest, parts: Parts, options: OptionsT, *, hopeless: bool) -> Choice[OptionsT]:
    """Take the number of models that is named, or else the smallest with which an honest audit passes.

    Args:
        manifest: Images of the audit.
        parts: Training, canary and test part.
        options: Options of the audit.
        hopeless: Whether something else keeps a pass away, so that the number is the fewest of the design.
    """
    plan = make_plan(manifest, parts, options)
    number = 2 * len(plan.designs)
    fixed = options if options.names_models else replace(options, models=number)
    if hopeless or whatever_models(plan):
        return Choice(fixed, options.names_models)
    rehearsal = rehearse(plan, options)
    if rehearsal.can_pass:
        return Choice(fixed, options.names_models, rehearsal, number)
    for tried in _search(manifest, parts, options, above=number):
        if options.names_models:
            return Choice(fixed, True, rehearsal, tried.n_models)
        return Choice(replace(options, models=tried.n_models), False, tried, tried.n_models)
    return Choice(fixed, options.names_models, rehearsal)


ModelChooser = Callable[..., Choice]
"""`choose_models`, or what takes its arguments."""


def one_choice() -> ModelChooser:
    """Return `choose_models` for audits of the same images and design, which rehearses the first of them alone.

    How the models are trained changes no rehearsal, whose losses are simulated.
    """
    choices: dict[tuple[object, ...], Choice[Any]] = {}

    def choose(manifest: Manifest, parts: Parts, options: OptionsT, *, hopeless: bool) -> Choice[OptionsT]:
        """Choose as for the audits before, unless one of them resumes with a number of its own."""
        number = (options.names_models, options.chosen_seeds, hopeless)
        if number not in choices:
            choices[number] = choose_models(manifest, parts, options, hopeless=hopeless)
        before = choices[number]
        return replace(before, options=replace(options, models=before.options.models, seeds=before.options.seeds))

    return choose


def _search(manifest: Manifest, parts: Parts, options: TwinOptions, *, above: int) -> list[Rehearsal]:
    """Find the smallest number of models above one that is too small: its rehearsal, or nothing."""
    numbers = [above + step for step in _STEPS if above + step <= MOST_MODELS]
    passed: list[Rehearsal] = []
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        own = replace(options, models=numbers[middle], seeds=None)
        tried = rehearse(make_plan(manifest, parts, own), own, whole=False)
        if tried.can_pass:
            passed, high = [tried], middle
        else:
            low = middle + 1
    return passed


def whatever_models(plan: Plan) -> str:
    """Say why no number of models lets this plan pass; empty where the number can matter.

    Args:
        plan: Plan of the audit.
    """
    if plan.design == "paper":
        return "the design paper leaves lists no room; a pass needs --design balanced"
    if not plan.parts.random:
        return "the split is not known to be random"
    items = plan.items
    label, group = items.label.astype(str), items.group.astype(str)
    scored, unseen = items.split == "canary", items.split == "test"
    small = [
        name
        for name in np.unique(label)
        if len(np.unique(group[scored & (label == name)])) < MIN_GROUPS or not (unseen & (label == name)).any()
    ]
    if not small:
        return ""
    of_class = [len(np.unique(plan.parts.groups[plan.parts.labels.astype(str) == name].astype(str))) for name in small]
    balanced = ""
    if plan.design != "balanced" and min(of_class) > MIN_GROUPS:
        balanced = ", or --design balanced, which scores every patient outside the test part"
    return (
        f"{plural(len(small), 'class has', 'classes have')} fewer than {MIN_GROUPS} patients to score, or none in the "
        f"test part ({listed(small)}); a pass needs such classes joined or left out{balanced}, or more patients of them"
    )


def honest_evidence(plan: Plan, draw: int, pilot: Evidence | None = None, scale: LossScale = CROSS_ENTROPY) -> Evidence:
    """Draw the score table of trainings that remember no patient.

    Args:
        plan: Plan of the audit.
        draw: Number of the draw.
        pilot: Score table of the first trainings, for their noise; None for the assumed noise.
        scale: Scale of the losses, and of the assumed noise.
    """
    n, rng = len(plan.items), np.random.default_rng([draw, 41])
    if pilot is None:
        size = scale.noise * np.exp(scale.spread * rng.standard_normal(n))
        noise = (
            size * rng.standard_t(scale.tails, (MAX_SEEDS, n))[: len(plan.designs)]
        )  # more models keep the draws of fewer
    else:
        noise = measured_noise(pilot, len(plan.designs), rng)
    level = rng.gamma(2.0, 0.4, n) * (scale.noise / CROSS_ENTROPY.noise)
    level = np.maximum(level, 1e-3 + np.abs(noise).max(axis=0) / 2)  # a loss is above 0

    def columns(rows: np.ndarray, loss: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of a model that sees these rows."""
        member = np.zeros(len(plan.parts.part), dtype=bool)
        member[rows] = True
        return {
            "loss": loss,
            "margin": margin_of_loss(loss) if scale.of_answers else -loss,
            "correct": (level < 1.2) & scale.of_answers,
            "member": member[plan.item_row],
        }

    halves = (
        (columns(d.rows_a, level - own / 2), columns(d.rows_b, level + own / 2))
        for d, own in zip(plan.designs, noise, strict=True)
    )
    return stack_evidence(plan.items, plan.design, [d.seed for d in plan.designs], halves, scale=scale)


def measured_noise(pilot: Evidence, n_seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Draw noise `[n_seeds, I]` that is like that of the first trainings.

    An image gets, with a random sign, the loss gap of an image of its class whose gaps are about as large: ranks by the
    root mean square are redrawn by `BLUR`. What a model remembers of members counts as noise here, so that the
    noticeable gap comes out too large, never too small.

    Args:
        pilot: Score table of the first trainings.
        n_seeds: Number of seeds to draw.
        rng: Source of the draws.
    """
    gap, label = pilot.gap, pilot.items.label.astype(str)
    in_both = pilot.items.split == "train"
    noise = np.zeros((n_seeds, len(label)))
    for name in np.unique(label):
        for own in (np.flatnonzero((label == name) & part) for part in (in_both, ~in_both)):
            n = len(own)
            by_size = own[np.argsort(np.square(gap[:, own]).mean(axis=0), kind="stable")]
            rank = np.rint(np.arange(n) + n * BLUR * rng.standard_normal((n_seeds, n))).astype(np.int64)
            rank = np.mod(rank, max(2 * n, 1))  # reflected at both ends
            rank = np.minimum(rank, 2 * n - 1 - rank)
            row = np.arange(n_seeds)[:, None] % len(gap)
            noise[:, by_size] = gap[row, by_size[rank]] * rng.choice([-1.0, 1.0], (n_seeds, n))
    return noise


def measured_rehearsal(plan: Plan, options: TwinOptions, pilot: Evidence) -> Rehearsal:
    """Judge the classes of an honest audit whose trainings differ as the first ones do.

    Args:
        plan: Plan of the audit.
        options: Options of the audit.
        pilot: Score table of the first trainings.
    """
    gap, obstacles = _classes(honest_evidence(plan, 0, pilot, options.loss_scale), options)
    return Rehearsal(2 * len(plan.designs), gap, tuple(obstacles))


def _classes(evidence: Evidence, options: TwinOptions) -> tuple[float, list[Obstacle]]:
    """Return the largest noticeable gap of the classes, and which checks of classes leave the audit undecided.

    Flags do not count: an honest audit flags a patient by chance as often as the level says, whatever the models.
    """
    context, units = Context(design=evidence.design, scale=options.loss_scale.name), _units(options)
    findings = class_findings(evidence, options, context, design_checks(evidence, context), advise=False)
    table = pd.DataFrame([f.row for f in findings], columns=pd.Index(PER_CLASS))
    rows = verdict_table(table).assign(flagged=0)
    flips = not is_asymmetric(evidence)
    decision = decide(rows, notice=options.notice, units=units, n_seeds=len(evidence.seeds), flips=flips)
    doubts = [] if decision.status == PASS else [Obstacle.CLASSES]
    checks = [check for f in findings for check in (f.lists.uneven, f.lists.reversals)]
    if any(check is not None and check.is_doubt for check in checks):
        doubts.append(Obstacle.UNEVEN)
    gaps = table["noticeable_gap"].to_numpy(dtype=np.float64)
    return math.inf if np.isnan(gaps).any() else float(gaps.max()), doubts


def _attacks_doubtful(evidence: Evidence, options: TwinOptions) -> bool:
    """Say whether the interval of an attack on the twins does not end below the gate."""
    scored = [*paper_attacks(evidence, options.loss_scale), *reference_attacks(evidence)]
    rows = attack_rows(evidence, scored, {ALL: evidence.items.whole}, options.attack_gate)
    n_groups = len(np.unique(evidence.items.group.astype(str)))
    tried = attacks_for_verdict(rows, None, True, {})
    return bool(attack_findings(tried, options.attack_gate, _units(options), n_groups))


def _units(options: TwinOptions) -> UnitNames:
    """Return the scale of the losses, with the names of any group."""
    return UnitNames(scale=options.loss_scale.name)
