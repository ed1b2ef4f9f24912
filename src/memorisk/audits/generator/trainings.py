"""Train the twins of an audit of a generator, one job per model, and read their losses by noise level."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.classifier.reasons import ImagesIgnored
from memorisk.audits.classifier.twins.control_training import ignored_images
from memorisk.audits.classifier.twins.twin_trainings import run_trainings, training_device
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.models.generators.unet import UNetFolder, read_adapted, read_unet
from memorisk.models.latents import open_latents
from memorisk.runs.errors import InputError, MemoriskError, plural
from memorisk.runs.files import put_back, read_array
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import CountProgress
from memorisk.scores.noise_errors import joined_losses
from memorisk.statistics.verdicts.scales import NOISE_ERROR
from memorisk.training.engine.user_training import function_source
from memorisk.training.generators.kinds.unet_training import captions_of
from memorisk.training.generators.kinds.user_training import CALL_FORM, OwnRecipe
from memorisk.training.generators.options import GAN_LOSSES
from memorisk.training.generators.twins.jobs import run_twin
from memorisk.training.generators.twins.networks import twin_shares
from memorisk.training.generators.twins.recipes import CHECKPOINTS, LOSSES, WEIGHTS, TwinJob, TwinRecipe, damaged

TwinJobs = list[tuple[TwinJob, TwinJob]]
"""Jobs of twins A and B, per seed."""


_OWN_LATENTS = "latents of its folder"
Training = OwnRecipe | UNetFolder | None
"""Part of a training that the settings only name: the user's function, or the configuration of a folder."""


def read_training(options: GeneratorAuditOptions, *, dry_run: bool) -> Training:
    """Read the user's training function, or the folder that gives the network, once for all jobs.

    Args:
        options: Settings of the audit.
        dry_run: Read the function's file and run nothing of it.

    Raises:
        InputError: The function does not exist or does not accept the arguments, or the folder cannot be used.
        MissingExtraError: A library that the folder's network needs is not installed.
    """
    if options.train is None:
        if options.unet_folder is None:
            return None
        return (
            read_unet(options.unet_folder) if options.lora is None else read_adapted(options.unet_folder, options.lora)
        )
    name, settings = options.train, options.train_settings or {}
    source = function_source(name, CALL_FORM, settings, options.python_path, dry_run=dry_run)
    return OwnRecipe(
        function=name, settings=dict(settings), file_hash=source, levels=options.levels, draws=options.draws
    )


def has_captions(training: Training) -> bool:
    """Return whether the twins are conditioned on captions."""
    return isinstance(training, UNetFolder) and training.captions is not None


def check_captions(manifest: Manifest, training: Training, options: GeneratorAuditOptions) -> None:
    """Refuse captions that do not fit the network.

    Args:
        manifest: The images.
        training: Function or folder, from `read_training`.
        options: Settings of the audit.

    Raises:
        InputError: A network of captions lacks their column, or another one has a column of captions.
    """
    column, needed = options.caption_column, has_captions(training)
    if column is None and needed:
        raise InputError("the U-Net of this folder is conditioned on captions: name their column by --caption-column")
    if column is not None and not needed:
        raise InputError(
            "caption_column is given, and this U-Net takes no captions: name the folder of a StableDiffusionPipeline, "
            "or leave the column out"
        )
    if column is not None:
        captions_of(manifest, column)


def caption_notes(job: TwinJob) -> list[str]:
    """Return the note that images have no caption; none where each has one, and without captions.

    Args:
        job: A job of the audit.
    """
    if job.caption_column is None:
        return []
    n = captions_of(job.store.manifest, job.caption_column).count("")
    return [f"{plural(n, 'image has', 'images have')} no caption, and the empty one in its place."] if n else []


def twin_recipe(plan: Plan, options: GeneratorAuditOptions, training: Training = None) -> TwinRecipe | OwnRecipe:
    """Resolve every default of training and scores, so that the report can name it.

    Args:
        plan: Parts of the audit.
        options: Settings of the audit.
        training: Function or folder, from `read_training`.
    """
    if isinstance(training, OwnRecipe):
        return training
    n_trained, gan = int((plan.parts.part != "test").sum()), options.gan_settings
    return TwinRecipe(
        kind=options.kind,
        network=options.chosen_network if training is None else f"folder {training.identity}",
        latent=_OWN_LATENTS if training is not None and training.captions is not None else options.latent,
        noise_schedule=options.noise_schedule,
        steps=options.chosen_steps,
        batch_size=options.images_a_step(n_trained),
        lr=options.learning_rate,
        ema=options.ema,
        flip=options.flip,
        levels=options.levels if gan is None else len(GAN_LOSSES),
        draws=options.draws if gan is None else max(1, n_trained // 2),  # as many as a twin has training images
        gan=gan,
    )


def make_jobs(
    out: Path, store: ImageStore, plan: Plan, options: GeneratorAuditOptions, training: Training = None
) -> TwinJobs:
    """Make the two training jobs of each seed.

    Args:
        out: The run folder.
        store: The images.
        plan: Parts and designs.
        options: Settings of the audit.
        training: Function or folder, from `read_training`.
    """
    recipe, device, encoder = twin_recipe(plan, options, training), training_device(options), None
    latent = training.latent if isinstance(training, UNetFolder) else options.latent
    if latent != "pixels":
        books = store.folder.parent.parent
        encoder = open_latents(latent, store.shape, size=store.shape[0], books=books).identity

    order, beside = Pseudonyms.from_options(options).order(store.manifest.images), ()
    if options.gan_settings is not None:
        from memorisk.training.generators.twins.gan import BESIDE

        beside = tuple(np.resize(plan.parts.rows("test"), BESIDE).tolist())

    def job(rows: np.ndarray, seed: int, slots: int | None) -> TwinJob:
        """Make the training job of a twin that sees these rows."""
        return TwinJob(
            out=out,
            store=store,
            rows=rows,
            slots=slots or len(rows),
            recipe=recipe,
            seed=seed,
            device=device,
            threads=options.threads,
            keep_weights=not options.discard_weights,
            checkpoint_seconds=options.checkpoint_seconds,
            encoder=encoder,
            python_path=options.python_path if isinstance(training, OwnRecipe) else (),
            unet=training if isinstance(training, UNetFolder) else None,
            caption_column=options.caption_column if has_captions(training) else None,
            kept_order=order,
            beside=beside,
        )

    return [(job(d.rows_a, d.seed, d.slots), job(d.rows_b, d.seed, d.slots)) for d in plan.designs]


def control_jobs(pairs: TwinJobs) -> list[TwinJob]:
    """Make the job of the control: the first training on negatives; none where the training is built in.

    Args:
        pairs: Trainings of each seed.
    """
    first = pairs[0][0]
    return [replace(first, negatives=True, keep_weights=False)] if isinstance(first.recipe, OwnRecipe) else []


def generator_control(
    jobs: Sequence[TwinJob], losses: tuple[np.ndarray, np.ndarray], weights: np.ndarray, unseen: np.ndarray
) -> list[ImagesIgnored]:
    """Judge the control of a generator by its weighted loss on test images.

    Args:
        jobs: Job of the control, done; empty without one.
        losses: Losses under A and under B, each [S, L, N].
        weights: Weight of each level, [L].
        unseen: Rows of the test images.

    Raises:
        MemoriskError: The file of the control is damaged.
    """
    models = np.stack([joined_losses(loss[:, :, unseen], weights).mean(axis=1) for loss in losses])
    return [
        reason
        for job in jobs
        for reason in ignored_images(
            float(joined_losses(_read(job)[:, unseen], weights).mean()), models, NOISE_ERROR.name
        )
    ]


def train_all(
    run: RunFolder, pairs: Sequence[Sequence[TwinJob]], options: GeneratorAuditOptions, progress: CountProgress
) -> None:
    """Train what is not trained yet: in processes on a CPU, one by one on a GPU, on a cluster on request.

    Args:
        run: Run folder.
        pairs: Trainings of each seed.
        options: Settings of the audit.
        progress: Called with the steps that are done and all steps.

    Raises:
        InputError: Images and settings do not fit each other, or the cluster cannot take the trainings.
        MemoriskError: Some trainings failed; the others are kept.
    """
    for name in (LOSSES, WEIGHTS, CHECKPOINTS):
        run.subfolder(name)
    images = pairs[0][0].store.folder
    run_trainings(run, pairs, run_twin, options, progress, steps=lambda job: job.recipe.steps, images=images)


def read_losses(pairs: Sequence[tuple[TwinJob, TwinJob]]) -> tuple[np.ndarray, np.ndarray]:
    """Read the losses of every twin by level.

    Args:
        pairs: Trainings of each seed, done.

    Returns:
        Losses under A and under B, each [S, L, N].

    Raises:
        MemoriskError: A file is damaged, or the user's function gave the twins different noise schedules.
    """
    if isinstance(pairs[0][0].recipe, OwnRecipe):
        shares = [twin_shares(job) for pair in pairs for job in pair]
        if not all(np.array_equal(share, shares[0]) for share in shares):
            raise MemoriskError(
                "the twins have different noise schedules, so that their losses do not compare: let your training "
                "function choose the schedule independently of the images and of the seed"
            )
    halves = [np.stack([_read(pair[half]) for pair in pairs]) for half in (0, 1)]
    return halves[0], halves[1]


def _read(job: TwinJob) -> np.ndarray:
    """Read the losses that a training left, [L, N]."""
    try:
        losses = read_array(job.losses_file)
        if losses.shape == (job.recipe.levels, len(job.store.images)):
            return put_back(losses, job.kept_order, axis=1)
    except (ValueError, EOFError):
        pass
    raise damaged(job.losses_file)
