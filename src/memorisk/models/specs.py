"""What is known of an architecture before one is built: normalisation, training defaults, where weights come from.

The five of paper 000 (A.7 and table 10) and the small nets are registered here; any other name of timm gets a
specification from timm's own record. Reading this file loads neither torch nor timm.
"""

from dataclasses import dataclass
from typing import Literal

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INCEPTION_MEAN, INCEPTION_STD = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

SMALL_IMAGE = 64
"""Images below this many pixels a side get the small CNN by default (DESIGN, "Defaults")."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """An architecture and the defaults of its training."""

    name: str
    """The name a user types."""

    architecture: str
    """The name under which it is built: one of timm's, or one of the nets in `memorisk.models`."""

    source: Literal["timm", "memorisk"] = "timm"
    """Who builds it."""

    default_weights: str | None = None
    """The timm tag that ``weights="default"`` downloads; None where none is published."""

    needs_weights: bool = False
    """The architecture stands for its pre-trained weights, so that leaving them out is refused ("none" insists)."""

    frozen_trunk: bool = False
    """Only the linear head is trained, on features of the frozen trunk."""

    mean: tuple[float, ...] = IMAGENET_MEAN
    """Mean of each channel that the published weights expect, of pixels in [0, 1]."""

    std: tuple[float, ...] = IMAGENET_STD
    """Standard deviation that the published weights expect."""

    normalise: Literal["dataset", "model"] = "model"
    """Whether pixels are scaled by the data set's own statistics or by the ones above."""

    image_size: int = 224
    """Pixels a side it is meant for."""

    epochs: int = 30
    """Passes over the training images."""

    lr: float = 1e-4
    """Learning rate at the start."""

    note: str = ""
    """What a reader of the report should know of it."""


SPECS: dict[str, ModelSpec] = {}


def register_spec(spec: ModelSpec) -> ModelSpec:
    """Add an architecture under its name."""
    SPECS[spec.name] = spec
    return spec


register_spec(
    ModelSpec(
        name="resnet50",
        architecture="resnet50",
        default_weights="a1_in1k",
        note="ResNet-50; the paper starts from ImageNet-1k weights, without saying which of the published sets",
    )
)
register_spec(
    ModelSpec(
        name="vit_base_patch16_224",
        architecture="vit_base_patch16_224",
        default_weights="augreg_in21k",
        mean=INCEPTION_MEAN,
        std=INCEPTION_STD,
        note="ViT-B/16; the paper starts from ImageNet-21k weights",
    )
)
register_spec(
    ModelSpec(
        name="mae",
        architecture="vit_base_patch16_224",
        normalise="dataset",
        note="what the paper calls MAE: ViT-B/16 from random initialisation, no masked pre-training",
    )
)
register_spec(
    ModelSpec(
        name="medsam",
        architecture="samvit_base_patch16",
        needs_weights=True,
        epochs=50,
        lr=5e-5,
        note="SAM's ViT-B trunk, MedSAM weights from the user's file; the paper's only exception in epochs and rate",
    )
)
register_spec(
    ModelSpec(
        name="biomedclip",
        architecture="vit_base_patch16_224",
        needs_weights=True,
        frozen_trunk=True,
        mean=CLIP_MEAN,
        std=CLIP_STD,
        note="ViT-B/16 with BiomedCLIP's weights from the user's file, frozen; only a linear head is trained",
    )
)
for _name, _size, _lr, _note in (
    ("small_cnn", 28, 1e-3, "a small CNN without normalisation layers, for images below 64 px"),
    ("small_resnet", 64, 1e-3, "a small ResNet with group normalisation, for 64 px"),
    ("resnet20_cifar", 32, 1e-3, "ResNet-20 of He et al. 2016 for CIFAR, shortcuts without parameters"),
    ("resnet56_cifar", 32, 1e-3, "ResNet-56 of He et al. 2016 for CIFAR, shortcuts without parameters"),
    ("squeezenet", 224, 1e-4, "SqueezeNet 1.1 without padding in its first layer and pools"),
):
    register_spec(
        ModelSpec(
            name=_name, architecture=_name, source="memorisk", normalise="dataset", image_size=_size, lr=_lr, note=_note
        )
    )


def auto_model(image_size: int) -> str:
    """The name that ``--model auto`` stands for: the small CNN below 64 px, ResNet-50 from there on."""
    return "small_cnn" if image_size < SMALL_IMAGE else "resnet50"
