"""The nearest reference by 14 measures on a GPU, as a share of what the card can do, measured in the same run.

    python benchmarks/gpu_distances.py [--n 131072] [--d 512] [--rounds 5] [--measures NAME,NAME]
    python benchmarks/gpu_distances.py --small    # the same code on a CPU, by Triton's interpreter, on tiny tables

n queries against n references of d columns, random float32 as in bench_distances.py. Each round takes `nearest` over
all pairs, checks of the rows and evaluation by definition included, of tensors on the card and of arrays in memory, and
the card's rates beside them. Indices and distances of the first queries are asserted to be the CPU's, bit for bit.

**The limit.** To evaluate every pair in float32 takes at least the longest of three times:

- arithmetic. Measures that factor need d multiply-adds a pair, at the rate of PyTorch's own product of large float32
  matrices (TF32 off). The others need d times the instructions in ``INSTRUCTIONS``, a multiply-add counting as one, at
  the rate of multiply-adds on registers: a subtraction and the addition of its absolute value (cityblock, braycurtis);
  a subtraction and the larger of two (chebyshev; many cards take twice as long for that); a subtraction, a square and a
  multiply-add (minkowski, p = 3); two additions and a multiply-add around a reciprocal (canberra); an addition and a
  multiply-add around a logarithm (jensenshannon).
- special functions, the reciprocals and logarithms: d a pair, at the rate of reciprocal roots on registers.
- memory: both tables read once, at the rate of a large copy. Far below the others, as pairs grow with n^2.

The share is the limit over the time taken, round by round; median and interval over rounds. Writes
``benchmarks/results/gpu_distances.json`` with the device's name (not with --small, whose shares mean nothing).
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

if "--small" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
import triton
import triton.language as tl

from bench_distances import data, fit
from intervals import median_interval
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.scores.distances import MEASURES, nearest, neighbours

RESULT = Path(__file__).parent / "results" / "gpu_distances.json"
INSTRUCTIONS = {"cityblock": 2, "braycurtis": 2, "chebyshev": 2, "minkowski": 3, "canberra": 3, "jensenshannon": 2}
SPECIAL = ("canberra", "jensenshannon")
CHECKED, SIZE, UNROLLED = 256, 2048, 16


@triton.jit
def _chains(out, turns, a, b, ROOTS: tl.constexpr, SIZE: tl.constexpr, UNROLLED: tl.constexpr):
    """Eight chains of multiply-adds, or of reciprocal roots, in every thread's registers."""
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = place.to(tl.float32) + 1.5
    for _ in range(turns):
        for _ in tl.static_range(UNROLLED):  # pyright: ignore[reportGeneralTypeIssues]
            x = tl.math.rsqrt(x) if ROOTS else x * a + b
    tl.store(out + place, x)


def seconds(function: Callable[[], Any], device: torch.device) -> float:
    """Wall seconds of one call, to the end of what it started on the device."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    function()
    wait()
    return time.perf_counter() - start


class Rates:
    """What the card does at most: multiply-adds of products, and on registers, reciprocal roots, bytes; a second."""

    def __init__(self, device: torch.device, small: bool) -> None:
        side, self.programs, self.turns = (128, 1, 1) if small else (8192, 8192, 512)
        self.device = device
        self.a, self.b = (torch.randn(side, side, device=device) for _ in range(2))
        self.c, self.out = torch.empty_like(self.a), torch.empty(self.programs * SIZE, device=device)
        self.big = torch.empty(1 << 10 if small else 1 << 28, device=device)
        self.copy = torch.empty_like(self.big)
        self.measured: list[dict[str, float]] = []
        self.take()  # compiles
        self.measured.clear()

    def chains(self, roots: bool) -> None:
        """Run `_chains`."""
        kernel: Any = _chains
        kernel[(self.programs,)](
            self.out, self.turns, 0.999, 0.001, ROOTS=roots, SIZE=SIZE, UNROLLED=UNROLLED, enable_fp_fusion=True,
            num_warps=8,
        )  # fmt: skip

    def take(self) -> dict[str, float]:
        """Measure each once."""
        steps = self.programs * SIZE * self.turns * UNROLLED
        work = {
            "products": (len(self.a) ** 3, lambda: torch.mm(self.a, self.b, out=self.c)),
            "multiply_adds": (steps, lambda: self.chains(False)),
            "roots": (steps, lambda: self.chains(True)),
            "bytes": (2 * self.big.nbytes, lambda: self.copy.copy_(self.big)),
        }
        self.measured.append({name: many / seconds(run, self.device) for name, (many, run) in work.items()})
        return self.measured[-1]

    def limit(self, name: str, n: int, d: int) -> float:
        """Seconds that a measure needs at least, by the rates of now."""
        rates, steps = self.take(), float(n) * n * d
        if name in INSTRUCTIONS:
            needed = [steps * INSTRUCTIONS[name] / rates["multiply_adds"], steps * (name in SPECIAL) / rates["roots"]]
        else:
            needed = [steps / rates["products"]]
        return max(*needed, 2 * n * d * 4 / rates["bytes"])


def bench(name: str, n: int, d: int, rounds: int, rates: Rates) -> dict[str, Any]:
    """Seconds and shares of one measure."""
    x, r = data(n, d, name)
    measure, device = fit(name, r), rates.device
    inputs = {"tensors": [torch.from_numpy(t).to(device) for t in (x, r)], "arrays": [x, r]}
    expected = nearest(x[:CHECKED], r, measure, device="cpu")
    taken: dict[str, list[float]] = {side: [] for side in inputs}
    shares: dict[str, list[float]] = {side: [] for side in inputs}
    before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
    with ExitStack() as stack:
        if device.type == "cpu":  # the GPU's search without one
            stack.enter_context(mock.patch.object(neighbours, "find_device", return_value=device))
        for number in range(rounds + 1):  # the first compiles
            for side, tables in inputs.items():
                limit, found = rates.limit(name, n, d), []
                took = seconds(lambda: found.append(nearest(tables[0], tables[1], measure, device="cuda")), device)  # noqa: B023
                np.testing.assert_array_equal(found[0].indices[:CHECKED], expected.indices)
                np.testing.assert_array_equal(found[0].distances[:CHECKED], expected.distances)
                if number:
                    taken[side].append(took)
                    shares[side].append(limit / took)
    row: dict[str, Any] = {"measure": name}
    for side in inputs:
        row[side] = dict(zip(("share_median", "share_low", "share_high"), median_interval(shares[side]), strict=True))
        row[side] |= {"seconds": float(np.median(taken[side])), "pairs_per_second": n * n / np.median(taken[side])}
    if device.type == "cuda":
        row["peak_bytes_on_the_card"] = torch.cuda.max_memory_allocated() - before
        torch.cuda.reset_peak_memory_stats()
    return row


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int)
    parser.add_argument("--d", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--measures", default=",".join(MEASURES))
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    small = given.small
    if not small and not torch.cuda.is_available():
        parser.error("there is no CUDA GPU; --small runs the same code on a CPU")
    device = torch.device("cpu" if small else "cuda")
    n, d, rounds = (
        given.n or (300 if small else 131_072),
        given.d or (12 if small else 512),
        given.rounds or 5 - 4 * small,
    )
    rates, rows, names = Rates(device, small), [], given.measures.split(",")
    for name in names:
        rows.append(row := bench(name, n, d, rounds, rates))
        said = [
            f"{row[side]['seconds']:.2f} s, {row[side]['share_median']:.1%} ({side})" for side in ("tensors", "arrays")
        ]
        print(f"{name}: {'; '.join(said)}", flush=True)
    found = {
        "device": "CPU" if small else torch.cuda.get_device_name(), "n": n, "d": d, "rounds": rounds, "rows": rows,
        "rates_per_second": {name: float(np.median([m[name] for m in rates.measured])) for name in rates.measured[0]},
    }  # fmt: skip
    print({name: f"{rate:.3g}" for name, rate in found["rates_per_second"].items()})
    if small:
        print("the CPU's indices and distances; shares on a CPU mean nothing")
    elif len(names) == len(MEASURES):
        write_json(RESULT, found | {"machine": machine(), "versions": versions()})


if __name__ == "__main__":
    main()
