"""memorisk beside other projects: the same inputs, the same run, each peer in an environment of its own.

    python benchmarks/peers/run.py NAME... | all | page [--data DATA] [--small] [--pairs 9] [--folder FOLDER]

NAME is a key of `registry.PEERS`. For each peer an environment is made of ``requirements/NAME.txt`` (pinned; PyTorch
is linked, see `environments`) and removed again; peers that do not come from the package index are there by their
published formula. Of each case the peer's adapter runs in that environment and memorisk's (`ours`) in this one, two
processes over the same file of arrays, one thread each. Both answer once to warm up, then in turn, the first one
alternating; printed is the median of the paired ratios, the processor's seconds of the peer over those of memorisk,
with its interval. (Of one thread these are what an idle machine would take; by the clock a busy one says little.)

``--data`` is a folder with ``ham10000_224``, ``nih_cxr14_64`` and ``weights_squeezenet_imagenet``; without it features
are digits' pixels and imagededup is left out. Results of a peer replace its own in ``benchmarks/results/peers.json``,
and ``docs/results/peers.md`` is written from all; ``--small`` writes neither.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from comparing import KINDS  # noqa: E402
from environments import environment  # noqa: E402
from inputs import INPUTS, Given  # noqa: E402
from ours import EXPLAINED  # noqa: E402
from page import write_page  # noqa: E402
from registry import CASES, PEERS, Case, Peer  # noqa: E402

from intervals import median_interval  # noqa: E402
from memorisk.runs.environment import machine, versions  # noqa: E402
from memorisk.runs.files import read_json, write_json  # noqa: E402

RESULT = HERE.parent / "results" / "peers.json"
LONGEST, FEWEST = 60.0, 5
"""Seconds of pairs after which a case ends, if it has this many."""
OURS = ("memorisk", "numpy", "scipy", "torch", "numba")
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA", "TF_NUM_INTEROP", "TF_NUM_INTRAOP")
QUIET = {"CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
ONE_THREAD = QUIET | {f"{name}_THREADS" if "NUM" in name else f"{name}_NUM_THREADS": "1" for name in THREADS}


class Side:
    """A worker of one case."""

    def __init__(self, python: Path, module: str, case: str, inputs: Path, out: Path, libraries: Sequence[str]) -> None:
        self.out, self.log = out, out.with_suffix(".log")
        folders = os.pathsep.join(str(f) for f in (HERE, HERE / "adapters"))
        command = [
            str(python),
            str(HERE / "worker.py"),
            folders,
            module,
            case,
            str(inputs),
            str(out),
            ",".join(libraries),
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=os.environ | ONE_THREAD,
            )  # fmt: skip

    def ask(self, command: str) -> Any:
        """Its answer.

        Raises:
            RuntimeError: It died; the message is its last line.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError((self.log.read_text("utf-8").strip().splitlines() or ["no word"])[-1])
        return json.loads(line)

    def values(self) -> dict[str, np.ndarray]:
        """Of the last call."""
        with np.load(self.out) as file:
            return {name: file[name] for name in file.files}

    def close(self) -> None:
        """Ends it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(case: Case, python: Path, inputs: Path, folder: Path, pairs: int) -> dict[str, Any]:
    """One case: paired times, then values."""
    peer = PEERS[case.peer]
    sides = {
        "peer": Side(python, peer.module, case.case, inputs, folder / "peer.npz", peer.libraries),
        "memorisk": Side(Path(sys.executable), "ours", case.ours, inputs, folder / "memorisk.npz", OURS),
    }
    try:
        for side in sides.values():
            side.ask("run")  # warms up
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        start = time.monotonic()
        for number in range(pairs):
            for name in list(sides)[:: 1 if number % 2 else -1]:
                seconds[name].append(sides[name].ask("run")["processor"])
            if number + 1 >= FEWEST and time.monotonic() - start > LONGEST:
                break
        told = {name: side.ask("save") for name, side in sides.items()}
        answers = [side.values() for side in sides.values()]
    finally:
        for side in sides.values():
            side.close()
    with np.load(inputs) as file:
        data = {name: file[name] for name in file.files}
    explained = EXPLAINED[case.explained](data) if case.explained else None
    ratio = median_interval(np.divide(seconds["peer"], seconds["memorisk"]))
    return {
        "case": case.case,
        "title": case.title,
        "kind": case.kind,
        "pairs": len(seconds["peer"]),
        "processor_seconds": {name: float(np.median(values)) for name, values in seconds.items()},
        "processor_ratio": dict(zip(("median", "low", "high"), ratio, strict=True)),
        "agreement": KINDS[case.kind](*answers, data, explained),
        "versions": told,
    }


def run(
    name: str, peer: Peer, arrays: dict[str, Path], folder: Path, pairs: int, keep: Callable[[dict[str, Any]], None]
) -> bool:
    """All cases of a peer, kept one by one; a case that fails is told with its last line. Whether none did."""
    found: dict[str, Any] = {"title": peer.title, "how": peer.how, "cases": [], "failed": []}
    found |= {"machine": machine(), "versions": versions()}
    try:
        with environment(name, folder) as python:
            for case in (one for one in CASES if one.peer == name and one.inputs in arrays):
                try:
                    row = measure(case, python, arrays[case.inputs], folder, pairs)
                except RuntimeError as error:
                    found["failed"].append({"case": case.case, "error": str(error)})
                    print(f"{name} {case.case}: FAILED, {error}", flush=True)
                    continue
                found["cases"].append(row)
                keep(found)
                ratio = row["processor_ratio"]
                said = {key: value for key, value in row["agreement"].items() if key != "sets"}
                print(
                    f"{name} {case.case}: {ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f}) times, "
                    f"{json.dumps(said)}",
                    flush=True,
                )
    except RuntimeError as error:
        found["failed"].append({"case": "all", "error": str(error)})
        print(f"{name}: not installed, {error}", flush=True)
    return not found["failed"]


def store(name: str, found: dict[str, Any]) -> None:
    """A peer's results in place of its old ones, and the page of all."""
    results = (read_json(RESULT) if RESULT.exists() else {}) | {name: found}
    results = {key: results[key] for key in PEERS if key in results}
    write_json(RESULT, results)
    write_page(results)


def main() -> int:
    """Run one peer or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=("all", "page", *PEERS), help="page: the page again, from results")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--folder", type=Path, help="where environments and arrays are made, a temporary one by default"
    )
    given = parser.parse_args()
    if "page" in given.names:
        write_page(read_json(RESULT))
        return 0
    names = [*PEERS] if "all" in given.names else given.names
    wanted = {case.inputs for case in CASES if case.peer in names}
    failed = False
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
        folder, arrays = Path(temporary), {}
        for name in sorted(wanted):
            made = INPUTS[name](Given(given.data, given.small))
            if made:
                arrays[name] = folder / f"{name}.inputs.npz"
                np.savez(arrays[name], **made)
            else:
                print(f"{name}: left out, it needs --data", flush=True)
        for name in names:
            keep = (lambda _found: None) if given.small else partial(store, name)
            failed |= not run(name, PEERS[name], arrays, folder, 1 if given.small else given.pairs, keep)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
