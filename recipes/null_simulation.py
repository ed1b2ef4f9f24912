"""Which null keeps its level? The tables behind METHODS section 1, "Null and p-value", by simulation.

    python recipes/null_simulation.py [--repeats 400] [--out docs/results/null_simulation.md]

Nothing is memorized: loss gaps of canaries and test images are heavy-tailed noise (t with 3 degrees of freedom) whose
scale differs from image to image, in rare classes larger than in common ones; each canary group gets a fair coin per
seed, opposite to its partner's. Three tables: pooling over classes; groups of unequal sizes; what the list then
names.
"""

import argparse
from pathlib import Path

import numpy as np

from memorisk.statistics.memorization.nulls import unit_p_values
from memorisk.statistics.memorization.sign_flips import sign_flip_p_values
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg

LEVEL = 0.05
SEEDS = 4
BINS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, 30), (31, 60))


def noise(rng: np.random.Generator, sizes: np.ndarray, seeds: int, scale: float = 1.0, group_sd: float = 0.7):
    """Loss gaps `[S, images]` and group ids of groups of these sizes, without any memorization."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    image_scale = scale * np.exp(0.7 * rng.standard_normal(len(group)))
    shared = group_sd * rng.standard_t(3, (seeds, len(sizes)))[:, group]
    return (shared + rng.standard_t(3, (seeds, len(group)))) * image_scale, group


def coins(rng: np.random.Generator, n_groups: int, seeds: int) -> np.ndarray:
    """Signs `[S, groups]`: in each seed groups are paired at random and a coin per pair says who is in A."""
    sign = np.empty((seeds, n_groups), dtype=int)
    for row in sign:
        coin = rng.choice([-1, 1], (n_groups + 1) // 2)
        row[rng.permutation(n_groups)] = np.stack([coin, -coin], axis=1).ravel()[:n_groups]
    return sign


def pooling(repeats: int) -> list[str]:
    """Share of p <= 0.05 in rare and common classes, by the null that is used."""
    rng = np.random.default_rng(1)
    classes = [(340, 60, 1.0), (170, 30, 1.0), (17, 3, 1.8), (17, 3, 1.8)]  # canaries, tests, scale of the noise
    flags: dict[str, list[np.ndarray]] = {"within class": [], "pooled": []}
    rare = np.repeat([c[0] < 50 for c in classes], [c[0] for c in classes])
    for _ in range(repeats):
        data = []
        for n, n_test, scale in classes:
            gap, _ = noise(rng, np.ones(n + n_test, dtype=int), SEEDS, scale)
            data.append((gap[:, :n], coins(rng, n, SEEDS), np.arange(n), gap[:, n:], np.arange(n_test)))
        flags["within class"].append(np.concatenate([sign_flip_p_values(*d).p_value for d in data]) <= LEVEL)
        all_tests = np.concatenate([d[3] for d in data], axis=1)
        over = [sign_flip_p_values(*d[:3], all_tests, np.arange(all_tests.shape[1])).p_value for d in data]
        flags["pooled"].append(np.concatenate(over) <= LEVEL)
    lines = ["| null | rare classes (17 + 3 images) | common classes (510 + 90) |", "|---|---|---|"]
    for name, found in flags.items():
        share = np.stack(found)
        lines.append(f"| {name} | {percent(share[:, rare])} | {percent(share[:, ~rare])} |")
    return lines


def sizes_of(name: str, rng: np.random.Generator, n: int) -> np.ndarray:
    """Images per group: three distributions."""
    if name == "geometric (mean 2.9)":
        return rng.geometric(0.35, n)
    if name == "Zipf 1.8, at most 60":
        return np.minimum(rng.zipf(1.8, n), 60)
    return np.where(rng.random(n) < 0.1, 20, 1)


SIZES = ("geometric (mean 2.9)", "Zipf 1.8, at most 60", "one in ten has 20, others 1")


WAYS = {
    "flips": "sign flips of all",
    "any": "unseen, any size, no flips",
    "matched": "unseen, matched, no flips",
}
"""How groups are compared: as twins are, and as in the `paper` design, by the largest mean gap of their images."""


def p_values(how: str, gap: np.ndarray, sign: np.ndarray, unit: np.ndarray, test: np.ndarray, test_unit: np.ndarray):
    """p-values of the groups in one of the `WAYS`."""
    if how == "flips":
        return sign_flip_p_values(gap, sign, unit, test, test_unit, level=0.1)
    return unit_p_values((sign * gap).mean(axis=0), unit, test.mean(axis=0), test_unit, sizes=how)


def unequal_sizes(repeats: int) -> list[str]:
    """Share of p <= 0.05 by the number of the group's images; 85 canary and 40 test groups."""
    heads = " | ".join(f"{a} to {b}" if a < b else f"{a}" for a, b in BINS)
    lines = [f"| sizes | compared | all | {heads} |", "|---" * (3 + len(BINS)) + "|"]
    for name in SIZES:
        found: dict[str, list[np.ndarray]] = {"flips": [], "any": [], "matched": []}
        rng = np.random.default_rng(2)
        for _ in range(repeats):
            sizes = sizes_of(name, rng, 125)  # 40 unseen, so that p is below 0.05 without flips
            gap, group = noise(rng, sizes, SEEDS)
            sign, canary = coins(rng, 85, SEEDS), group < 85
            data = gap[:, canary], sign[:, group[canary]], group[canary], gap[:, ~canary], group[~canary]
            for how in found:
                result = p_values(how, *data)
                found[how].append(np.stack([result.n_images, result.p_value <= LEVEL], axis=1))
        for how, words in WAYS.items():
            table = np.concatenate(found[how])
            cells = [table[(table[:, 0] >= a) & (table[:, 0] <= b), 1] for a, b in BINS]
            shown = " | ".join(f"{100 * c.mean():.1f}" if len(c) >= 200 else "" for c in cells)
            lines.append(f"| {name} | {words} | {100 * table[:, 1].mean():.1f} | {shown} |")
    return lines


def lists(repeats: int) -> list[str]:
    """False discoveries and power at q = 0.1 when 15 % of groups have one memorized image; 8 seeds."""
    lines = ["| sizes | compared | false share of the list | planted groups listed |", "|---|---|---|---|"]
    for name in SIZES:
        rng = np.random.default_rng(3)
        false: dict[str, list[float]] = {"flips": []}
        power: dict[str, list[float]] = {"flips": []}
        for _ in range(repeats):
            sizes = sizes_of(name, rng, 100)
            gap, group = noise(rng, sizes, 8)
            sign, canary = coins(rng, 85, 8), group < 85
            planted = rng.random(85) < 0.15
            first = (np.cumsum(sizes) - sizes)[:85][planted]
            gap[:, first] += 6 * sign[:, planted]
            data = gap[:, canary], sign[:, group[canary]], group[canary], gap[:, ~canary], group[~canary]
            for how in false:
                listed = benjamini_hochberg(p_values(how, *data).p_value, 0.1).rejected
                false[how].append(np.sum(listed & ~planted) / max(1, listed.sum()))
                power[how].append(listed[planted].mean() if planted.any() else np.nan)
        for how, words in (("flips", WAYS["flips"]),):
            lines.append(f"| {name} | {words} | {np.mean(false[how]):.3f} | {np.nanmean(power[how]):.2f} |")
    return lines


def percent(share: np.ndarray) -> str:
    """Mean share in percent with its standard error over repeats."""
    per_repeat = 100 * share.mean(1)
    return f"{per_repeat.mean():.1f} ± {per_repeat.std(ddof=1) / np.sqrt(len(per_repeat)):.1f} %"


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = "\n".join(
        [
            "# Which null keeps its level?",
            "",
            f"Output of `recipes/null_simulation.py --repeats {options.repeats}`: nothing is memorized, nominal 5 %.",
            "",
            f"## Pooling over classes ({SEEDS} seeds; noise in rare classes 1.8 times as large)",
            "",
            *pooling(options.repeats),
            "",
            f"## Groups of unequal sizes: percent with p at most 0.05, by the group's images ({SEEDS} seeds)",
            "",
            *unequal_sizes(options.repeats),
            "",
            "## The list at q = 0.1, 15 % of groups with one memorized image (8 seeds)",
            "",
            *lists(options.repeats),
            "",
        ]
    )
    print(text) if options.out is None else options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
