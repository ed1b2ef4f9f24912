"""Do the class intervals cover? METHODS section 1, "Class summary", by simulation.

    python recipes/interval_coverage.py [--tables 4000] [--out docs/results/interval_coverage.md]

A table of G groups x S seeds is `group effect + seed effect + interaction`, group effects and interactions of sd 1,
seed effects of sd 0, 0.2, 0.5 or 1; group effects normal, heavy-tailed (t with 3 degrees of freedom) or skewed
(exponential).
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import special

from memorisk.statistics.analysis_of_variance import mean_squares
from memorisk.statistics.intervals.means import Limits, jackknife_limits, two_way_interval, two_way_limits

GROUPS = (10, 50, 1000)
SEEDS = (3, 4, 8)
SEED_SD = (0.0, 0.2, 0.5, 1.0)
TAILS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3),
    "skewed": lambda rng, shape: rng.exponential(1, shape) - 1,
}
CELLS_AT_ONCE = 4_000_000


def tables(rng: np.random.Generator, n: int, g: int, s: int, tail: str, seed_sd: float) -> Iterator[np.ndarray]:
    """`n` tables `[.., G, S]`, some at a time."""
    step = max(1, CELLS_AT_ONCE // (g * s))
    for start in range(0, n, step):
        k = min(step, n - start)
        effect = TAILS[tail](rng, (k, g, 1)) + seed_sd * rng.standard_normal((k, 1, s))
        yield effect + rng.standard_normal((k, g, s))


def satterthwaite(values: np.ndarray, level: float = 0.95) -> Limits:
    """METHODS' wording: floored v, t with Satterthwaite degrees of freedom (the floor's own where floored)."""
    ms = mean_squares(values)
    total, floor = ms.groups + ms.seeds - ms.error, np.maximum(ms.groups, ms.seeds)
    parts = ms.groups**2 / ms.df_groups + ms.seeds**2 / ms.df_seeds + ms.error**2 / ms.df_error
    lead = np.where(ms.groups >= ms.seeds, ms.df_groups, ms.df_seeds)
    df = np.where(total < floor, lead, np.maximum(total**2 / parts, 1))
    v = np.maximum(total, floor) / (values.shape[-2] * values.shape[-1])
    half = np.sqrt(v) * special.stdtrit(df, 0.5 + level / 2)
    return Limits(ms.mean, ms.mean - half, ms.mean + half, df)


def groups_alone(values: np.ndarray, level: float = 0.95) -> Limits:
    """Groups' means with t limits, seeds taken as fixed."""
    g = values.shape[-2]
    row = values.mean(-1)
    half = row.std(-1, ddof=1) / np.sqrt(g) * special.stdtrit(g - 1, 0.5 + level / 2)
    return Limits(row.mean(-1), row.mean(-1) - half, row.mean(-1) + half, np.full(half.shape, g - 1.0))


def delete_one(values: np.ndarray, level: float = 0.95) -> Limits:
    """Median with delete-one jackknives over groups and over seeds, as METHODS words it."""
    g, s = values.shape[-2:]
    estimate = np.median(values.mean(-1), -1)

    def spread(without: list[np.ndarray]) -> np.ndarray:
        return np.stack(without, -1).var(-1) * (len(without) - 1)

    ranked, total = np.sort(values.mean(-1), -1), values.sum(-1)
    deleted = np.arange(g)
    middle = [np.where(r < deleted, r, r + 1) for r in ((g - 2) // 2, (g - 1) // 2)]  # ranks once one group is gone
    without = (ranked[..., middle[0]] + ranked[..., middle[1]]) / 2
    over_groups = without.var(-1) * (g - 1)
    over_seeds = spread([np.median((total - values[..., j]) / (s - 1), -1) for j in range(s)])
    v = over_groups + over_seeds
    df = np.maximum(v**2 / (over_groups**2 / (g - 1) + over_seeds**2 / (s - 1)), 1)
    half = np.sqrt(v) * special.stdtrit(df, 0.5 + level / 2)
    return Limits(estimate, estimate - half, estimate + half, df)


def truth(statistic: str, tail: str, s: int) -> float:
    """The value to cover: of groups averaged over S seeds (an average of noisy groups moves a skewed median)."""
    if statistic == "mean" or tail != "skewed":
        return 0.0
    rng = np.random.default_rng(0)
    x = np.sort(rng.exponential(1, 4_000_000) - 1 + rng.standard_normal(4_000_000) / np.sqrt(s))
    k = len(x) // 10
    return float(np.median(x)) if statistic == "median" else float(x[k:-k].mean())


def coverage(method: Callable[[np.ndarray], Limits], target: float, n: int, g: int, s: int, tail: str) -> str:
    """Percent covered, one number per seed sd."""
    shown = []
    for seed_sd in SEED_SD:
        rng = np.random.default_rng([g, s, len(tail), int(10 * seed_sd)])
        hits = 0
        for values in tables(rng, n, g, s, tail, seed_sd):
            limits = method(values)
            hits += int(((limits.low <= target) & (target <= limits.high)).sum())
        shown.append(f"{100 * hits / n:.1f}")
    return " ".join(shown)


def grid(methods: dict[str, Callable[[np.ndarray], Limits]], statistic: str, n: int) -> list[str]:
    """A table of coverages: rows are tails, G and S; each cell has one number per seed sd."""
    lines = [f"| effects | G | S | {' | '.join(methods)} |", "|---|---|---|" + "---|" * len(methods)]
    for tail in TAILS:
        for g in GROUPS:
            for s in SEEDS:
                tables_here = n if g < 1000 else n // 2
                cells = [coverage(m, truth(statistic, tail, s), tables_here, g, s, tail) for m in methods.values()]
                lines.append(f"| {tail} | {g} | {s} | {' | '.join(cells)} |")
    return lines


def missing(n: int) -> list[str]:
    """Coverage of `two_way_interval` with a share of cells missing at random, 4 and 8 seeds."""
    lines = ["| G | S | 5 % missing | 20 % missing |", "|---|---|---|---|"]
    for g, s in ((10, 4), (50, 4), (10, 8), (50, 8)):
        cells = []
        for share in (0.05, 0.2):
            rng = np.random.default_rng([g, s, int(100 * share)])
            hits = 0
            for values in tables(rng, n, g, s, "normal", 0.2):
                for table in np.where(rng.random(values.shape) < share, np.nan, values):
                    interval = two_way_interval(table)
                    hits += interval.low <= 0 <= interval.high
            cells.append(f"{100 * hits / n:.1f}")
        lines.append(f"| {g} | {s} | {' | '.join(cells)} |")
    return lines


def one_sided(n: int) -> list[str]:
    """How often the mean of skewed groups lies above the upper limit (2.5 % wanted), 4 seeds of sd 0.2."""
    lines = ["| G | above the upper limit | below the lower limit |", "|---|---|---|"]
    for g in (10, 20, 50, 100, 200, 1000):
        rng = np.random.default_rng(g)
        above = below = total = 0
        for values in tables(rng, n if g < 1000 else n // 2, g, 4, "skewed", 0.2):
            limits = two_way_limits(values)
            above, below, total = above + (limits.high < 0).sum(), below + (limits.low > 0).sum(), total + len(values)
        lines.append(f"| {g} | {100 * above / total:.1f} % | {100 * below / total:.1f} % |")
    return lines


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=4000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    n = options.tables
    mean = {"used": two_way_limits, "Satterthwaite": satterthwaite, "groups alone": groups_alone}
    median = {"used": lambda v: jackknife_limits(v, "median"), "delete-one jackknife": delete_one}
    trimmed = {"used": lambda v: jackknife_limits(v, "trimmed_mean")}
    sds = ", ".join(f"{x:g}" for x in SEED_SD)
    text = [
        "# Do the class intervals cover?",
        "",
        f"Output of `recipes/interval_coverage.py --tables {n}` (half as many at G = 1,000): percent of nominal 95 %",
        f"intervals that hold the truth. The four numbers of a cell are for seed effects of sd {sds},",
        f"beside group effects and interactions of sd 1. Standard error of a number: {100 * np.sqrt(0.0475 / n):.1f}",
        f"({100 * np.sqrt(0.0475 * 2 / n):.1f} at G = 1,000).",
        "",
        "## Mean",
        "",
        *grid(mean, "mean", n),
        "",
        "## Median",
        "",
        *grid(median, "median", n),
        "",
        "## 10 % trimmed mean",
        "",
        *grid(trimmed, "trimmed", n),
        "",
        "## Missing cells (mean; seed effects of sd 0.2)",
        "",
        *missing(n),
        "",
        "## Skewed groups: which side is missed (mean)",
        "",
        *one_sided(n),
        "",
    ]
    print("\n".join(text)) if options.out is None else options.out.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
