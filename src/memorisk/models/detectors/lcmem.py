"""Siamese detectors over latents: LCMem (paper 004), and the baselines of Packhaeuser and Dar, with their folder.

    u = sigmoid(W S(norm(E(x))) + b),   P(same identity) = sigmoid(v |u - u'| + c)

E turns an image into its latent (`memorisk.models.autoencoders.latents`), norm brings each channel of a latent to mean
0 and deviation 0.5, S is a backbone of timm up to its head, W goes to d = 512 features, v is the head.

==================  ========  ==============  ======  ==================================================================
kind                features  normalised by   head    source
==================  ========  ==============  ======  ==================================================================
``lcmem``           sigmoid   the sample      linear  paper 004
``siamese``         sigmoid   the data set    linear  Packhaeuser et al. 2022: ResNet on pixels, binary cross-entropy
``siamese-ntxent``  as is     the data set    none    Dar et al. 2024: NT-Xent, compared by the cosine of the features
==================  ========  ==============  ======  ==================================================================

A folder holds ``weights.safetensors``, ``detector.json``, ``seen.parquet`` as `memorisk.models.detectors.detectors`
says, and ``encoder/``, the whole encoder of the latents.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from memorisk.images.store import ImageStore
from memorisk.models.autoencoders.latents import LatentEncoder, load_encoder, save_encoder
from memorisk.models.autoencoders.latents_seen import joined
from memorisk.models.detectors.detectors import embed_images
from memorisk.models.detectors.folder import (
    WEIGHTS,
    DetectorConfig,
    Seen,
    put_tensors,
    read_config,
    read_seen,
    save_detector,
    seen_parts,
)
from memorisk.models.detectors.lcmem_network import FORMS, LatentNetwork, PixelNetwork, latent_trunk, new_branch
from memorisk.models.encoders.encoders import RANDOM
from memorisk.models.weights.weights import read_state_dict
from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.pairs import Head, check_head

DIMENSION = 512
ENCODER = "encoder"
_VALUES_PER_BATCH = 1 << 22
_LARGEST_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class LatentConfig(DetectorConfig):
    """What ``detector.json`` says of a Siamese detector."""

    encoder: str
    """Of the latents, by its name."""
    latent_shape: tuple[int, int, int]
    """Channels, height and width of a latent."""
    stage: int
    """1: trained on clean latents; 2: on latents of augmented images after that."""
    calibration: dict[str, Any]
    """What its logits are on validation pairs; empty where it has none."""


@dataclass(frozen=True, eq=False)
class LatentDetector:
    """A Siamese detector, ready to be asked."""

    branch: LatentNetwork
    """From latents to features, in evaluation mode."""
    encoder: LatentEncoder
    """Of the latents."""
    config: LatentConfig
    """How it was made."""
    seen: pd.DataFrame
    """``part, pixel_hash, group_hash`` of each image that it was trained or chosen on."""

    @cached_property
    def network(self) -> PixelNetwork:
        """From pixels in [0, 1], prepared as ``config.preprocessing`` says, to features.

        Raises:
            InputError: Its latents were given, so that nobody knows how images become such ones.
        """
        return PixelNetwork(self.encoder.load(), self.branch).eval()

    @property
    def head(self) -> Head | None:
        """The linear layer over absolute differences; None where features are compared by a measure."""
        layer = self.branch.head
        return None if layer is None else check_head(layer.weight, layer.bias, self.config.dimension)

    @property
    def calibration(self) -> dict[str, Any] | None:
        """What its logits are on validation pairs."""
        return self.config.calibration or None

    def embed(self, images: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None) -> np.ndarray:
        """The features of images, float32 throughout.

        Args:
            images: uint8 or uint16 [N, H, W, C] of any size: they are resized to the encoder's.
            device: Where to compute; "auto" is a GPU where there is one.
            batch: Images at a time.

        Returns:
            [N, d] float32.

        Raises:
            InputError: No images, colours for an encoder of grey ones, or latents that cannot be computed here.
        """
        config = self.config
        return embed_images(
            self.network, images, config.preprocessing, config.dimension, config.encoder, device=device, batch=batch
        )

    def embed_latents(
        self, latents: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None
    ) -> np.ndarray:
        """The features of latents, a generator's own for example, without decoding them.

        Args:
            latents: [N, c, h, w] floating point, as its encoder gives them.
            device: Where to compute.
            batch: Latents at a time.

        Returns:
            [N, d] float32.

        Raises:
            InputError: Latents of another shape.
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
        found = np.empty((len(latents), self.config.dimension), np.float32)
        exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), exact:
            for start in range(0, len(latents), size):
                z = torch.from_numpy(np.array(latents[start : start + size], dtype=np.float32)).to(where)
                found[start : start + size] = self.branch(z).cpu().numpy()
        return found

    def probability(
        self, a: np.ndarray, b: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None
    ) -> np.ndarray:
        """Probability that two images are of one identity, row by row: the same both ways round, to the bit.

        Args:
            a: [N, H, W, C] uint8 or uint16.
            b: As many.
            device: Where to compute.
            batch: Images at a time.

        Returns:
            [N] float64.

        Raises:
            InputError: A detector without a head, or other images.
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

    def seen_parts(self, store: ImageStore) -> Seen:
        """As `models.detectors.detectors.Detector.seen_parts`; what the encoder of the latents was trained on counts.

        Args:
            store: The images.
        """
        return joined(seen_parts(self.config, self.seen, store), self.encoder.seen, store)

    def save(self, folder: str | Path) -> None:
        """Write the detector to a folder, its encoder with it; private and atomic, the configuration last."""
        save_encoder(self.encoder, Path(folder) / ENCODER)
        save_detector(folder, self.branch.tensors(), self.seen, self.config)


def load_latent_detector(folder: Path) -> LatentDetector:
    """A Siamese detector from its folder, every tensor matched by name and shape.

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
    put_tensors(branch.tensors(), read_state_dict(folder / WEIGHTS), folder)
    return LatentDetector(branch.eval(), encoder, config, read_seen(folder))
