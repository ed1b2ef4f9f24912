"""Audits whose jobs run on a real Dask cluster on loopback end at the bytes of this machine's own processes."""

from pathlib import Path

import pytest

import memorisk
from memorisk.runs.errors import InputError
from memorisk.studies.detectors.benchmark import benchmark_detectors
from memorisk.studies.generators.study import study_generators
from tests.runs.clusters import DaskCluster, dask_cluster

pytest.importorskip("distributed")

TINY = {"models": 2, "epochs": 1, "design": "balanced", "fail_on": "never"}
GRID = {"backbones": ("small_cnn@none", "pixels"), "measures": ("cosine", "euclidean"), "specificity": 0.7,
        "network_size": 8}  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    """Two workers."""
    with dask_cluster(2, "--nthreads", "1") as made:
        yield made


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


def results(folder: Path) -> dict[str, bytes]:
    """Every file of a run but what says where and when."""
    free = {"config.yaml", "log.jsonl", ".lock"}
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name not in free
    }


@pytest.mark.thorough
def test_an_audit_of_a_classifier(cluster: DaskCluster, tmp_path: Path) -> None:
    there = {"executor": "dask", "cluster": cluster.address}
    memorisk.audit_classifier("digits", out=tmp_path / "there", **there, **TINY)
    memorisk.audit_classifier("digits", out=tmp_path / "here", **TINY)
    made = results(tmp_path / "here")
    assert results(tmp_path / "there") == made
    assert {"report.html", "verdict.json", "per_group.parquet"} <= set(made)
    memorisk.audit_classifier("digits", out=tmp_path / "there", **TINY)  # where it ran is no part of what a run is
    with pytest.raises(InputError, match="--executor is local: name --executor dask"):
        memorisk.audit_classifier("digits", out=tmp_path / "other", cluster=cluster.address, **TINY)
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        memorisk.audit_classifier(
            "digits", out=tmp_path / "other", executor="dask", cluster="tcp://127.0.0.1:1", **TINY
        )


@pytest.mark.thorough
def test_a_benchmark_of_detectors(cluster: DaskCluster, tmp_path: Path) -> None:
    there = {"executor": "dask", "cluster": cluster.address}
    benchmark_detectors("digits", out=tmp_path / "there", **there, **GRID)
    benchmark_detectors("digits", out=tmp_path / "here", **GRID)
    assert results(tmp_path / "there") == results(tmp_path / "here")


@pytest.mark.slow
def test_a_study_of_generators(cluster: DaskCluster, tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    config = {
        "settings": {"images": 20, "sampling_steps": 2, "strengths": []},
        "generator": {"network": "tiny/4", "batch_size": 8, "conditioned_on": "none", "steps": 2},
        "datasets": {"digits": {"images": "digits"}},
        "arms": {"few": {"training_images": 20}, "more": {"training_images": 40}, "all": {"training_images": 10**6}},
    }
    there = config | {"settings": {**config["settings"], "executor": "dask", "cluster": cluster.address}}
    found = study_generators(there, out=tmp_path / "there")
    assert len(found.failed) == 1  # the one that asks for more images than there are; the others run
    study_generators(config, out=tmp_path / "here")
    assert results(tmp_path / "there") == results(tmp_path / "here")
