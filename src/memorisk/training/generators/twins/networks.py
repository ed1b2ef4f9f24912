"""Networks of twins: a generator of each kind with the loop of its training, and the losses of images under it.

The losses of a network that predicts noise are mean squared errors at several levels, on noise that is a function of
image and draw alone (`models.generators.noise_losses`); those of a GAN are in `training.generators.twins.gan`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.denoiser import Denoiser, levels
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.models.generators.perceptron import new_perceptron, perceptron_denoiser
from memorisk.models.generators.text_to_image.lora import AdaptedBase, add_adapters
from memorisk.models.generators.unet import build_unet, inner_unet, load_unet, size_config, trained_part
from memorisk.models.weight_files import load_weights
from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import read_array, write_array
from memorisk.training.engine.devices import choose_precision, open_accelerator, place
from memorisk.training.engine.step_loop import StepLoop
from memorisk.training.generators.batches import ImageView, RowImages, StepPlan, view_images
from memorisk.training.generators.kinds.perceptron_training import PerceptronLoop, perceptron_plan
from memorisk.training.generators.kinds.unet_training import captions_of, class_numbers, refuse_untrainable
from memorisk.training.generators.kinds.user_training import OwnRecipe
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.twins.recipes import TwinJob, TwinRecipe, built_in, damaged

_AT_ONCE = 512  # images of which losses are computed together


class BuiltTwin(Protocol):
    """Generator before or after its built-in training."""

    @property
    def network(self) -> nn.Module:
        """Return the network whose weights are kept."""
        ...

    @property
    def loop(self) -> StepLoop:
        """Return the loop of its training."""
        ...

    @property
    def parameters(self) -> int:
        """Count the trained weights."""
        ...

    def passes(self, recipe: TwinRecipe, n: int) -> int:
        """Count the passes of an image that the losses of so many images take."""
        ...

    def losses(self, job: TwinJob, rows: np.ndarray) -> np.ndarray:
        """Compute the loss of some images at each level, [L, n] float64."""
        ...

    def trivial_losses(self, job: TwinJob, rows: np.ndarray) -> np.ndarray:
        """Compute the losses of a prediction that knows the mean of the training images, [L, n]."""
        ...


@dataclass(frozen=True)
class ScoredNetwork:
    """Generator that predicts noise, and scores images.

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

    def losses(self, job: TwinJob, rows: np.ndarray) -> np.ndarray:
        """Compute the mean squared error of the predicted noise, [L, n] float64.

        Args:
            job: The job.
            rows: Rows of the images, [n].
        """
        names, times, parts = job.store.manifest.images, twin_times(job, self), []
        places = torch.from_numpy(np.asarray(rows)).split(_AT_ONCE)
        for where, x in zip(places, self.images.batches(places), strict=True):
            ids = names[where.numpy()].tolist()
            conditions = None if self.conditions is None else self.conditions[where]
            parts.append(noise_losses(self.denoiser, x.cpu(), ids, times, job.recipe.draws, None, conditions))
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Twin(ScoredNetwork):
    """Generator that predicts noise, before or after its built-in training.

    Attributes:
        loop: Loop of its training.
    """

    network: nn.Module
    loop: StepLoop

    @property
    def parameters(self) -> int:
        """Count the weights of the network; of a LoRA those of its adapters."""
        return sum(parameter.numel() for parameter in trained_part(self.network).parameters())

    def passes(self, recipe: TwinRecipe, n: int) -> int:
        """Count the passes of an image that the losses of so many images take.

        Args:
            recipe: Settings of the scores.
            n: Number of images.
        """
        return n * recipe.levels * 2 * recipe.draws

    def trivial_losses(self, job: TwinJob, rows: np.ndarray) -> np.ndarray:
        """Compute the losses of the best linear prediction of the noise, [L, n].

        Args:
            job: A job of the audit; mean and variance are those of its training rows.
            rows: Rows whose losses are computed, [n].
        """
        return _linear_losses(job, self.images, _shares(job, self.denoiser), rows)


def build_twin(job: TwinJob) -> BuiltTwin:
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
        The twin; None where its weights were not kept, the user's function trained it, or it predicts no noise.

    Raises:
        InputError: The file of the weights is damaged.
    """
    if isinstance(job.recipe, OwnRecipe) or not job.weights_file.is_file():
        return None
    twin = build_twin(job)
    if not isinstance(twin, Twin):
        return None
    load_weights(trained_part(twin.network), job.weights_file, trained=True)
    return twin


def twin_times(job: TwinJob, twin: ScoredNetwork) -> np.ndarray:
    """Choose the times at which images are scored, [L] int64 (`denoiser.levels`)."""
    return levels(twin.denoiser, job.recipe.levels)


def twin_shares(job: TwinJob) -> np.ndarray:
    """Return the share of the image in the variance at each level of the scores, [L] float64.

    Args:
        job: A job of the audit whose twins predict noise; where the user's function trains, one that is done.

    Raises:
        MemoriskError: The file of the levels is damaged.
    """
    if isinstance(job.recipe, TwinRecipe):
        twin = build_twin(job)
        assert isinstance(twin, Twin)
        return _shares(job, twin.denoiser)
    try:
        return read_array(job.levels_file)
    except (OSError, ValueError, EOFError):
        raise damaged(job.levels_file) from None


def write_shares(job: TwinJob, denoiser: Denoiser) -> None:
    """Write the share of the image in the variance at each level, which only the user's training knows."""
    write_array(job.levels_file, _shares(job, denoiser), recorded=True)


def _shares(job: TwinJob, denoiser: Denoiser) -> np.ndarray:
    """Return the share of the image in the variance at each level of the scores, [L]."""
    return denoiser.alpha_bar.numpy()[levels(denoiser, job.recipe.levels)]


def score_rows(job: TwinJob, twin: BuiltTwin | ScoredNetwork, rows: np.ndarray) -> np.ndarray:
    """Compute the loss of some images at each level, [L, n] float64.

    Args:
        job: The job.
        twin: Its generator.
        rows: Rows of the images, [n].

    Raises:
        MemoriskError: A loss is not finite.
    """
    losses = twin.losses(job, rows)
    if not np.isfinite(losses).all():
        remedy = ": lower lr" if isinstance(job.recipe, TwinRecipe) else ""
        raise MemoriskError(f"the trained generator of seed {job.seed} has losses that are not finite{remedy}")
    return losses


def guessed_losses(job: TwinJob, rows: np.ndarray) -> np.ndarray:
    """Compute the losses of a trivial prediction, which knows the mean of the training images, [L, n].

    Args:
        job: A job of the audit, whose training rows count.
        rows: Rows whose losses are computed, [n].
    """
    if isinstance(job.recipe, TwinRecipe):
        return build_twin(job).trivial_losses(job, rows)
    return _linear_losses(job, pixels_of(job, np.arange(len(job.store.images))), twin_shares(job), rows)


def _linear_losses(job: TwinJob, images: RowImages, shares: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute the losses of the best linear prediction of the noise by mean image m and one variance v, [L, n].

    v is the mean over pixels of the variance of the training images about m. The best linear prediction of the noise of
    x_t is sqrt(1 - a)(x_t - sqrt(a) m) / d with d = a v + 1 - a; its mean squared error over the noise is the mean over
    pixels of ((1 - a) a (x - m)^2 + (a v)^2) / d^2.

    Args:
        job: The job, whose training rows give mean and variance.
        images: All images, as the network sees them.
        shares: Share of the image in the variance at each level, a, [L].
        rows: Rows whose losses are computed, [n].
    """
    a = shares[:, None]
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


def pixels_of(job: TwinJob, rows: np.ndarray) -> RowImages:
    """Return some rows of the images as pixels in [-1, 1]."""
    return ImageView(job.store, None, None).shown(rows, torch.device(job.device))


def _perceptron(job: TwinJob) -> Twin:
    """Build the small network over all pixels of an image."""
    recipe, device = built_in(job), torch.device(job.device)
    images, every = pixels_of(job, job.rows), pixels_of(job, np.arange(len(job.store.images)))
    network = new_perceptron(int(np.prod(images.shape)), job.seed).to(device)
    plan = perceptron_plan(job.seed, len(job.rows), recipe.batch_size, job.slots)
    loop = PerceptronLoop(network, images, plan, steps=recipe.steps, lr=recipe.lr, flip=recipe.flip)
    return Twin(network, perceptron_denoiser(network), every, loop)


def training_options(job: TwinJob, **more: Any) -> GeneratorOptions:
    """Return the settings of the training of a job, as `train generator` has them.

    Args:
        job: The job.
        **more: Settings that only its kind has.

    Raises:
        InputError: A value is outside what its field allows.
    """
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
    options = training_options(job, network=recipe.network, latent=recipe.latent)
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
    options, null, captions, adapted = training_options(job), None, None, None
    if job.unet is None:
        title, config = f"U-Net {recipe.network}", size_config(recipe.network, view.shape)
        scheduler, numbers = new_scheduler(learn_sigma=False, schedule=recipe.noise_schedule), None
    else:
        title, config, scheduler = f"U-Net {job.unet.name}", job.unet.config, job.unet.scheduler()
        refuse_untrainable(job.unet, view.shape)
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


def _gan(job: TwinJob) -> BuiltTwin:
    """Build a GAN of the StyleGAN2 kind without conditions."""
    from memorisk.training.generators.twins.gan import GanTwin

    return GanTwin.of(job)


def _adapted_unet(adapted: AdaptedBase) -> Any:
    """Load the base of a LoRA, and add adapters with weights of the start, which alone are trained."""
    network, _ = load_unet(adapted.folder)
    for adapter in add_adapters(inner_unet(network), adapted.sizes).values():
        adapter.begin()
    return network


TWIN_KINDS: Mapping[str, Callable[[TwinJob], BuiltTwin]] = {
    "tiny": _perceptron,
    "dit": _transformer,
    "unet": _unet,
    "gan": _gan,
}
"""Kinds of generators whose twins an audit trains, and what builds each."""
