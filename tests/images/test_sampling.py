"""Stratified samples: shares kept within one image, every image equally likely, groups and seeds as said."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from memorisk.images.manifest import Manifest, sample_manifest, sample_sizes
from memorisk.images.options import ImageOptions
from memorisk.images.published.digits import digits_manifest
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError


def _manifest(labels: list[str], groups: list[str] | None = None) -> Manifest:
    ids = [f"i{k:04d}" for k in range(len(labels))]
    table = pd.DataFrame({"image": ids, "path": ids, "label": labels, "group": groups or ids}, dtype=object)
    return Manifest(table=table, root=None, name="made")


def test_sizes_are_proportional_within_one_and_add_up() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(0, 2000, rng.integers(1, 20))
        n = int(rng.integers(0, counts.sum() + 1))
        sizes = sample_sizes(counts, n)
        assert sizes.sum() == n
        assert (sizes <= counts).all()
        assert np.abs(sizes - n * counts / max(counts.sum(), 1)).max() < 1


def test_largest_remainders_by_hand() -> None:
    """n counts / N = 1.6, 3.2, 3.2: the one left over goes to the first."""
    assert sample_sizes(np.array([2, 4, 4]), 8).tolist() == [2, 3, 3]
    assert sample_sizes(np.array([1, 1, 1]), 2).tolist() == [1, 1, 0]
    with pytest.raises(InputError, match="a sample of 4 cannot be drawn from 3 images"):
        sample_sizes(np.array([1, 2]), 4)


def test_chestxray_as_in_the_paper() -> None:
    """51,759 images with a finding, 50,000 drawn: 110 first-listed Hernias leave 106."""
    counts = np.array([110, 51_649])
    assert sample_sizes(counts, 50_000).tolist() == [106, 49_894]


def test_a_sample_of_a_manifest() -> None:
    labels = ["b|a"] * 30 + ["a"] * 60 + [""] * 10
    manifest = _manifest(labels, groups=[f"p{k // 4}" for k in range(100)])
    sampled = sample_manifest(manifest, 20, seed=3)
    assert Counter(sampled.labels) == {"b|a": 6, "a": 12, "": 2}
    assert sampled.images.tolist() == sorted(sampled.images)
    of_image = dict(zip(manifest.images, manifest.groups, strict=True))
    assert all(of_image[i] == g for i, g in zip(sampled.images, sampled.groups, strict=True))
    before, after = Counter(manifest.groups), Counter(sampled.groups)
    torn = sum(after[g] < before[g] for g in after)
    assert torn > 0
    assert sampled.notes[-1].startswith(
        "Sample: 20 of 100 images, stratified by first-listed label, drawn by image with"
    )
    assert f"seed 3: {torn:,} groups lost some of their images" in sampled.notes[-1]


def test_seed_and_order() -> None:
    """The draw is the ids' and the seed's, whatever the order of the rows."""
    manifest = digits_manifest()
    first = sample_manifest(manifest, 200, seed=1)
    turned = sample_manifest(manifest.subset(np.arange(manifest.n)[::-1]), 200, seed=1)
    assert turned.images.tolist() == first.images.tolist()[::-1]
    assert sample_manifest(manifest, 200, seed=2).images.tolist() != first.images.tolist()
    assert first.table["frame"].dtype == "Int64"


def test_every_image_of_a_class_is_equally_likely() -> None:
    """3 of 12 images 2,000 times: each is drawn 500 times give or take (chi-square on 11 degrees, 1 in 1,000)."""
    manifest = _manifest(["a"] * 12 + ["b"] * 4)
    drawn = Counter(i for seed in range(2000) for i in sample_manifest(manifest, 4, seed).images)
    counts = np.array([drawn[i] for i in manifest.images[:12]])
    assert counts.sum() == 6000
    statistic = ((counts - 500) ** 2 / (500 * 0.75)).sum() * 11 / 12  # variance of a draw without replacement
    assert statistic < 31.3


def test_all_or_none() -> None:
    manifest = _manifest(["a"] * 99 + ["rare"])
    whole = sample_manifest(manifest, 100)
    assert whole.images.tolist() == manifest.images.tolist()
    assert whole.notes == ("All 100 images are kept: no more than the 100 of the requested sample.",)
    assert "No image of rare was drawn." in sample_manifest(manifest, 10).notes[-1]
    with pytest.raises(InputError, match="sample is 0"):
        sample_manifest(manifest, 0)


def test_as_an_option_of_any_source() -> None:
    options = ImageOptions(sample=100, sample_seed=5)
    assert (
        load_manifest("digits", options).images.tolist() == sample_manifest(digits_manifest(), 100, 5).images.tolist()
    )
    for changed, said in (
        ({"sample": 0}, "sample is 0; it must be a whole number of at least 1"),
        ({"sample": "many"}, "sample is 'many'"),
        ({"sample_seed": -1}, "sample_seed is -1; it must be a whole number of at least 0"),
        ({"sample_seed": True}, "sample_seed is True"),
    ):
        with pytest.raises(InputError, match=said):
            ImageOptions(**changed).validate()
