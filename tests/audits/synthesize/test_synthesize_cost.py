"""What the dry run of a loop says, against the loop: exact where every image is rejected, bounds elsewhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memorisk.audits.synthesize import rounds
from memorisk.audits.synthesize.plan import SynthesizePlan
from memorisk.audits.synthesize.run import synthesize
from memorisk.models.generators.generators import Draw
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.report.result import Result
from memorisk.runs.workload import Cost
from memorisk.training.generators.draws import draw
from tests.audits.synthesize.making import COPYING, N_NEW, N_TRAIN, OF, copying, digit_parts, write_folders
from tests.counting import Counts, array_bytes, counted


class Noise:
    """Noise of each seed, or copies; of a kind whose passes are known."""

    source, conditions = "noise", None
    config = GeneratorConfig(kind="gan", name="noise", size=(8, 8), channels=1)

    def __init__(self, copies: bool = False) -> None:
        self.copies = copies

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Each from its seed."""
        if self.copies:
            return copying(draw.seeds, None)[..., None]
        made = [np.random.default_rng(int(seed)).integers(0, 256, (8, 8, 1), np.uint8) for seed in draw.seeds]
        return np.stack(made) if made else np.zeros((0, 8, 8, 1), np.uint8)

    def seen_parts(self, store: Any) -> None:
        """Nobody knows."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sets in folders, an empty cache."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    write_folders(tmp_path)
    return tmp_path


def run(root: Path, generator: Noise, **settings: Any) -> tuple[Cost, Counts, Cost, Result]:
    """What the dry run said, what was counted, the same as a cost with the bytes in the cache, and the result."""
    asked = {"generator": generator, "group_from": OF["group_from"], "gallery": False, **settings}
    plan = synthesize(root / "train", root / "r", dry_run=True, **asked)
    assert isinstance(plan, SynthesizePlan)
    cache = root / "cache"
    for meta in cache.rglob("features/*/meta.json"):
        meta.unlink()  # calibration of the dry run: computed again, and counted
    drawn: list[int] = []

    def noted(generator: Any, plan: Any, *how: Any) -> np.ndarray:
        """Images of a block."""
        drawn.append(len(plan))
        return draw(generator, plan, *how)

    with pytest.MonkeyPatch.context() as patch, counted() as found:
        patch.setattr(rounds, "draw", noted)
        result = synthesize(root / "train", root / "r", **asked)
    assert isinstance(result, Result)
    assert sum(drawn) == result.verdict["n_drawn"]
    stored = {name: sum(map(array_bytes, cache.rglob(f"{name}.npy"))) for name in ("images", "values")}
    did = found.cost(
        root / "r", images_drawn=sum(drawn), images_passed=found.images_passed + sum(drawn), at_most=plan.cost.at_most,
        bytes_images=stored["images"], bytes_features=stored["values"],
    )  # fmt: skip
    return plan.cost, found, did, result


@pytest.mark.parametrize("detector", [("pixels", "pca:4"), ("small_cnn@none",)])
def test_where_everything_is_rejected_the_bounds_are_reached(root: Path, detector: tuple[str, ...]) -> None:
    n, tries = 7, 3
    asked = {"detector": detector, "threshold": (-1e9,) * len(detector), "images": n, "most_tries": tries}
    asked |= {"auditor": "pixels:4", "quality": detector[0]}
    plan, _, did, result = run(root, Noise(), **asked)
    assert (result.verdict["n_kept"], result.verdict["n_drawn"]) == (0, n * tries)
    assert (did.pairs or 0) + 2 * n * N_TRAIN < (plan.pairs or 0)  # of table 3 and the audit
    assert did.pairs == len(detector) * 2 * tries * (n + 2) * N_TRAIN
    assert (did.images_drawn, did.images_passed) == (plan.images_drawn, plan.images_passed)
    assert did.bytes_images == N_TRAIN * 64


def test_a_loop_that_keeps_images_and_is_audited_stays_below_its_bounds(root: Path) -> None:
    parts = digit_parts()
    asked = {
        "detector": "pixels", "families": OF["families"], "miss_rate": OF["miss_rate"], "images": 30,
        "auditor": "pca:8", "calibration": root / "new", "most_tries": 4,
    }  # fmt: skip
    plan, _, did, result = run(root, Noise(copies=True), **asked)
    assert 30 * (1 - COPYING) / 2 < result.verdict["n_kept"] <= 30 < result.verdict["n_drawn"]
    assert set(plan.at_most) == {"images_drawn", "images_passed", "pairs", "bytes_features", "bytes_images"}
    for name in plan.at_most:
        assert 0 < getattr(did, name) <= getattr(plan, name), name
    kept = result.verdict["n_kept"]
    assert did.bytes_images == (N_TRAIN + N_NEW + kept) * parts["train"][0].nbytes


def test_where_identities_are_missing_nothing_is_drawn_or_compared(root: Path) -> None:
    asked = {"detector": "pixels", "families": OF["families"], "miss_rate": 0.01, "images": 5}
    plan, _, did, _ = run(root, Noise(), calibration=root / "new", **asked)
    assert did == plan
    assert (plan.images_drawn, plan.pairs, plan.at_most) == (0, 0, ())
