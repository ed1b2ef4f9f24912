"""How long ``memorisk --help`` takes, beside the start of Python itself.

    python benchmarks/bench_start.py

Both are started in turn, in pairs; printed is the median over pairs of the ratio within the pair, with the
distribution-free 95 % interval of a median (order statistics of the binomial). Beside it what a person would feel:
the seconds.

Writes ``benchmarks/results/start.json``; exits with 1 where the limit of issue 2 is missed.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import binom

from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

PAIRS = 41
LIMIT = 20.0
"""Largest ratio to the start of bare Python (issue 2, "Speed")."""
COMMANDS = {
    "memorisk --help": [sys.executable, "-m", "memorisk.cli", "--help"],
    "memorisk audit classifier --help": [sys.executable, "-m", "memorisk.cli", "audit", "classifier", "--help"],
}
BARE = [sys.executable, "-c", "pass"]


def seconds(command: list[str]) -> float:
    """Wall time of one process from its start to its end."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def compare(command: list[str]) -> dict[str, float]:
    """Paired ratios to bare Python: median and its interval, and the median times."""
    seconds(command)  # compiles and reads what later starts find in memory
    pairs = [(seconds(BARE), seconds(command)) for _ in range(PAIRS)]
    ratios = np.sort([own / bare for bare, own in pairs])
    low = int(binom.ppf(0.025, PAIRS, 0.5))
    bare, own = np.median(pairs, axis=0)
    return {
        "ratio_median": round(float(np.median(ratios)), 2),
        "ratio_low": round(float(ratios[low - 1]), 2),
        "ratio_high": round(float(ratios[PAIRS - low]), 2),
        "seconds_median": round(float(own), 4),
        "bare_seconds_median": round(float(bare), 4),
    }


def main() -> int:
    """Measure, print, write; 1 where the limit is missed."""
    found = {name: compare(command) for name, command in COMMANDS.items()}
    for name, row in found.items():
        print(
            f"{name}: {row['ratio_median']:.1f} times bare Python "
            f"({row['ratio_low']:.1f} to {row['ratio_high']:.1f}), {row['seconds_median']:.3f} s"
        )
    write_json(
        Path(__file__).parent / "results" / "start.json",
        {
            "what": "wall time of a process against `python -c pass`",
            "how": f"medians of {PAIRS} paired ratios in one run, with distribution-free 95 % intervals",
            "limit": LIMIT,
            "machine": machine(),
            "versions": {k: v for k, v in versions().items() if k in ("python", "memorisk")},
            "commands": found,
        },
    )
    return int(found["memorisk --help"]["ratio_median"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
