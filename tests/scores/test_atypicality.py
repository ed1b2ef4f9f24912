"""Atypicality: equal to naive loops, free of a trend with class size where the centroid forms have one, refusals."""

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.scores.atypicality import (
    NO_OTHER_CLASS,
    NO_OTHER_GROUP,
    centroid_atypicality,
    normalised_features,
    pairwise_atypicality,
)

SIZES = (5, 10, 20, 40, 80, 160)


def some(n=60, d=7, n_classes=4, n_groups=22, seed=0):
    """Features off the origin, groups that may cross classes."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0.4, 1, (n, d)),
        rng.choice([f"c{i}" for i in range(n_classes)], n),
        rng.choice([f"g{i}" for i in range(n_groups)], n),
    )


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def naive_pairwise(f, label, group):
    intra, nearest = [], []
    for i in range(len(f)):
        mean = {}
        for c in set(label):
            others = [cosine(f[i], f[j]) for j in range(len(f)) if label[j] == c and group[j] != group[i]]
            mean[c] = 1 - np.mean(others) if others else np.nan
        intra.append(mean.pop(label[i]))
        nearest.append(np.nanmin(list(mean.values())))
    return np.array(intra), np.array(nearest)


def naive_centroid(f, label, leave_out):
    unit = f / np.sqrt((f**2).sum(axis=1))[:, None]
    intra, nearest = [], []
    for i in range(len(f)):
        of = {c: [j for j in range(len(f)) if label[j] == c] for c in set(label)}
        if leave_out:
            of[label[i]].remove(i)
        distance = {c: 1 - cosine(f[i], unit[rows].mean(axis=0)) for c, rows in of.items()}
        intra.append(distance.pop(label[i]))
        nearest.append(min(distance.values()))
    return np.array(intra), np.array(nearest)


@pytest.mark.parametrize("seed", range(3))
def test_pairwise_form_equals_naive_loops(seed):
    f, label, group = some(seed=seed)
    found = pairwise_atypicality(f, label, group)
    intra, nearest = naive_pairwise(f, label, group)
    np.testing.assert_allclose(found.intra, intra, rtol=1e-12)
    np.testing.assert_allclose(found.nearest_other, nearest, rtol=1e-12)
    np.testing.assert_allclose(found.ratio, intra / nearest, rtol=1e-12)
    assert set(found.reason) == {""}


@pytest.mark.parametrize("leave_out", [False, True])
def test_centroid_form_equals_naive_loops(leave_out):
    f, label, _ = some(seed=3)
    found = centroid_atypicality(f, label, leave_out=leave_out)
    intra, nearest = naive_centroid(f, label, leave_out)
    np.testing.assert_allclose(found.intra, intra, rtol=1e-12)
    np.testing.assert_allclose(found.nearest_other, nearest, rtol=1e-12)
    np.testing.assert_allclose(found.ratio, intra / nearest, rtol=1e-12)


def test_length_of_features_does_not_matter_and_rows_may_come_in_any_order():
    f, label, group = some()
    rng = np.random.default_rng(1)
    order = rng.permutation(len(f))
    scale = np.exp(rng.normal(0, 20, (len(f), 1)))
    found = pairwise_atypicality((f * scale)[order], label[order], group[order])
    np.testing.assert_allclose(found.ratio, pairwise_atypicality(f, label, group).ratio[order], rtol=1e-10)


def test_a_copy_of_the_same_patient_does_not_make_an_image_typical():
    f, label, group = some()
    twice = pairwise_atypicality(np.r_[f, f[:1]], np.r_[label, label[:1]], np.r_[group, group[:1]])
    assert twice.intra[0] == pytest.approx(pairwise_atypicality(f, label, group).intra[0], rel=1e-12)
    other = pairwise_atypicality(np.r_[f, f[:1]], np.r_[label, label[:1]], np.r_[group, ["new"]])
    assert other.intra[0] < twice.intra[0]


def test_what_cannot_be_had_says_why():
    rng = np.random.default_rng(0)
    f = rng.normal(size=(7, 4))
    label = np.array(["a", "a", "a", "b", "b", "b", "b"])
    group = np.array(["1", "1", "1", "1", "2", "3", "3"])
    found = pairwise_atypicality(f, label, group)
    assert found.reason[:3].tolist() == [NO_OTHER_GROUP] * 3
    assert np.isnan(found.intra[:3]).all()
    assert np.isnan(found.ratio[:3]).all()
    assert np.isfinite(found.nearest_other[:3]).all()  # class b has images of other groups
    assert found.reason[3] == NO_OTHER_CLASS
    assert np.isfinite(found.ratio[4:]).all()
    lonely = centroid_atypicality(f[:5], np.array(["a", "a", "a", "b", "c"]), leave_out=True)
    assert lonely.reason[3:].tolist() == [NO_OTHER_GROUP] * 2


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.__setitem__((2, 1), np.nan), r"1 feature rows hold NaN or infinities \(rows 2, "),
        (lambda f: f.__setitem__((slice(1, 9), 0), np.inf), r"8 feature rows .* \(rows 1, 2, 3, 4, 5, \.\.\., "),
        (lambda f: f.__setitem__(4, 0.0), r"all zero.* \(rows 4, "),
        (lambda f: f.__setitem__(5, 2.5), r"one value over and over \(rows 5, "),
        (lambda f: f.__setitem__(slice(None), f[0].copy()), "the same in every row"),
    ],
)
def test_features_that_say_nothing_are_refused(spoil, message):
    f, label, group = some()
    spoil(f)
    with pytest.raises(InputError, match=message):
        pairwise_atypicality(f, label, group)
    with pytest.raises(InputError, match=message):
        centroid_atypicality(f, label)


def test_shapes_and_classes_are_checked():
    f, label, group = some()
    with pytest.raises(InputError, match="label has the shape"):
        pairwise_atypicality(f, label[:-1], group)
    with pytest.raises(InputError, match="group has the shape"):
        pairwise_atypicality(f, label, group[:-1])
    with pytest.raises(InputError, match="of one class"):
        centroid_atypicality(f, np.full(len(f), "a"))
    with pytest.raises(InputError, match="shape"):
        normalised_features(f[:, 0])
    with pytest.raises(InputError, match="must be numbers"):
        normalised_features([["a", "b"]])
    np.testing.assert_allclose(np.linalg.norm(normalised_features(f * 1e-200), axis=1), 1)


def slopes(form, score, repeats=600):
    """Slope of the class mean of a score on log2 of the class's size, in repeats of classes of equal true spread."""
    found = []
    for repeat in range(repeats):
        rng = np.random.default_rng([11, repeat])
        label = np.repeat(np.arange(len(SIZES)), SIZES)
        centre = 5 * np.eye(len(SIZES), 24)  # one length, right angles: no class is wider or nearer than another
        f = centre[label] + rng.normal(0, 1.2, (len(label), 24))
        values = getattr(form(f, label, np.arange(len(label)) // 2), score)
        means = [values[label == c].mean() for c in range(len(SIZES))]
        found.append(np.polyfit(np.log2(SIZES), means, 1)[0])
    half = stats.t.ppf(0.975, repeats - 1) * np.std(found, ddof=1) / np.sqrt(repeats)
    return np.mean(found) - half, np.mean(found) + half


def test_only_the_pairwise_form_has_no_trend_with_class_size():
    """Equal true spread, sizes 5 to 160: the paper's form calls rare classes compact, leaving x out calls them wide."""
    pairwise = slopes(pairwise_atypicality, "intra")
    within = slopes(lambda f, label, group: centroid_atypicality(f, label), "intra")
    left_out = slopes(lambda f, label, group: centroid_atypicality(f, label, leave_out=True), "intra")
    assert pairwise[0] < 0 < pairwise[1]
    assert max(np.abs(pairwise)) < 0.0015  # a tenth of what either centroid form shows
    assert within[0] > 0.014
    assert left_out[1] < -0.014


def test_the_ratio_keeps_only_the_trend_of_a_minimum_over_noisy_means():
    """The minimum over the other classes falls with their noise: a rest of the trend, a tenth of the paper's form's."""
    low, high = slopes(pairwise_atypicality, "ratio")
    paper = slopes(lambda f, label, group: centroid_atypicality(f, label), "ratio")
    assert paper[0] > 0.018
    assert max(abs(low), abs(high)) < 0.15 * paper[0]
