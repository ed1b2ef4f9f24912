"""MiFID against its definition, and the threshold of its penalty."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.quality import memorization_informed as quality_mifid
from memorisk.statistics.quality.figures import check_samples
from memorisk.statistics.quality.frechet import frechet, frechet_distance
from memorisk.statistics.quality.memorization_informed import mifid_figure, nearest_cosines


def mifid(real, synthetic, **settings):
    samples = check_samples(real, synthetic)
    return mifid_figure(samples, frechet(samples), **settings)


def naive_distance(real, synthetic):
    near = []
    for y in synthetic:
        near.append(min(1 - abs(x @ y) / np.linalg.norm(x) / np.linalg.norm(y) for x in real))
    return np.mean(near)


@pytest.fixture
def sets():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 6)) + 1, rng.normal(1.2, 1, size=(30, 6))


def test_it_is_fid_over_the_distance_below_the_threshold_only(sets):
    s, fid = naive_distance(*sets), frechet_distance(*sets)
    below = mifid(*sets, threshold=2 * s)
    assert below.penalised
    assert below.distance == pytest.approx(s, rel=1e-12)
    assert below.figure.estimate == pytest.approx(fid.estimate / (s + 10e-15), rel=1e-12)
    above = mifid(*sets, threshold=s / 2)
    assert not above.penalised
    assert above.figure.estimate == fid.estimate
    assert (above.figure.low, above.figure.high) == pytest.approx((fid.low, fid.high))


def test_near_the_threshold_chance_decides_and_there_is_no_interval(sets):
    found = mifid(*sets, threshold=naive_distance(*sets) * 1.01).figure
    assert np.isnan(found.low)
    assert "too near to it" in found.method


def test_the_distance_of_copies_is_too_near_to_zero_for_an_interval(sets):
    real, _ = sets
    copies = real[:30] * (1 + 1e-6 * np.random.default_rng(1).normal(size=(30, 6)))
    found = mifid(real, copies)
    assert found.penalised
    assert found.figure.estimate > 1e6 * frechet_distance(real, copies).estimate
    assert np.isnan([found.figure.low, found.figure.high]).all()
    assert "limits reach 0" in found.figure.method


def test_copies_and_mirrored_directions_are_at_distance_zero_exactly(sets):
    real, synthetic = sets
    found = nearest_cosines(check_samples(real, np.concatenate([synthetic[:3], 2.5 * real[5:6], -real[9:10]])))
    assert found.first[3:].max() < 1e-30
    assert (found.unit[3:] == [5, 9]).all()


def test_the_second_is_of_another_patient_in_any_blocks(sets, monkeypatch):
    real, synthetic = sets
    patient = np.arange(40) // 8
    whole = nearest_cosines(check_samples(real, synthetic, patient))
    monkeypatch.setattr(quality_mifid, "_AT_ONCE", 100)
    blocks = nearest_cosines(check_samples(real, synthetic, patient))
    for j, y in enumerate(synthetic):
        cosines = 1 - np.abs(real @ y) / np.linalg.norm(real, axis=1) / np.linalg.norm(y)
        assert whole.first[j] == pytest.approx(cosines.min(), abs=1e-14)
        assert whole.second[j] == pytest.approx(cosines[patient != patient[cosines.argmin()]].min(), abs=1e-14)
        assert blocks.second[j] == pytest.approx(whole.second[j], abs=1e-14)


def test_zero_features_have_no_cosine(sets):
    real, synthetic = sets
    with pytest.raises(InputError, match="cosine is undefined"):
        mifid(real, np.where(np.arange(30)[:, None] == 4, 0, synthetic))
