"""A quarter of an hour on a GPU: does it work, what users get, what the papers' headlines take.

    python benchmarks/gpu_quarter.py --budget 380 --out FOLDER                 # all stages but those that read data
    python benchmarks/gpu_quarter.py --budget 320 --out FOLDER --data FOLDER   # those that read data
    python benchmarks/gpu_quarter.py --budget 120 --out FOLDER --small         # all of them, tiny, on a CPU

Stages run in order of worth, each in a child process that is killed at its limit: its share of the seconds that are
left. A stage writes ``FOLDER/STAGE.json`` at every measurement, so that a cut leaves what was done; its status is ok,
failed or overran (running, where the whole command was cut), with the last lines of what it printed. The table at the
end has a line for each. Exits with 1 unless all are ok. Packages are read from ``src``; nothing is downloaded. The
environment variable COMMIT names the commit where there is no git.
"""

import argparse
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]
LAST_LINES = 12
PRELOADED = ("gpu_common", "numba", "sklearn.covariance", "timm")
"""What most stages import, once, since stages are forks. None of it may start the GPU, which a fork cannot use."""


@dataclass(frozen=True)
class Stage:
    """A stage by the module and name of its function, which takes a `gpu_common.Run`."""

    name: str
    function: str
    weight: float
    """Share of the seconds left, relative to the weights of the stages after it."""
    reads_data: bool = False


STAGES = (
    Stage("tests", "gpu_audits:tests", 65),
    Stage("classifier", "gpu_audits:classifier", 45),
    Stage("synthetic", "gpu_audits:synthetic", 45),
    Stage("ham10000", "gpu_audits:ham10000", 200, reads_data=True),
    Stage("fine_tuning", "gpu_audits:fine_tuning", 130, reads_data=True),
    Stage("pairs", "gpu_searches:pairs", 20),
    Stage("distances", "gpu_searches:distances", 75),
    Stage("generators", "gpu_networks:generators", 75),
    Stage("stacks", "gpu_networks:stacks", 12),
    Stage("lcmem", "gpu_networks:lcmem", 45),
)


def missing() -> list[str]:
    """The packages that memorisk and the stages need and that are not here, or in another version."""
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = []
    for line in (*project["dependencies"], *extras["generative"], "pytorch-metric-learning", "pytest", "hypothesis"):
        needed = Requirement(line)
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            lines.append(f"{line}: not here")
            continue
        if version not in needed.specifier:
            lines.append(f"{line}: here is {version}")
    return lines


def commit() -> str:
    """The commit that runs."""
    if name := os.environ.get("COMMIT"):
        return name
    try:
        done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def work(function: str, log: Path, settings: dict[str, Any]) -> None:
    """Run a stage: what its child process does, in a process group that is ended as one."""
    os.setpgid(0, 0)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        from gpu_common import Run

        module, name = function.split(":")
        run = Run(**settings)
        run.note()
        getattr(importlib.import_module(module), name)(run)
        run.note()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # no thread or worker that a stage left behind may hold it up


def end(child: Any) -> None:
    """End a stage's process and all that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has no group yet, or is gone
        child.kill()
    child.join()


def run_stage(stage: Stage, settings: dict[str, Any]) -> dict[str, Any]:
    """Run a stage within its limit and complete its result."""
    from memorisk.runs.files import read_json, write_json

    file, log = settings["file"], settings["folder"] / "log"
    file.unlink(missing_ok=True)
    begun = time.monotonic()
    child = multiprocessing.get_context("fork").Process(target=work, args=(stage.function, log, settings))
    child.start()
    try:
        child.join(settings["limit"])
        status = "overran" if child.is_alive() else "failed" if child.exitcode else "ok"
    finally:
        end(child)
    result = read_json(file) if file.exists() else {"stage": stage.name, "commit": settings["commit"], "results": {}}
    result |= {"status": status, "seconds": round(time.monotonic() - begun, 1), "limit": round(settings["limit"], 1)}
    if status != "ok":
        printed = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
        here = f"{ROOT}{os.sep}"  # results are committed, and name no path of a machine
        result["last_lines"] = [line.replace(here, "")[:400] for line in printed[-LAST_LINES:]]
    write_json(file, result)
    return result


def run_all(stages: tuple[Stage, ...], budget: float, out: Path, data: Path | None, small: bool) -> bool:
    """Run the stages one after another, print the table, and return whether all are ok."""
    ends, rows, name = time.monotonic() + budget, [], commit()
    out.mkdir(parents=True, exist_ok=True)
    for line in missing():
        print(f"missing: {line}", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        os.environ["MEMORISK_CACHE"] = temporary
        for module in (*PRELOADED, *{stage.function.split(":")[0] for stage in stages}):
            try:
                importlib.import_module(module)
            except Exception as error:  # the stages that need it say so again
                print(f"{module}: {error}", flush=True)
        for number, stage in enumerate(stages):
            folder = Path(temporary) / stage.name
            folder.mkdir()
            share = stage.weight / sum(later.weight for later in stages[number:])
            settings = {"name": stage.name, "file": out.resolve() / f"{stage.name}.json", "folder": folder}
            settings |= {
                "data": data,
                "small": small,
                "limit": max(1.0, (ends - time.monotonic()) * share),
                "commit": name,
            }
            rows.append(run_stage(stage, settings))
            print(line_of(rows[-1]), flush=True)
    if small:
        print("\nrates on a CPU mean nothing")
    for row in rows:
        if row["status"] != "ok":
            print(f"\n{row['stage']} {row['status']}:", *row["last_lines"], sep="\n  ")
    print("\n" + "\n".join(line_of(row) for row in rows))
    return all(row["status"] == "ok" for row in rows)


def line_of(row: dict[str, Any]) -> str:
    """A stage's line of the table."""
    summary = row["results"].get("line", "")
    if row["status"] == "failed":
        summary = f"{row['last_lines'][-1] if row['last_lines'] else ''} {summary}".strip()
    return f"{row['stage']:<12} {row['status']:<8} {row['seconds']:6.1f} s of {row['limit']:5.0f}  {summary}"


def main() -> int:
    """Run what was chosen; 0 where every stage is ok."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    stages = STAGES if options.small else tuple(s for s in STAGES if s.reads_data == (options.data is not None))
    if options.small:
        os.environ |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}  # before Triton is imported
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a stage ends with the command
    return 0 if run_all(stages, options.budget, options.out, options.data, options.small) else 1


if __name__ == "__main__":
    sys.exit(main())
