"""Does the empirical lower bound on epsilon hold its level, and find what is there? METHODS section 1, "Defence".

    python recipes/epsilon_bound.py [--runs 200] [--trainings 100] [--out docs/results/epsilon_bound.md]

Three experiments: a Gaussian mechanism on arrays whose replace-one epsilon is known, audited as it should be and as it
must not be; randomised response, for which the bound is as tight as it can be; and small networks trained without any
privacy on scikit-learn's digits, with label-noise canaries.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from dp_accounting.gaussian_mechanism import get_sigma_gaussian
from scipy import special, stats
from sklearn.datasets import load_digits
from torch import nn

from memorisk.models.classifiers.zoo import seeded
from memorisk.scores.memorization import cross_entropy
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.privacy.measured_epsilon import PairGuesses, epsilon_bound, largest_epsilon, pair_guesses
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.twins import label_noise_pairs
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.predict import predict_logits

DELTA = 1e-5
PAIRS, R = 500, 200
CLAIMS = (1.0, 2.0, 4.0, 8.0)

POOL, CANARIES, CLASSES, WIDTH = 600, 250, 10, 512
OPTIONS = TrainOptions(epochs=40, lr=3e-3)
REFERENCES, PLACEBOS = 4, 20


def release(coin: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A noisy sum of orthogonal unit vectors, one of each pair: its coordinates along firsts and seconds, [n]."""
    return coin + noise[0], ~coin + noise[1]


def gaussian_run(claim: float, seed: int) -> dict[str, PairGuesses]:
    """One release by the analytic Gaussian mechanism at (claim, DELTA), audited in three ways."""
    rng = np.random.default_rng([seed, round(100 * claim)])
    # replacing one unit vector by an orthogonal one moves the sum by sqrt 2
    sd = np.sqrt(2) * get_sigma_gaussian(claim, DELTA)
    coin = rng.random(PAIRS) < 0.5
    noise, other = sd * rng.standard_normal((2, 2, PAIRS))
    first, second = release(coin, noise)
    guesses = {"target alone": pair_guesses(-first, -second, coin, R)}
    for name, twin_noise in (("less its twin, noise of its own", other), ("less its twin, same noise", noise)):
        twin_first, twin_second = release(~coin, twin_noise)
        guesses[name] = pair_guesses(twin_first - first, twin_second - second, coin, R)
    return guesses


def gaussian_table(runs: int) -> list[str]:
    """How often the bound exceeds the claim."""
    lines = [
        "| claimed epsilon | scores | correct of 200, mean | bound, mean | bound above the claim |",
        "|---|---|---|---|---|",
    ]
    for claim in CLAIMS:
        audits = [gaussian_run(claim, seed) for seed in range(runs)]
        for name in audits[0]:
            bounds = [epsilon_bound(audit[name], delta=DELTA, claimed=claim) for audit in audits]
            correct, low = np.mean([b.correct for b in bounds]), np.mean([b.low for b in bounds])
            above = sum(bool(b.exceeds_claim) for b in bounds)
            lines.append(f"| {claim:g} | {name} | {correct:.1f} | {low:.2f} | {rate(above, runs)} |")
    return lines


def response_table(runs: int) -> list[str]:
    """Level under randomised response of each pair's coin: by the binomial exactly, and with r chosen afterwards."""
    choices = (10, 25, 50, 100, 200)
    lines = ["| epsilon | r = 200: exact | r = 200: simulated | best of five r: simulated |", "|---|---|---|---|"]
    for epsilon in CLAIMS:
        share = special.expit(epsilon)
        limit = {r: np.array([largest_epsilon(v, r) for v in range(r + 1)]) for r in choices}
        exact = sum(stats.binom.pmf(v, R, share) for v in range(R + 1) if limit[R][v] > epsilon)
        right = np.random.default_rng(round(100 * epsilon)).random((runs, R)) < share
        low = np.array([limit[r][right[:, :r].sum(1)] for r in choices])  # [r, runs]
        fixed, best = int((low[-1] > epsilon).sum()), int((low.max(0) > epsilon).sum())
        lines.append(f"| {epsilon:g} | {100 * exact:.1f} % | {rate(fixed, runs)} | {rate(best, runs)} |")
    return lines


class Digits:
    """The scans, the images that may become canaries, and the references' mean losses for every label."""

    def __init__(self) -> None:
        data = load_digits()
        self.features = (data.data / 16).astype(np.float32)  # [1797, 64]
        self.labels = data.target.astype(np.int64)
        self.groups = np.arange(len(self.labels)).astype(str)
        self.pool = np.sort(np.random.default_rng(0).permutation(len(self.labels))[:POOL])
        self.shared = np.setdiff1d(np.arange(len(self.labels)), self.pool)
        nets = [self.logits(self.labels, self.shared, seed=10_000 + k) for k in range(REFERENCES)]
        self.reference = np.mean([-special.log_softmax(z.astype(np.float64), axis=1) for z in nets], axis=0)  # [N, k]

    def logits(self, targets: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
        """Train a network of one hidden layer and return its logits of all images, [N, k]."""
        with seeded(seed):
            net = nn.Sequential(nn.Linear(self.features.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
        fit(net, self.features, targets, rows, OPTIONS, seed=seed)
        return predict_logits(net, self.features, None, OPTIONS)

    def audit(self, seed: int) -> dict[str, list[PairGuesses]]:
        """One training without privacy, with pairs, wrong labels and coins of its own, and placebo coins."""
        pairs = label_noise_pairs(self.labels, self.groups, self.pool, CANARIES, CLASSES, seed)
        targets = pairs.targets(self.labels)
        loss = cross_entropy(self.logits(targets, pairs.training_rows(self.shared), seed), targets)
        eased = loss - self.reference[np.arange(len(loss)), targets]
        redrawn = np.random.default_rng([seed, 1]).random((PLACEBOS, CANARIES)) < 0.5
        return {
            "target alone": [pair_guesses(loss[pairs.first], loss[pairs.second], pairs.coin, R)],
            f"less {REFERENCES} references": [pair_guesses(eased[pairs.first], eased[pairs.second], pairs.coin, R)],
            "placebo coins": [pair_guesses(loss[pairs.first], loss[pairs.second], coin, R) for coin in redrawn],
        }


def training_table(trainings: int) -> list[str]:
    """Bounds of networks trained without privacy."""
    digits = Digits()
    audits = [digits.audit(seed) for seed in range(trainings)]
    lines = ["| scores | correct of 200, mean | bound: least, median | above 1 | above 0 |", "|---|---|---|---|---|"]
    for name in audits[0]:
        bounds = [epsilon_bound(guesses) for audit in audits for guesses in audit[name]]
        low = np.array([b.low for b in bounds])
        cells = [
            f"{np.mean([b.correct for b in bounds]):.1f}",
            f"{low.min():.2f}, {np.median(low):.2f}",
            rate(int((low > 1).sum()), len(low)),
            rate(int((low > 0).sum()), len(low)),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def rate(hits: int, runs: int) -> str:
    """A share in percent with its Clopper-Pearson interval."""
    share = clopper_pearson(hits, runs)
    return f"{hits} of {runs}: {100 * share.estimate:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})"


def page(runs: int, trainings: int) -> str:
    """The three experiments as one page."""
    provable = ", ".join(f"{largest_epsilon(r, r):.2f} at r = {r}" for r in (10, 50, 100, 200, 500))
    text = [
        "# The empirical lower bound on epsilon",
        "",
        f"Output of `recipes/epsilon_bound.py --runs {runs} --trainings {trainings}`. 95 % limits; rates with 95 %",
        "Clopper-Pearson intervals. Largest provable values:",
        f"{provable}.",
        "",
        "## A mechanism whose replace-one epsilon is known",
        "",
        f"{PAIRS} pairs of orthogonal unit vectors, a fair coin per pair; the sum of the chosen ones is released with",
        f"the noise of the analytic Gaussian mechanism at the claimed replace-one epsilon and delta {DELTA:g}. The",
        f"auditor guesses the {R} most confident pairs; the bound has the delta term. A limit may exceed the claim in",
        "5 % of runs.",
        "",
        *gaussian_table(runs),
        "",
        "A twin holds the other member of every pair. With the target's noise it gives every coin away: the limit is",
        "the largest provable one, whatever was claimed (r = 200 cannot prove 8). With noise of its own it is a second",
        "release, which the claim for one does not cover: more guesses are right. Scores therefore never use the twin.",
        "",
        "## Randomised response: the tightest case",
        "",
        "Each guess is right with probability exp(epsilon) / (1 + exp(epsilon)), independently. Share of limits above",
        "epsilon; the last column takes, in each run, the best of r = 10, 25, 50, 100, 200: why r must be fixed",
        "beforehand.",
        "",
        *response_table(10 * runs),
        "",
        "## Networks without privacy",
        "",
        f"One hidden layer of {WIDTH}, {OPTIONS.epochs} epochs, on {len(load_digits().target) - POOL} digits and",
        f"{CANARIES} label-noise canaries, one of each pair; {trainings} trainings with pairs, wrong labels, coins and",
        f"initialisation of their own; r = {R}. References are trained on the digits without canaries.",
        f"Placebo: {PLACEBOS} fresh sets of coins for each training, which it never saw.",
        "",
        *training_table(trainings),
        "",
        "References do not always help: these are certain of the true label, and their losses on wrong labels differ",
        "more between the members of a pair than what the target has memorized. The placebo's limits may be above 0",
        "in 5 % of its audits.",
        "",
    ]
    return "\n".join(text)


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--trainings", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.perf_counter()
    text = page(options.runs, options.trainings)
    print(text) if options.out is None else options.out.write_text(text, encoding="utf-8")
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
