"""Early stopping leaves the very weights that a training of that many epochs has."""

import numpy as np
import pytest
import torch

from memorisk.models.zoo import create_model
from memorisk.runs.errors import InputError
from memorisk.scores.differential import cross_entropy
from memorisk.training.early_stopping import fit_early
from memorisk.training.fit import fit
from memorisk.training.options import TrainOptions
from memorisk.training.predict import predict_logits
from tests.training.helpers import Digits

HOW = TrainOptions(epochs=60, lr=3e-3, schedule="constant", batch_size=64)
ROWS, VALIDATION = np.arange(300), np.arange(300, 500)


def network() -> torch.nn.Module:
    return create_model("mlp1", num_classes=10, in_chans=1, image_size=8, seed=0)


def test_the_best_epochs_weights_and_no_others(digits: Digits) -> None:
    labels = digits.labels.astype(np.int64)
    model = network()
    log = fit_early(model, digits.images, labels, ROWS, VALIDATION, HOW, seed=1, patience=5)
    assert log.stopped
    assert len(log.validation) == len(log.losses) == log.best_epoch + 5
    assert log.validation[log.best_epoch - 1] == min(log.validation)
    assert not model.training
    same = network()
    short = TrainOptions(epochs=log.best_epoch, lr=3e-3, schedule="constant", batch_size=64)
    found = fit(same, digits.images, labels, ROWS, short, seed=1)
    np.testing.assert_allclose(found.losses, log.losses[: log.best_epoch], rtol=1e-6)
    for name, value in same.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-6, atol=1e-7)
    logits = predict_logits(model, digits.images, VALIDATION, HOW)
    assert cross_entropy(logits, labels[VALIDATION]).mean() == pytest.approx(min(log.validation), rel=1e-5)


def test_all_epochs_run_where_patience_lasts(digits: Digits) -> None:
    short = TrainOptions(epochs=2, lr=1e-3, schedule="constant")
    log = fit_early(network(), digits.images, digits.labels.astype(np.int64), ROWS, VALIDATION, short, seed=1)
    assert not log.stopped
    assert len(log.losses) == 2


def test_misuse_is_refused(digits: Digits) -> None:
    labels = digits.labels.astype(np.int64)
    with pytest.raises(InputError, match="not trained on"):
        fit_early(network(), digits.images, labels, ROWS, ROWS[:3], HOW, seed=1)
    with pytest.raises(InputError, match="not trained on"):
        fit_early(network(), digits.images, labels, ROWS, ROWS[:0], HOW, seed=1)
    with pytest.raises(InputError, match="patience is 0"):
        fit_early(network(), digits.images, labels, ROWS, VALIDATION, HOW, seed=1, patience=0)
