"""Train the models of an audit, one job per model, and read their losses."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.classifier.evidence import Evidence, margin_of_loss, stack_evidence
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.planning.plan import VALIDATION, Plan
from memorisk.audits.classifier.twins.twin_trainings import run_trainings, training_device
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.specs import auto_model, is_download, model_spec
from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.files import put_back, read_array
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import CountProgress
from memorisk.scores.memorization import binary_cross_entropy, cross_entropy, logit_margin
from memorisk.training.classifiers.jobs import CHECKPOINTS, LOGITS, WEIGHTS, TrainJob, check_job, run_training
from memorisk.training.classifiers.joint_jobs import fit_cost, run_jointly
from memorisk.training.classifiers.user_training import CALL_FORM
from memorisk.training.engine.data import Targets, build_targets
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.engine.pixels import Normalisation, choose_normalisation
from memorisk.training.engine.user_training import function_source


@dataclass(frozen=True)
class Recipe:
    """The training recipe of every model of the audit.

    Attributes:
        model: Name of the network, or of the user's function.
        weights: Pre-trained weights.
        train: Settings with nothing left open.
        targets: Training targets of all images.
        normalisation: Normalisation of the pixels, shared by all models.
        device: Device that the models are trained on.
        threads: Number of threads of each training.
        own: The user's training function.
        own_settings: Settings of the user's own training.
        own_source: Fingerprint of its file's text, the same for every model of the audit.
    """

    model: str
    weights: str | None
    train: TrainOptions
    targets: Targets
    normalisation: Normalisation | None
    device: str
    threads: int
    own: str | None
    own_settings: dict[str, str]
    own_source: str

    def describe(self) -> dict[str, Any]:
        """Describe, for the run folder, everything by which two trainings are the same."""
        return {
            "model": self.model,
            "weights": self.weights,
            **asdict(self.train),
            "device": self.device,
            "threads": self.threads,
            "function": self.own,
            "settings": self.own_settings,
        }

    def shown(self) -> dict[str, Any]:
        """Describe, for the report, what made the models: of the user's own training the function and its text."""
        if self.own is None:
            return self.describe()
        return {"function": self.own, "settings": self.own_settings, "file_hash": self.own_source}


def prepare_recipe(store: ImageStore, plan: Plan, options: ClassifierOptions, *, dry_run: bool = False) -> Recipe:
    """Resolve every default of the training, so that the report can name it.

    Args:
        store: The images.
        plan: Parts and designs of the audit.
        options: Settings of the audit.
        dry_run: Read the user's function and run nothing of its file.

    Raises:
        InputError: The model, the device, the weights or the user's function do not exist.
    """
    size = int(store.images.shape[1])
    name = auto_model(size) if options.one_model == "auto" else options.one_model
    spec = model_spec(name)
    settings = TrainOptions(**{f: getattr(options, f) for f in TrainOptions.__dataclass_fields__})
    train = resolve_options(settings, spec)
    source = ""
    if options.train:
        source = function_source(
            options.train, CALL_FORM, options.train_settings or {}, options.python_path, dry_run=dry_run
        )
    device = training_device(options)
    return Recipe(
        model=options.train or name,
        weights=options.weights,
        train=train,
        targets=build_targets(plan.parts.labels, train.head, classes=plan.parts.classes),
        normalisation=choose_normalisation(store.images, train.normalise, spec),
        device=device,
        threads=options.threads,
        own=options.train,
        own_settings=dict(options.train_settings or {}),
        own_source=source,
    )


def make_jobs(
    out: Path, store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions
) -> list[tuple[TrainJob, TrainJob]]:
    """Make the two training jobs of each seed, A and B (``paper``: candidate and independent)."""
    val = np.flatnonzero(plan.parts.part == VALIDATION) if recipe.own else None
    order = Pseudonyms.from_options(options).order(store.manifest.images)

    def job(rows: np.ndarray, seed: int, slots: int | None) -> TrainJob:
        """Make the training job of a model that sees these rows."""
        return TrainJob(
            out=out,
            images=store.folder / "images.npy",
            rows=rows,
            slots=slots,
            targets=recipe.targets.values,
            n_outputs=recipe.targets.n_outputs,
            model=recipe.model,
            weights=recipe.weights,
            options=recipe.train,
            normalisation=recipe.normalisation,
            seed=seed,
            device=recipe.device,
            threads=recipe.threads,
            own=recipe.own,
            own_settings=recipe.own_settings,
            own_source=recipe.own_source,
            python_path=options.python_path if recipe.own else (),
            val_rows=val,
            keep_weights=not options.discard_weights,
            checkpoint_seconds=options.checkpoint_seconds,
            score_augmentations=options.score_augmentations,
            kept_order=order,
        )

    return [(job(d.rows_a, d.seed, d.slots), job(d.rows_b, d.seed, d.slots)) for d in plan.designs]


def refuse_early(pairs: list[tuple[TrainJob, TrainJob]], *, download: bool = True) -> None:
    """Refuse, before anything is written, what the first training would refuse; nothing where all are trained.

    Args:
        pairs: The trainings.
        download: Fetch weights given by name; a plan does without and checks their name only.

    Raises:
        InputError: As ``training.classifiers.jobs.check_job``.
    """
    todo = next((job for pair in pairs for job in pair if not job.done), None)
    if todo is None:
        return
    if not download and todo.own is not None:  # `prepare_recipe` has read it
        return
    if not download and is_download(todo.weights, model_spec(todo.model)):
        todo = replace(todo, weights="none")
    check_job(todo)


def train_all(
    run: RunFolder,
    pairs: Sequence[Sequence[TrainJob]],
    options: ClassifierOptions,
    progress: CountProgress,
    trained: Callable[[], None] = lambda: None,
) -> None:
    """Train what is not trained yet: in processes on a CPU, stacked or one by one on a GPU, on a cluster on request.

    Args:
        run: Run folder.
        pairs: Trainings of each seed.
        options: Options of the audit.
        progress: Called with the steps that are done and all steps.
        trained: Called after each training.

    Raises:
        InputError: The cluster cannot take the trainings.
        MemoriskError: Some trainings failed; the others are kept.
    """
    for name in (LOGITS, WEIGHTS, CHECKPOINTS):
        run.subfolder(name)
    run_trainings(
        run,
        pairs,
        run_training,
        options,
        progress,
        steps=lambda job: 1 if job.own else fit_cost(job.n_slots, job.options).steps or 0,
        images=pairs[0][0].images.parent,
        trained=trained,
        jointly=run_jointly,
    )


def collect(
    pairs: list[tuple[TrainJob, TrainJob]], plan: Plan, recipe: Recipe, assigned: np.ndarray | None = None
) -> Evidence:
    """Read the logits of every model and turn them into losses of the scored items."""
    halves = ((model_scores(a, plan, recipe), model_scores(b, plan, recipe)) for a, b in pairs)
    return stack_evidence(plan.items, plan.design, [d.seed for d in plan.designs], halves, assigned)


def model_scores(job: TrainJob, plan: Plan, recipe: Recipe) -> dict[str, np.ndarray]:
    """Score every item under one model, and say whether the model saw it, each [I].

    Args:
        job: Training of the model, done.
        plan: Parts and scored items.
        recipe: Recipe of the trainings, with the true targets.

    Raises:
        MemoriskError: A file of the training is damaged.
    """
    member = np.zeros(len(plan.parts.part), dtype=bool)
    member[job.rows] = True
    passes = _read(job, job.augmented_file, job.score_augmentations) if job.score_augmentations else None
    scores = score_passes(_read(job, job.logits_file), passes, plan, recipe.targets)
    return scores | {"member": member[plan.item_row]}


def _read(job: TrainJob, file: Path, *passes: int) -> np.ndarray:
    """Read the logits of all images that a training left, of one pass or several, in the order of the images.

    Raises:
        MemoriskError: The file is damaged.
    """
    try:
        logits = read_array(file, mmap=True)
        if logits.shape == (*passes, len(job.targets), job.n_outputs):
            return put_back(logits, job.kept_order, axis=-2)
    except (ValueError, EOFError):
        pass
    raise MemoriskError(f"{one_line(file)} is damaged: remove it, and the same command trains that model again")


def score_passes(
    logits: np.ndarray, augmented: np.ndarray | None, plan: Plan, targets: Targets
) -> dict[str, np.ndarray]:
    """Score items as `score_logits` does; loss and margin are means over augmented passes where there are some.

    Args:
        logits: Outputs in the plain pass, [N, k], which says what is correct.
        augmented: Outputs in the augmented passes, [passes, N, k] (paper 000, "Single-pass versus five-augmentation
            scoring").
        plan: Says which image and class each item is.
        targets: The head.
    """
    plain = score_logits(logits, plan, targets)
    if augmented is None:
        return plain
    each = [score_logits(one, plan, targets) for one in augmented]
    return plain | {name: np.mean([scored[name] for scored in each], axis=0) for name in ("loss", "margin")}


def score_logits(logits: np.ndarray, plan: Plan, targets: Targets) -> dict[str, np.ndarray]:
    """Compute loss, margin and correctness of every item under one model.

    Multi-label heads are scored per finding, by the binary cross-entropy of a finding that the image has, and per image
    by the sum over all findings, present and absent, ``-log p`` of all that the image was labelled with: what was
    learned of a finding that the label denies is in that sum alone.

    Args:
        logits: Outputs for all images, [N, k].
        plan: Says which image and class each item is.
        targets: The head.
    """
    chosen = np.asarray(logits)[plan.item_row].astype(np.float64)  # [I, k]
    if targets.head in ("single", "first"):
        loss, margin = cross_entropy(chosen, plan.item_class), logit_margin(chosen, plan.item_class)
        correct = chosen.argmax(axis=1) == plan.item_class
        return {"loss": loss, "margin": margin, "correct": correct}
    if targets.head == "binary":
        z, t = chosen[:, 0], plan.item_class.astype(np.float64)
    else:
        z, t = chosen[np.arange(len(chosen)), plan.item_class], np.ones(len(chosen))
    loss, margin = binary_cross_entropy(z, t), (2 * t - 1) * z
    correct, whole = margin > 0, plan.item_class < 0
    if whole.any():
        each = targets.values[plan.item_row[whole]]
        loss[whole] = binary_cross_entropy(chosen[whole].ravel(), each.ravel()).reshape(each.shape).sum(axis=1)
        margin[whole] = margin_of_loss(loss[whole])
        correct[whole] = ((chosen[whole] > 0) == (each > 0)).all(axis=1)
    return {"loss": loss, "margin": margin, "correct": correct}
