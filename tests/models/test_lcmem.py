"""A Siamese detector over latents: its stem, its folder, and probabilities that are the same both ways round."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import memorisk
from memorisk.models.lcmem import ENCODER, FORMS, LatentDetector, by_sample, latent_trunk, new_branch, stem_stride
from memorisk.models.provenance import CONFIG, SEEN, WEIGHTS
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_json
from memorisk.scores.pairs import score
from memorisk.training.detectors.lcmem.inputs import build_initial_network
from memorisk.training.detectors.options import LatentOptions
from memorisk.training.features.matrix import load_features
from tests.training.siamese import TINY, latents_of, patients


def made(tmp_path: Path, kind: str = "lcmem") -> LatentDetector:
    """An untrained detector of 16-pixel images."""
    latents = latents_of(patients(tmp_path, n=4))
    options = LatentOptions(kind=kind, backbone="convnext_atto@none", dimension=24, device="cpu").filled()  # pyright: ignore
    start = build_initial_network(latents, options)
    seen = memorisk_seen(latents.store.manifest.groups[:3]) if latents.store else None
    assert seen is not None
    return LatentDetector(start.branch.eval(), latents.encoder, start.config, seen)


def memorisk_seen(groups: np.ndarray):
    """Hashes of a few patients."""
    import pandas as pd

    from memorisk.models.provenance import group_hashes

    return pd.DataFrame({"part": "training", "pixel_hash": "x", "group_hash": group_hashes(groups, "key")})


@pytest.mark.parametrize(
    ("name", "kernels"), [("convnext_atto", {64: 4, 16: 4, 8: 3}), ("resnet10t", {64: 3, 16: 3, 8: 3})]
)
@pytest.mark.parametrize("side", [64, 16, 8])
def test_latents_of_any_size_reach_the_last_layer(name: str, kernels: dict[int, int], side: int) -> None:
    shape = (4, side, side)
    trunk = latent_trunk(name, "none", shape, 0)
    branch = new_branch(trunk, shape, FORMS["lcmem"], 24, 0)
    stem = next(module for module in trunk.modules() if isinstance(module, nn.Conv2d))
    full = 4 if name.startswith("convnext") else 2
    assert stem.stride == (stem_stride(full, side),) * 2
    assert stem.kernel_size == (kernels[side],) * 2
    u = branch(torch.randn(2, *shape))
    assert u.shape == (2, 24)
    assert 0 < u.min() <= u.max() < 1
    with torch.no_grad():
        last = trunk.network.forward_features(torch.randn(2, *shape))  # pyright: ignore
    assert last.shape[-1] == max(1, side // 32)


def test_latents_below_eight_pixels_are_refused() -> None:
    with pytest.raises(InputError, match="needs 8 px a side"):
        latent_trunk("convnext_atto", "none", (4, 4, 4), 0)


def test_each_channel_of_a_latent_is_normalised_by_itself() -> None:
    x = torch.randn(3, 2, 8, 8) * torch.tensor([3.0, 0.1])[:, None, None] + 5
    x[0, 1] = 7.25
    found = by_sample(x)
    assert found[0, 1].abs().max() == 0
    rest = torch.cat([found[1:].reshape(4, -1), found[0, :1].reshape(1, -1)])
    torch.testing.assert_close(rest.mean(dim=1), torch.zeros(5), atol=1e-5, rtol=0)
    torch.testing.assert_close(rest.std(dim=1, correction=0), torch.full((5,), 0.5), atol=1e-5, rtol=0)


def test_a_saved_detector_gives_the_same_numbers(tmp_path: Path) -> None:
    detector, images = made(tmp_path), patients(tmp_path, n=4).images
    detector.save(tmp_path / "detector")
    found = memorisk.load_detector(tmp_path / "detector")
    assert isinstance(found, LatentDetector)
    assert found.config == detector.config
    np.testing.assert_array_equal(found.embed(images, device="cpu"), detector.embed(images, device="cpu"))
    head, again = detector.head, found.head
    assert head is not None
    assert again is not None
    np.testing.assert_array_equal(head.weight, again.weight)
    found.save(tmp_path / "twice")
    for file in ("weights.safetensors", "detector.json", "seen.parquet", "encoder/encoder.json"):
        assert (tmp_path / "twice" / file).read_bytes() == (tmp_path / "detector" / file).read_bytes()


def test_a_probability_is_the_heads_and_the_same_both_ways_round(tmp_path: Path) -> None:
    detector, images = made(tmp_path), patients(tmp_path, n=4).images
    a, b = images[:9], images[1:10]
    found = detector.probability(a, b, device="cpu")
    np.testing.assert_array_equal(found, detector.probability(b, a, device="cpu"))
    np.testing.assert_array_equal(found, detector.probability(a, b, device="cpu"))
    head = detector.head
    assert head is not None
    u, v = (detector.embed(x, device="cpu") for x in (a, b))
    logits = np.diag(score(u, v, head.weight, head.bias))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits)), rtol=1e-9)
    assert detector.probability(a[:1], a[:1], device="cpu")[0] == pytest.approx(1 / (1 + np.exp(-head.bias)))
    assert (head.weight < 0).all()  # before it is trained, nothing is as alike as an image and itself
    assert (found < 1 / (1 + np.exp(-head.bias))).all()


def test_the_nearest_are_those_of_all_pairs_by_its_measure(tmp_path: Path) -> None:
    detector, images = made(tmp_path), patients(tmp_path, n=4).images
    found = detector.nearest(images[:3], images, k=2, device="cpu")
    values = detector.embed(images, device="cpu").astype(np.float64)
    asked = detector.embed(images[:3], device="cpu").astype(np.float64)
    distances = np.abs(asked[:, None] - values).sum(axis=2)
    np.testing.assert_array_equal(found.indices, np.argsort(distances, axis=1, kind="stable")[:, :2])
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :2], rtol=1e-12)


def test_latents_are_compared_without_their_images(tmp_path: Path) -> None:
    detector, latents = made(tmp_path), latents_of(patients(tmp_path, n=4))
    found = detector.embed_latents(latents.values, device="cpu")
    assert latents.store is not None
    np.testing.assert_allclose(found, detector.embed(latents.store.images, device="cpu"), atol=1e-6)
    with pytest.raises(InputError, match=r"\[N, 1, 16, 16\]"):
        detector.embed_latents(latents.values[:, :, :8], device="cpu")


@pytest.mark.parametrize(("kind", "sigmoid"), [("siamese", True), ("siamese-ntxent", False)])
def test_the_baselines_are_normalised_by_the_data_set(tmp_path: Path, kind: str, sigmoid: bool) -> None:
    detector, images = made(tmp_path, kind), patients(tmp_path, n=4).images
    darker = (images * 0.5).astype(np.uint8)
    assert not np.allclose(detector.embed(images, device="cpu"), detector.embed(darker, device="cpu"), atol=1e-3)
    u = detector.embed(images, device="cpu")
    assert ((u > 0) & (u < 1)).all() == sigmoid
    if kind == "siamese-ntxent":
        assert detector.head is None
        assert detector.config.measure == "cosine"
        with pytest.raises(InputError, match="gives no probabilities: compare its features by cosine"):
            detector.probability(images, images)


@pytest.mark.parametrize("damage", ["missing", "unknown", "shape", "nan"])
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "detector"
    made(tmp_path).save(folder)
    tensors = load_file(folder / WEIGHTS)
    if damage == "missing":
        del tensors["head.weight"]
    elif damage == "unknown":
        tensors["other"] = torch.zeros(1)
    elif damage == "shape":
        tensors["head.weight"] = torch.zeros(1, 25)
    else:
        tensors["projection.bias"][0] = float("nan")
    save_file(tensors, folder / WEIGHTS)
    said = {
        "missing": "head.weight is missing",
        "unknown": "other is unknown",
        "shape": "is \\[1, 25\\]",
        "nan": "finite",
    }
    with pytest.raises(InputError, match=said[damage]):
        memorisk.load_detector(folder)


def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "detector"
    made(tmp_path).save(folder)
    found = json.loads((folder / CONFIG).read_text())
    write_json(folder / CONFIG, {name: value for name, value in found.items() if name != "latent_shape"})
    with pytest.raises(InputError, match="it lacks latent_shape"):
        memorisk.load_detector(folder)
    write_json(folder / CONFIG, found | {"latent_shape": [1, 32, 32]})
    with pytest.raises(InputError, match="the encoder gives latents"):
        memorisk.load_detector(folder)
    write_json(folder / CONFIG, found)
    (folder / SEEN).write_bytes(b"")
    with pytest.raises(InputError, match=r"seen.parquet cannot be read"):
        memorisk.load_detector(folder)
    (folder / ENCODER / "encoder.json").unlink()
    with pytest.raises(InputError, match="holds no encoder of latents"):
        memorisk.load_detector(folder)


def test_it_is_a_source_of_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    detector, store = made(tmp_path), patients(tmp_path, n=4)
    detector.save(tmp_path / "detector")
    found = load_features(store, f"detector:{tmp_path / 'detector'}", device="cpu")
    np.testing.assert_allclose(found.values, detector.embed(store.images, device="cpu"), atol=1e-6)
    assert "lcmem, bce + ntxent" in found.described.encoder


def test_default_settings_are_the_papers() -> None:
    filled = LatentOptions().filled()
    assert (filled.backbone, filled.dimension, filled.stages) == ("convnext_tiny@none", 512, 2)
    first, second = filled.stage(1), filled.stage(2)
    assert (first.batch_size, first.lr, first.epochs, first.patience) == (512, 5e-4, 100, 10)
    assert (second.batch_size, second.lr, second.epochs, second.patience) == (64, 8e-5, 20, 5)
    assert (filled.bce_share, filled.temperature, filled.sample_normalisation) == (0.8, 0.07, 0.01)
    assert TINY.filled().bce_share == 0.8
