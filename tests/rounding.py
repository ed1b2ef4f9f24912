"""Bounds on the rounding errors of a computation, whatever the processor and the order of its sums.

The bounds are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, SIAM 2002, section
3.1. A sum of n products that are computed with unit roundoff u is wrong by at most gamma_n = n u / (1 - n u) times the
sum of their magnitudes. That holds for every order of the additions, with and without fused multiply-add.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ELEMENTARY = 16
"""Roundings that a logarithm and an exponential stand for: both are within 4 units in the last place (SLEEF: 1; the
vectorised functions of Intel's compilers: 4), which are 8 roundings each."""
PIXEL = 3
"""Roundings of a pixel on its way into a network: it is converted, shifted and scaled."""


def gamma(n: int, dtype: torch.dtype) -> float:
    """Higham's gamma_n.

    Args:
        n: Roundings in a row.
        dtype: Of the computation.
    """
    u = torch.finfo(dtype).eps / 2
    return n * u / (1 - n * u)


@torch.no_grad()
def exact_outputs(model: nn.Module, x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute outputs in float64, and how far the same network in ``dtype`` may be from each of them.

    This is a running error analysis (Higham, section 3.3): each layer passes the errors of its inputs on and adds its
    own. ReLU and maxima pass errors on without enlarging them.

    Args:
        model: Modules that are called one after another, each once, of the kinds below.
        x: Inputs [n, ...] in float64, to which a computation in ``dtype`` comes by ``PIXEL`` roundings.
        dtype: Of the computation.

    Returns:
        Outputs [n, k] and their bounds [n, k], both float64.
    """
    error = gamma(PIXEL, dtype) * (x.abs() + x.abs().max())
    for layer in copy.deepcopy(model).double().modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            if isinstance(layer, nn.Linear):
                x, error = x.flatten(1), error.flatten(1)
            weight, bias = layer.weight.abs(), layer.bias
            product = F.linear if isinstance(layer, nn.Linear) else F.conv2d
            own = gamma(weight[0].numel() + 1, dtype) * product(
                x.abs() + error, weight, None if bias is None else bias.abs()
            )
            x, error = product(x, layer.weight, bias), product(error, weight) + own
        elif isinstance(layer, nn.ReLU):
            x = layer(x)
        elif isinstance(layer, nn.MaxPool2d):
            x, error = layer(x), layer(error)
        elif not isinstance(layer, nn.Flatten | nn.Sequential) and not list(layer.children()):
            raise TypeError(f"the errors of {type(layer).__name__} are not known here")
    return x, error


@dataclass(frozen=True)
class SoftmaxRegression:
    """A training of one linear layer by momentum SGD on the mean cross-entropy, and how far rounding may carry it.

    The loss is smooth with constant L = X^2 / 2, X the largest norm of an image with a 1 behind it (Boehning 1992,
    "Multinomial logistic regression algorithm": the softmax's Hessian is at most 1/2). A step therefore carries on the
    errors E of the weights and V of the velocity as V' = m V + L E + G and E' = E + lr V', G the error of a gradient.
    """

    inputs: np.ndarray
    """Images as the network gets them, [n, d]."""
    classes: int
    batch: int
    steps: int
    lr: float
    start: float
    """Norm of all weights at the start."""
    dtype: torch.dtype
    momentum: float = 0.9

    @property
    def length(self) -> float:
        """X."""
        return float(np.sqrt((self.inputs**2).sum(axis=1).max() + 1))

    @property
    def velocity(self) -> float:
        """No velocity is longer: a gradient is at most sqrt(2) X long."""
        return 2**0.5 * self.length / (1 - self.momentum)

    @property
    def weights(self) -> float:
        """No weights are longer."""
        return self.start + self.steps * self.lr * self.velocity

    @property
    def logit_error(self) -> float:
        """Of one logit, for given weights: pixels, d products, the bias."""
        return gamma(self.inputs.shape[1] + 1 + PIXEL, self.dtype) * self.weights * self.length

    @property
    def probability_error(self) -> float:
        """Relative, for given logits: a log-softmax of k numbers, whose size is at most 2 R X + log k."""
        size = 1 + 2 * self.weights * self.length + np.log(self.classes)
        return gamma(self.classes + ELEMENTARY, self.dtype) * size

    @property
    def gradient_error(self) -> float:
        """G, for given weights."""
        probabilities = 0.5 * self.classes**0.5 * self.logit_error + self.probability_error
        return self.length * (probabilities + 2**0.5 * gamma(self.batch + 2 + PIXEL, self.dtype))

    @property
    def weight_error(self) -> float:
        """E after all steps; in each step velocity and weights are rounded twice."""
        own, error, velocity = gamma(2, self.dtype), 0.0, 0.0
        for _ in range(self.steps):
            velocity = self.momentum * velocity + self.length**2 / 2 * error + self.gradient_error + own * self.velocity
            error += self.lr * velocity + own * (self.weights + self.lr * self.velocity)
        return error

    @property
    def output_error(self) -> float:
        """Of a logit after all steps."""
        return self.length * self.weight_error + self.logit_error

    @property
    def loss_error(self) -> float:
        """Of a mean cross-entropy after all steps."""
        mean = gamma(self.batch, self.dtype) * (2 * self.weights * self.length + np.log(self.classes))
        return 2**0.5 * self.length * self.weight_error + 2 * self.logit_error + self.probability_error + mean
