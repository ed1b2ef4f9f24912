"""How long the command line takes to start: the help beside bare Python, and `audit losses` beside pandas.

    python benchmarks/bench_start.py

The command and its peer are started in turn, in pairs; printed is the median over pairs of the ratio of processor
time (user and system) within the pair, with the distribution-free 95 % interval of a median (order statistics of the
binomial). Beside it the seconds. `audit losses` is refused a table without its columns: it has loaded all that it
needs by then.

Writes ``benchmarks/results/start.json``; exits with 1 where a limit of issue 23 is missed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import numpy as np
from scipy.stats import binom

from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

PAIRS = 41
MEMORISK = [sys.executable, "-m", "memorisk"]
BARE, PANDAS = [sys.executable, "-c", "pass"], [sys.executable, "-c", "import pandas"]
COMMANDS = {
    "memorisk --help": ([*MEMORISK, "--help"], BARE, 12.0),
    "memorisk audit classifier --help": ([*MEMORISK, "audit", "classifier", "--help"], BARE, None),
    "memorisk audit losses": ([*MEMORISK, "audit", "losses", "table.csv", "--out", "run"], PANDAS, None),
}
"""What is started, its peer, and the largest ratio (issue 23, "Speed")."""


def seconds(command: list[str], folder: str) -> float:
    """Processor time of one process from its start to its end."""
    begun = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, check=False)
    ended = getrusage(RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime


def compare(command: list[str], peer: list[str], limit: float | None) -> dict[str, float | str | None]:
    """Paired ratios: median and its interval, and the median times."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "table.csv").write_text("image,label\n")
        for one in (command, peer):
            seconds(one, folder)  # compiles and reads what later starts find in memory
        pairs = [(seconds(peer, folder), seconds(command, folder)) for _ in range(PAIRS)]
    ratios = np.sort([own / bare for bare, own in pairs])
    low = int(binom.ppf(0.025, PAIRS, 0.5))
    bare, own = np.median(pairs, axis=0)
    return {
        "peer": " ".join(["python", *peer[1:]]),
        "limit": limit,
        "ratio_median": round(float(np.median(ratios)), 2),
        "ratio_low": round(float(ratios[low - 1]), 2),
        "ratio_high": round(float(ratios[PAIRS - low]), 2),
        "seconds_median": round(float(own), 4),
        "peer_seconds_median": round(float(bare), 4),
    }


def main() -> int:
    """Measure, print, write; 1 where a limit is missed."""
    found = {name: compare(*row) for name, row in COMMANDS.items()}
    for name, row in found.items():
        print(
            f"{name}: {row['ratio_median']} times {row['peer']} ({row['ratio_low']} to {row['ratio_high']}), "
            f"{row['seconds_median']} s"
        )
    write_json(
        Path(__file__).parent / "results" / "start.json",
        {
            "what": "processor time of a process against that of its peer",
            "how": f"medians of {PAIRS} paired ratios in one run, with distribution-free 95 % intervals",
            "machine": machine(),
            "versions": {k: v for k, v in versions().items() if k in ("python", "memorisk")},
            "commands": found,
        },
    )
    limits = {name: limit for name, (_, _, limit) in COMMANDS.items() if limit is not None}
    return int(any(found[name]["ratio_median"] > limit for name, limit in limits.items()))


if __name__ == "__main__":
    sys.exit(main())
