"""Which epochs' checkpoints to take: those in which the training still learned."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError


def evenly_spaced_checkpoints(losses: ArrayLike, n: int = 10, share: float = 0.95) -> NDArray[np.int64]:
    """Choose n epochs evenly spaced over those that cover a share of the loss reduction (paper 002, A.5).

    With ``L_e`` the training loss after epoch e, the covered epochs are 0 to E, where E is the first epoch with
    ``L_0 - L_E >= share * (L_0 - min_e L_e)``. Chosen are ``round(i E / (n - 1))`` for i = 0 ... n - 1 (halves up), so
    that the first and the last covered epoch are among them; E alone for n = 1.

    Args:
        losses: [epochs], training loss of each epoch whose checkpoint is kept, in order.
        n: Checkpoints wanted.
        share: Of the reduction, above 0 and at most 1.

    Returns:
        [n] int64, positions in ``losses``, ascending and all different.

    Raises:
        InputError: Losses that are not finite or never fall, options out of range, or fewer than n covered epochs.
    """
    values = np.asarray(losses, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise InputError(f"losses must be finite, one per epoch, of two epochs or more; got shape {values.shape}")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise InputError(f"n must be a whole number of checkpoints, 1 or more; got {n!r}")
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1; got {share!r}")
    reduction = values[0] - values
    if reduction.max() <= 0:
        raise InputError("the losses never fall below that of the first epoch: give the training loss, in epoch order")
    last = int(np.flatnonzero(reduction >= share * reduction.max())[0])
    if last + 1 < n:
        raise InputError(
            f"only {last + 1} epochs cover {share:.0%} of the loss reduction, {n} checkpoints were asked for: "
            f"ask for {last + 1} or fewer, or keep checkpoints more often"
        )
    if n == 1:
        return np.array([last], dtype=np.int64)
    return np.floor(np.linspace(0, last, n) + 0.5).astype(np.int64)
