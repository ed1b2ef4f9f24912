"""A copy detector's folder: written and read to the bit, refused where it does not fit, and a source of features."""

import json
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import memorisk
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.copy_detectors import Detector, new_network, open_backbone
from memorisk.models.encoders.feature_sources import parse_source
from memorisk.models.provenance import CONFIG, SEEN, WEIGHTS, DetectorConfig, group_hashes
from memorisk.report.numbers import to_json
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_json, write_table
from memorisk.training.features.matrix import load_features
from tests.training.feature_images import png_folder


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageStore:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    options = ImageOptions(group_from=r"(p\d+)_")
    return build_store(load_manifest(png_folder(tmp_path / "images", twins=False), options), options, processes=1)


def make_detector(store: ImageStore, backbone: str = "small_cnn@none") -> Detector:
    """An untrained detector that has seen the first six images of the store in training, two in validation."""
    encoder = open_backbone(backbone, tuple(store.images.shape[1:]), seed=1)
    trunk, _ = encoder.load()
    config = DetectorConfig(
        kind="copy", backbone=encoder.name, weights=encoder.weights, weights_fingerprint=encoder.weights_fingerprint,
        preprocessing=encoder.preprocessing, stored=tuple(store.images.shape[1:]), depth=8, dimension=128,
        measure="cosine", loss="infonce", protocol="corrected", recipe={"lr": 1e-4}, departures=(), best_epoch=0,
        data_hash=store.data_hash, groups_given=True, versions={"torch": torch.__version__},
    )  # fmt: skip
    rows, groups = np.arange(8), group_hashes(store.manifest.groups, store.data_hash)
    part = np.where(rows < 6, "training", "validation")
    seen = pd.DataFrame({"part": part, "pixel_hash": store.pixel_hashes[rows], "group_hash": groups[rows]})
    return Detector(new_network(trunk, encoder.preprocessing, 128, 2), config, seen)


def test_a_saved_detector_gives_the_same_numbers(tmp_path: Path, store: ImageStore) -> None:
    made = make_detector(store)
    made.save(tmp_path / "detector")
    assert stat.S_IMODE((tmp_path / "detector").stat().st_mode) == 0o700
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in (tmp_path / "detector").iterdir())
    found = memorisk.load_detector(tmp_path / "detector")
    assert found.config == made.config
    values = found.embed(store.images, device="cpu")
    assert (values.shape, values.dtype) == ((12, 128), np.float32)
    np.testing.assert_array_equal(values, made.embed(store.images, device="cpu"))
    np.testing.assert_allclose(found.embed(store.images, device="cpu", batch=5), values, rtol=0, atol=1e-6)
    names = load_file(tmp_path / "detector" / WEIGHTS)
    assert "projection.weight" in names
    assert not any("head" in name for name in names)  # the backbone's own head has no part
    folder = "".join(path.read_text(errors="replace") for path in (tmp_path / "detector").iterdir())
    assert "p00" not in folder
    assert str(tmp_path) not in folder


def test_sixteen_bits_and_colours_are_taken_where_the_network_can(store: ImageStore) -> None:
    made = make_detector(store)
    deep = store.images.astype(np.uint16) * 257
    np.testing.assert_allclose(
        made.embed(deep, device="cpu"), made.embed(store.images, device="cpu"), rtol=0, atol=1e-6
    )
    colours = np.repeat(store.images, 3, axis=3)
    np.testing.assert_allclose(
        made.embed(colours, device="cpu"), made.embed(store.images, device="cpu"), rtol=0, atol=1e-6
    )
    with pytest.raises(InputError, match="needed are uint8 or uint16"):
        made.embed(store.images.astype(np.float32))


def test_a_detector_is_a_source_of_features(tmp_path: Path, store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # features are read again by their records
    made = make_detector(store)
    made.save(tmp_path / "d")
    source = parse_source(f"detector:{tmp_path / 'd'}")
    assert (source.kind, source.shown) == ("detector", "detector:d")
    features = load_features(store, source, device="cpu")
    np.testing.assert_allclose(features.values, made.embed(store.images, device="cpu"), rtol=0, atol=1e-6)
    assert features.described.state == "trained"
    assert any("trained by infonce (corrected protocol) from small_cnn" in note for note in features.described.notes)
    assert str(tmp_path) not in json.dumps(to_json(features.described))
    assert load_features(store, source, device="cpu").computed == 0
    with torch.no_grad():
        made.network.projection.bias.add_(1)
    made.save(tmp_path / "d")
    assert load_features(store, source, device="cpu").computed == 12
    with pytest.raises(InputError, match="has its own size"):
        load_features(store, source, size=32)
    with pytest.raises(InputError, match="of a detector does not exist"):
        parse_source(f"detector:{tmp_path / 'none'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no detector"):
        load_features(store, f"detector:{tmp_path / 'empty'}")


def test_it_says_which_images_and_patients_it_has_seen(tmp_path: Path, store: ImageStore) -> None:
    made = make_detector(store)
    seen = made.seen_parts(store)
    assert seen.pixels_compared
    assert seen.part.tolist() == ["training"] * 6 + ["validation"] * 2 + [""] * 4
    other = ImageOptions(group_from=r"(p\d+)_", size=8)
    smaller = build_store(load_manifest(tmp_path / "images", other), other, processes=1)
    by_patient = made.seen_parts(smaller)
    assert not by_patient.pixels_compared
    assert by_patient.part.tolist() == seen.part.tolist()
    alone = ImageOptions()  # nobody knows whose they are: only pixels can tell
    by_pixels = made.seen_parts(build_store(load_manifest(tmp_path / "images", alone), alone, processes=1))
    assert by_pixels.part.tolist() == seen.part.tolist()


def test_hashes_of_patients_are_keyed() -> None:
    groups = np.array(["p1", "p2", "p1"])
    one, two = group_hashes(groups, "a"), group_hashes(groups, "b")
    assert one[0] == one[2] != one[1]
    assert not set(one) & set(two)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / CONFIG).unlink(), "holds no detector"),
        (lambda f: (f / CONFIG).write_text("{"), "not a description of a detector"),
        (lambda f: (f / CONFIG).write_text("[1]"), "not a description of a detector"),
        (lambda f: _edit(f, kind="lcmen"), "unknown kind of detector 'lcmen'"),
        (lambda f: _edit(f, format=9), "its format is 9"),
        (lambda f: _edit(f, stored=None, drop=True), "it lacks stored"),
        (lambda f: _edit(f, preprocessing={"size": [8]}), "is damaged"),
        (lambda f: _edit(f, published={"version": "1", "licence": "MIT"}), "is damaged: published lacks data"),
        (lambda f: _edit(f, published=3), "is damaged"),
        (lambda f: _edit(f, earlier=True), "there is no earlier/origin.json in it"),
        (lambda f: _edit(f, dimension=64), r"projection.weight is \[128, 256\], not \[64, 256\]"),
        (lambda f: (f / WEIGHTS).write_bytes(b"no weights at all"), "is damaged, or of a format that is not read"),
        (lambda f: (f / WEIGHTS).unlink(), "weights file .* does not exist"),
        (lambda f: _tensors(f, lambda t: t.pop("projection.bias")), "projection.bias is missing"),
        (lambda f: _tensors(f, lambda t: t.update(more=torch.ones(1))), "more is unknown"),
        (lambda f: _tensors(f, lambda t: t["projection.bias"].fill_(float("nan"))), "projection.bias is not finite"),
        (lambda f: (f / SEEN).write_bytes(b"PAR1"), "cannot be read"),
        (lambda f: write_table(f / SEEN, pd.DataFrame({"part": ["training"]})), "cannot be read"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path, store: ImageStore, spoil, message: str) -> None:
    folder = tmp_path / "detector"
    make_detector(store).save(folder)
    spoil(folder)
    with pytest.raises(InputError, match=message):
        memorisk.load_detector(folder)


def _edit(folder: Path, *, drop: bool = False, **changes) -> None:
    found = json.loads((folder / CONFIG).read_text())
    kept = {k: v for k, v in found.items() if k not in changes} if drop else found | changes
    write_json(folder / CONFIG, kept)


def _tensors(folder: Path, change) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        ("pixels", "a detector's backbone is a network"),
        ("small_cnn", "need its pre-trained weights"),
        ("resnet5000@none", "unknown features 'resnet5000'"),
        ("resnet50@missing.safetensors", "weights file missing.safetensors for resnet50 does not exist"),
    ],
)
def test_a_backbone_that_is_none_is_refused(backbone: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_backbone(backbone, (16, 16, 1))


def test_a_network_of_timm_is_a_backbone(tmp_path: Path, store: ImageStore) -> None:
    made = make_detector(store, "timm:test_resnet@none")
    made.save(tmp_path / "d")
    found = memorisk.load_detector(tmp_path / "d")
    np.testing.assert_array_equal(
        found.embed(store.images[:2], device="cpu"), made.embed(store.images[:2], device="cpu")
    )
