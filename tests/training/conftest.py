"""Fixtures of the training tests."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from memorisk.training.engine.options import TrainOptions
from tests.training.helpers import Digits


@pytest.fixture(scope="session")
def digits() -> Digits:
    data = load_digits()
    images = np.round(data.images * (255 / 16)).astype(np.uint8)[..., None]
    return Digits(images, data.target.astype(np.int64), data.data / 16)


@pytest.fixture
def quick() -> TrainOptions:
    """Two epochs: enough for every mechanism to act."""
    return TrainOptions(epochs=2, lr=1e-3)
