"""Commands whose searches and passes of images run on a real Ray cluster end at the bytes of this machine alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import memorisk
from memorisk.studies.pairs.copies import benchmark_copies
from memorisk.studies.pairs.reid import benchmark_reid
from memorisk.training.engine.devices import limited_threads
from tests.audits.elsewhere import Both, Killer, both_places, busy_on_ray
from tests.audits.filter.making import OF, write_folders
from tests.runs.clusters import ray_cluster
from tests.studies.pairs.conftest import GROUPS, patients, small_detector, stored

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    """Two machines with a core each."""
    with ray_cluster(2) as made:
        yield made


@pytest.fixture
def both(cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    """There and here, with as many threads as a machine of the cluster has cores."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    with limited_threads(1):
        yield both_places({"executor": "ray", "cluster": cluster.address}, tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_filter_while_a_worker_is_killed(both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_folders(tmp_path)
    told = OF | {"detector": "small_cnn@none", "families": ("noise:0.1",), "calibration": str(tmp_path / "new")}
    with Killer(busy_on_ray) as killer:
        sent = both(memorisk.filter_synthetic, tmp_path / "train", tmp_path / "set", **told)
    assert len(killer.killed) == 1
    assert min(sent["run_search"], sent["run_features"]) >= 5


@pytest.mark.slow
def test_both_benchmarks_of_pairs(both: Both, tmp_path: Path) -> None:
    people = patients(tmp_path / "images", [12, 2, 3, 4, 2, 1] * 4)
    headed = small_detector(tmp_path / "siamese", stored(people, **GROUPS))
    told = {**GROUPS, "detectors": ("mse", "ssim", f"{headed}=Siamese")}
    assert both(benchmark_reid, people, out="-reid", **told)["run_search"] > 3
    told |= {"families": ("blur", "darkening"), "test_images": 20, "reid": tmp_path / "here-reid"}
    assert both(benchmark_copies, people, out="-copies", **told)["run_features"] > 3  # its pairs are listed
