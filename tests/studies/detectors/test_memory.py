"""The memory of a benchmark: what is planned, what is left out and told, and that tables lie on the disk."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from memorisk.runs import arrays
from memorisk.runs.environment import available_memory
from memorisk.scores.distances import PAPER_MEASURES
from memorisk.studies.detectors import benchmark, measurement
from memorisk.studies.detectors.benchmark import benchmark_detectors, plan_benchmark
from memorisk.studies.detectors.cells import Cell, read_backbone
from memorisk.studies.detectors.measurement import (
    FIXED_BYTES,
    MATRICES,
    MEMORY_SHARE,
    columns_of,
    measure_bytes,
    plan_memory,
    take_rows,
    too_large,
)
from memorisk.studies.detectors.options import BenchDetectorsOptions
from tests.commands import answer

SHAPE = (2861, 224, 224, 3)


def job(backbone: str = "pixels", loss: str = "none") -> Any:
    """A cell of a default benchmark of 2,000 images, as far as a plan asks it."""
    parts = SimpleNamespace(part=np.zeros(2000), copied=np.zeros(1600), rows=lambda *names: np.arange(1000))
    cell = Cell(read_backbone(backbone), loss, 0)
    return cast(
        Any, SimpleNamespace(cell=cell, division=parts, missing=tuple(PAPER_MEASURES), options=BenchDetectorsOptions())
    )


def test_a_covariance_that_does_not_fit_is_left_out_and_the_rest_is_planned() -> None:
    pixels, pca = job(), job("pca:16")
    assert [columns_of(each, SHAPE) for each in (pixels, pca, job("mlp1@none", "triplet"))] == [150_528, 16, 128]
    free = 24 << 30
    found = plan_memory([pixels, pca], SHAPE, 4, free)
    (name,) = found.left_out
    assert set(found.left_out[name]) == {"mahalanobis"}
    assert "150,528 columns needs 1,18" in found.left_out[name]["mahalanobis"]
    assert "24.0 GB are free" in found.left_out[name]["mahalanobis"]
    assert found.needed == measure_bytes("seuclidean", 1000, 150_528) == FIXED_BYTES + 8 * 1000 * 150_528
    assert found.processes == min(4, int(MEMORY_SHARE * free / found.needed))
    assert found.on_disk == 4 * 150_528 * (2000 + 2 * 1600 + 2 * 1000)
    assert plan_memory([pca], SHAPE, 64, free).processes == int(MEMORY_SHARE * free / found_alone(pca))
    assert plan_memory([pixels], SHAPE, 4, None) == replace(found, free=None, processes=4, left_out={}, needed=(
        measure_bytes("mahalanobis", 1000, 150_528)))  # fmt: skip
    assert plan_memory([pixels], SHAPE, 4, 1 << 20).processes == 1  # one is tried, whatever little is free


def found_alone(one: Any) -> int:
    """What a detector by itself needs."""
    return plan_memory([one], SHAPE, 1, 24 << 30).needed


def test_a_measure_fits_up_to_the_square_root_of_the_memory() -> None:
    free = 16 << 30
    most = int(np.sqrt((MEMORY_SHARE * free - FIXED_BYTES) / (8 * MATRICES)))
    assert not too_large("mahalanobis", 0, most, free)
    assert too_large("mahalanobis", 0, most + 2, free)
    assert not too_large("mahalanobis", 0, 10**6, None)
    assert not too_large("euclidean", 10**6, 10**6, free)


def test_what_is_left_out_is_told_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measurement, "MATRICES", 10**9)
    monkeypatch.setattr(benchmark, "available_memory", lambda: 8 << 30)
    settings: dict[str, Any] = {"backbones": ("pca:4",), "measures": ("cosine", "mahalanobis"), "sample": 200,
                                "strengths": ("weak",), "specificity": 0.8, "processes": 8}  # fmt: skip
    plan = plan_benchmark("digits", out=tmp_path / "b", **settings)
    assert plan.memory.processes == int(MEMORY_SHARE * (8 << 30) / FIXED_BYTES)
    assert set(plan.memory.left_out["pca:4 (untrained), seed 0"]) == {"mahalanobis"}
    flat = ("--backbones", "pca:4", "--measures", "cosine", "mahalanobis", "--sample", 200, "--strengths", "weak")
    code, told, _ = answer(
        capsys, "bench", "detectors", "digits", "--out", tmp_path / "b", *flat, "--specificity", 0.8, "--dry-run"
    )
    assert code == 0
    assert "8.0 GB are free: 1 side by side" in told
    assert "would be left out: pca:4 (untrained), seed 0: mahalanobis of 4 columns needs" in told
    found = benchmark_detectors("digits", out=tmp_path / "b", **settings | {"processes": 1})
    refused = next(table.ours for table in found.tables if table.name == "refused")
    assert refused["measure"].tolist() == ["mahalanobis", "mahalanobis"]
    assert all("of memory and 8.0 GB are free" in why for why in refused["why"])
    assert found.board.rows["measure"].tolist() == ["cosine"]


def test_parts_of_large_tables_lie_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "SCRATCH_BYTES", 1 << 10)
    values = np.random.default_rng(0).random((50, 300), dtype=np.float32)
    rows = np.array([4, 4, 0, 49])
    found = take_rows(values, rows)
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, values[rows])
    assert not isinstance(take_rows(values[:, :2], rows), np.memmap)


def test_the_free_memory_is_that_of_the_machine() -> None:
    free = available_memory()
    assert free is None or 0 < free < 1 << 50
