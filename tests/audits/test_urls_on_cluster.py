"""Images, detectors and runs at URLs, jobs on a real cluster: at the URL are the bytes of this machine alone."""

from pathlib import Path

import fsspec.config
import pytest

from memorisk.cli.main import main
from memorisk.runs.storage import bookkeeping
from memorisk.training.engine.devices import limited_threads
from memorisk.training.features import compute_backend as feature_jobs
from memorisk.training.features import search_jobs
from tests.audits.filter.making import write_folders
from tests.audits.test_on_cluster import results
from tests.runs.clusters import dask_cluster
from tests.runs.servers import PASSWORD, USER, FtpServer
from tests.studies.pairs.conftest import patients, small_detector, stored

pytest.importorskip("distributed")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is read and written by URLs; nothing here or on a worker knows another way to it."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "not-shared"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(bookkeeping, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(search_jobs, "MIN_DISTRIBUTED_WORK", 0)
    monkeypatch.setattr(feature_jobs, "_MAX_LOCAL_BATCHES", 0)
    monkeypatch.setitem(fsspec.config.conf, "ftp", {"username": USER, "password": PASSWORD, "timeout": 5})
    (tmp_path / "served").mkdir()
    return tmp_path / "served"


def there_and_here(command: list[str], url: str, served: Path, tmp_path: Path, where: list[str]) -> dict[str, bytes]:
    """The files of a run at a URL that was made on a cluster, after they were compared with those of one made here."""
    with limited_threads(1):  # a pass of images asks for as many cores as there are threads here
        for name, more in (("there", where), ("here", [])):
            store = ["--store", str(tmp_path / f"{name}-store")]
            assert main([*command, "--out", f"{url}/{name}", *store, *more, "--fail-on", "never"]) == 0
    made = at_url(served / "here")
    assert at_url(served / "there") == made
    assert not (tmp_path / "not-shared").exists()
    return made


def at_url(folder: Path) -> dict[str, bytes]:
    """Results of a run, and no mark or note of work under way."""
    hidden = {file.name for file in folder.rglob(".*")}
    assert hidden <= {".memorisk-files.json"}
    return {name: data for name, data in results(folder).items() if name not in hidden}


@pytest.mark.slow
def test_an_audit_whose_images_and_run_are_on_an_ftp_server(served: Path, tmp_path: Path) -> None:
    for number in range(2):
        patients(served / "images" / f"class{number}", [1] * 20, seed=number)
    ftp = FtpServer(served)
    with dask_cluster(2, "--nthreads", "1") as cluster:
        command = ["audit", "classifier", f"{ftp.url}/images", "--models", "2", "--epochs", "1", "--device", "cpu"]
        where = ["--executor", "dask", "--cluster", cluster.address]
        made = there_and_here(command, ftp.url, served, tmp_path, where)
    ftp.stop()
    assert {"report.html", "scores.parquet"} <= set(made)


@pytest.mark.slow
def test_a_filter_whose_images_detector_and_run_are_at_urls(served: Path, tmp_path: Path) -> None:
    write_folders(served)
    small_detector(served / "headed", stored(served / "train", store=tmp_path / "made"))
    url = f"file://{served}"
    command = ["filter", f"{url}/train", f"{url}/set", "--calibration", f"{url}/new", "--detector", f"{url}/headed"]
    command += ["--group-from", r"([a-z]+\d+)_", "--families", "noise:0.1"]
    with dask_cluster(2, "--nthreads", "1") as cluster:
        where = ["--executor", "dask", "--cluster", cluster.address]
        made = there_and_here(command, url, served, tmp_path, where)
    assert {"report.html", "verdict.json"} <= set(made)
