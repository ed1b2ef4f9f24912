"""Losses of a diffusion model by noise level, joined into one loss of an image (METHODS section 7, "Score").

The loss of an image at a level is the mean squared error of the noise that the model predicts. At most levels it tells
little of whether the model saw the image: the noise hides it, or everything is denoised well. A level therefore counts
by how little the gap between twins varies there among images that neither saw:

    w_l = 1 / sd(gap_l over unseen images),    loss(x) = sum_l w_l loss_l(x) / sd(sum_l w_l gap_l over unseen images),

each standard deviation about the mean of its pair of models. A gap of the joined losses then counts standard deviations
of the gaps of unseen images (SD), whatever the pixels, the levels and the network. No scored image takes part in the
choice of the weights.

A standard deviation is a mean of squares, which one odd image can make as large as it likes: every gap would count few
SD, and a remembered patient would not be noticed. An image whose mean square gap exceeds `ODD` times the median of the
images is odd. It counts with that limit, and not in the mean of a pair. With gaps as on real images (log-normal sizes
of deviation 0.5, t with 6 degrees of freedom) and eight pairs, one image in 400 is odd.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]

ODD = 30.0
"""Mean square gap of an image over the median of all images, above which it counts as this many times the median."""


def level_weights(loss_a: ArrayLike, loss_b: ArrayLike, unseen: ArrayLike) -> FloatArray:
    """Compute the weight of each level, so that joined losses count standard deviations of unseen gaps.

    Args:
        loss_a: Losses under model A of each pair, [S, L, I]: S pairs, L levels, I images.
        loss_b: Losses under model B, [S, L, I].
        unseen: Mask of the images that no model saw, [I].

    Returns:
        Weights, [L].

    Raises:
        InputError: Shapes differ, a loss is not finite, fewer than two images are unseen, or both models of every pair
            give each unseen image the same loss at a level, so that the size of a gap there is not known.

    Example:
        >>> a = np.zeros((1, 2, 4))
        >>> b = np.array([[[1.0, -1, 1, -1], [20, 20, -20, -20]]])
        >>> level_weights(a, b, [True] * 4).round(3).tolist()
        [0.612, 0.031]
    """
    a, b = np.asarray(loss_a, dtype=np.float64), np.asarray(loss_b, dtype=np.float64)
    held_out = np.asarray(unseen, dtype=bool)
    if a.ndim != 3 or a.shape != b.shape or held_out.shape != a.shape[2:]:
        raise InputError(
            f"losses of both models must be [pairs, levels, images] and unseen [images]; got {a.shape}, {b.shape} and "
            f"{held_out.shape}"
        )
    if held_out.sum() < 2:
        raise InputError(f"{held_out.sum()} images are unseen; the weights of levels need at least two")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("a loss is not a finite number: find the model that diverged")
    gap = (b - a)[:, :, held_out]
    spread = _spread(gap)  # [L]
    weights = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    joined = _spread(np.einsum("l,sli->si", weights, gap)[:, None])[0]
    if not (spread.all() and joined > 0):
        blind = np.flatnonzero(spread == 0)
        at = f" at level {blind[0] + 1} of {len(spread)}" if len(blind) and len(spread) > 1 else ""
        raise InputError(
            f"both models of every pair give each unseen image the same loss{at}: score each by its own weights, with "
            f"all digits{', or leave that level out' * bool(at)}"
        )
    return weights / joined


def joined_losses(losses: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Join the losses of the levels, ``sum_l w_l loss_l``.

    Args:
        losses: Losses, [..., L, I].
        weights: Weights of the levels, [L], from `level_weights`.

    Returns:
        Losses in standard deviations of unseen gaps, [..., I].

    Example:
        >>> joined_losses([[1.0, 2.0], [10.0, 20.0]], [1.0, 0.1]).tolist()
        [2.0, 4.0]
    """
    return np.einsum("l,...li->...i", np.asarray(weights, dtype=np.float64), np.asarray(losses, dtype=np.float64))


def _spread(gap: FloatArray) -> FloatArray:
    """Return the standard deviation of the gaps of each level about the mean of their pair, [S, L, J] to [L]."""
    n = gap.shape[2]
    square = np.square(gap - np.median(gap, axis=2, keepdims=True)).mean(axis=0)  # [L, J]
    median = np.median(square, axis=1, keepdims=True)
    limit = np.where(median > 0, ODD * median, np.inf)  # most images may have no gap at all
    about = gap - gap.mean(axis=2, keepdims=True, where=square <= limit)
    return np.sqrt(np.minimum(np.square(about).mean(axis=0), limit).sum(axis=1) / (n - 1))
