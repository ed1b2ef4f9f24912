"""One batch: the squared gradient norm of every image and parameter, each by the way the plan gives it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.func import functional_call

from memorisk.scores.influence.losses import check_logits, direction
from memorisk.scores.influence.norms import squares
from memorisk.scores.influence.per_image import squares_of
from memorisk.scores.influence.uses import Recorder, Use, gradients, sound_uses


@dataclass(frozen=True)
class Plan:
    """The way of each parameter, as found and checked on a few images before the pass."""

    kinds: Mapping[str, str]
    """Parameters with a short way, and the operation in which each is used."""
    expanded: tuple[str, ...]
    """Parameters of leading dimension 1 that are given to the network once per image instead."""
    fallback: Mapping[str, str]
    """Parameters that go the long way, and why."""
    method: str
    """The long way: "vmap", "loop", or "none" where nothing needs it."""
    disagreement: float
    """Largest relative difference from autograd in the check."""


@dataclass
class Traced:
    """A forward pass with every use recorded."""

    logits: torch.Tensor
    """[b, k]."""
    uses: dict[str, Use]
    """Of the parameters with a short way in this pass."""
    reasons: dict[str, str]
    """Why others that the logits depend on have none."""
    leaves: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters given once per image: [b, ...]."""


def trace(
    model: nn.Module, parameters: Mapping[str, nn.Parameter], x: torch.Tensor, labels: torch.Tensor, loss: str,
    expanded: Sequence[str] = (),
) -> Traced:  # fmt: skip
    """Run the network on a batch, recording uses; `expanded` parameters become leaves with one row an image."""
    leaves = {}
    for name in expanded:
        p = parameters[name]
        leaves[name] = p.detach().expand(len(x), *p.shape[1:]).clone().requires_grad_()
    recorder = Recorder({name: p for name, p in parameters.items() if name not in leaves}, len(x))
    with recorder:
        output = functional_call(model, leaves, (x,)) if leaves else model(x)
    logits = check_logits(output, labels, loss)
    uses, reasons = sound_uses(recorder, logits)
    return Traced(logits, uses, reasons, leaves)


def short_squares(
    traced: Traced, names: Sequence[str], unit: torch.Tensor, *, trial: bool = False
) -> dict[str, torch.Tensor]:
    """``||grad_p (unit_i . logits_i)||^2`` of every image, from one backward pass over the batch: [b] for each name.

    Args:
        traced: The forward pass; its graph is used up.
        names: Parameters among its uses and leaves.
        unit: [b, k], the direction at the logits.
        trial: Whether a norm that fails is NaN instead of an error.
    """
    b = len(unit)
    edges = [traced.uses[name].edge if name in traced.uses else traced.leaves[name] for name in names]
    nodes = {edge if isinstance(edge, torch.Tensor) else (edge.node, edge.output_nr): edge for edge in edges}
    keys = {key: i for i, key in enumerate(nodes)}  # weight and bias of a layer wait at one edge
    arrived = gradients(traced.logits, list(nodes.values()), unit) if nodes else ()
    found = {}
    for name, edge in zip(names, edges, strict=True):
        g = arrived[keys[edge if isinstance(edge, torch.Tensor) else (edge.node, edge.output_nr)]]
        if g is None:
            found[name] = torch.zeros(b, dtype=torch.float64)
        elif name in traced.uses:
            try:
                found[name] = traced.uses[name].norm(g, b)
            except (RuntimeError, ValueError, IndexError):
                if not trial:
                    raise
                found[name] = torch.full((b,), torch.nan)
        else:
            found[name] = squares(g)
    return found


def batch_squares(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    x: torch.Tensor,
    labels: torch.Tensor,
    loss: str,
    plan: Plan,
    changed: dict[str, str],
) -> torch.Tensor:
    """``||grad_w l(w, x_i)||^2`` of every image of a batch, [b] float64 on the CPU.

    Args:
        model: In evaluation mode, at one checkpoint's weights.
        parameters: Those that require a gradient, by name.
        x: [b, ...].
        labels: [b, ...], on the same device.
        loss: One of `losses.LOSSES`.
        plan: The way of each parameter.
        changed: Filled with parameters that this batch uses in another way than the plan saw: here, the long way.
    """
    traced = trace(model, parameters, x, labels, loss, plan.expanded)
    unit, scale = direction(traced.logits, labels, loss)
    short = [name for name, use in traced.uses.items() if plan.kinds.get(name) == use.kind]
    known = {*short, *plan.fallback, *plan.expanded}
    unplanned = [name for name in (*traced.uses, *traced.reasons) if name not in known]
    for name in unplanned:
        changed[name] = "some batches use it in another way than the images of the self-check"
    found = short_squares(traced, [*short, *plan.expanded], unit)
    total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for squared in found.values():
        total += squared.to(total.device)
    del traced
    long = [*plan.fallback, *unplanned]
    if long:
        for squared in squares_of("loop" if unplanned else plan.method, model, x, unit, long).values():
            total += squared.to(total.device)
    return (total * scale).cpu()
