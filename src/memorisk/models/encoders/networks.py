"""Encoders of images: networks and pixels, the preparation of batches, and principal components of pixels.

`open_encoder` resolves a source of `models.encoders.feature_sources` for images of a stated size. An encoder is known
before its network is: its name, the form of its images and the content that identifies it, so that earlier features
are found again without loading anything. Features of a network are its pre-head output, the input of the linear
layer. `preparation` brings a batch to a network's channels, size and normalisation, in this order, on the device.

Principal components are fitted by `memorisk.training.features.pca.fit_pixel_pca` on reference images only; `PixelPca`
keeps them and applies them to any others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from memorisk.images.copies.duplicates import LUMA, details
from memorisk.images.file_hashes import content_fingerprints
from memorisk.images.volumes import is_volume
from memorisk.models.blackbox.preprocessing import Preprocessing, preprocessing_from
from memorisk.models.classifiers.specs import ModelSpec, is_download
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.encoders.feature_sources import ENCODERS, RANDOM, FeatureSource, check_network
from memorisk.models.network_parts import trunk_output
from memorisk.models.weight_files import head_and_stem
from memorisk.runs.errors import ARRAY_ERRORS, InputError, one_line
from memorisk.runs.files import atomic_path, fingerprint
from memorisk.runs.size_limits import check_arrays

_KEYS = ("mean", "directions", "variance", "total_variance", "n_fitted", "shape", "side")
_CODE = 1  # part of every identity: a change of what an encoder computes makes new features


@dataclass(frozen=True, eq=False)
class PixelPca:
    """Principal components of pixels x in [0, 1]: features are ``(x - mean) @ directions.T``, not whitened.

    Attributes:
        mean: Mean of the pixels, [D] float64, D = h w C, in the order of storage.
        directions: Directions of the components, [K, D] float64, orthonormal, by falling variance; in each the entry of
            largest magnitude is positive (the first of them where several are as large), so that a sign does not depend
            on the machine.
        variance: Variance of the reference images along each direction, [K], with n - 1.
        total_variance: Variance over all directions.
        n_fitted: Number of reference images.
        shape: Height, width and channels of the pixels after resizing.
        side: Side in pixels that they were resized to; None as they are stored.
    """

    mean: np.ndarray
    directions: np.ndarray
    variance: np.ndarray
    total_variance: float
    n_fitted: int
    shape: tuple[int, int, int]
    side: int | None

    @property
    def components(self) -> int:
        """Return K, the number of components."""
        return len(self.directions)

    @property
    def explained(self) -> float:
        """Return the share of the reference images' variance that the components hold, at most 1."""
        return min(1.0, float(self.variance.sum() / self.total_variance)) if self.total_variance else 1.0

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of the arrays that are applied."""
        return fingerprint(self.mean, self.directions, list(self.shape), self.side, length=32)

    def save(self, path: str | Path) -> None:
        """Write the components as ``.npz``, atomically and with private permissions; nothing is pickled."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                mean=self.mean,
                directions=self.directions,
                variance=self.variance,
                total_variance=self.total_variance,
                n_fitted=self.n_fitted,
                shape=self.shape,
                side=self.side or 0,
            )

    @classmethod
    def load(cls, path: str | Path) -> "PixelPca":
        """Read the components that :meth:`save` wrote.

        Raises:
            InputError: The file is missing, damaged or something else.
        """
        try:
            check_arrays(path)
            with np.load(path, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in _KEYS}
            loaded = cls(
                mean=arrays["mean"].astype(np.float64),
                directions=arrays["directions"].astype(np.float64),
                variance=arrays["variance"].astype(np.float64),
                total_variance=float(arrays["total_variance"]),
                n_fitted=int(arrays["n_fitted"]),
                shape=(int(arrays["shape"][0]), int(arrays["shape"][1]), int(arrays["shape"][2])),
                side=int(arrays["side"]) or None,
            )
            width = int(np.prod(loaded.shape))
            if loaded.mean.shape != (width,) or loaded.directions.shape != (len(loaded.variance), width):
                raise ValueError("its arrays do not fit together")
            if not (np.isfinite(loaded.mean).all() and np.isfinite(loaded.directions).all()):
                raise ValueError("it holds values that are not finite")
        except ARRAY_ERRORS as error:
            raise InputError(f"fitted PCA {one_line(path)} cannot be read: {one_line(error, 120)}") from None
        return loaded


class PixelProjection(nn.Module):
    """A fitted PCA as a module.

    Args:
        fitted: Components of a fitted PCA.
    """

    mean: torch.Tensor
    directions: torch.Tensor

    def __init__(self, fitted: PixelPca) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(fitted.mean))
        self.register_buffer("directions", torch.from_numpy(fitted.directions))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, h, w] float64 in [0, 1] to [b, K]."""
        return (x.movedim(1, -1).flatten(1) - self.mean) @ self.directions.T


def preparation(
    preprocessing: Preprocessing | None, device: torch.device, dtype: torch.dtype
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function from pixels in [0, 1], [b, c, H, W], to the network's input, channels last.

    Grey images are repeated where the network has more channels; resizing is bilinear with antialias.

    Args:
        preprocessing: Preprocessing of the network; None leaves pixels as they are.
        device: Device that holds the pixels.
        dtype: Type of the pixels.
    """
    if preprocessing is None:
        return lambda x: x.contiguous(memory_format=torch.channels_last)
    size, channels = preprocessing.size, preprocessing.channels
    mean = torch.tensor(preprocessing.mean, device=device, dtype=dtype)[:, None, None]
    std = torch.tensor(preprocessing.std, device=device, dtype=dtype)[:, None, None]
    as_they_are = not any(preprocessing.mean) and all(value == 1 for value in preprocessing.std)

    def prepare(x: torch.Tensor) -> torch.Tensor:
        """Prepare images: channels, size, normalisation."""
        if x.shape[1] == 1 and channels > 1:
            x = x.expand(-1, channels, -1, -1)
        if x.shape[2:] != size:
            x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
        return (x if as_they_are else (x - mean) / std).contiguous(memory_format=torch.channels_last)

    return prepare


NetworkState = Literal["pretrained", "trained", "random", "fitted", "no network"]
StoredShape = tuple[int, int, int]
"""Height, width and channels that images are stored in."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Encoder of images of one stored shape as features.

    Attributes:
        name: Name of the encoder in a report.
        weights: Name of the weights, in words; empty where there are none.
        state: State of the weights: "pretrained", "trained" (a detector), "random", "fitted" (PCA) or "no network"
            (pixels).
        preprocessing: Size, channels and normalisation of its input.
        identity: Values that its features depend on, in the form of JSON.
        weights_fingerprint: Fingerprint of the file of weights, or of the tensors where they are random or downloaded.
        load: Function that returns the module, [b, C, h, w] normalised to [b, d], in evaluation mode, and one sentence
            for each change that made its weights fit.
        dtype: Type of its computation without mixed precision.
        mixed: Whether it may be computed in mixed precision.
        notes: Sentences that a report must contain; random weights come first.
    """

    name: str
    weights: str
    state: NetworkState
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
        network: Network, which is not copied.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.training = network.training  # restoring this one's mode restores the network's

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, h, w] to the input of the linear head, [b, d]."""
        return trunk_output(self.network, x)


class FlattenPixels(nn.Module):
    """Pixels as they are: [b, C, h, w] to [b, h w C], in the order of storage."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Flatten the images."""
        return x.movedim(1, -1).flatten(1)


class ThumbnailDetails(nn.Module):
    """Details of thumbnails (`memorisk.images.copies.duplicates`): [b, C, s, s] in [0, 1] to unit rows [b, s * s]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Stretch the greys of each image to eight bits and take coarse shading away."""
        grey = x[:, 0] if x.shape[1] == 1 else torch.einsum("bchw,c->bhw", x, x.new_tensor(LUMA))
        low, high = grey.amin((1, 2), keepdim=True), grey.amax((1, 2), keepdim=True)
        thumbnails = ((grey - low) * (255 / (high - low).clamp(min=1e-9))).round()
        return torch.from_numpy(details(thumbnails.cpu().numpy())).to(x.device)


def open_encoder(
    source: FeatureSource,
    stored: StoredShape,
    *,
    size: int | None = None,
    normalise: str | None = None,
    seed: int = 0,
    fitted: PixelPca | None = None,
    books: Path | None = None,
) -> Encoder:
    """Open the encoder that a source names, for images of one stored shape.

    Args:
        source: Source that `memorisk.models.encoders.feature_sources.parse_source` returned; not saved features.
        stored: Height, width and channels of the images.
        size: Side in pixels of a network's input; by default that of its training, and for memorisk's own networks the
            stored one.
        normalise: Normalisation of a network's training, where that is not the published one, as for
            `memorisk.models.blackbox.preprocessing.preprocessing_from`.
        seed: Random seed of random weights.
        fitted: Components fitted on the reference images, for ``pca:K``.
        books: Cache folder that remembers hashes of unchanged files of weights; None to hash them each time.

    Raises:
        InputError: The encoder cannot take the size, normalisation or channels, or the weights cannot be loaded.
    """
    if source.kind in ("pixels", "pca"):
        if size is not None or normalise is not None:
            raise InputError(f"{source.shown}: size and normalise are a network's; a size of pixels is named pixels:32")
        return (
            _pixel_encoder(source, stored)
            if source.kind == "pixels"
            else pca_encoder(_fitted_pca(fitted, source), stored)
        )
    if size is not None and size < 1:
        raise InputError(f"size is {size}; it must be at least 1")
    if source.kind == "transformers":
        from memorisk.models.encoders.transformers import open_transformers

        return open_transformers(source, stored, size=size, normalise=normalise, seed=seed, books=books)
    if source.kind == "plugin":
        return ENCODERS[source.name](source, stored, size=size, normalise=normalise, seed=seed)
    if source.kind == "detector":
        from memorisk.models.copy_detectors import open_detector

        return open_detector(source, stored, size=size, normalise=normalise)
    if source.kind == "network":
        return _network_encoder(source, stored, size, normalise, seed, books)
    raise InputError(f"{source.shown} holds features that are computed already")


def state_fingerprint(model: nn.Module) -> str:
    """Hash a network's parameters and buffers: names, types, shapes and bytes."""
    parts = []
    for name, value in sorted(model.state_dict().items()):
        parts += [[name, str(value.dtype), list(value.shape)]]
        parts += [value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()]
    return fingerprint(*parts, length=32)


def size_notes(stored: StoredShape, size: tuple[int, int], made_for: int | None, trained: bool) -> list[str]:
    """Note facts for a reader about the size in which a network gets its images."""
    height, width, _ = stored
    notes = []
    if made_for is not None and size != (made_for, made_for):
        what = "was trained at" if trained else "is made for"
        notes.append(f"The network gets images of {size[0]} x {size[1]} pixels and {what} {made_for} x {made_for}.")
    if height != width and size[0] == size[1]:
        notes.append(f"Images of {height} x {width} pixels are squashed to the network's square.")
    if min(size) > max(height, width):
        notes.append(
            f"Images are stored at {height} x {width} pixels and enlarged to {size[0]} x {size[1]}: that adds no "
            "detail."
        )
    return notes


def check_channels(title: str, stored: StoredShape, channels: int) -> None:
    """Refuse colour images for a network of grey ones; grey ones are repeated where it needs three channels."""
    if channels == 1 and stored[2] != 1:
        raise InputError(f"{title} takes grey images and these have {stored[2]} channels: store them with channels 1")


def random_note(name: str) -> str:
    """Return the sentence that precedes all others."""
    return f"RANDOM WEIGHTS: {name} was never trained, its features are those of a random network."


def _network_encoder(
    source: FeatureSource, stored: StoredShape, size: int | None, normalise: str | None, seed: int, books: Path | None
) -> Encoder:
    spec = check_network(source.name, source.weights)
    kind = RANDOM if source.weights == RANDOM else "download" if is_download(source.weights, spec) else "file"
    own = spec.source == "memorisk"
    channels = _channels_of_file(spec, source) if kind == "file" and own else 3
    title = one_line(source.name.removeprefix("timm:"), 60)
    check_channels(title, stored, channels)
    size_in = (size, size) if size else stored[:2] if own else (spec.image_size, spec.image_size)
    preprocessing = _preprocessing(spec, size_in, channels, normalise)
    notes = [random_note(title)] if kind == RANDOM else []
    if kind != RANDOM:
        notes += size_notes(stored, size_in, spec.image_size, trained=not own)
        if spec.normalise == "dataset" and normalise is None:
            notes.append(
                f"{title} has no published normalisation; ImageNet's is used: name its training's with normalise."
            )

    @cache
    def load() -> tuple[nn.Module, list[str]]:
        """Build the network once; return it and the notes on its weights."""
        notes: list[str] = []
        network = create_model(
            source.name,
            num_classes=2,
            in_chans=channels,
            image_size=max(size_in),
            weights=source.weights,
            seed=seed,
            on_note=lambda text: notes.append(text) if "head" not in text else None,
        )
        return Trunk(network).eval(), notes

    file = str(source.weights)
    content = content_fingerprints([file], books)[file] if kind == "file" else state_fingerprint(load()[0])
    return Encoder(
        name=title,
        weights=_weights_words(source, kind, spec, seed),
        state="random" if kind == RANDOM else "pretrained",
        preprocessing=preprocessing,
        identity=_identity(spec.architecture, content, preprocessing, own),
        weights_fingerprint=content,
        load=load,
        notes=tuple(notes),
    )


def _identity(architecture: str, content: str, preprocessing: Preprocessing, own: bool) -> dict[str, Any]:
    """Describe the values that features of a network depend on, besides the images and the precision."""
    from importlib.metadata import version

    library = "memorisk" if own else f"timm {version('timm')}"
    identity = {"code": _CODE, "architecture": architecture, "library": library, "weights": content}
    return identity | {"preprocessing": preprocessing.describe(), "torch": str(torch.__version__)}


def _channels_of_file(spec: ModelSpec, source: FeatureSource) -> int:
    """Return 1 where the file's stem reads grey images, else 3."""
    bare = create_model(spec.name, num_classes=2, in_chans=3, image_size=spec.image_size, weights=RANDOM, seed=0)
    return 1 if head_and_stem(bare, str(source.weights))[1] == 1 else 3


def _preprocessing(spec: ModelSpec, size: tuple[int, int], channels: int, normalise: str | None) -> Preprocessing:
    if normalise is not None:
        return preprocessing_from(normalise, size, channels)
    mean, std = spec.mean, spec.std
    if len(mean) != channels:
        mean, std = (sum(mean) / len(mean),) * channels, (sum(std) / len(std),) * channels
    return Preprocessing(size, channels, mean, std)


def _weights_words(source: FeatureSource, kind: str, spec: ModelSpec, seed: int) -> str:
    if kind == RANDOM:
        return f"random (seed {seed})"
    if kind == "download":
        return f"{spec.default_weights if source.weights == 'default' else source.weights}, downloaded"
    return Path(str(source.weights)).name


def _pixel_encoder(source: FeatureSource, stored: StoredShape) -> Encoder:
    preprocessing = stored_preprocessing(stored, source.side)
    name = source.name if source.is_details or source.side is None else f"pixels:{source.side}"
    module = ThumbnailDetails() if source.is_details else FlattenPixels()
    return Encoder(
        name=name,
        weights="",
        state="no network",
        preprocessing=preprocessing,
        identity={"code": _CODE, "architecture": source.name, "preprocessing": preprocessing.describe()},
        weights_fingerprint="",
        load=lambda: (module, ()),
        dtype=torch.float64,
        mixed=False,
    )


def pca_encoder(fitted: PixelPca, stored: StoredShape) -> Encoder:
    """Return the encoder of a fitted PCA.

    Args:
        fitted: Components of the fitted PCA.
        stored: Height, width and channels of the images.

    Raises:
        InputError: The images have another shape than those it was fitted on.
    """
    preprocessing = stored_preprocessing(stored, fitted.side)
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


def stored_preprocessing(stored: StoredShape, side: int | None) -> Preprocessing:
    """Return the preprocessing of pixels in [0, 1], resized or not, in the channels they are stored in.

    Raises:
        InputError: Volumes are to be resized, which are compared as they are stored.
    """
    if side is not None and is_volume(stored):
        raise InputError(f"volumes are compared as they are stored: leave :{side} out, and give --size")
    size = stored[:2] if side is None else (side, side)
    return Preprocessing(size, stored[2], (0.0,) * stored[2], (1.0,) * stored[2])


def _fitted_pca(fitted: PixelPca | None, source: FeatureSource) -> PixelPca:
    if fitted is None:
        raise InputError(f"{source.shown} is fitted on reference images only: name them (reference)")
    if fitted.components != source.components or fitted.side != source.side:
        side = "" if fitted.side is None else f":{fitted.side}"
        raise InputError(f"{source.shown} is requested, and what was fitted is pca:{fitted.components}{side}")
    return fitted
