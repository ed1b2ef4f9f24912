"""Every use of every parameter in one forward pass, accounted for against autograd's own graph.

While a network runs, `Recorder` keeps what `layers` knows of. Afterwards the graph tells how often each parameter
really enters the logits, by whatever road: a module called twice, tied weights, `functional` calls, a view, compiled
code. A parameter's norm is taken the short way only if it enters once and that once is a call that was recorded.
Nothing is concluded from the kinds of a network's modules.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.overrides import TorchFunctionMode

from memorisk.scores.influence.layers import KNOWN, VIEWS, Call, Norm

UNKNOWN = "it is used in an operation whose per-image gradient norm has no short form here"


@dataclass(frozen=True)
class Use:
    """One recorded call seen from one parameter."""

    kind: str
    """Of operation, and the blocks of rows an image has in it: the same for every batch, or something is wrong."""
    edge: GradientEdge
    """Where the gradient of the call's output arrives, even if that output is changed in place later."""
    norm: Norm
    via: Node | None
    """The view of the parameter that was used in its place."""
    reads: tuple[tuple[torch.Tensor, int], ...]
    """What the norm reads, and its version then."""


class Recorder(TorchFunctionMode):
    """Records the known calls in which a parameter plays the part of a weight.

    Args:
        parameters: The parameters to watch, by name.
        b: Images in the batch.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], b: int) -> None:
        super().__init__()
        self._b = b
        self._names = {id(p): name for name, p in parameters.items()}
        self._views: dict[int, tuple[torch.Tensor, str]] = {}
        self.uses: dict[str, list[Use]] = {name: [] for name in parameters}
        self.oddities: dict[str, str] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and keep what its gradients will need."""
        kwargs = kwargs or {}
        describe = KNOWN.get(func)
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
        elif func in VIEWS and args and (name := self._name(args[0])) is not None and out.numel() == args[0].numel():
            self._views[id(out)] = (out, name)
        return out

    def _name(self, tensor: Any) -> str | None:
        found = self._views.get(id(tensor))
        return found[1] if found else self._names.get(id(tensor))

    def _keep(self, call: Call, out: torch.Tensor, versions: list[tuple[torch.Tensor, int]]) -> None:
        for tensor, norm in call.weights:
            name = self._name(tensor)
            if name is None:
                continue
            blocks, left = divmod(len(out), self._b)
            if left or not blocks or (blocks > 1 and not call.folds):
                self.oddities[name] = f"the first axis of its {call.kind} is not one row an image"
                continue
            via = tensor.grad_fn if id(tensor) in self._views else None
            kind = f"{call.kind} x{blocks}"
            self.uses[name].append(Use(kind, get_gradient_edge(out), norm, via, tuple(versions)))


def sound_uses(recorder: Recorder, logits: torch.Tensor) -> tuple[dict[str, Use], dict[str, str]]:
    """The parameters whose one use was recorded, and why the others that the logits depend on have none.

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
            reasons[name] = recorder.oddities.get(name, UNKNOWN)
        elif alive[0].via is not None and entered[alive[0].via] != 1:
            reasons[name] = "a view of it is used more than once"
        elif any(tensor._version != version for tensor, version in alive[0].reads):
            reasons[name] = "what its layer reads is changed in place afterwards"
        else:
            sound[name] = alive[0]
    return sound, reasons


def _entries(logits: torch.Tensor) -> tuple[Counter[Node], dict[int, int]]:
    """How often the graph below the logits enters each of its nodes, and each parameter (by its id)."""
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
    """Of ``sum direction * logits``, at the edges alone: no weight's gradient is computed."""
    inputs: Any = list(edges)  # the stubs do not know edges
    return torch.autograd.grad(logits, inputs, grad_outputs=direction, allow_unused=True)
