"""The table of quality: names, references at equal numbers, features of one encoder."""

import numpy as np
import pytest

from memorisk.audits.quality.figures import measure_quality
from memorisk.audits.quality.options import FIGURES
from memorisk.models.feature_description import FeatureDescription
from memorisk.runs.errors import InputError
from memorisk.training.features.cache import check_values
from memorisk.training.features.matrix import Features


def features(values, *, source="resnet50@weights.safetensors", state="pretrained", groups=None):
    n, d = values.shape
    ids = np.array([f"{source[:3]}{i}" for i in range(n)], dtype=object)
    described = FeatureDescription(
        source=source, encoder=source, weights="", weights_fingerprint="w", state=state, preprocessing="",
        precision="fp32", dimension=d, n=n, n_distinct=n, notes=(),
    )  # fmt: skip
    checks = check_values(values, source)
    return Features(values.astype(np.float32), ids, ids if groups is None else groups, described, checks)


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(0)
    return tuple(features(rng.normal(shift, 1, size=(n, 4)) + 2) for shift, n in ((0, 60), (0.5, 50), (0, 20)))


def test_every_figure_names_its_features_and_numbers(sets):
    train, synthetic, held = sets
    found = measure_quality(train, synthetic, held)
    assert tuple(found.table["figure"]) == FIGURES
    assert found.of("FID")["name"] == "FID (resnet50, 50 synthetic, 60 real images)"
    assert found.of("recall")["better"] == "higher"
    row = found.of("FID")
    assert (row["n_reference"], row["n_real_patients"], row["n_reference_patients"]) == (20, 60, 20)
    assert row["reference"] < row["same_number"]  # at the same number the shifted set is farther
    assert row["same_number"] > row["estimate"]  # and FID is larger of fewer images
    assert row["low"] < row["estimate"] < row["high"]
    with pytest.raises(InputError, match="Did you mean 'precision'"):
        found.of("precison")


def test_held_out_images_are_measured_as_synthetic_ones_would_be(sets):
    train, synthetic, held = sets
    found = measure_quality(train, synthetic, held, figures=("KID", "FID", "coverage"))
    alone = measure_quality(train, held, figures=("FID", "KID", "coverage"))
    for name in ("FID", "KID", "coverage"):
        assert found.of(name)["reference"] == alone.of(name)["estimate"]
    assert np.isnan(alone.table["reference"]).all()
    more = measure_quality(train, held, synthetic, figures=("FID",)).of("FID")
    assert more["same_number"] == more["estimate"]
    assert more["n_reference"] == 20


def test_held_out_patients_are_units_and_irs_then_has_no_interval(sets):
    train, synthetic, held = sets
    several = features(np.asarray(held.values), groups=np.arange(20).astype(str).astype(object))
    grouped = features(np.asarray(held.values), groups=(np.arange(20) // 2).astype(str).astype(object))
    one, two = (measure_quality(train, synthetic, h, figures=("IRS", "FID")) for h in (several, grouped))
    assert one.of("IRS")["reference"] == two.of("IRS")["reference"]
    assert one.of("IRS")["reference_low"] < one.of("IRS")["reference"]
    assert np.isnan(two.of("IRS")["reference_low"])
    assert two.of("FID")["n_reference_patients"] == 10


def test_what_a_figure_cannot_do_is_told_in_its_row_and_spoils_no_other(sets):
    train, synthetic, _ = sets
    black = np.array(synthetic.values)
    black[3] = 0
    found = measure_quality(train, features(black))
    assert np.isnan(found.of("MiFID")["estimate"])
    assert "cosine is undefined" in str(found.of("MiFID")["method"])
    assert found.of("FID")["estimate"] > 0
    few = measure_quality(train, synthetic.select(np.arange(4)))
    assert "at least 6" in str(few.of("density")["method"])


def test_features_of_two_encoders_do_not_compare(sets):
    train, synthetic, _ = sets
    other = features(np.asarray(synthetic.values), source="densenet@w")
    with pytest.raises(InputError, match="and by densenet@w do not compare"):
        measure_quality(train, other)
    with pytest.raises(InputError, match="of 4 and of 3 numbers"):
        measure_quality(train, features(np.asarray(synthetic.values)[:, :3]))
    with pytest.raises(InputError, match="unknown figure"):
        measure_quality(train, synthetic, figures=("IS",))
    random = measure_quality(
        *(features(np.asarray(s.values), state="random") for s in (train, synthetic)), figures=("FID",)
    )
    assert "resnet50, random weights" in str(random.of("FID")["name"])
