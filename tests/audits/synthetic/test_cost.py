"""The cost of a synthetic audit against what it then does: pairs at the engines, passes, bytes on the disk."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.synthetic.run import SyntheticPlan, audit_synthetic
from tests.counting import array_bytes, counted


def some_sets(folder: Path, *channels: int) -> None:
    """Noise; some patients with two images, a synthetic image that stands twice, one of the training images."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 50), ("held", 21), ("made", 33)):
        images = rng.integers(0, 256, (n, 8, 8, *channels), dtype=np.uint8)
        if name == "made":
            images[3] = images[2]
            images[4] = np.load(folder / "train.npz")["images"][0]
        np.savez(folder / f"{name}.npz", images=images, groups=[f"{name} {i // 2}" for i in range(n)])


@pytest.mark.parametrize("features", [("pixels",), ("small_cnn@none", "pixels:4")])
def test_a_synthetic_audit_does_what_its_dry_run_counted(tmp_path: Path, features: tuple[str, ...]) -> None:
    some_sets(tmp_path)
    sources = {"features": features[0]} if len(features) == 1 else {"detector": features}
    given = {
        "held_out": tmp_path / "held.npz",
        "out": tmp_path / "r",
        "store": tmp_path / "store",
        "plants": 2,
        **sources,
    }
    plan = audit_synthetic(tmp_path / "train.npz", tmp_path / "made.npz", dry_run=True, **given)
    assert isinstance(plan, SyntheticPlan)
    assert (plan.plants, plan.further_plants) == (14, 8)
    with counted() as found:
        audit_synthetic(tmp_path / "train.npz", tmp_path / "made.npz", **given)
    kept = sum(array_bytes(path) for path in (tmp_path / "store").rglob("values.npy"))
    network = len(features) == 2
    decoded = sum(array_bytes(path) for path in (tmp_path / "store").rglob("images.npy"))
    assert found.cost(tmp_path / "r", bytes_features=kept, bytes_images=decoded) == plan.cost
    assert plan.cost.images_passed == (50 + 21 + 33 + 14 + 8 - 1) * network
    assert plan.cost.trainings == plan.cost.steps == 0


def test_the_planes_of_coloured_images_are_counted(tmp_path: Path) -> None:
    """Nine planes of each synthetic image against four of each training image, and the ten of all real ones."""
    some_sets(tmp_path, 3)
    given = {"held_out": tmp_path / "held.npz", "out": tmp_path / "r", "plants": 2, "features": "pixels"}
    plan = audit_synthetic(tmp_path / "train.npz", tmp_path / "made.npz", dry_run=True, **given)
    with counted() as found:
        audit_synthetic(tmp_path / "train.npz", tmp_path / "made.npz", **given)
    assert found.pairs == plan.cost.pairs > 33 * 9 * 50 * 4 + 710 * 709 // 2
    assert not plan.cost.at_most
