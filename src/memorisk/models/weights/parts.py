"""The parts of a network that loading and fine-tuning treat apart: its stem, its trunk, its classifier head.

timm records where stem and head are; memorisk's own nets say it in ``stem_name`` and ``head_name``. Both offer
``forward_features`` and ``forward_head(x, pre_logits=True)``.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from memorisk.runs.errors import InputError


def head_names(model: nn.Module) -> tuple[str, ...]:
    """Module names of the classifier head, () where none is known."""
    return _names(model, "head_name", "classifier")


def stem_names(model: nn.Module) -> tuple[str, ...]:
    """Module names of the convolutions that read the image, () where none is known."""
    return _names(model, "stem_name", "first_conv")


def head_module(model: nn.Module) -> nn.Linear:
    """The linear layer that gives the logits.

    Raises:
        InputError: if the network's head is not one linear layer.
    """
    names = head_names(model)
    head = model.get_submodule(names[0]) if len(names) == 1 else None
    if not isinstance(head, nn.Linear):
        raise InputError(f"the head of {type(model).__name__} is not one linear layer: train the whole network instead")
    return head


def trunk_output(model: Any, x: torch.Tensor) -> torch.Tensor:
    """What the linear head sees of images [b, C, H, W]: features [b, d]."""
    return model.forward_head(model.forward_features(x), pre_logits=True)


def freeze_trunk(model: nn.Module) -> None:
    """Let only the head require gradients."""
    model.requires_grad_(False)
    head_module(model).requires_grad_(True)


def _names(model: nn.Module, own: str, timm_key: str) -> tuple[str, ...]:
    found: str | Iterable[str] | None = getattr(model, own, None)
    if found is None:
        record = getattr(model, "pretrained_cfg", None) or {}
        found = record.get(timm_key)
    return (found,) if isinstance(found, str) else tuple(found or ())
