"""The detector `default` comes with memorisk: the word names it everywhere, and it has seen nobody."""

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memorisk
from memorisk.audits.comparison.knowledge import known_patients
from memorisk.audits.filter.options import filter_options
from memorisk.audits.synthesize.options import synthesize_options
from memorisk.audits.synthetic.options import synthetic_options
from memorisk.audits.watch.options import watch_options
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.models.copy_detectors import Detector, load_detector
from memorisk.models.encoders.feature_sources import DEFAULT_DETECTOR_FOLDER, parse_source
from memorisk.models.provenance import read_config
from memorisk.models.settings import DEFAULT_COMPARISONS
from memorisk.report.numbers import to_json
from memorisk.runs.errors import InputError
from memorisk.runs.settings import settings_of
from memorisk.scores.distances import fit_measure, pairwise
from memorisk.studies.pairs.options import BenchCopiesOptions, BenchReidOptions
from memorisk.training.detectors.pair_detectors import open_pair_detector
from memorisk.training.features.compute_backend import needed_files
from memorisk.training.features.matrix import load_features
from tests.training.feature_images import png_folder


def smooth_images(n: int, size: int, channels: int = 1) -> np.ndarray:
    """[n, size, size, channels] uint8 of a few waves each."""
    rng = np.random.default_rng(n * size)
    place = np.arange(size) / size
    waves = [rng.normal(size=(n, 1, 1, channels)) * np.cos(f * np.pi * place)[:, None, None] for f in range(6)]
    along = [rng.normal(size=(n, 1, 1, channels)) * np.cos(f * np.pi * place)[:, None] for f in range(6)]
    image = sum(waves) + sum(along)
    low, high = (f(image, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
    return (255 * (image - low) / (high - low)).astype(np.uint8)


@pytest.fixture(scope="module")
def default() -> Detector:
    found = memorisk.load_detector("default")
    assert isinstance(found, Detector)
    return found


def test_it_embeds_images_of_any_size_and_colour(default: Detector) -> None:
    grey = smooth_images(6, 64)
    values = default.embed(grey, device="cpu")
    assert (values.shape, values.dtype) == ((6, 128), np.float32)
    np.testing.assert_allclose(default.embed(np.repeat(grey, 3, axis=3), device="cpu"), values, rtol=0, atol=1e-5)
    for images in (smooth_images(2, 28), smooth_images(2, 100, 3), smooth_images(2, 64, 3).astype(np.uint16)):
        assert np.isfinite(default.embed(images, device="cpu")).all()
    with pytest.raises(InputError, match="needed are uint8 or uint16"):
        default.embed(grey[..., 0])


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ([np.zeros((8, 8, 3), np.uint8)], "images are a list; needed is an array"),
        (np.zeros((2, 8, 8), np.uint8), r"images\[..., None\]"),
        (np.zeros((2, 8, 8, 4), np.uint8), r"a fourth channel, transparency, is left out"),
        (np.zeros((2, 3, 8, 8), np.uint8), r"needed are uint8 or uint16 \[N, H, W, C\], C 1 or 3"),
        (np.zeros((2, 8, 8, 3), np.float32), "images are float32"),
    ],
)
def test_other_arrays_are_refused(images: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_detector("default").embed(images)


def test_a_misspelt_name_is_told_of_the_one_in_the_box() -> None:
    with pytest.raises(InputError, match=r"defualt holds no detector: the folder does not exist.*`default` is the one"):
        load_detector("defualt")


def test_the_nearest_are_those_of_all_pairs(default: Detector) -> None:
    references = smooth_images(30, 48)
    queries = references[[7, 3, 21]] // 2 + 60
    found = default.nearest(queries, references, k=2, device="cpu")
    assert found.indices.shape == found.distances.shape == (3, 2)
    assert found.indices[:, 0].tolist() == [7, 3, 21]
    asked, known = (default.embed(images, device="cpu") for images in (queries, references))
    all_pairs = pairwise(asked, known, fit_measure(default.config.measure, known))
    np.testing.assert_array_equal(found.indices, np.argsort(all_pairs, axis=1, kind="stable")[:, :2])
    np.testing.assert_array_equal(found.distances, np.sort(all_pairs, axis=1)[:, :2])


def test_the_word_wins_over_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: Detector
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "default").mkdir()
    assert load_detector("default").config == default.config
    for another in ("./default", Path("default")):
        with pytest.raises(InputError, match="default holds no detector"):
            load_detector(another)
    default.save("default")
    assert open_pair_detector("default").name == "default, whitened"
    for folder in ("./default", "detector:default"):
        assert open_pair_detector(folder).name == "detector:default, whitened"


def test_it_is_a_source_of_features_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # features are read again by their records
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    source = parse_source("default")
    assert (source.kind, source.shown, source.folder) == ("detector", "default", DEFAULT_DETECTOR_FOLDER)
    assert needed_files(source) == ()  # every worker has its own
    store = build_store(load_manifest(png_folder(tmp_path / "images", twins=False)), ImageOptions(), processes=1)
    features = load_features(store, source, device="cpu")
    described = json.dumps(to_json(features.described))
    assert str(DEFAULT_DETECTOR_FOLDER.parent) not in described
    assert features.described.encoder == "default (copy_resnet, infonce)"
    assert any("no image of any person was in its training" in note for note in features.described.notes)
    load_detector("default").save(tmp_path / "moved")  # features are kept by what the weights are
    assert load_features(store, f"detector:{tmp_path / 'moved'}", device="cpu").computed == 0


def test_it_has_seen_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: Detector) -> None:
    """Neither size nor missing ids leave that open."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    folder = png_folder(tmp_path / "images", twins=False)
    for options in (ImageOptions(), ImageOptions(group_from=r"(p\d+)_", size=8)):
        store = build_store(load_manifest(folder, options), options, processes=1)
        seen = default.seen_parts(store)
        assert seen.pixels_compared
        assert set(seen.part) == {""}
        known = known_patients(default, store)
        assert known is not None
        assert known.patients == 0


def test_commands_that_look_for_copies_take_it() -> None:
    assert synthetic_options({}).sources == DEFAULT_COMPARISONS
    assert filter_options({"calibration": "new"}).detector == ("default",)
    assert synthesize_options({"generator": "g"}).detector == ("default",)
    assert watch_options({}).detector == "default"
    assert settings_of(BenchCopiesOptions, {}).detectors[0] == "default"
    assert "default" not in settings_of(BenchReidOptions, {}).detectors  # which is about people


def test_its_folder_says_what_it_is() -> None:
    files = {"detector.json", "weights.safetensors", "seen.parquet", "MODEL_CARD.md"}
    assert {path.name for path in DEFAULT_DETECTOR_FOLDER.iterdir()} == files
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444 for path in DEFAULT_DETECTOR_FOLDER.iterdir())
    assert sum(path.stat().st_size for path in DEFAULT_DETECTOR_FOLDER.iterdir()) < 20_000_000
    card = (DEFAULT_DETECTOR_FOLDER / "MODEL_CARD.md").read_text("utf-8")
    published = read_config(DEFAULT_DETECTOR_FOLDER).published
    assert published["licence"] == "Apache-2.0"
    assert all(value in card for value in published.values())
