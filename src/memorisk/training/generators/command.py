"""Train a generator on a set of images (``memorisk train generator``), and count its cost.

The run folder holds ``generator/`` (which `memorisk.load_generator` reads), ``training.json`` (settings, history,
reason of the end), ``manifest.parquet`` (the part that each image was in) and, if requested, ``snapshots/``; while it
runs also the state from which a killed training continues. A file ``stop.json`` in it ends the training at the next
look.

The generator learns from training images. Validation images measure the held-out loss, and decisions are made on it.
Test images take no part: an audit compares with them.

Costs are counted from settings and images. A GAN trains two networks. The images that pass through the learning network
count as forward and backward: for the generator's update the images that it makes (half as many for a path length), for
the discriminator's update those and the real ones (for R1 the real ones once more). The images that pass through the
other network count as forward only: the discriminator's pass over the images of the generator's update, and the
generator's images for the discriminator's update.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.sources.overlap import refuse_generated_within
from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.generators import Generator, load_generator
from memorisk.models.latents import open_latents
from memorisk.runs.environment import versions
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.training.classifiers.joint_jobs import fit_cost, tensor_bytes
from memorisk.training.engine.data import Division
from memorisk.training.engine.devices import is_main, wait_for_all
from memorisk.training.engine.loop import CHECKPOINT
from memorisk.training.generators.fit import GENERATOR, FittedGenerator, build_training, run_training
from memorisk.training.generators.fold_classifiers import FoldData, fold_file, fold_recipe
from memorisk.training.generators.inputs import (
    InitialWeights,
    build_conditioning,
    limit_held_out,
    notes_on_inputs,
    notes_on_latents,
)
from memorisk.training.generators.kinds.gan_training import path_images
from memorisk.training.generators.losses import conditioned_held_out
from memorisk.training.generators.options import (
    FOLDS,
    PATH_EVERY,
    R1_EVERY,
    GeneratorOptions,
    PseudoOptions,
    TrainGeneratorOptions,
)
from memorisk.training.generators.snapshots import GeneratorTraining, OnSnapshot
from memorisk.training.run import Trained, TrainingCommand, TrainingPlan, open_parts

CLASSIFIERS = "conditions"
_STATE = 4  # numbers per weight that a checkpoint holds: itself, its average and two moments
_BYTES = 4


@dataclass(frozen=True)
class TrainedGenerator(Trained):
    """Generator of a run, with its summary."""

    @property
    def generator(self) -> Generator:
        """Generator, loaded from the run folder."""
        return load_generator(self.folder / GENERATOR)


@dataclass(frozen=True)
class GeneratorPlan(TrainingPlan):
    """Plan of a training; its time and cost do not include those of a watch."""

    conditioned_on: str
    """Kind of condition: ``none``, ``class`` or ``vector``."""
    classes: dict[str, int]
    """Number of training images of each class."""
    parameters: int
    """Number of parameters of the network that draws."""
    passes: float
    """Number of times that the network sees every training image."""
    bytes: dict[str, int]
    """Size on the disk in bytes: ``generator``, its state while it runs, and ``snapshots``."""


@takes_settings(TrainGeneratorOptions)
def train_generator(
    images: str | Path,
    *,
    out: str | Path,
    on_snapshot: OnSnapshot | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> TrainedGenerator:
    """Train a generator of images.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`; labels are classes, where the images have any.
        out: The run folder: new, empty, or a run of the same command to continue.
        on_snapshot: Function called at every look with a `memorisk.training.generators.snapshots.Snapshot`; False ends
            the training there.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainGeneratorOptions`.

    Returns:
        Generator and summary of the training, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: diffusers or accelerate is not installed.
        MemoriskError: The training failed; what is done is kept.
    """
    command = GeneratorCommand(images, out, settings_of(TrainGeneratorOptions, settings), progress)
    command.on_snapshot = on_snapshot
    trained = command.train()
    return TrainedGenerator(trained.folder, trained.summary)


def plan_generator(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> GeneratorPlan:
    """Plan `train_generator` by two steps; nothing is written but the image store.

    Args:
        images: Source of the images, as for `train_generator`.
        out: The run folder.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainGeneratorOptions`.

    Raises:
        InputError: As `train_generator`.
    """
    return GeneratorCommand(images, out, settings_of(TrainGeneratorOptions, settings), progress).plan()


class GeneratorCommand(TrainingCommand[TrainGeneratorOptions, ImageStore, GeneratorTraining, GeneratorPlan]):
    """The command ``memorisk train generator``."""

    name = GENERATOR
    shared = True
    on_snapshot: OnSnapshot | None = None
    """Function called at every look."""

    def open(self) -> tuple[ImageStore, Division]:
        """Decode the images and divide the patients."""
        return open_parts(self.images, self.options, self.progress, partial(refuse_generated_within, self.images))

    def build(self) -> GeneratorTraining:
        """Check everything and build the training on its device, with blank conditions where it has any."""
        return self._with(_blank_conditions(self.source, self.parts, self.options))

    def identity(self, training: GeneratorTraining) -> dict[str, Any]:
        """Return the settings without which a run is another run."""
        return self.options.generator.recipe()

    def prepare(self, run: RunFolder, training: GeneratorTraining) -> GeneratorTraining:
        """Build the conditions, where the generator has any, and check the training with them."""
        if self.options.conditioning is None:
            return training
        return self._with(_conditions(self.source, self.parts, self.options, run, self.progress))

    def fit(self, run: RunFolder, training: GeneratorTraining) -> dict[str, Any]:
        """Train the generator and summarise it."""
        how = {"on_snapshot": self.on_snapshot, "progress": self.progress}
        fitted = run_training(training, self.options.generator, run.path, **how)
        return _summary(self.source, self.parts, self.options, training, fitted)

    def estimate(self, training: GeneratorTraining, *, timed: bool) -> GeneratorPlan:
        """Plan the training, if timed by two steps."""
        options, store, parts = self.options, self.source, self.parts
        seconds = options.steps * training.seconds_a_step() if timed else float("nan")
        config = training.config(options.steps)
        looks = -(-options.steps // options.snapshot_every) if options.keep_snapshots else 0
        size = training.parameters * _BYTES
        return GeneratorPlan(
            parts.counts,
            options.steps,
            seconds,
            (*training.notes, *_notes_on_parts(store, parts, options)),
            _cost(store, parts, options, training, looks, self.folder / CLASSIFIERS),
            config.conditioned_on,
            dict(zip(config.classes, config.class_counts, strict=True)),
            training.parameters,
            options.steps * options.images_a_step / len(parts.rows["training"]),
            {GENERATOR: size, CHECKPOINT: _STATE * size, "snapshots": looks * size},
        )

    def _with(self, conditions: Conditions | None) -> GeneratorTraining:
        """Build the training with these conditions."""
        rows, options = self.parts.rows, self.options.generator
        InitialWeights.of(options).refuse_known(self.source, {"test": rows["test"]})
        how = {"validation": rows["validation"], "conditions": conditions, "progress": self.progress}
        return build_training(self.source, rows["training"], options, **how)


def _notes_on_parts(store: ImageStore, parts: Division, options: TrainGeneratorOptions) -> tuple[str, ...]:
    """Note limits of the images and of the held-out parts."""
    held_out = {name: parts.rows[name] for name in ("validation", "test")}
    return (*notes_on_inputs(store, parts, options), *notes_on_latents(options.generator, store, held_out))


def _conditions(
    store: ImageStore, parts: Division, options: TrainGeneratorOptions, run: RunFolder, progress: Progress
) -> Conditions:
    """Build the conditions of the training images: the first process trains the classifiers, the others read."""
    from memorisk.training.generators.pseudo_conditions import pseudo_conditions

    assert options.conditioning is not None
    rows = parts.rows["training"]
    if not is_main():
        wait_for_all()
    folder = run.subfolder(CLASSIFIERS)
    conditions = pseudo_conditions(store, rows, options, which=options.conditioning, folder=folder, progress=progress)
    if is_main():
        wait_for_all()
    return conditions


def _blank_conditions(store: ImageStore, parts: Division, options: TrainGeneratorOptions) -> Conditions | None:
    """Build blank conditions of the final length, before any classifier is trained; None without a conditioning."""
    if options.conditioning is None:
        return None
    from memorisk.training.generators.fold_classifiers import fold_data

    which, data = str(options.conditioning), fold_data(store, parts.rows["training"], options.seed)
    length = data.onehot.shape[1] * (2 if which.endswith("-label") else 1)
    values = np.zeros((len(data.rows), length), dtype=np.float32)
    return Conditions(values, store.manifest.images[data.rows], data.labels, which)


def _cost(
    store: ImageStore,
    parts: Division,
    options: TrainGeneratorOptions,
    training: GeneratorTraining,
    n_snapshots: int,
    folder: Path,
) -> Cost:
    """Count the cost of a whole run that keeps so many snapshots."""
    from memorisk.training.generators.fold_classifiers import fold_data

    rows, validation, which = parts.rows["training"], parts.rows["validation"], options.conditioning
    cost, conditions = Cost(bytes_images=store.images.nbytes), _blank_conditions(store, parts, options)
    if which is not None:
        data = fold_data(store, rows, None if which == "label-noise" else options.seed)
        cost += total(list(classifiers_cost(data, PseudoOptions.of(options), which, folder).values()))
    cost += steps_cost(store, rows, options.generator, validation, conditions)
    return cost + latents_cost(store, options.generator) + weights_cost(training, n_snapshots)


def _summary(
    store: ImageStore,
    parts: Division,
    options: TrainGeneratorOptions,
    training: GeneratorTraining,
    fitted: FittedGenerator,
) -> dict[str, Any]:
    """Make the contents of ``training.json``."""
    config = training.config(fitted.steps)
    return {
        "images": {"stored": store.images.shape[1:], "depth": store.images.dtype.itemsize * 8},
        "kind": config.kind,
        "name": config.name,
        "conditioned_on": config.conditioned_on,
        "conditioning": config.conditioning,
        "classes": dict(zip(config.classes, config.class_counts, strict=True)),
        "latent": config.latent,
        "n_training": config.n_training,
        "parameters": training.parameters,
        "recipe": options.generator.recipe(),
        "parts": parts.counts,
        "groups_given": store.manifest.groups_given,
        "steps": fitted.steps,
        "passes": fitted.steps * options.images_a_step / len(parts.rows["training"]),
        "stopped": fitted.stopped,
        "history": fitted.history,
        "notes": (*fitted.notes, *_notes_on_parts(store, parts, options)),
        "data_hash": store.data_hash,
        "versions": versions(),
    }


_FLOAT32 = 4


def steps_cost(
    store: ImageStore,
    rows: np.ndarray,
    options: GeneratorOptions,
    validation: np.ndarray,
    conditions: Conditions | None = None,
) -> Cost:
    """Count the cost of a training to its last step, with its looks at held-out images, without files on the disk.

    Args:
        store: The images with their manifest.
        rows: Rows to train on; may repeat.
        options: Settings of the training.
        validation: Rows that measure.
        conditions: Conditions of the training images, or blank ones in their place.
    """
    b, steps = options.images_a_step, options.steps
    if options.kind == "gan":
        size = store.shape[0]
        paths = -(-steps // PATH_EVERY) if options.gan_path else 0
        penalties = -(-steps // R1_EVERY) if options.r1_gamma(size**2, b) else 0
        return Cost(
            trainings=1,
            steps=2 * steps + paths + penalties,
            images_trained=3 * steps * b + paths * path_images(b) + penalties * b,
            images_passed=2 * steps * b,
        )
    looks = -(-steps // options.snapshot_every)
    measured = _measured(store, rows, options, validation, conditions)
    return Cost(trainings=1, steps=steps, images_trained=steps * b, images_passed=looks * measured)


def latents_cost(store: ImageStore, options: GeneratorOptions) -> Cost:
    """Count the cost of the latents that a diffusion model learns: each image, and mirrored, through the encoder once.

    Args:
        store: The images with their manifest.
        options: Settings of the training.
    """
    if options.kind == "gan" or options.latent == "pixels":
        return Cost()
    encoder = open_latents(options.latent, store.shape, size=store.shape[0], books=store.folder.parent.parent)
    times, numbers = 2 if options.flip else 1, int(np.prod(encoder.latent_shape))
    return Cost(
        images_passed=times * len(set(store.pixel_hashes.tolist())),
        bytes_features=times * len(store.images) * numbers * _FLOAT32,
    )


def classifiers_cost(data: FoldData, options: PseudoOptions, which: str, folder: Path) -> dict[str, Cost]:
    """Count the cost of each classifier that makes pseudo-conditions and is not done, by the file of its outputs.

    Args:
        data: Images of the classifiers, with their folds.
        options: Settings of their training.
        which: Kind of the conditions; label-noise needs no classifier.
        folder: Folder of their outputs.
    """
    if which == "label-noise":
        return {}
    recipe, costs = fold_recipe(data, options), {}
    for number in range(FOLDS):
        file = fold_file(number, data, recipe, options, folder)
        if file.is_file():
            continue
        fitted = fit_cost(int((data.fold != number).sum()), recipe.train)
        outputs = len(data.rows) * data.targets.n_outputs * _FLOAT32
        costs[str(file)] = fitted + Cost(images_passed=len(data.rows), bytes_outputs=outputs)
    return costs


def weights_cost(training: GeneratorTraining, kept: int = 0) -> Cost:
    """Count the bytes of the saved generators: the last one and the snapshots, each with its autoencoder.

    Args:
        training: Training that was checked.
        kept: Number of snapshots.
    """
    return Cost(bytes_weights=(1 + kept) * sum(map(tensor_bytes, training.saved_networks)))


def _measured(
    store: ImageStore,
    rows: np.ndarray,
    options: GeneratorOptions,
    validation: np.ndarray,
    conditions: Conditions | None,
) -> int:
    """Count the held-out images that a look of a diffusion model passes."""
    chosen, _ = limit_held_out(np.asarray(validation, dtype=np.int64), options.seed)
    conditioning = build_conditioning(store, rows, chosen, options, conditions)
    return len(conditioned_held_out(conditioning, options.drop_condition))
