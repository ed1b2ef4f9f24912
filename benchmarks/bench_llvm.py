"""What numba alone loses where `memorisk.scores.pairs` spells out instructions of LLVM's, over whole searches.

    python benchmarks/bench_llvm.py [--n 3000] [--d 512] [--rounds 12] [--only kernels._needed]

Three functions write LLVM by hand, ``kernels._larger``, ``kernels._needed`` and ``scans._eights``. Here stands the
fastest form of each that numba was made to take. Every search runs in turn with the module as it is and with a copy of
it in which one of them is exchanged, on one thread, n vectors of d features:

- top and histogram: the ten most similar of every row and 100 bins, random features;
- top: the ten most similar alone;
- above: pairs with p >= 0.5 alone, features of identities; above, none: the same of random features, all far below;
- above, many, and above, none of many: these two of 16,125 vectors, for the function that only they use;
- score: the logits of 512 rows with all, by definition.

Answers must be equal. A ratio is processor time with numba alone over that as it is: the median of the rounds with its
interval. What is written by hand stays only where a ratio is above 1.10; else the script exits with 1.

Beside it stands a tile of city blocks in float32, as `memorisk.scores.distances` makes it, over one of the same pairs
in whole numbers: what it would cost to have LCMem's head as a measure among those. Writes
``benchmarks/results/llvm.json`` where n is 3,000 and d 512.
"""

import argparse
import ast
import importlib.util
import inspect
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench_pairs import BIAS, K, edges_of, vectors, weights
from intervals import median_interval
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.scores.distances.kernels import absolute_sums
from memorisk.scores.distances.rows import Rows, team
from memorisk.scores.pairs import kernels, scans, score, survey
from memorisk.scores.pairs.quantization import check_head, find_grid

RESULT, FULL = Path(__file__).parent / "results" / "llvm.json", (3000, 512)
LIMIT = 1.10
ROWS, MANY = 512, 16_125


def _larger(x, i, i2, y, j, j2, j3, j4, whole, first, last, out):
    a, b, c, d, e, f = x[i], x[i2], y[j], y[j2], y[j3], y[j4]
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.int32(0)
    for t in range(first, last):
        p, q, k = a[t], b[t], np.int32(whole[t])
        s0 = np.int32(s0 + np.int32(max(p, c[t])) * k)
        s1 = np.int32(s1 + np.int32(max(p, d[t])) * k)
        s2 = np.int32(s2 + np.int32(max(p, e[t])) * k)
        s3 = np.int32(s3 + np.int32(max(p, f[t])) * k)
        s4 = np.int32(s4 + np.int32(max(q, c[t])) * k)
        s5 = np.int32(s5 + np.int32(max(q, d[t])) * k)
        s6 = np.int32(s6 + np.int32(max(q, e[t])) * k)
        s7 = np.int32(s7 + np.int32(max(q, f[t])) * k)
    out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7] = s0, s1, s2, s3, s4, s5, s6, s7


def _needed(sums, own_y, floors_y, j, floor_x, floor_x2, own_x, own_x2):
    hit = np.int32(0)
    own, floors = own_y[j : j + 4], floors_y[j : j + 4]
    for c in range(4):
        one, other = np.int32(2 * sums[c]), np.int32(2 * sums[c + 4])
        hit |= np.int32(np.int32(one - own[c]) >= floor_x) | np.int32(np.int32(one - own_x) >= floors[c])
        hit |= np.int32(np.int32(other - own[c]) >= floor_x2) | np.int32(np.int32(other - own_x2) >= floors[c])
    return hit != 0


def _eights(x, y, weight, count):
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for t in range(0, 8 * count, 8):
        s0 += weight[t] * abs(x[t] - y[t])
        s1 += weight[t + 1] * abs(x[t + 1] - y[t + 1])
        s2 += weight[t + 2] * abs(x[t + 2] - y[t + 2])
        s3 += weight[t + 3] * abs(x[t + 3] - y[t + 3])
        s4 += weight[t + 4] * abs(x[t + 4] - y[t + 4])
        s5 += weight[t + 5] * abs(x[t + 5] - y[t + 5])
        s6 += weight[t + 6] * abs(x[t + 6] - y[t + 6])
        s7 += weight[t + 7] * abs(x[t + 7] - y[t + 7])
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


EXCHANGED: dict[str, tuple[ModuleType, Callable[..., Any]]] = {
    "kernels._larger": (kernels, _larger),
    "kernels._needed": (kernels, _needed),
    "scans._eights": (scans, _eights),
}


def exchanged(module: ModuleType, function: Callable[..., Any], folder: str) -> ModuleType:
    """A copy of a module in which numba compiles ``function`` instead of the intrinsic of that name."""
    lines, name = inspect.getsource(module).splitlines(), function.__name__
    node = next(n for n in ast.parse("\n".join(lines)).body if isinstance(n, ast.FunctionDef) and n.name == name)
    assert ast.unparse(node.decorator_list[0]) == "intrinsic", f"{name} writes no LLVM any more"
    lines[node.decorator_list[0].lineno - 1 : node.end_lineno] = [
        '@compiled(inline="always")', *inspect.getsource(function).splitlines(), "",
    ]  # fmt: skip
    file = Path(folder) / f"numba{name}.py"
    file.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = copy
    spec.loader.exec_module(copy)
    return copy


def searches(name: str, n: int, d: int) -> dict[str, Callable[[], list[Any]]]:
    """Each search of a function, and the arrays that it answers with."""
    w, random, people = weights(d), vectors("random", n, d), vectors("identities", n, d)
    edges = edges_of(random, w)

    def asked(table: np.ndarray, **told: Any) -> list[Any]:
        found = survey(table, None, w, BIAS, threads=1, **told)
        top = [] if found.top is None else [found.top.indices, found.top.logits]
        pairs = [] if found.pairs is None else [found.pairs.first, found.pairs.second, found.pairs.logit]
        return [*top, *pairs, *([] if found.counts is None else [found.counts])]

    if name == "kernels._needed":
        random, people = (vectors(kind, MANY, d) for kind in ("random", "identities"))
        return {
            "above, many": lambda: asked(people, threshold=0.0),
            "above, none of many": lambda: asked(random, threshold=0.0),
        }
    return {
        "top and histogram": lambda: asked(random, k=K, edges=edges),
        "top": lambda: asked(random, k=K),
        "above": lambda: asked(people, threshold=0.0),
        "above, none": lambda: asked(random, threshold=0.0),
        "score": lambda: [score(random[:ROWS], random, w, BIAS)],
    }


def city_block(d: int, rounds: int) -> dict[str, float]:
    """A tile of 128 x 2,048 pairs by `distances`' kernel, over one by `pairs`', both with all columns."""
    table, w = Rows(vectors("random", 2176, d), "vectors"), weights(d)
    with team(1) as workers:
        grid = find_grid(check_head(w, BIAS, d), (table,), workers)
        x, y = (grid.prepare(table, first, last, workers) for first, last in ((0, 128), (128, 2176)))
    told = x.short, y.short, x.own, y.own, x.rest, grid.whole, grid.stages, len(grid.stages) - 1
    told = (*told, np.empty(128, np.int32), np.empty(2048, np.int32), np.empty((128, 2048), np.int32))
    single, tile = [part.exact.astype(np.float32) for part in (x, y)], np.empty((128, 2048), np.float32)
    sides = lambda: kernels.signed_sums(*told), lambda: absolute_sums(*single, tile)
    ratios = []
    for number in range(4 * rounds + 1):  # the first compiles
        took = [0.0, 0.0]
        for side in (0, 1) if number % 2 else (1, 0):
            start = time.process_time()
            sides[side]()
            took[side] = time.process_time() - start
        ratios.append(took[1] / took[0])
    middle, low, high = median_interval(ratios[1:])
    print(f"city block in float32 over whole numbers: {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    return {"ratio_median": middle, "ratio_low": low, "ratio_high": high}


def bench(names: Sequence[str], n: int, d: int, rounds: int) -> dict[str, Any]:
    """The ratio of every one of these functions in every search."""
    result: dict[str, Any] = {}
    for name in names:
        module, function = EXCHANGED[name]
        result[name] = {}
        with tempfile.TemporaryDirectory() as folder:
            sides = (module, exchanged(module, function, folder))
            for search, ask in searches(name, n, d).items():
                ratios = []
                for number in range(rounds + 1):  # the first compiles
                    took, answers = [0.0, 0.0], [[], []]
                    for side in (0, 1) if number % 2 else (1, 0):
                        sys.modules[module.__name__] = sides[side]
                        start = time.process_time()
                        answers[side] = ask()
                        took[side] = time.process_time() - start
                    sys.modules[module.__name__] = module
                    for one, other in zip(*answers, strict=True):
                        np.testing.assert_array_equal(one, other)
                    ratios.append(took[1] / took[0])
                middle, low, high = median_interval(ratios[1:])
                result[name][search] = {"ratio_median": middle, "ratio_low": low, "ratio_high": high}
                print(f"{name}, {search}: {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    return result


def main() -> int:
    """Measure, print, write; 1 where numba alone would do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=FULL[0])
    parser.add_argument("--d", type=int, default=FULL[1])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", choices=sorted(EXCHANGED), help="one function; the others' ratios stay as they were")
    given = parser.parse_args()
    known = json.loads(RESULT.read_text("utf-8")) if given.only and RESULT.is_file() else {}
    ratios = known.get("numba_over_llvm", {}) | bench(
        [given.only] if given.only else list(EXCHANGED), given.n, given.d, given.rounds
    )
    city = known.get("city_block") or city_block(given.d, given.rounds)
    spare = [name for name, found in ratios.items() if max(r["ratio_median"] for r in found.values()) <= LIMIT]
    if (given.n, given.d) == FULL:
        told = {
            "n": given.n,
            "d": given.d,
            "rounds": given.rounds,
            "limit": LIMIT,
            "numba_over_llvm": ratios,
            "city_block": city,
        }
        write_json(RESULT, told | {"spare": spare, "machine": machine(), "versions": versions()})
    print(f"numba alone would do: {', '.join(spare)}" if spare else "each loses more than a tenth without")
    return 1 if spare else 0


if __name__ == "__main__":
    sys.exit(main())
