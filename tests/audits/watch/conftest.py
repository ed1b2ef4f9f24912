"""Real images for a watch: scikit-learn's digits, in an order of chance."""

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    """[1797, 8, 8] uint8."""
    images = (load_digits().images / 16 * 255).astype(np.uint8)
    return images[np.random.default_rng(0).permutation(len(images))]
