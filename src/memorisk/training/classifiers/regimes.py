"""The parameters that a regime trains: all, or low-rank adapters of the attention; and the changes that DP requires.

LoRA (Hu et al. 2022) as paper 000, section 5 and A.10 has it: rank 8, alpha 16, on the qkv and the output projections
of the attention (442,368 parameters on ViT-B/16, the paper's "442 K"), in addition to a new head. PEFT makes the
adapters; after the training they are merged into the weights, so that a plain network is kept.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn

from memorisk.models.classifiers.zoo import seeded
from memorisk.models.network_parts import head_names
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.engine.options import TrainOptions

Note = Callable[[str], None]
AnyLoss = TypeVar("AnyLoss")

_ADAPTED_LAYERS = ("attn.qkv", "attn.proj")
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_CHECKED_AFTER = 2
_EXTRA = 'python -m pip install ".[dp]" in the checkout'
_NORM_GROUPS = 32


def extra_message(name: str, what: str) -> InputError:
    """Build the error whose message names the extra to install."""
    return InputError(f"{what} needs {name}, which is not installed: {_EXTRA}")


def prepare_regime(
    model: nn.Module, options: TrainOptions, *, seed: int, pretrained: bool = False, on_note: Note | None = None
) -> None:
    """Prepare a network for its regime, in place: adapters, converted normalisation, frozen leftovers.

    Args:
        model: The network, before training.
        options: Settings of one training; ``full`` leaves the network as it is.
        seed: Random seed of the adapters' start.
        pretrained: Whether the network has trained weights, so that its normalisation cannot be exchanged.
        on_note: Function called with one sentence for each change.

    Raises:
        InputError: The network has no attention to adapt, or normalises over the batch, or an extra is missing.
    """
    note = on_note or (lambda text: None)
    regime = options.one_regime
    if options.low_rank:
        _add_adapters(model, options, seed)
    if regime == "dp-full":
        _replace_batch_norms(model, pretrained, note)
        _freeze_loose(model, note)
    if options.private:
        for module in model.modules():
            if getattr(module, "inplace", False) is True:  # the hooks that see each image's gradient forbid it
                setattr(module, "inplace", False)  # noqa: B010 (pyright: modules type every attribute as a tensor)


def merge_adapters(model: nn.Module) -> None:
    """Merge trained adapters into the weights they adapt: ``W + alpha / rank B A``; the network is plain again."""
    for name, module in list(model.named_modules()):
        if hasattr(module, "lora_A") and hasattr(module, "get_base_layer"):
            merge, base = module.merge, module.get_base_layer
            merge(safe_merge=True)  # pyright: ignore[reportCallIssue] (a LoRA layer of PEFT)
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, base())  # pyright: ignore[reportCallIssue]
    model.requires_grad_(True)


def _add_adapters(model: nn.Module, options: TrainOptions, seed: int) -> None:
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not any(name.endswith(tuple(f".{suffix}" for suffix in _ADAPTED_LAYERS)) for name in names):
        raise InputError(
            f"regime {options.one_regime} adapts attention, which {type(model).__name__} does not have: name a vision "
            "transformer (small_vit, vit_base_patch16_224), or regime full or dp-full"
        )
    try:
        with _quiet_imports("torchao", "peft"):
            import peft
    except ImportError as error:
        raise extra_message("peft", f"regime {options.one_regime}") from error
    config = peft.LoraConfig(r=options.lora_rank, lora_alpha=options.lora_alpha, target_modules=list(_ADAPTED_LAYERS))  # pyright: ignore[reportArgumentType] (alpha may be a fraction)
    with seeded(seed):
        peft.inject_adapter_in_model(config, model)  # freezes everything else
    for name in head_names(model):
        model.get_submodule(name).requires_grad_(True)


def _replace_batch_norms(model: nn.Module, pretrained: bool, note: Note) -> None:
    """Put group normalisation in place of batch normalisation, which mixes the images of a batch."""
    mixing = [n for n, m in model.named_modules() if isinstance(m, _BATCH_NORMS)]
    if not mixing:
        return
    if pretrained:
        raise InputError(
            f"{type(model).__name__} normalises over the batch ({len(mixing)} layers), so that no image has a gradient "
            "of its own, and its trained statistics cannot be exchanged: use a network with group or layer "
            "normalisation (resnet50_gn, vit_base_patch16_224), or train without weights"
        )
    for name in mixing:
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, _group_norm(model.get_submodule(name)))
    note(f"{len(mixing)} batch normalisations were replaced by group normalisations: DP needs each image by itself")


def _group_norm(norm: Any) -> nn.Module:
    """Build a group normalisation of as many channels, then timm's dropout and activation where they were fused."""
    groups = nn.GroupNorm(math.gcd(_NORM_GROUPS, norm.num_features), norm.num_features, affine=norm.affine)
    behind = [getattr(norm, part) for part in ("drop", "act") if isinstance(getattr(norm, part, None), nn.Module)]
    return nn.Sequential(groups, *behind) if behind else groups


def _freeze_loose(model: nn.Module, note: Note) -> None:
    """Freeze parameters that belong to no layer (position, class token): Opacus has no gradients per image there."""
    loose = []
    for prefix, module in model.named_modules():
        if any(True for child in module.children() for _ in child.parameters()):
            for name, parameter in module.named_parameters(recurse=False):
                parameter.requires_grad_(False)
                loose.append(f"{prefix}.{name}".lstrip("."))
    if loose:
        note(f"{', '.join(loose[:3])} stay as they were: they belong to no layer with a gradient per image")


class ParameterChangeCheck:
    """The check that trainable tensors change and frozen ones do not (METHODS section 1, "Defence").

    Tensors are compared after the second update: at the first, LoRA's A has no gradient, since B starts at 0.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.before = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def check(self) -> None:
        """Compare with the start.

        Raises:
            MemoriskError: A trainable tensor is unchanged, or a frozen one is not.
        """
        parameters = list(self.model.named_parameters())
        moved = {name for name, p in parameters if not torch.equal(p.detach(), self.before[name])}
        still = [name for name, p in parameters if p.requires_grad and name not in moved]
        stray = [name for name, p in parameters if not p.requires_grad and name in moved]
        if still:
            raise MemoriskError(f"{len(still)} trained tensors did not move in two steps, the first {still[0]}")
        if stray:
            raise MemoriskError(f"{len(stray)} frozen tensors moved, the first {stray[0]}")


def check_parameter_changes(losses: Iterator[AnyLoss], epoch: int, movement: ParameterChangeCheck) -> Iterator[AnyLoss]:
    """Yield the losses of an epoch as they are, and check for movement after the second update of the training."""
    for step, loss in enumerate(losses):
        yield loss
        if epoch == 0 and step + 1 == _CHECKED_AFTER:
            movement.check()


@contextlib.contextmanager
def _quiet_imports(*names: str) -> Iterator[None]:
    """Keep a library's remarks at import from the user's terminal."""
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
