"""One flipped bit in a file that is read again: the file is made anew or refused by name, and no result changes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.rendering import load_result
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.weight_files import read_state_dict, save_weights
from memorisk.report.result import Result
from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import write_array, write_text
from memorisk.studies.engine.cells import read_result, write_result
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.jobs import CHECKPOINTS, LOGITS, WEIGHTS, TrainJob, run_training
from memorisk.training.engine.options import TrainOptions
from memorisk.training.features.matrix import load_features
from tests.images.store_making import write_images
from tests.thorough import thorough

Use = Callable[[], bytes]
"""Opens what a kind of file holds, and returns all that a result could rest on."""


def kept_store(folder: Path) -> Use:
    write_images(folder.parent / "images", 9)
    options = ImageOptions(store=folder)

    def use() -> bytes:
        store = build_store(load_manifest(folder.parent / "images", options), options, processes=1)
        return store.images.tobytes() + "".join(store.pixel_hashes).encode()

    return use


def kept_features(folder: Path) -> Use:
    write_images(folder.parent / "pictured", 9, seed=1)
    options = ImageOptions(store=folder)

    def use() -> bytes:
        store = build_store(load_manifest(folder.parent / "pictured", options), options, processes=1)
        return load_features(store, "pixels", device="cpu").values.tobytes()

    return use


def kept_training(folder: Path) -> Use:
    for name in (LOGITS, WEIGHTS, CHECKPOINTS):
        (folder / name).mkdir(parents=True)
    images = np.random.default_rng(0).integers(0, 255, (24, 8, 8, 1), dtype=np.uint8)
    write_array(folder.parent / "images.npy", images)
    options = TrainOptions(epochs=1, lr=0.01, batch_size=8, augment="hflip")
    job = TrainJob(
        out=folder, images=folder.parent / "images.npy", rows=np.arange(12), targets=np.arange(24) % 2, n_outputs=2,
        model="small_cnn", weights=None, options=options, normalisation=None, seed=1, score_augmentations=1,
    )  # fmt: skip

    def use() -> bytes:
        run_training(job)
        return b"".join(file.read_bytes() for file in (job.logits_file, job.augmented_file, job.weights_file))

    return use


def kept_checkpoint(folder: Path) -> Use:
    images, labels = np.random.default_rng(0).integers(0, 255, (24, 8, 8, 1), dtype=np.uint8), np.arange(24) % 2
    options, path = TrainOptions(epochs=2, lr=0.01, batch_size=8), folder / "state.safetensors"

    def use() -> bytes:
        if path.exists():
            shutil.copytree(folder, folder.parent / "going on", dirs_exist_ok=True)
        else:
            folder.mkdir()
        model = create_model("small_cnn", num_classes=2, in_chans=1, image_size=8, seed=3)
        going_on = folder.parent / "going on" / path.name if path.exists() else path
        fit(model, images, labels, np.arange(24), options, seed=3, checkpoint=going_on, checkpoint_seconds=0)
        return b"".join(value.numpy().tobytes() for value in model.state_dict().values())

    return use


def kept_result(folder: Path) -> Use:
    tables = {"x": pd.DataFrame({"y": [0.5, 0.25]})}
    Result(summary={"a": 1.5}, verdict={"audit": "synthetic", "status": "pass"}, tables=tables).save(folder)
    write_text(folder / "config.yaml", "train: x\n")

    def use() -> bytes:
        result = load_result(folder)
        return repr((result.summary, result.verdict)).encode() + result.tables["x"].to_csv().encode()

    return use


def kept_arrays(folder: Path) -> Use:
    folder.mkdir()
    write_result(folder / "cell.npz", {"a": np.arange(9.0), "b": np.ones((2, 2))})
    return lambda: b"".join(values.tobytes() for values in read_result(folder / "cell.npz").values())


def kept_weights(folder: Path) -> Use:
    folder.mkdir()
    save_weights(folder / "w.safetensors", create_model("small_cnn", num_classes=2, in_chans=1, image_size=8, seed=1))
    return lambda: b"".join(value.numpy().tobytes() for value in read_state_dict(folder / "w.safetensors").values())


UNREAD = (".lock", ".yaml", "manifest.parquet", "result.sha256")  # of the seal two blanks of each line say nothing
KINDS = (kept_store, kept_features, kept_training, kept_checkpoint, kept_result, kept_arrays, kept_weights)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flips", [4, thorough(30)])
def test_a_flipped_bit_changes_no_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Callable[[Path], Use], flips: int
) -> None:
    folder, backup = tmp_path / "kept", tmp_path / "backup"
    use, rng = kind(folder), np.random.default_rng(flips)
    whole = use()
    shutil.copytree(folder, backup)
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(UNREAD)]
    unnoticed = []
    for flip in range(flips):
        path = files[flip % len(files)] if flip < len(files) else files[rng.integers(len(files))]
        content = bytearray(path.read_bytes())
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        caplog.clear()
        found, refusal = used(use)
        assert refusal or found == whole, path
        if not any(file.name in refusal + caplog.text for file in files):
            unnoticed.append(path)
        shutil.rmtree(folder)
        shutil.copytree(backup, folder)
    assert unnoticed == []


def used(use: Use) -> tuple[bytes, str]:
    """What a use gives, or how it is refused."""
    try:
        return use(), ""
    except MemoriskError as error:
        return b"", str(error)
