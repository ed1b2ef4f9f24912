"""Latents of a set: values, the set's own statistics, what is kept, and latents that are given."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.latents import LatentEncoder, external_encoder, load_encoder, open_latents, save_encoder
from memorisk.runs.errors import InputError
from memorisk.training.autoencoders import latent_store
from memorisk.training.autoencoders.latent_store import (
    STATISTICS,
    Latents,
    channel_statistics,
    load_latents,
    read_latents,
)
from tests.models.small_autoencoder import autoencoder_folder
from tests.training.feature_images import png_folder
from tests.training.interrupted import interrupted_after

CPU = {"device": "cpu"}


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    options = ImageOptions(store=tmp_path / "cache", group_from=r"(p\d+)_")
    return build_store(load_manifest(png_folder(tmp_path / "set"), options), options, processes=1)


@pytest.fixture
def encoder(tmp_path: Path) -> LatentEncoder:
    return open_latents(f"autoencoder:{autoencoder_folder(tmp_path / 'small')}", (16, 16, 1))


def kept(tmp_path: Path) -> Path:
    (folder,) = (f for f in (tmp_path / "cache" / "latents").iterdir() if f.is_dir())
    return folder


def test_latents_of_a_store_are_those_of_the_encoder(store: ImageStore, encoder: LatentEncoder) -> None:
    found = load_latents(store, encoder, **CPU)
    assert found.values.shape == (12, 4, 4, 4)
    assert found.values.dtype == np.float32
    assert not found.values.flags.writeable
    assert (found.ids.tolist(), found.groups[:3].tolist()) == (store.manifest.images.tolist(), ["p00", "p00", "p01"])
    x = torch.from_numpy(np.array(store.images)).float().div(255).movedim(-1, 1)
    with torch.inference_mode():
        expected = encoder.load()(x).numpy()
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    assert found.computed == 10  # twelve images, two of them with the pixels of the first
    np.testing.assert_array_equal(found.values[[10, 11]], found.values[[0, 0]])
    np.testing.assert_allclose(found.mean, found.values.astype(np.float64).mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(found.std, found.values.astype(np.float64).std(axis=(0, 2, 3)), rtol=1e-12)
    assert found.data_hash == store.data_hash


def test_they_are_kept_by_content_and_a_saved_encoder_finds_them(
    store: ImageStore, encoder: LatentEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_latents(store, encoder, **CPU)
    save_encoder(encoder, tmp_path / "saved")

    def called(*arguments: object) -> None:
        raise AssertionError("the encoder was loaded")

    monkeypatch.setattr(latent_store, "_FlatEncoder", called)
    monkeypatch.setattr(latent_store, "channel_statistics", called)
    again = load_latents(store, load_encoder(tmp_path / "saved"), **CPU)
    assert again.computed == 0
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(again.mean, first.mean)
    monkeypatch.undo()
    (kept(tmp_path) / STATISTICS).write_text("{")
    np.testing.assert_array_equal(load_latents(store, encoder, **CPU).std, first.std)
    other = load_latents(store, open_latents("pixels:8", (16, 16, 1)), **CPU)
    assert other.computed == 10


def test_an_interrupted_computation_goes_on(store: ImageStore, tmp_path: Path) -> None:
    with interrupted_after(2):
        load_latents(store, "pixels", batch=4, **CPU)
    found = load_latents(store, "pixels", batch=4, **CPU)
    assert found.computed == 2
    assert kept(tmp_path).joinpath(STATISTICS).is_file()
    np.testing.assert_array_equal(found.values, load_latents(store, "pixels", cache=False, **CPU).values)


def test_pixels_of_any_source(tmp_path: Path) -> None:
    options = ImageOptions(store=tmp_path / "cache", depth=16)
    found = load_latents(png_folder(tmp_path / "set", colour=True), "pixels", options=options, **CPU)
    assert found.store is not None
    assert found.store.images.dtype == np.uint16
    expected = np.moveaxis(found.store.images, -1, 1).astype(np.float64) / 65535 * 2 - 1
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    with pytest.raises(InputError, match="take no options"):
        load_latents(found.store, "pixels", options=options)
    grey = LatentEncoder(
        name="grey", kind="pixels", channels=1, size=(4, 4), latent_shape=(1, 4, 4), identity={}, load=torch.nn.Identity
    )
    with pytest.raises(InputError, match="takes grey images and these have 3 channels"):
        load_latents(found.store, grey, **CPU)


def test_an_encoder_that_breaks_its_word_is_refused(store: ImageStore) -> None:
    def wrong(load, shape=(1, 16, 16)) -> LatentEncoder:
        return LatentEncoder(
            name="odd", kind="other", channels=1, size=(16, 16), latent_shape=shape, identity={"odd": 1}, load=load
        )

    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x.sum(dim=(1, 2, 3), keepdim=True) > 128, x, torch.nan)

    with pytest.raises(InputError, match=r"odd gives latents of shape \[1, 16, 16\], not \[2, 16, 16\]"):
        load_latents(store, wrong(torch.nn.Identity, (2, 16, 16)), cache=False, **CPU)
    with pytest.raises(InputError, match=r"latents by odd are not finite for \d+ images"):
        load_latents(store, wrong(Broken), cache=False, **CPU)
    with pytest.raises(InputError, match="their encoder is not known"):
        load_latents(store, external_encoder("given", (1, 16, 16)), cache=False, **CPU)


@given(
    n=st.integers(1, 9),
    c=st.integers(1, 3),
    side=st.integers(1, 3),
    at_once=st.integers(1, 40),
    shift=st.sampled_from([0.0, 1e3, -1e4]),
)
def test_statistics_are_exact_however_the_set_is_cut(n: int, c: int, side: int, at_once: int, shift: float) -> None:
    values = np.random.default_rng(n).normal(shift, 1, (n, c, side, side)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latent_store, "_AT_ONCE", at_once)
        mean, std = channel_statistics(values)
    whole = values.astype(np.float64)
    np.testing.assert_allclose(mean, whole.mean(axis=(0, 2, 3)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(std, whole.std(axis=(0, 2, 3)), rtol=1e-9, atol=1e-12)


def written(tmp_path: Path, kind: str, values: np.ndarray, **columns: list[str]) -> Path:
    file = tmp_path / f"given.{kind}"
    if kind == "npz":
        np.savez(file, latents=values, **{name: np.array(column) for name, column in columns.items()})
    else:
        np.save(file, values)
        pd.DataFrame(columns).to_csv(file.with_suffix(".csv"), index=False)
    return file


@pytest.mark.parametrize("kind", ["npz", "npy"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_latents_that_are_given(tmp_path: Path, kind: str, dtype: type) -> None:
    values = np.random.default_rng(0).normal(size=(5, 2, 3, 3)).astype(dtype)
    columns = {"image": list("abcde"), "group": ["p", "p", "", "q", "q"], "dataset": ["x"] * 5, "split": ["train"] * 5}
    file = written(tmp_path, kind, values, **columns)
    found = read_latents(f"latents:{file}")
    np.testing.assert_array_equal(found.values, values.astype(np.float32))
    assert found.ids.tolist() == list("abcde")
    assert found.groups.tolist() == ["p", "p", "c", "q", "q"]  # whose image is not known is its own
    assert found.manifest.table["dataset"].tolist() == ["x"] * 5
    assert found.encoder.latent_shape == (2, 3, 3)
    assert found.store is None
    np.testing.assert_allclose(found.std, values.astype(np.float32).astype(np.float64).std(axis=(0, 2, 3)), rtol=1e-12)
    same = read_latents(written(tmp_path, kind, values, **columns))
    assert same.data_hash == found.data_hash
    changed = values.copy()
    changed[4, 0, 0, 0] += 1
    assert read_latents(written(tmp_path, kind, changed, **columns)).data_hash != found.data_hash


def test_given_latents_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    values, ids = np.ones((2, 1, 2, 2), np.float32), ["a", "b"]

    def refused(match: str, found: np.ndarray = values, kind: str = "npz", **columns: list[str]) -> None:
        with pytest.raises(InputError, match=match):
            read_latents(written(tmp_path, kind, found, **columns))

    refused("float32 of shape", values[0], image=ids)
    refused("bool of shape", values > 0, image=ids)
    refused("name no images", image_id=ids)
    refused("have 2 rows and 3 ids", image=["a", "b", "c"])
    refused("occur more than once", image=["a", "a"])
    refused("empty image id", image=["a", ""])
    refused(
        r"not finite for 1 images \(b\)", np.where(np.arange(8).reshape(2, 1, 2, 2) == 5, np.inf, values), image=ids
    )
    with pytest.raises(InputError, match=r"file of latents .* does not exist"):
        read_latents(tmp_path / "absent.npz")
    np.save(tmp_path / "bare.npy", values)
    with pytest.raises(InputError, match=r"put bare\.csv next to it"):
        read_latents(tmp_path / "bare.npy")
    assert isinstance(read_latents(tmp_path / "bare.npy", table=pd.DataFrame({"image": ids})), Latents)
    np.savez(tmp_path / "objects.npz", latents=np.array([{}, {}], dtype=object), image=ids)
    with pytest.raises(InputError, match="cannot be read"):
        read_latents(tmp_path / "objects.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(InputError, match="cannot be read"):
        read_latents(tmp_path / "text.npz")
