"""What a mark costs beside a plain forward pass.

    python benchmarks/bench_marks.py [--probes 10000] [--controls 200] [--pairs 5]

The audit of a mark (`audits.mark_probing.ask_about_marks`: clean, marked, opacity 0, every control, three redraws of
random patches) against controls + 2 plain passes of the same network over the same probes, taken in turns in one run.
Paper 002's CNN-1 (28 px, one channel), random weights and probes. Limit: 1.2 times. Writes
``benchmarks/results/marks.json``.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from intervals import median_interval
from memorisk.audits.mark_probing import ask_about_marks
from memorisk.images.mark_controls import make_controls
from memorisk.images.marks import letter
from memorisk.models.asked import AskedNetwork
from memorisk.models.predictors import load_predictor
from memorisk.models.preprocessing import preprocessing_from
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.predict import predict_batch_size

RESULT, LIMIT = Path(__file__).parent / "results" / "marks.json", 1.2
loads = 0


def cnn() -> nn.Module:
    """CNN-1 of paper 002, A.3."""
    global loads
    loads += 1
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--controls", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    sys.modules["bench_marks"] = sys.modules["__main__"]
    preprocessing = preprocessing_from("0.13/0.31", 28, 1)
    predictor = load_predictor("bench_marks:cnn", preprocessing=preprocessing, threads=1)
    assert isinstance(predictor, AskedNetwork)
    images = np.random.default_rng(0).integers(0, 256, (given.probes, 28, 28, 1), dtype=np.uint8)
    mark = letter("A")
    controls = make_controls(mark, given.controls)
    size = predict_batch_size(images)

    def plain() -> float:
        start = time.perf_counter()
        for first in range(0, len(images), size):
            x = preprocessing.apply(images[first : first + size].astype(np.float32) / np.float32(255))
            for _ in range(len(controls) + 2):
                predictor.probabilities(x)
        return time.perf_counter() - start

    def audit() -> float:
        start = time.perf_counter()
        ask_about_marks(predictor, preprocessing, images, mark, controls)
        return time.perf_counter() - start

    ratios = []
    for pair in range(given.pairs):
        took = {f: f() for f in ((plain, audit) if pair % 2 else (audit, plain))}
        ratios.append(took[audit] / took[plain])
        print(
            f"audit {took[audit]:.1f} s, {len(controls) + 2} passes {took[plain]:.1f} s: {ratios[-1]:.3f}", flush=True
        )
    median, low, high = median_interval(ratios)
    print(f"median {median:.3f} ({low:.3f} to {high:.3f}), limit {LIMIT}; the model was loaded {loads} time")
    held = median <= LIMIT and loads == 1
    write_json(
        RESULT,
        {
            "network": "CNN-1 of paper 002, random weights",
            "probes": given.probes,
            "controls": len(controls),
            "ratios": ratios,
            "median": median,
            "low": low,
            "high": high,
            "model_loads": loads,
            "limit": LIMIT,
            "held": held,
            "machine": machine(),
            "versions": versions(),
        },
    )
    if not held:
        sys.exit("the limit is not held")


if __name__ == "__main__":
    main()
