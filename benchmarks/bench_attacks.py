"""LiRA against a loop over images, and RMIA's memory against an array of images times population.

    python benchmarks/bench_attacks.py [--quick]

LiRA: 50,000 images, 64 models as 32 twin pairs, one of them the target; timed from the statistics of all models to the
scores, references included. The two peers do the same for one image after another: ``scipy`` in the words of the
authors' code (numpy.median / mean / std and scipy.stats.norm.logpdf), ``numpy`` with the densities written out,
which is as fast as such a loop gets without changing its form. A loop runs on 1,000 images of each round and its
time is scaled to 50,000: its work per image does not depend on how many there are. Fast form and loops alternate
within a round; printed are medians over rounds of the ratio within the round. The scores of the loops are compared
with the fast ones.

RMIA: peak memory that one call allocates beyond its inputs (tracemalloc), beside the N x Z array of ratios in float64.

Writes ``benchmarks/results/attacks.json``; exits with 1 where a limit of issue 2 is missed.
"""

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.scores.lira import lira_scores, twin_references
from memorisk.scores.rmia import rmia_scores

IMAGES, SEEDS, SAMPLE = 50_000, 32, 1_000
LIRA_LIMIT = 50.0
"""Least ratio over the per-image loop (issue 2, "Speed")."""
RMIA_LIMIT = 0.01
"""Largest share of the N x Z array that RMIA may allocate."""


def twins(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The statistic phi of both models of every pair, and which of them saw the image: [32, N] each."""
    sign = rng.integers(0, 2, (SEEDS, IMAGES), dtype=np.int8) * 2 - 1
    phi_a = rng.normal(size=(SEEDS, IMAGES)) + (sign > 0)
    phi_b = rng.normal(size=(SEEDS, IMAGES)) + (sign < 0)
    return phi_a, phi_b, sign


def fast(phi_a: np.ndarray, phi_b: np.ndarray, sign: np.ndarray, centre: str) -> np.ndarray:
    """What the audit runs."""
    refs = twin_references(phi_a, phi_b, sign, 0)
    return lira_scores(phi_a[0], refs.refs_in, refs.refs_out, centre=centre, variance="per_example")


def loop(
    phi_a: np.ndarray, phi_b: np.ndarray, sign: np.ndarray, centre: str, density: str, images: np.ndarray
) -> np.ndarray:
    """LiRA for one image after another."""
    middle = {"mean": np.mean, "median": np.median}[centre]
    scores = np.empty(len(images))
    for i, x in enumerate(images):
        saw = sign[1:, x] > 0
        seen, unseen = np.where(saw, phi_a[1:, x], phi_b[1:, x]), np.where(saw, phi_b[1:, x], phi_a[1:, x])
        phi = phi_a[0, x]
        c_in, s_in, c_out, s_out = middle(seen), np.std(seen), middle(unseen), np.std(unseen)
        if density == "scipy":
            scores[i] = norm.logpdf(phi, c_in, s_in) - norm.logpdf(phi, c_out, s_out)
        else:
            z_in, z_out = (phi - c_in) / s_in, (phi - c_out) / s_out
            scores[i] = 0.5 * (z_out * z_out - z_in * z_in) + np.log(s_out / s_in)
    return scores


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Wall time of one call, and what it returned."""
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def bench_lira(rounds: int) -> list[dict[str, Any]]:
    """Ratios of both loops to the fast form, for both centres."""
    rng = np.random.default_rng(0)
    data = twins(rng)
    rows = []
    for centre in ("mean", "median"):
        fast(*data, centre)  # warm: the first call pays for fresh memory pages
        times: dict[str, list[float]] = {"fast": [], "scipy": [], "numpy": []}
        for _ in range(rounds):
            images = rng.choice(IMAGES, SAMPLE, replace=False)
            took, scores = seconds(lambda c=centre: fast(*data, c))
            times["fast"].append(took)
            for density in ("scipy", "numpy"):
                took, naive = seconds(lambda c=centre, d=density, i=images: loop(*data, c, d, i))
                times[density].append(took * IMAGES / SAMPLE)
                np.testing.assert_allclose(scores[images], naive, rtol=1e-9, atol=1e-9)
        for density in ("scipy", "numpy"):
            ratios = np.array(times[density]) / np.array(times["fast"])
            rows.append(
                {
                    "centre": centre,
                    "loop": density,
                    "ratio_median": round(float(np.median(ratios)), 1),
                    "ratio_lowest": round(float(ratios.min()), 1),
                    "ratio_highest": round(float(ratios.max()), 1),
                    "fast_seconds_median": round(float(np.median(times["fast"])), 4),
                    "loop_seconds_median_scaled": round(float(np.median(times[density])), 2),
                }
            )
    return rows


def bench_rmia(sizes: list[int]) -> list[dict[str, Any]]:
    """Peak memory of one call with as many population images as images, against the array it does not make."""
    rng = np.random.default_rng(1)
    rows = []
    for n in sizes:
        p, refs = rng.random(n), rng.random((31, n))
        rmia_scores(p[:10], refs[:, :10], refs[:, :10], p[:10], refs[:, :10])
        took, _ = seconds(lambda p=p, refs=refs: rmia_scores(p, refs, refs, p, refs))
        tracemalloc.start()
        rmia_scores(p, refs, refs, p, refs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        array = 8 * n * n
        rows.append(
            {
                "images": n,
                "population": n,
                "references_per_side": 31,
                "seconds": round(took, 3),
                "peak_mib": round(peak / 2**20, 1),
                "n_by_z_array_mib": round(array / 2**20, 1),
                "share_of_array": round(peak / array, 5),
            }
        )
    return rows


def main() -> int:
    """Run, print, write; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 11, nothing written")
    quick = parser.parse_args().quick
    lira = bench_lira(3 if quick else 11)
    rmia = bench_rmia([12_500, 25_000, 50_000])
    worst = min(row["ratio_median"] for row in lira)
    share = rmia[-1]["share_of_array"]
    passed = worst >= LIRA_LIMIT and share <= RMIA_LIMIT
    result = {
        "what": "LiRA (online, variance per example), 50,000 images x 64 models, with references; RMIA's peak memory",
        "how": f"medians of {3 if quick else 11} paired ratios, interleaved; loops timed on {SAMPLE} images, scaled by "
        f"{IMAGES // SAMPLE}; memory by tracemalloc",
        "machine": machine(),
        "versions": {k: v for k, v in versions().items() if k in ("python", "memorisk", "numpy", "scipy")},
        "lira": lira,
        "lira_limit": LIRA_LIMIT,
        "rmia": rmia,
        "rmia_limit": RMIA_LIMIT,
        "passed": passed,
    }
    for row in lira:
        print(
            f"LiRA, centre {row['centre']}: {row['ratio_median']:.0f}x the {row['loop']} loop "
            f"({row['ratio_lowest']:.0f} to {row['ratio_highest']:.0f}); {row['fast_seconds_median']:.3f} s against "
            f"{row['loop_seconds_median_scaled']:.1f} s"
        )
    for row in rmia:
        print(
            f"RMIA, {row['images']:,} x {row['population']:,}: {row['seconds']:.2f} s, peak {row['peak_mib']} MiB, "
            f"{row['share_of_array']:.2%} of the {row['n_by_z_array_mib']:,.0f} MiB array"
        )
    if not quick:
        write_json(Path(__file__).parent / "results" / "attacks.json", result)
    print(
        "limits met"
        if passed
        else f"limit missed: ratio {worst} (at least {LIRA_LIMIT}), memory {share} (at most {RMIA_LIMIT})"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
