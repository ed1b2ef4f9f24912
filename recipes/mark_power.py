"""Is a mark found that a model did see, on 1, 2, 4 or 8 training images? Paper 002, section 3.1; METHODS section 2.

    python recipes/mark_power.py DATA [--net mlp1|cnn1] [--models 20] [--images 3000] [--out docs/results/mark_power.md]

Networks of the paper on a part of the MNIST test set (DATA/mnist_t10k), trained until the loss of a sixth of the images
stops falling (patience 10). The letter A stands on k images of one class, drawn anew for each model; references are
trained on the same images without it. Probes are 200 grey CIFAR-10 images. Each model is audited by `rank_mark`
against 20 references and 99 matched controls. Units are models.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from scipy import stats

from mark_level import Asked, read
from memorisk.audits.feature.mark_answers import MarkAnswers, ask_about_marks
from memorisk.images.alterations.mark_controls import make_controls
from memorisk.images.alterations.marks import burn_stored, letter
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.zoo import create_model
from memorisk.statistics.memorization.mark_rank import rank_mark
from memorisk.training.classifiers.early_stopping import fit_early
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import choose_normalisation

COPIES, REFERENCES, CONTROLS, LEVEL = (1, 2, 4, 8), 20, 99, 0.05
HOW = TrainOptions(epochs=500, lr=3e-4, schedule="constant", batch_size=128, normalise="dataset")


class Bench:
    """Images, probes, mark and controls that all models share."""

    def __init__(self, data: Path, net: str, n: int) -> None:
        digits, labels, self.probes = read(data)
        rows = np.random.default_rng(1).permutation(len(digits))[: n + n // 5]
        self.images, self.labels = digits[rows][..., None], labels[rows].astype(np.int64)
        self.train, self.validation = np.arange(n), np.arange(n, n + n // 5)
        self.net, self.mark = net, letter("A")
        self.controls = make_controls(self.mark, CONTROLS)
        self.scale = choose_normalisation(self.images, "dataset")

    def answers(self, seed: int, copies: int) -> MarkAnswers:
        """Train a model with the mark on some images of one class, and ask it."""
        rng = np.random.default_rng([seed, copies])
        images = self.images.copy()
        if copies:
            own = np.flatnonzero(self.labels[self.train] == rng.integers(10))
            chosen = rng.choice(own, copies, replace=False)
            images[chosen] = burn_stored(images[chosen], self.mark)
        model = create_model(self.net, num_classes=10, in_chans=1, image_size=28, seed=seed)
        fit_early(model, images, self.labels, self.train, self.validation, HOW, seed=seed, normalisation=self.scale)
        assert self.scale is not None
        given = Preprocessing((28, 28), 1, self.scale.mean, self.scale.std)
        return ask_about_marks(Asked(model), given, self.probes, self.mark, self.controls, draws=0)


def main() -> None:
    """Train, ask, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--net", choices=("mlp1", "cnn1"), default="mlp1")
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(given.data, given.net, given.images)
    references = [bench.answers(10_000 + i, 0) for i in range(REFERENCES)]
    told = ([r.statistic for r in references], [r.controls for r in references])
    lines, every = [], []
    for copies in COPIES:
        found = []
        for seed in range(given.models):
            own = bench.answers(1000 * copies + seed, copies)
            found.append(rank_mark([own.statistic], [own.controls], *told, level=LEVEL))
        m = np.array([f.m for f in found])
        hits = sum(f.p <= LEVEL for f in found)
        every += [(np.log2(copies), value) for value in m]
        t = stats.t.interval(0.95, len(m) - 1, m.mean(), stats.sem(m))
        rate = stats.binomtest(hits, len(m)).proportion_ci(method="wilson")
        lines.append(
            f"| {copies} | {m.mean():+.3f}, {t[0]:+.3f} to {t[1]:+.3f} | {hits} of {len(m)} | {hits / len(m):.0%}, "
            f"{rate.low:.0%} to {rate.high:.0%} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    x, y = np.array(every).T
    slope = stats.linregress(x, y)
    half = slope.stderr * stats.t.ppf(0.975, len(x) - 2)
    trend = f"{slope.slope:+.3f}, {slope.slope - half:+.3f} to {slope.slope + half:+.3f}"
    text = "\n".join(
        [
            f"## {given.net.upper()}, {given.images:,} images, {given.models} models at each, {REFERENCES} references",
            "",
            "| images with the mark | M, 95 % over models | found at 5 % | rate, 95 % |",
            "|---|---|---|---|",
            *lines,
            "",
            f"M per doubling: {trend} ({len(x)} models).",
            "",
        ]
    )
    print(text)
    if given.out:
        with given.out.open("a") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
