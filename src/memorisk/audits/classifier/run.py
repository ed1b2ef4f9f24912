"""Which patients does a fine-tuned classifier expose? The audit of paper 000, end to end.

The code reads like the method: images, parts, twins, trainings, losses, verdict. Everything slow leaves its result in
the run folder, so the same command continues where a killed one stopped, and one with more seeds trains only the new
ones. The report gets pixels of the most memorized images only when the user asks for pictures.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from memorisk.audits.classifier.analysis import analyse
from memorisk.audits.classifier.attack_numbers import TargetAudit
from memorisk.audits.classifier.evidence import SCORES, Context, write_scores
from memorisk.audits.classifier.finished_run import refuse_fewer_seeds
from memorisk.audits.classifier.look_alikes import alike_images
from memorisk.audits.classifier.marks import Marks, keep_marks, marks_to_keep
from memorisk.audits.classifier.options import WORKER_MODULES, ClassifierOptions, options_from
from memorisk.audits.classifier.pages.thumbnails import thumbnails
from memorisk.audits.classifier.planning.cost import parameter_count
from memorisk.audits.classifier.planning.dry_run import DryRun, describe_plan, measured_outlook, patient_doubts
from memorisk.audits.classifier.planning.plan import Plan, draw_parts, identity, make_plan
from memorisk.audits.classifier.planning.rehearsal import PILOT, Choice, ModelChooser, choose_models
from memorisk.audits.classifier.result import LookAlikes, Placebo, Privacy
from memorisk.audits.classifier.retraining.intervention_effects import with_intervention
from memorisk.audits.classifier.retraining.interventions import (
    InterventionPlan,
    check_classes,
    plan_intervention,
    run_intervention,
)
from memorisk.audits.classifier.retraining.placebo import run_placebo
from memorisk.audits.classifier.retraining.privacy import check_bound, measure_bound, plan_privacy
from memorisk.audits.classifier.target.attacks import audit_target, check_target, check_target_file
from memorisk.audits.classifier.twins.control_training import classifier_control, control_jobs
from memorisk.audits.classifier.twins.data_context import data_context
from memorisk.audits.classifier.twins.trainings import (
    Recipe,
    collect,
    make_jobs,
    prepare_recipe,
    refuse_early,
    train_all,
)
from memorisk.audits.classifier.twins.twin_trainings import training_processes
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import write_report
from memorisk.audits.run_images import CLASSIFIED, parts_of
from memorisk.audits.runner import Audit, run_audit
from memorisk.audits.subgroups import subgroups
from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import Manifest
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.report.kinds import named_kind
from memorisk.report.quantities import opening
from memorisk.report.result import Result
from memorisk.runs.executors.pool import prepare_workers, worker_pool
from memorisk.runs.folder import RunFolder, is_run, read_config
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.classifiers.jobs import TrainJob, warm_up


@takes_settings(ClassifierOptions)
def audit_classifier(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, dry_run: bool = False, **settings: Any
) -> Result | DryRun:
    """Audit what a classifier of this recipe memorizes of these images.

    Trains K = 2S twin models (``models``, ``design``), scores every canary by the loss gap of the twins, and writes the
    run folder ``out``: scores, tables, ``verdict.json`` and ``report.html``. Method: METHODS section 1; paper 000,
    section 3.

    Args:
        images: Folder, CSV or Parquet manifest, npz, npy, HDF5, DICOM tree, or "digits"; or in Python a DataFrame with
            a column of files, arrays ``(X, y, groups)``, or a data set of torch or of Hugging Face.
        out: The run folder: new, empty, or a run of the same audit to continue.
        progress: Called with (stage, done, total); by default a bar in a terminal, a line in a notebook or a log.
            ``memorisk.no_progress`` is silent.
        dry_run: Decode the images, plan, and return the plan without training.
        **settings: Any field of ``ClassifierOptions``.

    Returns:
        The result, which is also saved in ``out``; or the plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: A training failed; what is done is kept.

    Example:
        >>> result = audit_classifier("digits", out="runs/demo", models=16)  # doctest: +SKIP
        >>> result.verdict["status"]  # doctest: +SKIP
        'fail'
    """
    return audit_recipe(images, Path(out), options_from(settings), progress, dry_run=dry_run)


def audit_recipe(
    images: str | Path,
    folder: Path,
    options: ClassifierOptions,
    progress: Progress,
    *,
    dry_run: bool = False,
    choose: ModelChooser = choose_models,
) -> Result | DryRun:
    """Run one audit, or plan it, with a choice of the number of models that several audits may share.

    Args:
        images: Images of the audit, as `audit_classifier` takes them.
        folder: The run folder.
        options: Options of the audit.
        progress: Called with (stage, done, total).
        dry_run: Return the plan without training.
        choose: Chooser of the number of models.

    Raises:
        InputError: As `audit_classifier`.
        MemoriskError: As `audit_classifier`.
    """
    if not options.names_models:
        options = _as_begun(folder, options) or options
    _ = options.one_regime, options.one_model  # several are compared by `memorisk.audit_defences`
    sources = {"IMAGES": images, "--image-root": options.image_root}
    audit = ClassifierAudit(folder, options, {"images": str(images)}, sources, dry_run, choose=choose)
    return run_audit(audit, progress)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Settings and data that are fixed before the first training."""

    plan: Plan
    recipe: Recipe
    store: ImageStore
    linked: list[tuple[str, str]]
    alike: LookAlikes
    intended: InterventionPlan | None
    choice: Choice[ClassifierOptions]


@dataclass
class ClassifierAudit(Audit[_Prepared, _Prepared, Result]):
    """Audit of a classifier's recipe by twin models."""

    kind = "classifier"
    options: ClassifierOptions
    choose: ModelChooser = field(kw_only=True)

    @contextmanager
    def workplace(self, progress: Progress) -> Iterator[None]:
        """Refuse what cannot be audited before decoding it, and start the workers, which load while images are read."""
        folder, options = self.out, self.options
        if not self.dry_run:
            refuse_fewer_seeds(folder, options)
            if options.processes != 1 and options.executor == "local":
                prepare_workers(*WORKER_MODULES)
        self.marks = marks_to_keep(folder, options.review)
        progress("reading the manifest", 0, 0)
        self.manifest = load_manifest(self.sources["IMAGES"], options)
        early = draw_parts(self.manifest, [], options, options.split_seed)
        if options.target is not None:
            check_target_file(early, options)
        make_plan(self.manifest, early, options)
        check_classes(early, options)
        subgroups(self.manifest.table, self.manifest.groups, options.by)
        workers = worker_pool(training_processes(options), options.threads, warm_up)
        with nullcontext() if self.dry_run else workers:
            yield

    def read(self, names: Pseudonyms, progress: Progress) -> _Prepared:
        """Decode the images, draw the parts, and settle the recipe and the number of models."""
        prepared = _prepare(self.manifest, self.out, self.options, progress, self.choose, dry_run=self.dry_run)
        self.options = prepared.choice.options
        return prepared

    def plan(self, inputs: _Prepared, place: None, progress: Progress) -> DryRun:
        """Plan the trainings, and foresee the verdict."""
        p = inputs
        return describe_plan(self.out, p.plan, p.recipe, p.store, p.choice, p.alike, p.intended, progress)

    def identity(self, evidence: _Prepared) -> dict[str, Any]:
        """Return images, design and recipe; seeds may be added."""
        recipe = evidence.recipe.describe()
        return identity(self.out, self.options, evidence.store.data_hash, recipe)

    def started(self, evidence: _Prepared) -> dict[str, Any]:
        """Note the device of the trainings."""
        return {"device": evidence.recipe.device}

    def write(self, run: RunFolder, evidence: _Prepared, names: Pseudonyms, progress: Progress) -> Result:
        """Train, score, judge, and write."""
        foreseen = self.plan(evidence, None, progress)
        if foreseen.cost.trainings:  # before hours of it
            progress(opening(foreseen), 0, 0)
        return _run(run, evidence, names, self.marks, progress)


def _as_begun(folder: Path, options: ClassifierOptions) -> ClassifierOptions | None:
    """Return the options with the number of models of the run that is there; None where no audit was begun."""
    begun = read_config(folder) if is_run(folder) else {}
    if named_kind(begun) != "classifier":
        return None
    before = replace(options, models=begun.get("models"), seeds=tuple(begun.get("seeds") or ()) or None)
    return before if before.names_models else replace(before, models=2 * len(before.chosen_seeds))


def _prepare(
    manifest: Manifest,
    folder: Path,
    options: ClassifierOptions,
    progress: Progress,
    choose: ModelChooser,
    *,
    dry_run: bool,
) -> _Prepared:
    """Decode the images, draw the parts, settle the recipe; everything that can be refused is refused here."""
    store = build_store(
        manifest, options, processes=options.processes, progress=lambda d, n: progress("decoding images", d, n)
    )
    manifest = store.manifest
    linked = linked_groups(store.pixel_hashes, manifest.groups)
    parts = draw_parts(manifest, linked, options, options.split_seed)
    plan = make_plan(manifest, parts, options)
    recipe = prepare_recipe(store, plan, options, dry_run=dry_run)
    refuse_early(make_jobs(folder, store, plan, recipe, options), download=not dry_run)
    check_bound(plan, options)
    if options.target is not None:
        progress("trying the target on images of its training", 0, 0)
        check_target(store, plan, recipe, options)
    intended = plan_intervention(store, plan, options)
    alike = alike_images(store, parts.groups, parts.part.astype(str), progress)
    begun = None if dry_run else _as_begun(folder, options)
    if begun is not None and begun.chosen_seeds == options.chosen_seeds:  # the first command chose what can pass
        choice = Choice(options, named=True)
    else:
        progress("rehearsing the audit on simulated losses", 0, 0)
        hopeless = bool(patient_doubts(store, options, alike))
        choice = choose(manifest, parts, options, hopeless=hopeless)
    return _Prepared(make_plan(manifest, parts, choice.options), recipe, store, linked, alike, intended, choice)


def _run(run: RunFolder, prepared: _Prepared, names: Pseudonyms, marks: Marks, progress: Progress) -> Result:
    """Train and score the models, and write what they give."""
    plan, recipe, store, choice = prepared.plan, prepared.recipe, prepared.store, prepared.choice
    options = choice.options
    _write_manifest(run, store, plan, names)
    jobs = make_jobs(run.path, store, plan, recipe, options)
    pilot = _pilot(run, jobs, plan, recipe, options, progress)
    foreseen = pilot if choice.rehearsal is not None else lambda: None
    controls = control_jobs(jobs, recipe)
    train_all(run, [*jobs, controls], options, lambda d, n: progress("training", d, n), foreseen)
    progress("scoring", 0, 0)
    evidence = collect(jobs, plan, recipe)
    write_scores(run / SCORES, names.evidence(evidence))
    placebo = run_placebo(run, store, plan, recipe, options, lambda d, n: progress("placebo", d, n))
    changed = run_intervention(
        run, store, plan, recipe, options, prepared.intended, evidence, names, partial(progress, "intervention")
    )
    target = audit_target(store, plan, recipe, evidence, options) if options.target is not None else None
    bound = measure_bound(run, store, plan, recipe, options, lambda d, n: progress("lower bound of epsilon", d, n))
    context = _context(plan, recipe, store, options, prepared.linked, prepared.alike, placebo, target)
    context = replace(context, dataset=names.source(context.dataset), n_parameters=parameter_count(jobs[0][0], store))
    weights_kept = all(job.weights_file.is_file() for pair in jobs for job in pair)
    promise = plan_privacy(plan, recipe.train, known=context.groups_given)
    privacy = Privacy(regime=recipe.train.one_regime, promise=promise, bound=bound)
    doubts = classifier_control(controls, evidence, plan, recipe)
    context = replace(context, weights_kept=weights_kept, privacy=privacy, other_reasons=doubts)
    result = with_intervention(names.result(analyse(evidence, options, context)), changed)
    result.save(run.path, beside=(SCORES,))
    n_kept_marks = keep_marks(run.path, marks, result.per_group, names)
    if marks:
        run.log("takes over", marks=n_kept_marks, of=len(marks))
    parts = parts_of({CLASSIFIED: store}, names)
    pictures = thumbnails(result, parts) if options.gallery and not options.redact else None
    write_report(run, result, pictures=pictures, redact=options.redact)
    return result


def _pilot(
    run: RunFolder,
    jobs: list[tuple[TrainJob, TrainJob]],
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    progress: Progress,
) -> Callable[[], None]:
    """Return what states the noticeable gap anew, once, when the first trainings are done and others are not."""
    first, rest = jobs[:PILOT], jobs[PILOT:]
    stated = False

    def state() -> None:
        """Measure the noise of the first trainings, and say what follows for the others."""
        nonlocal stated
        if (
            stated
            or not all(job.done for pair in first for job in pair)
            or all(job.done for pair in rest for job in pair)
        ):
            return
        stated = True
        pilot = collect(first, replace(plan, designs=plan.designs[:PILOT]), recipe)
        rehearsal, words = measured_outlook(plan, options, pilot)
        run.log("foreseen", noticeable_gap=rehearsal.gap, can_pass=rehearsal.can_pass)
        progress(words, 0, 0)

    return state


def _write_manifest(run: RunFolder, store: ImageStore, plan: Plan, names: Pseudonyms) -> None:
    parts = {"part": plan.parts.part.astype(str), "training_group": plan.parts.groups.astype(str)}
    names.manifest(store.hashed_manifest(**parts)).save(run / "manifest.parquet")


def _context(
    plan: Plan,
    recipe: Recipe,
    store: ImageStore,
    options: ClassifierOptions,
    linked: list[tuple[str, str]],
    alike: LookAlikes,
    placebo: Placebo | None,
    target: TargetAudit | None,
) -> Context:
    notes = []
    if store.manifest.splits is not None and options.splits == "redraw" and options.target is None:
        notes.append(
            "The data come with a split of their own; the parts of this audit were drawn anew by group, since its null "
            "needs a test part that is a random part, by patient, of the same data (--splits given keeps the split)."
        )
    if options.score_augmentations:
        notes.append(
            f"Losses are means over {options.score_augmentations} augmentations of each image (paper 000's earlier "
            "protocol): M is on another scale than that of one plain pass."
        )
    if options.train:
        notes.append(
            "The models were made by your own training function: partners cannot share batch slots, so the null is "
            "wider than with the built-in training and fewer patients can be flagged."
        )
    return data_context(
        plan,
        store,
        linked,
        alike,
        by=options.by,
        notes=notes,
        protocol=options.protocol,
        model=recipe.model,
        pixels=store.images.shape[1:3],
        training=recipe.shown(),
        dataset=store.manifest.name,
        device=recipe.device,
        pseudonymised=options.pseudonymise,
        placebo=placebo,
        target=target,
    )
