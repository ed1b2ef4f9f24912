"""A study on the built-in digits that trains in seconds, shared by the tests that only look at it."""

import copy
from pathlib import Path
from typing import Any

import pytest

from memorisk.studies.unique_features.study import UniqueResult, study_unique_features

CONFIG: dict[str, Any] = {
    "settings": {
        "random": 4, "runs": 2, "highest": 5, "lowest": 5, "references": 19, "latent": 4, "profiled": 2,
        "influenced": 1, "n_probes": 30, "n_controls": 19, "epochs": 3, "patience": 2, "processes": 1, "redraws": 2,
    },
    "datasets": {
        "Digits": {
            "images": "digits",
            "probes": "digits",
            "sample": 120,
            "networks": ["mlp1"],
            "random": ["mlp1"],
            "regularised": ["mlp1"],
            "characterised": ["mlp1"],
            "regularisers": ["dropout+augmentation"],
        }
    },
}  # fmt: skip


def changed(settings: dict[str, Any] | None = None, dataset: dict[str, Any] | None = None, **more: Any) -> dict:
    """The configuration with other settings, another data set, other keys; None takes a key away."""
    config = copy.deepcopy(CONFIG) | more
    config["settings"] |= settings or {}
    config["datasets"]["Digits"] |= dataset or {}
    config["datasets"]["Digits"] = {k: v for k, v in config["datasets"]["Digits"].items() if v is not None}
    return config


def little(**more: Any) -> dict:
    """A study of one network and a handful of trainings."""
    few = {"random": 0, "highest": 1, "lowest": 1, "references": 2, "latent": 0, "profiled": 0, "epochs": 2}
    return changed(few, {"random": None, "regularised": None, "characterised": None}, **more)


@pytest.fixture(scope="session")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, UniqueResult]:
    """The folder and the result of the whole study."""
    out = tmp_path_factory.mktemp("unique") / "study"
    return out, study_unique_features(CONFIG, out=out)
