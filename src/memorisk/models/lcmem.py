"""Siamese detectors over latents: LCMem (paper 004) and two baselines, their network and their folder.

The detectors compare latents of images:

    u = sigmoid(W S(norm(E(x))) + b),   P(same identity) = sigmoid(v |u - u'| + c)

E turns an image into its latent (`memorisk.models.latents`), norm brings each channel of a latent to mean
0 and deviation 0.5, S is a backbone of timm up to its head, W goes to d = 512 features, v is the head.

==================  ========  =============  ======  ===============================================================
kind                features  normalised by   head    source
==================  ========  =============  ======  ===============================================================
``lcmem``           sigmoid   the sample     linear  paper 004
``siamese``         sigmoid   the data set   linear  Packhaeuser et al. 2022: ResNet on pixels, binary cross-entropy
``siamese-ntxent``  as is     the data set   none    Dar et al. 2024: NT-Xent, compared by the cosine of features
==================  ========  =============  ======  ===============================================================

A folder holds ``weights.safetensors``, ``detector.json``, ``seen.parquet`` as in `memorisk.models.copy_detectors`,
and ``encoder/``, the whole encoder of the latents.

Backbones of timm reduce 32-fold, so that a latent below 32 px would vanish on the way. There the stride of the stem is
halved, as often as needed, to at most stride x side / 32: for ConvNeXt 4 at 32 px and above, 2 at 16, 1 at 8, the
smallest side that is allowed. A stem whose kernel is its stride (ConvNeXt) then gets a kernel of stride + 2, padded
by 1; a larger kernel (ResNet) stays, padded by half of it. Weights of a stem whose shape changed are new.
"""

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.models.copy_detectors import DetectorNetwork, SourceSearch, embed_images
from memorisk.models.encoders.feature_sources import RANDOM
from memorisk.models.encoders.networks import Trunk
from memorisk.models.latents import LatentEncoder, load_encoder, save_encoder
from memorisk.models.network_parts import stem_names
from memorisk.models.provenance import (
    WEIGHTS,
    DetectorConfig,
    SeenImages,
    TrainingRecord,
    copy_tensors,
    join_seen,
    match_seen,
    read_config,
    read_seen,
    save_detector,
)
from memorisk.models.weight_files import Note, read_state_dict
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.pairs import Head, check_head

SMALLEST_SIDE = 8
SPREAD = 0.5
"""Deviation that latents are brought to (paper 004, section 3.1)."""
_REDUCTION = 32
_HEAD_SUM, _HEAD_BIAS = 40.0, 2.0
_LEAST_DEVIATION = 1e-3  # of a channel: a constant one is centred and not blown up
DIMENSION = 512
ENCODER = "encoder"
_VALUES_PER_BATCH = 1 << 22
_LARGEST_BATCH = 256


@dataclass(frozen=True)
class Form:
    """Form of the network of a kind."""

    sigmoid: bool
    """Whether features pass through a sigmoid."""
    by_sample: bool
    """Whether each latent is normalised by itself; else by the data set."""
    head: bool
    """Whether a linear layer on the absolute difference of features gives a probability."""
    measure: str
    """Measure of two vectors where the head is not used: a name of `memorisk.scores.distances`."""


FORMS = {
    "lcmem": Form(sigmoid=True, by_sample=True, head=True, measure="cityblock"),
    "siamese": Form(sigmoid=True, by_sample=False, head=True, measure="cityblock"),
    "siamese-ntxent": Form(sigmoid=False, by_sample=False, head=False, measure="cosine"),
}


class LatentNetwork(DetectorNetwork):
    """One branch of a Siamese detector, from latents to features, and the head over two of them.

    Args:
        trunk: Backbone from [b, c, h, w] to [b, k].
        projection: Linear layer from [b, k] to [b, d].
        form: Form of the network's kind.
        channels: Number c of channels.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, trunk: nn.Module, projection: nn.Linear, form: Form, channels: int) -> None:
        super().__init__(trunk, projection)
        self.form = form
        self.head = nn.Linear(projection.out_features, 1) if form.head else None
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Map normalised latents [b, c, h, w] to features [b, d]."""
        projected = self.projection(self.trunk(x))
        return projected.sigmoid() if self.form.sigmoid else projected

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map latents [b, c, h, w] to features [b, d], normalised as at inference."""
        if self.form.by_sample:
            return self.features(by_sample(x))
        return self.features(by_statistics(x, self.mean, self.std))

    def logits(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Compute the logits of pairs of features, [b, d] and [b, d]: [b]."""
        assert self.head is not None
        return self.head((u - v).abs())[:, 0]


def by_sample(x: torch.Tensor) -> torch.Tensor:
    """Bring each channel of each latent to mean 0 and deviation 0.5; a constant channel becomes 0.

    Args:
        x: Latents, [b, c, h, w].
    """
    centred = x - x.mean(dim=(2, 3), keepdim=True)
    deviation = centred.square().mean(dim=(2, 3), keepdim=True).sqrt()
    return centred / deviation.clamp_min(_LEAST_DEVIATION) * SPREAD


def by_statistics(x: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """Bring each channel to mean 0 and deviation 0.5 over the data set.

    Args:
        x: Latents, [b, c, h, w].
        mean: Means of the channels, [c] or [b, c], of the data set of each latent.
        std: Deviations of the channels, [c] or [b, c], of the same data sets.
    """
    return (x - mean[..., None, None]) / std[..., None, None].clamp_min(_LEAST_DEVIATION) * SPREAD


class PixelNetwork(nn.Module):
    """Network from pixels to features: the frozen encoder, then the branch.

    Args:
        encoder: Encoder from [b, C, H, W] in [0, 1] to latents.
        branch: Branch from latents to features.
    """

    def __init__(self, encoder: nn.Module, branch: LatentNetwork) -> None:
        super().__init__()
        self.encoder = encoder
        self.branch = branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] of the encoder's size and channels to [b, d]."""
        return self.branch(self.encoder(x))


def latent_trunk(name: str, weights: str, shape: tuple[int, int, int], seed: int, note: Note | None = None) -> Trunk:
    """Open a backbone of timm or memorisk for latents of a stated shape, up to its head.

    Args:
        name: Name of the network.
        weights: Weights: a file, "default" or a tag to download, "none" for random ones.
        shape: Channels, height and width of a latent.
        seed: Random seed of random weights, and of the stem where it changes.
        note: Function that is called with a sentence for each thing done to make weights fit.

    Raises:
        InputError: Latents are below 8 px, or the network does not take them.
    """
    channels, height, width = shape
    side, say = min(height, width), note or (lambda text: None)
    if side < SMALLEST_SIDE:
        raise InputError(
            f"latents of {height} x {width} are too small: a detector needs {SMALLEST_SIDE} px a side; take larger "
            "images, or an autoencoder that reduces less"
        )
    network = create_model(
        name, num_classes=2, in_chans=channels, image_size=max(height, width), weights=weights, seed=seed, on_note=note
    )
    _fit_stem(network, side, weights != RANDOM, seed, say)
    return Trunk(network)


def stem_stride(stride: int, side: int) -> int:
    """Return the stride of a stem for latents of a side in pixels: halved until at most ``stride * side / 32``.

    Args:
        stride: Stride that the network was made with.
        side: Length of the shorter side, in pixels.

    Example:
        >>> [stem_stride(4, side) for side in (64, 32, 28, 16, 8)]
        [4, 4, 2, 2, 1]
    """
    fitting = stride
    while fitting > 1 and fitting * _REDUCTION > stride * side:
        fitting //= 2
    return fitting


def _fit_stem(network: nn.Module, side: int, loaded: bool, seed: int, note: Note) -> None:
    """Give a network the stem that latents of this size need, in place."""
    names = stem_names(network)
    stem = network.get_submodule(names[0]) if names else None
    if not isinstance(stem, nn.Conv2d) or hasattr(network, "patch_embed"):
        return
    old = gcd(*(int(n) for n in stem.stride))
    stride = stem_stride(old, side)
    if stride == old:
        return
    patches = stem.kernel_size == stem.stride
    kernel = stride + 2 if patches else stem.kernel_size[0]
    padding = 1 if patches else kernel // 2
    with seeded(seed):
        new = nn.Conv2d(stem.in_channels, stem.out_channels, kernel, stride, padding, bias=stem.bias is not None)
    if new.weight.shape == stem.weight.shape:
        new.load_state_dict(stem.state_dict())
    elif loaded:
        note(f"the stem ({names[0]}) is new: its kernel is {kernel} x {kernel} for latents of {side} px")
    parent, _, last = names[0].rpartition(".")
    setattr(network.get_submodule(parent), last, new)


def new_branch(trunk: Trunk, shape: tuple[int, int, int], form: Form, dimension: int, seed: int) -> LatentNetwork:
    """Extend a backbone by a new layer to the features and a new head, drawn from a seed by torch's own rule.

    The head, however, begins as minus the city-block distance: each weight is -40 / d, the bias 2. So no pair is as
    alike
    as an image and itself (probability 0.88), and features 0.05 apart are even. Torch's rule gives half of the weights
    the other sign, and a training then spends its first epochs turning them.

    Args:
        trunk: Backbone from latents to [b, k]; it is not copied.
        shape: Channels, height and width of a latent.
        form: Form of the kind.
        dimension: Number d of features.
        seed: Random seed of the two layers.

    Raises:
        InputError: The backbone gives no vector of such latents.
    """
    trunk.eval()
    try:
        with torch.inference_mode():
            features = trunk(torch.zeros(2, *shape))
    except (RuntimeError, AttributeError, AssertionError, TypeError, ValueError) as error:
        raise InputError(
            f"the backbone gives no features of latents {list(shape)}: {one_line(error, 160)}; name a convolutional "
            "one, such as convnext_tiny"
        ) from None
    if features.ndim != 2:
        raise InputError(f"the backbone gives features of shape {list(features.shape)}; needed is a vector an image")
    with seeded(seed):
        network = LatentNetwork(trunk, nn.Linear(features.shape[1], dimension), form, shape[0])
    if network.head is not None:
        with torch.no_grad():
            network.head.weight.fill_(-_HEAD_SUM / dimension)
            network.head.bias.fill_(_HEAD_BIAS)
    network.requires_grad_(False)
    for parameter in network.trained():
        parameter.requires_grad_(True)
    return network


@dataclass(frozen=True, kw_only=True)
class LatentConfig(DetectorConfig):
    """Configuration of a Siamese detector in ``detector.json``."""

    encoder: str
    """Name of the encoder of the latents."""
    latent_shape: tuple[int, int, int]
    """Channels, height and width of a latent."""
    stage: int
    """Stage of the training: 1 on clean latents; 2 on latents of augmented images after that."""
    calibration: dict[str, Any]
    """Calibration of its logits on validation pairs; empty where it has none."""


@dataclass(frozen=True, eq=False)
class LatentDetector(SourceSearch):
    """A Siamese detector, ready for use."""

    branch: LatentNetwork
    """Branch from latents to features, in evaluation mode."""
    encoder: LatentEncoder
    """Encoder of the latents."""
    config: LatentConfig
    """Configuration of the detector."""
    seen: pd.DataFrame
    """Table with ``part, pixel_hash, group_hash`` of each image that it was trained or chosen on."""

    @cached_property
    def network(self) -> PixelNetwork:
        """Return the network from pixels in [0, 1], prepared by ``config.preprocessing``, to features.

        Raises:
            InputError: Its latents were given, so that their encoder is not known.
        """
        return PixelNetwork(self.encoder.load(), self.branch).eval()

    @property
    def head(self) -> Head | None:
        """Return the linear layer over absolute differences; None where features are compared by a measure."""
        layer = self.branch.head
        return None if layer is None else check_head(layer.weight, layer.bias, self.config.dimension)

    @property
    def earlier(self) -> TrainingRecord | None:
        """Return the record of the encoder of its latents; None where it has seen no image or that is not known."""
        return self.encoder.seen

    @property
    def calibration(self) -> dict[str, Any] | None:
        """Return the calibration of its logits on validation pairs."""
        return self.config.calibration or None

    def embed(self, images: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None) -> np.ndarray:
        """Compute the features of images, float32 throughout.

        Args:
            images: Images, uint8 or uint16 [N, H, W, C] of any size: they are resized to the encoder's.
            device: Device that computes; "auto" is a GPU where there is one.
            batch: Number of images at a time.

        Returns:
            Features of the images, [N, d] float32.

        Raises:
            InputError: The input holds no images, colours for an encoder of grey ones, or latents cannot be computed
            here.
        """
        config = self.config
        return embed_images(
            self.network, images, config.preprocessing, config.dimension, config.encoder, device=device, batch=batch
        )

    @property
    def compared_by(self) -> str:
        """Return the measure of its configuration."""
        return self.config.measure

    def embed_latents(
        self, latents: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None
    ) -> np.ndarray:
        """Compute the features of latents, a generator's own for example, without decoding them.

        Args:
            latents: Latents, [N, c, h, w] floating point, as its encoder computes them.
            device: Device that computes.
            batch: Number of latents at a time.

        Returns:
            Features of the latents, [N, d] float32.

        Raises:
            InputError: The latents are of another shape.
        """
        shape = tuple(latents.shape)
        if len(shape) != 4 or shape[1:] != self.config.latent_shape or latents.dtype.kind != "f":
            raise InputError(
                f"latents are {latents.dtype} {list(shape)}; the detector compares floating-point ones of "
                f"[N, {', '.join(map(str, self.config.latent_shape))}] ({self.config.encoder})"
            )
        where = check_device(device)
        size = batch or max(1, min(_LARGEST_BATCH, _VALUES_PER_BATCH // int(np.prod(shape[1:]))))
        self.branch.to(where).eval()
        vectors = np.empty((len(latents), self.config.dimension), np.float32)
        exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), exact:
            for start in range(0, len(latents), size):
                z = torch.from_numpy(np.array(latents[start : start + size], dtype=np.float32)).to(where)
                vectors[start : start + size] = self.branch(z).cpu().numpy()
        return vectors

    def probability(
        self, a: np.ndarray, b: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None
    ) -> np.ndarray:
        """Compute the probability that two images are of one identity, row by row; swapping them gives the same bits.

        Args:
            a: First images, [N, H, W, C] uint8 or uint16.
            b: Second images, as many as the first.
            device: Device that computes.
            batch: Number of images at a time.

        Returns:
            Probability of each pair, [N] float64.

        Raises:
            InputError: The detector has no head, or the images do not fit.
        """
        from scipy.special import expit

        head = self.head
        if head is None:
            raise InputError(
                f"a detector of kind {self.config.kind} gives no probabilities: compare its features by "
                f"{self.config.measure}"
            )
        if len(a) != len(b):
            raise InputError(f"{len(a)} images and {len(b)} images: pairs need as many of either")
        u, v = (self.embed(images, device=device, batch=batch).astype(np.float64) for images in (a, b))
        return expit(head.bias + (np.abs(u - v) * head.weight).sum(axis=1))

    def seen_parts(self, store: ImageStore) -> SeenImages:
        """Return the same as `models.copy_detectors.Detector.seen_parts`; the training of the latents' encoder counts.

        Args:
            store: Store of the images.
        """
        return join_seen(match_seen(self.config, self.seen, store), self.encoder.seen, store)

    def save(self, folder: str | Path) -> None:
        """Write the detector to a folder, its encoder with it; private and atomic, the configuration last."""
        save_encoder(self.encoder, Path(folder) / ENCODER)
        save_detector(folder, self.branch.tensors(), self.seen, self.config)


def load_latent_detector(folder: Path) -> LatentDetector:
    """Load a Siamese detector from its folder, every tensor matched by name and shape.

    Raises:
        InputError: Its files are damaged, incomplete or of another kind.
    """
    config = read_config(folder)
    assert isinstance(config, LatentConfig)
    encoder = load_encoder(folder / ENCODER)
    if encoder.latent_shape != config.latent_shape:
        raise InputError(
            f"{one_line(folder)}: the encoder gives latents {list(encoder.latent_shape)}, the detector was trained on "
            f"{list(config.latent_shape)}"
        )
    trunk = latent_trunk(config.backbone, RANDOM, config.latent_shape, 0)
    branch = new_branch(trunk, config.latent_shape, FORMS[config.kind], config.dimension, 0)
    copy_tensors(branch.tensors(), read_state_dict(folder / WEIGHTS), folder)
    return LatentDetector(branch.eval(), encoder, config, read_seen(folder))
