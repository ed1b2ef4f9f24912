"""The head of LCMem (paper 004; METHODS section 4): one linear layer over absolute differences of features.

    logit(u, v) = bias + sum_k weight_k |u_k - v_k|,   P(same identity) = 1 / (1 + exp(-logit))

With weights of both signs this is a signed weighted city-block distance: no network is needed per pair, and the
score is the same both ways round. A trained head has mostly negative weights (larger difference, less alike).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.scores.distances.rows import LARGEST, FloatArray, name_rows


@dataclass(frozen=True, eq=False)
class Head:
    """A checked linear layer."""

    weight: FloatArray
    """[d] of both signs; zeros are ignored."""
    bias: float
    """Logit of a vector and itself."""


def check_head(weight: Any, bias: Any, d: int) -> Head:
    """The linear layer in float64.

    Args:
        weight: [d] or, as ``torch.nn.Linear`` has it, [1, d]; array or tensor.
        bias: A number or one in an array.
        d: Columns of the vectors.

    Raises:
        InputError: Another number of weights; NaN, inf or values beyond 1e100 among them.
    """
    weights, biases = _numbers(weight, "weights"), _numbers(bias, "bias")
    if weights.shape not in ((d,), (1, d)):
        raise InputError(f"the head has weights of shape {weights.shape} for vectors of {d} numbers; give one a column")
    if biases.size != 1:
        raise InputError(f"the head has {biases.size} biases; give one number")
    for numbers, what in ((weights, "weights"), (biases, "bias")):
        bad = np.flatnonzero(~(np.abs(numbers.reshape(-1)) <= LARGEST))
        if len(bad):
            raise InputError(
                f"the head's {what} hold NaN, inf or values beyond {LARGEST:g}, at {name_rows(bad)}; train it again"
            )
    return Head(np.ascontiguousarray(weights.reshape(d)), float(biases.reshape(())))


def _numbers(values: Any, what: str) -> FloatArray:
    """An array or tensor in float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the head's {what} are no numbers; give an array or a tensor") from None
