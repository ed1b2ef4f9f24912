"""The recipe of the default detector: killed, it goes on to the same weights; its log ends with what is shipped."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file

from memorisk.models.encoders.feature_sources import DEFAULT_DETECTOR_FOLDER

ROOT = Path(__file__).parents[2]
LOG = ROOT / "docs" / "results" / "default_detector_log.jsonl"


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The recipe, with four people a step and a checkpoint every second one."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    monkeypatch.syspath_prepend(ROOT / "recipes")
    spec = importlib.util.spec_from_file_location("default_detector", ROOT / "recipes" / "default_detector.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "default_detector", module)
    spec.loader.exec_module(module)
    for name, value in {"FAMILIES": 2, "MEMBERS": 2, "EVERY": 2, "LOGGED": 1, "SIDES": (16, 24)}.items():
        monkeypatch.setattr(module, name, value)
    yield module
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


def test_a_killed_training_goes_on_to_the_same_weights(
    recipe: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contrast, asked = recipe.contrast, []

    def killed(embeddings: torch.Tensor) -> tuple[torch.Tensor, float]:
        asked.append(len(embeddings))
        if len(asked) == 4:
            raise KeyboardInterrupt
        return contrast(embeddings)

    recipe.train(tmp_path / "whole", steps=5, seed=3, pictures=6)
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "contrast", killed)
        with pytest.raises(KeyboardInterrupt):
            recipe.train(tmp_path / "killed", steps=5, seed=3, pictures=6)
    recipe.train(tmp_path / "killed", steps=5, seed=3, pictures=6)
    with pytest.raises(SystemExit, match="holds another training"):
        recipe.train(tmp_path / "killed", steps=6, seed=3, pictures=6)
    assert set(asked) == {8}
    whole, again = (recipe.read_log(tmp_path / name / recipe.LOG) for name in ("whole", "killed"))
    assert [line["step"] for line in again] == [1, 2, 3, 4, 5, 5]
    assert [line.get("loss") for line in again] == [line.get("loss") for line in whole]
    assert again[-1] == whole[-1]
    made = recipe.write_detector(
        torch.load(tmp_path / "killed" / recipe.CHECKPOINT, weights_only=True)["average"], {}, "", tmp_path / "made"
    )
    assert made.config.published == recipe.PUBLISHED
    assert recipe.weights_fingerprint(load_file(tmp_path / "made" / "weights.safetensors")) == whole[-1]["weights"]


def test_a_training_may_start_from_the_weights_of_a_detector(
    recipe: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "RATE", 0.0)  # a step of no size leaves the weights as they were
    recipe.train(tmp_path / "next", steps=1, seed=4, pictures=6, start=DEFAULT_DETECTOR_FOLDER)
    state = torch.load(tmp_path / "next" / recipe.CHECKPOINT, weights_only=True)
    shipped = load_file(DEFAULT_DETECTOR_FOLDER / "weights.safetensors")
    assert state["settings"]["start"] == recipe.weights_fingerprint(shipped)
    for name, tensor in shipped.items():
        if name.rpartition(".")[2] not in ("mean", "variance"):  # which are of the images seen
            torch.testing.assert_close(state["network"][name], tensor, rtol=0, atol=0)
    with pytest.raises(SystemExit, match="holds another training"):
        recipe.train(tmp_path / "next", steps=1, seed=4, pictures=6)


def test_the_shipped_weights_are_those_of_the_log(recipe: ModuleType) -> None:
    lines = recipe.read_log(LOG)
    shipped = load_file(DEFAULT_DETECTOR_FOLDER / "weights.safetensors")
    assert recipe.weights_fingerprint(shipped) == lines[-1]["weights"]
    described = json.loads((DEFAULT_DETECTOR_FOLDER / "detector.json").read_text(encoding="utf-8"))
    assert described["recipe"]["step"] == described["recipe"]["steps"] == lines[-1]["step"]
    starts = [line["start"] for line in lines if "start" in line]
    assert starts[-1:] == [described["recipe"][name] for name in ("start",) if name in described["recipe"]]
    assert set(starts) <= {line["weights"] for line in lines if "weights" in line}  # each is an earlier version's
