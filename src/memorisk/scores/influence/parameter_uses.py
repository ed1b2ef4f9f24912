"""Uses of parameters in one forward pass: known operations, each accounted for against autograd's own graph.

An operation is recognised by the function of PyTorch that is called with the parameter, whatever module calls it:
timm's norms with activations, padding modes and a user's own layers need no special case. Each function of an
operation has that operation's arguments. It returns the per-image norm of its weight gradient, or None for a form
that it does not know. None is not an error: the call is not recorded, and its parameters are then unaccounted for.

While a network runs, `Recorder` keeps the known calls. Afterwards the graph tells how often each parameter really
enters the logits, by whatever road: a module called twice, tied weights, `functional` calls, a view, compiled code.
A parameter's norm is taken the short way only if it enters once and that once is a call that was recorded. Nothing
is concluded from the kinds of a network's modules.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.overrides import TorchFunctionMode

from memorisk.scores.influence import gradient_norms

Tensor = torch.Tensor
Norm = Callable[[Tensor, int], Tensor]
"""Function of the gradient of an operation's output and the number of images b that returns norms [b]."""
VIEW_OPERATIONS = frozenset(
    (Tensor.view, Tensor.reshape, torch.reshape, Tensor.unsqueeze, torch.unsqueeze, Tensor.squeeze)
)
"""Functions that only rearrange a weight's shape, number by number: a gradient's norm is the same before and after."""
UNKNOWN_OPERATION = "it is used in an operation whose per-image gradient norm has no short form here"


@dataclass(frozen=True)
class Call:
    """One call of a known operation."""

    kind: str
    """The operation's name."""
    weights: tuple[tuple[Tensor, Norm], ...]
    """Each tensor that plays the part of a weight (it need not be a parameter) and the norm of its gradient."""
    reads: tuple[Tensor, ...]
    """Tensors that the norms read: they must not change in place before the norms are taken."""
    folds: bool = True
    """Whether several blocks of rows may belong to one image."""


def _call(kind: str, reads: Sequence[Tensor], *weights: tuple[Tensor | None, Norm], folds: bool = True) -> Call:
    present = tuple((tensor, norm) for tensor, norm in weights if tensor is not None)
    return Call(kind, present, tuple(reads), folds)


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Call | None:
    if input.ndim < 2 or weight.ndim != 2:
        return None
    return _call(
        "linear",
        [input],
        (weight, lambda g, b: gradient_norms.linear_weight(input.detach(), g, b)),
        (bias, lambda g, b: gradient_norms.linear_bias(g, b)),
    )


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Call | None:
    axes = weight.ndim - 2
    if input.ndim != weight.ndim:
        return None
    steps, spread = _per_axis(stride, axes), _per_axis(dilation, axes)
    if padding == "same":
        totals = [d * (size - 1) for d, size in zip(spread, weight.shape[2:], strict=True)]
        before, after = [t // 2 for t in totals], [t - t // 2 for t in totals]
    else:
        before = after = [0] * axes if padding == "valid" else list(_per_axis(padding, axes))

    def weight_norm(g: Tensor, b: int) -> Tensor:
        """Compute squared gradient norms of the kernels, a 1-D one as a row of pixels."""
        a, even = input.detach(), before
        if before != after:  # an even kernel under "same": one more at the end
            a, even = F.pad(a, [p for pair in zip(before[::-1], after[::-1], strict=True) for p in pair]), [0] * axes
        shape_of = weight.detach()
        if axes == 1:  # one row of pixels
            a, g, shape_of = a[:, :, None], g[:, :, None], shape_of[:, :, None]
        lead = (1,) * (2 - axes)
        padded = (0,) * (2 - axes) + tuple(even)
        return gradient_norms.convolution_weight(a, g, shape_of, (*lead, *steps), padded, (*lead, *spread), groups)

    return _call(
        f"conv{axes}d",
        [input],
        (weight, weight_norm),
        (bias, lambda g, b: gradient_norms.channel_sums(g, b)),
        folds=False,
    )


def _per_axis(value: Any, axes: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values * axes if len(values) == 1 else values


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Call | None:
    if training or running_mean is None or running_var is None:
        return None  # statistics of the batch: a gradient then belongs to more than one image
    mean, variance = running_mean, running_var

    def weight_norm(g: Tensor, b: int) -> Tensor:
        """Compute squared gradient norms of the weights on normalised channels."""
        return gradient_norms.channel_sums(
            g * F.batch_norm(input.detach(), mean, variance, None, None, False, 0.0, eps), b
        )

    return _call(
        "batch_norm",
        [input, mean, variance],
        (weight, weight_norm),
        (bias, lambda g, b: gradient_norms.channel_sums(g, b)),
    )


def _layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Call | None:
    shape = tuple(normalized_shape)
    if input.ndim <= len(shape):
        return None
    return _call(
        "layer_norm",
        [input],
        (
            weight,
            lambda g, b: gradient_norms.trailing_sums(
                g * F.layer_norm(input.detach(), shape, None, None, eps), b, shape
            ),
        ),
        (bias, lambda g, b: gradient_norms.trailing_sums(g, b, shape)),
    )


def _group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Call | None:
    return _call(
        "group_norm",
        [input],
        (
            weight,
            lambda g, b: gradient_norms.channel_sums(g * F.group_norm(input.detach(), num_groups, None, None, eps), b),
        ),
        (bias, lambda g, b: gradient_norms.channel_sums(g, b)),
    )


def _embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Call | None:
    if max_norm is not None or scale_grad_by_freq or input.ndim < 1:
        return None  # rewrites its weight, or counts over the whole batch
    padding = padding_idx if padding_idx is None or padding_idx >= 0 else len(weight) + padding_idx
    return _call("embedding", [input], (weight, lambda g, b: gradient_norms.embedding_weight(input, g, b, padding)))


def _product(input: Any, other: Any) -> Call | None:
    """Describe a layer scale: activations times broadcast weights, on either side."""
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return None

    def norm(weight: Tensor, activations: Tensor) -> Norm:
        """Return the squared gradient norms of a weight that scales these activations."""
        return lambda g, b: gradient_norms.broadcast_sums(g * activations.detach(), b, tuple(weight.shape))

    sides = [(w, norm(w, x)) for w, x in ((input, other), (other, input)) if _broadcasts(w, x)]
    return _call("product", [input, other], *sides)


def _sum(input: Any, other: Any) -> Call | None:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return None

    def norm(weight: Tensor) -> Norm:
        """Return the squared gradient norms of a weight that is added."""
        return lambda g, b: gradient_norms.broadcast_sums(g, b, tuple(weight.shape))

    return _call("sum", [], *[(w, norm(w)) for w, x in ((input, other), (other, input)) if _broadcasts(w, x)])


def _broadcasts(weight: Tensor, activations: Tensor) -> bool:
    """Return whether the weight is the same for every row of the activations, which keep their shape."""
    shape, own = activations.shape, (1,) * (activations.ndim - weight.ndim) + tuple(weight.shape)
    return (
        len(shape) > 0
        and len(own) == len(shape)
        and own[0] == 1
        and all(n in (1, m) for n, m in zip(own, shape, strict=True))
    )


def _known() -> dict[Any, Callable[..., Call | None]]:
    """Return the functions by which the operations are called."""
    calls: dict[Any, Callable[..., Call | None]] = {
        F.linear: _linear,
        F.conv1d: _convolution,
        F.conv2d: _convolution,
        F.batch_norm: _batch_norm,
        F.layer_norm: _layer_norm,
        F.group_norm: _group_norm,
        F.embedding: _embedding,
    }
    for function in (torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__):
        calls[function] = _product
    for function in (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__):
        calls[function] = _sum
    return calls


KNOWN_OPERATIONS = _known()


@dataclass(frozen=True)
class ParameterUse:
    """One recorded call seen from one parameter."""

    kind: str
    """Operation and the number of blocks of rows that an image has in it; it must be the same for every batch."""
    edge: GradientEdge
    """Edge where the gradient of the call's output arrives, even if that output is changed in place later."""
    norm: Norm
    via: Node | None
    """View of the parameter that was used in its place."""
    reads: tuple[tuple[torch.Tensor, int], ...]
    """Tensors that the norm reads, and their versions at the time of the call."""


class Recorder(TorchFunctionMode):
    """Records the known calls in which a parameter plays the part of a weight.

    Args:
        parameters: The parameters to watch, by name.
        b: Number of images in the batch.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], b: int) -> None:
        super().__init__()
        self._b = b
        self._names = {id(p): name for name, p in parameters.items()}
        self._views: dict[int, tuple[torch.Tensor, str]] = {}
        self.uses: dict[str, list[ParameterUse]] = {name: [] for name in parameters}
        self.oddities: dict[str, str] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and keep what its gradients will need."""
        kwargs = kwargs or {}
        describe = KNOWN_OPERATIONS.get(func)
        call = None
        if describe is not None:
            try:
                call = describe(*args, **kwargs)
            except (TypeError, AttributeError):  # arguments of another form
                call = None
        versions = [] if call is None else [(read, read._version) for read in call.reads]
        out = func(*args, **kwargs)
        if call is not None and isinstance(out, torch.Tensor) and out.requires_grad:
            self._keep(call, out, versions)
        elif (
            func in VIEW_OPERATIONS
            and args
            and (name := self._name(args[0])) is not None
            and out.numel() == args[0].numel()
        ):
            self._views[id(out)] = (out, name)
        return out

    def _name(self, tensor: Any) -> str | None:
        view = self._views.get(id(tensor))
        return view[1] if view else self._names.get(id(tensor))

    def _keep(self, call: Call, out: torch.Tensor, versions: list[tuple[torch.Tensor, int]]) -> None:
        for tensor, norm in call.weights:
            name = self._name(tensor)
            if name is None:
                continue
            blocks, remainder = divmod(len(out), self._b)
            if remainder or not blocks or (blocks > 1 and not call.folds):
                self.oddities[name] = f"the first axis of its {call.kind} is not one row per image"
                continue
            via = tensor.grad_fn if id(tensor) in self._views else None
            kind = f"{call.kind} x{blocks}"
            self.uses[name].append(ParameterUse(kind, get_gradient_edge(out), norm, via, tuple(versions)))


def verified_uses(recorder: Recorder, logits: torch.Tensor) -> tuple[dict[str, ParameterUse], dict[str, str]]:
    """Return the parameters whose one use was recorded, and why the others that the logits depend on have none.

    A parameter on which the logits do not depend is in neither.
    """
    entered, by_parameter = _entries(logits)
    sound, reasons = {}, {}
    for name, key in ((name, key) for key, name in recorder._names.items()):
        times = by_parameter.get(key, 0)
        if not times:
            continue
        alive = [use for use in recorder.uses[name] if use.edge.node in entered]
        if times > 1 or len(alive) > 1:
            reasons[name] = f"it is used {max(times, len(alive))} times in a forward pass"
        elif not alive:
            reasons[name] = recorder.oddities.get(name, UNKNOWN_OPERATION)
        elif alive[0].via is not None and entered[alive[0].via] != 1:
            reasons[name] = "a view of it is used more than once"
        elif any(tensor._version != version for tensor, version in alive[0].reads):
            reasons[name] = "what its layer reads is changed in place afterwards"
        else:
            sound[name] = alive[0]
    return sound, reasons


def _entries(logits: torch.Tensor) -> tuple[Counter[Node], dict[int, int]]:
    """Count how often the graph below the logits enters each of its nodes, and each parameter (by its id)."""
    entered: Counter[Node] = Counter()
    by_parameter: dict[int, int] = {}
    root = logits.grad_fn
    if root is None:
        return entered, by_parameter
    entered[root] = 1
    waiting: list[Node] = [root]
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is None:
                continue
            entered[node] += 1
            if entered[node] == 1:
                waiting.append(node)
    for node, times in entered.items():
        variable = getattr(node, "variable", None)  # of the nodes that accumulate a parameter's gradient
        if isinstance(variable, torch.Tensor):
            by_parameter[id(variable)] = times
    return entered, by_parameter


def gradients(
    logits: torch.Tensor, edges: Sequence[GradientEdge | torch.Tensor], direction: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    """Compute gradients of ``sum direction * logits`` at the edges alone: no weight's gradient is computed."""
    inputs: Any = list(edges)  # the stubs do not know edges
    return torch.autograd.grad(logits, inputs, grad_outputs=direction, allow_unused=True)
