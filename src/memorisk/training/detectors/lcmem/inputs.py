"""Input of a Siamese detector's training: latents, the identity of each, and the untrained network.

A network begins with the backbone's weights and two new layers. Batches of latents are copied to the device.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.file_hashes import content_fingerprints
from memorisk.images.splits import merge_linked
from memorisk.models.classifiers.specs import is_download, model_spec
from memorisk.models.encoders.feature_sources import RANDOM, parse_source
from memorisk.models.encoders.networks import preparation, state_fingerprint
from memorisk.models.lcmem import FORMS, LatentConfig, LatentNetwork, latent_trunk, new_branch
from memorisk.runs.environment import versions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import json_value
from memorisk.training.autoencoders.latent_store import Latents, channel_statistics
from memorisk.training.detectors.contrastive.inputs import refuse_rows
from memorisk.training.detectors.options import LatentOptions
from memorisk.training.engine.devices import autocast
from memorisk.training.engine.pixels import Normalisation, PixelSource

_SHARE_OF_FREE_MEMORY = 0.5
_PIXELS_AT_ONCE = 1 << 22
_MOST_FOR_STATISTICS = 5000
_WHOLE_RANGE = Normalisation((0.0,), (1.0,))


@dataclass(frozen=True, eq=False)
class PairData:
    """Latents with everything that decides the pairs; arrays [N] are by row of the latents."""

    latents: Latents
    """Latents of all images."""
    rows: np.ndarray
    """Rows to train on."""
    validation: np.ndarray
    """Rows that choose the epoch."""
    identity: np.ndarray
    """Identity of each image, [N]; identities that share an image are one. Without identities a hash of its pixels."""
    dataset: np.ndarray | None
    """Data set of each image, [N]; None where all are of one."""
    identities_known: bool
    """Whether the identities are used."""

    @classmethod
    def build(
        cls, latents: Latents, rows: np.ndarray, validation: np.ndarray, groups: np.ndarray, *, ignore: bool
    ) -> "PairData":
        """Check rows and groups.

        Args:
            latents: Latents of all images.
            rows: Rows to train on.
            validation: Rows that choose the epoch.
            groups: Patient of each image, [N].
            ignore: Whether every file is taken as its own identity.

        Raises:
            InputError: Parts are too small, lie outside the images, or share a patient.
        """
        rows, validation = (np.asarray(chosen, dtype=np.int64) for chosen in (rows, validation))
        named = np.asarray(groups).astype(str)
        refuse_rows(rows, validation, named, len(latents))
        hashes = latents.hashes.astype(str)
        identity = hashes if ignore else merge_linked(named, linked_groups(hashes, named)).astype(str)
        shared = np.intersect1d(identity[rows], identity[validation])
        if len(shared):
            raise InputError(
                f"{len(shared):,} images or patients are in the training and the validation part under different "
                "names: identical images; keep them together"
            )
        return cls(latents, rows, validation, identity, dataset_names(latents), not ignore)

    @cached_property
    def statistics(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number of each image's data set, [N]; mean and deviation of each set, [sets, c], of at most 5,000 images."""
        latents = self.latents
        if self.dataset is None:
            return np.zeros(len(latents), dtype=np.int64), latents.mean[None], latents.std[None]
        names, set_of = np.unique(self.dataset, return_inverse=True)
        moments = []
        for number in range(len(names)):
            rows = np.flatnonzero(set_of == number)
            rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST_FOR_STATISTICS)).astype(np.int64)]
            moments.append(channel_statistics(latents.values[rows]))
        return set_of, np.stack([mean for mean, _ in moments]), np.stack([std for _, std in moments])


def dataset_names(latents: Latents) -> np.ndarray | None:
    """Return the data set of each image, [N], or None where all are of one."""
    table = latents.manifest.table
    names = np.array(table["dataset"].tolist(), dtype=str) if "dataset" in table else np.empty(0, dtype=str)
    return names if len(np.unique(names)) > 1 else None


class LatentSource:
    """Latents of chosen rows on the device; copied to a GPU once if they fit there.

    Args:
        values: Latents, [N, c, h, w] float32, perhaps a memory map.
        device: Device on which they are needed.
    """

    def __init__(self, values: np.ndarray, device: torch.device) -> None:
        self.values, self.device = values, device
        self.held: torch.Tensor | None = None
        if device.type == "cuda" and values.nbytes <= _SHARE_OF_FREE_MEMORY * torch.cuda.mem_get_info(device)[0]:
            self.held = torch.from_numpy(np.array(values)).to(device)

    def __call__(self, rows: np.ndarray) -> torch.Tensor:
        """Return the latents of some rows, [b, c, h, w]."""
        if self.held is not None:
            return self.held[torch.from_numpy(rows).to(self.device)]
        return torch.from_numpy(np.array(self.values[rows])).to(self.device)


class AugmentedEncoder:
    """Pixels of chosen rows, and latents of pixels by the frozen encoder.

    Args:
        latents: Latents with their images.
        device: Device to compute on.
        precision: Arithmetic of the encoder.
    """

    def __init__(self, latents: Latents, device: torch.device, precision: str) -> None:
        assert latents.store is not None
        images, encoder = latents.store.images, latents.encoder
        every = np.arange(len(images))
        self.source = PixelSource(images, every, device=device, dtype=torch.float32, normalisation=_WHOLE_RANGE)
        self.module: nn.Module = encoder.load().to(device).eval()
        self.prepare = preparation(encoder.preprocessing, device, torch.float32)
        self.device, self.precision = device, "fp32" if encoder.kind == "pixels" else precision
        self.at_once = max(1, _PIXELS_AT_ONCE // (encoder.size[0] * encoder.size[1]))

    def pixels(self, rows: np.ndarray) -> torch.Tensor:
        """Return the pixels of some rows, [b, C, H, W] in [0, 1], as stored."""
        return next(self.source.batches([torch.from_numpy(rows)]))

    @torch.no_grad()
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Encode [b, C, H, W] in [0, 1] to latents [b, c, h, w] float32."""
        latents = []
        for some in x.split(self.at_once):
            with autocast(self.device, self.precision):
                latents.append(self.module(self.prepare(some.to(self.device))).float())
        return torch.cat(latents)


_NOT_OF_THE_RECIPE = ("backbone", "encoder", "device", "checkpoint_seconds")


@dataclass(frozen=True)
class InitialNetwork:
    """Network before its first step."""

    branch: LatentNetwork
    """Network with the backbone's weights and new layers."""
    config: LatentConfig
    """Configuration of stage 1, best epoch 0."""
    notes: tuple[str, ...]
    """Notes for the report, one sentence each."""


def build_initial_network(latents: Latents, options: LatentOptions) -> InitialNetwork:
    """Build the network that a training starts from.

    Args:
        latents: Latents of the images.
        options: Settings, filled in.

    Raises:
        InputError: The backbone is not available, or does not take such latents.
    """
    source = parse_source(options.backbone or "")
    if source.kind != "network" or source.weights is None:
        raise InputError(
            f"a detector's backbone is a network of timm with its weights, as in convnext_tiny@none or resnet50@FILE; "
            f"{one_line(source.shown, 60)} is none"
        )
    done: list[str] = []

    def note(text: str) -> None:
        """Keep a note on the changes that made weights fit, except those of the head, which is not used."""
        if "head" not in text:
            done.append(text)

    shape, form = latents.encoder.latent_shape, FORMS[options.kind]
    assert options.dimension is not None
    trunk = latent_trunk(source.name, source.weights, shape, options.seed, note)
    branch = new_branch(trunk, shape, form, options.dimension, options.seed)
    if not form.by_sample:
        branch.mean.copy_(torch.from_numpy(latents.mean))
        branch.std.copy_(torch.from_numpy(latents.std))
    name = source.name.removeprefix("timm:")
    words, content = _weights(source.name, source.weights, trunk, options.seed)
    notes = (*latents.encoder.notes, *(f"Weights of {name}: {one_line(text, 300)}." for text in done))
    return InitialNetwork(branch, _config(latents, options, name, words, content), notes)


def _config(latents: Latents, options: LatentOptions, name: str, words: str, content: str) -> LatentConfig:
    encoder, store, form = latents.encoder, latents.store, FORMS[options.kind]
    share = options.bce_share
    return LatentConfig(
        kind=options.kind,
        backbone=name,
        weights=words,
        weights_fingerprint=content,
        preprocessing=encoder.preprocessing,
        stored=(0, 0, 0) if store is None else store.shape,
        depth=store.images.dtype.itemsize * 8 if store is not None else 0,
        dimension=options.dimension or 0,
        measure=form.measure,
        loss={1.0: "bce", 0.0: "ntxent"}.get(share if share is not None else -1.0, "bce + ntxent"),
        protocol=options.protocol,
        recipe=recipe(options),
        departures=(),
        best_epoch=0,
        data_hash=latents.data_hash,
        groups_given=latents.manifest.groups_given,
        versions=versions(),
        encoder=encoder.name,
        latent_shape=encoder.latent_shape,
        stage=1,
        calibration={},
    )


def recipe(options: LatentOptions) -> dict[str, Any]:
    """Return every setting except device and frequency of checkpoints; networks only by their names."""
    settings = {name: value for name, value in asdict(options).items() if name not in _NOT_OF_THE_RECIPE}
    return json_value(settings | {"optimizer": "adam", "schedule": "constant"})


def _weights(name: str, weights: str, trunk: torch.nn.Module, seed: int) -> tuple[str, str]:
    """Name the weights that a network starts from, with their hash."""
    spec = model_spec(name)
    if weights == RANDOM:
        return f"random (seed {seed})", state_fingerprint(trunk)
    if is_download(weights, spec):
        return f"{spec.default_weights if weights == 'default' else weights}, downloaded", state_fingerprint(trunk)
    return Path(weights).name, content_fingerprints([weights], None)[weights]
