"""Self-influence on a GPU is that of the CPU; skipped where there is none."""

import numpy as np
import pytest
import torch

from memorisk.models.classifiers.zoo import create_model
from memorisk.scores.influence import self_influence


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_influence_is_the_cpus() -> None:
    """Sums of full float32 products: they differ by their order alone, far below the 1e-3 that TF32 would take."""
    model = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0)
    images = np.random.default_rng(0).integers(0, 256, (100, 8, 8, 1), dtype=np.uint8)
    labels, states = np.arange(100) % 10, [model.state_dict()]
    here, there = (self_influence(model, images, labels, states, [0.1], device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there.values, here.values, rtol=1e-4)
