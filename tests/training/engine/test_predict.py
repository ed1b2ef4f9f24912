"""Predictions are the network's own outputs in evaluation mode."""

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.models.classifiers.zoo import seeded
from memorisk.runs.errors import InputError
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Normalisation
from memorisk.training.engine.predict import MAX_BATCH, predict_batch_size, predict_logits
from tests.training.helpers import Digits, NoisyNet

HOW = Normalisation((0.3,), (0.25,))


@pytest.mark.parametrize("training", [False, True])
def test_equals_the_network_in_evaluation_mode(digits: Digits, training: bool) -> None:
    with seeded(0):
        model = NoisyNet()
    model.norm.running_mean.fill_(0.3)
    rows = np.array([5, 900, 5, 3])
    x = (torch.from_numpy(digits.images[rows]).float() / 255 - 0.3) / 0.25
    with torch.no_grad():
        expected = model.eval()(x.permute(0, 3, 1, 2)).numpy()
    model.train(training)
    got = predict_logits(model, digits.images, rows, TrainOptions(), normalisation=HOW)
    assert model.training == training
    assert got.dtype == np.float32
    # logits of order one, from some hundred products in float32
    np.testing.assert_allclose(got, expected, atol=1e-5)
    np.testing.assert_array_equal(got[0], got[2])
    assert all(value.grad is None for value in model.parameters())


def test_all_rows_in_order_over_several_batches(digits: Digits) -> None:
    with seeded(0):
        model = NoisyNet()
    everything = predict_logits(model, digits.images, None, TrainOptions())
    assert everything.shape == (1797, 10)
    assert len(everything) > 2 * MAX_BATCH
    tail = np.arange(1000, 1200)
    part = predict_logits(model, digits.images, tail, TrainOptions())
    np.testing.assert_allclose(part, everything[tail], atol=1e-5)
    assert predict_logits(model, digits.images, np.array([], dtype=int), TrainOptions()).shape == (0, 10)


def test_batch_size_depends_on_the_image_size_alone() -> None:
    def size(side: int) -> int:
        return predict_batch_size(np.empty((1, side, side, 3), np.uint8))

    assert size(8) == size(64) == MAX_BATCH
    assert size(224) == 4_194_304 // 224**2
    assert size(4096) == 1
    assert predict_batch_size(np.empty((5, 3), np.float32)) == MAX_BATCH


def test_model_statistics_must_be_given(digits: Digits) -> None:
    with pytest.raises(InputError, match="no model specification was given"):
        predict_logits(NoisyNet(), digits.images, None, TrainOptions(normalise="model"))
    with pytest.raises(InputError, match="needed are uint8"):
        predict_logits(nn.Linear(2, 2), np.zeros((3, 4, 4, 1)), None, TrainOptions())
