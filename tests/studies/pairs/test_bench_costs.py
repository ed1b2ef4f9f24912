"""The costs of both benchmarks of pairs against what they then do."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from memorisk.images.alterations.families import FAMILIES
from memorisk.runs.workload import Cost
from memorisk.studies.pairs.copies import benchmark_copies, plan_copies
from memorisk.studies.pairs.reid import benchmark_reid, plan_reid
from tests.counting import Counts, array_bytes, counted
from tests.studies.pairs.conftest import GROUPS, stored, two_sets


@pytest.fixture
def asked(tmp_path: Path, headed: Path) -> dict[str, Any]:
    """Two data sets with an image that stands there twice; pixels, vectors, a head and a network, an empty cache."""
    source = two_sets(tmp_path / "images")
    Image.open(source.parent / "b/p000_0.png").save(source.parent / "b/p001_0.png")
    detectors = ("mse", "ssim", f"{headed}=Siamese", "pixels:4", "pca:3", "small_cnn@none=Random")
    return {"images": source, "out": tmp_path / "r", "store": tmp_path / "store", "detectors": detectors, **GROUPS}


def costs(found: Counts, store: Path) -> Cost:
    """What was counted, with the bytes in the cache."""
    decoded, kept = (sum(map(array_bytes, store.rglob(f"{name}.npy"))) for name in ("images", "values"))
    return found.cost(store, pairs=found.pairs + found.listed, bytes_features=kept, bytes_images=decoded)


def test_reid_compares_and_passes_what_its_dry_run_counted(asked: dict[str, Any]) -> None:
    plan = plan_reid(**asked)
    with counted() as found:
        result = benchmark_reid(**asked)
    assert not result.failed
    assert costs(found, asked["store"]) == plan.cost
    n = len(stored(asked["images"], store=asked["store"], **GROUPS).images)
    assert plan.cost.images_passed == 2 * (n - 1)
    assert (found.pairs > 0, found.listed > 0) == (True, True)


def test_reid_counts_what_is_left_of_a_killed_run(asked: dict[str, Any]) -> None:
    asked["detectors"] = [name for name in asked["detectors"] if "small_cnn" not in name]
    benchmark_reid(**asked)
    for done in (asked["out"] / "cells").glob("*/cell.json"):
        done.unlink()
        (done.parent / "all_pairs.npz").unlink()
    again = plan_reid(**asked).cost
    with counted() as found:
        benchmark_reid(**asked)
    assert (found.pairs, found.listed) == (again.pairs, 0)


@pytest.mark.thorough
def test_copies_compare_and_pass_what_their_dry_run_counted(asked: dict[str, Any]) -> None:
    asked |= {"families": ("blur", "darkening"), "test_images": 4}
    plan = plan_copies(**asked)
    with counted() as found:
        result = benchmark_copies(**asked)
    assert not result.failed
    assert plan.cost.at_most == ("images_passed",)
    assert costs(found, asked["store"]).numbers == plan.cost.numbers
    strengths = sum(len(FAMILIES[name]) for name in asked["families"])
    n = len(stored(asked["images"], store=asked["store"], **GROUPS).images)
    assert plan.cost.images_passed == 2 * (n - 1 + 8 * strengths)
    assert found.pairs == 0
