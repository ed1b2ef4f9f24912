"""Planted wrong labels stand high in self-influence, and the page shows them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from memorisk.audits.classifier.explanations.influence import influence_view
from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.errors import InputError
from memorisk.scores.influence import evenly_spaced_checkpoints, self_influence
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import choose_normalisation

N, WRONG = 600, 30


@pytest.fixture(scope="module")
def found():
    scans = load_digits()
    images = np.rint(scans.images[:N, ..., None] * (255 / 16)).astype(np.uint8)
    labels = scans.target[:N].astype(np.int64)
    rng = np.random.default_rng(0)
    wrong = rng.choice(N, WRONG, replace=False)
    labels[wrong] = (labels[wrong] + rng.integers(1, 10, WRONG)) % 10
    scale = choose_normalisation(images, "dataset")
    model = create_model("mlp1", num_classes=10, in_chans=1, image_size=8, seed=0)
    states = []
    options = TrainOptions(epochs=12, lr=1e-3, schedule="constant")
    log = fit(
        model, images, labels, np.arange(N), options, seed=0, normalisation=scale,
        on_epoch=lambda epoch, loss: states.append({k: v.clone() for k, v in model.state_dict().items()}),
    )  # fmt: skip
    chosen = evenly_spaced_checkpoints(log.losses, n=5)
    mean, std = (torch.tensor(v) for v in (scale.mean, scale.std))
    given = self_influence(
        model, images, labels, [states[i] for i in chosen], [1e-3] * len(chosen), prepare=lambda x: (x - mean) / std
    )
    return given, images, labels, np.isin(np.arange(N), wrong)


def test_wrong_labels_stand_high(found) -> None:
    influence, _, _, wrong = found
    assert roc_auc_score(wrong, influence.values) > 0.95
    assert influence.fallback == {}


def test_the_table_and_the_page(found, tmp_path: Path) -> None:
    influence, images, labels, wrong = found
    ids = [f"scan <{i}>" for i in range(N)]
    table = influence_view(influence, ids, labels, out=tmp_path / "view", pixels=images, most=WRONG)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "view" / "influence.parquet"), table)
    assert table["self_influence"].is_monotonic_decreasing
    assert table["share"].sum() == pytest.approx(1)
    planted = {ids[i] for i in np.flatnonzero(wrong)}
    assert len(planted & set(table["image"].head(WRONG))) > WRONG / 2
    first = table.groupby("label").head(1)
    assert (first["rank_in_class"] == 1).all()
    page = (tmp_path / "view" / "influence.html").read_text()
    assert page.count("data:image/png") == WRONG + 6  # the first six are on the first screen, too
    assert "scan &lt;" in page
    half = int(np.searchsorted(np.cumsum(table["share"]), 0.5)) + 1
    assert f"Half of all self-influence is that of {half} images of {N}" in page
    without = influence_view(influence, ids, labels, out=tmp_path / "plain")
    plain = (tmp_path / "plain" / "influence.html").read_text()
    assert "data:image" not in plain
    assert (
        "Share of self-influence, in percent" in plain.partition('class="sections"')[0]
    )  # the figure is on the first screen
    pd.testing.assert_frame_equal(without, table)


def test_misfits_are_refused(found, tmp_path: Path) -> None:
    influence, _, labels, _ = found
    with pytest.raises(InputError, match="as many ids, labels and pixels"):
        influence_view(influence, ["a"], labels, out=tmp_path / "x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "own.txt").write_text("mine")
    with pytest.raises(InputError, match="full"):
        influence_view(influence, [str(i) for i in range(N)], labels, out=tmp_path / "full")
    assert not (tmp_path / "x").exists()
