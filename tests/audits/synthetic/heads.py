"""A detector with a head for the tests: pixels, and a fixed linear layer over their absolute differences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memorisk.audits.comparison import features
from memorisk.scores.pairs import Head
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

NAME = "pixels:8"


def head(d: int = 64) -> Head:
    """Weights of both signs, most of them negative, as a trained head has them."""
    weight = -np.random.default_rng(0).uniform(0.2, 1.5, d)
    weight[::16] = 0.1
    return Head(weight, 3.0)


def use_heads(patch: pytest.MonkeyPatch) -> None:
    """Let ``pixels:8`` be compared by a head, and everything else as it is."""

    def opened(source: str | Path, **settings: Any) -> PairDetector:
        found = open_pair_detector(source, **settings)
        return PairDetector(found.source, None, None, head(), None) if str(source) == NAME else found

    patch.setattr(features, "open_pair_detector", opened)
