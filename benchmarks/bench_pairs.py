"""LCMem's head over all pairs of a set, against a PyTorch loop, a NumPy broadcast and ``torch.cdist``.

    python benchmarks/bench_pairs.py [--n 16125] [--d 512] [--rounds 5] [--threads 2]

n vectors of d features between 0 and 1 and a head with weights of both signs, mostly negative, as training leaves it.
Each round takes, in an order that turns, ``survey`` over all n (n - 1) / 2 pairs with a histogram of 100 bins and the
ten most similar of every row (checks included), and of the peers only the logits, for some rows, in pairs a second:

- loop: ``linear(|u_i - u_j|)`` in PyTorch, a row against all that follow;
- broadcast: the same in NumPy, in blocks of 16 rows;
- cdist: ``torch.cdist`` with p = 1 of columns scaled by their weights, once for each sign, 1,024 rows at a time;
- avx512: a kernel in C, float32 (``pairs_avx512.c``), where there are gcc and a processor for it.

All with the same threads but the broadcast, which has one.

Beside it ``above`` with p >= 0.5 (logit 0) over the same pairs, where pairs are given up after few columns, for random
features (every pair far below) and for features of identities (8 vectors each around a centre): the share of columns
that were added up is stated. Logits and most similar rows of some rows are held to float64 in every round. Peak private
memory is taken in a process of its own, over mapped inputs. Writes ``benchmarks/results/bench_pairs.json`` where n is
16,125 and d 512; exits with 1 where a limit is missed.
"""

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench_memory import Peak
from intervals import median_interval
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.scores.pairs import Survey, score, survey

RESULT, FULL = Path(__file__).parent / "results" / "bench_pairs.json", (16_125, 512)
LIMITS = {"loop": 45.0, "cdist": 6.0, "avx512": 0.5}
MEMORY_LIMIT = 300 * 2**20
BIAS, K, BINS = 5.0, 10, 100
PEER_ROWS = {"loop": 48, "cdist": 1024}


def vectors(kind: str, n: int, d: int) -> np.ndarray:
    """[n, d] float32 features."""
    rng = np.random.default_rng(0)
    if kind == "random":
        return rng.random((n, d), dtype=np.float32)
    centres = 1.5 * rng.normal(size=(-(-n // 8), d))
    raw = centres[rng.permutation(np.arange(n) % len(centres))] + 0.1 * rng.normal(size=(n, d))
    return (1 / (1 + np.exp(-raw))).astype(np.float32)


def weights(d: int) -> np.ndarray:
    """[d] an eighth of them positive and small."""
    w = -np.abs(np.random.default_rng(1).normal(size=d)) * 256 / d
    w[: d // 8] *= -0.3
    return w.astype(np.float32)


def edges_of(u: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Bins over the logits of some pairs."""
    some = score(u[:300], None, w, BIAS)[np.triu_indices(min(300, len(u)), 1)]
    return np.linspace(some.min(), some.max(), BINS + 1)


def peers(u: np.ndarray, w: np.ndarray) -> dict[str, Callable[[], tuple[int, np.ndarray, int]]]:
    """Pairs computed, logits of a row with all that follow, and that row."""
    x, weight, n = torch.from_numpy(u), torch.from_numpy(w)[None], len(u)
    size = torch.from_numpy(np.abs(w))
    sides = [(x[:, side] * size[side]).contiguous() for side in (torch.from_numpy(w > 0), torch.from_numpy(w < 0))]
    bias = torch.tensor([BIAS])

    def loop() -> tuple[int, np.ndarray, int]:
        """A row at a time."""
        pairs, last = 0, torch.empty(0)
        rows = np.linspace(n - 2, 0, min(PEER_ROWS["loop"], n - 1)).astype(int)
        for row in rows:
            last = torch.nn.functional.linear((x[row] - x[row + 1 :]).abs(), weight, bias)[:, 0]
            pairs += len(last)
        return pairs, last.numpy(), int(rows[-1])

    def broadcast() -> tuple[int, np.ndarray, int]:
        """Some rows at a time, all columns of all rows."""
        found = [np.abs(u[first : first + 16, None] - u[None]) @ w + np.float32(BIAS) for first in (0, 16)]
        return 32 * n, found[0][0, 1:], 0

    def cdist() -> tuple[int, np.ndarray, int]:
        """Two city-block distances."""
        few = min(PEER_ROWS["cdist"], n)
        up, down = (torch.cdist(side[:few], side, p=1.0) for side in sides)
        return few * n, (up - down + BIAS)[0, 1:].numpy(), 0

    kernel = compiled_kernel()

    def avx512() -> tuple[int, np.ndarray, int]:
        """The hand-written kernel; whole blocks of 64."""
        few, whole = min(PEER_ROWS["cdist"], n) // 4 * 4, n // 64 * 64
        room = np.empty((few, whole), np.float32)
        told = (u.ctypes.data, whole, u.shape[1], w.ctypes.data, ctypes.c_float(BIAS), few, room.ctypes.data)
        kernel(*(ctypes.c_void_p(value) if isinstance(value, int) else value for value in told))
        return few * whole, room[0, 1:], 0

    found = {"loop": loop, "broadcast": broadcast, "cdist": cdist}
    return found | ({"avx512": avx512} if kernel and u.shape[1] % 16 == 0 else {})


def compiled_kernel() -> Any:
    """The kernel in C, or None where it cannot be compiled or run."""
    flags = Path("/proc/cpuinfo")
    if not shutil.which("gcc") or not flags.exists() or "avx512f" not in flags.read_text():
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "pairs.so"
        options = ["-O3", "-mavx512f", "-fopenmp", "-shared", "-fPIC"]
        source = str(Path(__file__).parent / "pairs_avx512.c")
        subprocess.run(["gcc", *options, source, "-o", str(library)], check=True)
        return ctypes.CDLL(str(library)).logits


def timed(side: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of one call, and what it returned."""
    start = time.perf_counter()
    value = side()
    return time.perf_counter() - start, value


def check(found: Survey, u: np.ndarray, w: np.ndarray) -> None:
    """Most similar rows of some against a sort of all their logits."""
    rows = np.linspace(0, len(u) - 1, 8).astype(int)
    logits = score(u[rows], u, w, BIAS)
    logits[np.arange(len(rows)), rows] = -np.inf
    expected = np.argsort(-logits, axis=1, kind="stable")[:, :K]
    np.testing.assert_array_equal(found.top.indices[rows], expected)  # pyright: ignore[reportOptionalMemberAccess]


def bench(n: int, d: int, rounds: int, threads: int) -> dict[str, Any]:
    """Pairs a second of every side in every round, and the ratios."""
    u, w = vectors("random", n, d), weights(d)
    edges, others, pairs = edges_of(u, w), peers(u, w), n * (n - 1) // 2
    sets = {"above_random": u, "above_identities": vectors("identities", n, d)}
    for table in sets.values():  # compiles, or reads what was compiled
        survey(table[:400], None, w, BIAS, threshold=0.0, k=K, edges=edges, threads=threads)
    rates: dict[str, list[float]] = {name: [] for name in ("survey", *sets, *others)}
    works: dict[str, Any] = {}
    for number in range(rounds):
        names = list(rates)
        for name in names if number % 2 else names[::-1]:
            if name in others:
                took, (seen, logits, row) = timed(others[name])
                expected = score(u[row : row + 1], u[row + 1 : row + 1 + len(logits)], w, BIAS)[0]
                np.testing.assert_allclose(logits, expected, atol=2e-3)
                rates[name].append(seen / took)
                continue
            told: dict[str, Any] = {"k": K, "edges": edges} if name == "survey" else {"threshold": 0.0}
            table = sets.get(name, u)
            took, found = timed(lambda t=table, told=told: survey(t, None, w, BIAS, threads=threads, **told))
            if name == "survey":
                check(found, u, w)
            rates[name].append(pairs / took)
            works[name] = {
                "columns_added": found.work.columns / pairs / d,
                "evaluated_by_definition": found.work.evaluated / pairs,
                "above": None if found.pairs is None else found.pairs.count,
            }
    result: dict[str, Any] = {"pairs_per_second": {name: float(np.median(values)) for name, values in rates.items()}}
    result["work"] = works
    for ours in ("survey", *sets):
        result[ours] = {
            name: dict(
                zip(
                    ("ratio_median", "ratio_low", "ratio_high"),
                    median_interval(np.divide(rates[ours], rates[name])),
                    strict=True,
                )
            )
            for name in others
        }
    return result


def peak(n: int, d: int, threads: int) -> int:
    """Peak private memory of one survey over mapped inputs above what the process held before, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "u.npy", vectors("random", n, d))
        command = [sys.executable, __file__, "--child", folder, "--d", str(d), "--threads", str(threads)]
        return int(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def child(folder: str, d: int, threads: int) -> None:
    """One survey; prints the growth of the peak."""
    u, w = np.load(Path(folder) / "u.npy", mmap_mode="r"), weights(d)
    edges = edges_of(u, w)
    with Peak() as peak:
        survey(u, None, w, BIAS, k=K, edges=edges, threshold=0.0, threads=threads)
    print(json.dumps(peak.growth))


def missed(found: dict[str, Any]) -> list[str]:
    """The limits that do not hold."""
    short = [
        f"{name} {found['survey'][name]['ratio_median']:.1f} of {limit:g}"
        for name, limit in LIMITS.items()
        if name in found["survey"] and found["survey"][name]["ratio_median"] < limit
    ]
    if found["peak_private_bytes"] > MEMORY_LIMIT:
        short.append(f"{found['peak_private_bytes'] / 2**20:.0f} MiB")
    return short


def main() -> int:
    """Measure, print, write; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=FULL[0])
    parser.add_argument("--d", type=int, default=FULL[1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=machine()["cores"])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.d, given.threads)
        return 0
    torch.set_num_threads(given.threads)
    os.environ["OMP_NUM_THREADS"] = str(given.threads)  # of the kernel in C
    found: dict[str, Any] = {"n": given.n, "d": given.d, "rounds": given.rounds, "threads": given.threads}
    found |= bench(given.n, given.d, given.rounds, given.threads)
    found["peak_private_bytes"] = peak(given.n, given.d, given.threads)
    for name, rate in found["pairs_per_second"].items():
        work = found["work"].get(name)
        said = "" if not work else (
            f"; columns added {work['columns_added']:.3f}, by definition {work['evaluated_by_definition']:.5f}"
        )  # fmt: skip
        print(f"{name}: {rate / 1e6:.2f} million pairs/s{said}")
    for ours in ("survey", "above_random", "above_identities"):
        for name, ratio in found[ours].items():
            low, high = ratio["ratio_low"], ratio["ratio_high"]
            print(f"{ours} over {name}: {ratio['ratio_median']:.1f} ({low:.1f} to {high:.1f})")
    print(f"{found['peak_private_bytes'] / 2**20:.0f} MiB above the inputs")
    found |= {"limits": LIMITS, "memory_limit": MEMORY_LIMIT, "missed": missed(found)}
    if (given.n, given.d) == FULL:
        write_json(RESULT, found | {"machine": machine(), "versions": versions()})
    print("limits met" if not found["missed"] else f"limits missed: {'; '.join(found['missed'])}")
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
