"""A GAN's training: what moves, that it goes on to the same bytes, and what ends it in one line."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from memorisk.images.store import ImageStore
from memorisk.models.generators.generators import Draw, load_generator
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.generators.kinds import gan_augmentation, gan_training
from memorisk.training.generators.kinds.gan_training import GanTraining
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.snapshots import OnSnapshot, Snapshot, TrainingLog
from tests.training.small_detectors import scans, with_images

TINY = GeneratorOptions(
    kind="gan",
    steps=9,
    batch_size=4,
    snapshot_every=4,
    checkpoint_seconds=600,
    device="cpu",
    flip=True,
    gan_style=4,
    gan_channels=64,
    gan_channels_max=4,
    gan_augment_images=100,
)
ROWS = np.arange(10)


class Killed(Exception):
    pass


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Penalties often enough for a few steps."""
    monkeypatch.setattr(gan_training, "R1_EVERY", 3)
    monkeypatch.setattr(gan_training, "PATH_EVERY", 2)


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    found = scans(tmp_path, n=16)
    return with_images(found, found.images[:, ::2, ::2])


def trained(
    store: ImageStore, folder: Path, options: GeneratorOptions = TINY, look: OnSnapshot | None = None, kill: int = 0
) -> tuple[GanTraining, TrainingLog]:
    def progress(stage: str, done: int, total: int) -> None:
        assert total == options.steps
        if done == kill:
            raise Killed

    training = GanTraining(store, ROWS, options)
    return training, training.run(folder / "checkpoint.safetensors", look, progress)


def everything(training: GanTraining) -> dict[str, torch.Tensor]:
    """Every number that the training goes on from."""
    loop = training.loop
    moments = {
        f"{index}.{name}": value
        for index, parameter in enumerate(p for group in loop.optimizer.param_groups for p in group["params"])
        for name, value in loop.optimizer.state[parameter].items()
    }
    return {**loop.state, **moments}


def test_a_training_moves_both_networks_and_tells_its_history(store: ImageStore, tmp_path: Path) -> None:
    snapshots: list[tuple[int, np.ndarray]] = []

    def look(snapshot: Snapshot) -> None:
        assert snapshot.steps == TINY.steps
        assert math.isfinite(snapshot.loss)
        snapshots.append((snapshot.step, snapshot.generator.sample(Draw(np.arange(2)), device="cpu")))

    start = GanTraining(store, ROWS, TINY)
    begin = {name: value.clone() for name, value in start.loop.state.items()}
    training, log = trained(store, tmp_path, look=look)
    assert [step for step, _ in snapshots] == [4, 8, 9]
    assert all(images.shape == (2, 8, 8, 1) for _, images in snapshots)
    assert not np.array_equal(snapshots[0][1], snapshots[-1][1])
    assert log.steps == 9
    assert not log.stopped
    assert [row["step"] for row in log.history] == [4, 8, 9]
    records = training.loop.records
    assert torch.isfinite(records[:, :2]).all()
    assert torch.isfinite(records[:, 2]).tolist() == [step % 3 == 0 for step in range(9)]
    assert torch.isfinite(records[:, 3]).tolist() == [step % 2 == 0 for step in range(9)]
    first = log.history[0]
    assert first["loss"] == pytest.approx(float(records[:4, 0].double().mean()))
    assert first["r1"] == pytest.approx(float(records[[0, 3], 2].double().mean()))
    assert -1 <= first["r_t"] <= 1
    still = [n for n, v in training.loop.state.items() if torch.equal(v, begin[n]) and not n.startswith("adaptive")]
    assert not still


def test_killed_at_any_step_it_goes_on_to_the_same_bytes(
    store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gan_augmentation, "AUGMENT_TARGET", 1.0)
    options = replace(TINY, gan_augment_p=0.4, steps=7)
    whole, wanted_log = trained(store, tmp_path, options)
    assert whole.loop.adaptive.p == pytest.approx(0.4 - 16 / 100)
    wanted = everything(whole)
    for kill in (1, 6):
        (tmp_path / "checkpoint.safetensors").unlink()
        with pytest.raises(Killed):
            trained(store, tmp_path, replace(options, checkpoint_seconds=0), kill=kill)
        again, log = trained(store, tmp_path, options)
        found = everything(again)
        assert wanted.keys() == found.keys()
        assert [n for n in wanted if not torch.equal(wanted[n].nan_to_num(9), found[n].nan_to_num(9))] == []
        assert log == wanted_log


def test_the_average_is_that_of_its_formula(store: ImageStore, tmp_path: Path) -> None:
    options = replace(TINY, gan_ema_images=1)
    training = GanTraining(store, ROWS, options)
    network, naive, step = training.networks[0], None, 0
    naive = {name: value.detach().clone() for name, value in network.named_parameters()}
    for step in training.loop.until(5):
        kept = 0.5 ** (4 / min(1, 0.05 * 4 * step))
        naive = {n: kept * naive[n] + (1 - kept) * v.detach() for n, v in network.named_parameters()}
    assert step == 5
    for name, value in training.loop.averaged.named_parameters():
        torch.testing.assert_close(value, naive[name])


def test_adam_is_corrected_for_lazy_penalties(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gan_training, "R1_EVERY", 16)
    loop = GanTraining(store, ROWS, TINY).loop
    assert loop.adam_d.param_groups[0]["lr"] == pytest.approx(2.5e-3 * 16 / 17)
    assert loop.adam_d.betas == pytest.approx((0, 0.99 ** (16 / 17)))
    assert loop.adam_g.betas == pytest.approx((0, 0.99 ** (2 / 3)))
    without = GanTraining(store, ROWS, replace(TINY, gan_path=0.0, gan_r1=0.0)).loop
    assert (without.adam_g.betas, without.adam_g.param_groups[0]["lr"]) == ((0, 0.99), 2.5e-3)
    list(without.until(1))
    assert torch.isnan(without.records[0, 2:4]).all()


def test_penalties_carry_their_weight(store: ImageStore) -> None:
    loop = GanTraining(store, ROWS, replace(TINY, gan_r1=8.0, gan_augment="none")).loop
    x = next(loop.images.batches([loop.plan.slots(0)]))
    loop._learn(loop.discriminator)
    images = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loop.discriminator(images).sum(), images, create_graph=True)
    penalty = gradient.square().sum(dim=(1, 2, 3)).mean()
    parameters = loop.adam_d.param_groups[0]["params"]
    wanted = torch.autograd.grad(8 / 2 * 3 * penalty, parameters, allow_unused=True)
    assert float(loop._r1_step(x)) == pytest.approx(float(penalty.detach()))
    for parameter, expected in zip(parameters, wanted, strict=True):
        if expected is not None:
            torch.testing.assert_close(parameter.grad, expected)


def test_sixteen_bit_products_train_too(store: ImageStore, tmp_path: Path) -> None:
    training, _ = trained(store, tmp_path, replace(TINY, precision="bf16", steps=2))
    assert torch.isfinite(training.loop.records[:, :2]).all()
    assert all(p.dtype == torch.float32 for p in training.networks[0].parameters())


def test_a_look_that_says_no_ends_it(store: ImageStore, tmp_path: Path) -> None:
    _, log = trained(store, tmp_path, look=lambda snapshot: False)
    assert (log.steps, log.stopped) == (4, True)


def test_a_loss_that_is_no_number_ends_it_in_one_line(store: ImageStore) -> None:
    training = GanTraining(store, ROWS, TINY)
    with torch.no_grad():
        training.networks[0].synthesis.start.fill_(torch.nan)
    with pytest.raises(MemoriskError, match="the generator's loss became nan in step 1: lower the learning rate"):
        list(training.loop.until(2))


def test_a_state_of_another_training_is_refused(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        trained(store, tmp_path, replace(TINY, checkpoint_seconds=0), kill=1)
    with pytest.raises(InputError, match="belongs to another training"):
        trained(store, tmp_path, replace(TINY, seed=1))


def test_images_that_it_cannot_draw_are_refused(store: ImageStore) -> None:
    wide = with_images(store, np.repeat(store.images, 2, axis=2))
    with pytest.raises(InputError, match="stored at 8 x 16 pixels; a GAN takes squares"):
        GanTraining(wide, ROWS, TINY)
    odd = with_images(store, store.images[:, :7, :7])
    with pytest.raises(InputError, match="a GAN takes squares of 8, 16"):
        GanTraining(odd, ROWS, TINY)


def test_several_processes_are_refused(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="trained by one process"):
        GanTraining(store, ROWS, TINY)


def test_what_is_saved_draws_the_same_and_knows_its_patients(store: ImageStore, tmp_path: Path) -> None:
    training, log = trained(store, tmp_path, replace(TINY, gan_truncation=0.5, steps=2))
    training.save(tmp_path / "generator", log.steps)
    loaded = load_generator(tmp_path / "generator")
    assert (loaded.config.kind, loaded.config.steps, loaded.config.n_training) == ("gan", 2, 10)
    draw = Draw(np.array([3, 5]))
    assert np.array_equal(loaded.sample(draw, device="cpu"), training.generator().sample(draw, device="cpu"))
    assert loaded.source == training.generator().source
    seen = loaded.seen_parts(store)
    assert seen is not None
    assert seen.part.tolist() == ["training"] * 10 + [""] * 6


def test_a_step_is_timed(store: ImageStore) -> None:
    assert 0 < GanTraining(store, ROWS, TINY).seconds_a_step() < 60
