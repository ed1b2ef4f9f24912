"""Fuzz every reader in turn with Atheris, for so many minutes, and write down what was found.

One process imports memorisk with Atheris' instrumentation and forks a child for each turn: libFuzzer runs in the child,
so that a crash, a hang or a full memory ends that turn alone. Inputs that were worth keeping are kept between turns
and runs (``--work``); what broke the rule lies in ``WORK/broken``, the tally in ``WORK/turns.jsonl``.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import atheris

PYTHON_READERS = ("pydicom.filereader", "pydicom.encaps", "pydicom.pixels", "pydicom.values", "nibabel.nifti1", "PIL")

with atheris.instrument_imports(include=["memorisk", "tifffile", "yaml", *PYTHON_READERS]):
    from tests.fuzz.target import Findings, Target, judge
    from tests.fuzz.targets import all_targets

WALL, RSS = 60, 4096  # seconds and megabytes at which libFuzzer itself ends a turn; ours are in target.py
_STAT = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERED = re.compile(r"\bcov: (\d+) ft: (\d+) corp: (\d+)")


def main() -> int:
    """Take turns until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--turn", type=float, default=60, help="seconds of a turn")
    parser.add_argument("--targets", default="", help="names, by commas; all if not given")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "memorisk-fuzz")
    parser.add_argument("--seed", type=int, default=0, help="of the first turn; others follow")
    given = parser.parse_args()
    chosen = [t for t in all_targets() if not given.targets or t.name in given.targets.split(",")]
    given.work.mkdir(parents=True, exist_ok=True)
    for target in chosen:
        _plant(target, given.work)
    end, k = time.monotonic() + 60 * given.minutes, 0
    while (left := end - time.monotonic()) > 0:
        turn = _turn(chosen[k % len(chosen)], given.work, max(5, min(given.turn, left)), given.seed + k)
        with (given.work / "turns.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(turn) + "\n")
        print(json.dumps(turn), flush=True)
        k += 1
    return 0


def _plant(target: Target, work: Path) -> None:
    """Make the seeds of a target, each a file."""
    corpus = work / "corpus" / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    if any(corpus.glob("seed-*")):
        return
    with tempfile.TemporaryDirectory() as folder:
        for k, seed in enumerate(target.seeds(Path(folder))):
            (corpus / f"seed-{k:03}").write_bytes(seed)


def _turn(target: Target, work: Path, seconds: float, number: int) -> dict[str, Any]:
    """One turn of a target in a child; what its log says."""
    log, begun = work / f"{target.name}.log", time.monotonic()
    known = _broken(work, target)
    child = os.fork()
    if child == 0:
        _fuzz(target, work, seconds, number, log)
    until = begun + 3 * seconds + WALL
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(0.1)
        if time.monotonic() > until:  # libFuzzer itself hangs
            os.kill(child, signal.SIGKILL)
            until = float("inf")
    status = ended[1]
    said = log.read_text(encoding="utf-8", errors="replace")
    covered = _COVERED.findall(said)
    ran = _STAT.findall(said)
    code = os.waitstatus_to_exitcode(status)
    return {
        "target": target.name,
        "seconds": round(time.monotonic() - begun, 1),
        "executions": int(ran[-1]) if ran else 0,
        "covered": int(covered[-1][0]) if covered else 0,
        "features": int(covered[-1][1]) if covered else 0,
        "inputs": int(covered[-1][2]) if covered else 0,
        "ended": code,
        "new": sorted(_broken(work, target) - known),
    }


def _broken(work: Path, target: Target) -> set[str]:
    return {f.name for f in (work / "broken" / target.name).glob("*") if f.suffix != ".txt"}


def _fuzz(target: Target, work: Path, seconds: float, number: int, log: Path) -> None:
    """In the child: libFuzzer on one target; it ends the process itself."""
    os.setsid()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    findings = Findings(work / "broken" / target.name)
    findings.folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    count = 0

    def one(data: bytes) -> None:
        """One input in a folder of its own."""
        nonlocal count
        count += 1
        folder = place / str(count)
        folder.mkdir()
        try:
            judge(target, bytes(data), folder, findings)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    flags = [
        f"-max_total_time={int(seconds)}", f"-timeout={WALL}", f"-rss_limit_mb={RSS}", f"-seed={number + 1}",
        f"-artifact_prefix={findings.folder}/", "-max_len=65536", "-print_final_stats=1", "-use_value_profile=0",
    ]  # fmt: skip
    more: dict[str, Any] = {}
    if target.repack is not None:
        repack = target.repack

        def mutate(data: bytes, size: int, seed: int) -> bytes:
            """Half of the changes inside, half as the bytes stand."""
            return repack(data, atheris.Mutate, size) if seed % 2 else atheris.Mutate(data, size)

        more["custom_mutator"] = mutate
    try:
        leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            lambda _: os._exit(0)
        )  # it has no threads of the parent to join
        ctypes.CDLL(None).__cxa_atexit(leave, None, None)
        atheris.Setup([sys.argv[0], *flags, str(work / "corpus" / target.name)], one, **more)
        atheris.Fuzz()
    except BaseException:
        traceback.print_exc()
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os._exit(70)


if __name__ == "__main__":
    sys.exit(main())
