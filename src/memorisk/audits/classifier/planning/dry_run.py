"""Plan of an audit: what it could say, before anything is trained, and the numbers of its cost (`cost`)."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.analysis import class_findings
from memorisk.audits.classifier.evidence import Context, Evidence, stack_evidence, uncovered_images
from memorisk.audits.classifier.look_alikes import searched_pairs
from memorisk.audits.classifier.options import ClassifierOptions, TwinOptions
from memorisk.audits.classifier.planning.cost import classifier_cost, seconds_per_image
from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.classifier.planning.rehearsal import (
    GAP_RANGE,
    PILOT,
    Choice,
    Obstacle,
    Rehearsal,
    honest_evidence,
    measured_rehearsal,
    whatever_models,
)
from memorisk.audits.classifier.reasons import NotRandom, identity_reasons, look_alike_reasons, unknown_patients
from memorisk.audits.classifier.result import ClassOutlook, LookAlikes, SubgroupOutlook, WithoutPartner
from memorisk.audits.classifier.retraining.interventions import InterventionPlan
from memorisk.audits.classifier.tables.subgroups import ScoredPatients, compared_subgroups
from memorisk.audits.classifier.twins.trainings import Recipe
from memorisk.audits.classifier.twins.twin_trainings import training_processes
from memorisk.audits.subgroups import LEAST_PATIENTS, Subgroups, subgroup_name, subgroups
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.specs import SMALL_IMAGE, SMALL_MODEL
from memorisk.report.blocks import Table, number, words
from memorisk.report.numbers import from_json, to_row
from memorisk.report.quantities import Quantity, plan_rows
from memorisk.runs.errors import plural
from memorisk.runs.workload import Cost, Progress, duration, no_progress
from memorisk.statistics.verdicts.class_reasons import MOST_MODELS
from memorisk.statistics.verdicts.levels import PASS_POWER, POWER, share_words
from memorisk.statistics.verdicts.noticeable_gap import GAPS
from memorisk.statistics.verdicts.reasons import Reason
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.statistics.verdicts.verdict import few_seeds

_LONG = 5400.0  # seconds of training: from here on `duration` says hours


@dataclass(frozen=True, repr=False)
class DryRun:
    """Plan of a command; printed, it is a few lines, and its fields hold all of it.

    Attributes:
        network: Name of the network, and why it is this one where it was left to ``auto``.
        cost: Cost of what is still to be done.
        bytes_until_the_end: Changed images that an intervention keeps while it trains on them.
        parts: Images in each part.
        design: The design.
        seeds: The seeds.
        choice: Why there are so many: named, or the fewest with which an honest audit passes.
        models_needed: Smallest number of models that can pass; None where no number can, or where it is not known.
        unit: Unit of gaps.
        noticeable_gap: Gap from which on a single patient would be noticed, were trainings to differ by the noise of
            `rehearsal`; NaN where no rehearsal was needed.
        not_auditable: Classes too small to split.
        classes: Forecast of each class: what the audit could say of it.
        without_partner: Groups and images that will not be scored: in a run begun before they were divided between
            twins, those without a partner.
        subgroups: Difference that would be noticed between each level of a column and the others, were trainings to
            differ by the noise of `rehearsal`.
        seconds: Estimated seconds of training on this machine; None where that is not known beforehand.
        notes: Obstacles to a pass that no measurement can remove.
        advice: Ways to take less time, where a run takes hours.
    """

    network: Annotated[str, Quantity("network")]
    cost: Cost
    bytes_until_the_end: Annotated[int, Quantity("bytes of changed images, until the end", if_any=True)]
    parts: Annotated[dict[str, int], Quantity("images", opening=2)]
    design: Annotated[str, Quantity("design")]
    seeds: Annotated[tuple[int, ...], Quantity("seeds", "text")]
    choice: str
    models_needed: int | None
    unit: str
    noticeable_gap: float
    not_auditable: Annotated[list[str], Quantity("too small to be audited")]
    classes: tuple[ClassOutlook, ...]
    without_partner: WithoutPartner
    subgroups: tuple[SubgroupOutlook, ...]
    seconds: float | None
    notes: Annotated[tuple[str, ...], Quantity("no pass", opening=4)]
    advice: Annotated[tuple[str, ...], Quantity("advice")]

    @property
    def could_pass(self) -> Annotated[bool, Quantity("could pass", "yes_no", opening=3)]:
        """Say whether an audit of this plan could pass at all."""
        return not self.notes and not self.without_partner.n_groups

    @property
    def time(self) -> str:
        """Say how long the trainings take, or when that will be known."""
        if self.seconds is not None:
            return f"about {duration(self.seconds)} on this machine; decoding, scoring and the report take longer"
        if self.cost.steps is None:  # the user's own function tells its end alone
            return "an estimate appears once the first training is done"
        return "an estimate appears while they run"

    @property
    def models(self) -> Annotated[str, Quantity("models", opening=1)]:
        """Say how many models there are, why, and how long their training takes."""
        trainings = plural(self.cost.trainings or 0, "training", "trainings")
        return f"{2 * len(self.seeds)} models ({self.choice}): {trainings}, {self.time}"

    @property
    def gap(self) -> Annotated[str, Quantity("noticeable gap")]:
        """Say from which gap on a single patient would be noticed; empty where that was not rehearsed."""
        if np.isnan(self.noticeable_gap):
            return ""
        if np.isinf(self.noticeable_gap):
            return "none, a single patient can go unnoticed even if strongly remembered"
        low, high = (self.noticeable_gap * share for share in GAP_RANGE)
        return (
            f"about {self.noticeable_gap:.2g} {self.unit} ({low:.2g} to {high:.2g}, by how much trainings "
            f"differ; the run measures that on its first {2 * PILOT} models)"
        )

    @property
    def unscored(self) -> Annotated[str, Quantity("not scored")]:
        """Count the groups without a partner; empty without any."""
        alone = self.without_partner
        if not alone.n_groups:
            return ""
        which = plural(alone.n_groups, "group has", "groups have")
        return f"{which} no partner in this run ({alone.n_images:,} images), so that the audit cannot pass"

    @property
    def tables(self) -> list[Table]:
        """Show what the audit could say of each class."""
        columns = [
            words("label", "Class", row=True),
            number("n", "Images", "count"),
            number("n_groups_scored", "Groups scored", "count"),
            number("n_test_groups", "In the test part", "count"),
            number("smallest_list", "Shortest list, alone", "count", missing="none"),
            words("could_be_flagged", "Could anybody be flagged?", wide=True),
        ]
        rows = [to_row(row) | {"could_be_flagged": row.could_be_flagged} for row in self.classes]
        tables = [Table(frame=pd.DataFrame(rows), columns=columns, caption="What the audit could say of each class.")]
        if not self.subgroups:
            return tables
        columns = [
            words("subgroup", "Subgroup", row=True),
            number("n_patients", "Patients scored", "count", missing=f"fewer than {LEAST_PATIENTS}"),
            number("noticeable", "Noticeable difference", "short", missing="not compared"),
        ]
        caption = (
            f"Subgroups: mean gap above that of others of the same class, in {self.unit}, that would be noticed in "
            f"{share_words(POWER)}, by the noise of trainings that the plan assumes."
        )
        frame = pd.DataFrame([to_row(row) for row in self.subgroups])
        return [*tables, Table(frame=frame, columns=columns, caption=caption, visible_rows=60)]

    def __repr__(self) -> str:
        """Show the plan in a few lines."""
        return "\n  ".join(["DryRun", *(f"{name}: {value}" for name, value in plan_rows(self))])

    def _repr_html_(self) -> str:
        """Show them in a notebook."""
        items = "".join(f"<li>{html.escape(f'{name}: {value}')}</li>" for name, value in plan_rows(self))
        return f"<div><p><strong>Plan</strong></p><ul>{items}</ul></div>"


def describe_plan(
    out: Path,
    plan: Plan,
    recipe: Recipe,
    store: ImageStore,
    choice: Choice[ClassifierOptions],
    alike: LookAlikes,
    intended: InterventionPlan | None,
    progress: Progress = no_progress,
) -> DryRun:
    """Count, time two steps, and rehearse the analysis on losses that hold nothing."""
    options = choice.options
    cost = classifier_cost(out, store, plan, recipe, options, intended) + Cost(pairs=searched_pairs(store, alike))
    progress("timing a training step", 0, 0)
    each, images = seconds_per_image(plan, recipe, store, options), 0.0
    if each is not None:  # a forward pass is a third of a step
        images = (cost.images_trained or 0) + (cost.images_passed or 0) / 3
    seconds = None if each is None else each * images / training_processes(options)
    return outlook(
        plan,
        store,
        choice,
        alike,
        network=_network(recipe, options),
        cost=cost,
        seconds=seconds,
        bytes_until_the_end=0 if intended is None else store.images.nbytes,
        advice=_smaller_network(recipe, options, seconds, store.images.shape[1:3]),
    )


def outlook(
    plan: Plan,
    store: ImageStore,
    choice: Choice[Any],
    alike: LookAlikes,
    *,
    network: str,
    cost: Cost,
    seconds: float | None,
    bytes_until_the_end: int = 0,
    advice: tuple[str, ...] = (),
) -> DryRun:
    """Rehearse the analysis of twins on losses that hold nothing, and say what it could find at which cost.

    Args:
        plan: Parts, designs and scored items.
        store: The images.
        choice: Options with the number of models, and why there are so many.
        alike: Images of different patients that are nearly the same.
        network: Network that is trained, in words.
        cost: Cost of the audit.
        seconds: Estimated seconds of training; None where that is not known.
        bytes_until_the_end: Bytes of images that are kept while the audit runs.
        advice: Ways to take less time.
    """
    names, counts = np.unique(plan.parts.part.astype(str), return_counts=True)
    options, evidence = choice.options, _empty_evidence(plan)
    unscored = uncovered_images(evidence, 0, plan.parts.too_small)
    return DryRun(
        network,
        cost,
        bytes_until_the_end,
        dict(zip(names.tolist(), counts.tolist(), strict=True)),
        plan.design,
        options.chosen_seeds,
        _choice_words(choice),
        choice.needed,
        options.loss_scale.unit,
        float("nan") if choice.rehearsal is None else choice.rehearsal.gap,
        plan.parts.too_small,
        _class_outlooks(evidence, plan, options),
        WithoutPartner(n_groups=unscored.n_groups_without_partner, n_images=unscored.n_images_without_partner),
        _subgroup_outlook(plan, subgroups(store.manifest.table, plan.parts.groups, options.by), options),
        seconds,
        _cannot_pass(plan, choice, patient_doubts(store, options, alike)),
        advice,
    )


def _subgroup_outlook(plan: Plan, columns: Sequence[Subgroups], options: TwinOptions) -> tuple[SubgroupOutlook, ...]:
    """Compute from which difference on each level would be called more exposed, by the audit's own comparison."""
    if not columns:
        return ()
    contrasts = compared_subgroups(ScoredPatients.of(honest_evidence(plan, 0, scale=options.loss_scale)), columns)
    return tuple(
        SubgroupOutlook(
            subgroup=subgroup_name(column.column, level),
            n_patients=None if contrast is None else contrast.n_patients,
            noticeable=float("nan") if contrast is None else contrast.noticeable,
        )
        for column in columns
        for level in column.levels
        for contrast in (contrasts.get((column.column, level)),)
    )


def patient_doubts(store: ImageStore, options: TwinOptions, alike: LookAlikes) -> list[Reason]:
    """Return the doubts about who is who that are known before anything is trained.

    Args:
        store: Images.
        options: Options of the audit.
        alike: Images of different patients that are nearly the same.
    """
    without = 0 if options.one_image_per_patient else store.manifest.n_without_group
    doubts: list[Reason] = [unknown_patients(without, some_given=store.manifest.groups_given)] if without else []
    doubts += identity_reasons(store.manifest.id_doubts)
    units = UnitNames("patient", "patients") if store.manifest.groups_given else UnitNames("image", "images")
    return doubts + look_alike_reasons(alike, units, one_image=options.one_image_per_patient)


def _network(recipe: Recipe, options: ClassifierOptions) -> str:
    """Name the network; of one that the size of the images chose, say so."""
    if recipe.own or options.one_model != "auto":
        return recipe.model
    below = recipe.model == SMALL_MODEL
    return f"{recipe.model} (auto, {f'below {SMALL_IMAGE} px' if below else f'{SMALL_IMAGE} px and above'})"


def _smaller_network(
    recipe: Recipe, options: ClassifierOptions, seconds: float | None, pixels: tuple[int, ...]
) -> tuple[str, ...]:
    """Name the small network where `auto` took another one that will train for hours."""
    if seconds is None or seconds < _LONG or options.one_model != "auto" or recipe.model == SMALL_MODEL:
        return ()
    size = f" --size {SMALL_IMAGE}" if max(pixels) > SMALL_IMAGE or pixels[0] != pixels[1] else ""
    return (
        f"{recipe.model} is long to train here: a first audit by --model {SMALL_MODEL}{size} takes a small part of the "
        "time (it is an audit of another network)",
    )


def _empty_evidence(plan: Plan) -> Evidence:
    """Return the score table of models that give everything one loss: what can be tested then rests on no chance."""
    size = len(plan.parts.part)

    def columns(rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of a model that sees these rows."""
        member = np.zeros(size, dtype=bool)
        member[rows] = True
        loss = np.ones(len(plan.items))
        return {"loss": loss, "margin": -loss, "correct": loss > 1, "member": member[plan.item_row]}

    halves = ((columns(d.rows_a), columns(d.rows_b)) for d in plan.designs)
    return stack_evidence(plan.items, plan.design, [d.seed for d in plan.designs], halves)


def _choice_words(choice: Choice[Any]) -> str:
    """Say why an audit has its number of models."""
    if choice.named:
        return "as named"
    if choice.rehearsal is None:
        return "the fewest by default: another number would not let this audit pass"
    if choice.rehearsal.can_pass:
        return "the fewest by default with which an honest audit of these data passes"
    if choice.needed is not None:
        return f"by default; a pass needs {choice.needed}"
    return f"the fewest by default: no number up to {MOST_MODELS} lets an audit of these data pass"


_OBSTACLES = {
    Obstacle.CLASSES: f"a single patient with a gap of {{notice}} would not be noticed in {share_words(PASS_POWER)}",
    Obstacle.UNEVEN: "a patient that only some of the trainings remember could go unnoticed",
    Obstacle.ATTACKS: "the intervals of the attacks would contain AUC {gate:g} though no patient is remembered",
}


def _cannot_pass(plan: Plan, choice: Choice[Any], doubts: list[Reason]) -> tuple[str, ...]:
    """Say where a pass needs a random split, certain patient ids, or more models."""
    notes = []
    for doubt in [*([] if plan.parts.random else [NotRandom()]), *doubts]:
        notes.append(f"this audit cannot pass: {doubt.text}; a pass needs {doubt.remedy}")
    few, rehearsal = few_seeds(len(plan.designs)), choice.rehearsal
    if few is not None and rehearsal is None:
        notes.append(f"this audit cannot pass with {few.text}; a pass needs {few.plan_remedy}")
    if plan.parts.random and (reason := whatever_models(plan)):
        notes.append(f"this audit cannot pass, whatever the number of models: {reason}")
    if rehearsal is None or rehearsal.can_pass:
        return tuple(notes)
    options = choice.options
    why = _obstacle_words(rehearsal, options)
    why = why if few is None else [few.text]
    way = (
        f"a pass needs at least {choice.needed} models (--models {choice.needed}), and more where trainings differ much"
    )
    if choice.needed is None:
        patients = plural(len(np.unique(plan.parts.groups.astype(str))), "patient", "patients")
        fewer = "fewer classes (some joined, or left out), or " if len(plan.parts.classes) > 1 else ""
        way = (
            f"no number up to {MOST_MODELS} can pass with {patients} in {len(plan.parts.classes)} classes, so that the "
            f"audit may fail or stay undecided; a pass needs {fewer}more patients"
        )
    notes.append(f"this audit cannot pass with {rehearsal.n_models} models: {', and '.join(why)}; {way}")
    return tuple(notes)


def measured_outlook(plan: Plan, options: TwinOptions, pilot: Evidence) -> tuple[Rehearsal, str]:
    """Rehearse the classes with the noise of the first trainings, and say what follows.

    Args:
        plan: Plan of the audit.
        options: Options of the audit.
        pilot: Score table of the first trainings.
    """
    rehearsal = measured_rehearsal(plan, options, pilot)
    words = (
        f"noticeable gap, by the noise of the first {2 * len(pilot.seeds)} models: {_gap_words(rehearsal.gap, options)}"
    )
    if rehearsal.can_pass:
        return rehearsal, words
    why = ", and ".join(_obstacle_words(rehearsal, options))
    return rehearsal, (
        f"{words}; with {plural(rehearsal.n_models, 'model', 'models')} this audit hardly can pass: {why}; a pass "
        "needs more models (the same command with a larger --models keeps the trainings)"
    )


def _obstacle_words(rehearsal: Rehearsal, options: TwinOptions) -> list[str]:
    """Say of each obstacle why it leaves an honest audit undecided."""
    values = {"notice": options.loss_scale.amount(f"{options.notice:g}"), "gate": options.attack_gate}
    return [_OBSTACLES[one].format(**values) for one in rehearsal.obstacles]


def _gap_words(gap: float, options: TwinOptions) -> str:
    """Show a noticeable gap."""
    scale = options.loss_scale
    return f"none up to {scale.amount(f'{GAPS[-1]:.0f}')}" if np.isinf(gap) else f"about {scale.amount(f'{gap:.2g}')}"


def _context(plan: Plan) -> Context:
    return Context(design=plan.design, random_split=plan.parts.random, not_auditable=plan.parts.too_small)


def _class_outlooks(evidence: Evidence, plan: Plan, options: TwinOptions) -> tuple[ClassOutlook, ...]:
    """Compute the possible findings of each class, by the very analysis, on losses that hold nothing."""
    return tuple(
        from_json(ClassOutlook, f.row) for f in class_findings(evidence, options, _context(plan), advise=False)
    )
