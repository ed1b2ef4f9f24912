"""Twins of a GAN: what they share, and the losses of an image under one."""

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import softplus

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.copy_detectors import load_detector
from memorisk.models.generators.stylegan2_generator import GanGenerator, draw_latents, new_gan
from memorisk.training.generators.draws import image_seed
from memorisk.training.generators.twins.gan import BESIDE
from memorisk.training.generators.twins.jobs import run_twin
from memorisk.training.generators.twins.networks import build_twin, guessed_losses, open_twin, score_rows
from memorisk.training.generators.twins.recipes import TwinJob
from tests.training.generators.twins.test_jobs import job

DRAWS = 5


@pytest.fixture(scope="module")
def store() -> ImageStore:
    options = ImageOptions(sample=300)
    return build_store(load_manifest("digits", options), options)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, store: ImageStore) -> TwinJob:
    """A GAN of a few steps, and its losses."""
    one = job(tmp_path_factory.mktemp("gan"), store, kind="gan", steps=30, draws=DRAWS)
    run_twin(one)
    return one


def test_twins_share_start_order_and_draws_and_differ_in_their_images(tmp_path: Path, store: ImageStore) -> None:
    first, second = (build_twin(job(tmp_path, store, rows, kind="gan")) for rows in (np.arange(20), np.arange(20, 40)))
    for name, value in first.network.state_dict().items():
        assert torch.equal(value, second.network.state_dict()[name])
    one, other = (twin.loop for twin in (first, second))
    assert all(torch.equal(a.plan.slots(step), b.plan.slots(step)) for a, b in [(one, other)] for step in range(5))
    for a, b in zip(one.inputs(range(3)), other.inputs(range(3)), strict=True):
        assert not torch.equal(a, b)


def test_the_first_loss_is_that_of_the_critic_in_a_group_of_four(store: ImageStore, done: TwinJob) -> None:
    """The kept critic on four images at a time, one group for each image."""
    assert done.recipe.gan is not None
    _, critic = new_gan(done.recipe.gan.gan_spec(8, 1), 0)
    kept = load_file(done.weights_file)
    critic.load_state_dict({name.removeprefix("critic."): value for name, value in kept.items() if "critic." in name})
    x = torch.from_numpy(store.images.astype(np.float32)).permute(0, 3, 1, 2) / 127.5 - 1
    expected = []
    with torch.inference_mode():
        for row in range(40):
            group = x[[row, *done.beside]]
            assert len(group) == 1 + BESIDE
            expected.append(float(softplus(-critic(group))[0]))
    np.testing.assert_allclose(np.load(done.losses_file)[0, :40], expected, rtol=1e-4)


def test_the_second_loss_is_the_distance_to_the_nearest_draw(store: ImageStore, done: TwinJob) -> None:
    """Draws of the kept weights, each from the seed of its number, and a loop over all pairs."""
    assert done.recipe.gan is not None
    spec = done.recipe.gan.gan_spec(8, 1)
    network, _ = new_gan(spec, 0)
    kept = load_file(done.weights_file)
    own = {name.removeprefix("generator."): value for name, value in kept.items() if "generator." in name}
    network.load_state_dict(own)
    seeds = np.array([image_seed(0, number) for number in range(DRAWS)])
    with torch.inference_mode():
        z, noises = draw_latents(spec, seeds)
        greys = ((network(z, noises) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).movedim(1, -1).numpy()
    detector = load_detector("default")
    images, draws = (detector.embed(part).astype(np.float64) for part in (store.images[:20], greys))
    for row, vector in enumerate(images):
        cosines = [float(vector @ other / np.linalg.norm(vector) / np.linalg.norm(other)) for other in draws]
        assert np.load(done.losses_file)[1, row] == pytest.approx(1 - max(cosines), abs=1e-4)


def test_a_trivial_critic_tells_nothing_and_a_trivial_generator_draws_the_mean(
    store: ImageStore, done: TwinJob
) -> None:
    guessed = guessed_losses(done, np.arange(30, 34))
    assert np.allclose(guessed[0], log(2))
    mean = np.rint(store.images[:20].astype(float).mean(axis=0)).astype(np.uint8)
    detector = load_detector("default")
    first, second = (detector.embed(part)[0] for part in (store.images[30:31], mean[None]))
    cosine = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    assert guessed[1, 0] == pytest.approx(1 - cosine, abs=1e-5)


def test_passes_are_those_of_critic_detector_and_generator(
    store: ImageStore, done: TwinJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin: Any = build_twin(done)
    passes = 0

    def counted(original: Any, at: int) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal passes
            passes += len(arguments[at])
            return original(*arguments, **more)

        return call

    critic, detector = twin.loop.discriminator, load_detector("default")
    monkeypatch.setattr(critic, "forward", counted(critic.forward, 0))
    monkeypatch.setattr(type(detector), "embed", counted(type(detector).embed, 1))
    monkeypatch.setattr(GanGenerator, "sample", counted(GanGenerator.sample, 1))
    score_rows(done, twin, np.arange(7))
    assert passes == twin.passes(done.recipe, 7) == 7 * 5 + 2 * DRAWS


def test_no_attack_on_predicted_noise_opens_a_gan(done: TwinJob) -> None:
    assert done.weights_file.is_file()
    assert open_twin(done) is None
