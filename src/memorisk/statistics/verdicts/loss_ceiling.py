"""Losses that end at a ceiling: what a model lost beyond it is not in the table (METHODS section 6, "Third form").

A table that clips probabilities or losses holds one largest value many times. The gap of a patient whose losses under
models without the patient are clipped is larger than it looks, by an unknown amount: simulated with the largest 1 % of
the losses clipped, one patient at 4 nats passed in 5 of 12 audits.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def losses_at_ceiling(loss: ArrayLike) -> NDArray[np.bool_]:
    """Find the losses that are clipped to the largest value of a table.

    Different models do not give one loss to the last digit; where two of them share the largest one, it is a ceiling.
    An image that is in the table twice has equal losses under one model only.

    Args:
        loss: Losses of M models on I images, [M, I], in nats.

    Returns:
        Mask of the losses at the ceiling, [M, I]; all False without one.

    Example:
        >>> losses_at_ceiling([[0.1, 16.1], [16.1, 0.3]]).sum()
        np.int64(2)
        >>> losses_at_ceiling([[2.5, 2.5], [0.1, 0.3]]).any()  # one image twice, under one model
        np.False_
    """
    losses = np.asarray(loss, dtype=np.float64)
    at_top = losses == losses.max(initial=-np.inf)
    return at_top if at_top.any(axis=1).sum() > 1 else np.zeros_like(at_top)
