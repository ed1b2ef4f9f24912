"""One feature matrix from any images: values, ids, what is said, what is kept, what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memorisk.images import file_hashes
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store, store_of_pixels
from memorisk.images.volumes import middle_slices
from memorisk.models.classifiers.specs import CAFFE_MEAN
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.encoders import networks as features_encoders
from memorisk.models.encoders.networks import Trunk
from memorisk.models.settings import DEFAULT_COMPARISONS
from memorisk.models.weight_files import save_weights
from memorisk.models.windows import GRIDS
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.detectors.pair_detectors import open_pair_detector
from memorisk.training.features import extraction as feature_extraction
from memorisk.training.features.cache import check_values, first_occurrences
from memorisk.training.features.extraction import extract_features, features_cost
from memorisk.training.features.matrix import load_features
from tests.counting import counted
from tests.training.feature_images import dicom_folder, png_folder
from tests.training.interrupted import interrupted_after

CPU = {"device": "cpu"}


@pytest.fixture
def options(tmp_path: Path) -> ImageOptions:
    return ImageOptions(store=tmp_path / "cache", group_from=r"(p\d+)_")


@pytest.fixture
def store(tmp_path: Path, options: ImageOptions) -> ImageStore:
    return build_store(load_manifest(png_folder(tmp_path / "set"), options), options, processes=1)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Of a small network that reads colours."""
    file = tmp_path / "small.safetensors"
    save_weights(file, create_model("small_resnet", num_classes=3, in_chans=3, image_size=16, seed=5))
    return file


def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*arguments: object, **named: object) -> None:
        raise AssertionError("the network was called")

    monkeypatch.setattr(Trunk, "forward", called)
    monkeypatch.setattr(feature_extraction, "_vectors", called)


def test_from_a_folder_to_a_matrix(tmp_path: Path, options: ImageOptions, weights: Path) -> None:
    folder = png_folder(tmp_path / "set")
    found = load_features(folder, f"small_resnet@{weights}", options=options, processes=1, **CPU)
    store = build_store(load_manifest(folder, options), options)
    assert found.values.dtype == np.float32
    assert found.values.shape == (12, found.described.dimension)
    assert found.ids.tolist() == store.manifest.images.tolist()
    assert found.groups.tolist() == [f"p{k // 2:02}" for k in range(12)]
    expected = extract_features("small_resnet", store.images, weights=weights)
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    said = found.described
    assert (said.state, said.precision, said.n, said.n_distinct) == ("pretrained", "fp32", 12, 10)
    assert said.weights == "small.safetensors"
    assert "stored at 16 x 16 pixels in 1 channel, grey repeated in three channels" in said.preprocessing
    assert any("gets images of 16 x 16 pixels and is made for 64 x 64" in note for note in said.notes)
    assert str(tmp_path) not in json.dumps(asdict(said)) + said.sentence
    assert f"{said.dimension} features an image by small_resnet, small.safetensors (pretrained; " in said.sentence


@pytest.mark.parametrize("source", [*DEFAULT_COMPARISONS, "small_cnn@none"])
def test_a_plan_counts_each_window_that_passes_the_network(store: ImageStore, source: str) -> None:
    detector = open_pair_detector(source)
    cost = features_cost(detector.source, [store.pixel_hashes], store.images.shape, detector.detector)
    with counted() as passed:
        load_features(store, source, **CPU)
    windows = 1 if detector.source.parts is None else GRIDS[detector.source.parts].n
    network = source != "details"
    assert passed.images_passed == cost.images_passed == 10 * windows * network
    assert (windows > 1) == (source in DEFAULT_COMPARISONS[1:-1])


def test_the_same_pixels_have_the_same_features_and_are_computed_once(store: ImageStore) -> None:
    for source in ("resnet10t@none", "small_cnn@none", "pixels", "pixels:7"):
        found = load_features(store, source, batch=5, **CPU)
        np.testing.assert_array_equal(found.values[[10, 11]], found.values[[0, 0]])
        assert found.computed == 10
        assert len(np.unique(found.values, axis=0)) == 10


@pytest.mark.parametrize("source", ["resnet10t@none", "small_vit@none", "pixels:7"])
def test_the_batch_size_changes_nothing(tmp_path: Path, options: ImageOptions, source: str) -> None:
    store = build_store(load_manifest(png_folder(tmp_path / "s", 21, twins=False), options), options, processes=1)
    extra = {} if source == "pixels:7" else {"size": 32} if source.startswith("resnet") else {"size": 16}
    whole, *others = (load_features(store, source, batch=b, cache=False, **extra, **CPU).values for b in (64, 1, 5, 20))
    assert whole.std(axis=0).max() > 1e-3
    for other in others:
        np.testing.assert_allclose(other, whole, rtol=0, atol=1e-6 * np.abs(whole).max())


def test_a_second_call_computes_nothing(
    store: ImageStore, weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = f"small_resnet@{weights}"
    first = load_features(store, source, **CPU)
    assert first.computed == 10
    moved = tmp_path / "elsewhere.safetensors"
    moved.write_bytes(weights.read_bytes())
    no_model(monkeypatch)
    for again in (source, f"small_resnet@{moved}"):
        second = load_features(store, again, **CPU)
        assert second.computed == 0
        assert isinstance(second.values, np.memmap)
        assert not second.values.flags.writeable
        np.testing.assert_array_equal(second.values, first.values)
        assert second.described.weights_fingerprint == first.described.weights_fingerprint
        assert second.described.notes == first.described.notes
    with pytest.raises(AssertionError, match="network was called"):
        load_features(store, source, size=24, **CPU)


def test_what_is_kept_is_private_and_beside_the_stores(store: ImageStore, tmp_path: Path) -> None:
    load_features(store, "pixels", **CPU)
    root = tmp_path / "cache" / "features"
    (folder,) = (p for p in root.iterdir() if p.is_dir())
    assert [p.stat().st_mode & 0o777 for p in (root, folder)] == [0o700, 0o700]
    files = ["meta.json", "rows.parquet", "values.npy"]
    assert sorted(p.name for p in folder.iterdir()) == sorted([*files, *(f"{name}.checksum" for name in files)])
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}
    assert pd.read_parquet(folder / "rows.parquet")["image"].tolist() == store.manifest.images.tolist()
    (folder / "values.npy").write_bytes(b"short")
    assert load_features(store, "pixels", **CPU).computed == 10


def test_other_pixels_weights_and_normalisation_are_other_features(
    store: ImageStore, weights: Path, tmp_path: Path
) -> None:
    base = load_features(store, f"small_resnet@{weights}", **CPU)
    other = load_features(store, f"small_resnet@{weights}", normalise="0.4/0.3", **CPU)
    assert other.computed == 10
    assert np.abs(other.values - base.values).max() > 1e-3
    assert "mean 0.4" in other.described.preprocessing
    save_weights(weights, create_model("small_resnet", num_classes=3, in_chans=3, image_size=16, seed=6))
    changed = load_features(store, f"small_resnet@{weights}", **CPU)
    assert changed.computed == 10
    assert changed.described.weights_fingerprint != base.described.weights_fingerprint


KILLED = """
import sys, os, time
from memorisk.images.options import ImageOptions
from memorisk.training.features import cache as feature_cache, matrix as feature_matrix
write = feature_cache._write
def slow(*arguments):
    write(*arguments)
    print("wrote", flush=True)
    time.sleep(0.3)
feature_cache._write = slow
options = ImageOptions(store=sys.argv[2], group_from=r"(p\\d+)_")
feature_matrix.load_features(sys.argv[1], "small_cnn@none", options=options, batch=2, device="cpu", processes=1)
"""


@pytest.mark.thorough
def test_a_killed_extraction_goes_on(tmp_path: Path, options: ImageOptions) -> None:
    folder = png_folder(tmp_path / "set", 20)
    command = [sys.executable, "-c", KILLED, str(folder), str(options.store)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    ) as child:
        assert child.stdout is not None
        for _ in range(3):
            assert child.stdout.readline() == "wrote\n"
        os.kill(child.pid, signal.SIGKILL)
    (building,) = (tmp_path / "cache" / "features").glob(".*.building")
    journal = (building / "journal.jsonl").read_text()
    assert journal.count("\n") >= 3
    (building / "journal.jsonl").write_text(journal + '{"start": 8, "sto')  # a line that a kill cut short
    found = load_features(folder, "small_cnn@none", options=options, processes=1, **CPU)
    assert 0 < found.computed <= 18 - 6
    assert not list((tmp_path / "cache" / "features").glob(".*.building"))
    whole = load_features(folder, "small_cnn@none", options=options, processes=1, cache=False, **CPU)
    assert whole.computed == 18
    np.testing.assert_allclose(found.values, whole.values, atol=1e-6)


def test_a_damaged_batch_of_a_killed_extraction_is_computed_again(store: ImageStore, tmp_path: Path) -> None:
    with interrupted_after(2):
        load_features(store, "pixels", batch=4, **CPU)
    (building,) = (tmp_path / "cache" / "features").glob(".*.building")
    values = np.load(building / "values.npy", mmap_mode="r+")
    values[1, 0] += 1
    values.flush()
    found = load_features(store, "pixels", batch=4, **CPU)
    assert found.computed == 6  # four of the first batch, two that were never there
    np.testing.assert_array_equal(found.values, load_features(store, "pixels", cache=False, **CPU).values)


def test_pixels_are_those_of_the_store(store: ImageStore) -> None:
    found = load_features(store, "pixels", **CPU)
    np.testing.assert_array_equal(found.values, (store.images.reshape(12, -1) / 255.0).astype(np.float32))
    assert found.described.state == "no network"
    assert found.described.precision == "fp64"
    assert load_features(store, "pixels:4", **CPU).values.shape == (12, 16)


def test_dicom_goes_straight_in(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    folder = dicom_folder(tmp_path / "dicom")
    found = load_features(
        folder, "resnet10t@none", options=ImageOptions(store=tmp_path / "c", depth=16), size=32, **CPU
    )
    assert found.values.shape[0] == 4
    assert found.groups.tolist() == ["patient0", "patient0", "patient1", "patient1"]
    assert found.described.notes[0].startswith("RANDOM WEIGHTS: resnet10t was never trained")
    assert any("is 16 x 16" in n or "enlarged to 32 x 32" in n for n in found.described.notes) is False
    deep = load_features(folder, "pixels", options=ImageOptions(store=tmp_path / "c", depth=16), **CPU).values
    shallow = load_features(folder, "pixels", options=ImageOptions(store=tmp_path / "c"), **CPU).values
    assert 0 < np.abs(deep - shallow).max() < 1 / 255
    assert deep.max() <= 1


def test_real_weights_real_images(shared_data: Path, tmp_path: Path) -> None:
    """SqueezeNet's published features tell CIFAR's classes; random ones do so worse, and say that they are random."""
    file = shared_data / "weights_squeezenet_imagenet" / "squeezenet11_features_derived_oihw.npz"
    options = ImageOptions(store=tmp_path / "c", sample=120, size=64)
    manifest = load_manifest(shared_data / "cifar10_jpg", options)
    store = build_store(manifest, options)
    trained = load_features(store, f"squeezenet1_1_caffe@{file}", **CPU)
    random = load_features(store, "squeezenet1_1_caffe@none", **CPU)
    assert trained.values.shape == random.values.shape == (120, 512)
    assert trained.described.state == "pretrained"
    assert not any("RANDOM" in note for note in trained.described.notes)
    assert any("gets images of 64 x 64 pixels and is made for 224 x 224" in n for n in trained.described.notes)
    assert (random.described.state, random.described.weights) == ("random", "random (seed 0)")
    assert f"{CAFFE_MEAN[0]:.4g}" in trained.described.preprocessing

    def nearest_agree(values: np.ndarray) -> float:
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)
        likeness = unit @ unit.T - 2 * np.eye(len(unit))
        return float((manifest.labels[likeness.argmax(axis=1)] == manifest.labels).mean())

    assert nearest_agree(trained.values) > nearest_agree(random.values)


def test_a_network_of_grey_images(store: ImageStore, tmp_path: Path, options: ImageOptions) -> None:
    """A file whose stem reads one channel gets one."""
    grey = create_model("small_cnn", num_classes=2, in_chans=1, image_size=16, seed=1)
    save_weights(tmp_path / "grey.safetensors", grey)
    found = load_features(store, f"small_cnn@{tmp_path / 'grey.safetensors'}", normalise="0.5/0.25", **CPU)
    x = torch.from_numpy(np.array(store.images)).float().permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        expected = Trunk(grey).eval()((x - 0.5) / 0.25).numpy()
    np.testing.assert_allclose(found.values, expected, atol=1e-5)
    coloured = png_folder(tmp_path / "colour", 4, colour=True)
    with pytest.raises(InputError, match="takes grey images and these have 3 channels"):
        load_features(coloured, f"small_cnn@{tmp_path / 'grey.safetensors'}", options=options, processes=1, **CPU)


def test_saved_features_are_matched_by_id(store: ImageStore, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values, order = rng.normal(size=(12, 3)).astype(np.float32), rng.permutation(12)
    ids = store.manifest.images.astype(str)
    np.savez(tmp_path / "f.npz", features=values[order], image=ids[order])
    found = load_features(store.manifest, tmp_path / "f.npz")
    np.testing.assert_array_equal(found.values, values)
    assert (found.described.state, found.described.source, found.described.notes) == ("saved", "f.npz", ())
    table = pd.DataFrame(values[order].astype(np.float64)).rename(columns=str)
    extra = pd.concat([table.assign(image=ids[order]), table[:1].assign(image="someone else")])
    extra.to_parquet(tmp_path / "f.parquet")
    found = load_features(store, str(tmp_path / "f.parquet"))
    np.testing.assert_array_equal(found.values, values)
    assert "1 rows of f.parquet belong to none of the images" in found.described.notes[0]
    np.save(tmp_path / "f.npy", values)
    found = load_features(store, tmp_path / "f.npy")
    assert isinstance(found.values, np.memmap)
    assert "f.npy has no ids" in found.described.notes[0]
    found.select([3, 1]).save(tmp_path / "two.npz")
    with pytest.raises(InputError, match="lack 10 images"):
        load_features(store, tmp_path / "two.npz")
    again = load_features(store.manifest.subset([1, 3]), tmp_path / "two.npz")
    np.testing.assert_array_equal(again.values, values[[1, 3]])
    np.save(tmp_path / "few.npy", values[:5])
    with pytest.raises(InputError, match="5 rows for 12 images: give one row per image in the order of the images"):
        load_features(store, tmp_path / "few.npy")


def test_select(store: ImageStore) -> None:
    found = load_features(store, "pixels:2", **CPU)
    some = found.select([5, 2, 2])
    np.testing.assert_array_equal(some.values, found.values[[5, 2, 2]])
    assert (some.ids.tolist(), some.groups.tolist()) == (found.ids[[5, 2, 2]].tolist(), ["p02", "p01", "p01"])
    assert (some.described.n, found.described.n, len(some)) == (3, 12, 3)
    mask = np.arange(12) < 4
    assert found.select(mask).ids.tolist() == found.ids[:4].tolist()
    with pytest.raises(InputError, match="a mask of 4 rows"):
        found.select(mask[:4])


def test_what_is_wrong_is_found(store: ImageStore, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    values[3, 1], values[7] = np.nan, 2.5
    values[:, 2] = 2.5
    np.save(tmp_path / "f.npy", values)
    found = load_features(store, tmp_path / "f.npy")
    ids = found.ids
    assert (found.checks.not_finite.tolist(), found.checks.constant_rows.tolist()) == ([3], [7])
    assert found.checks.constant_columns.tolist() == [2]
    said = " ".join(found.described.notes)
    assert f"1 image has features that are not finite ({ids[3]})" in said
    assert f"1 image has features that are all one number ({ids[7]})" in said
    assert "1 of 4 features are the same for every image" in said
    assert found.select([3, 7, 0]).checks.not_finite.tolist() == [0]
    assert found.select([3, 7, 0]).checks.constant_rows.tolist() == [1]
    large = np.arange(12.0)[:, None]
    large[::2] = 1e300
    np.save(tmp_path / "large.npy", large)
    assert len(load_features(store, tmp_path / "large.npy").checks.not_finite) == 6
    for wrong, message in (
        (np.full((12, 4), 0.3), "the same for all 12 images"),
        (np.full((12, 4), np.nan), "not finite"),
    ):
        np.save(tmp_path / "w.npy", wrong)
        with pytest.raises(InputError, match=rf"features by w\.npy are {message}"):
            load_features(store, tmp_path / "w.npy")


def test_a_network_that_sees_nothing_is_refused_and_not_kept(store: ImageStore, tmp_path: Path) -> None:
    model = create_model("small_resnet", num_classes=2, in_chans=3, image_size=16, seed=0)
    torch.nn.init.zeros_(model.get_submodule("stem.0").weight)
    save_weights(tmp_path / "dead.safetensors", model)
    for keep in (True, False):
        with pytest.raises(InputError, match="features by small_resnet are the same for all 12 images") as error:
            load_features(store, f"small_resnet@{tmp_path / 'dead.safetensors'}", cache=keep, **CPU)
        assert "\n" not in str(error.value)
    assert not [p for p in (tmp_path / "cache" / "features").iterdir() if p.is_dir()]


def test_images_that_are_all_one_are_not_the_encoders_fault(tmp_path: Path, options: ImageOptions) -> None:
    folder = png_folder(tmp_path / "one", 3, twins=True)
    (folder / "p00_0.png").unlink()
    found = load_features(folder, "pixels", options=options, processes=1, **CPU)
    assert found.described.n_distinct == 1
    assert not len(found.checks.constant_columns)


def test_checks_of_blocks_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from memorisk.training.features import cache as feature_checks

    values = np.random.default_rng(1).integers(0, 2, (50, 3)).astype(np.float32)
    values[::7, 1] = np.inf
    whole = check_values(values, "x")
    monkeypatch.setattr(feature_checks, "_AT_ONCE", 6)
    parts = check_values(values, "x")
    for name in ("not_finite", "constant_rows", "constant_columns"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_refusals(store: ImageStore, options: ImageOptions, weights: Path) -> None:
    def refuse(message: str, source: str = "pixels", **more: object) -> None:
        with pytest.raises(InputError, match=message):
            load_features(more.pop("images", store), source, **({"device": "cpu"} | more))

    refuse("precision bf16 is for a GPU", "small_cnn@none", precision="bf16")
    refuse("precision is 'half'", precision="half")
    refuse("batch is 0", "small_cnn@none", batch=0)
    refuse("size is 0", "small_cnn@none", size=0)
    refuse("size and normalise are a network's", size=8)
    refuse("take no options", options=options)
    refuse("leave it out", reference=[0, 1])
    refuse("pca:3 is fitted on reference images only", "pca:3")
    refuse("unknown device", device="tpu")
    refuse("images of 15 px cannot be cut", "small_vit@none", size=15)
    refuse("the file or folder does not exist", images="nowhere")


def test_nothing_is_loaded_for_features_that_are_there(store: ImageStore, tmp_path: Path, monkeypatch) -> None:
    """The file is only hashed; and not even that while it stands unchanged."""
    file = tmp_path / "resnet10t.safetensors"
    save_weights(file, create_model("resnet10t", num_classes=2, seed=0))
    os.utime(file, (0, 0))
    time.sleep(2.1)  # a file that was touched just now is not remembered
    first = load_features(store, f"resnet10t@{file}", size=32, **CPU)
    assert [n for n in first.described.notes if "32 x 32 pixels and was trained at 176 x 176" in n]

    def never(*arguments: object, **named: object) -> None:
        raise AssertionError("loaded or hashed again")

    monkeypatch.setattr(features_encoders, "create_model", never)
    monkeypatch.setattr(file_hashes, "file_sha256", never)
    assert load_features(store, f"resnet10t@{file}", size=32, **CPU).computed == 0
    file.write_bytes(file.read_bytes()[:-4] + b"abcd")
    with pytest.raises(MemoriskError, match="hashed again"):
        load_features(store, f"resnet10t@{file}", size=32, **CPU)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30))
def test_the_first_of_equal_pixels_stands_for_all(hashes: list[str]) -> None:
    assert first_occurrences(np.array(hashes, dtype=object)).tolist() == [hashes.index(h) for h in hashes]


def test_real_dicom(shared_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    options = ImageOptions(store=tmp_path / "c", size=48, depth=16, skip_unreadable=True, layout="dicom")
    found = load_features(
        shared_data / "dicom_pydicom" / "test_files", "small_resnet@none", options=options, processes=1, **CPU
    )
    assert len(found) > 20
    assert np.isfinite(found.values).all()
    assert len(np.unique(found.values, axis=0)) == found.described.n_distinct


def test_downloaded_weights_are_known_by_their_tensors(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    from memorisk.models.classifiers import zoo

    asked = []

    def download(full: str, sized: dict[str, int]) -> torch.nn.Module:
        asked.append(full)
        return timm.create_model("resnet10t", pretrained=False, **sized)

    monkeypatch.setattr(zoo, "_download", download)
    found = load_features(store, "timm:resnet10t@default", size=32, **CPU)
    assert (found.described.state, found.described.weights) == ("pretrained", "c3_in1k, downloaded")
    assert load_features(store, "resnet10t@c3_in1k", size=32, **CPU).computed == 0
    assert asked == ["resnet10t.c3_in1k"] * 2


@pytest.mark.parametrize("source", ["default", "default:views", "details", "pixels"])
def test_features_of_a_volume_are_those_of_its_middle_slices_window_by_window(tmp_path: Path, source: str) -> None:
    nib, rng = pytest.importorskip("nibabel"), np.random.default_rng(0)
    for name in "abcd":
        values = rng.integers(0, 255, (16, 16, 16)).astype(np.uint8)
        (tmp_path / "set").mkdir(exist_ok=True)
        nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / "set" / f"{name}.nii")
    options = ImageOptions(store=tmp_path / "cache", frames="volume", size=16)
    store = build_store(load_manifest(tmp_path / "set", options), options)
    found = load_features(store, source, **CPU)
    if source == "pixels":
        np.testing.assert_array_equal(found.values, np.float32(store.images.reshape(4, -1) / 255))
        assert found.described.preprocessing.startswith("all voxels of volumes")
        with pytest.raises(InputError, match="volumes are compared as they are stored: leave :8 out"):
            load_features(store, "pixels:8", **CPU)
        return
    slices = np.stack([cut for volume in store.images for cut in middle_slices(volume)])
    of_slices = load_features(store_of_pixels(slices, store, "slices"), source, **CPU).values
    windows = GRIDS["views"].n if source.endswith("views") else 1
    expected = of_slices.reshape(4, 3, windows, -1).transpose(0, 2, 1, 3).reshape(4, -1)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5)
    assert "three middle slices of volumes stored at 16 x 16 x 16 voxels" in found.described.preprocessing
    detector = open_pair_detector(source)
    cost = features_cost(detector.source, [store.pixel_hashes], store.images.shape, detector.detector)
    assert cost.images_passed == (0 if source == "details" else 4 * 3 * windows)
    assert cost.bytes_features == found.values.nbytes
    again = load_features(store, source, batch=2, **CPU)
    np.testing.assert_array_equal(again.values, found.values)
