"""Losses of the network itself: does it denoise training images better than held-out ones?

The score is that of `memorisk audit generator` (METHODS section 7) for one network: the loss of each image by noise
level. All images have the same noise, at every look, so that they differ by themselves alone: twins compare an image
with itself, and noise of its own would cancel there, but not here. With losses l_k(x) at levels k,

    s(x) = - mean over k of log l_k(x),    AUC = P(s of a training patient > s of a held-out one),

one image per patient. The logarithm gives levels with large and with small losses the same weight. Of a random split by
patient and a network that remembers neither part the AUC is 0.5 on average; its interval deletes one patient at a time
(`statistics.roc.auc_jackknife`). A network can remember patients that the images of a look do not show.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.real_images import RealImages
from memorisk.images.store import ImageStore
from memorisk.models.autoencoder import PosteriorMean
from memorisk.models.generators.denoiser import Denoiser, levels, usable_times
from memorisk.models.generators.denoiser_sampling import DenoiserGenerator
from memorisk.models.generators.dit.folder import DiTGenerator
from memorisk.models.generators.generators import Generator
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.models.generators.released import transformer_denoiser
from memorisk.runs.environment import check_device
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.roc import auc_jackknife
from memorisk.training.generators.batches import ImageView
from memorisk.training.generators.kinds.user_training import open_own

LEVELS, PAIRS = 10, 1
"""Largest number of noise levels, and number of antithetic pairs of noise: half as many passes of the network as 40
sampling steps of as many images."""
_BATCH = 64
NOISE = "noise of a look"
"""Id of the noise that all images have."""


@dataclass(frozen=True, eq=False)
class NoisePredictor:
    """Network of a look as a predictor of noise."""

    denoiser: Denoiser
    encoder: PosteriorMean | None = None
    """Encoder of its latents, from [b, C, H, W] in [0, 1]; None for a network of pixels in [-1, 1]."""


def predictor_of(generator: Generator, real: RealImages, device: str) -> NoisePredictor | None:
    """Return a generator of memorisk as a predictor of noise.

    Args:
        generator: Generator that draws.
        real: Real images.
        device: cpu, cuda, or auto.

    Returns:
        The predictor; None for a GAN, for images of another shape than the real ones are stored in, and for a network
        that predicts nothing without a condition: of vectors, or of classes with ``drop_condition 0``.
    """
    where, config = check_device(device), generator.config
    if (*config.size, config.channels) != real.train.shape:
        return None
    if isinstance(generator, DenoiserGenerator):
        generator.network.to(where)
        return NoisePredictor(generator.denoiser)
    if not isinstance(generator, DiTGenerator) or config.conditioned_on not in ("none", "class"):
        return None
    recipe = config.details.get("recipe", {})
    if config.conditioned_on == "class" and recipe.get("drop_condition", None) == 0:
        return None
    generator.network.to(where)
    encoder = None if generator.vae is None else PosteriorMean(generator.vae).to(where)
    return NoisePredictor(transformer_denoiser(generator), encoder)


def own_predictor(network: Any, device: str) -> NoisePredictor:
    """Return the user's own network of pixels as a predictor of noise.

    Args:
        network: ``(network, scheduler)``, or an object with ``loss(images, noise, level)``, as in `audit generator`.
        device: cpu, cuda, or auto.

    Raises:
        UserCodeError: It is neither.
        InputError: The scheduler has no noise levels.
    """
    return NoisePredictor(open_own(network, check_device(device), "network"))


_NO_LOSSES = {"loss_auc": math.nan, "loss_auc_low": 0.0, "loss_auc_high": 1.0, "loss_p_value": 1.0}


def loss_fields(predictor: NoisePredictor | None, real: RealImages, options: WatchOptions) -> dict[str, float]:
    """Return the fields of a look that losses give; NaN where no loss is known.

    Args:
        predictor: Network of the look; None without one.
        real: Real images.
        options: Settings: as many patients of each part as images are drawn, at most, and the seed of their choice.
    """
    if predictor is None:
        return dict(_NO_LOSSES)
    scores = [_scores(predictor, store, rows) for store, rows in compared_rows(real, options)]
    if not all(np.isfinite(of_part).all() for of_part in scores):  # a training that diverged continues all the same
        return dict(_NO_LOSSES)
    patients = np.arange(sum(map(len, scores)))
    interval = auc_jackknife(scores[0], patients[: len(scores[0])], scores[1], patients[len(scores[0]) :])
    return {
        "loss_auc": interval.estimate,
        "loss_auc_low": interval.low,
        "loss_auc_high": interval.high,
        "loss_p_value": interval.p_at_most(0.5),
    }


def compared_rows(real: RealImages, options: WatchOptions) -> list[tuple[ImageStore, np.ndarray]]:
    """Choose one image of each patient, and as many patients of each part as images are drawn, at most.

    Args:
        real: Real images.
        options: Settings with the number of images and the seed.

    Returns:
        Store and sorted rows of the training images, and of the held-out ones.
    """
    parts = []
    for store in (real.train, real.held):
        rows = one_per_group(store.manifest.groups.astype(str), seed=options.seed)
        rows = np.random.default_rng(options.seed).permutation(rows)[: options.images]
        parts.append((store, np.sort(rows)))
    return parts


def n_passes(real: RealImages, options: WatchOptions) -> int:
    """Count the passes of the network for the losses of a look.

    Args:
        real: Real images.
        options: Settings with the number of images.
    """
    return sum(min(options.images, n) for n in (real.n_train, real.n_held)) * LEVELS * 2 * PAIRS


def _scores(predictor: NoisePredictor, store: ImageStore, rows: np.ndarray) -> np.ndarray:
    """Compute the scores of some images, [n]."""
    denoiser = predictor.denoiser
    times = levels(denoiser, min(LEVELS, len(usable_times(denoiser))))
    images = ImageView(store, None, None).shown(rows, denoiser.device)
    losses = []
    for x in images.batches(torch.arange(len(rows)).split(_BATCH)):
        losses.append(noise_losses(denoiser, _encoded(predictor, x), [NOISE] * len(x), times, PAIRS))
    smallest = np.finfo(np.float64).tiny  # a network that holds an image to the last bit has the loss 0
    return -np.log(np.maximum(np.concatenate(losses, axis=1), smallest)).mean(axis=0)


def _encoded(predictor: NoisePredictor, x: torch.Tensor) -> torch.Tensor:
    """Return images in [-1, 1] as the network sees them."""
    if predictor.encoder is None:
        return x
    channels = int(predictor.encoder.config["in_channels"])
    with torch.inference_mode():
        return predictor.encoder((x.expand(-1, channels, -1, -1) + 1) / 2)
