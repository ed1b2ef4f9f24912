"""Parts of a network (stem, trunk, head), and files that hold more than an image trunk.

Loading and fine-tuning treat the stem, the trunk and the classifier head apart. timm records where stem and head are;
memorisk's own networks name them in ``stem_name`` and ``head_name``. Both offer ``forward_features`` and
``forward_head(x, pre_logits=True)``.

Files of SAM, MedSAM and open_clip (such as BiomedCLIP) hold more than an image trunk (METHODS section 1). The names of
its tensors identify such a file. Its trunk is taken whole, the other known parts are left out with a note, and a
tensor of no known part is refused: it may belong to a variant that this trunk alone does not reproduce.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from memorisk.runs.errors import InputError, one_line

_LISTED = 5


def head_names(model: nn.Module) -> tuple[str, ...]:
    """Return the module names of the classifier head, () where none is known."""
    return _names(model, "head_name", "classifier")


def stem_names(model: nn.Module) -> tuple[str, ...]:
    """Return the module names of the convolutions that read the image, () where none is known."""
    return _names(model, "stem_name", "first_conv")


def head_module(model: nn.Module) -> nn.Linear:
    """Return the linear layer that gives the logits.

    Raises:
        InputError: The network's head is not one linear layer.
    """
    names = head_names(model)
    head = model.get_submodule(names[0]) if len(names) == 1 else None
    if not isinstance(head, nn.Linear):
        raise InputError(f"the head of {type(model).__name__} is not one linear layer: train the whole network instead")
    return head


def trunk_output(model: Any, x: torch.Tensor) -> torch.Tensor:
    """Compute the input of the linear head for images [b, C, H, W]: features [b, d]."""
    return model.forward_head(model.forward_features(x), pre_logits=True)


def freeze_trunk(model: nn.Module) -> None:
    """Let only the head require gradients."""
    model.requires_grad_(False)
    head_module(model).requires_grad_(True)


def _names(model: nn.Module, own: str, timm_key: str) -> tuple[str, ...]:
    names: str | Iterable[str] | None = getattr(model, own, None)
    if names is None:
        record = getattr(model, "pretrained_cfg", None) or {}
        names = record.get(timm_key)
    return (names,) if isinstance(names, str) else tuple(names or ())


StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True)
class WholeFile:
    """A kind of file and how its tensors are named."""

    name: str
    """Name of the software that wrote the file, in words."""
    trunk: str
    """Prefix of the names of the image trunk's tensors."""
    others: Mapping[str, str]
    """Prefixes of other known parts' names (they end there or continue after a point), with a name for each part."""
    renamed: Mapping[str, str]
    """Parts of the trunk's names that timm spells otherwise."""


WHOLE_FILES = (
    WholeFile(
        name="SAM",
        trunk="image_encoder.",
        others={"prompt_encoder": "prompt encoder", "mask_decoder": "mask decoder"},
        renamed={".mlp.lin": ".mlp.fc"},
    ),
    WholeFile(
        name="open_clip",
        trunk="visual.trunk.",
        others={
            "visual.head": "projection of images",
            **dict.fromkeys(("text", "text_projection", "transformer", "token_embedding"), "text encoder"),
            **dict.fromkeys(("positional_embedding", "ln_final"), "text encoder"),
            **dict.fromkeys(("logit_scale", "logit_bias"), "scale of the logits"),
        },
        renamed={},
    ),
)


def whole_file(tensors: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor]) -> WholeFile | None:
    """Return the kind of a file by the names of its tensors; None where it holds a network's own names."""
    for kind in WHOLE_FILES:
        if any(name.startswith(kind.trunk) for name in tensors) and not any(n.startswith(kind.trunk) for n in own):
            return kind
    return None


def take_trunk(
    tensors: Mapping[str, torch.Tensor], kind: WholeFile, file: str, note: Callable[[str], None]
) -> StateDict:
    """Return the trunk's tensors by timm's names; the other known parts are left out.

    Args:
        tensors: Tensors of the whole file by name.
        kind: Kind of the file, from `whole_file`.
        file: Name of the file, for messages.
        note: Function that is called with a sentence on the tensors that were taken and left out.

    Raises:
        InputError: A tensor belongs to no known part, or two have one name; the first are listed.
    """
    trunk: StateDict = {}
    others: Counter[str] = Counter()
    unknown = []
    for name, value in tensors.items():
        part = next((what for start, what in kind.others.items() if f"{name}.".startswith(f"{start}.")), None)
        if name.startswith(kind.trunk):
            own = name.removeprefix(kind.trunk)
            for theirs, timms in kind.renamed.items():
                own = own.replace(theirs, timms)
            if own in trunk:
                unknown.append(name)
            trunk[own] = value
        elif part is not None:
            others[part] += 1
        else:
            unknown.append(name)
    if unknown:
        names = ", ".join(one_line(name, 80) for name in unknown[:_LISTED])
        more = f", ... ({len(unknown)} in all)" if len(unknown) > _LISTED else ""
        raise InputError(
            f"weights file {one_line(file)} looks like one of {kind.name}, but holds tensors of no known part: {names}"
            f"{more}; save the trunk alone (names after {kind.trunk}) if it needs nothing else"
        )
    unused = "; ".join(f"{what} ({n})" for what, n in others.items())
    note(
        f"of the whole {kind.name} file the {len(trunk)} tensors of {kind.trunk[:-1]} are taken"
        + (f", left out: {unused}" if unused else "")
    )
    return trunk
