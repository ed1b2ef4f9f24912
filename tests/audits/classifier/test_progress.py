"""What an audit reports while it runs, and what its dry run promised."""

from pathlib import Path

import numpy as np
import pytest

import memorisk
from memorisk.runs.steps import StepCount


@pytest.mark.parametrize("processes", [1, 2])
def test_the_bar_counts_the_steps_that_the_dry_run_names(tmp_path: Path, processes: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    pixels = rng.integers(0, 256, (80, 6, 6), dtype=np.uint8)
    settings = {"models": 2, "epochs": 3, "batch_size": 8, "fail_on": "never", "processes": processes, "device": "cpu"}
    images = (pixels, labels)
    plan = memorisk.audit_classifier(images, out=tmp_path / "run", dry_run=True, **settings)
    told: list[tuple[str, int, int, int]] = []

    def progress(stage: str, done: int, total: int) -> None:
        """Note it."""
        told.append((stage, int(done), total, done.images if isinstance(done, StepCount) else -1))

    memorisk.audit_classifier(images, out=tmp_path / "run", progress=progress, **settings)
    training = [one for one in told if one[0] == "training"]
    assert training[0][1:3] == (0, plan.cost.steps)
    assert training[-1][1:3] == (plan.cost.steps, plan.cost.steps)
    assert training[-1][3] <= (plan.cost.images_trained or 0)
    assert [one[1] for one in training] == sorted(one[1] for one in training)
    stages = list(dict.fromkeys(one[0] for one in told))
    assert stages[0] == "reading the manifest"  # the dry run has decoded the images
    opening = stages[-3].splitlines()  # before the first training
    assert opening[0].startswith("models: 2 models (as named): 2 trainings, about ")
    assert any(line.startswith("no pass: this audit cannot pass: no patient ids were given") for line in opening)
    assert any(line.startswith("no pass: this audit cannot pass with 1 seed") for line in opening)
    assert stages[-2:] == ["training", "scoring"]
    assert not list((tmp_path / "run").rglob("*.steps"))
    again = memorisk.audit_classifier(images, out=tmp_path / "run", dry_run=True, **settings)
    assert again.cost.steps == 0
