"""Optimisers by name.

Adam is torch's own fused kernel behind the four members a training uses, instead of `torch.optim.Adam`: building that
class imports torch's compiler, 1.4 seconds in every process, as long as a small model trains. Same arithmetic, same
bytes (tested).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.adam import adam

from memorisk.runs.errors import InputError
from memorisk.training.engine.options import TrainOptions

_BETAS = (0.9, 0.999)
_EPS = 1e-8
_MOMENTUM = 0.9


class FusedAdam:
    """Adam (Kingma and Ba 2015) with torch's eps, 1e-8.

    Args:
        parameters: Leaves to train, on a CPU or a CUDA device.
        lr: Learning rate; change it in ``param_groups[0]["lr"]``.
        weight_decay: Added to the gradient times the parameter.
        betas: Decay of the two moments; by default torch's, 0.9 and 0.999.
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        *,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = _BETAS,
    ) -> None:
        self.betas = betas
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": lr, "weight_decay": weight_decay}]
        self.state: dict[torch.Tensor, dict[str, torch.Tensor]] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients."""
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        group = self.param_groups[0]
        moved = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self.state.get(parameter) or self._begin(parameter) for parameter in moved]
        adam(
            moved,
            [parameter.grad for parameter in moved],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            foreach=False,
            capturable=False,
            differentiable=False,
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=_EPS,
            maximize=False,
        )

    def _begin(self, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
        state = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        self.state[parameter] = state
        return state


AnyOptimizer = FusedAdam | torch.optim.Optimizer


def build_optimizer(parameters: Sequence[torch.Tensor], options: TrainOptions) -> AnyOptimizer:
    """The optimiser that the options name, over the given parameters.

    Raises:
        InputError: if there are none.
    """
    if not parameters:
        raise InputError("no parameter of the network requires a gradient: there is nothing to train")
    lr, decay = options.lr or 0.0, options.weight_decay
    if options.optimizer == "adam":
        return FusedAdam(parameters, lr=lr, weight_decay=decay)
    if options.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay, fused=True)
    nesterov = options.optimizer == "nesterov"
    return torch.optim.SGD(parameters, lr=lr, momentum=_MOMENTUM, nesterov=nesterov, weight_decay=decay, fused=True)
