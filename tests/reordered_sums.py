"""A stand-in for other processors: every product, convolution and sum of torch in another order of additions.

Kernels for AVX-512 and AMX add in an order that depends on the shape of what they are given, and no setting brings them
to a processor without these instructions. Here the order is drawn from the shape: the same call gives the same bytes
again, as on every processor, and two routes to one result, whose shapes differ, are rounded differently.

Every result is one that a processor could give: sums that are exact in any order stay exact. Run any test so by
``pytest -p tests.reordered_sums``. Only this process is reached, and of it this thread.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


def _halves(n: int, *given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The places of n summands in two parts; a function of n and the shapes."""
    seed = zlib.crc32(repr((n, [tuple(x.shape) for x in given])).encode())
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tensor_split(2)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Matrices, or stacks of them."""
    i, j = _halves(a.shape[-1], a, b)
    return a[..., i] @ b[..., i, :] + a[..., j] @ b[..., j, :]


def _added_product(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    i, j = _halves(a.shape[-1], a, b)
    add = torch.addmm if a.dim() == 2 else torch.baddbmm
    return add(add(c, a[..., j], b[..., j, :], beta=beta, alpha=alpha), a[..., i], b[..., i, :], alpha=alpha)


def _divided(weight: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two kernels whose sum is this one."""
    first, _ = _halves(weight[0].numel(), x, weight)
    mask = torch.zeros(weight[0].numel(), dtype=torch.bool).index_fill(0, first, True).view(weight[:1].shape)
    return torch.where(mask, weight, 0), torch.where(mask, 0, weight)


def _convolution(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *how: Any) -> torch.Tensor:
    one, other = _divided(weight, x)
    return aten.convolution(x, other, bias, *how) + aten.convolution(x, one, None, *how)


def _convolution_backward(g: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: Any, *rest: Any) -> Any:
    """Slopes of the input by parts of the kernel; of kernel and bias by parts of the batch."""
    *how, (of_x, of_weight, of_bias) = rest
    back = aten.convolution_backward
    slopes: list[torch.Tensor | None] = [None, None, None]
    if of_x:
        slopes[0] = sum(back(g, x, part, bias, *how, (True, False, False))[0] for part in _divided(weight, g))
    for part in _halves(len(x), g, x, weight):
        if len(part) and (of_weight or of_bias):
            found = back(g[part], x[part], weight, bias, *how, (False, of_weight, of_bias))
            slopes = [a if b is None else b if a is None else a + b for a, b in zip(slopes, found, strict=True)]
    return tuple(slopes)


def _backwards(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A sum or a mean that begins at the end."""

    def computed(x: torch.Tensor, dims: Any = None, *rest: Any, **how: Any) -> torch.Tensor:
        turned = x.flip(dims if dims else list(range(x.dim())))
        return operator(turned, **how) if dims is None and not rest else operator(turned, dims, *rest, **how)

    return computed


_REORDERED: dict[Any, Callable[..., Any]] = {
    aten.mm.default: _product,
    aten.bmm.default: _product,
    aten.addmm.default: _added_product,
    aten.baddbmm.default: _added_product,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    **{sums: _backwards(sums) for sums in (aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim)},
}


class ReorderedSums(TorchDispatchMode):
    """Inside, floating-point sums of torch on the CPU are taken in another order, forwards and backwards."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [x for x in args if isinstance(x, torch.Tensor)]
        plain = all(type(x) is torch.Tensor and x.device.type == "cpu" and x.is_floating_point() for x in given)
        if func in _REORDERED and plain and all(x.numel() for x in given):
            return _REORDERED[func](*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="session", autouse=True)
def _reordered_sums() -> Iterator[None]:
    """All tests, where this module is a plugin."""
    with ReorderedSums():
        yield
