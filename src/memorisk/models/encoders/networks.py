"""Encoders: what `models.encoders.encoders` names, resolved for images of a stated size, and loaded only when used.

An encoder is known before its network is: what it is called, how it wants its images and which content identifies it,
so that features that were computed before are found again without loading anything. Features of a network are its
pre-head output, what the linear layer sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from memorisk.images.cache import content_fingerprints
from memorisk.models.blackbox.preprocessing import Preprocessing, preprocessing_from
from memorisk.models.classifiers.specs import ModelSpec
from memorisk.models.classifiers.zoo import create_model, is_download
from memorisk.models.encoders.encoders import RANDOM, FeatureSource, check_network
from memorisk.models.encoders.pca import PixelPca, PixelProjection
from memorisk.models.weights.parts import trunk_output
from memorisk.models.weights.weights import head_and_stem
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.fingerprint import fingerprint

State = Literal["pretrained", "trained", "random", "fitted", "no network"]
Stored = tuple[int, int, int]
"""Height, width and channels that images are stored in."""

_CODE = 1  # part of every identity: a change of what an encoder computes makes new features


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What turns images of one stored shape into features.

    Attributes:
        name: What it is called in a report.
        weights: Which weights, in words; empty where there are none.
        state: "pretrained", "trained" (a detector), "random", "fitted" (PCA) or "no network" (pixels).
        preprocessing: Size, channels and normalisation of its input.
        identity: What its values depend on, as JSON has it.
        weights_fingerprint: Of the file of weights, or of the tensors where they are random or downloaded.
        load: Gives the module, [b, C, h, w] normalised to [b, d], in evaluation mode, and what was done to make its
            weights fit, a sentence each.
        dtype: What it computes in without mixed precision.
        mixed: Whether it may be computed in mixed precision.
        notes: What a report must say, a sentence each; random weights come first.
    """

    name: str
    weights: str
    state: State
    preprocessing: Preprocessing
    identity: dict[str, Any]
    weights_fingerprint: str
    load: Callable[[], tuple[nn.Module, Sequence[str]]]
    dtype: torch.dtype = torch.float32
    mixed: bool = True
    notes: tuple[str, ...] = ()


class Trunk(nn.Module):
    """A network of timm or memorisk up to its head.

    Args:
        network: The network, which is not copied.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.training = network.training  # whoever restores this one's mode restores the network's

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, h, w] to what the linear head sees, [b, d]."""
        return trunk_output(self.network, x)


class Flat(nn.Module):
    """Pixels as they are: [b, C, h, w] to [b, h w C], in the order of storage."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Flatten."""
        return x.movedim(1, -1).flatten(1)


def open_encoder(
    source: FeatureSource,
    stored: Stored,
    *,
    size: int | None = None,
    normalise: str | None = None,
    seed: int = 0,
    fitted: PixelPca | None = None,
    books: Path | None = None,
) -> Encoder:
    """The encoder that a source names, for images of one stored shape.

    Args:
        source: As `memorisk.models.encoders.encoders.parse_source` gave it; not saved features.
        stored: Height, width and channels of the images.
        size: Pixels a side that a network gets; by default what it was trained at, and for memorisk's own networks
            what is stored.
        normalise: What a network was trained with, where that is not the published one: as for
            `memorisk.models.blackbox.preprocessing.preprocessing_from`.
        seed: Of random weights.
        fitted: With ``pca:K``: what was fitted on the reference images.
        books: Cache folder where hashes of unchanged files of weights are remembered; None to hash them each time.

    Raises:
        InputError: A size, a normalisation or channels that the encoder cannot take, or weights that cannot be had.
    """
    if source.kind in ("pixels", "pca"):
        if size is not None or normalise is not None:
            raise InputError(f"{source.shown}: size and normalise are a network's; a size of pixels is named pixels:32")
        return _pixel_encoder(source, stored) if source.kind == "pixels" else pca_encoder(_of(fitted, source), stored)
    if size is not None and size < 1:
        raise InputError(f"size is {size}; it must be at least 1")
    if source.kind == "transformers":
        from memorisk.models.encoders.transformers import open_transformers

        return open_transformers(source, stored, size=size, normalise=normalise, seed=seed, books=books)
    if source.kind == "detector":
        from memorisk.models.encoders.detectors import open_detector

        return open_detector(source, stored, size=size, normalise=normalise)
    if source.kind == "network":
        return _network_encoder(source, stored, size, normalise, seed, books)
    raise InputError(f"{source.shown} holds features that are computed already")


def state_fingerprint(model: nn.Module) -> str:
    """Hash of a network's parameters and buffers: names, types, shapes and bytes."""
    found = []
    for name, value in sorted(model.state_dict().items()):
        found += [[name, str(value.dtype), list(value.shape)]]
        found += [value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()]
    return fingerprint(*found, length=32)


def size_notes(stored: Stored, given: tuple[int, int], made_for: int | None, trained: bool) -> list[str]:
    """What must be said of the size a network gets its images in."""
    height, width, _ = stored
    notes = []
    if made_for is not None and given != (made_for, made_for):
        what = "was trained at" if trained else "is made for"
        notes.append(f"The network gets images of {given[0]} x {given[1]} pixels and {what} {made_for} x {made_for}.")
    if height != width and given[0] == given[1]:
        notes.append(f"Images of {height} x {width} pixels are squashed to the network's square.")
    if min(given) > max(height, width):
        notes.append(
            f"Images are stored at {height} x {width} pixels and enlarged to {given[0]} x {given[1]}: that adds no "
            "detail."
        )
    return notes


def check_channels(said: str, stored: Stored, channels: int) -> None:
    """Refuse colour images for a network of grey ones; grey ones are repeated where it needs three channels."""
    if channels == 1 and stored[2] != 1:
        raise InputError(f"{said} takes grey images and these have {stored[2]} channels: store them with channels 1")


def random_note(name: str) -> str:
    """The sentence that goes before all others."""
    return f"RANDOM WEIGHTS: {name} was never trained, its features are those of a random network."


def _network_encoder(
    source: FeatureSource, stored: Stored, size: int | None, normalise: str | None, seed: int, books: Path | None
) -> Encoder:
    spec = check_network(source.name, source.weights)
    kind = RANDOM if source.weights == RANDOM else "download" if is_download(source.weights, spec) else "file"
    own = spec.source == "memorisk"
    channels = _channels_of_file(spec, source) if kind == "file" and own else 3
    said = one_line(source.name.removeprefix("timm:"), 60)
    check_channels(said, stored, channels)
    given = (size, size) if size else stored[:2] if own else (spec.image_size, spec.image_size)
    preprocessing = _preprocessing(spec, given, channels, normalise)
    notes = [random_note(said)] if kind == RANDOM else []
    if kind != RANDOM:
        notes += size_notes(stored, given, spec.image_size, trained=not own)
        if spec.normalise == "dataset" and normalise is None:
            notes.append(
                f"{said} has no published normalisation; ImageNet's is used: name its training's with normalise."
            )

    @cache
    def load() -> tuple[nn.Module, list[str]]:
        """The network, built once, and what was noted on the way."""
        done: list[str] = []
        network = create_model(
            source.name,
            num_classes=2,
            in_chans=channels,
            image_size=max(given),
            weights=source.weights,
            seed=seed,
            on_note=lambda text: done.append(text) if "head" not in text else None,
        )
        return Trunk(network).eval(), done

    file = str(source.weights)
    content = content_fingerprints([file], books)[file] if kind == "file" else state_fingerprint(load()[0])
    return Encoder(
        name=said,
        weights=_weights_words(source, kind, spec, seed),
        state="random" if kind == RANDOM else "pretrained",
        preprocessing=preprocessing,
        identity=_identity(spec.architecture, content, preprocessing, own),
        weights_fingerprint=content,
        load=load,
        notes=tuple(notes),
    )


def _identity(architecture: str, content: str, preprocessing: Preprocessing, own: bool) -> dict[str, Any]:
    """What features of a network depend on, but for the images and the precision."""
    from importlib.metadata import version

    library = "memorisk" if own else f"timm {version('timm')}"
    found = {"code": _CODE, "architecture": architecture, "library": library, "weights": content}
    return found | {"preprocessing": preprocessing.describe(), "torch": str(torch.__version__)}


def _channels_of_file(spec: ModelSpec, source: FeatureSource) -> int:
    """1 where the file's stem reads grey images, else 3."""
    bare = create_model(spec.name, num_classes=2, in_chans=3, image_size=spec.image_size, weights=RANDOM, seed=0)
    return 1 if head_and_stem(bare, str(source.weights))[1] == 1 else 3


def _preprocessing(spec: ModelSpec, given: tuple[int, int], channels: int, normalise: str | None) -> Preprocessing:
    if normalise is not None:
        return preprocessing_from(normalise, given, channels)
    mean, std = spec.mean, spec.std
    if len(mean) != channels:
        mean, std = (sum(mean) / len(mean),) * channels, (sum(std) / len(std),) * channels
    return Preprocessing(given, channels, mean, std)


def _weights_words(source: FeatureSource, kind: str, spec: ModelSpec, seed: int) -> str:
    if kind == RANDOM:
        return f"random (seed {seed})"
    if kind == "download":
        return f"{spec.default_weights if source.weights == 'default' else source.weights}, downloaded"
    return Path(str(source.weights)).name


def _pixel_encoder(source: FeatureSource, stored: Stored) -> Encoder:
    preprocessing = as_stored(stored, source.side)
    name = "pixels" if source.side is None else f"pixels:{source.side}"
    return Encoder(
        name=name,
        weights="",
        state="no network",
        preprocessing=preprocessing,
        identity={"code": _CODE, "architecture": "pixels", "preprocessing": preprocessing.describe()},
        weights_fingerprint="",
        load=lambda: (Flat(), ()),
        dtype=torch.float64,
        mixed=False,
    )


def pca_encoder(fitted: PixelPca, stored: Stored) -> Encoder:
    """The encoder of a fitted PCA.

    Args:
        fitted: What was fitted.
        stored: Height, width and channels of the images.

    Raises:
        InputError: The images have another shape than those it was fitted on.
    """
    preprocessing = as_stored(stored, fitted.side)
    if (*preprocessing.size, stored[2]) != fitted.shape:
        raise InputError(
            f"the PCA was fitted on pixels {list(fitted.shape)}, and these images give "
            f"{[*preprocessing.size, stored[2]]}: store both alike, or fit it on resized ones (pca:16:32)"
        )
    side = "" if fitted.side is None else f":{fitted.side}"
    return Encoder(
        name=f"pca:{fitted.components}{side}",
        weights=f"fitted on {fitted.n_fitted:,} reference images",
        state="fitted",
        preprocessing=preprocessing,
        identity={"code": _CODE, "architecture": "pca", "weights": fitted.fingerprint},
        weights_fingerprint=fitted.fingerprint,
        load=lambda: (PixelProjection(fitted), ()),
        dtype=torch.float64,
        mixed=False,
        notes=(
            f"{fitted.components} components of the pixels hold {fitted.explained:.1%} of the variance of the "
            f"{fitted.n_fitted:,} reference images that they were fitted on.",
        ),
    )


def as_stored(stored: Stored, side: int | None) -> Preprocessing:
    """Pixels in [0, 1], resized or not, in the channels they are stored in."""
    size = stored[:2] if side is None else (side, side)
    return Preprocessing(size, stored[2], (0.0,) * stored[2], (1.0,) * stored[2])


def _of(fitted: PixelPca | None, source: FeatureSource) -> PixelPca:
    if fitted is None:
        raise InputError(f"{source.shown} is fitted on reference images only: name them (reference)")
    if fitted.components != source.components or fitted.side != source.side:
        side = "" if fitted.side is None else f":{fitted.side}"
        raise InputError(f"{source.shown} is asked for, and what was fitted is pca:{fitted.components}{side}")
    return fitted
