"""Commands whose searches and passes of images run on a real Dask cluster end at the bytes of this machine alone."""

from pathlib import Path

import pytest

import memorisk
from memorisk.runs.errors import InputError
from memorisk.studies.pairs.copies import benchmark_copies
from memorisk.studies.pairs.reid import benchmark_reid
from tests.audits.elsewhere import Both, Killer, both_places, busy_on_dask
from tests.audits.filter.making import OF
from tests.audits.filter.making import write_folders as write_filter_folders
from tests.audits.synthesize.making import HERE
from tests.audits.synthesize.making import OF as OF_LOOP
from tests.audits.synthesize.making import write_folders as write_loop_folders
from tests.audits.synthetic.making import write_sets
from tests.runs.clusters import DaskCluster, dask_cluster
from tests.studies.pairs.conftest import GROUPS, patients, small_detector, stored

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    """Two workers."""
    with dask_cluster(2, "--nthreads", "1") as made:
        yield made


@pytest.fixture
def both(cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """There and here."""
    return both_places({"executor": "dask", "cluster": cluster.address}, tmp_path, monkeypatch)


@pytest.mark.slow
def test_an_audit_of_synthetic_images(both: Both, tmp_path: Path) -> None:
    given = write_sets(tmp_path, copied=12, noise=3)
    headed = small_detector(tmp_path / "headed", stored(Path(given["train"])))
    told = {"detector": str(headed), "plants": 1, "plant_kinds": ("exact", "jpeg")}
    sent = both(memorisk.audit_synthetic, given["train"], given["set"], held_out=given["held"], **told)
    assert sent["run_search"] > 15
    assert sent["run_features"] > 8
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        memorisk.audit_synthetic(
            given["train"], given["set"], out=tmp_path / "no", executor="dask", cluster="tcp://127.0.0.1:1"
        )
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_a_filter_while_a_worker_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_filter_folders(tmp_path)
    told = OF | {"detector": "small_cnn@none", "families": ("noise:0.1",), "calibration": str(tmp_path / "new")}
    with dask_cluster(3, "--nthreads", "1") as cluster, busy_on_dask(cluster) as busy, Killer(busy) as killer:
        both = both_places({"executor": "dask", "cluster": cluster.address}, tmp_path, monkeypatch)
        sent = both(memorisk.filter_synthetic, tmp_path / "train", tmp_path / "set", **told)
    assert len(killer.killed) == 1
    assert min(sent["run_search"], sent["run_features"]) >= 5


@pytest.mark.slow
def test_both_benchmarks_of_pairs(both: Both, tmp_path: Path) -> None:
    people = patients(tmp_path / "images", [12, 2, 3, 4, 2, 1] * 4)
    headed = small_detector(tmp_path / "siamese", stored(people, **GROUPS))
    told = {**GROUPS, "detectors": ("mse", "ssim", f"{headed}=Siamese")}
    sent = both(benchmark_reid, people, out="-reid", **told)
    assert sent["run_search"] > 3
    assert sent["run_features"] == 3  # batches of 32 images of 96
    told |= {"families": ("blur", "darkening"), "test_images": 20, "reid": tmp_path / "here-reid"}
    assert both(benchmark_copies, people, out="-copies", **told)["run_features"] > 3  # its pairs are listed


@pytest.mark.slow
def test_a_loop_that_draws_screens_and_is_audited(both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_loop_folders(tmp_path)
    told = {"generator": f"{HERE}:copying", "seed": 1, "images": 40, "calibration": str(tmp_path / "new")}
    sent = both(memorisk.synthesize, tmp_path / "train", **told, **OF_LOOP)
    assert sent["run_search"] > 10


@pytest.mark.slow
def test_figures_of_quality(both: Both, tmp_path: Path) -> None:
    given = write_sets(tmp_path)
    told = {"held_out": given["held"], "features": ("small_cnn@none",), "figures": ("FID", "IRS")}
    assert both(memorisk.assess_quality, given["train"], given["set"], **told)["run_features"] > 8
