"""Twins of generators as jobs: what a pair shares, what a killed training leaves, what a trivial prediction costs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDPMScheduler
from safetensors.torch import load_file

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.generators.denoiser import levels
from memorisk.models.generators.noise_losses import hashed_noise, noise_losses
from memorisk.models.generators.perceptron import linear_schedule, new_perceptron
from memorisk.models.generators.unet import UNetFolder, read_unet
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.engine.loop import Checkpoint
from memorisk.training.generators.batches import draw_noise
from memorisk.training.generators.kinds.perceptron_training import WARMUP
from memorisk.training.generators.options import GanSettings
from memorisk.training.generators.twins.jobs import run_twin
from memorisk.training.generators.twins.networks import build_twin, guessed_losses, open_twin, score_rows
from memorisk.training.generators.twins.recipes import CHECKPOINTS, LOSSES, WEIGHTS, TwinJob, TwinRecipe
from tests.models.generators.test_unet import pipeline

RECIPE = TwinRecipe(
    kind="tiny", network="tiny/4", latent="pixels", noise_schedule="linear",
    steps=12, batch_size=8, lr=1e-3, ema=0.9, flip=False, levels=3, draws=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def store() -> ImageStore:
    options = ImageOptions(sample=300)
    return build_store(load_manifest("digits", options), options)


def job(folder: Path, store: ImageStore, rows: np.ndarray | None = None, **changed: object) -> TwinJob:
    """A job in a folder of its own."""
    for name in (LOSSES, WEIGHTS, CHECKPOINTS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    own = np.arange(20) if rows is None else rows
    if changed.get("kind") == "unet":
        changed = {"network": "tiny", **changed}
    if changed.get("kind") == "gan":
        settings = GanSettings(gan_channels=64, gan_augment="fixed", gan_augment_p=0.3)
        changed = {"gan": settings, "levels": 2, "beside": (297, 298, 299), **changed}
    recipe = replace(RECIPE, **{name: changed.pop(name) for name in list(changed) if hasattr(RECIPE, name)})
    return TwinJob(
        **{"out": folder, "store": store, "rows": own, "slots": len(own), "recipe": recipe, "seed": 3, **changed}
    )


def test_its_steps_are_those_of_a_plain_loop(tmp_path: Path, store: ImageStore) -> None:
    """Written out: squared error of the noise, AdamW, a warm-up and a cosine."""
    one = job(tmp_path, store)
    twin = build_twin(one)
    network = new_perceptron(64, one.seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    a = linear_schedule()
    for step in range(RECIPE.steps):
        slots, draw = twin.loop.plan.slots(step), twin.loop.plan.draw(step)
        x = torch.from_numpy(store.images[one.rows[slots]].astype(np.float32)).permute(0, 3, 1, 2) / 255 * 2 - 1
        noise = draw_noise(draw.seed, tuple(x.shape), torch.device("cpu"))
        share = a[draw.times].float().view(-1, 1, 1, 1)
        error = network(share.sqrt() * x + (1 - share).sqrt() * noise, draw.times) - noise
        rate = 1e-3 * min(1, (step + 1) / WARMUP) * 0.5 * (1 + np.cos(np.pi * step / RECIPE.steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        error.square().mean().backward()
        optimizer.step()
    for _ in twin.loop.until(RECIPE.steps):
        pass
    for name, value in network.state_dict().items():
        assert torch.allclose(value, twin.network.state_dict()[name], atol=1e-6), name


@pytest.mark.parametrize("kind", ["tiny", "dit", "unet"])
def test_twins_share_start_order_times_and_noise_and_differ_in_their_images(
    tmp_path: Path, store: ImageStore, kind: str
) -> None:
    first, second = (build_twin(job(tmp_path, store, rows, kind=kind)) for rows in (np.arange(20), np.arange(20, 40)))
    for name, value in first.network.state_dict().items():
        assert torch.equal(value, second.network.state_dict()[name])
    for one, other in zip(first.loop.inputs(range(5)), second.loop.inputs(range(5)), strict=True):
        images, *rest = one
        assert not torch.equal(images, other[0])
        assert all(a is b is None or torch.equal(a, b) for a, b in zip(rest, other[1:], strict=True))


@pytest.mark.parametrize("kind", ["tiny", "gan"])
def test_a_twin_with_fewer_images_has_one_of_its_own_in_the_empty_slots(
    tmp_path: Path, store: ImageStore, kind: str
) -> None:
    whole, short = (build_twin(job(tmp_path, store, np.arange(n), slots=20, kind=kind)) for n in (20, 17))
    for step in range(5):
        there, own = whole.loop.plan.slots(step), short.loop.plan.slots(step)
        assert own.max() < 17
        assert torch.equal(own[there < 17], there[there < 17])


@pytest.mark.parametrize("kind", ["tiny", "dit", "unet", "gan"])
def test_killed_at_any_step_it_ends_with_the_same_bytes(tmp_path: Path, store: ImageStore, kind: str) -> None:
    whole, cut = (job(tmp_path / name, store, kind=kind, checkpoint_seconds=0.0) for name in ("whole", "cut"))
    run_twin(whole)
    twin = build_twin(cut)
    for step in twin.loop.until(RECIPE.steps, Checkpoint(cut.checkpoint_file, cut.key, 0.0)):
        if step == 7:
            break
    assert cut.checkpoint_file.is_file()
    assert not cut.done
    run_twin(cut)
    assert cut.done
    assert not cut.checkpoint_file.exists()
    assert cut.losses_file.read_bytes() == whole.losses_file.read_bytes()
    assert cut.weights_file.read_bytes() == whole.weights_file.read_bytes()


def test_losses_are_errors_of_the_kept_weights_on_hashed_noise(tmp_path: Path, store: ImageStore) -> None:
    one = job(tmp_path, store)
    run_twin(one)
    network = new_perceptron(64, 0)
    network.load_state_dict(load_file(one.weights_file))
    times, a = levels(build_twin(one).denoiser, RECIPE.levels), linear_schedule()
    x = torch.from_numpy(store.images[5].astype(np.float32)).permute(2, 0, 1)[None] / 255 * 2 - 1
    expected = []
    for t in times:
        draws = []
        for draw in range(2 * RECIPE.draws):
            noise = hashed_noise(str(store.manifest.images[5]), draw, (1, 8, 8))[None]
            x_t = a[t].sqrt().float() * x + (1 - a[t]).sqrt().float() * noise
            draws.append(float((network(x_t, torch.tensor([int(t)])) - noise).detach().square().mean()))
        expected.append(np.mean(draws))
    assert np.allclose(np.load(one.losses_file)[:, 5], expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["tiny", "dit", "unet"])
def test_a_twin_is_opened_with_the_weights_of_its_losses(tmp_path: Path, store: ImageStore, kind: str) -> None:
    one = job(tmp_path, store, kind=kind)
    assert open_twin(one) is None
    run_twin(one)
    twin = open_twin(one)
    assert twin is not None
    rows = np.arange(30)
    np.testing.assert_allclose(score_rows(one, twin, rows), np.load(one.losses_file)[:, rows], rtol=1e-5)
    assert not np.allclose(score_rows(one, build_twin(one), rows), score_rows(one, twin, rows), rtol=1e-4)


def test_a_trivial_prediction_costs_what_the_best_linear_one_does(tmp_path: Path, store: ImageStore) -> None:
    """The formula against a prediction that is carried out on drawn noise."""
    one = job(tmp_path, store)
    guessed = guessed_losses(one, np.arange(30, 40))
    x = store.images.astype(np.float64).reshape(len(store.images), -1) / 255 * 2 - 1
    mean, v = x[:20].mean(axis=0), x[:20].var(axis=0).mean()
    rng = np.random.default_rng(0)
    twin = build_twin(one)
    for level, t in enumerate(levels(twin.denoiser, RECIPE.levels)):
        a = float(linear_schedule()[t])
        noise = rng.standard_normal((20_000, 64))
        x_t = np.sqrt(a) * x[33] + np.sqrt(1 - a) * noise
        predicted = np.sqrt(1 - a) * (x_t - np.sqrt(a) * mean) / (a * v + 1 - a)
        assert np.square(predicted - noise).mean() == pytest.approx(guessed[level, 3], rel=0.02)


def test_a_trained_network_does_better_than_a_trivial_prediction_and_a_new_one_worse(
    tmp_path: Path, store: ImageStore
) -> None:
    unseen = np.arange(240, 300)
    for steps, better in ((1, False), (300, True)):
        one = job(tmp_path / str(steps), store, np.arange(240), steps=steps, levels=6)
        run_twin(one)
        middle = slice(2, 5)  # levels at which a network learns first
        trained = np.load(one.losses_file)[middle][:, unseen].mean()
        assert (trained < guessed_losses(one, unseen)[middle].mean()) == better


def test_losses_that_are_not_finite_are_refused(tmp_path: Path, store: ImageStore) -> None:
    one = job(tmp_path, store)
    twin = build_twin(one)
    with torch.no_grad():
        next(twin.network.parameters()).fill_(float("nan"))
    with pytest.raises(MemoriskError, match="not finite"):
        score_rows(one, twin, np.arange(3))


def folder_of_classes(folder: Path) -> UNetFolder:
    """A U-Net of ten classes that predicts v."""
    return read_unet(pipeline(folder, prediction="v_prediction", num_class_embeds=10))


def test_a_u_net_of_a_folder_is_trained_on_its_own_prediction_noise_and_classes(
    tmp_path: Path, store: ImageStore
) -> None:
    """Written out by diffusers' scheduler: squared error of v, clipped gradients, AdamW, an average of the weights."""
    one = job(tmp_path, store, kind="unet", unet=folder_of_classes(tmp_path / "ddpm"), network="folder")
    twin, again = build_twin(one), build_twin(one)
    network: Any = again.loop.network
    averaged = {name: value.clone() for name, value in network.state_dict().items()}
    scheduler = DDPMScheduler.from_pretrained(tmp_path / "ddpm", subfolder="scheduler")
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    labels, losses = torch.tensor(store.manifest.labels.astype(int)), []
    for step in range(RECIPE.steps):
        slots, draw = twin.loop.plan.slots(step), twin.loop.plan.draw(step)
        rows = one.rows[slots]
        x = torch.from_numpy(store.images[rows].astype(np.float32)).permute(0, 3, 1, 2) / 255 * 2 - 1
        noise = draw_noise(draw.seed, tuple(x.shape), torch.device("cpu"))
        assert int(draw.times.max()) < 200
        predicted = network(scheduler.add_noise(x, noise, draw.times), draw.times, labels[rows]).sample
        optimizer.zero_grad()
        loss = (predicted - scheduler.get_velocity(x, noise, draw.times)).square().mean()
        loss.backward()
        losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        decay = min(RECIPE.ema, (1 + step) / (10 + step)) if step else 0.0
        for name, value in network.state_dict().items():
            averaged[name] = decay * averaged[name] + (1 - decay) * value
    for _ in twin.loop.until(RECIPE.steps):
        pass
    assert np.allclose(twin.loop.losses[:, 0].numpy(), losses, rtol=1e-4)
    for name, value in twin.network.state_dict().items():  # where a gradient is nearly 0, Adam enlarges its rounding
        assert float((value - averaged[name]).abs().mean()) < 1e-5, name


def test_a_u_net_of_classes_scores_each_image_with_its_own(tmp_path: Path, store: ImageStore) -> None:
    one = job(tmp_path, store, kind="unet", unet=folder_of_classes(tmp_path / "ddpm"), network="folder", steps=2)
    twin, rows = build_twin(one), np.arange(7, 15)
    x = torch.from_numpy(store.images[rows].astype(np.float32)).permute(0, 3, 1, 2) / 255 * 2 - 1
    labels = torch.tensor(store.manifest.labels[rows].astype(int))
    times, ids = levels(twin.denoiser, RECIPE.levels), store.manifest.images[rows].tolist()
    expected = noise_losses(twin.denoiser, x, ids, times, RECIPE.draws, None, labels)
    assert np.allclose(score_rows(one, twin, rows), expected, rtol=1e-5)
    assert not np.allclose(expected, noise_losses(twin.denoiser, x, ids, times, RECIPE.draws, None, labels.flip(0)))


@pytest.mark.parametrize(
    ("config", "prediction", "message"),
    [
        ({"sample_size": 16}, "epsilon", "draws 1 x 16 x 16 values, and these images have 1 x 8 x 8"),
        ({"dropout": 0.1}, "epsilon", "has dropout, whose draws twins do not share"),
        ({"out_channels": 2}, "epsilon", "has 2 output channels for 1 of the images"),
        ({"num_class_embeds": 4}, "epsilon", "has no class '[4-9]', which the images have; its classes are 0, 1, 2, 3"),
    ],
)
def test_a_folder_that_the_twins_cannot_have_is_refused(
    tmp_path: Path, store: ImageStore, config: dict[str, Any], prediction: str, message: str
) -> None:
    unet = read_unet(pipeline(tmp_path / "ddpm", prediction=prediction, **config))
    with pytest.raises(InputError, match=message):
        build_twin(job(tmp_path, store, kind="unet", unet=unet, network="folder"))
