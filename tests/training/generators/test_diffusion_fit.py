"""Training a diffusion transformer: its steps by hand, what interrupts it, what it is told, latents and weights."""

import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from memorisk.audits.comparison.knowledge import refuse_known, unknown_weights
from memorisk.audits.comparison.sets import select_rows
from memorisk.images.pixels import hash_pixels
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.dit.weights import open_dit
from memorisk.models.generators.generators import Draw, load_generator
from memorisk.models.provenance import TrainingRecord
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import write_json
from memorisk.training.autoencoders.fit import new_autoencoder, save_autoencoder
from memorisk.training.autoencoders.latent_store import load_latents
from memorisk.training.autoencoders.options import AutoencoderOptions
from memorisk.training.engine.loop import Checkpoint
from memorisk.training.generators.batches import draw_noise
from memorisk.training.generators.fit import fit_generator
from memorisk.training.generators.kinds.diffusion_training import DiffusionLoop, DiffusionTraining
from memorisk.training.generators.snapshots import Snapshot
from tests.thorough import thorough
from tests.training.generator_trainings import QUICK, content, labelled
from tests.training.small_detectors import with_images

pytest.importorskip("diffusers")
pytest.importorskip("accelerate")

ROWS, VALIDATION = np.arange(30), np.arange(30, 40)
FAST = SamplingOptions(sampling_steps=2)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


def test_its_steps_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    """Order, flips, dropped labels, noise, clipping, AdamW, warmup and the average, written out."""
    store, options = labelled(tmp_path), replace(QUICK, flip=True, warmup=4, weight_decay=0.01, clip=0.5, ema=0.3)
    before = torch.get_rng_state()
    training = DiffusionTraining(store, ROWS, options)
    network = deepcopy(training.network)
    for _ in training.loop.until(6):
        pass
    assert torch.equal(torch.get_rng_state(), before)

    pixels = torch.from_numpy(store.images[ROWS].astype(np.float32)).permute(0, 3, 1, 2) / 127.5 - 1
    number = {"a": 0, "b": 1, "": 2}
    labels = torch.tensor([number[name] for name in store.manifest.labels[ROWS]])
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), dim=0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01, fused=False, foreach=False)
    average, losses, dropped = [p.detach().clone() for p in network.parameters()], [], 0
    for step in range(6):
        slots, drawn = training.loop.plan.slots(step), training.loop.plan.draw(step)
        x = torch.stack([pixels[s].flip(-1) if f else pixels[s] for s, f in zip(slots, drawn.flip, strict=True)])
        told = torch.where(drawn.drop, 2, labels[slots])
        dropped += int(drawn.drop.sum())
        noise, a = draw_noise(drawn.seed, tuple(x.shape), torch.device("cpu")), kept[drawn.times][:, None, None, None]
        found = network(a.sqrt() * x + (1 - a).sqrt() * noise, timestep=drawn.times, class_labels=told).sample
        loss = F.mse_loss(found, noise)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.param_groups[0]["lr"] = 1e-3 * min(1, (step + 1) / 4)
        optimizer.step()
        decay = 0.0 if step == 0 else min(0.3, (1 + step) / (10 + step))
        average = [decay * m + (1 - decay) * p.detach() for m, p in zip(average, network.parameters(), strict=True)]
        losses.append(loss.item())
    assert dropped > 0
    np.testing.assert_allclose(training.loop.losses[:6, 0].numpy(), losses, rtol=1e-5)
    for ours, plain in zip(training.loop.averaged.parameters(), average, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=2e-6)


class Killed(Exception):
    pass


@pytest.mark.parametrize(("seconds", "at"), [(0.0, 4), thorough(1e9, 5), thorough(0.0, 3)])
def test_interrupted_at_any_step_it_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, at: int
) -> None:
    store, options = labelled(tmp_path), replace(QUICK, flip=True, ema=0.5, checkpoint_seconds=seconds)
    fit_generator(store, ROWS, options, tmp_path / "whole", validation=VALIDATION)
    update, calls, looks = DiffusionLoop._update, [], []

    def killed(self, *given) -> None:
        if len(calls) == at:
            raise Killed
        calls.append(1)
        update(self, *given)

    def looks_once(snapshot: Snapshot) -> None:
        if not looks and at == 3:  # in the middle of a look
            raise Killed
        looks.append(snapshot.step)

    with monkeypatch.context() as patch:
        patch.setattr(DiffusionLoop, "_update", killed)
        with pytest.raises(Killed):
            fit_generator(store, ROWS, options, tmp_path / "killed", validation=VALIDATION, on_snapshot=looks_once)
    assert not (tmp_path / "killed" / "generator").exists()
    looks.append(-1)
    fit_generator(store, ROWS, options, tmp_path / "killed", validation=VALIDATION, on_snapshot=looks_once)
    assert looks == ([-1, 3, 6, 7] if at == 3 else [3, -1, 6, 7])
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    assert not (tmp_path / "killed" / "checkpoint.safetensors").exists()


def test_looks_at_the_averaged_weights_are_kept_and_can_end_it(tmp_path: Path) -> None:
    store, seen = labelled(tmp_path), []

    def look(snapshot: Snapshot) -> bool:
        draw = Draw(np.arange(2), np.array([0, 1]))
        assert snapshot.folder is not None
        kept = load_generator(snapshot.folder)
        np.testing.assert_array_equal(kept.sample(draw, FAST), snapshot.generator.sample(draw, FAST))
        assert kept.config.steps == snapshot.step
        seen.append(snapshot)
        if snapshot.step == 6:
            write_json(tmp_path / "run" / "stop.json", {"reason": "too much is remembered"})
        return True

    options = replace(QUICK, keep_snapshots=True)
    found = fit_generator(store, ROWS, options, tmp_path / "run", validation=VALIDATION, on_snapshot=look)
    assert (found.steps, found.stopped) == (6, "too much is remembered")
    assert [row["step"] for row in found.history] == [3, 6] == [snapshot.step for snapshot in seen]
    assert [row["held_out_loss"] for row in found.history] == [snapshot.held_out_loss for snapshot in seen]
    again = fit_generator(store, ROWS, options, tmp_path / "run", validation=VALIDATION)
    assert (again.steps, again.stopped, again.history) == (6, found.stopped, found.history)
    with pytest.raises(InputError, match="holds another generator"):
        fit_generator(store, ROWS, replace(options, seed=1), tmp_path / "run", validation=VALIDATION)
    parts = found.generator.seen_parts(store)
    assert parts is not None
    assert parts.part.tolist() == ["training"] * 30 + ["validation"] * 10
    config = found.generator.config
    assert (config.classes, config.class_counts, config.n_training) == (("a", "b"), (12, 12), 30)


def test_held_out_loss_is_that_of_the_definition(tmp_path: Path) -> None:
    store = labelled(tmp_path)
    training = DiffusionTraining(store, ROWS, QUICK, validation=VALIDATION)
    held_out, loop = training._held_out, training.loop
    for _ in loop.until(2):
        pass
    found = held_out.loss(loop.averaged, loop.loss, 8)
    assert held_out.loss(loop.averaged, loop.loss, 8) == found
    assert held_out.labels.tolist() == [1, 1, 0, 0, 2] * 2
    assert sorted(held_out.times.div(100, rounding_mode="floor").tolist()) == list(range(10))  # evenly spread
    kept, errors = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), dim=0), []
    for block in (slice(0, 8), slice(8, 10)):
        x = torch.from_numpy(store.images[VALIDATION[block]].astype(np.float32)).permute(0, 3, 1, 2) / 127.5 - 1
        noise = draw_noise(held_out.seed + (block.start > 0), tuple(x.shape), torch.device("cpu"))
        a, t = kept[held_out.times[block]][:, None, None, None], held_out.times[block]
        with torch.no_grad():
            made = loop.averaged(a.sqrt() * x + (1 - a).sqrt() * noise, timestep=t, class_labels=held_out.labels[block])
        errors += ((made.sample - noise) ** 2).mean(dim=(1, 2, 3)).tolist()
    assert found == pytest.approx(np.mean(errors), rel=1e-5)


def test_an_image_that_stands_there_more_often_is_seen_more_often_and_that_is_said(tmp_path: Path) -> None:
    store, rows = labelled(tmp_path), np.array([0] * 16 + list(range(1, 17)))
    training = DiffusionTraining(store, rows, QUICK)
    slots = torch.cat([training.loop.plan.slots(step) for step in range(4)])  # one pass of 32
    assert int((rows[slots.numpy()] == 0).sum()) == 16
    assert training.config(7).n_training == 17
    assert any("commonest 16 times" in note for note in training.notes)
    assert training._held_out.loss(None, training.loop.loss, 8) is None


def test_vectors_reach_the_network_by_the_image_they_belong_to(tmp_path: Path) -> None:
    store, options = labelled(tmp_path), replace(QUICK, conditioning="prediction", drop_condition=0.5)
    ids, values = store.manifest.images, np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    conditions = Conditions(values[::-1], ids[:30][::-1], [""] * 30, "prediction")
    rows = np.concatenate([ROWS, [4, 4]])
    training = DiffusionTraining(store, rows, options, validation=VALIDATION, conditions=conditions)
    told = training.loop.conditions(torch.tensor([31, 2]), torch.tensor([False, True]))
    np.testing.assert_array_equal(told[0].numpy(), values[4])
    assert told[1].isnan().all()
    assert training._held_out.labels.isnan().all()
    with pytest.raises(InputError, match="has no condition, such as image029"):
        DiffusionTraining(store, rows, options, conditions=conditions.rows(np.arange(1, 30)))
    with pytest.raises(InputError, match="no conditions are given"):
        DiffusionTraining(store, rows, options)
    found = fit_generator(store, rows, options, tmp_path / "run", conditions=conditions)
    np.testing.assert_array_equal(found.generator.conditions, conditions.values)
    assert found.generator.sample(Draw(np.arange(1), None, values[:1]), FAST).shape == (1, 16, 16, 1)


def test_latents_are_computed_once_and_mirrored_before_they_are_encoded(tmp_path: Path) -> None:
    store, small = labelled(tmp_path), AutoencoderOptions(block_channels=(4, 4, 8))
    network = new_autoencoder(small.architecture(16, 1), 0)
    whom = {"training": np.arange(32), "validation": np.array([34])}
    save_autoencoder(network, tmp_path / "ae", TrainingRecord.of(store, whom), scaling_factor=2.0)
    text = f"autoencoder:{tmp_path / 'ae'}"
    options = replace(QUICK, network="tiny/2", latent=text, flip=True, learn_sigma=True)
    training = DiffusionTraining(store, ROWS, options)
    flip = torch.tensor([False, True, True])
    (x,) = training.loop.images.batches([torch.tensor([3, 3, 5])], [flip])
    mirrored = with_images(store, np.ascontiguousarray(store.images[:, :, ::-1]))
    plain, other = (load_latents(of, text, device="cpu", cache=False).values for of in (store, mirrored))
    np.testing.assert_allclose(x.numpy(), np.stack([plain[3], other[3], other[5]]), atol=1e-5)
    assert not np.allclose(other[5], plain[5][..., ::-1], atol=1e-3)  # so mirroring latents would not do
    found = fit_generator(store, ROWS, options, tmp_path / "run", validation=VALIDATION[:4])
    # Patients of the autoencoder: those of the network and one more, and one that chose its epoch.
    measured, chosen = ["validation"] * 2, ["validation"] * 2 + [""] * 4
    for generator, last in ((found.generator, measured + chosen), (training.generator(), ["", "", *chosen])):
        parts = generator.seen_parts(store)
        assert parts is not None
        assert parts.part.tolist() == ["training"] * 32 + last
    assert found.generator.config.latent == "autoencoder ae (4 x 4 x 4)"
    loaded = load_generator(tmp_path / "run" / "generator")
    draw = Draw(np.arange(2), np.array([0, 1]))
    np.testing.assert_array_equal(loaded.sample(draw, FAST), found.generator.sample(draw, FAST))


@pytest.mark.parametrize("kind", ["dit", "gan"])
def test_the_global_random_state_is_left_as_it_was(tmp_path: Path, kind: str) -> None:
    store, before = labelled(tmp_path), torch.get_rng_state()
    found = fit_generator(store, ROWS, replace(QUICK, kind=kind, steps=1, gan_channels=4), tmp_path / "first")
    assert torch.equal(torch.get_rng_state(), before)
    load_generator(found.folder)
    assert torch.equal(torch.get_rng_state(), before)
    if kind == "dit":
        open_dit(str(found.folder), side=16, channels=1, classes=5)
        assert torch.equal(torch.get_rng_state(), before)


def test_it_begins_with_weights_that_are_there(tmp_path: Path) -> None:
    store = labelled(tmp_path)
    first = fit_generator(store, ROWS, replace(QUICK, steps=3), tmp_path / "first")
    options = replace(QUICK, weights=str(tmp_path / "first" / "generator"))
    training = DiffusionTraining(store, ROWS, options)
    saved = first.generator.network.state_dict()  # pyright: ignore[reportAttributeAccessIssue]
    for name, value in training.network.state_dict().items():
        assert torch.equal(value, saved[name]), name
    assert training.key != DiffusionTraining(store, ROWS, QUICK).key
    with pytest.raises(InputError, match="not tiny/4"):
        DiffusionTraining(store, ROWS, replace(options, network="tiny/4"))


def test_whom_its_weights_saw_is_not_forgotten(tmp_path: Path) -> None:
    """Images 0 to 29 trained the first, 30 to 39 measured it; the second is trained on images 20 to 39 alone."""
    store, quick = labelled(tmp_path), replace(QUICK, steps=1)
    fit_generator(store, ROWS, quick, tmp_path / "first", validation=VALIDATION)
    second = fit_generator(store, np.arange(20, 40), replace(quick, weights=str(tmp_path / "first")), tmp_path / "two")
    # The weights alone, and by another path: of a third that begins with the second, all three are known.
    transformer = str(second.folder / "transformer")
    third = DiffusionTraining(store, np.arange(8), replace(quick, weights=transformer))
    trained = ["training"] * 40
    for generator in (second.generator, load_generator(second.folder), third.generator()):
        seen = generator.seen_parts(store)
        assert seen is not None
        assert (seen.part.tolist(), seen.missing, seen.unknown) == (trained, frozenset(), ())
        fewer = generator.seen_parts(select_rows(store, np.arange(12, 40)))
        assert fewer is not None
        assert fewer.missing == set(store.pixel_hashes[:12])
    assert any("trained on 30 images, which it may repeat" in note for note in second.notes)
    assert any("trained on 40 images" in note for note in third.notes)
    with pytest.raises(InputError, match="trained on 2 validation patients") as refused:
        DiffusionTraining(
            store, np.arange(8), replace(quick, weights=str(tmp_path / "first")), validation=np.array([26, 29, 31])
        )
    assert "patient013, patient014" in str(refused.value)
    (second.folder / "earlier" / "origin.json").unlink()
    with pytest.raises(InputError, match=r"earlier/origin.json, of what it began with, is missing"):
        load_generator(second.folder)


def test_weights_of_unknown_origin_are_named(tmp_path: Path) -> None:
    store, quick = labelled(tmp_path), replace(QUICK, steps=1)
    first = fit_generator(store, ROWS, quick, tmp_path / "first")
    shutil.copytree(first.folder / "transformer", tmp_path / "public")
    found = fit_generator(store, ROWS, replace(quick, weights=str(tmp_path / "public")), tmp_path / "run")
    for generator in (found.generator, load_generator(found.folder)):
        seen = generator.seen_parts(store)
        assert seen is not None
        assert seen.unknown == ("public",)
        assert "began with weights public" in unknown_weights(generator, store)
    assert any("What weights public were trained on is not known" in note for note in found.notes)
    assert unknown_weights(first.generator, store) == ""


def test_names_of_files_are_no_patients(tmp_path: Path) -> None:
    """Two hospitals both have an image image000: it is no reason to refuse one."""
    store = labelled(tmp_path)
    table = store.manifest.table.assign(group=store.manifest.table["image"])
    loose = replace(store, manifest=replace(store.manifest, table=table))
    assert not loose.manifest.groups_given
    generator = fit_generator(loose, ROWS, replace(QUICK, steps=1), tmp_path / "run").generator
    other = with_images(loose, 255 - store.images)
    assert refuse_known(generator, other, "the held-out images") == ""
    with pytest.raises(InputError, match="on 30 patients of the held-out images"):
        refuse_known(generator, loose, "the held-out images")
    larger = with_images(loose, store.images.repeat(2, axis=1).repeat(2, axis=2))
    assert "is your word" in refuse_known(generator, larger, "the held-out images")


def test_sixteen_bits_are_scaled_by_their_own_range(tmp_path: Path) -> None:
    store = labelled(tmp_path)
    deep = (store.images.astype(np.uint16) * 257).astype(np.uint16)
    hashes = np.array([hash_pixels(image) for image in deep], dtype=object)
    wide = replace(store, images=deep, pixel_hashes=hashes)
    one, other = (DiffusionTraining(of, ROWS, QUICK) for of in (store, wide))
    slots = [torch.arange(4)]
    torch.testing.assert_close(next(one.loop.images.batches(slots)), next(other.loop.images.batches(slots)))
    assert any("8" in note and "16 bits" in note for note in other.notes)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"network": "tiny/5"}, "does not divide 16"),
        ({"network": "huge/4"}, "unknown size of a DiT"),
        ({"batch_size": 31}, "batch_size of at most 30"),
        ({"conditioned_on": "vector"}, "no conditions are given"),
        ({"latent": "jpeg"}, "it must be pixels"),
        ({"precision": "fp16"}, "needs a GPU"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, changed: dict, said: str) -> None:
    store = labelled(tmp_path)
    with pytest.raises(InputError, match=said):
        fit_generator(store, ROWS, replace(QUICK, **changed), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_images_without_labels_squares_or_parts_of_their_own(tmp_path: Path) -> None:
    store = labelled(tmp_path)
    bare = replace(store, manifest=replace(store.manifest, table=store.manifest.table.assign(label="")))
    assert DiffusionTraining(bare, ROWS, QUICK).told.conditioned_on == "none"
    with pytest.raises(InputError, match="has no labels"):
        DiffusionTraining(bare, ROWS, replace(QUICK, conditioned_on="class"))
    with pytest.raises(InputError, match="takes squares"):
        DiffusionTraining(with_images(store, store.images[:, :, :8]), ROWS, QUICK)
    with pytest.raises(InputError, match="training and validation images at once"):
        DiffusionTraining(store, ROWS, QUICK, validation=np.array([29]))


def test_a_loss_that_is_not_finite_ends_it_before_it_is_kept(tmp_path: Path) -> None:
    training = DiffusionTraining(labelled(tmp_path), ROWS, QUICK)
    with torch.no_grad():
        next(training.network.parameters()).fill_(torch.nan)
    with pytest.raises(MemoriskError, match="the loss became nan in step 1"):
        list(training.loop.until(3, Checkpoint(tmp_path / "state", "key", 0)))
    assert not (tmp_path / "state").exists()
