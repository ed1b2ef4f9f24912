"""Order of a model's outputs: is it that of the audit's classes, by its answers on its own training images?

A file of weights does not say which output is which class. Read in another order, a good model answers like a bad one,
and every attack on it sees nothing. A model answers the images it was trained on better than by guessing, so that they
show the order before anything is trained.

The statistic of an order is the mean over classes of Youden's index: how much more of the patients of a class than of
the others are answered by the output that the order gives to the class. Guessing has 0, whatever the sizes of the
classes and whatever the model answers most. Its null exchanges the classes among patients. The best order is chosen on
half of the patients and compared with the given one on the other half, and the reverse, so that no choice is judged by
the patients who made it.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from memorisk.statistics.verdicts.levels import ORDER_LEVEL

_EXCHANGES = 199
_ROUNDING = 1e-6  # an index nearer to 0 is 0
_STREAM = 53  # keeps the random streams of this module apart from those of splits and trainings


@dataclass(frozen=True)
class OrderCheck:
    """Fit of a model's outputs to the classes in the given order, and in the best one."""

    fits: bool
    """Whether the given order is surely better than guessing, and no other order is surely better than it."""
    best: tuple[int, ...]
    """Output of each class in the best order, [k]; the given order is 0, 1, ..."""
    another: bool
    """Whether the best order is surely better than the given one."""
    given_index: float
    """Youden's index in the given order, mean over classes; 0 by guessing, 1 at best."""
    best_index: float
    """Youden's index in the best order."""


def one_hot_answers(logits: np.ndarray, head: str) -> np.ndarray:
    """Turn logits into answers [n, k]: 1 for the answered class; for several findings the rank of each image, 0 to 1.

    Args:
        logits: Outputs of the model, [n, k]; those of a binary head are [n, 1].
        head: "single", "first", "binary" or "multi".
    """
    if head == "multi":
        return (scipy.stats.rankdata(logits, axis=0) - 0.5) / len(logits)
    chosen = (logits[:, 0] > 0).astype(np.intp) if head == "binary" else logits.argmax(axis=1)
    return np.eye(2 if head == "binary" else logits.shape[1])[chosen]


def one_hot_labels(values: np.ndarray, head: str, k: int) -> np.ndarray:
    """Turn training targets into [n, k] whether the image is of the class.

    Args:
        values: Class numbers [n], or for several findings 0 and 1, [n, k].
        head: Kind of the outputs, as in `one_hot_answers`.
        k: Number of classes.
    """
    return values > 0 if head == "multi" else np.eye(k, dtype=bool)[values.astype(np.intp)]


def check_order(answers: np.ndarray, truth: np.ndarray, groups: np.ndarray) -> OrderCheck:
    """Compare the given order of outputs with guessing and with the best order.

    Args:
        answers: Answers of each output, [n, k], from `one_hot_answers`.
        truth: Whether the image is of the class, [n, k].
        groups: Patient of each image, [n].
    """
    answers, truth = _by_patient(answers, truth, groups)
    rng = np.random.default_rng(_STREAM)
    half, own_order = _half(truth, rng), np.arange(truth.shape[1])
    every, better = _shares(answers, truth, own_order), _better_order(answers, truth, half)
    exchanged = [truth[rng.permutation(len(truth))] for _ in range(_EXCHANGES)]
    another = _surely_positive(better, truth) and _rare(
        better.sum(), [_better_order(answers, other, half).sum() for other in exchanged]
    )
    best = _best_order(answers, truth)
    return OrderCheck(
        fits=not another and _rare(every.sum(), [_shares(answers, other, own_order).sum() for other in exchanged]),
        best=tuple(best.tolist()),
        another=another,
        given_index=float(every.sum()),
        best_index=float(_shares(answers, truth, best).sum()),
    )


def _by_patient(answers: np.ndarray, truth: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average the answers of each patient's images of the same classes: [u, k] answers, [u, k] classes."""
    keys = pd.DataFrame(truth).assign(patient=groups.astype(str))
    unit = keys.groupby(keys.columns.tolist(), sort=True).ngroup().to_numpy()
    n = np.bincount(unit)
    mean = np.stack([np.bincount(unit, weights=column) / n for column in answers.T], axis=1)
    return mean, truth[np.unique(unit, return_index=True)[1]]


def _half(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return whether the patient is in the first half, [u]: every other one of each class, in random order."""
    shuffled = rng.permutation(len(truth))
    by_class = shuffled[np.argsort(truth.argmax(axis=1)[shuffled], kind="stable")]
    side = np.zeros(len(truth), dtype=bool)
    side[by_class[::2]] = True
    return side


def _better_order(answers: np.ndarray, truth: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Return each patient's share, [u], in what the order that the other half chooses gains on the given order."""
    gained = np.zeros(len(truth))
    for tested in (half, ~half):
        chosen = _best_order(answers[~tested], truth[~tested])
        own = answers[tested], truth[tested]
        gained[tested] = _shares(*own, chosen) - _shares(*own, np.arange(truth.shape[1]))
    return gained


def _best_order(answers: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the output of each class, [k], in the order with the largest index; of equal ones the nearest one."""
    index = _weights(truth).T @ answers
    return scipy.optimize.linear_sum_assignment(-(index + 1e-9 * np.eye(len(index))))[1]


def _weights(truth: np.ndarray) -> np.ndarray:
    """Return the weight of each patient in the index of each class, [u, k]; 0 for a class that all or none have."""
    n, others = truth.sum(axis=0), (~truth).sum(axis=0)
    weight = truth / np.maximum(n, 1) - ~truth / np.maximum(others, 1)
    return weight * ((n > 0) & (others > 0))


def _shares(answers: np.ndarray, truth: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the share of each patient in the index of an order, [u]; the sum over patients is the index."""
    weight = _weights(truth)
    return (answers[:, order] * weight).sum(axis=1) / max(int(weight.any(axis=0).sum()), 1)


def _rare(value: float, null: list[float]) -> bool:
    """Say whether at most `ORDER_LEVEL` of the null, the value itself counted, reach the value."""
    reached = (np.array(null) >= value - _ROUNDING).sum()
    return bool(value > _ROUNDING and 1 + reached <= ORDER_LEVEL * (1 + len(null)))


def _surely_positive(shares: np.ndarray, truth: np.ndarray) -> bool:
    """Say whether a sum over patients lies above 0, by their spread within classes (Welch-Satterthwaite)."""
    label = truth.argmax(axis=1)
    n, total, squares = (np.bincount(label, weights=w) for w in (np.ones(len(label)), shares, np.square(shares)))
    free = np.maximum(n - 1, 1)
    variance = np.maximum(np.where(n > 1, (squares - total**2 / np.maximum(n, 1)) * n / free, squares), 0)
    degrees = variance.sum() ** 2 / max(float((variance**2 / free).sum()), np.finfo(float).tiny)
    limit = scipy.stats.t.isf(ORDER_LEVEL, max(degrees, 1)) * np.sqrt(variance.sum())
    return bool(shares.sum() > max(float(limit), _ROUNDING))
