"""What memorisk starts runs nothing from the current folder, whoever starts it and however."""

import json
import os
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from memorisk.runs import processes
from memorisk.runs.processes import SAFE_ENVIRONMENT, child_path, environment_variables, safe_start
from tests.poison import imported_names, marked, poison
from tests.runs.clusters import ENVIRONMENT, ROOT, dask_cluster
from tests.thorough import thorough

POOL = """
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs import executors
executors._METHOD = given["method"]
from tests.runs.test_child_processes import look_around
print(json.dumps(run_jobs(look_around, [1, 2], processes=2)))
"""
TRACKER = """
from memorisk.runs.executors.pool import prepare_workers
prepare_workers("memorisk.runs.files")
"""
DECODER = """
from pathlib import Path
from memorisk.images.readers.dicom import decode_in_child
print(json.dumps(int(decode_in_child(Path(given["file"]), 0, "pylibjpeg").sum())))
"""
CLUSTER = """
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.placement import Placement
from tests.runs.test_child_processes import look_around
place = Placement(given["executor"], given["address"])
print(json.dumps(run_jobs(look_around, [1, 2], place=place)))
"""


def look_around(job: int) -> dict[str, Any]:
    """What a job finds: its path, and the names that a Python process of its own runs from its folder."""
    here = os.getcwd()  # noqa: PTH109
    code = "import sys, json, random, numpy; print(json.dumps(sys.path))"
    inner = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {"job": job, "here": here, "path": sys.path, "inner": json.loads(inner.stdout)}


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of poisoned modules; their marks are beside it."""
    above = tmp_path_factory.mktemp("poisoned")
    return poison(above / "place", above / "marks")


@pytest.fixture
def place(poisoned: Path) -> Path:
    """The same, without marks of other tests."""
    for mark in (poisoned.parent / "marks").iterdir():
        mark.unlink()
    return poisoned


def parent(code: str, place: Path, *, notebook: bool = False, **given: Any) -> Any:
    """What code prints that runs in the folder: as the command does, or as in a notebook, with '' first on its path.

    A notebook searches the folder itself; modules that it imports are there already, so that its children count.
    """
    first = "import json, sys\n"
    if notebook:
        first += "import pydicom, memorisk.runs.executors.pool, memorisk.images.readers.dicom\n"
        first += "import tests.runs.test_child_processes\nsys.path[0] = ''\n"
    last = f"assert (sys.path[0] == '') is {notebook} and 'PYTHONSAFEPATH' not in __import__('os').environ\n"
    script = place.parent / "parent.py"
    script.write_text(f"{first}given = json.loads(sys.argv[1])\n{code}\n{last}")
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(given)],
        cwd=place,
        env={name: value for name, value in ENVIRONMENT.items() if name != "PYTHONSAFEPATH"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def test_the_poison_works(place: Path) -> None:
    code = "import numpy, random, sys; assert 'site' in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=place, check=True, env=os.environ | {"PYTHONSAFEPATH": ""})
    assert marked(place.parent / "marks") == ["numpy", "random"]
    assert {"numpy", "PIL", "torch", "multiprocessing", "memorisk", "sitecustomize"} <= imported_names()


@pytest.mark.parametrize("method", ["forkserver", thorough("spawn")])
def test_workers_of_a_notebook_and_what_they_start_run_nothing_from_its_folder(place: Path, method: str) -> None:
    found = parent(POOL, place, notebook=True, method=method)
    assert marked(place.parent / "marks") == []
    for job in found:
        assert not {"", ".", str(place)} & {*job["path"], *job["inner"]}


def test_the_resource_tracker_runs_nothing_from_the_current_folder(place: Path) -> None:
    parent(TRACKER, place, notebook=True)
    assert marked(place.parent / "marks") == []


def test_the_decoder_of_dicom_runs_nothing_from_the_current_folder(place: Path, shared_data: Path) -> None:
    file = shared_data / "dicom_pydicom" / "test_files" / "MR_small_jp2klossless.dcm"
    assert parent(DECODER, place, notebook=True, file=str(file)) > 0
    assert marked(place.parent / "marks") == []


@pytest.mark.thorough
def test_jobs_on_a_dask_cluster_run_nothing_from_the_folder_of_the_command_or_the_worker(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.chdir(place)
    monkeypatch.setitem(ENVIRONMENT, "PYTHONSAFEPATH", "1")  # as docs/cluster.md says
    with dask_cluster(1, "--nthreads", "1", nanny=True) as cluster:
        found = parent(CLUSTER, place, executor="dask", address=cluster.address)
    assert found[0]["here"] == str(place)
    assert marked(place.parent / "marks") == []


def test_the_path_of_children_keeps_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/installed", "."])
    assert child_path() == [str(tmp_path), "/installed"]
    with safe_start():
        assert sys.path == [str(tmp_path), "/installed"]
        sys.path.append("/later")
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert sys.path == ["", str(tmp_path), "/installed", ".", "/later"]
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    with environment_variables(SAFE_ENVIRONMENT):
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ["PYTHONSAFEPATH"] == ""


def test_a_python_whose_children_would_ignore_the_environment_is_refused(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n"
    code += "from memorisk.runs.processes import safe_start\nwith safe_start(): print('started')"
    runs = [
        subprocess.run([sys.executable, flag, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
        for flag in ("-E", "-I")
    ]
    assert runs[0].returncode == 1
    assert "start it with -P as well, or with -I" in runs[0].stderr
    assert runs[1].stdout == "started\n"


def test_the_fork_server_is_none_of_the_users() -> None:
    before = forkserver.connect_to_new_process
    with safe_start():
        assert forkserver.connect_to_new_process == processes._server().connect_to_new_process
    assert forkserver.connect_to_new_process == before
