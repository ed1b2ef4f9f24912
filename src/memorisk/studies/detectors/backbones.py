"""What a detector's network is: architecture, weights, and how the tables name its pre-training."""

import re
from dataclasses import dataclass
from pathlib import Path

from memorisk.models.encoders.encoders import RANDOM, FeatureSource, parse_source
from memorisk.runs.errors import InputError, one_line

NO_TRAINING = "none"
LOSSES = (NO_TRAINING, "triplet", "infonce")
"""``none``: the features of the backbone as it is, without training or linear layer."""
LOSS_NAMES = {NO_TRAINING: "untrained", "triplet": "Triplet", "infonce": "InfoNCE"}


@dataclass(frozen=True)
class Backbone:
    """A backbone of the grid.

    Attributes:
        text: What computes its features, as `memorisk.models.encoders.encoders` reads it.
        model: Its architecture.
        pretraining: Its weights by the name that the tables show; "random" for none, empty for pixels and PCA.
        source: What `text` names.
    """

    text: str
    model: str
    pretraining: str
    source: FeatureSource

    @property
    def name(self) -> str:
        """Architecture and pre-training, as in "resnet50, ImageNet"."""
        return f"{self.model}, {self.pretraining}" if self.pretraining else self.model

    def detector(self, loss: str) -> str:
        """A detector made of it, as the paper writes them: "resnet50 (ImageNet, Triplet)"."""
        inner = ", ".join(part for part in (self.pretraining, LOSS_NAMES[loss]) if part)
        return f"{self.model} ({inner})"

    @property
    def trainable(self) -> bool:
        """Whether a detector can be trained from it."""
        return self.source.kind == "network"

    @property
    def seeded(self) -> bool:
        """Whether its features depend on a seed without any training."""
        return self.source.weights == RANDOM


def read_backbone(given: str) -> Backbone:
    """A backbone as it is named on the command line: ``NAME@WEIGHTS``, ``pixels``, ``pca:16``; ``=LABEL`` behind it.

    Args:
        given: As `memorisk.models.encoders.encoders.parse_source` reads it; what stands behind the last ``=`` names the
            pre-training in the tables (``resnet50@radimagenet.safetensors=RadImageNet``), else the weights do.

    Raises:
        InputError: An unknown name, weights that are not there, or features that are computed already: nobody can
            compute them of copies.
    """
    text, label = given, ""
    head, equals, tail = given.rpartition("=")
    if equals and head and tail and not Path(given.partition("@")[2]).is_file():
        text, label = head.strip(), tail.strip()
    source = parse_source(text)
    if source.kind == "saved":
        raise InputError(
            f"{one_line(source.shown, 80)} holds features that are computed already, and copies need theirs: name what "
            "computes them, as in resnet50@FILE"
        )
    return Backbone(text, _model(source), label or _pretraining(source), source)


def _model(source: FeatureSource) -> str:
    shown = source.shown.removeprefix("timm:").removeprefix("transformers:").removeprefix("detector:")
    return shown if source.kind in ("pixels", "pca") else shown.partition("@")[0]


def _pretraining(source: FeatureSource) -> str:
    if source.kind in ("pixels", "pca"):
        return ""
    if source.kind == "detector":
        return _trained_as(source)
    if source.weights == RANDOM:
        return "random"
    if source.weights is None:
        return "its folder's"
    return re.sub(r"\.(safetensors|pt|pth|bin|h5|npz|th|tar)$", "", Path(source.weights).name)


def _trained_as(source: FeatureSource) -> str:
    """What a detector was trained from and by: many lie in a folder of the same name."""
    from memorisk.models.detectors.detectors import read_config

    config = read_config(Path(source.name))
    return f"{config.backbone} by {LOSS_NAMES.get(config.loss, config.loss)}"


def weights_problem(backbone: Backbone) -> str:
    """Why the weights that a backbone names cannot be read; empty where they can, or where none lie on the disk.

    Whether they fit the network is seen when it is built.
    """
    from memorisk.models.detectors.detectors import load_detector
    from memorisk.models.weights.weights import read_state_dict

    source = backbone.source
    try:
        if source.kind == "detector":
            load_detector(source.name)
        elif source.kind == "network" and source.weights and Path(source.weights).is_file():
            read_state_dict(source.weights)
    except (InputError, OSError) as error:
        return one_line(error, 300)
    return ""
