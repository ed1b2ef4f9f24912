"""Networks by name: memorisk's own nets and everything in timm.

``create_model("small_cnn", ...)``, ``create_model("timm:convnext_tiny", ...)`` (random), ``create_model("resnet50",
weights="default", ...)`` (downloads), ``create_model("medsam", weights="medsam.pth", ...)`` (the user's file).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memorisk.models.classifiers.copy_resnet import CopyResNet
from memorisk.models.classifiers.small_networks import CifarResNet, SmallCNN, SmallResNet, SqueezeNet, small_vit
from memorisk.models.classifiers.specs import SPECS, ModelSpec, model_spec, timm_names, weights_kind
from memorisk.models.classifiers.unique_features import NAMES, DenseNet100, paper_net
from memorisk.models.hub import quiet_hub
from memorisk.models.network_parts import freeze_trunk
from memorisk.models.weight_files import Note, load_weights
from memorisk.runs.errors import InputError, one_line

Builder = Callable[[int, int, int], nn.Module]
"""Function from (num_classes, in_chans, image_size) to a network."""

OWN_NETWORKS: dict[str, Builder] = {
    "small_cnn": SmallCNN,
    "small_resnet": SmallResNet,
    "copy_resnet": CopyResNet,
    "resnet20_cifar": lambda k, c, size: CifarResNet(k, c, blocks=3),
    "resnet56_cifar": lambda k, c, size: CifarResNet(k, c, blocks=9),
    "small_vit": small_vit,
    "squeezenet1_1_caffe": lambda k, c, size: SqueezeNet(k, c),
    "densenet100": DenseNet100,
    **{name: partial(paper_net, name) for name in NAMES},
}


def list_models() -> list[str]:
    """List all names: the specified ones first, then timm's."""
    return list(dict.fromkeys([*SPECS, *timm_names().networks]))


def create_model(
    name: str,
    *,
    num_classes: int,
    in_chans: int = 3,
    image_size: int = 224,
    weights: str | Path | None = None,
    seed: int,
    on_note: Note | None = None,
    trained: bool = False,
) -> nn.Module:
    """Build a network by name.

    Args:
        name: Name of the network, as for `model_spec`.
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Side in pixels.
        weights: Weights: None or "none" for random initialisation; "default" or a timm tag to *download* weights; or a
            file.
        seed: Random seed of the initialisation (also of a new head); global random state is left as it was.
        on_note: Function that is called with a sentence for each change that makes weights fit (`load_weights`).
        trained: Whether the file of weights is this very network's, head and all.

    Returns:
        Network on the CPU; for a specification with a frozen trunk, only its head requires gradients.

    Raises:
        InputError: A name or tag is unknown, the network cannot take the sizes, weights are missing or unfit, or a
        download
        failed.
    """
    spec = model_spec(name)
    kind = weights_kind(weights, spec)
    if kind == "none" and weights is None and spec.needs_weights:
        raise InputError(f"{name} needs its pre-trained weights: name their file, or 'none' for random ones")
    for what, value in (("num_classes", num_classes), ("in_chans", in_chans), ("image_size", image_size)):
        if value < 1:
            raise InputError(f"{what} is {value}; it must be at least 1")
    tag = "" if kind != "download" else spec.default_weights if weights == "default" else str(weights)
    with seeded(seed):
        if spec.source == "memorisk":
            model = OWN_NETWORKS[spec.architecture](num_classes, in_chans, image_size)
        else:
            model = _build_timm(spec, num_classes, in_chans, image_size, tag or "")
    if kind == "file":
        load_weights(model, str(weights), on_note=on_note, trained=trained)
    if spec.frozen_trunk:
        freeze_trunk(model)
    return model


def takes_any_size(name: str) -> bool:
    """Return whether the tensors of a network are the same for images of every size.

    Raises:
        InputError: The name is unknown.
    """
    spec = model_spec(name)
    if spec.source != "memorisk":
        return not _has_fixed_size(spec)
    with seeded(0):
        networks = [OWN_NETWORKS[spec.architecture](2, 3, side) for side in (spec.image_size, 2 * spec.image_size)]
    shapes = [{key: value.shape for key, value in network.state_dict().items()} for network in networks]
    return shapes[0] == shapes[1]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw random numbers inside from ``seed``; the state outside is as if nothing had been drawn."""
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _build_timm(spec: ModelSpec, num_classes: int, in_chans: int, image_size: int, tag: str) -> nn.Module:
    """Build a network of timm; with a tag timm downloads its weights, and adapts head and stem by its rules."""
    import timm

    full = f"{spec.architecture}.{tag}" if tag else spec.architecture
    sized: dict[str, Any] = {"num_classes": num_classes, "in_chans": in_chans}
    if _has_fixed_size(spec):
        sized["img_size"] = image_size
    if tag:
        return _download(full, sized)
    try:
        return timm.create_model(full, pretrained=False, **sized)
    except Exception as error:  # each of timm's networks raises its own kinds
        raise InputError(f"{spec.name} cannot be built for {image_size} px: {one_line(error, 160)}") from error


def _has_fixed_size(spec: ModelSpec) -> bool:
    """Return whether timm builds a network for one size of images."""
    import timm

    record = timm.get_pretrained_cfg(spec.architecture)
    return record is not None and record.fixed_input_size


def _download(full: str, sized: dict[str, Any]) -> nn.Module:
    import timm

    with quiet_hub() as reachable:
        try:
            return timm.create_model(full, pretrained=True, **sized)
        except Exception as error:  # timm, its hub client and the network each raise their own kinds
            where = one_line(error, 160) if reachable else "the Hugging Face hub cannot be reached, nor are they cached"
            out = "download them where there is a network and name the file, or train without: --weights none"
            raise InputError(f"the weights {full} could not be loaded: {where}; {out}") from error
