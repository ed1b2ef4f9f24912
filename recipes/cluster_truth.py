"""A study and searches on clusters that are hurt while they run: are the bytes those of one machine?

    python -m recipes.cluster_truth [--runs runs/cluster-truth] [--epochs 20] [--rows 12000]
        [--out docs/results/cluster_truth.md]

From the root of a checkout, with the extras cluster and dev. The study is of the built-in digits: two networks, two
seeds, eight trainings and their report. The searches are over all pairs of two tables of so many rows of 64 numbers,
on a coarse grid so that there are ties everywhere: the nearest three by cosine, Canberra and Mahalanobis distances
without those of one's own group, and of a head the pairs above a threshold, the most similar five and a histogram; and
the features of as many images by a small network. Each runs by this machine; then on a Dask cluster of three workers
on loopback, of which one that is in the middle of a job is killed with SIGKILL, another stopped for three seconds and
continued, and the wire to the scheduler is cut once; then on a Ray cluster of three machines on loopback, of which a
worker in the middle of a job is killed, another stopped and continued, and a whole machine taken away.
"""

import argparse
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from tests.runs.clusters import DaskCluster, Wire, dask_cluster, ray_cluster

import memorisk
from memorisk.images.decoding import hash_pixels
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.runs.files import write_array, write_text
from memorisk.runs.placement import ClusterOptions
from memorisk.scores.distances import fit_measure
from memorisk.scores.pairs import check_head
from memorisk.training.devices import limited_threads
from memorisk.training.feature_matrix import load_features
from memorisk.training.workplace import open_workplace

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


def searches(folder: Path, rows: int, **where: Any) -> None:
    """Leave the answers of all searches, and features, as files."""
    rng = np.random.default_rng(0)
    u, v = ((rng.integers(1, 9, (rows, 64)) / 8).astype(np.float32) for _ in range(2))
    v[::3] = u[::3]
    groups = (rng.integers(0, rows // 4, rows), rng.integers(0, rows // 4, rows))
    head = check_head(-rng.integers(1, 9, 64) / 8, 9.0, 64)
    folder.mkdir(parents=True)
    found: dict[str, Any] = {}
    options = ClusterOptions(**where)
    with open_workplace(options, folder / "store", folder, device="cpu", threads=1) as workplace:
        for name in ("cosine", "canberra", "mahalanobis"):
            near = workplace.search.nearest(u, v, fit_measure(name, v), 3, exclude_same=groups)
            found |= {f"{name}-rows": near.indices, f"{name}-distances": near.distances}
        asked: dict[str, Any] = {"threshold": -4.0, "limit": 5000, "k": 5, "edges": np.linspace(-30, 10, 41)}
        survey = workplace.search.survey(u, v, head, exclude_same=groups, **asked)
        assert survey.pairs is not None
        assert survey.top is not None
        found |= {"pairs": np.stack([survey.pairs.first, survey.pairs.second]), "logits": survey.pairs.logit}
        found |= {"top": survey.top.indices, "top-logits": survey.top.logits, "counts": survey.counts}
        images = (u.reshape(-1, 8, 8, 1) * 255).astype(np.uint8)
        store = store_of(images, folder / "store")
        with limited_threads(1):
            found["features"] = load_features(store, "small_cnn@none", work=workplace.features).values
    shutil.rmtree(folder / "store")
    for name, array in found.items():
        write_array(folder / f"{name}.npy", array)


def store_of(images: np.ndarray, folder: Path) -> ImageStore:
    """Images in memory as a store."""
    names = [f"{row:06d}" for row in range(len(images))]
    table = pd.DataFrame({"image": names, "path": "", "label": "", "group": names}, dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    return ImageStore(images, Manifest(table, None, "rows"), "rows", folder / "stores" / "rows", nothing, hashes)


def run(
    work: Callable[..., Any], folder: Path, hurt: Callable[[], list[str]] | None = None, **where: str
) -> tuple[float, list[str]]:
    """Do the work and what hurts its cluster meanwhile; seconds, and what was done to the cluster."""
    told: list[str] = []
    thread = None if hurt is None else threading.Thread(target=lambda: told.extend(hurt()))
    if thread is not None:
        thread.start()
    began = time.monotonic()
    work(folder, **where)
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
    """Do all of it here and on both clusters, compare, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/cluster-truth"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=12000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    works = {
        "study": lambda out, **where: memorisk.study_rare_distinctive(study(given.epochs, **where), out=out),
        "searches": lambda out, **where: searches(out, given.rows, **where),
    }
    rows = [row for name, work in works.items() for row in everywhere(name, work, given.runs)]
    lines = ["| what | where | what was done to it | files | other bytes | seconds |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    text = (__doc__ or "").split("\n\n")[2]
    command = f"python -m recipes.cluster_truth --epochs {given.epochs} --rows {given.rows}"
    title = f"# A study and searches on clusters that are hurt\n\n`{command}`. {text}\n"
    left_out = ", ".join(sorted(FREE))
    page = [title, *lines, "", f"Files: tables, scores, weights, reports, answers, features; not {left_out}.", ""]
    print("\n".join(page))
    if given.out:
        write_text(given.out, "\n".join(page))


def everywhere(what: str, work: Callable[..., Any], runs: Path) -> list[tuple[str, ...]]:
    """The rows of one piece of work: here, on Dask, on Ray."""
    seconds, _ = run(work, runs / f"{what}-here")
    here = results(runs / f"{what}-here")
    rows: list[tuple[str, ...]] = [(what, "this machine", "-", f"{len(here)}", "-", f"{seconds:.0f}")]
    with dask_cluster(3, "--nthreads", "1") as dask:
        wire = Wire(dask.port)
        wire.start()
        where = {"executor": "dask", "cluster": f"tcp://127.0.0.1:{wire.port}"}
        seconds, told = run(work, runs / f"{what}-dask", lambda: hurt_dask(dask, wire), **where)
    rows.append((what, *compared("Dask, three workers", runs / f"{what}-dask", here, seconds, told)))
    with ray_cluster(3) as ray:
        where = {"executor": "ray", "cluster": ray.address}
        seconds, told = run(work, runs / f"{what}-ray", lambda: hurt_ray(ray), **where)
    rows.append((what, *compared("Ray, three machines", runs / f"{what}-ray", here, seconds, told)))
    return rows


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
