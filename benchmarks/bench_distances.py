"""The nearest reference by 14 measures against SciPy, and against faiss where it is at hand.

    python benchmarks/bench_distances.py [--n 16384] [--d 512] [--rounds 3] [--measures NAME,NAME] [--faiss FOLDER]

n queries against n references of d columns, random float32; absolute values for braycurtis, canberra and
jensenshannon, true above the references' median for dice and matching (SciPy is given true and false). Each round
takes `nearest` over all pairs, checks of the rows included, and ``scipy.spatial.distance.cdist(...).argmin(axis=1)``
over the first queries and all references, whose seconds are scaled to all queries: cdist goes query by query, so that
its work is proportional to them. What is fitted (variances, covariance, medians) is given to both sides. SciPy gets
float64 arrays, which it would otherwise make itself at every call, and has one thread, as it comes; `nearest` has as
many as the machine has cores, stated in the result. The same neighbours and distances equal to 1e-6 are asserted in
every round.

``--faiss`` names a folder with faiss-cpu (``pip install --target FOLDER --no-deps faiss-cpu``): its flat L1 index, with
the same threads, over all pairs in the same rounds. Peak private memory is taken in a process of its own, over mapped
inputs, above what the process held with the package imported. Writes ``benchmarks/results/distances.json`` where n is
16,384; exits with 1 where a limit is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from bench_memory import Peak
from intervals import median_interval
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.scores.distances import MEASURES, FittedMeasure, fit_measure, nearest

RESULT, FULL = Path(__file__).parent / "results" / "distances.json", 16_384
LIMITS = dict.fromkeys(MEASURES, 6.0) | {"mahalanobis": 50.0, "jensenshannon": 8.0, "minkowski": 100.0}
LIMITS = {name: limit for name, limit in LIMITS.items() if name not in ("dice", "matching")}
FAISS_LIMIT, MEMORY_LIMIT = 1.8, 300 * 2**20
POSITIVE, BINARY = ("braycurtis", "canberra", "jensenshannon"), ("dice", "matching")
ROWS = {"mahalanobis": 2, "minkowski": 16, "jensenshannon": 8}
"""Queries that SciPy is given, of n = 16,384; 128 of the other measures."""


def data(n: int, d: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Queries and references of a measure."""
    rng = np.random.default_rng(0)
    x, r = (rng.normal(size=(n, d)).astype(np.float32) for _ in range(2))
    return (np.abs(x), np.abs(r)) if name in POSITIVE else (x, r)


def fit(name: str, references: np.ndarray) -> FittedMeasure:
    """The measure as both sides use it."""
    return fit_measure(name, references, binarise="median" if name in BINARY else None)


def scipy_side(x: np.ndarray, r: np.ndarray, measure: FittedMeasure) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Nearest references of a few queries by cdist."""
    x, r, name = x.astype(np.float64), r.astype(np.float64), measure.name
    known: dict[str, Any] = {"p": 3.0} if name == "minkowski" else {}
    if measure.variance is not None:
        known["V"] = measure.variance
    if measure.whitening is not None:
        known["VI"] = measure.whitening @ measure.whitening.T
    if measure.medians is not None:
        x, r = x > measure.medians, r > measure.medians
        name = "hamming" if name == "matching" else name

    def run() -> tuple[np.ndarray, np.ndarray]:
        far = cdist(x, r, name, **known)
        found = far.argmin(axis=1)
        return found, far[np.arange(len(far)), found]

    return run


def faiss_side(folder: str, x: np.ndarray, r: np.ndarray, threads: int) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Nearest references by faiss's flat L1 index."""
    sys.path.append(folder)
    import faiss  # pyright: ignore[reportMissingImports]

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlat(r.shape[1], faiss.METRIC_L1)
    index.add(r)

    def run() -> tuple[np.ndarray, np.ndarray]:
        distances, indices = index.search(x, 1)
        return indices[:, 0], distances[:, 0]

    return run


def timed(side: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of one call, and what it returned."""
    start = time.perf_counter()
    value = side()
    return time.perf_counter() - start, value


def bench(name: str, n: int, d: int, rounds: int, threads: int, folder: str | None) -> dict[str, Any]:
    """Paired ratios of one measure."""
    x, r = data(n, d, name)
    measure = fit(name, r)
    rows = max(1, min(n, ROWS.get(name, 128) * FULL // n))
    peer = scipy_side(x[:rows], r, measure)
    others = {"scipy": (peer, n / rows)}
    if folder and name == "cityblock":
        others["faiss"] = (faiss_side(folder, x, r, threads), 1.0)
    nearest(x[:300], r[:300], measure, threads=threads)  # compiles, or reads what was compiled
    seconds: dict[str, list[float]] = {side: [] for side in ("nearest", *others)}
    for number in range(rounds):
        sides = ["nearest", *others]
        for side in sides if number % 2 else sides[::-1]:
            if side == "nearest":
                took, found = timed(lambda: nearest(x, r, measure, threads=threads))
            else:
                took, (indices, distances) = timed(others[side][0])
                took *= others[side][1]
                if side == "scipy":
                    expected = indices, distances
            seconds[side].append(took)
        np.testing.assert_array_equal(found.indices[:rows, 0], expected[0])
        np.testing.assert_allclose(found.distances[:rows, 0], expected[1], rtol=1e-6)
    row: dict[str, Any] = {"measure": name, "scipy_queries": rows}
    row["seconds"] = {side: float(np.median(values)) for side, values in seconds.items()}
    for side in others:
        ratios = np.divide(seconds[side], seconds["nearest"])
        row[side] = dict(zip(("ratio_median", "ratio_low", "ratio_high"), median_interval(ratios), strict=True))
    return row


def peak(name: str, n: int, d: int, threads: int) -> int:
    """Peak private memory of one call over mapped inputs above what the process held before, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        for file, rows in zip("xr", data(n, d, name), strict=True):
            np.save(Path(folder) / f"{file}.npy", rows)
        command = [sys.executable, __file__, "--child", folder, "--measures", name, "--threads", str(threads)]
        return int(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def child(folder: str, name: str, threads: int) -> None:
    """One call; prints the growth of the peak."""
    x, r = (np.load(Path(folder) / f"{file}.npy", mmap_mode="r") for file in "xr")
    measure = fit(name, r)
    with Peak() as peak:
        nearest(x, r, measure, threads=threads)
    print(json.dumps(peak.growth))


def missed(rows: list[dict[str, Any]]) -> list[str]:
    """The limits that do not hold."""
    found = []
    for row in rows:
        name = row["measure"]
        if name in LIMITS and row["scipy"]["ratio_median"] < LIMITS[name]:
            found.append(f"{name} {row['scipy']['ratio_median']:.1f} of {LIMITS[name]:g}")
        if "faiss" in row and row["faiss"]["ratio_median"] < FAISS_LIMIT:
            found.append(f"faiss L1 {row['faiss']['ratio_median']:.2f} of {FAISS_LIMIT}")
        if row["peak_private_bytes"] > MEMORY_LIMIT:
            found.append(f"{name} takes {row['peak_private_bytes'] / 2**20:.0f} MiB")
    return found


def main() -> int:
    """Measure, print, write; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=FULL)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measures", default=",".join(MEASURES))
    parser.add_argument("--threads", type=int, default=machine()["cores"])
    parser.add_argument("--faiss", help="folder with faiss-cpu")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.measures.split(",")
    if given.child:
        child(given.child, names[0], given.threads)
        return 0
    rows = []
    for name in names:
        row = bench(name, given.n, given.d, given.rounds, given.threads, given.faiss)
        row["peak_private_bytes"] = peak(name, given.n, given.d, given.threads)
        rows.append(row)
        said = [
            f"{row[side]['ratio_median']:.1f} ({row[side]['ratio_low']:.1f} to {row[side]['ratio_high']:.1f}) times "
            f"{side} ({row['seconds'][side]:.1f} s)"
            for side in ("scipy", "faiss")
            if side in row
        ]
        size = row["peak_private_bytes"] / 2**20
        print(f"{name}: {row['seconds']['nearest']:.2f} s, {', '.join(said)}, {size:.0f} MiB", flush=True)
    found = {"n": given.n, "d": given.d, "rounds": given.rounds, "threads": given.threads, "rows": rows}
    found |= {"limits": LIMITS, "faiss_limit": FAISS_LIMIT, "memory_limit": MEMORY_LIMIT, "missed": missed(rows)}
    if given.n == FULL and len(names) == len(MEASURES):
        write_json(RESULT, found | {"machine": machine(), "versions": versions()})
    print("limits met" if not found["missed"] else f"limits missed: {'; '.join(found['missed'])}")
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
