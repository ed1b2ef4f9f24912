"""The pass over one batch, and the plan before it: the way by which each parameter's gradient norm is computed.

`make_plan` finds which parameters have a short way, and checks it on a few images against autograd, one image at a
time. The check is made at weights near the first checkpoint's, not at them: a fresh network's scales may be exactly
zero, and zeros agree with anything. `batch_squares` computes the squared gradient norm of every image and parameter,
each by the way that the plan chose.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.func import functional_call

from memorisk.runs.errors import InputError, one_line
from memorisk.scores.influence.gradient_norms import METHODS, per_image_squares, squared_norms, squares_by_loop
from memorisk.scores.influence.inputs import check_logits, direction
from memorisk.scores.influence.parameter_uses import ParameterUse, Recorder, gradients, verified_uses

TOLERANCE = 1e-4
"""Relative difference of a parameter's squared norm from autograd's above which it takes the long way."""
_NOISE = 1e-8  # share of an image's squared norm below which a parameter's is rounding (a key's bias in attention)
_APART = 1e-3  # of the logits' size: above it an image's logits depend on the rest of its batch
_SHIFT, _SMALLEST = 0.1, 0.02  # noise on the weights, relative to their size and at least


@dataclass(frozen=True)
class Plan:
    """The way of each parameter, as found and checked on a few images before the pass."""

    kinds: Mapping[str, str]
    """Parameters with a short way, and the operation in which each is used."""
    expanded: tuple[str, ...]
    """Parameters of leading dimension 1 that are given to the network once per image instead."""
    fallback: Mapping[str, str]
    """Parameters that take the long way, and why."""
    method: str
    """Method of the long way: "vmap", "loop", or "none" where no parameter needs it."""
    disagreement: float
    """Largest relative difference from autograd in the check."""


@dataclass
class Traced:
    """A forward pass with every use recorded."""

    logits: torch.Tensor
    """Outputs of the network, [b, k]."""
    uses: dict[str, ParameterUse]
    """Uses of the parameters with a short way in this pass."""
    reasons: dict[str, str]
    """Reasons why other parameters that the logits depend on have no recorded use."""
    leaves: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters that the network takes once per image: [b, ...]."""


def trace(
    model: nn.Module, parameters: Mapping[str, nn.Parameter], x: torch.Tensor, labels: torch.Tensor, loss: str,
    expanded: Sequence[str] = (),
) -> Traced:  # fmt: skip
    """Run the network on a batch, recording uses; `expanded` parameters become leaves with one row per image."""
    leaves = {}
    for name in expanded:
        p = parameters[name]
        leaves[name] = p.detach().expand(len(x), *p.shape[1:]).clone().requires_grad_()
    recorder = Recorder({name: p for name, p in parameters.items() if name not in leaves}, len(x))
    with recorder:
        output = functional_call(model, leaves, (x,)) if leaves else model(x)
    logits = check_logits(output, labels, loss)
    uses, reasons = verified_uses(recorder, logits)
    return Traced(logits, uses, reasons, leaves)


def short_squares(
    traced: Traced, names: Sequence[str], unit: torch.Tensor, *, trial: bool = False
) -> dict[str, torch.Tensor]:
    """Compute ``||grad_p (unit_i . logits_i)||^2`` of every image by one backward pass: [b] for each name.

    Args:
        traced: Forward pass of the batch; its graph is used up.
        names: Parameters among its uses and leaves.
        unit: Direction at the logits, [b, k].
        trial: Whether a norm that fails is NaN instead of an error.
    """
    b = len(unit)
    edges = [traced.uses[name].edge if name in traced.uses else traced.leaves[name] for name in names]
    nodes = {edge if isinstance(edge, torch.Tensor) else (edge.node, edge.output_nr): edge for edge in edges}
    keys = {key: i for i, key in enumerate(nodes)}  # weight and bias of a layer wait at one edge
    arrived = gradients(traced.logits, list(nodes.values()), unit) if nodes else ()
    by_name = {}
    for name, edge in zip(names, edges, strict=True):
        g = arrived[keys[edge if isinstance(edge, torch.Tensor) else (edge.node, edge.output_nr)]]
        if g is None:
            by_name[name] = torch.zeros(b, dtype=torch.float64)
        elif name in traced.uses:
            try:
                by_name[name] = traced.uses[name].norm(g, b)
            except (RuntimeError, ValueError, IndexError):
                if not trial:
                    raise
                by_name[name] = torch.full((b,), torch.nan)
        else:
            by_name[name] = squared_norms(g)
    return by_name


def batch_squares(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    x: torch.Tensor,
    labels: torch.Tensor,
    loss: str,
    plan: Plan,
    changed: dict[str, str],
) -> torch.Tensor:
    """Compute ``||grad_w l(w, x_i)||^2`` of every image of a batch, [b] float64 on the CPU.

    Args:
        model: Network in evaluation mode, at one checkpoint's weights.
        parameters: Parameters that require a gradient, by name.
        x: Images of the batch, [b, ...].
        labels: Labels of the images, [b, ...], on the same device.
        loss: One of `losses.LOSSES`.
        plan: Way of each parameter.
        changed: Dictionary that the function fills with the parameters that this batch uses in another way than the
            plan saw; they take the long way here.
    """
    traced = trace(model, parameters, x, labels, loss, plan.expanded)
    unit, scale = direction(traced.logits, labels, loss)
    short = [name for name, use in traced.uses.items() if plan.kinds.get(name) == use.kind]
    planned = {*short, *plan.fallback, *plan.expanded}
    unplanned = [name for name in (*traced.uses, *traced.reasons) if name not in planned]
    for name in unplanned:
        changed[name] = "some batches use it in another way than the images of the self-check"
    by_name = short_squares(traced, [*short, *plan.expanded], unit)
    total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for squared in by_name.values():
        total += squared.to(total.device)
    del traced
    long = [*plan.fallback, *unplanned]
    if long:
        for squared in per_image_squares("loop" if unplanned else plan.method, model, x, unit, long).values():
            total += squared.to(total.device)
    return (total * scale).cpu()


Squares = dict[str, torch.Tensor]


def make_plan(
    model: nn.Module, parameters: Mapping[str, nn.Parameter], x: torch.Tensor, labels: torch.Tensor, loss: str
) -> Plan:
    """Find and check the way of each parameter. The weights are left changed: load a checkpoint afterwards.

    Args:
        model: Network in evaluation mode, at the first checkpoint's weights.
        parameters: Parameters that require a gradient, by name.
        x: A few images, [b, ...].
        labels: Labels of these images, [b, ...].
        loss: One of `losses.LOSSES`.

    Raises:
        InputError: The network fails on the images, mixes them, or autograd cannot differentiate it.
    """
    _shift(parameters, model, x)
    try:
        traced = trace(model, parameters, x, labels, loss)
        unit, _ = direction(traced.logits, labels, loss)
        truth = squares_by_loop(model, x, unit, list(parameters))
        _check_unmixed(model, traced.logits.detach(), x, labels, loss)
    except InputError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        size = f"{tuple(x.shape)} {x.dtype}"
        raise InputError(f"the network cannot be differentiated on images {size}: {one_line(error)}") from error
    total = _total(truth)
    reasons, opaque = dict(traced.reasons), "the logits depend on it outside of autograd's graph"
    reasons |= {n: opaque for n in parameters if n not in traced.uses and n not in reasons and bool(truth[n].any())}
    kinds = {name: use.kind for name, use in traced.uses.items()}
    by_name = short_squares(traced, list(kinds), unit, trial=True)
    worst = torch.zeros(len(x), dtype=torch.float64)
    for name in list(kinds):
        if _agree(by_name[name].cpu(), truth[name], total):
            worst += (by_name[name].cpu() - truth[name]).abs()
        else:
            reasons[name] = f"the short way of its {kinds.pop(name)} disagrees with autograd in the self-check"
    expanded = _expandable(model, parameters, x, labels, loss, reasons, truth, unit)
    fallback = {name: reason for name, reason in reasons.items() if name not in expanded}
    method = _long_way(model, x, unit, list(fallback), truth) if fallback else "none"
    return Plan(kinds, expanded, fallback, method, float((worst / total.clamp(min=1e-300)).max()))


def _shift(parameters: Mapping[str, nn.Parameter], model: nn.Module, x: torch.Tensor) -> None:
    """Move the weights a little off the checkpoint, unless the network overflows there."""
    before = {name: p.detach().clone() for name, p in parameters.items()}
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in parameters.values():
            size = float(p.float().square().mean().sqrt()) if p.numel() else 0.0
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float32)
            p.add_(noise.to(p), alpha=max(_SHIFT * size, _SMALLEST * (size == 0)))
        try:
            fine = bool(torch.isfinite(model(x)).all())
        except Exception:  # the pass that follows raises it with its message
            fine = True
        if not fine:
            for name, p in parameters.items():
                p.copy_(before[name])


def _check_unmixed(model: nn.Module, logits: torch.Tensor, x: torch.Tensor, labels: torch.Tensor, loss: str) -> None:
    with torch.no_grad():
        alone = torch.cat([check_logits(model(x[i : i + 1]), labels[i : i + 1], loss) for i in range(len(x))])
    if not bool(torch.isfinite(alone).all()):
        raise InputError(
            "the network's logits are not finite at the first checkpoint: check its weights and the images"
        )
    if float((alone - logits).abs().max()) > _APART * max(float(alone.abs().max()), 1e-6):
        raise InputError(
            "in evaluation mode the network gives an image other logits alone than in a batch (batch statistics, "
            "or random numbers), so that no gradient is one image's: give batch norms running statistics"
        )


def _total(by_name: Squares) -> torch.Tensor:
    return torch.stack(list(by_name.values())).sum(dim=0)


def _agree(computed: torch.Tensor, truth: torch.Tensor, total: torch.Tensor) -> bool:
    return bool(((computed - truth).abs() <= TOLERANCE * truth + _NOISE * total).all())


def _expandable(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    x: torch.Tensor,
    labels: torch.Tensor,
    loss: str,
    reasons: Mapping[str, str],
    truth: Squares,
    unit: torch.Tensor,
) -> tuple[str, ...]:
    """Find parameters [1, ...] that the network also takes once per image, [b, ...].

    Their gradients must be those of the definition.
    """
    expandable: list[str] = []
    for name in reasons:
        if parameters[name].ndim < 2 or len(parameters[name]) != 1:
            continue
        try:
            traced = trace(model, parameters, x, labels, loss, [*expandable, name])
            by_name = short_squares(traced, [*expandable, name], unit)
        except (RuntimeError, ValueError, TypeError, IndexError, InputError):
            continue
        if all(_agree(by_name[n].cpu(), truth[n], _total(truth)) for n in by_name):
            expandable.append(name)
    return tuple(expandable)


def _long_way(model: nn.Module, x: torch.Tensor, unit: torch.Tensor, names: list[str], truth: Squares) -> str:
    """Return the first of the long ways that runs on this network and agrees with the definition."""
    total = _total(truth)
    for method in METHODS[:-1]:
        try:
            by_name = per_image_squares(method, model, x, unit, names)
        except Exception:  # whatever torch.func cannot trace, the loop can
            continue
        if all(_agree(by_name[name], truth[name], total) for name in names):
            return method
    return METHODS[-1]
