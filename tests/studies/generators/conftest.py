"""A study whose generators are functions that copy training images as often as they are told: the truth is known."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memorisk.images.store import ImageStore
from memorisk.models.generators.generators import Draw, check_draw
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.studies.generators import cells as cells_module
from memorisk.studies.generators.plan import Cell
from memorisk.studies.generators.study import GeneratorsResult, study_generators
from memorisk.training.generators.snapshots import Snapshot

CONFIG: dict[str, Any] = {
    "settings": {
        "detectors": ["pixels:8"],
        "quality": "none",
        "images": 300,
        "closest": 3,
        "strengths": ["weak"],
        "sampler": "ddpm",
    },
    "generator": {"network": "tiny/4", "steps": 40, "batch_size": 4},
    "datasets": {"Digits": {"images": "digits", "sample": 450, "held_out": 0.4}},
    "arms": {
        "copier": {"training_images": [60, "all"], "seeds": [0, 1], "snapshots": 2},
        "repeated": {"training_images": 200, "duplicates": {"levels": [1, 4, 16], "patients": 20}, "seeds": [0, 1]},
        "other": {"generator": {"kind": "gan"}, "training_images": 60},
    },
}


@dataclass(frozen=True, eq=False)
class Copier:
    """Draws a training image, or else one of no part with noise; the share of copies is its only memory."""

    store: ImageStore
    rows: np.ndarray
    strangers: np.ndarray
    share: float

    source = "a copier"
    conditions = None

    @property
    def config(self) -> GeneratorConfig:
        """Of its images."""
        _, height, width, channels = self.store.images.shape
        return GeneratorConfig(kind="function", name="copier", size=(height, width), channels=channels)

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Copies with a little noise; refuses what is for diffusion models, as generators of its kind do."""
        (how or SamplingOptions()).refuse_diffusion("copier")
        found = []
        for seed in check_draw(self.config, draw).seeds:
            rng = np.random.default_rng(int(seed))
            pool = self.rows if rng.random() < self.share else self.strangers
            image = self.store.images[rng.choice(pool)].astype(float)
            found.append(np.clip(image + rng.normal(0, 4, image.shape), 0, 255).astype(np.uint8))
        return np.stack(found)

    def seen_parts(self, store: ImageStore) -> None:
        """Nobody asks."""


def copying(share: Callable[[Cell, int], float]) -> Callable[..., dict[str, Any]]:
    """A training that leads to a copier at every snapshot, sharing so much at each step."""

    def fit(cell: Cell, folder: Path, look: Callable[[Snapshot], None], progress: Any = None) -> dict[str, Any]:
        """Call every snapshot."""
        rest = np.setdiff1d(cell.data.pool, cell.training.rows)
        strangers = rest if len(rest) else cell.data.pool
        for step in cell.arm.snapshots:
            made = Copier(cell.data.store, cell.training.repeated, strangers, share(cell, step))
            look(Snapshot(step, cell.arm.snapshots[-1], made, 1.0, 1.5))
        return {"name": cell.name}

    return fit


def memory(cell: Cell, step: int) -> float:
    """All copies with few images or repeated ones at the end of the training, none with many or at the beginning."""
    few = len(cell.training.rows) <= 60 and cell.arm.name == "copier"
    return float(step == cell.arm.snapshots[-1] and (few or cell.arm.duplicates is not None))


@pytest.fixture(scope="session")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GeneratorsResult]:
    """The folder and the result of the whole study."""
    out = tmp_path_factory.mktemp("generators") / "study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "fit", copying(memory))
        return out, study_generators(CONFIG, out=out)
