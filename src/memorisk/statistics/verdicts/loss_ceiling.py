"""Losses that end at a ceiling: what a model lost beyond it is not in the table (METHODS section 6, "Third form").

A table that clips probabilities or losses holds one largest value many times. The gap of a patient whose losses under
models without the patient are clipped is larger than it looks, by an unknown amount: simulated with the largest 1 % of
the losses clipped, one patient at 4 nats passed in 5 of 12 audits.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def losses_at_ceiling(loss: ArrayLike) -> NDArray[np.bool_]:
    """Find the losses that are clipped, to the largest value of a table or of one model.

    Different models do not give one loss to the last digit, and neither do different images under one model. Where the
    largest loss of the table is that of several models, or the largest loss of a model that of several images, it is a
    ceiling. An image that is in the table twice has equal losses under every model, and counts once.

    Args:
        loss: Losses of M models on I images, [M, I], in nats.

    Returns:
        Mask of the losses at a ceiling, [M, I]; all False without one.

    Example:
        >>> losses_at_ceiling([[0.1, 16.1], [16.1, 0.3]]).sum()
        np.int64(2)
        >>> losses_at_ceiling([[2.5, 2.5, 0.4], [0.1, 0.3, 0.9]]).sum()  # two images at the ceiling of one model
        np.int64(2)
        >>> losses_at_ceiling([[2.5, 2.5], [0.1, 0.1]]).any()  # one image twice
        np.False_
    """
    losses = np.asarray(loss, dtype=np.float64)
    clipped = losses == losses.max(initial=-np.inf)
    if clipped.any(axis=1).sum() < 2:
        clipped = np.zeros_like(clipped)
    at_top = losses == losses.max(axis=1, initial=-np.inf, keepdims=True)
    for model in np.flatnonzero(at_top.sum(axis=1) > 1):
        tied = losses[:, at_top[model]]
        if (tied != tied[:, :1]).any():
            clipped[model] |= at_top[model]
    return clipped
