"""What a self-influence pass found."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError


@dataclass(frozen=True)
class SelfInfluence:
    """Self-influence of N images over S checkpoints; higher = the training changed the image's own loss more."""

    values: NDArray[np.float64]
    """[N], the sum over checkpoints of ``by_checkpoint``."""
    by_checkpoint: NDArray[np.float64]
    """[S, N], ``lr_s * ||grad_w l(w_s, x)||^2``: the terms of the sum."""
    lrs: tuple[float, ...]
    """The S learning rates."""
    weights: int
    """Numbers in the parameters that require a gradient."""
    fallback: Mapping[str, str]
    """Parameters whose gradients were taken one image at a time, and why; empty where every norm had a short way."""
    fallback_method: str
    """How: "vmap" (torch.func, many images at once), "loop" (one after another) or "none"."""
    disagreement: float
    """Largest relative difference from autograd, per image and all weights, in the self-check before the pass."""

    def top(self, k: int) -> NDArray[np.int64]:
        """Rows of the k images with the highest self-influence, highest first, ties by row.

        Args:
            k: How many, 1 to N.

        Raises:
            InputError: k is not a number of images.
        """
        return self._order(-self.values, k)

    def bottom(self, k: int) -> NDArray[np.int64]:
        """Rows of the k images with the lowest self-influence, lowest first, ties by row.

        Args:
            k: How many, 1 to N.

        Raises:
            InputError: k is not a number of images.
        """
        return self._order(self.values, k)

    def _order(self, keys: NDArray[np.float64], k: int) -> NDArray[np.int64]:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= len(keys):
            raise InputError(f"k must be a whole number of images from 1 to {len(keys)}; got {k!r}")
        return np.argsort(keys, kind="stable")[:k].astype(np.int64)
