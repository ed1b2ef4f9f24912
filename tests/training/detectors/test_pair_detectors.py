"""Any detector as one thing."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError
from memorisk.scores.similarity import MeasureSimilarity
from memorisk.training.detectors.pair_detectors import open_pair_detector


@pytest.fixture(scope="module")
def digit_store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    options = ImageOptions(store=tmp_path_factory.mktemp("store"))
    return build_store(load_manifest("digits"), options)


def test_pixels_are_compared_by_euclidean_distance(digit_store: ImageStore) -> None:
    detector = open_pair_detector("pixels:4")
    found = detector.features(digit_store)
    similarity = detector.similarity(found.values)
    assert isinstance(similarity, MeasureSimilarity)
    x = found.values.astype(np.float64)
    assert np.allclose(similarity.scores(x[:9], x[9:18]), -np.linalg.norm(x[:9] - x[9:18], axis=1))
    assert not detector.fits
    assert detector.name == "pixels:4, euclidean"


def test_a_measure_may_be_named(digit_store: ImageStore) -> None:
    detector = open_pair_detector("pixels:4", measure="mahalanobis")
    assert detector.fits
    values = detector.features(digit_store).values
    similarity = detector.similarity(values)
    assert isinstance(similarity, MeasureSimilarity)
    assert similarity.measure.references == len(values)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Did you mean .cosine."):
        open_pair_detector("pixels:4", measure="cosin")
    with pytest.raises(InputError):
        open_pair_detector(tmp_path)  # a folder without a detector
