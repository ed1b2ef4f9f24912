"""The adaptive probability: which way it goes, how fast, and where it ends; what is drawn in a step."""

import math

import pytest
import torch

from memorisk.models.settings import GanSpec
from memorisk.training.generators.kinds.gan_augmentation import (
    ADJUSTMENT_STEPS,
    DISCRIMINATOR,
    GENERATOR,
    AdaptiveProbability,
    PhaseDraws,
)
from memorisk.training.generators.options import GanSettings

CPU = torch.device("cpu")
SPEC = GanSpec(size=16, channels=1, style=4, mapping_layers=1, features=32, features_max=4)


def fed(settings: GanSettings, logits: torch.Tensor, steps: int) -> AdaptiveProbability:
    adaptive = AdaptiveProbability(settings, CPU)
    for step in range(steps):
        adaptive.note(logits)
        adaptive.adapt(step)
    return adaptive


def test_r_t_is_the_mean_sign_over_four_steps() -> None:
    adaptive = AdaptiveProbability(GanSettings(), CPU)
    assert math.isnan(adaptive.r_t)
    for step, logits in enumerate([[1.0, 2.0], [-1.0, 5.0], [3.0, 0.0], [1.0, -4.0]]):
        adaptive.note(torch.tensor(logits))
        adaptive.adapt(step)
    assert adaptive.r_t == (2 + 0 + 1 + 0) / 8
    assert adaptive.p == 0


def test_the_probability_rises_at_its_pace_and_ends_below_leaking() -> None:
    settings = GanSettings(gan_augment_images=1000)
    assert fed(settings, torch.ones(8), ADJUSTMENT_STEPS).p == pytest.approx(32 / 1000)
    assert fed(settings, torch.ones(8), ADJUSTMENT_STEPS - 1).p == 0
    assert fed(settings, torch.ones(8), 80).p == pytest.approx(0.64)
    assert fed(settings, torch.ones(8), 200).p == 0.8


def test_it_falls_where_the_discriminator_does_not_know_its_images() -> None:
    settings = GanSettings(gan_augment_images=1000, gan_augment_p=0.5)
    assert fed(settings, torch.tensor([1.0, -1.0]), ADJUSTMENT_STEPS).p == pytest.approx(0.5 - 8 / 1000)
    assert fed(settings, torch.tensor([1.0, -1.0]), 400).p == 0
    at_target = torch.tensor([1.0] * 4 + [-1.0])
    assert fed(settings, at_target, ADJUSTMENT_STEPS).p == 0.5  # r_t = 0.6


def test_a_fixed_probability_stays_and_none_is_zero() -> None:
    assert fed(GanSettings(gan_augment="fixed", gan_augment_p=0.3), torch.ones(8), 40).p == 0.3
    assert fed(GanSettings(gan_augment="none", gan_augment_p=0.3), torch.ones(8), 40).p == 0


def test_draws_are_of_seed_step_and_phase() -> None:
    def z(seed: int, step: int, phase: int) -> torch.Tensor:
        return PhaseDraws(seed, step, phase, CPU).latents(SPEC, 3, 0.9).z

    assert torch.equal(z(1, 2, GENERATOR), z(1, 2, GENERATOR))
    others = (z(2, 2, GENERATOR), z(1, 3, GENERATOR), z(1, 2, DISCRIMINATOR))
    assert not any(torch.equal(z(1, 2, GENERATOR), other) for other in others)


def test_styles_are_mixed_from_a_layer_on() -> None:
    latents = PhaseDraws(0, 0, GENERATOR, CPU).latents(SPEC, 2000, 0.9)
    second = latents.second[..., 0].int()
    assert not second[:, 0].any()
    assert bool((second.diff(dim=1) >= 0).all())
    mixed = second.any(dim=1).float().mean()
    assert abs(float(mixed) - 0.9) < 4 * math.sqrt(0.09 / 2000)
    begins = (SPEC.styles - second.sum(dim=1))[second.any(dim=1)]
    assert set(begins.tolist()) == set(range(1, SPEC.styles))
    assert [tuple(n.shape) for n in latents.noises] == [(2000, 1, s, s) for s in (4, 8, 8, 16, 16)]
    assert not PhaseDraws(0, 0, GENERATOR, CPU).latents(SPEC, 50, 0.0).second.any()
