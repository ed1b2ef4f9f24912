"""A study on Dask and Ray clusters that are hurt while it runs: are its tables those of one machine, byte for byte?

    python -m recipes.cluster_truth [--runs runs/cluster-truth] [--epochs 20] [--out docs/results/cluster_truth.md]

From the root of a checkout, with the extras cluster and dev. The study is of the built-in digits: two networks, two
seeds, eight trainings and their report. It runs by processes of this machine; then on a Dask cluster of three workers
on loopback, of which one that is in the middle of a job is killed with SIGKILL, another stopped for three seconds and
continued, and the wire to the scheduler is cut once; then on a Ray cluster of three machines on loopback, of which a
worker in the middle of a job is killed, another stopped and continued, and a whole machine taken away.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from tests.runs.clusters import DaskCluster, Wire, dask_cluster, ray_cluster

import memorisk
from memorisk.runs.files import write_text

STOPPED_SECONDS = 3.0
FREE = {"config.yaml", "log.jsonl", ".lock"}
"""Files that say where and when, not what."""


def study(epochs: int, **where: str) -> dict[str, Any]:
    """The study's file."""
    return {
        "protocol": "corrected",
        "seeds": [0, 1],
        "settings": {"epochs": epochs, "checkpoint_seconds": 0.5, **where},
        "architectures": {"CNN": {"model": "small_cnn"}, "MLP": {"model": "mlp1"}},
        "datasets": {"digits": {"images": "digits"}},
    }


def run(
    folder: Path, epochs: int, hurt: Callable[[], list[str]] | None = None, **where: str
) -> tuple[float, list[str]]:
    """Run the study and what hurts its cluster meanwhile; seconds, and what was done to the cluster."""
    told: list[str] = []
    thread = None if hurt is None else threading.Thread(target=lambda: told.extend(hurt()))
    if thread is not None:
        thread.start()
    began = time.monotonic()
    memorisk.study_rare_distinctive(study(epochs, **where), out=folder)
    seconds = time.monotonic() - began
    if thread is not None:
        thread.join()
    return seconds, told


def results(folder: Path) -> dict[str, bytes]:
    """Every file but those that say where and when."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name not in FREE)
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def hurt_dask(cluster: DaskCluster, wire: Wire) -> list[str]:
    """Kill the worker of a job that is running, stop another, cut the wire."""
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        while not (busy := [worker for worker, jobs in client.processing().items() if jobs]):
            time.sleep(0.1)
        time.sleep(1)
        pids = client.run(os.getpid)
    killed = pids[busy[0]]
    os.kill(killed, signal.SIGKILL)
    time.sleep(2)
    stopped = next(pid for pid in pids.values() if pid != killed)
    os.kill(stopped, signal.SIGSTOP)
    cut = wire.cut()
    time.sleep(STOPPED_SECONDS)
    os.kill(stopped, signal.SIGCONT)
    return ["a worker killed in the middle of a job", "another stopped and continued", f"{cut} connections cut"]


def hurt_ray(cluster: Any) -> list[str]:
    """Kill a worker that runs a job, stop another, take a machine away."""

    def busy() -> list[psutil.Process]:
        """Workers that run one."""
        return [
            one
            for one in psutil.process_iter(["cmdline"])
            if "ray::attempt_remotely" in " ".join(one.info["cmdline"] or ())
        ]

    while len(found := busy()) < 2:
        time.sleep(0.1)
    time.sleep(1)
    found[0].kill()
    found[1].suspend()
    time.sleep(STOPPED_SECONDS)
    found[1].resume()
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    return ["a worker killed in the middle of a job", "another stopped and continued", "a machine taken away"]


def main() -> None:
    """Run the three studies, compare them, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/cluster-truth"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    seconds, _ = run(given.runs / "here", given.epochs)
    here = results(given.runs / "here")
    rows.append(("this machine", "-", f"{len(here)}", "-", f"{seconds:.0f}"))
    with dask_cluster(3, "--nthreads", "1") as dask:
        wire = Wire(dask.port)
        wire.start()
        where = {"executor": "dask", "cluster": f"tcp://127.0.0.1:{wire.port}"}
        seconds, told = run(given.runs / "dask", given.epochs, lambda: hurt_dask(dask, wire), **where)
    rows.append(compared("Dask, three workers", given.runs / "dask", here, seconds, told))
    with ray_cluster(3) as ray:
        where = {"executor": "ray", "cluster": ray.address}
        seconds, told = run(given.runs / "ray", given.epochs, lambda: hurt_ray(ray), **where)
    rows.append(compared("Ray, three machines", given.runs / "ray", here, seconds, told))
    lines = ["| where | what was done to it | files | other bytes | seconds |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    text = (__doc__ or "").split("\n\n")[2]
    title = (
        f"# A study on clusters that are hurt\n\n`python -m recipes.cluster_truth --epochs {given.epochs}`. {text}\n"
    )
    page = [title, *lines, "", f"Files: tables, scores, weights, reports; not {', '.join(sorted(FREE))}.", ""]
    print("\n".join(page))
    if given.out:
        write_text(given.out, "\n".join(page))


def compared(name: str, folder: Path, here: dict[str, bytes], seconds: float, told: list[str]) -> tuple[str, ...]:
    """A row: how many files differ from those of one machine."""
    there = results(folder)
    others = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    return (
        name,
        "; ".join(told),
        f"{len(there)}",
        f"{len(others)}" + (f" ({others[0]})" if others else ""),
        f"{seconds:.0f}",
    )


if __name__ == "__main__":
    main()
