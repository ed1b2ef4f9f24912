"""Passes of images as jobs: the features of one pass, to the bit, wherever the images lie."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest
import torch

from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.stacked_images import StackedImages
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.weight_files import save_weights
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import Placement
from memorisk.training.features import compute_backend as feature_jobs
from memorisk.training.features.compute_backend import FeatureJob, FeatureWork, run_features
from memorisk.training.features.matrix import load_features

NETWORK = "small_cnn@none"


def store_of(images: np.ndarray, folder: Path) -> ImageStore:
    """A store of any array of images."""
    names = [f"{row}" for row in range(len(images))]
    table = pd.DataFrame({"image": names, "path": "", "label": "", "group": names}, dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in images[:]], dtype=object)
    return ImageStore(images, Manifest(table, None, "set"), "set", folder / "stores" / "set", nothing, hashes)


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    """Images of a file on shared storage and others of memory, mixed, some of them twice."""
    pixels = np.random.default_rng(0).integers(0, 256, (150, 8, 8, 1)).astype(np.uint8)
    np.save(tmp_path / "images.npy", pixels[:110])
    order = np.concatenate([np.random.default_rng(1).permutation(150), [3, 140]])
    stacked = StackedImages([np.load(tmp_path / "images.npy", mmap_mode="r"), pixels[110:]], order)
    return store_of(cast(np.ndarray, stacked), tmp_path)


def work(folder: Path) -> FeatureWork:
    """All jobs in this process."""
    (folder / "jobs").mkdir(exist_ok=True)
    return FeatureWork(Placement(folders=(folder,)), folder / "jobs", torch.get_num_threads())


def test_features_are_those_of_one_pass(store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorisk.training.engine.predict.MAX_BATCH", 16)
    jobs: list[FeatureJob] = []
    monkeypatch.setattr(feature_jobs, "run_jobs", lambda f, some, **_: [jobs.append(job) or f(job) for job in some])
    here = load_features(store, NETWORK, cache=False)
    there = load_features(store, NETWORK, cache=False, work=work(tmp_path))
    assert np.array_equal(there.values, here.values)
    assert [job.n for job in jobs] == [16] * 9 + [6]  # images with the same pixels are computed once
    assert {Path(piece.path).name for job in jobs for piece in job.pieces if piece.shared is None} == {"images.npy"}
    assert not any(Path(piece.path).exists() for job in jobs for piece in job.pieces if piece.shared is not None)
    load_features(store, NETWORK, cache=False, work=work(tmp_path))
    assert len(jobs) == 10
    torn = Path(jobs[4].answer)
    torn.write_bytes(torn.read_bytes()[:-4])
    again = load_features(store, NETWORK, cache=False, work=work(tmp_path))
    assert np.array_equal(again.values, here.values)
    assert len(jobs) == 11


def test_few_images_and_pixels_stay_here(store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_jobs, "run_jobs", lambda *_, **__: pytest.fail("a job was sent"))
    for source in (NETWORK, "pixels"):
        here = load_features(store, source, cache=False)
        asked = load_features(store, source, cache=False, work=work(tmp_path))
        assert np.array_equal(asked.values, here.values)


def test_a_worker_with_other_weights_is_refused(
    store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memorisk.training.engine.predict.MAX_BATCH", 64)
    jobs: list[FeatureJob] = []
    monkeypatch.setattr(feature_jobs, "run_jobs", lambda f, some, **_: [jobs.append(job) or f(job) for job in some])
    file = tmp_path / "weights.safetensors"
    for seed in (0, 1):
        save_weights(
            file, create_model("small_cnn", num_classes=2, in_chans=1, image_size=8, weights="none", seed=seed)
        )
        load_features(store, f"small_cnn@{file}", cache=False, work=work(tmp_path))  # the file was replaced: read again
    assert len({job.identity for job in jobs}) == 2
    with pytest.raises(
        InputError, match=r"small_cnn@weights.safetensors is not what it is where the command was given"
    ):
        run_features(replace(jobs[0], answer=str(tmp_path / "other.npy")))
