"""Principal components of pixels: exact, signed, of the reference images alone, kept."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.encoders.networks import PixelPca
from memorisk.runs.errors import InputError
from memorisk.training.features import matrix as feature_matrix
from memorisk.training.features import pca as feature_pca
from memorisk.training.features.matrix import load_features
from memorisk.training.features.pca import fit_pixel_pca
from tests.training.feature_images import png_folder


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    options = ImageOptions(store=tmp_path / "cache")
    return build_store(load_manifest(png_folder(tmp_path / "set", 30, 8), options), options, processes=1)


def naive(images: np.ndarray, components: int) -> PCA:
    flat = images.reshape(len(images), -1) / (255 if images.dtype == np.uint8 else 65535)
    return PCA(components, svd_solver="full").fit(flat)


@pytest.mark.parametrize(("n", "shape"), [(400, (6, 5, 1)), (20, (9, 8, 3)), (20, (9, 8, 1))])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_it_is_scikit_learns_and_has_a_sign(n: int, shape: tuple[int, int, int], dtype: type, monkeypatch) -> None:
    monkeypatch.setattr(feature_pca, "_BLOCK_VALUES", 7 * int(np.prod(shape)))  # several blocks, the last one short
    images = np.random.default_rng(n).integers(0, np.iinfo(dtype).max, (n, *shape), dtype=dtype)
    found, peer = fit_pixel_pca(images, 6), naive(images, 6)
    signs = np.sign((found.directions * peer.components_).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.directions, signs * peer.components_, atol=1e-10)
    np.testing.assert_allclose(found.variance, peer.explained_variance_, rtol=1e-10)
    assert found.explained == pytest.approx(peer.explained_variance_ratio_.sum())
    np.testing.assert_allclose(found.mean, peer.mean_, atol=1e-14)
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(6), atol=1e-12)
    largest = np.abs(found.directions).argmax(axis=1)
    assert (found.directions[np.arange(6), largest] > 0).all()


def test_only_the_reference_images_are_fitted(store: ImageStore) -> None:
    rows = np.arange(30) < 12
    found = load_features(store, "pca:4", reference=rows, device="cpu")
    peer = naive(store.images[:12], 4)
    expected = peer.transform(store.images.reshape(30, -1) / 255)
    np.testing.assert_allclose(np.abs(found.values), np.abs(expected), atol=1e-6)
    assert (found.described.state, found.described.weights) == ("fitted", "fitted on 12 reference images")
    fit = fit_pixel_pca(store.images, 4, rows=np.flatnonzero(rows))
    by_hand = (store.images.reshape(30, -1) / 255 - fit.mean) @ fit.directions.T
    np.testing.assert_array_equal(found.values, by_hand.astype(np.float32))
    again = load_features(store, fit, device="cpu")
    assert again.computed == 0
    np.testing.assert_array_equal(again.values, found.values)


def test_a_fit_is_kept_and_applied_to_other_images(store: ImageStore, tmp_path: Path, monkeypatch) -> None:
    options = ImageOptions(store=tmp_path / "cache")
    other = build_store(load_manifest(png_folder(tmp_path / "other", 5, 8), options), options, processes=1)
    here = load_features(other, "pca:3", reference=store, device="cpu")
    load_features(store, "pca:3", reference=store, device="cpu")

    def never(*arguments: object, **named: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(feature_matrix, "fit_pixel_pca", never)
    assert load_features(other, "pca:3", reference=store, device="cpu").computed == 0
    (file,) = (tmp_path / "cache" / "features").glob("pca-*.npz")
    assert file.stat().st_mode & 0o777 == 0o600
    fit = PixelPca.load(file)
    saved = load_features(other, f"pca:3@{file}", device="cpu")
    np.testing.assert_array_equal(saved.values, here.values)
    assert load_features(other, "pca:3", reference=fit, device="cpu").computed == 0
    with pytest.raises(AssertionError, match="fitted again"):
        load_features(other, "pca:3", reference=np.arange(4), device="cpu")


def test_resized_pixels(store: ImageStore) -> None:
    found = load_features(store, "pca:2:4", reference=store, device="cpu")
    small = load_features(store, "pixels:4", device="cpu").values.astype(np.float64)
    expected = PCA(2, svd_solver="full").fit_transform(small)
    np.testing.assert_allclose(np.abs(found.values), np.abs(expected), atol=1e-5)
    assert found.described.encoder == "pca:2:4"


def test_ties_and_mirrors_do_not_decide_a_sign() -> None:
    images = np.zeros((4, 2, 2, 1), dtype=np.uint8)
    images[[0, 1], 0, 0], images[[2, 3], 1, 1] = 200, 200
    first = fit_pixel_pca(images, 1).directions
    assert first[0, 0] > 0  # the two largest entries are opposite and equal: the first of them counts
    np.testing.assert_allclose(fit_pixel_pca(images[::-1], 1).directions, first, atol=1e-12)


def test_refusals(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 31 reference images"):
        fit_pixel_pca(store.images, 30)
    same = np.repeat(store.images[:2], 5, axis=0)
    with pytest.raises(InputError, match="span 1 of the 3 requested components"):
        fit_pixel_pca(same, 3)
    with pytest.raises(InputError, match="span 0 of the 1 requested components"):
        fit_pixel_pca(same[:4], 1)
    fit = fit_pixel_pca(store.images, 3)
    options = ImageOptions(store=tmp_path / "cache")
    with pytest.raises(InputError, match="fitted on pixels"):
        load_features(png_folder(tmp_path / "big", 5, 9), fit, options=options, processes=1, device="cpu")
    fit.save(tmp_path / "fit.npz")
    with pytest.raises(InputError, match=r"pca:4@fit\.npz is requested, and what was fitted is pca:3"):
        load_features(store, f"pca:4@{tmp_path / 'fit.npz'}", device="cpu")
    np.savez(tmp_path / "bad.npz", mean=np.zeros(3))
    (tmp_path / "worse.npz").write_bytes(b"PK no zip")
    for bad in ("bad.npz", "worse.npz"):
        with pytest.raises(InputError, match="cannot be read"):
            load_features(store, f"pca:3@{tmp_path / bad}", device="cpu")
    with pytest.raises(InputError, match="a mask of 3"):
        load_features(store, "pca:2", reference=np.array([True, True, False]), device="cpu")


def test_a_limit_of_size(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_pca, "_LARGEST", 20)
    with pytest.raises(InputError, match=r"is too large: resize \(pca:2:32\) or fit on at most 20"):
        fit_pixel_pca(store.images, 2)
    fit_pixel_pca(store.images, 2, side=4)
    fit_pixel_pca(store.images, 2, rows=np.arange(20))
