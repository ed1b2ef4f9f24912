"""Losses that end at a ceiling: what a model lost beyond it is not in the table (METHODS section 6, "Third form").

A table that clips probabilities or losses holds one largest value many times. The gap of a patient whose losses under
models without the patient are clipped is larger than it looks, by an unknown amount: simulated with the largest 1 % of
the losses clipped, one patient at 4 nats passed in 5 of 12 audits.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

PILE = 5
"""Times as often as any other large loss that a ceiling is in the table: rounded losses repeat, but all alike."""


def losses_at_ceiling(loss: ArrayLike, label: ArrayLike | None = None) -> NDArray[np.bool_]:
    """Find the losses that are clipped: to the largest value of a class or of one model, or to a value below it.

    Different models do not give one loss to the last digit, and neither do different images under one model. Where the
    largest loss of a class is that of several models, or the largest loss of a model that of several images, it is a
    ceiling. An image that is in the table twice has equal losses under every model, and counts once. A loss above the
    class's median that several models share is a ceiling, too, where it is more than `PILE` times as frequent as any
    other: larger losses may come from elsewhere. Each class is looked at alone, since another class, or the sum over
    an image's findings, may have larger losses.

    Args:
        loss: Losses of M models on I images, [M, I], in nats.
        label: Class of each image, [I]; one class by default.

    Returns:
        Mask of the losses at a ceiling, [M, I]; all False without one.

    Example:
        >>> losses_at_ceiling([[0.1, 16.1], [16.1, 0.3]]).sum()
        np.int64(2)
        >>> losses_at_ceiling([[2.5, 2.5, 0.4], [0.1, 0.3, 0.9]]).sum()  # two images at the ceiling of one model
        np.int64(2)
        >>> losses_at_ceiling([[2.5, 2.5], [0.1, 0.1]]).any()  # one image twice
        np.False_
        >>> losses_at_ceiling([[0.1, 2.0, 9.0], [2.0, 0.3, 8.0]], ["a", "a", "b"]).sum()  # of class a
        np.int64(2)
    """
    losses = np.asarray(loss, dtype=np.float64)
    labels = np.zeros(losses.shape[1]) if label is None else np.asarray(label)
    clipped = np.zeros(losses.shape, dtype=bool)
    for one in np.unique(labels):
        own = labels == one
        clipped[:, own] = _largest_shared(losses[:, own]) | _frequent(losses[:, own])
    return clipped


def _largest_shared(losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find the losses at the largest value of several models, or of several images under one model.

    Rounded losses are equal by chance; the largest is a ceiling only where it is the most frequent of the large ones.
    """
    clipped = losses == losses.max(initial=-np.inf)
    if clipped.any(axis=1).sum() < 2 or clipped.sum() <= _most_frequent_below_top(losses):
        clipped = np.zeros_like(clipped)
    at_top = losses == losses.max(axis=1, initial=-np.inf, keepdims=True)
    for model in np.flatnonzero(at_top.sum(axis=1) > 1):
        tied = losses[:, at_top[model]]
        if (tied != tied[:, :1]).any() and at_top[model].sum() > _most_frequent_below_top(losses[model]):
            clipped[model] |= at_top[model]
    return clipped


def _most_frequent_below_top(losses: NDArray[np.float64]) -> int:
    """Return how often the most frequent value above the median but the largest is there."""
    _, counts = np.unique(losses[losses > np.median(losses)], return_counts=True)
    return int(counts[:-1].max(initial=0))


def _frequent(losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find the losses at the one value above the median that is `PILE` times as frequent as any other."""
    finite = losses[np.isfinite(losses)]
    values, counts = np.unique(finite[finite > np.median(finite)] if len(finite) else finite, return_counts=True)
    if len(values) < 2:
        return np.zeros_like(losses, dtype=bool)
    *_, second, most = np.sort(counts)
    at = losses == values[counts.argmax()]
    several = most > PILE * second and at.any(axis=1).sum() > 1
    return at if several else np.zeros_like(at)
