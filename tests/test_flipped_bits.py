"""One flipped bit in a file that is read again: the file is made anew or refused by name, and no result changes."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.comparison.kept_alignments import ALIGNMENTS, kept_alignments
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.rendering import load_result
from memorisk.audits.run_images import CLASSIFIED, CLASSIFIED_SOURCES
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.images.copies.alignment import Alignment
from memorisk.images.identity import IdDoubt
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.latents import open_latents
from memorisk.models.weight_files import read_state_dict, save_weights
from memorisk.report.result import Result
from memorisk.report.verdict_forms import FORMS
from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import write_array
from memorisk.runs.folder import open_run, read_config, write_config
from memorisk.studies.engine.cells import read_result, write_result
from memorisk.training.autoencoders.latent_store import load_latents
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.jobs import CHECKPOINTS, LOGITS, WEIGHTS, TrainJob, run_training
from memorisk.training.engine.options import TrainOptions
from memorisk.training.features.matrix import load_features
from memorisk.view.images import ViewedImages
from tests.audits.synthetic.making import parts, store_of
from tests.images.store_making import write_images
from tests.models.small_autoencoder import autoencoder_folder
from tests.thorough import thorough
from tests.training.feature_images import png_folder

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
    verdict = {"audit": "synthetic", "status": "pass", "schema": FORMS["synthetic"]}
    Result(summary={"a": 1.5}, verdict=verdict, tables=tables).save(folder)
    write_config(folder, {"train": "x"})

    def use() -> bytes:
        result = load_result(folder)
        numbers = read_config(folder), result.summary, result.verdict
        return repr(numbers).encode() + result.tables["x"].to_csv().encode()

    return use


def kept_arrays(folder: Path) -> Use:
    folder.mkdir()
    write_result(folder / "cell.npz", {"a": np.arange(9.0), "b": np.ones((2, 2))})
    return lambda: b"".join(values.tobytes() for values in read_result(folder / "cell.npz").values())


def kept_weights(folder: Path) -> Use:
    folder.mkdir()
    save_weights(folder / "w.safetensors", create_model("small_cnn", num_classes=2, in_chans=1, image_size=8, seed=1))
    return lambda: b"".join(value.numpy().tobytes() for value in read_state_dict(folder / "w.safetensors").values())


def kept_latents(folder: Path) -> Use:
    options = ImageOptions(store=folder)
    manifest = load_manifest(png_folder(folder.parent / "scans"), options)
    encoder = open_latents(f"autoencoder:{autoencoder_folder(folder.parent / 'small')}", (16, 16, 1))

    def use() -> bytes:
        found = load_latents(build_store(manifest, options, processes=1), encoder, device="cpu")
        return found.values.tobytes() + found.mean.tobytes() + found.std.tobytes()

    return use


def kept_looks(folder: Path) -> Use:
    images = np.random.default_rng(0).integers(0, 255, (90, 8, 8, 1), dtype=np.uint8)
    settings = {"images": 20, "quality": "none", "detector": "pixels", "looks": 2, "stop_on": "never"}

    def use() -> bytes:
        watch = MemorizationWatch(images[:30], images[30:60], out=folder, stop=False, **settings)
        for step in (1, 2):
            watch.look(step, images[20:40] if step == 1 else images[60:80])
        return repr([look.words for look in watch.looks]).encode() + watch.result().listed.to_csv().encode()

    return use


def kept_second_look(folder: Path) -> Use:
    train, held, made = parts(n_train=9, n_held=9, n_synthetic=9)
    named = {"train": train, "held": held, "synthetic": made}
    stores = {name: store_of(images, folder.parent, name) for name, images in named.items()}
    sets = Sets(**stores, shared_images=0, shared_patients=0, shared_hashes=frozenset(), notes=())

    def laid(strength: float) -> list[tuple[int, Alignment]]:
        return [(0, Alignment(np.eye(3)[:2], 0.5, (strength,), 0.25, (8, 8), (8, 8)))]

    folder.mkdir()
    with suppress(KeyboardInterrupt), kept_alignments(folder / ALIGNMENTS, sets) as kept:
        kept(["a"], lambda: laid(0.1 + 0.2))
        raise KeyboardInterrupt

    def use() -> bytes:
        shutil.copytree(folder, folder.parent / "going on", dirs_exist_ok=True)
        with kept_alignments(folder.parent / "going on" / ALIGNMENTS, sets) as kept:
            return repr(kept(["a"], lambda: laid(0.1 + 0.2))).encode()

    return use


def kept_settings(folder: Path) -> Use:
    with open_run(folder, {"lr": 0.125, "images": "scans", "run": {"seed": 3}}, identity=["run"]):
        (folder / ".lock").unlink()
    return lambda: repr(read_config(folder)).encode()


def kept_manifest(folder: Path) -> Use:
    manifest = write_images(folder.parent / "images", 9)
    folder.mkdir()
    replace(manifest, id_doubts=(IdDoubt("look-alikes", "2 ids", "another", ("p1",)),)).save(
        folder / "manifest.parquet"
    )

    def use() -> bytes:
        found = load_manifest(folder / "manifest.parquet", ImageOptions(image_root=folder.parent / "images"))
        return (found.table.to_csv() + repr(found.id_doubts)).encode()

    return use


def kept_thumbnails(folder: Path) -> Use:
    write_images(folder.parent / "images", 3)
    images = ViewedImages(folder, {"images": str(folder.parent / "images")}, CLASSIFIED_SOURCES)
    folder.mkdir()
    return lambda: b"".join(images.thumbnail(CLASSIFIED, row) for row in range(3))


UNREAD = (".lock", "result.sha256")  # of the seal two blanks of each line say nothing
KINDS = (
    *(kept_store, kept_features, kept_training, kept_checkpoint, kept_result, kept_arrays, kept_weights, kept_latents),
    *(kept_looks, kept_second_look, kept_settings, kept_manifest, kept_thumbnails),
)


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
