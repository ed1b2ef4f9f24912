"""Sampling by a predictor of noise, against predictors whose distribution is known."""

import numpy as np
import pytest
import torch

from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.denoiser_sampling import DenoiserGenerator
from memorisk.models.generators.generators import Draw
from memorisk.models.generators.perceptron import linear_schedule, new_perceptron
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.runs.errors import InputError

ALPHA_BAR = linear_schedule()
STEPS = {"ddim": 50, "ddpm": 250}


def drawing(network, **config) -> DenoiserGenerator:
    """A generator of images of 3 x 2 pixels with this network."""
    described = GeneratorConfig(kind="denoiser", name="known", size=(3, 2), channels=1, **config)
    return DenoiserGenerator(new_perceptron(6, 0), Denoiser(network, ALPHA_BAR), described)


def of_images(images: torch.Tensor):
    """The best predictor of the noise of some images, [k, 6], each as frequent as the others."""

    def network(x_t: torch.Tensor, times: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
        """Predict the noise."""
        a, y = ALPHA_BAR[times][:, None], x_t.double().flatten(1)
        weight = torch.softmax(-(y[:, None] - a.sqrt()[:, None] * images).square().sum(dim=2) / (2 * (1 - a)), dim=1)
        image = weight @ images if condition is None else images[condition]
        return ((y - a.sqrt() * image) / (1 - a).sqrt()).view_as(x_t).to(x_t)

    return network


def normal(mean: float, deviation: float):
    """The best predictor of the noise of normal pixels."""

    def network(x_t: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """Predict the noise."""
        a = ALPHA_BAR[times].view(-1, 1, 1, 1)
        y = x_t.double()
        return ((1 - a).sqrt() * (y - a.sqrt() * mean) / (a * deviation**2 + 1 - a)).to(x_t)

    return network


@pytest.mark.parametrize("sampler", STEPS)
def test_what_a_perfect_memory_draws_are_its_images(sampler):
    levels = np.array([[0, 64, 128, 192, 255, 10], [255, 200, 100, 50, 0, 30], [90, 90, 10, 250, 20, 60]], np.uint8)
    generator = drawing(of_images(torch.from_numpy(levels / 127.5 - 1)))
    how = SamplingOptions(sampler=sampler, sampling_steps=STEPS[sampler])
    drawn = generator.sample(Draw(np.arange(300)), how, device="cpu").reshape(300, 6)
    which = (drawn[:, None] == levels[None]).all(axis=2)
    assert (which.sum(axis=1) == 1).all()
    assert (which.sum(axis=0) > 60).all()  # each of three; fewer than 60 of 300 has probability below 1e-6


@pytest.mark.parametrize("sampler", STEPS)
def test_normal_pixels_have_their_mean_and_deviation(sampler):
    how = SamplingOptions(sampler=sampler, sampling_steps=1000)  # fewer steps give less than the deviation
    drawn = drawing(normal(0.2, 0.2)).sample(Draw(np.arange(300)), how, device="cpu") / 127.5 - 1
    assert drawn.mean() == pytest.approx(0.2, abs=0.02)  # of 1,800 pixels; its standard error is 0.005
    assert drawn.std() == pytest.approx(0.2, rel=0.06)  # and that of this 1.7 %


def test_an_image_is_that_of_its_seed_and_its_class():
    images = torch.eye(6, dtype=torch.float64)
    generator = drawing(of_images(images), conditioned_on="class", classes=tuple("abcdef"))
    drawn = generator.sample(Draw(np.array([7, 7, 8]), labels=np.array([0, 3, 3])), device="cpu").reshape(3, 6)
    assert drawn.argmax(axis=1).tolist() == [0, 3, 3]
    plain, seeds = drawing(normal(0.0, 0.3)), np.array([3, 1, 4, 1])
    ddpm = SamplingOptions(sampler="ddpm", sampling_steps=20)
    drawn = plain.sample(Draw(seeds), ddpm, device="cpu")
    assert np.array_equal(drawn[1], drawn[3])
    assert not np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn, plain.sample(Draw(seeds), ddpm, device="cpu"))


def test_what_cannot_be_drawn_is_refused():
    generator, one = drawing(normal(0.0, 0.3)), Draw(np.arange(1))
    with pytest.raises(InputError, match="draws by ddim or ddpm"):
        generator.sample(one, SamplingOptions(sampler="dpm-solver"), device="cpu")
    with pytest.raises(InputError, match="has 1000 times"):
        generator.sample(one, SamplingOptions(sampling_steps=1001), device="cpu")
    with pytest.raises(InputError, match="not of finite numbers"):
        drawing(lambda x, t: x * float("nan")).sample(one, device="cpu")
    with pytest.raises(InputError, match="conditioned on nothing"):
        generator.sample(Draw(np.arange(1), labels=np.zeros(1, np.int64)), device="cpu")
