"""Commands on clusters that are hurt while they run: are the bytes those of one machine?

    python -m recipes.cluster_truth [--runs runs/cluster-truth] [--epochs 20] [--rows 12000]
        [--out docs/results/cluster_truth.md]

From the root of a checkout, with the extras cluster and dev. The study is of the built-in digits: two networks, two
seeds, eight trainings and their report. The searches are over all pairs of two tables of so many rows of 64 numbers,
on a coarse grid so that there are ties everywhere: the nearest three by cosine, Canberra and Mahalanobis distances
without those of one's own group, and of a head the pairs above a threshold, the most similar five and a histogram; and
the features of as many images by a small network. The filter is `memorisk filter` of 61 digits, by a network and with
a guarantee; the benchmarks are `bench reid` and `bench copies` of 96 small images by a detector with a head; of these
two all searches and passes go to the workers, however small. Each runs by this machine; then on a Dask cluster of
three workers on loopback, of which one that has a job is killed with SIGKILL, another stopped for three seconds and
continued, and the wire to the scheduler is cut once. The filter runs once more, while a worker that has a job is
stopped and never continued (`--worker-silence 5`).
"""

import argparse
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.audits.elsewhere import busy_on_dask
from tests.audits.filter.making import OF, write_folders
from tests.runs.clusters import DaskCluster, Wire, dask_cluster
from tests.studies.pairs.conftest import GROUPS, patients, small_detector, stored

import memorisk
from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.files import write_array, write_text
from memorisk.scores.distances import fit_measure
from memorisk.scores.pairs import check_head
from memorisk.studies.pairs.copies import benchmark_copies
from memorisk.studies.pairs.reid import benchmark_reid
from memorisk.training.engine.devices import limited_threads
from memorisk.training.features import compute_backend as feature_jobs
from memorisk.training.features import search_jobs
from memorisk.training.features.compute_backend import open_compute_backend
from memorisk.training.features.matrix import load_features

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
    with open_compute_backend(options, folder / "store", folder, device="cpu", threads=1) as workplace:
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


def filtering(given: Path, out: Path, **where: Any) -> None:
    """Filter the digits of a folder."""
    told = OF | {"detector": "small_cnn@none", "families": ("noise:0.1",), "calibration": str(given / "new")}
    with however_small(), limited_threads(1):
        memorisk.filter_synthetic(given / "train", given / "set", out=out, store=store_beside(out), **told, **where)


def benchmarks(given: Path, out: Path, **where: Any) -> None:
    """Both benchmarks of pairs, by the detector of a folder."""
    told = {**GROUPS, "detectors": ("mse", "ssim", f"{given / 'headed'}=Siamese"), "store": store_beside(out), **where}
    with however_small():
        benchmark_reid(given / "images", out=out / "reid", **told)
        told |= {"families": ("blur", "darkening"), "test_images": 20, "reid": out / "reid"}
        benchmark_copies(given / "images", out=out / "copies", **told)


def store_beside(out: Path) -> Path:
    """Of a run, no part of it."""
    return out.parent / "stores" / out.name


@contextmanager
def however_small() -> Iterator[None]:
    """Searches and passes leave this machine."""
    before = search_jobs.MIN_DISTRIBUTED_WORK, search_jobs._PER_JOB, feature_jobs._MAX_LOCAL_BATCHES
    search_jobs.MIN_DISTRIBUTED_WORK, search_jobs._PER_JOB, feature_jobs._MAX_LOCAL_BATCHES = 0, 64**3, 0
    try:
        yield
    finally:
        search_jobs.MIN_DISTRIBUTED_WORK, search_jobs._PER_JOB, feature_jobs._MAX_LOCAL_BATCHES = before


Hurt = Callable[[Callable[[], bool]], Iterator[str]]
"""Hurts a cluster as long as it is told that the work goes on, and tells what it did."""


def run(work: Callable[..., Any], folder: Path, hurt: Hurt | None = None, **where: Any) -> tuple[float, list[str]]:
    """Do the work and what hurts its cluster meanwhile; seconds, and what was done to the cluster."""
    told: list[str] = []
    over = threading.Event()

    def do() -> None:
        """Hurt it, or say what came of that."""
        try:
            told.extend(hurt(lambda: not over.is_set()) if hurt else ())
        except RuntimeError as error:
            told.append(str(error))

    thread = threading.Thread(target=do)
    thread.start()
    began = time.monotonic()
    try:
        work(folder, **where)
    finally:
        over.set()
    seconds = time.monotonic() - began
    thread.join()
    return seconds, told


def results(folder: Path) -> dict[str, bytes]:
    """Every file but those that say where and when."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name not in FREE)
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def hurt_dask(cluster: DaskCluster, wire: Wire, wait: float, works: Callable[[], bool]) -> Iterator[str]:
    """Kill the worker of a job that is running, stop another, cut the wire."""
    with busy_on_dask(cluster) as busy:
        killed = until(busy, works, wait)[0]
    os.kill(killed, signal.SIGKILL)
    yield "a worker that had a job killed"
    time.sleep(wait)
    stopped = next(worker for worker in cluster.workers if worker.pid != killed)
    stopped.send_signal(signal.SIGSTOP)
    yield f"{until(wire.cut, works)} connections cut"
    time.sleep(STOPPED_SECONDS)
    stopped.send_signal(signal.SIGCONT)
    yield "another stopped and continued"


def stop_for_good(busy: Callable[[], list[int]], works: Callable[[], bool]) -> Iterator[str]:
    """Stop a worker that has a job until the work is over; then end it."""
    stopped = until(busy, works)[0]
    os.kill(stopped, signal.SIGSTOP)
    yield "a worker that had a job stopped for good"
    while works():
        time.sleep(0.1)
    with suppress(ProcessLookupError):
        os.kill(stopped, signal.SIGKILL)


def until(look: Callable[[], Any], works: Callable[[], bool], wait: float = 0.0) -> Any:
    """What a look finds as soon as there is something, and again after a while.

    Raises:
        RuntimeError: The work ended before.
    """
    while works():
        if found := look():
            if not wait:
                return found
            time.sleep(wait)
            wait = 0.0
        time.sleep(0.002)
    raise RuntimeError("the work ended before its cluster was hurt")


def main() -> None:
    """Do all of it here and on the cluster, compare, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/cluster-truth"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=12000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    write_folders(given.runs / "digits")
    patients(given.runs / "people" / "images", [12, 2, 3, 4, 2, 1] * 4)
    store = stored(given.runs / "people" / "images", store=given.runs / "stores" / "made", **GROUPS)
    small_detector(given.runs / "people" / "headed", store)
    works = {
        "study": lambda out, **where: memorisk.study_rare_distinctive(study(given.epochs, **where), out=out),
        "searches": lambda out, **where: searches(out, given.rows, **where),
        "filter": partial(filtering, given.runs / "digits"),
        "benchmarks": partial(benchmarks, given.runs / "people"),
    }
    rows = [row for name, work in works.items() for row in everywhere(name, work, given.runs)]
    lines = ["| what | where | what was done to it | files | other bytes | seconds |", "|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    text = (__doc__ or "").split("\n\n")[2]
    command = f"python -m recipes.cluster_truth --epochs {given.epochs} --rows {given.rows}"
    title = f"# A study, searches, a filter and benchmarks on clusters that are hurt\n\n`{command}`. {text}\n"
    left_out = ", ".join(sorted(FREE))
    page = [title, *lines, "", f"Files: tables, scores, weights, reports, answers, features; not {left_out}.", ""]
    print("\n".join(page))
    if given.out:
        write_text(given.out, "\n".join(page))


def everywhere(what: str, work: Callable[..., Any], runs: Path) -> Iterator[tuple[str, ...]]:
    """The rows of one piece of work: here, and on Dask."""
    seconds, _ = run(work, runs / f"{what}-here")
    here = results(runs / f"{what}-here")
    yield what, "this machine", "-", f"{len(here)}", "-", f"{seconds:.0f}"
    wait = 1.0 if what in ("study", "searches") else 0.0
    for good in (False, True) if what == "filter" else (False,):
        out, more = runs / f"{what}-dask{'-stopped' * good}", {"worker_silence": 5.0} if good else {}
        with dask_cluster(3, "--nthreads", "1") as dask, busy_on_dask(dask) as busy:
            wire = Wire(dask.port)
            wire.start()
            where = {"executor": "dask", "cluster": f"tcp://127.0.0.1:{wire.port}", **more}
            hurt = partial(stop_for_good, busy) if good else partial(hurt_dask, dask, wire, wait)
            seconds, told = run(work, out, hurt, **where)
        yield what, *compared("Dask, three workers", out, here, seconds, told)


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
