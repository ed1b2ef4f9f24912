"""A benchmark on the built-in digits that takes seconds, shared by the tests that only look at it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from memorisk.studies.detectors.benchmark import benchmark_detectors
from memorisk.studies.detectors.results import Benchmark
from tests.drawings import whole_drawings

pytest.importorskip("kornia")

SETTINGS: dict[str, Any] = {
    "sample": 400,
    "backbones": ("pixels", "pca:6", "small_cnn@none", "mlp1@none=first", "mlp1@none=again"),
    "measures": ("euclidean", "cosine", "dice"),
    "seeds": (0, 1),
}


@pytest.fixture(scope="session")
def benched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Benchmark]:
    """The folder and the result of a benchmark of five backbones."""
    out = tmp_path_factory.mktemp("bench") / "run"
    with whole_drawings():
        return out, benchmark_detectors("digits", out=out, **SETTINGS)


def patients(root: Path, *, n: int = 90, each: int = 3, blank: int = 0) -> Path:
    """Images of patients, ``each`` of some and one of others, named PATIENT_IMAGE; the last ones of one grey level."""
    root.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for patient in range(n):
        own = rng.integers(0, 200, (12, 12))
        for image in range(each if patient % 2 else 1):
            pixels = np.clip(own + rng.integers(0, 40, (12, 12)), 0, 255).astype(np.uint8)
            if patient >= n - blank:
                pixels[:] = 7 * patient % 256
            Image.fromarray(pixels).save(root / f"p{patient:03}_{image}.png")
    return root
