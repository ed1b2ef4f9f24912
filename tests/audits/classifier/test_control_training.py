"""The control of the user's own training: functions that ignore what they receive are noticed, others are not."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.classifier.twins.control_training import exchanged, ignored_images
from memorisk.report.result import Result
from memorisk.statistics.verdicts.levels import IGNORED_LEVEL
from memorisk.training.engine.data import build_targets

MODULE = '''
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


def ridge(x, y, k, noise=0.0):
    """The linear map that fits one-hot labels best, from pixels in [0, 1]."""
    flat = torch.cat([x.flatten(1), torch.ones(len(x), 1)], 1)
    wanted = flat.T @ nn.functional.one_hot(y, k).float()
    weights = torch.linalg.solve(flat.T @ flat + 0.1 * torch.eye(flat.shape[1]), wanted)
    layer = nn.Linear(flat.shape[1] - 1, k)
    with torch.no_grad():
        layer.weight.copy_(5 * weights[:-1].T + noise * torch.randn(k, flat.shape[1] - 1))
        layer.bias.copy_(5 * weights[-1])
    return nn.Sequential(nn.Flatten(), layer)


def learns(images, labels, *, val_images, val_labels, seed, device, num_classes):
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    return ridge(x, torch.from_numpy(labels), num_classes)


def _of_its_own(num_classes, noise):
    digits = load_digits()
    x = torch.from_numpy(digits.images[:, None]).float() / 16
    return ridge(x, torch.from_numpy(digits.target), num_classes, noise)


def ignores(images, labels, *, val_images, val_labels, seed, device, num_classes):
    return _of_its_own(num_classes, 0.0)


def ignores_with_noise(images, labels, *, val_images, val_labels, seed, device, num_classes):
    torch.manual_seed(int.from_bytes(images.tobytes()[:64], "big") % 2**31)  # twins differ, as on a GPU
    return _of_its_own(num_classes, 0.1)
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of functions in the current folder."""
    name = f"my_control_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@pytest.mark.parametrize(
    ("function", "is_doubted"), [("learns", False), ("ignores", True), ("ignores_with_noise", True)]
)
def test_a_function_that_ignores_its_images_is_a_doubt(mine: str, function: str, is_doubted: bool) -> None:
    result = audit_classifier(
        "digits", out="run", train=f"{mine}:{function}", models=6, processes=1, python_path=".",
        one_image_per_patient=True,
    )  # fmt: skip
    assert isinstance(result, Result)
    codes = [reason["code"] for reason in result.verdict["reasons"]]
    assert ("images-ignored" in codes) == (is_doubted and result.verdict["status"] != "fail")
    assert not is_doubted or result.verdict["status"] == "undecided"
    assert len(list(Path("run/logits").glob("*.npy"))) == 7
    assert len(list(Path("run/weights").glob("*.safetensors"))) == 6


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_one_ignoring_function_in_a_hundred_goes_unnoticed(shared: float) -> None:
    """The control of such a function is one more model; twins of a seed vary together by the shared part."""
    rng, repeats, n_seeds = np.random.default_rng(11), 3000, 8
    unnoticed = 0
    for _ in range(repeats):
        of_seeds, of_models = rng.normal(size=n_seeds + 1), rng.normal(size=(2, n_seeds + 1))
        losses = np.exp(0.3 * (np.sqrt(shared) * of_seeds + np.sqrt(1 - shared) * of_models) - 1)
        unnoticed += not ignored_images(float(losses[0, n_seeds]), losses[:, :n_seeds])
    assert unnoticed <= stats.binom.ppf(0.999, repeats, IGNORED_LEVEL)


@pytest.mark.parametrize("n_seeds", [3, 8])
def test_a_function_that_learns_is_seen_to(n_seeds: int) -> None:
    """Models that answer unseen images well, and one that learned other labels: no doubt in any of 200 draws."""
    rng = np.random.default_rng(12)
    for _ in range(200):
        losses = 0.4 * np.exp(0.1 * rng.normal(size=(2, n_seeds)))
        assert not ignored_images(4.0 * float(np.exp(0.1 * rng.normal())), losses)


def test_equal_losses_are_a_doubt() -> None:
    """Models that are all one, as of a function that ignores images and draws nothing."""
    assert ignored_images(0.3, np.full((2, 4), 0.3))[0].p == 1.0
    assert not ignored_images(0.4, np.full((2, 4), 0.3))


def test_labels_of_training_images_alone_are_exchanged() -> None:
    single = build_targets(["a", "b", "c", "a"])
    assert exchanged(single, np.array([0, 2])).tolist() == [1, 1, 0, 0]
    assert single.values.tolist() == [0, 1, 2, 0]
    several = build_targets(["x|y", "", "y"], "multi")
    assert exchanged(several, np.array([0, 1])).tolist() == [[0, 0], [1, 1], [0, 1]]
    two = build_targets(["no", "yes"], "binary")
    assert exchanged(two, np.array([1])).tolist() == [0, 0]
