"""The demo's sixteen small CNNs: side by side in processes, against one after another with all threads.

    python benchmarks/bench_demo.py [--rounds 7]

Each round trains the sixteen models of ``memorisk audit classifier digits --models 16`` twice: by ``run_jobs`` with one
process a core and one thread each (fresh workers, their start included), and in this process one after another with
as many threads as cores. Rounds alternate in order; printed is the median of the ratio within a round with its 95 %
interval (order statistics). Writes ``benchmarks/results/demo.json``; exits with 1 below the limit of issue 2 (1.6 on
two cores).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib.externals.loky import get_reusable_executor
from scipy.stats import binom

from memorisk.audits.classifier_jobs import make_jobs, prepare_recipe
from memorisk.audits.options import ClassifierOptions
from memorisk.audits.plan import draw_parts, make_plan
from memorisk.images.sources import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.environment import available_cores, machine, versions
from memorisk.runs.executors import run_jobs
from memorisk.runs.files import write_json
from memorisk.training.jobs import CHECKPOINTS, LOGITS, WEIGHTS, TrainJob, run_training

LIMIT = 1.6
RESULT = Path(__file__).parent / "results" / "demo.json"


def demo_jobs(folder: Path) -> list[TrainJob]:
    """The sixteen trainings of the demo."""
    options = ClassifierOptions(models=16, store=folder / "store")
    manifest = load_manifest("digits", options)
    store = build_store(manifest, options)
    plan = make_plan(store.manifest, draw_parts(store.manifest, [], options, 0), options)
    recipe = prepare_recipe(store, plan, options)
    return [job for pair in make_jobs(folder, store, plan, recipe, options) for job in pair]


def timed(jobs: Sequence[TrainJob], out: Path, *, processes: int, threads: int) -> float:
    """Seconds to train all jobs into a new folder."""
    for name in (LOGITS, WEIGHTS, CHECKPOINTS):
        (out / name).mkdir(parents=True)
    mine = [replace(job, out=out, threads=threads) for job in jobs]
    get_reusable_executor().shutdown(wait=True)
    start = time.perf_counter()
    run_jobs(run_training, mine, processes=processes, threads=threads)
    return time.perf_counter() - start


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Median with its widest order-statistic interval of at least 95 % where the rounds allow one, else min and max."""
    ordered, n = np.sort(values), len(values)
    k = max((k for k in range(n // 2) if 1 - 2 * binom.cdf(k, n, 0.5) >= 0.95), default=0)
    return float(np.median(ordered)), float(ordered[k]), float(ordered[n - 1 - k])


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    cores = available_cores()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = demo_jobs(folder)
        ways = {"side by side": (cores, 1), "one after another": (1, cores)}
        seconds: dict[str, list[float]] = {w: [] for w in ways}
        for r in range(rounds):
            for way in sorted(ways, reverse=bool(r % 2)):
                processes, threads = ways[way]
                seconds[way].append(timed(jobs, folder / f"{r}-{processes}", processes=processes, threads=threads))
    ratios = [b / a for a, b in zip(seconds["side by side"], seconds["one after another"], strict=True)]
    median, low, high = median_interval(ratios)
    print(f"side by side {median:.2f} times as fast ({low:.2f} to {high:.2f}), limit {LIMIT}")
    found = {"ratio": median, "low": low, "high": high, "rounds": rounds, "limit": LIMIT, "seconds": seconds}
    write_json(RESULT, {"what": "16 demo models", **found, "machine": machine(), "versions": versions()})
    return 0 if median >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
