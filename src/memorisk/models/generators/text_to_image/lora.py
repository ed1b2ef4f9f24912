"""Low-rank adapters of a U-Net (LoRA; Hu et al. 2022), from one file of safetensors in the form of diffusers.

A layer with weights W answers W x + s B A x, with s = alpha / rank. The file holds ``unet.LAYER.lora_A.weight`` and
``unet.LAYER.lora_B.weight`` (``lora.down`` and ``lora.up`` in earlier versions). Alpha is that of ``unet.LAYER.alpha``,
else of the metadata that diffusers writes, else the rank. Every tensor is used, and a file with another one is refused:
it would be another network than the one that is measured.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils import parametrize

from memorisk.models.hub import refuse_mismatch
from memorisk.runs.errors import InputError, one_line

_PREFIX, _METADATA = "unet.", "lora_adapter_metadata"
_ENDS = {
    ".lora_A.weight": "down", ".lora_B.weight": "up", ".lora.down.weight": "down", ".lora.up.weight": "up",
    ".alpha": "alpha",
}  # fmt: skip
_OTHER_FORMS = ("use_dora", "use_rslora", "alpha_pattern", "bias")
"""Settings of adapters whose networks have another formula, where they are set."""
_LARGEST_RANK = 4096


class LowRank(nn.Module):
    """Change of a layer's weights by an adapter: W + scale B A.

    Args:
        shape: Shape of the weights, [out, in, ...].
        rank: Rank of the change.
        scale: Factor of the change.
    """

    def __init__(self, shape: torch.Size, rank: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.down = nn.Parameter(torch.zeros(rank, *shape[1:]))
        self.up = nn.Parameter(torch.zeros(shape[0], rank))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the changed weights."""
        return weight + self.scale * (self.up @ self.down.flatten(1)).view_as(weight)

    @torch.no_grad()
    def begin(self) -> None:
        """Draw the weights of the start, as the training scripts of diffusers do: A normal, B zero."""
        self.down.normal_(std=1 / len(self.down))
        self.up.zero_()


@dataclass(frozen=True)
class LayerAdapter:
    """Adapter of one layer, as a file holds it.

    Attributes:
        down: Weights A, [rank, in, ...].
        up: Weights B, [out, rank].
        scale: Factor of the change.
    """

    down: torch.Tensor
    up: torch.Tensor
    scale: float


@dataclass(frozen=True, kw_only=True)
class AdaptedBase:
    """Base of a LoRA and the sizes of its adapters, without their weights; other processes receive it.

    Attributes:
        folder: Folder of the base's pipeline, whose weights twins begin with.
        content: Fingerprint of these weights.
        sizes: Rank and scale of the adapter of each layer.
    """

    folder: Path
    content: str
    sizes: Mapping[str, tuple[int, float]]


def read_lora(file: Path) -> dict[str, LayerAdapter]:
    """Read the adapters of a file by the name of their layer.

    Args:
        file: File of safetensors.

    Raises:
        InputError: The file cannot be read, or holds a tensor that no adapter of a U-Net has.
    """
    name = one_line(file.name, 60)
    if not file.is_file():
        raise InputError(f"the file {one_line(file)} of a LoRA does not exist")
    try:
        tensors = load_file(file)
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata() or {}
        described = json.loads(metadata.get(_METADATA, "{}"))
        settings = {key.removeprefix(_PREFIX): value for key, value in described.items() if key.startswith(_PREFIX)}
        alpha = None if settings.get("lora_alpha") is None else float(settings["lora_alpha"])
    except Exception as error:  # safetensors and json each raise their own kinds
        raise InputError(
            f"LoRA {name} cannot be read as safetensors, and pickled weights are not read: {one_line(error, 120)}"
        ) from None
    other = next((key for key in _OTHER_FORMS if settings.get(key) not in (None, False, "none", {})), None)
    if other is not None:
        raise InputError(f"LoRA {name} has {other}, and memorisk reads W + alpha / rank B A alone")
    layers, wrong = dict[str, dict[str, torch.Tensor]](), list[str]()
    for tensor, value in tensors.items():
        end = next((end for end in _ENDS if tensor.endswith(end)), None)
        if end is None or not tensor.startswith(_PREFIX):
            wrong.append(f"{one_line(tensor, 140)} is unknown")
        elif not torch.isfinite(value).all():
            wrong.append(f"{one_line(tensor, 140)} is not finite")
        else:
            layers.setdefault(tensor[len(_PREFIX) : -len(end)], {})[_ENDS[end]] = value.float()
    adapters = {layer: _adapter(layer, parts, alpha, wrong) for layer, parts in layers.items()}
    if not tensors:
        wrong.append("it holds no tensors")
    refuse_mismatch(wrong, f"LoRA {name}", "the form of adapters of a U-Net that diffusers writes")
    return {layer: adapter for layer, adapter in adapters.items() if adapter is not None}


def add_adapters(unet: nn.Module, sizes: Mapping[str, tuple[int, float]]) -> dict[str, LowRank]:
    """Add adapters to the layers of a U-Net, which alone are trained; each changes nothing yet.

    Args:
        unet: U-Net that receives them.
        sizes: Rank and scale of the adapter of each layer.

    Returns:
        Adapters by the name of their layer.
    """
    unet.requires_grad_(False)
    adapters = {}
    for layer, (rank, scale) in sizes.items():
        module: Any = unet.get_submodule(layer)
        adapters[layer] = LowRank(module.weight.shape, rank, scale)
        parametrize.register_parametrization(module, "weight", adapters[layer])
    return adapters


@torch.no_grad()
def load_adapters(unet: nn.Module, file: Path) -> nn.Module:
    """Add the adapters of a file to a U-Net.

    Args:
        unet: U-Net that receives them.
        file: File of safetensors.

    Returns:
        Tensors of the adapters, as `adapter_tensors`.

    Raises:
        InputError: As `read_lora`; or the U-Net has no such layer, or one of another shape.
    """
    read = read_lora(file)
    modules = dict(unet.named_modules())
    wrong = []
    for layer, adapter in read.items():
        module: Any = modules.get(layer)
        if not isinstance(module, nn.Linear | nn.Conv2d) or getattr(module, "groups", 1) != 1:
            wrong.append(f"{_PREFIX}{one_line(layer, 140)} is unknown")
        elif (adapter.down.shape[1:], len(adapter.up)) != (module.weight.shape[1:], len(module.weight)):
            own = f"{[*adapter.down.shape]} and {[*adapter.up.shape]}"
            wrong.append(f"{_PREFIX}{one_line(layer, 140)} is {own} for weights {[*module.weight.shape]}")
    refuse_mismatch(wrong, f"LoRA {one_line(file.name, 60)}", "the U-Net of its base")
    adapters = add_adapters(unet, sizes_of(read))
    for layer, adapter in read.items():
        adapters[layer].down.copy_(adapter.down)
        adapters[layer].up.copy_(adapter.up)
    return adapter_tensors(adapters)


def adapters_of(network: nn.Module) -> dict[str, LowRank]:
    """Return the adapters of a network by the name of their layer; empty for one without any."""
    layers: dict[str, Any] = dict(network.named_modules())
    first = {
        layer: module.parametrizations["weight"][0]
        for layer, module in layers.items()
        if parametrize.is_parametrized(module, "weight")
    }
    return {layer: adapter for layer, adapter in first.items() if isinstance(adapter, LowRank)}


def sizes_of(adapters: Mapping[str, LayerAdapter]) -> dict[str, tuple[int, float]]:
    """Return rank and scale of adapters by the name of their layer."""
    return {layer: (len(adapter.down), adapter.scale) for layer, adapter in adapters.items()}


def adapter_tensors(adapters: Mapping[str, LowRank]) -> nn.Module:
    """Return a module whose tensors are those of a file of diffusers.

    The scale is inside B, so that alpha is the rank, and the file needs no metadata.

    Args:
        adapters: Adapters by the name of their layer.
    """
    root = nn.Module()
    for layer, adapter in adapters.items():
        up = adapter.up.detach() if adapter.scale == 1 else adapter.scale * adapter.up.detach()
        up = up.view(*up.shape, *[1] * (adapter.down.ndim - 2))
        for end, value in ((".lora_A", adapter.down.detach()), (".lora_B", up)):
            place = root
            for part in f"{_PREFIX}{layer}{end}".split("."):
                if not hasattr(place, part):
                    place.add_module(part, nn.Module())
                place = place.get_submodule(part)
            place.register_parameter("weight", nn.Parameter(value, requires_grad=False))
    return root


def _adapter(
    layer: str, parts: Mapping[str, torch.Tensor], alpha: float | None, wrong: list[str]
) -> LayerAdapter | None:
    """Return the adapter of a layer, or note what is wrong with it."""
    name = one_line(layer, 140)
    missing = [f"{_PREFIX}{name}: {what} is missing" for what in ("down", "up") if what not in parts]
    if missing:
        wrong += missing
        return None
    down, up = parts["down"], parts["up"]
    rank = len(down) if down.ndim in (2, 4) else 0
    if not 1 <= rank <= _LARGEST_RANK or up.ndim != down.ndim or up.shape[1] != rank or prod(up.shape[2:]) != 1:
        wrong.append(f"{_PREFIX}{name} has A {[*down.shape]} and B {[*up.shape]}, which do not fit each other")
        return None
    own = parts.get("alpha")
    if own is not None and own.numel() != 1:
        wrong.append(f"{_PREFIX}{name}.alpha is {[*own.shape]} and not one number")
        return None
    size = float(own) if own is not None else rank if alpha is None else alpha
    return LayerAdapter(down, up.flatten(1), size / rank)
