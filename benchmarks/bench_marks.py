"""What a mark costs beside a plain forward pass.

    python benchmarks/bench_marks.py [--net mlp1] [--probes 10000] [--controls 200] [--pairs 10] [--threads 1]

The audit of a mark (`audits.feature.mark_answers.ask_about_marks`: clean, marked, opacity 0, every control, three
redraws of random patches, each with its KL divergences) against controls + 2 plain passes over the same probes, in
turns: each pair takes its share of the probes, and which side goes first alternates. A plain pass is the PyTorch
network alone on normalised inputs, batch by batch: no softmax, nothing kept. The audit's network is the same one, given
by its name with a file of its weights. Networks of paper 002 at 28 px with one channel, random weights and probes.
Limit: 1.2 times, as the median of paired ratios of wall times; the same of processor times beside it, which other work
on the machine disturbs less. Writes ``benchmarks/results/marks.json``.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from intervals import median_interval
from memorisk.audits.feature.mark_answers import ask_about_marks
from memorisk.images.alterations.mark_controls import make_controls
from memorisk.images.alterations.marks import letter
from memorisk.models.blackbox.predictors import load_predictor
from memorisk.models.blackbox.preprocessing import preprocessing_from
from memorisk.models.classifiers.unique_features import NAMES
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.weight_files import save_weights
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.engine.predict import predict_batch_size

RESULT, LIMIT = Path(__file__).parent / "results" / "marks.json", 1.2


class Sides:
    """The audit and the plain passes over the same probes.

    Args:
        net: A network of paper 002.
        n_probes: Probes.
        n_controls: Controls.
        threads: Of both sides.
    """

    def __init__(self, net: str, n_probes: int, n_controls: int, threads: int) -> None:
        torch.set_num_threads(threads)
        self.preprocessing = preprocessing_from("0.13/0.31", 28, 1)
        self.model = create_model(net, num_classes=10, in_chans=1, image_size=28, seed=0).eval()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.safetensors"
            save_weights(file, self.model)
            self.predictor = load_predictor(net, weights=file, preprocessing=self.preprocessing, threads=threads)
        self.images = np.random.default_rng(0).integers(0, 256, (n_probes, 28, 28, 1), dtype=np.uint8)
        self.mark = letter("A")
        self.controls = make_controls(self.mark, n_controls)

    def plain(self, images: np.ndarray) -> None:
        """The plain passes."""
        size = predict_batch_size(images)
        for first in range(0, len(images), size):
            pixels = images[first : first + size].astype(np.float32) / np.float32(255)
            x = torch.from_numpy(self.preprocessing.apply(pixels))
            with torch.inference_mode():
                for _ in range(len(self.controls) + 2):
                    self.model(x)

    def audit(self, images: np.ndarray) -> None:
        """The audit's."""
        ask_about_marks(self.predictor, self.preprocessing, images, self.mark, self.controls)


def timed(side: Callable[[np.ndarray], None], images: np.ndarray) -> np.ndarray:
    """Seconds by the wall and of the processor, [2]."""
    wall, processor = time.perf_counter(), time.process_time()
    side(images)
    return np.array([time.perf_counter() - wall, time.process_time() - processor])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--net", choices=NAMES, default="mlp1")
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--controls", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    sides = Sides(given.net, given.probes, given.controls, given.threads)
    passes, pairs = len(sides.controls) + 2, []
    for side in (sides.audit, sides.plain):  # warms up
        side(sides.images[:16])
    for number, images in enumerate(np.array_split(sides.images, given.pairs)):
        order = (sides.audit, sides.plain) if number % 2 else (sides.plain, sides.audit)
        took = {side.__name__: timed(side, images) for side in order}
        pairs.append(took["audit"] / took["plain"])
        walls = f"audit {took['audit'][0]:.2f} s, {passes} plain passes {took['plain'][0]:.2f} s"
        print(f"{walls}: {pairs[-1][0]:.3f}, of the processor {pairs[-1][1]:.3f}", flush=True)
    found = {"network": given.net, "probes": given.probes, "controls": len(sides.controls), "plain_passes": passes}
    found |= {"threads": given.threads, "pairs": given.pairs}
    for what, ratios in zip(("wall", "processor"), np.transpose(pairs), strict=True):
        median = median_interval(ratios)
        found[what] = dict(zip(("ratio_median", "ratio_low", "ratio_high"), median, strict=True))
        found[what]["ratios"] = ratios.tolist()
        print(f"{given.net}, {what}: median {median[0]:.3f} ({median[1]:.3f} to {median[2]:.3f}), limit {LIMIT}")
    held = found["wall"]["ratio_median"] <= LIMIT
    found |= {"limit": LIMIT, "held": held, "machine": machine(), "versions": versions()}
    write_json(given.out, found)
    if not held:
        sys.exit("the limit is not held")


if __name__ == "__main__":
    main()
