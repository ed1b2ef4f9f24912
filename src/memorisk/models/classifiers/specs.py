"""Specifications of architectures, known before one is built: normalisation, training defaults, sources of weights.

The five of paper 000 (A.7 and table 10) and memorisk's own nets are registered here; any other name of timm gets a
specification from timm's own record. Importing this module loads neither torch nor timm.
"""

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from memorisk.runs.errors import InputError, unknown_name

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INCEPTION_MEAN, INCEPTION_STD = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
CAFFE_MEAN, CAFFE_STD = (123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255, 1 / 255, 1 / 255)

WEIGHT_SUFFIXES = (".safetensors", ".pth", ".pt", ".th", ".bin", ".ckpt", ".npz")
"""Suffixes of files of weights."""
SMALL_IMAGE = 64
"""Side in pixels; smaller images get the small CNN by default (DESIGN, "Defaults")."""
SMALL_MODEL = "small_cnn"
"""Network of smaller images."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """An architecture and the defaults of its training."""

    name: str
    """Name that a user types."""

    architecture: str
    """Name under which it is built: one of timm's, or one of memorisk's own nets."""

    source: Literal["timm", "memorisk"] = "timm"
    """Library that builds it."""

    default_weights: str | None = None
    """Tag of timm that ``weights="default"`` downloads; None where none is published."""

    needs_weights: bool = False
    """Whether the name means its pre-trained weights, so that leaving them out is refused ("none" insists)."""

    frozen_trunk: bool = False
    """Whether only the linear head is trained, on features of the frozen trunk."""

    mean: tuple[float, ...] = IMAGENET_MEAN
    """Mean of each channel that the published weights expect, of RGB pixels in [0, 1]."""

    std: tuple[float, ...] = IMAGENET_STD
    """Standard deviation that the published weights expect."""

    normalise: Literal["dataset", "model"] = "model"
    """Whether pixels are scaled by the data set's own statistics or by the ones above."""

    image_size: int = 224
    """Side in pixels that it is meant for."""

    epochs: int = 30
    """Number of passes over the training images."""

    lr: float = 1e-4
    """Learning rate at the start."""

    note: str = ""
    """Note for the report's readers."""


SPECS: dict[str, ModelSpec] = {}


def register_spec(spec: ModelSpec) -> ModelSpec:
    """Add an architecture under its name."""
    SPECS[spec.name] = spec
    return spec


def model_spec(name: str) -> ModelSpec:
    """Return the specification of an architecture.

    Args:
        name: Registered name (`SPECS`), or any of timm's, with or without a tag ("resnet50.tv_in1k") and with or
            without "timm:" before it.

    Raises:
        InputError: The name is unknown; the message names the nearest known one.
    """
    plain = name.removeprefix("timm:")
    if plain in SPECS and (plain == name or SPECS[plain].source == "timm"):
        return SPECS[plain]
    base, _, tag = plain.partition(".")
    names = timm_names()
    if names.networks and base not in names.networks | names.former and "timm" not in sys.modules:
        raise unknown_name("model", name, [*SPECS, *sorted(names.networks)])
    import timm  # loaded only where its models are named: it takes seconds

    if not timm.is_model(base):
        raise unknown_name("model", name, [*SPECS, *timm.list_models()])
    published = [full.partition(".")[2] for full in timm.list_pretrained(f"{base}.*")]
    if tag and tag not in published:
        raise unknown_name(f"weights of {base}", tag, published)
    record = timm.get_pretrained_cfg(plain)
    if record is None:
        return ModelSpec(name=name, architecture=base, default_weights=published[0] if published else None)
    return ModelSpec(
        name=name,
        architecture=base,
        default_weights=tag or (record.tag if record.tag in published else None),
        mean=tuple(record.mean),
        std=tuple(record.std),
        image_size=int(record.input_size[-1]),
    )


class TimmNames(NamedTuple):
    """Names of timm's networks."""

    networks: frozenset[str]
    """Names of networks."""
    former: frozenset[str]
    """Names that networks had in earlier versions, which timm still builds."""


@cache
def timm_names() -> TimmNames:
    """Read the names of timm's networks from the text of its modules, since importing timm takes seconds.

    Returns:
        Names; none where timm is not installed, or marks its networks in another way.
    """
    package = find_spec("timm")
    if package is None or package.origin is None:
        return TimmNames(frozenset(), frozenset())
    texts = [file.read_text(encoding="utf-8") for file in (Path(package.origin).parent / "models").rglob("*.py")]
    networks = {name for text in texts for name in _NETWORK.findall(text)}
    former = {name for text in texts for block in _FORMER.findall(text) for name in _KEY.findall(block)}
    return TimmNames(frozenset(networks), frozenset(former))


_NETWORK = re.compile(r"@register_model\s+def (\w+)\(")
_FORMER = re.compile(r"register_model_deprecations\(__name__, \{(.*?)\}\)", re.DOTALL)
_KEY = re.compile(r"['\"](\w+)['\"]\s*:")


def is_download(weights: str | Path | None, spec: ModelSpec) -> bool:
    """Return whether these weights are to be downloaded by name.

    Raises:
        InputError: No weights of that name are published.
    """
    return weights_kind(weights, spec) == "download"


def names_file(weights: str | Path) -> bool:
    """Return whether weights name a file, which need not exist, and no published weights.

    Args:
        weights: Weights, as for `memorisk.models.classifiers.zoo.create_model`.
    """
    return isinstance(weights, Path) or weights.endswith(WEIGHT_SUFFIXES) or "/" in weights or Path(weights).is_file()


def weights_kind(weights: str | Path | None, spec: ModelSpec) -> str:
    """Return whether weights are "none", a "file" or a "download"; the name of a download is checked.

    Args:
        weights: Weights, as for `memorisk.models.classifiers.zoo.create_model`.
        spec: Specification of the network.

    Raises:
        InputError: No weights of that name are published.
    """
    if weights is None or weights == "none":
        return "none"
    if names_file(weights):
        return "file"
    published = _published(spec)
    if not published or (weights == "default" and spec.default_weights is None):
        raise InputError(f"no weights of {spec.name} are published: name a file, or 'none' for random ones")
    if weights != "default" and weights not in published:
        raise unknown_name(f"weights of {spec.name}", weights, ["none", "default", *published])
    return "download"


def _published(spec: ModelSpec) -> list[str]:
    if spec.source != "timm":
        return []
    import timm

    return [full.partition(".")[2] for full in timm.list_pretrained(f"{spec.architecture}.*")]


def auto_model(image_size: int) -> str:
    """Return the name that ``--model auto`` means: the small CNN below 64 px, ResNet-50 from there on."""
    return SMALL_MODEL if image_size < SMALL_IMAGE else "resnet50"


register_spec(
    ModelSpec(
        name="small_cnn",
        architecture="small_cnn",
        source="memorisk",
        normalise="dataset",
        image_size=28,
        lr=1e-3,
        note="a small CNN without normalisation layers, for images below 64 px",
    )
)
register_spec(
    ModelSpec(
        name="small_resnet",
        architecture="small_resnet",
        source="memorisk",
        normalise="dataset",
        image_size=64,
        lr=1e-3,
        note="a small ResNet with group normalisation, for images of about 64 px",
    )
)
register_spec(
    ModelSpec(
        name="copy_resnet",
        architecture="copy_resnet",
        source="memorisk",
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        image_size=64,
        lr=1e-3,
        note="a small ResNet that standardises each image by itself, made for detectors of copies",
    )
)
register_spec(
    ModelSpec(
        name="small_vit",
        architecture="small_vit",
        source="memorisk",
        mean=INCEPTION_MEAN,
        std=INCEPTION_STD,
        image_size=64,
        lr=1e-3,
        note="a small vision transformer (8 x 8 patches, width 96, 4 blocks), for low-rank adapters",
    )
)
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
        note="what the paper calls MAE: ViT-B/16 from random initialisation, without masked pre-training",
    )
)
register_spec(
    ModelSpec(
        name="medsam",
        architecture="samvit_base_patch16",
        needs_weights=True,
        epochs=50,
        lr=5e-5,
        note="SAM's ViT-B trunk with MedSAM's weights from the user's file; the paper's own epochs and learning rate",
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
register_spec(
    ModelSpec(
        name="efficientnet_lite0_frozen",
        architecture="tf_efficientnet_lite0",
        needs_weights=True,
        frozen_trunk=True,
        mean=INCEPTION_MEAN,
        std=INCEPTION_STD,
        lr=1e-3,
        note="EfficientNet-Lite0 with weights from the user's file, frozen; only a linear head is trained",
    )
)
for _name in ("resnet20_cifar", "resnet56_cifar"):
    register_spec(
        ModelSpec(
            name=_name,
            architecture=_name,
            source="memorisk",
            image_size=32,
            lr=1e-3,
            note="a ResNet of He et al. (2016) for CIFAR, its shortcuts without parameters",
        )
    )
register_spec(
    ModelSpec(
        name="squeezenet1_1_caffe",
        architecture="squeezenet1_1_caffe",
        source="memorisk",
        needs_weights=True,
        mean=CAFFE_MEAN,
        std=CAFFE_STD,
        note="SqueezeNet 1.1 as Caffe and Keras have it: blue first, levels of 0 to 255, no padding in stem and pools",
    )
)

UNIQUE_NETWORKS = {"mlp1": 28, "cnn1": 28, "cnn2": 32}
"""Side in pixels of the images of each network of the paper on unique features that regularisers can be added to."""
for _net, _size in UNIQUE_NETWORKS.items():
    for _end in ("", "_dropout", "_bn", "_dropout_bn"):
        register_spec(
            ModelSpec(
                name=_net + _end,
                architecture=_net + _end,
                source="memorisk",
                normalise="dataset",
                image_size=_size,
                lr=3e-4,
                note=f"{_net.upper()} of the paper on unique features, with the regularisers of its name",
            )
        )
register_spec(
    ModelSpec(
        name="densenet100",
        architecture="densenet100",
        source="memorisk",
        normalise="dataset",
        image_size=32,
        lr=1e-3,
        note="DenseNet-BC of 100 layers, growth 12, for images of 32 px",
    )
)
