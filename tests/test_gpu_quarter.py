"""``benchmarks/gpu_quarter.py``: what a stage that fails, dies or overruns leaves, and a small run of all stages."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

STAGES = """
import os, signal, subprocess, sys, time

def first(run):
    run.note("as it should be", answer=1)

def fails(run):
    run.note(answer=2)
    raise ValueError("the third row is wrong")

def dies(run):
    run.note(answer=3)
    os.kill(os.getpid(), signal.SIGSEGV)

def overruns(run):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    run.note("half of it", child=child.pid)
    time.sleep(600)

def last(run):
    run.note("after the others", answer=5)
"""
RUN = """
import sys
import time
from pathlib import Path
import gpu_quarter
from gpu_quarter import Stage, run_all
gpu_quarter.PRELOADED = ("gpu_common",)
names = {"first": 10, "fails": 10, "dies": 10, "overruns": 1, "last": 10}
stages = tuple(Stage(name, f"stages:{name}", weight) for name, weight in names.items())
sys.exit(0 if run_all(stages, 120, Path(sys.argv[1]), None, True) else 1)
"""


def run(out: Path, *command: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, BENCHMARKS)))}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=environment)


def results(out: Path) -> dict[str, dict]:
    return {file.stem: json.loads(file.read_text("utf-8")) for file in out.glob("*.json")}


def is_over(pid: int) -> bool:
    """Whether a process ends within ten seconds; where init reaps no orphans, a dead one stays as a zombie."""
    try:
        process = psutil.Process(pid)
        for _ in range(100):
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            time.sleep(0.1)
    except psutil.NoSuchProcess:
        return True
    return False


@pytest.mark.thorough
def test_a_stage_that_fails_dies_or_overruns_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "stages.py").write_text(STAGES)
    done = run(tmp_path, "-c", RUN, str(tmp_path / "out"), path=(tmp_path,))
    assert done.returncode == 1, done.stderr
    outcomes = results(tmp_path / "out")
    status = {"first": "ok", "fails": "failed", "dies": "failed", "overruns": "overran", "last": "ok"}
    assert {name: result["status"] for name, result in outcomes.items()} == status
    assert [outcomes[name]["results"]["answer"] for name in ("first", "fails", "dies", "last")] == [1, 2, 3, 5]
    assert outcomes["fails"]["last_lines"][-1] == "ValueError: the third row is wrong"
    for result in outcomes.values():
        assert {"device", "versions", "commit", "seconds", "limit"} <= set(result)
    assert is_over(outcomes["overruns"]["results"]["child"])  # a stage takes what it started with it
    table = [line.split() for line in done.stdout.splitlines()[-len(status) :]]
    assert {words[0]: words[1] for words in table} == status
    assert "the third row is wrong" in done.stdout.splitlines()[-4]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu_quarter

    known = gpu_quarter.metadata.version

    def version(name: str) -> str:
        if name == "timm":
            raise gpu_quarter.metadata.PackageNotFoundError
        return "0.1" if name == "cyclopts" else known(name)

    assert gpu_quarter.missing() == []
    monkeypatch.setattr(gpu_quarter.metadata, "version", version)
    assert [line.split(">")[0] for line in gpu_quarter.missing()] == ["cyclopts", "timm"]


def test_another_answer_on_the_card_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from gpu_audits import differences

    def result(status: str, low: float, high: float) -> SimpleNamespace:
        classes = pd.DataFrame({"label": ["nv"], "mean": [(low + high) / 2], "low": [low], "high": [high]})
        return SimpleNamespace(status=status, per_class=classes)

    cpu = result("fail", 0.1, 0.2)
    assert list(differences(cpu, result("fail", 0.15, 0.3))) == []
    assert list(differences(cpu, result("pass", 0.1, 0.2))) == ["the verdict is pass, on the CPU fail"]
    assert list(differences(cpu, result("fail", 0.3, 0.4))) == ["class nv: M is 0.350, on the CPU 0.150"]


@pytest.mark.thorough
def test_all_stages_run_small(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="without Triton there are no kernels to run")
    script = str(BENCHMARKS / "gpu_quarter.py")
    done = run(tmp_path, script, "--budget", "1500", "--out", str(tmp_path), "--small")
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = results(tmp_path)
    assert len(outcomes) == 10
    assert all(result["results"]["line"] for result in outcomes.values())
