"""Losses averaged over augmentations of each image: the earlier protocol of paper 000."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import log_softmax
from torch import nn

from memorisk.audits.classifier.run import audit_classifier
from memorisk.runs.errors import InputError
from memorisk.training.classifiers.jobs import LOGITS
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Normalisation
from memorisk.training.engine.predict import MAX_BATCH, predict_augmented

SETTINGS = {
    "protocol": "paper",
    "seeds": [42],
    "epochs": 2,
    "processes": 1,
    "augment": "crop",
    "score_augmentations": 5,
}
PLAIN = Normalisation((0.0,), (1.0,))


class Flat(nn.Module):
    """The pixels themselves as logits, so that a test sees what the network got."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(tmp_path_factory.getbasetemp() / "augmented-cache"))
        out = tmp_path_factory.mktemp("augmented") / "run"
        audit_classifier("digits", out=out, **SETTINGS)
    return out


def test_each_pass_gets_the_trainings_augmentation_the_same_for_every_model() -> None:
    images = np.random.default_rng(0).integers(0, 256, (MAX_BATCH + 44, 8, 8, 1), dtype=np.uint8)
    options = TrainOptions(augment="hflip")
    seen, again = (predict_augmented(Flat(), images, options, passes=5, normalisation=PLAIN) for _ in range(2))
    np.testing.assert_array_equal(seen, again)
    plain = (images[..., 0] / 255).reshape(len(images), -1)
    mirrored = (images[:, :, ::-1, 0] / 255).reshape(len(images), -1)
    turned = np.isclose(seen, mirrored, atol=1e-6).all(axis=2)
    np.testing.assert_array_equal(turned, ~np.isclose(seen, plain, atol=1e-6).all(axis=2))
    # 5 x 300 fair coins: 0.5 within four standard deviations, and no pass or batch repeats another's coins
    assert abs(turned.mean() - 0.5) < 4 * 0.5 / np.sqrt(turned.size)
    assert len({tuple(coins[:44]) for coins in turned} | {tuple(coins[MAX_BATCH:]) for coins in turned}) == 10


def test_the_loss_is_the_mean_over_the_augmented_passes(run: Path) -> None:
    scores = pd.read_parquet(run / "scores.parquet")
    manifest = pd.read_parquet(run / "manifest.parquet")
    label = manifest["label"].astype(int).to_numpy()
    passes = [np.load(file) for file in sorted((run / LOGITS).glob("*-augmented-5.npy"))]
    assert len(passes) == 2
    losses = []
    for logits in passes:
        assert logits.shape == (5, len(label), 10)
        log_p = log_softmax(logits.astype(np.float64), axis=2)
        each = -np.take_along_axis(log_p, label[None, :, None], axis=2)[..., 0]
        assert not np.allclose(each[0], each[1])
        losses.append(np.sort(each.mean(axis=0)))
    roles = [np.sort(part["loss"].to_numpy()) for _, part in scores.groupby("role", observed=True)]
    found = sorted(roles, key=lambda values: values.sum())
    # every image has one label, so each role's losses are those of one model
    for got, expected in zip(found, sorted(losses, key=lambda values: values.sum()), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_it_is_said_and_a_run_is_not_mixed_with_another_protocol(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(run.parent / "cache"))
    assert "means over 5 augmentations" in (run / "report.html").read_text()
    before = {p: p.stat().st_mtime_ns for p in (run / LOGITS).iterdir()}
    audit_classifier("digits", out=run, **SETTINGS)
    assert {p: p.stat().st_mtime_ns for p in (run / LOGITS).iterdir()} == before
    with pytest.raises(InputError, match="score_augmentations"):
        audit_classifier("digits", out=run, **{**SETTINGS, "score_augmentations": 0})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"augment": None}, "name them with augment"),
        ({"train": "module:function"}, "leave out --train"),
        ({"score_augmentations": -1}, "must be a whole number of at least 0"),
    ],
)
def test_what_cannot_be_scored_so_is_refused(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit_classifier("digits", out=tmp_path / "run", **{**SETTINGS, **changes})
    assert not (tmp_path / "run").exists()
