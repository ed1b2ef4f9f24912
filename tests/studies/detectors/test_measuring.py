"""Distances of the pools against definitions; the published form against SciPy and NumPy alone."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from memorisk.scores.distances import PAPER_MEASURES, pairwise
from memorisk.studies.detectors.measurement import fit_corrected, measure_pools
from memorisk.studies.detectors.pools import NULLS, POOLS, Parts
from tests.scores.distances.test_published_distances import as_published


@pytest.fixture(scope="module")
def space() -> tuple[np.ndarray, dict[str, np.ndarray], Parts]:
    """Features of 60 images in 5 columns, of copies near them, and a division with a train pool cut to size."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 5)).astype(np.float32)
    part = np.array(
        ["train"] * 20 + ["validation"] * 12 + ["test"] * 12 + ["null"] * 8 + ["test_null"] * 8, dtype=object
    )
    pools = {"train": np.arange(3, 15), "validation": np.arange(20, 32), "test": np.arange(32, 44)}
    order = rng.permutation(60)  # parts do not lie one after the other
    place = np.argsort(order)
    parts = Parts(part[order], np.arange(60), {p: np.sort(place[rows]) for p, rows in pools.items()}, np.arange(60))
    near = features[parts.copied] + 0.3 * rng.normal(size=(44, 5)).astype(np.float32)
    return features, {"weak": near, "strong": near + 0.5 * rng.normal(size=(44, 5)).astype(np.float32)}, parts


@pytest.mark.parametrize("name", PAPER_MEASURES)
def test_every_measure_is_the_definition_in_both_forms(name: str, space) -> None:
    features, copies, parts = space
    found = measure_pools(name, features, copies, parts, domain="shift", threads=1)
    measure = fit_corrected(name, features[parts.rows("train")], domain="shift")
    assert str(found["words"]) == measure.plain_words
    for pool in POOLS:
        rows = parts.pools[pool]
        null = pairwise(features[parts.rows(NULLS[pool])], features[rows], measure)
        np.testing.assert_allclose(found[f"null_{pool}"], null.min(axis=1), rtol=1e-6)
        for strength, values in copies.items():
            own = values[np.searchsorted(parts.copied, rows)]
            asked = pairwise(own, features[rows], measure)
            np.testing.assert_allclose(found[f"{strength}_{pool}_distance"], asked.min(axis=1), rtol=1e-6)
            assert (found[f"{strength}_{pool}_index"] == rows[asked.argmin(axis=1)]).all()
    sign = -1 if name in ("cosine", "correlation") else 1
    train, validation = parts.rows("train"), parts.rows("validation")
    baseline = as_published(name, features[train].astype(float), features[validation].astype(float))
    np.testing.assert_allclose(sign * found["published_baseline"], baseline, rtol=1e-5)
    for pool, rows in (("train", train), ("validation", validation)):
        asked = copies["strong"][np.searchsorted(parts.copied, rows)].astype(float)
        expected = as_published(name, asked, features[rows].astype(float))
        np.testing.assert_allclose(sign * found[f"published_strong_{pool}_score"], expected, rtol=1e-5)
        new = as_published(name, features[parts.rows("null", "test_null")].astype(float), features[rows].astype(float))
        np.testing.assert_allclose(sign * found[f"published_null_{pool}"], new, rtol=1e-5)


def test_the_measure_is_fitted_once_on_training_images(space) -> None:
    """Whatever is asked, the same pair is at the same distance: the published form's is not."""
    features, copies, parts = space
    found = measure_pools("seuclidean", features, copies, parts, domain="shift", threads=1)
    scale = features[parts.rows("train")].astype(float).std(axis=0, ddof=1)
    for pool in POOLS:
        rows = parts.pools[pool]
        nearest = cdist(features[parts.rows(NULLS[pool])] / scale, features[rows] / scale).min(axis=1)
        np.testing.assert_allclose(found[f"null_{pool}"], nearest, rtol=1e-5)


def test_the_domain_is_met_where_it_is_needed(space) -> None:
    features, copies, parts = space
    said = {
        domain: str(measure_pools("braycurtis", features, copies, parts, domain=domain, threads=1)["words"])
        for domain in ("shift", "softplus", "signed")
    }
    assert "column minimum" in said["shift"]
    assert "log(1 + exp x)" in said["softplus"]
    assert "as SciPy computes it" in said["signed"]
    positive = {s: np.abs(v) for s, v in copies.items()}
    plain = measure_pools("braycurtis", np.abs(features), positive, parts, domain="shift", threads=1)
    assert str(plain["words"]) == "braycurtis"


def test_what_a_form_does_not_take_is_said_in_its_place(space) -> None:
    features, copies, parts = space
    zero = features.copy()
    zero[parts.pools["test"][0]] = 0
    found = measure_pools("cosine", zero, copies, parts, domain="shift", threads=1)
    assert "zero" in str(found["refused"])
    assert "null_test" not in found
    constant = features.copy()
    constant[:, 2] = 1
    same = {s: np.where(np.arange(5) == 2, np.float32(1), v) for s, v in copies.items()}
    found = measure_pools("seuclidean", constant, same, parts, domain="shift", threads=1)
    assert "columns without variance to divide by: 1" in str(found["published_refused"])
    assert "1 constant columns ignored" in str(found["words"])
