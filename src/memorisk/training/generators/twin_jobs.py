"""One twin of a generator as a job: train on some rows, keep the weights, leave the losses of every image in a file.

A training is built in (`TWIN_KINDS`), or a function of the user's (`training.generators.kinds.user_training`).
The file of losses, [L, N], is written last and marks the job as done. The losses are mean squared errors of predicted
noise, on noise that is a function of image and draw alone (`models.generators.noise_losses`). A job that was killed
continues from its last checkpoint.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.denoiser import Denoiser, levels
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.models.generators.perceptron import new_perceptron, perceptron_denoiser
from memorisk.models.generators.text_to_image.lora import AdaptedBase, add_adapters
from memorisk.models.generators.unet import UNetFolder, build_unet, inner_unet, load_unet, size_config, trained_part
from memorisk.models.weight_files import load_weights, save_weights
from memorisk.runs.checksums import is_intact, remove_recorded
from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.files import fingerprint, put_in_order, read_array, write_array
from memorisk.runs.steps import open_meter, written_steps
from memorisk.training.engine.devices import (
    choose_precision,
    keep_freed_memory,
    limited_threads,
    open_accelerator,
    place,
)
from memorisk.training.engine.loop import Checkpoint
from memorisk.training.engine.step_loop import StepLoop
from memorisk.training.engine.user_training import count_training, guarded
from memorisk.training.generators.batches import ImageView, RowImages, StepPlan, view_images
from memorisk.training.generators.kinds.perceptron_training import PerceptronLoop, perceptron_plan
from memorisk.training.generators.kinds.unet_training import captions_of, class_numbers, refuse_untrainable
from memorisk.training.generators.kinds.user_training import OwnRecipe, train_own
from memorisk.training.generators.options import GeneratorOptions

LOSSES, WEIGHTS, CHECKPOINTS = "losses", "weights", "checkpoints"
_AT_ONCE = 512  # images of which losses are computed together


@dataclass(frozen=True, kw_only=True)
class TwinRecipe:
    """Settings by which every twin of an audit is trained and scored.

    Attributes:
        kind: Kind of the generator, one of `TWIN_KINDS`.
        network: Size of a diffusion transformer or U-Net; of a folder's U-Net the fingerprint of its configuration.
        latent: Space in which it draws.
        noise_schedule: Noise schedule of a diffusion transformer, or of a U-Net of a named size.
        steps: Number of training steps.
        batch_size: Number of images per step.
        lr: Learning rate.
        ema: Decay of the averaged weights of a diffusion transformer or U-Net.
        flip: Whether half of the images of a step are mirrored.
        levels: Number of noise levels at which an image is scored.
        draws: Number of antithetic pairs of noise at each level.
    """

    kind: str
    network: str
    latent: str
    noise_schedule: str
    steps: int
    batch_size: int
    lr: float
    ema: float
    flip: bool
    levels: int
    draws: int


@dataclass(frozen=True, kw_only=True)
class TwinJob:
    """Settings and data of one training; the process that runs it receives this alone.

    Attributes:
        out: The run folder.
        store: The images with their manifest.
        rows: Rows of the images to train on, in slot order; a row may repeat.
        slots: Number of places in a pass over the images.
        recipe: Settings of training and scores.
        seed: Random seed of initialisation, order, times and noise, the same for both twins of a pair.
        device: Device to train on.
        threads: Number of threads of native code.
        keep_weights: Whether the trained weights are kept in the run folder.
        checkpoint_seconds: Least time between two writes of a training's state.
        encoder: Identity of the autoencoder whose latents are learned, weights included; None for pixels.
        python_path: Folders in which the user's module is searched, after everything installed.
        unet: Configuration of a folder's U-Net; None for one of a named size, and for other kinds.
        caption_column: Column of the captions, for a U-Net that is conditioned on them.
        kept_order: Order in which the losses of images lie in their file, [N]; by default that of the images.
        negatives: Whether the user's function receives the negatives of the images, as a control.
    """

    out: Path
    store: ImageStore
    rows: np.ndarray
    slots: int
    recipe: TwinRecipe | OwnRecipe
    seed: int
    device: str = "cpu"
    threads: int = 1
    keep_weights: bool = True
    checkpoint_seconds: float = 30.0
    encoder: Mapping[str, Any] | None = None
    python_path: tuple[Path, ...] = ()
    unet: UNetFolder | None = None
    caption_column: str | None = None
    kept_order: np.ndarray | None = None
    negatives: bool = False

    @cached_property
    def key(self) -> str:
        """Name of the job's files: the same training has the same name."""
        pixels = self.store.pixel_hashes[self.rows].tolist()
        names = self.store.manifest.images.tolist()  # the noise of an image is that of its id
        content: list[Any] = [asdict(self.recipe), self.seed, self.threads, self.slots]
        content += [] if self.encoder is None else [dict(self.encoder)]
        content += [self.store.manifest.labels.tolist()] if self.unet is not None and self.unet.classes else []
        content += [] if self.caption_column is None else [captions_of(self.store.manifest, self.caption_column)]
        content += ["negatives"] if self.negatives else []
        order = [] if self.kept_order is None else [self.kept_order]
        return f"{self.seed}-{fingerprint(content, self.rows, pixels, names, *order)}"

    @property
    def losses_file(self) -> Path:
        """Return the file of the losses of all images, float64 [L, N], in the order in which they are kept."""
        return self.out / LOSSES / f"{self.key}.npy"

    @property
    def levels_file(self) -> Path:
        """Return the file of the levels of the losses, float64 [L], which the user's training alone leaves."""
        return self.out / LOSSES / f"{self.key}-levels.npy"

    @property
    def weights_file(self) -> Path:
        """Return the file of the trained weights."""
        return self.out / WEIGHTS / f"{self.key}.safetensors"

    @property
    def checkpoint_file(self) -> Path:
        """Return the file of the state from which a killed training continues."""
        return self.out / CHECKPOINTS / f"{self.key}.safetensors"

    @property
    def steps_file(self) -> Path:
        """Return the file in which a job in another process notes its steps."""
        return self.out / CHECKPOINTS / f"{self.key}.steps"

    @property
    def checkpoint_folder(self) -> Path:
        """Return the folder in which the user's function may keep the state of a training."""
        return self.out / CHECKPOINTS / self.key

    @property
    def done(self) -> bool:
        """Return whether the job has run, and its files are as it wrote them."""
        files = [self.losses_file, *([self.levels_file] if isinstance(self.recipe, OwnRecipe) else [])]
        files += [self.weights_file] if self.weights_file.is_file() else []
        return all(is_intact(file) for file in files)


@dataclass(frozen=True)
class TwinLog:
    """Log of a job.

    Attributes:
        key: Name of the job's files.
        loss: Mean training loss of the last hundred steps; None when it was done before, or by the user's function.
        seconds: Wall time of training and scoring; 0 when it was done before.
    """

    key: str
    loss: float | None
    seconds: float


@dataclass(frozen=True)
class ScoredNetwork:
    """Generator that scores images.

    Attributes:
        network: Network that draws, whose weights are kept; None where the user's object shows none.
        denoiser: The same network as a predictor of noise.
        images: All images of the store, as the network sees them.
        conditions: Class of each image, [N] int64, or tokens of its caption, [N, T] int64; None for a generator
            without conditions.
    """

    network: nn.Module | None
    denoiser: Denoiser
    images: RowImages
    conditions: torch.Tensor | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Twin(ScoredNetwork):
    """Generator before or after its built-in training.

    Attributes:
        loop: Loop of its training.
    """

    network: nn.Module
    loop: StepLoop

    @property
    def parameters(self) -> int:
        """Count the weights of the network; of a LoRA those of its adapters."""
        return sum(parameter.numel() for parameter in trained_part(self.network).parameters())


def build_twin(job: TwinJob) -> Twin:
    """Build the network of a job and the loop of its built-in training.

    Args:
        job: The job.

    Raises:
        InputError: Images and settings do not fit each other.
        MissingExtraError: A library that the kind needs is not installed.
    """
    return TWIN_KINDS[built_in(job).kind](job)


def open_twin(job: TwinJob) -> Twin | None:
    """Build the twin of a job that is done, with its trained weights.

    Args:
        job: The job.

    Returns:
        The twin; None where its weights were not kept, or the user's function trained it.

    Raises:
        InputError: The file of the weights is damaged.
    """
    if isinstance(job.recipe, OwnRecipe) or not job.weights_file.is_file():
        return None
    twin = build_twin(job)
    load_weights(trained_part(twin.network), job.weights_file, trained=True)
    return twin


def built_in(job: TwinJob) -> TwinRecipe:
    """Return the recipe of a job whose training is built in."""
    assert isinstance(job.recipe, TwinRecipe)
    return job.recipe


def run_twin(job: TwinJob) -> TwinLog:
    """Run one training and leave its losses (and weights) in the run folder.

    Args:
        job: The job.

    Raises:
        InputError: Images and settings do not fit each other, or a checkpoint is of another training.
        UserCodeError: The user's function failed.
        MemoriskError: The loss became NaN, or a score is not finite.
    """
    if job.done:
        return TwinLog(job.key, None, 0.0)
    begun = time.perf_counter()
    if job.device == "cpu":
        keep_freed_memory()
    with limited_threads(job.threads), written_steps(job.steps_file):
        loss = _run_own(job, job.recipe) if isinstance(job.recipe, OwnRecipe) else _run_built_in(job)
    return TwinLog(job.key, loss, time.perf_counter() - begun)


def _run_built_in(job: TwinJob) -> float:
    """Train by the loop of the kind, and return the mean loss of the last steps."""
    twin = build_twin(job)
    _train(job, twin)
    _save(job, twin, score_rows(job, twin, np.arange(len(job.store.images))))
    remove_recorded(job.checkpoint_file)
    return float(twin.loop.losses[-100:].mean())


def _run_own(job: TwinJob, recipe: OwnRecipe) -> None:
    """Train by the user's function."""
    every = _pixels(job, np.arange(len(job.store.images)))
    where = {"device": job.device, "python_path": job.python_path, "checkpoint_folder": job.checkpoint_folder}
    with guarded(recipe.function):
        denoiser = train_own(
            recipe,
            job.store,
            job.rows,
            negatives=job.negatives,
            seed=job.seed,
            tried=_pixels(job, job.rows),
            **where,
        )
        network: Any = denoiser.network
        scored = ScoredNetwork(network if isinstance(network, nn.Module) else None, denoiser, every)
        losses = score_rows(job, scored, np.arange(len(job.store.images)))
    write_array(job.levels_file, _shares(job, denoiser), recorded=True)
    _save(job, scored, losses)
    shutil.rmtree(job.checkpoint_folder, ignore_errors=True)
    count_training()


def _save(job: TwinJob, scored: ScoredNetwork, losses: np.ndarray) -> None:
    """Write the weights, then the losses, which mark the job as done."""
    if job.keep_weights and scored.network is not None:
        save_weights(job.weights_file, trained_part(scored.network))
    write_array(job.losses_file, put_in_order(losses, job.kept_order, axis=1), recorded=True)


def twin_times(job: TwinJob, twin: ScoredNetwork) -> np.ndarray:
    """Choose the times at which images are scored, [L] int64 (`denoiser.levels`)."""
    return levels(twin.denoiser, job.recipe.levels)


def twin_shares(job: TwinJob) -> np.ndarray:
    """Return the share of the image in the variance at each level of the scores, [L] float64.

    Args:
        job: A job of the audit; where the user's function trains, one that is done.

    Raises:
        MemoriskError: The file of the levels is damaged.
    """
    if isinstance(job.recipe, TwinRecipe):
        return _shares(job, build_twin(job).denoiser)
    try:
        return read_array(job.levels_file)
    except (OSError, ValueError, EOFError):
        raise damaged(job.levels_file) from None


def damaged(file: Path) -> MemoriskError:
    """Return the error of a file of a training that cannot be read."""
    return MemoriskError(f"{one_line(file)} is damaged: remove it, and the same command trains that twin again")


def _shares(job: TwinJob, denoiser: Denoiser) -> np.ndarray:
    """Return the share of the image in the variance at each level of the scores, [L]."""
    return denoiser.alpha_bar.numpy()[levels(denoiser, job.recipe.levels)]


def score_rows(job: TwinJob, twin: ScoredNetwork, rows: np.ndarray) -> np.ndarray:
    """Compute the loss of some images at each level, [L, n] float64.

    Args:
        job: The job.
        twin: Its generator.
        rows: Rows of the images, [n].

    Raises:
        MemoriskError: A loss is not finite.
    """
    names, times, parts = job.store.manifest.images, twin_times(job, twin), []
    places = torch.from_numpy(np.asarray(rows)).split(_AT_ONCE)
    for where, x in zip(places, twin.images.batches(places), strict=True):
        ids = names[where.numpy()].tolist()
        conditions = None if twin.conditions is None else twin.conditions[where]
        parts.append(noise_losses(twin.denoiser, x.cpu(), ids, times, job.recipe.draws, None, conditions))
    losses = np.concatenate(parts, axis=1)
    if not np.isfinite(losses).all():
        remedy = ": lower lr" if isinstance(job.recipe, TwinRecipe) else ""
        raise MemoriskError(f"the trained generator of seed {job.seed} has losses that are not finite{remedy}")
    return losses


def guessed_losses(job: TwinJob, rows: np.ndarray) -> np.ndarray:
    """Compute the losses of a trivial prediction, which knows the mean image m and one variance v alone, [L, n].

    v is the mean over pixels of the variance of the training images about m. The best linear prediction of the noise of
    x_t is sqrt(1 - a)(x_t - sqrt(a) m) / d with d = a v + 1 - a; its mean squared error over the noise is the mean over
    pixels of ((1 - a) a (x - m)^2 + (a v)^2) / d^2.

    Args:
        job: A job of the audit; mean and variance are those of its training rows.
        rows: Rows whose losses are computed, [n].
    """
    images = (
        build_twin(job).images if isinstance(job.recipe, TwinRecipe) else _pixels(job, np.arange(len(job.store.images)))
    )
    a = twin_shares(job)[:, None]
    n, total, squares = 0, np.float64(0), np.float64(0)
    for x in images.batches(torch.from_numpy(np.unique(job.rows)).split(_AT_ONCE)):
        values = x.double().flatten(1).cpu().numpy()
        n, total, squares = n + len(values), total + values.sum(axis=0), squares + np.square(values).sum(axis=0)
    mean = total / n
    v = float(np.maximum(squares / n - np.square(mean), 0).mean())
    parts = []
    for x in images.batches(torch.from_numpy(np.asarray(rows)).split(_AT_ONCE)):
        about = np.square(x.double().flatten(1).cpu().numpy() - mean).mean(axis=1)  # [b]
        parts.append(((1 - a) * a * about + (a * v) ** 2) / (a * v + 1 - a) ** 2)
    return np.concatenate(parts, axis=1)


def _train(job: TwinJob, twin: Twin) -> None:
    """Train to the last step, from the kept state if there is one, and note the steps with the open meter."""
    meter, loop, recipe = open_meter(), twin.loop, built_in(job)
    steps = recipe.steps
    before = 0
    if meter is not None:
        meter.begin(0, steps)

    def progress(stage: str, done: int, n: int) -> None:
        """Note the steps that were done since the last call."""
        nonlocal before
        if meter is not None:
            meter.step(int(done) - before, (int(done) - before) * recipe.batch_size, _last_loss(loop))
            before = int(done)

    checkpoint = Checkpoint(job.checkpoint_file, job.key, job.checkpoint_seconds)
    loop.run([(0, steps)], checkpoint, lambda begin: True, progress, recipe.batch_size)
    if meter is not None:
        meter.end()


def _last_loss(loop: StepLoop) -> Callable[[], float]:
    """Return what reads the loss of the last step."""
    return lambda: float(loop.losses[max(0, loop.step - 1)].mean())


def _pixels(job: TwinJob, rows: np.ndarray) -> RowImages:
    """Return some rows of the images as pixels in [-1, 1]."""
    return ImageView(job.store, None, None).shown(rows, torch.device(job.device))


def _perceptron(job: TwinJob) -> Twin:
    """Build the small network over all pixels of an image."""
    recipe, device = built_in(job), torch.device(job.device)
    images, every = _pixels(job, job.rows), _pixels(job, np.arange(len(job.store.images)))
    network = new_perceptron(int(np.prod(images.shape)), job.seed).to(device)
    plan = perceptron_plan(job.seed, len(job.rows), recipe.batch_size, job.slots)
    loop = PerceptronLoop(network, images, plan, steps=recipe.steps, lr=recipe.lr, flip=recipe.flip)
    return Twin(network, perceptron_denoiser(network), every, loop)


def _diffusion_options(job: TwinJob, **more: Any) -> GeneratorOptions:
    """Return the settings of the loop that diffusion transformers and U-Nets have."""
    recipe = built_in(job)
    options = GeneratorOptions(
        conditioned_on="none",
        steps=recipe.steps,
        snapshot_every=recipe.steps,
        batch_size=recipe.batch_size,
        lr=recipe.lr,
        ema=recipe.ema,
        flip=recipe.flip,
        seed=job.seed,
        device=job.device,
        threads=job.threads,
        noise_schedule=recipe.noise_schedule,  # pyright: ignore[reportArgumentType] (checked by `validate`)
        **more,
    )
    options.validate()
    return options


def _transformer(job: TwinJob) -> Twin:
    """Build a diffusion transformer without conditions, in pixels or latents."""
    from memorisk.training.generators.kinds.diffusion_training import DiffusionTraining

    recipe = built_in(job)
    options = _diffusion_options(job, network=recipe.network, latent=recipe.latent)
    training = DiffusionTraining(job.store, job.rows, options, slots=job.slots)
    network: Any = training.loop.averaged
    denoiser = Denoiser.from_scheduler(network, training.scheduler, null=torch.zeros(1, dtype=torch.int64))
    view = view_images(job.store, recipe.latent, flip=False, device=training.device)
    every = view.shown(np.arange(len(job.store.images)), training.device)
    return Twin(network, denoiser, every, training.loop)


def _unet(job: TwinJob) -> Twin:
    """Build a U-Net with random weights, by the loop of diffusion transformers.

    One of captions draws latents of its folder's autoencoder, and a share of its images (`drop_condition`) has the
    empty caption in each step, as in its published training.
    """
    from memorisk.training.generators.kinds.diffusion_training import DiffusionLoop
    from memorisk.training.generators.losses import DiffusionLoss, new_scheduler

    recipe, device = built_in(job), torch.device(job.device)
    latent = "pixels" if job.unet is None else job.unet.latent
    view = ImageView(job.store, None, None)
    if latent != "pixels":
        view = view_images(job.store, latent, flip=recipe.flip, device=device)
    images, every = (view.shown(rows, device) for rows in (job.rows, np.arange(len(job.store.images))))
    options, null, captions, adapted = _diffusion_options(job), None, None, None
    if job.unet is None:
        title, config = f"U-Net {recipe.network}", size_config(recipe.network, images.shape)
        scheduler, numbers = new_scheduler(learn_sigma=False, schedule=recipe.noise_schedule), None
    else:
        title, config, scheduler = f"U-Net {job.unet.name}", job.unet.config, job.unet.scheduler()
        refuse_untrainable(job.unet, images.shape)
        captions, numbers = job.unet.captions, class_numbers(job.store, job.unet.classes)
        adapted = job.unet.adapted
    if captions is not None:
        assert job.caption_column is not None
        numbers = captions.tokens(captions_of(job.store.manifest, job.caption_column))
        null = captions.tokens([""])
    with seeded(job.seed):
        network = build_unet(config, title, captions) if adapted is None else _adapted_unet(adapted)
    place(network, device)
    times = int(scheduler.config.num_train_timesteps)
    accelerator = open_accelerator(device, choose_precision(options.precision, device))
    own = None if numbers is None else numbers[torch.tensor(job.rows)].to(device)

    def conditions(slots: torch.Tensor, drop: torch.Tensor) -> torch.Tensor | None:
        """Return the conditions of a batch."""
        if own is None or null is None:
            return None if own is None else own[slots.to(device)]
        return torch.where(drop.to(device)[:, None], null.to(device), own[slots.to(device)])

    share = 0.0 if null is None else options.drop_condition
    loop = DiffusionLoop(
        network,
        accelerator,
        images,
        conditions,
        DiffusionLoss(scheduler, device),
        StepPlan(job.seed, len(job.rows), recipe.batch_size, drop=share, times=times, slots=job.slots),
        slice(None),
        options,
    )
    averaged: Any = loop.averaged
    return Twin(averaged, Denoiser.from_scheduler(averaged, scheduler, null=null), every, loop, conditions=numbers)


def _adapted_unet(adapted: AdaptedBase) -> Any:
    """Load the base of a LoRA, and add adapters with weights of the start, which alone are trained."""
    network, _ = load_unet(adapted.folder)
    for adapter in add_adapters(inner_unet(network), adapted.sizes).values():
        adapter.begin()
    return network


TWIN_KINDS: Mapping[str, Callable[[TwinJob], Twin]] = {"tiny": _perceptron, "dit": _transformer, "unet": _unet}
"""Kinds of generators whose twins an audit trains, and what builds each."""
