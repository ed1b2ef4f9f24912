"""What the dry run of the study of unique features says, against what the study then does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memorisk.runs.workload import Cost
from memorisk.studies.unique_features.study import plan_unique, study_unique_features
from tests.counting import array_bytes, counted
from tests.studies.unique_features.conftest import changed


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def study(store: Path, config: dict[str, Any]) -> tuple[Cost, Cost]:
    """What the dry run said, and what was counted."""
    out = store.parent / "s"
    plan = plan_unique(config, out=out).cost
    with counted() as found:
        assert study_unique_features(config, out=out).complete
    assert plan_unique(config, out=out).cost.trainings == 0
    decoded = sum(map(array_bytes, store.rglob("images.npy")))
    return plan, found.cost(out, bytes_images=decoded, bytes_outputs=None, at_most=plan.at_most)


SMALL = {"n_probes": 12, "n_controls": 20, "processes": 1, "redraws": 2, "epochs": 3, "patience": 9, "influenced": 0}


def test_trainings_that_run_to_their_end_take_what_was_counted(store: Path) -> None:
    settings = SMALL | {"random": 3, "runs": 1, "highest": 0, "lowest": 0, "references": 2, "latent": 2, "profiled": 1}
    networks = {"networks": ["cnn1"], "random": ["cnn1"], "regularised": None, "characterised": ["cnn1"], "sample": 120}
    plan, did = study(store, changed(settings | {"keep_weights": True}, networks))
    assert did == plan
    assert plan.trainings == 2 + 3 + 2 * 2 + 1
    assert plan.at_most == ("steps", "images_trained", "images_passed")


def test_influential_canaries_and_early_ends_stay_below_the_bounds(store: Path) -> None:
    settings = SMALL | {"random": 0, "highest": 2, "lowest": 2, "references": 2, "latent": 0, "profiled": 0}
    networks = {"networks": ["mlp1"], "random": None, "regularised": None, "characterised": None, "sample": 120}
    plan, did = study(
        store, changed(settings | {"epochs": 12, "patience": 1}, networks, training={"mlp1": {"lr": 0.3}})
    )
    assert did.trainings == plan.trainings == 1 + 2 + 4
    for name in ("steps", "images_trained", "images_passed"):
        assert 0 < getattr(did, name) < getattr(plan, name)
    assert (did.bytes_images, did.bytes_weights) == (plan.bytes_images, 0)
    assert np.isfinite(plan.images_passed or np.nan)
