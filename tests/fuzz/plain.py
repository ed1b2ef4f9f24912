"""The same targets without Atheris: changes at random, from a seed; for machines without it, and a quick look.

python -m tests.fuzz.plain --seconds 20 --targets raster,arrays
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.packing import Change
from tests.fuzz.target import Findings, Target, judge

_ODD = (
    b"\0",
    b"\xff",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\x80",
    b"-1",
    b"1e999",
    b"nan",
    b'"',
)


def change_with(rng: random.Random) -> Change:
    """Up to four changes: a bit, a piece left out, doubled, moved or overwritten."""

    def change(data: bytes, size: int) -> bytes:
        """The data, changed."""
        out = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            place, length = rng.randrange(len(out) + 1), rng.choice((1, 2, 4, 16, 200))
            piece = bytes(out[place : place + length])
            kind = rng.randrange(6)
            if kind == 0 and place < len(out):
                out[place] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del out[place : place + length]
            elif kind == 2:
                out[place:place] = piece * rng.choice((1, 2, 50))
            elif kind == 3:
                other = rng.randrange(len(out) + 1)
                out[other:other] = piece
            elif kind == 4:
                odd = rng.choice(_ODD)
                out[place : place + len(odd)] = odd
            else:
                del out[place:]
                out += data[place + length :] if rng.random() < 0.8 else b""
        return bytes(out[:size])

    return change


def fuzz(
    target: Target, seeds: list[bytes], rng: random.Random, findings: Findings, *, times: int, until: float
) -> Counter[str]:
    """Ask a target about changed seeds; how it ended, by kind of end.

    Args:
        target: What is asked.
        seeds: Sound inputs.
        rng: Of the changes.
        findings: Where inputs that break the rule go.
        times: Inputs at most.
        until: When to stop, of the monotonic clock.
    """
    change, ends = change_with(rng), Counter[str]()
    place = Path(tempfile.mkdtemp(prefix="fuzz-plain-"))
    try:
        for k in range(times):
            if time.monotonic() > until:
                break
            seed = rng.choice(seeds)
            data = target.repack(seed, change, 1 << 16) if target.repack and k % 2 else change(seed, 1 << 16)
            folder = place / str(k)
            folder.mkdir()
            ends[judge(target, data, folder, findings)] += 1
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return ends


def main() -> int:
    """All targets, or those that are named."""
    from tests.fuzz.targets import all_targets

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.plain", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="for each target")
    parser.add_argument("--targets", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "memorisk-fuzz-plain")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    bad = 0
    for target in all_targets():
        if given.targets and target.name not in given.targets.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            seeds = list(target.seeds(Path(folder)))
        findings = Findings(given.out / "broken" / target.name)
        begun = time.monotonic()
        until = begun + given.seconds
        rng = random.Random(f"{given.seed} {target.name}")
        ends = fuzz(target, seeds, rng, findings, times=10**9, until=until)
        bad += len(findings.kinds)
        turn = {"target": target.name, "seconds": time.monotonic() - begun, "executions": ends.total(), "covered": 0}
        with (given.out / "turns.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(turn) + "\n")
        print(target.name, dict(ends), *findings.kinds, sep="\n  ", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
