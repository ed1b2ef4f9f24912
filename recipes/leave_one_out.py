"""M from the ``balanced`` design against exact leave-one-out retraining on a small set, with both reliabilities.

Exact: for each image x, models trained on all images but x against models trained on all, same seeds, M averaged
    over seeds.
Balanced: twin pairs on halves. The two differ in what they train on (n - 1 images against n / 2), so their
    correlation is
judged against its ceiling, sqrt(reliability x reliability), each reliability a split-half correlation over seeds,
stepped up by Spearman and Brown's formula.
"""

from pathlib import Path

import numpy as np
import torch

from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.environment import available_cores
from memorisk.runs.executors.pool import run_jobs
from memorisk.scores.memorization import cross_entropy, memorization
from memorisk.statistics.rank_correlation import spearman
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.twins import twin_design
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.engine.pixels import choose_normalisation
from memorisk.training.engine.predict import predict_logits
from planted import mislabelled

PER_CLASS, SEEDS, PAIRS = 10, 8, 64


def small_set(per_class: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few images of each class of the mislabelled digits, the mislabelled first: images, class numbers, names."""
    source = mislabelled()
    rows = []
    for name in np.unique(source.labels.astype(str)):
        own = np.flatnonzero(source.labels == name)
        rows.extend(own[np.argsort(~source.planted[own], kind="stable")][:per_class])
    labels = source.labels[rows].astype(str)
    return source.images[rows], np.unique(labels, return_inverse=True)[1].astype(np.int64), labels


def losses(job: tuple[np.ndarray, np.ndarray, list[np.ndarray], int]) -> np.ndarray:
    """Train one model per list of rows, all with one seed; losses of every image, [lists, N]."""
    images, targets, lists, seed = job
    torch.set_num_threads(1)
    options = resolve_options(TrainOptions(), model_spec("small_cnn"))
    scale = choose_normalisation(images, options.normalise)
    found = []
    for rows in lists:
        model = create_model(
            "small_cnn", num_classes=int(targets.max()) + 1, in_chans=1, image_size=images.shape[1], seed=seed
        )
        fit(model, images, targets, rows, options, seed=seed, normalisation=scale)
        logits = predict_logits(model, images, None, options, normalisation=scale)
        found.append(cross_entropy(logits, targets))
    return np.stack(found)


def reliability(values: np.ndarray) -> float:
    """Split-half reliability over seeds, [S, N]: mean rank correlation over random halves, stepped up to all seeds."""
    rng = np.random.default_rng(0)
    rho = []
    for _ in range(50):
        order = rng.permutation(len(values))
        half = len(values) // 2
        rho.append(spearman(values[order[:half]].mean(axis=0), values[order[half:]].mean(axis=0)))
    r = float(np.mean(rho))
    return 2 * r / (1 + r)


def leave_one_out_study(runs: Path, *, per_class: int = PER_CLASS, seeds: int = SEEDS, pairs: int = PAIRS) -> list[str]:
    """Train, compare, and give the lines of the report."""
    exact, balanced = leave_one_out_scores(runs, per_class=per_class, seeds=seeds, pairs=pairs)
    r_exact, r_balanced = reliability(exact), reliability(balanced)
    rho = spearman(exact.mean(axis=0), balanced.mean(axis=0))
    ceiling = np.sqrt(r_exact * r_balanced)
    n = exact.shape[1]
    return [
        f"{n} images ({per_class} a class, the mislabelled ones first): {seeds} seeds x ({n} + 1) exact retrainings, "
        f"{pairs} twin pairs.",
        "",
        "| | |",
        "|---|---|",
        f"| rank correlation of the two M | {rho:.2f} |",
        f"| reliability of the exact M ({seeds} seeds) | {r_exact:.2f} |",
        f"| reliability of the balanced M ({pairs} pairs) | {r_balanced:.2f} |",
        f"| ceiling of the correlation | {ceiling:.2f} |",
    ]


def leave_one_out_scores(runs: Path, *, per_class: int, seeds: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """M by exact retraining, [seeds, N], and by the balanced design, [pairs, N]; kept in a file."""
    kept = runs / f"leave-one-out-{per_class}-{seeds}-{pairs}.npz"
    if kept.is_file():
        with np.load(kept, allow_pickle=False) as file:
            return file["exact"], file["balanced"]
    images, targets, labels = small_set(per_class)
    n = len(labels)
    every = np.arange(n)
    jobs = [(images, targets, [every, *(np.delete(every, i) for i in every)], s) for s in range(seeds)]
    found = run_jobs(losses, jobs, processes=available_cores())
    exact = np.stack([np.diag(f[1:]) - f[0] for f in found])  # loss without x less loss with x
    names = np.array([f"i{i:04d}" for i in range(n)], dtype=object)
    designs = [twin_design(labels, names, every, every[:0], seed=1000 + s) for s in range(pairs)]
    jobs = [(images, targets, [d.rows_a, d.rows_b], d.seed) for d in designs]
    twins = run_jobs(losses, jobs, processes=available_cores())
    balanced = np.stack([d.sign * (f[1] - f[0]) for d, f in zip(designs, twins, strict=True)])
    scored = np.stack([d.sign != 0 for d in designs])
    gap = np.stack([f[1] - f[0] for f in twins])
    balanced = np.where(scored, balanced, memorization(gap, np.stack([d.sign for d in designs])))
    runs.mkdir(parents=True, exist_ok=True)
    np.savez(kept, exact=exact, balanced=balanced)
    return exact, balanced


if __name__ == "__main__":
    print("\n".join(leave_one_out_study(Path("runs/validity"))))
