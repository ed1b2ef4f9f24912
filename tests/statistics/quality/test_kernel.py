"""KID against torch-fidelity and a naive sum; the jackknife against leaving out."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch_fidelity.metric_kid import KEY_METRIC_KID_MEAN, KEY_METRIC_KID_STD, kid_features_to_metric

from memorisk.runs.errors import InputError
from memorisk.statistics.quality import kernel as quality_kernel
from memorisk.statistics.quality.kernel import kernel_distance, subset_kernel_distance


def naive(x, y):
    def k(a, b):
        return (a @ b / len(a) + 1) ** 3

    within = [np.mean([k(a, b) for i, a in enumerate(s) for j, b in enumerate(s) if i != j]) for s in (x, y)]
    return within[0] + within[1] - 2 * np.mean([k(a, b) for a in x for b in y])


@pytest.fixture
def sets():
    rng = np.random.default_rng(0)
    return rng.normal(size=(24, 5)), rng.normal(0.4, 1.1, size=(18, 5))


def test_all_pairs_are_the_definition_in_any_blocks(sets, monkeypatch):
    assert kernel_distance(*sets).estimate == pytest.approx(naive(*sets), rel=1e-12)
    whole = kernel_distance(*sets)
    monkeypatch.setattr(quality_kernel, "_AT_ONCE", 50)
    assert kernel_distance(*sets).estimate == pytest.approx(whole.estimate, rel=1e-12)
    assert kernel_distance(*sets).high == pytest.approx(whole.high, rel=1e-9)


def test_subsets_are_those_of_torch_fidelity(sets):
    theirs = kid_features_to_metric(
        torch.tensor(sets[1]), torch.tensor(sets[0]), kid_subsets=7, kid_subset_size=10, rng_seed=3, verbose=False
    )
    ours = subset_kernel_distance(*sets, subsets=7, size=10, seed=3)
    assert ours.mean == pytest.approx(theirs[KEY_METRIC_KID_MEAN], rel=1e-12)
    assert ours.deviation == pytest.approx(theirs[KEY_METRIC_KID_STD], rel=1e-12)
    everything = subset_kernel_distance(sets[0][:18], sets[1], subsets=1, size=18)
    assert everything.mean == pytest.approx(kernel_distance(sets[0][:18], sets[1]).estimate, rel=1e-12)
    with pytest.raises(InputError, match="cannot be drawn"):
        subset_kernel_distance(*sets, size=19)


def test_the_jackknife_leaves_out_whole_patients(sets, monkeypatch):
    real, synthetic = sets
    patient = np.repeat(np.arange(8), 3)
    seen = []
    monkeypatch.setattr(
        quality_kernel, "deleted_contributions", lambda deleted: seen.append(deleted) or np.zeros(len(deleted))
    )
    kernel_distance(real, synthetic, patient)
    without = [naive(real[patient != g], synthetic) for g in range(8)]
    np.testing.assert_allclose(seen[0], without, rtol=1e-10)
    others = [naive(real, np.delete(synthetic, j, axis=0)) for j in range(18)]
    np.testing.assert_allclose(seen[1], others, rtol=1e-10)


def test_the_interval_covers():
    rng = np.random.default_rng(2)
    found = [kernel_distance(rng.normal(size=(80, 4)), rng.normal(size=(80, 4))) for _ in range(200)]
    assert sum(one.low <= 0 <= one.high for one in found) >= stats.binom.ppf(0.001, 200, 0.95)
    far = [kernel_distance(rng.normal(size=(80, 4)), rng.normal(0.5, 1, size=(80, 4))) for _ in range(200)]
    mean = np.mean([one.estimate for one in far])
    assert sum(one.low <= mean <= one.high for one in far) >= stats.binom.ppf(0.001, 200, 0.93)
    assert sum(one.low <= 0 for one in far) < 100
