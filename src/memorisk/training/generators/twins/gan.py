"""Twins of a GAN, and the losses of an image under one: that of its critic, and the distance to its nearest draw.

METHODS section 7, "Score". The critic is not released, but the generator learned from it alone; the nearest draw is
what the released part shows.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import log

import numpy as np
import torch
from torch import nn
from torch.nn.functional import softplus

from memorisk.models.copy_detectors import load_detector
from memorisk.models.settings import DEFAULT_DETECTOR
from memorisk.training.generators.batches import ImageView, RowImages
from memorisk.training.generators.draws import draw, plan_draws
from memorisk.training.generators.kinds.gan_training import GanLoop, GanTraining
from memorisk.training.generators.twins.networks import training_options
from memorisk.training.generators.twins.recipes import TwinJob, TwinRecipe, built_in

BESIDE = 3
"""Number of images with which each image enters the critic, which sees groups of four in its training."""
_DRAWS_SEED = 0
_AT_ONCE = 256


@dataclass(frozen=True)
class GanTwin:
    """GAN of the StyleGAN2 kind, before or after its built-in training.

    Attributes:
        training: Its training, with both networks.
        images: All images of the store, as the critic sees them.
    """

    training: GanTraining
    images: RowImages

    @classmethod
    def of(cls, job: TwinJob) -> "GanTwin":
        """Build both networks of a job.

        Args:
            job: The job.

        Raises:
            InputError: The images do not fit a GAN.
        """
        recipe = built_in(job)
        assert recipe.gan is not None
        options = training_options(job, kind="gan", **asdict(recipe.gan))
        training = GanTraining(job.store, job.rows, options, slots=job.slots)
        every = np.arange(len(job.store.images))
        return cls(training, ImageView(job.store, None, None).shown(every, training.device))

    @property
    def loop(self) -> GanLoop:
        """Return the loop of its training."""
        return self.training.loop

    @property
    def network(self) -> nn.Module:
        """Return the network that draws, with its averaged weights, and the critic."""
        return nn.ModuleDict({"generator": self.loop.averaged, "critic": self.loop.discriminator})

    @property
    def parameters(self) -> int:
        """Count the weights of both networks."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def passes(self, recipe: TwinRecipe, n: int) -> int:
        """Count the passes of an image that the losses of so many images take.

        The critic sees each image in a group, the detector sees it alone; a draw passes generator and detector.

        Args:
            recipe: Settings of the scores.
            n: Number of images.
        """
        return n * (1 + BESIDE + 1) + 2 * recipe.draws

    def losses(self, job: TwinJob, rows: np.ndarray) -> np.ndarray:
        """Compute the `GAN_LOSSES` of some images, [2, n] float64.

        Args:
            job: The job.
            rows: Rows of the images, [n].
        """
        generator, device = self.training.generator(), job.device
        drawn = draw(generator, plan_draws(generator, built_in(job).draws, seed=_DRAWS_SEED), None, device)
        beside = next(self.images.batches([torch.tensor(job.beside)]))
        critic = critic_losses(self.loop.discriminator, self.images, rows, beside)
        return np.stack([critic, _distances(job, rows, drawn)])

    def trivial_losses(self, job: TwinJob, rows: np.ndarray) -> np.ndarray:
        """Compute the losses of a critic that tells nothing and of the mean training image as the only draw, [2, n].

        Args:
            job: A job of the audit, whose training rows count.
            rows: Rows whose losses are computed, [n].
        """
        images = job.store.images
        mean = np.mean([images[row].astype(np.float64) for row in np.unique(job.rows)], axis=0)
        mean_image = np.rint(mean)[None].astype(images.dtype)
        return np.stack([np.full(len(rows), log(2)), _distances(job, rows, mean_image)])


@torch.inference_mode()
def critic_losses(
    critic: Callable[[torch.Tensor], torch.Tensor], images: RowImages, rows: np.ndarray, beside: torch.Tensor
) -> np.ndarray:
    """Compute the loss of each image under a critic, log(1 + exp(-D(x))) with its logit D, [n] float64.

    The logit depends on how much the images of a group differ, so that each image is in a group with the same others.

    Args:
        critic: Function that gives the logits of images [b, c, h, w], in groups as `append_deviation` forms them.
        images: All images.
        rows: Rows whose losses are computed, [n].
        beside: Other images of each group, [3, c, h, w].
    """
    losses = []
    for x in images.batches(torch.from_numpy(np.asarray(rows)).split(_AT_ONCE)):
        groups = torch.cat([x, beside.repeat_interleave(len(x), dim=0)])  # image i is with i + b, i + 2 b, i + 3 b
        losses.append(softplus(-critic(groups)[: len(x)]).cpu().double().numpy())
    return np.concatenate(losses)


def _distances(job: TwinJob, rows: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Compute the cosine distance of each image to the nearest of some others by the copy detector, [n] float64."""
    detector = load_detector(DEFAULT_DETECTOR)
    own, others = (
        _unit(detector.embed(images, device=job.device)) for images in (job.store.images[np.asarray(rows)], drawn)
    )
    return np.clip(1 - (own @ others.T).max(axis=1), 0, None)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to length 1; a zero vector keeps its length."""
    vectors = vectors.astype(np.float64)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
