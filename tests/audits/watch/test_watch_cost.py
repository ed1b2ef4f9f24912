"""What the dry run of a watch says, against what the looks then do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.watch.loss_gaps import LEVELS, PAIRS
from memorisk.audits.watch.options import WatchSettings
from memorisk.audits.watch.run import plan_watch, plan_within, watch_training, watch_within
from memorisk.training.generators.command import train_generator
from tests.counting import array_bytes, counted

Arguments = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(folder: Path, images: np.ndarray) -> str:
    """Images as files."""
    folder.mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:04}.png")
    return str(folder)


@pytest.fixture
def given(tmp_path: Path, digits: np.ndarray, store: Path) -> Arguments:
    """Real images, one of them twice among the training ones, one on both sides; two steps, one of few images."""
    train = digits[:50].copy()
    train[1] = train[0]
    put(tmp_path / "run" / "step-1", digits[100:140])
    put(tmp_path / "run" / "step-2", np.concatenate([digits[200:209], digits[200:201]]))
    real = {"train": put(tmp_path / "train", train), "held_out": put(tmp_path / "held", digits[49:90])}
    return {**real, "out": tmp_path / "out", "images": 30, "looks": 4, "detector": "pixels"}


def kept(store: Path, name: str) -> int:
    """Bytes of arrays of this name in the cache."""
    return sum(map(array_bytes, store.rglob(name)))


def test_looks_at_folders_compare_what_was_counted(tmp_path: Path, store: Path, given: Arguments) -> None:
    plan = plan_watch(tmp_path / "run", **given).cost
    with counted() as found:
        watch_training(tmp_path / "run", **given)
    did = found.cost(given["out"], bytes_images=kept(store, "images.npy"), bytes_features=kept(store, "values.npy"))
    assert did == plan
    assert plan.pairs == (30 + 10) * (50 + 40)
    assert (plan.images_drawn, plan.images_passed) == (0, 0)
    assert plan_watch(tmp_path / "run", **given).cost.pairs == 0
    ahead = plan_watch(tmp_path / "run", follow=True, **given).cost
    assert (ahead.pairs, set(ahead.at_most)) == (2 * 30 * 90, {"images_drawn", "images_passed", "pairs"})
    unknown: Arguments = given | {"looks": None}
    assert plan_watch(tmp_path / "run", follow=True, **unknown).cost.pairs is None


def test_a_network_passes_drawn_images_with_the_same_pixels_once(tmp_path: Path, store: Path, given: Arguments) -> None:
    asked: Arguments = given | {"detector": "small_cnn@none", "quality": "small_resnet@none"}
    plan = plan_watch(tmp_path / "run", **asked).cost
    for features in store.glob("features/*/meta.json"):
        features.unlink()  # so that they are computed again
    with counted() as found:
        watch_training(tmp_path / "run", **asked)
    assert plan.at_most == ("images_passed", "pairs")
    assert plan.images_passed == 2 * (49 + 40 + 30 + 10)
    assert found.images_passed == plan.images_passed - 2
    assert found.pairs == plan.pairs


@pytest.fixture
def how() -> Arguments:
    """A short training of a diffusion model."""
    pytest.importorskip("diffusers")
    pytest.importorskip("accelerate")
    return {"steps": 4, "snapshot_every": 2, "batch_size": 8, "network": "tiny/4", "conditioned_on": "none"}


def test_looks_at_a_run_draw_and_pass_what_was_counted(tmp_path: Path, store: Path, how: Arguments) -> None:
    run, asked = tmp_path / "g", {"images": 5, "sampling_steps": 3, "sampler": "ddim", "stop_on": "never"}
    asked |= {"detector": "pixels"}
    within = {"out": run, "watching": WatchSettings(**asked), "sample": 100, **how}
    planned = plan_within("digits", **within).cost
    with counted() as found, watch_within("digits", **within) as watch:
        held = len(watch.real.held.images)
        train_generator("digits", out=run, on_snapshot=watch, keep_snapshots=True, sample=100, **how)
    assert set(planned.at_most) == {"images_drawn", "images_passed", "pairs"}
    assert (planned.images_drawn, planned.pairs) == (2 * 5, found.pairs)
    losses = 2 * (5 + 5) * LEVELS * 2 * PAIRS  # of two looks, on five training and five held-out patients
    assert planned.images_passed == found.images_passed - 2 * held == 2 * 5 * 3 + losses
    left = {"out": tmp_path / "later", **asked}
    plan = plan_watch(run, **left).cost
    with counted() as found:
        looks = watch_training(run, **left).looks
    assert sum(look.n_images for look in looks) == plan.images_drawn == 10
    stored = {"bytes_images": kept(store, "images.npy"), "bytes_features": kept(store, "values.npy")}
    assert found.cost(tmp_path / "later", images_drawn=10, **stored) == plan
    assert plan_within("digits", **within).cost.images_drawn == 0
