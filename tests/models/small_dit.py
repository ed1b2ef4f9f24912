"""Miniature diffusion transformers with weights that do something; need diffusers."""

from typing import Any

import pytest
import torch

from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.dit.folder import DiTGenerator
from memorisk.models.generators.dit.network import DiTSpec, new_dit
from memorisk.models.settings import GeneratorConfig
from tests.models.small_autoencoder import autoencoder

K = 3
"""Numbers of a condition, and classes."""


def small_spec(conditioned_on: str = "class", **more: Any) -> DiTSpec:
    """Two blocks, 25 tokens of 10 pixels a side: no power of two."""
    sizes = {"hidden": 32, "depth": 2, "heads": 2, "patch": 2, "side": 10, "channels": 3}
    told = {"class": {"classes": K}, "vector": {"condition_dim": K}, "none": {}}[conditioned_on]
    return DiTSpec(**(sizes | {"conditioned_on": conditioned_on} | told | more))


def small_dit(spec: DiTSpec, seed: int = 0, std: float = 0.08) -> Any:
    """Random weights in every tensor, so that blocks and output are not those of a beginning."""
    pytest.importorskip("diffusers")
    network = new_dit(spec, seed)
    with seeded(seed), torch.no_grad():
        for value in network.parameters():
            value.normal_(std=std)
    return network.eval().requires_grad_(False)


def noise_of_training(**settings: Any) -> Any:
    """A scheduler of 1,000 times."""
    return pytest.importorskip("diffusers").DDPMScheduler(beta_start=1e-4, beta_end=0.02, **settings)


def small_generator(conditioned_on: str = "class", *, latent: bool = False, **more: Any) -> DiTGenerator:
    """Of pixels, or of the latents (4 x 5 x 5) of an autoencoder that makes images of 20 pixels a side."""
    vae = autoencoder(3, sample_size=20, scaling_factor=0.5) if latent else None
    more = ({"channels": 4, "side": 5, "patch": 1} if latent else {}) | more
    spec = small_spec(conditioned_on, **more)
    side = spec.side * (4 if latent else 1)
    classes = tuple(f"c{k}" for k in range(spec.classes))
    config = GeneratorConfig(
        kind="dit",
        name="small",
        size=(side, side),
        channels=3,
        conditioned_on=conditioned_on,
        classes=classes,
        condition_dim=spec.condition_dim,
        latent="autoencoder small" if latent else "pixels",
    )
    variance = "learned_range" if spec.learn_sigma else "fixed_large"
    scheduler = noise_of_training(variance_type=variance, clip_sample=False)
    return DiTGenerator(small_dit(spec), config, scheduler, vae)
