"""Squared gradient norms the long way, a gradient per image: the definition, and the way where no short one holds."""

import warnings
from collections.abc import Sequence

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

METHODS = ("vmap", "loop")
_GRADIENT_NUMBERS = 1 << 25  # numbers in the gradients of the images that vmap takes at once (128 MB in float32)


def squares_by_loop(
    model: nn.Module, x: torch.Tensor, direction: torch.Tensor, names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """``||grad_p (direction_i . logits_i)||^2`` of every image i and named parameter p, by one backward pass an image.

    Args:
        model: In evaluation mode.
        x: [b, ...], the network's input.
        direction: [b, k].
        names: Of parameters that require a gradient.

    Returns:
        [b] float64 for each name.
    """
    own = dict(model.named_parameters())
    chosen = [own[name] for name in names]
    found = {name: torch.zeros(len(x), dtype=torch.float64) for name in names}
    for i in range(len(x)):
        logits = model(x[i : i + 1]).reshape(1, -1)
        if not logits.requires_grad:
            continue
        gradients = torch.autograd.grad(logits, chosen, grad_outputs=direction[i : i + 1], allow_unused=True)
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is not None:
                dense = gradient.to_dense() if gradient.is_sparse else gradient
                found[name][i] = torch.linalg.vector_norm(dense, dtype=torch.float64).square()
    return found


def squares_by_vmap(
    model: nn.Module, x: torch.Tensor, direction: torch.Tensor, names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """The same with torch.func, in chunks of images whose gradients fit a fixed memory; not every network allows it."""
    own = {name: p.detach() for name, p in model.named_parameters()}
    chosen = {name: own[name] for name in names}

    def projected(weights: dict[str, torch.Tensor], image: torch.Tensor, towards: torch.Tensor) -> torch.Tensor:
        """One image's logits along its direction."""
        return (functional_call(model, weights, (image[None],)).reshape(-1) * towards).sum()

    def squares(
        weights: dict[str, torch.Tensor], image: torch.Tensor, towards: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Squared gradient norms of one image, by the name of the weight."""
        gradients = grad(projected)(weights, image, towards)
        return {name: g.square().sum(dtype=torch.float64) for name, g in gradients.items()}

    numbers = sum(p.numel() for p in chosen.values())
    with torch.no_grad():  # grad() computes its own; without this the outer graph would be kept as well
        chunk = max(1, _GRADIENT_NUMBERS // max(numbers, 1))
        found = vmap(squares, in_dims=(None, 0, 0), chunk_size=chunk)(chosen, x, direction)
    return {name: value.cpu() for name, value in found.items()}


def squares_of(
    method: str, model: nn.Module, x: torch.Tensor, direction: torch.Tensor, names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """By "vmap", or by "loop"."""
    if method == "loop":
        return squares_by_loop(model, x, direction, names)
    with warnings.catch_warnings():  # of operations that it takes one image at a time: slower, not wrong
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return squares_by_vmap(model, x, direction, names)
