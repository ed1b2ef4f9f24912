"""The baselines of paper 004's table 2: which are at hand, and what to give to have the others.

The paper names methods, and of DINOv3 "the smallest, pooled"; which checkpoint of the others it took is not said. The
names here are published ones of the usual size; another is given by its file with the method's name behind it, as in
``resnet50@byol.safetensors=BYOL``, and then takes the row's place.
"""

from collections.abc import Iterable
from dataclasses import dataclass

PIXELS, UNSUPERVISED, FOUNDATION, SPECIFIC = "Pixel-wise", "Unsupervised", "Foundation models", "Task-specific"


@dataclass(frozen=True)
class Baseline:
    """A row of table 2."""

    name: str
    """Of the method, as the table has it."""
    section: str
    """Of the table."""
    text: str | None = None
    """What computes it, as ``--detectors`` takes it; None where that is a file or folder only the user has."""
    hub: str | None = None
    """Where its weights are published by name; None where none are needed or published."""
    give: str = ""
    """What to give to have it."""


def _network(name: str, network: str, tag: str) -> Baseline:
    """A network of timm's with published weights."""
    return Baseline(name, FOUNDATION, f"{network}@{tag}", f"timm/{network}.{tag}", f"{network}@FILE={name}")


TABLE_2 = (
    Baseline("MSE", PIXELS, "mse"),
    Baseline("NCC", PIXELS, "ncc"),
    Baseline("SSIM", PIXELS, "ssim"),
    Baseline("Random", UNSUPERVISED, "random"),
    Baseline(
        "Siamese + NT-Xent (no identities)", UNSUPERVISED,
        give="the folder of `memorisk train detector --kind siamese-ntxent` without identities, "
        "=Siamese + NT-Xent (no identities) behind it",
    ),
    Baseline("BYOL", FOUNDATION, give="resnet50@FILE=BYOL"),
    _network("CLIP", "vit_large_patch14_clip_224", "openai"),
    _network("ConvNeXt", "convnext_large", "fb_in22k_ft_in1k"),
    Baseline(
        "data2vec", FOUNDATION, "transformers:facebook/data2vec-vision-base@default", "facebook/data2vec-vision-base",
        "transformers:FOLDER=data2vec",
    ),
    _network("Inception", "inception_v3", "tv_in1k"),
    _network("MAE", "vit_large_patch16_224", "mae"),
    Baseline("SwAV", FOUNDATION, give="resnet50@FILE=SwAV"),
    _network("DINOv2", "vit_large_patch14_dinov2", "lvd142m"),
    _network("DINOv3", "vit_small_patch16_dinov3", "lvd1689m"),
    Baseline(
        "Siamese", SPECIFIC, give="the folder of `memorisk train detector --kind siamese`, =Siamese behind it"
    ),
    Baseline(
        "Siamese + NT-Xent", SPECIFIC,
        give="the folder of `memorisk train detector --kind siamese-ntxent`, =Siamese + NT-Xent behind it",
    ),
)  # fmt: skip
_SECTIONS = {baseline.name.lower(): baseline.section for baseline in TABLE_2}
_ORDER = (PIXELS, UNSUPERVISED, FOUNDATION, SPECIFIC)


def section_of(name: str, otherwise: str) -> str:
    """The section of table 2 that a method of this name stands in.

    Args:
        name: Of a detector.
        otherwise: Where the table has no method of that name.
    """
    return _SECTIONS.get(name.lower(), otherwise)


def section_place(section: str) -> int:
    """Place of a section in the table."""
    return _ORDER.index(section)


def named_baselines(given: Iterable[str], *, download: bool) -> tuple[list[str], dict[str, str]]:
    """Baselines of table 2 that are not given by the user already.

    Args:
        given: Names of the detectors that the user gave.
        download: Whether published weights may be fetched.

    Returns:
        Those at hand, as ``--detectors`` takes them, and of the others what to give, by name.
    """
    taken = {name.lower() for name in given}
    texts, missing = [], {}
    for baseline in TABLE_2:
        if baseline.name.lower() in taken:
            continue
        if baseline.text is not None and (baseline.hub is None or download or _in_cache(baseline.hub)):
            texts.append(f"{baseline.text}={baseline.name}")
            continue
        fetched = f", or --download for {baseline.text}" if baseline.text else ""
        missing[baseline.name] = f"--detectors {baseline.give}{fetched}"
    return texts, missing


def _in_cache(repository: str) -> bool:
    """Whether the hub's cache on this machine holds its weights."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repository, "model.safetensors"), str)
