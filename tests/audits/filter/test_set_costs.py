"""Costs of `filter` and `quality` against what they then do, on a few small images."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.filter.run import FilterPlan, filter_synthetic
from memorisk.audits.quality.run import QualityPlan, assess_quality
from memorisk.report.result import Result
from tests.counting import array_bytes, counted


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """Noise of two classes; an image of its own for everybody."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 40), ("held", 22), ("made", 31)):
        images, labels = rng.integers(0, 256, (n, 8, 8), dtype=np.uint8), (np.arange(n) % 2).astype(str)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels, groups=[f"{name} {i}" for i in range(n)])
    return tmp_path


def test_quality_trains_and_passes_what_was_counted(sets: Path) -> None:
    asked = {
        "held_out": sets / "held.npz", "out": sets / "q", "store": sets / "store",
        "features": ("small_cnn@none", "pixels"),
        "classifier": "small_cnn", "classifier_epochs": 2, "classifier_seeds": 2, "batch_size": 8,
    }  # fmt: skip
    plan = assess_quality(sets / "train.npz", sets / "made.npz", dry_run=True, **asked)
    assert isinstance(plan, QualityPlan)
    with counted() as found:
        assess_quality(sets / "train.npz", sets / "made.npz", **asked)
    cost = plan.cost
    assert (found.trainings, found.steps, found.images_trained) == (cost.trainings, cost.steps, cost.images_trained)
    assert found.images_passed == cost.images_passed == 40 + 22 + 31 + 4 * 22
    assert sum(map(array_bytes, (sets / "q" / "classifiers").glob("*.npy"))) == cost.bytes_outputs
    assert sum(map(array_bytes, (sets / "store").rglob("values.npy"))) == cost.bytes_features
    assert cost.pairs is None


def test_a_filter_compares_no_more_than_was_counted(sets: Path) -> None:
    """One calibration image is a training image: it is decoded, and calibrates nothing."""
    held = dict(np.load(sets / "held.npz"))
    held["images"][3] = np.load(sets / "train.npz")["images"][5]
    np.savez(sets / "held.npz", **held)
    asked = {"calibration": sets / "held.npz", "store": sets / "store", "detector": ("pixels",), "miss_rate": 0.3}
    asked |= {"auditor": "pca:4", "families": ("noise:0.1",)}
    plan = filter_synthetic(sets / "train.npz", sets / "made.npz", sets / "f", dry_run=True, **asked)
    assert isinstance(plan, FilterPlan)
    with counted() as found:
        made = filter_synthetic(sets / "train.npz", sets / "made.npz", sets / "f", **asked)
    assert isinstance(made, Result)
    assert made.verdict["n_kept"] > 0
    screening = 2 * (31 + 21) * 40
    cost = plan.cost
    assert set(cost.at_most) == {"images_passed", "bytes_images", "bytes_features", "pairs"}
    assert cost.pairs is not None
    assert (31 + 21) * 40 <= found.pairs <= cost.pairs  # the audit of the kept set comes on top
    assert screening < cost.pairs
    assert found.images_passed == cost.images_passed == 0
    decoded = sum(map(array_bytes, (sets / "store").rglob("images.npy")))
    assert (40 + 22 + 31) * 64 < decoded <= cost.bytes_images  # pyright: ignore[reportOperatorIssue]
