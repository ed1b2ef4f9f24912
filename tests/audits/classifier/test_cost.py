"""The cost of a classifier audit with everything it can be asked for, against what the run then does."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.run import audit_classifier
from tests.counting import counted

N, SIDE = 240, 8


def coloured(path):
    """Two classes of coloured noise, the first of one in twenty-four images."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    np.savez(path, images=images, labels=np.where(np.arange(N) % 5 == 0, "a", "b").astype(str))
    return path


def test_placebo_intervention_and_canary_pairs_are_counted_as_they_are_run(tmp_path):
    asked = {
        "models": 2, "epochs": 2, "processes": 1, "placebo": 1, "intervene": "grayscale", "classes": ["a"],
        "canary_pairs": 4, "augment": "hflip", "score_augmentations": 2, "store": tmp_path / "store",
        "batch_size": 16, "model": "small_cnn",
    }  # fmt: skip
    source, out = coloured(tmp_path / "set.npz"), tmp_path / "r"
    plan = audit_classifier(source, out=out, **asked, dry_run=True)
    assert isinstance(plan, DryRun)
    with counted() as found:
        audit_classifier(source, out=out, **asked)
    assert found.cost(out, bytes_images=N * SIDE * SIDE * 3) == plan.cost
    assert plan.cost.trainings == 2 + 2 + 2 * 2 + 1
    assert plan.cost.images_passed == 9 * 3 * N


def test_private_trainings_sample_as_many_images_as_their_law_allows(tmp_path):
    """Each step takes every image with probability q by itself; both twins of a pair take the same."""
    pytest.importorskip("opacus")
    asked = {
        "models": 4, "epochs": 3, "processes": 1, "store": tmp_path / "store", "batch_size": 16,
        "model": "small_cnn", "regime": "dp-full", "epsilon": (8,),
    }  # fmt: skip
    source, out = coloured(tmp_path / "set.npz"), tmp_path / "r"
    plan = audit_classifier(source, out=out, **asked, dry_run=True)
    assert isinstance(plan, DryRun)
    with counted() as found:
        audit_classifier(source, out=out, **asked)
    assert plan.cost.about == ("images_trained",)
    did = found.cost(out, bytes_images=N * SIDE * SIDE * 3, about=plan.cost.about)
    assert replace(did, images_trained=plan.cost.images_trained) == plan.cost
    n = plan.parts.get("train", 0) + plan.parts["canary"] // 2
    assert plan.cost.images_trained == 4 * 3 * -(-n // 16) * 16
    low, high = binom.interval(0.999, (plan.cost.steps or 0) // 2 * n, 16 / n)
    assert low <= found.images_trained / 2 <= high
