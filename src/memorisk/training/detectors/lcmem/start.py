"""A Siamese detector before its first step: the backbone's weights, two new layers, and how it will be trained."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from memorisk.images.cache import content_fingerprints
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import is_download
from memorisk.models.detectors.lcmem import LatentConfig
from memorisk.models.detectors.lcmem_network import FORMS, LatentNetwork, latent_trunk, new_branch
from memorisk.models.encoders.encoders import RANDOM, parse_source
from memorisk.models.encoders.networks import state_fingerprint
from memorisk.runs.environment import versions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import plain
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.detectors.lcmem.options import LatentOptions

_NOT_THE_TRAINING = ("backbone", "encoder", "device", "checkpoint_seconds")


@dataclass(frozen=True)
class LatentStart:
    """What a training starts from."""

    branch: LatentNetwork
    """With the backbone's weights and new layers."""
    config: LatentConfig
    """Of stage 1, best epoch 0."""
    notes: tuple[str, ...]
    """What a report must say."""


def latent_start(latents: Latents, options: LatentOptions) -> LatentStart:
    """The network that a training starts from.

    Args:
        latents: Of the images.
        options: Filled.

    Raises:
        InputError: The backbone cannot be had, or does not take such latents.
    """
    source = parse_source(options.backbone or "")
    if source.kind != "network" or source.weights is None:
        raise InputError(
            f"a detector's backbone is a network of timm with its weights, as in convnext_tiny@none or resnet50@FILE; "
            f"{one_line(source.shown, 60)} is none"
        )
    done: list[str] = []

    def note(text: str) -> None:
        """Keep what was done to make weights fit; nobody asks for the head."""
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
    said = (*latents.encoder.notes, *(f"Weights of {name}: {one_line(text, 300)}." for text in done))
    return LatentStart(branch, _config(latents, options, name, words, content), said)


def _config(latents: Latents, options: LatentOptions, name: str, words: str, content: str) -> LatentConfig:
    encoder, store, form = latents.encoder, latents.store, FORMS[options.kind]
    share = options.bce_share
    stored = tuple(int(n) for n in store.images.shape[1:]) if store is not None else (0, 0, 0)
    return LatentConfig(
        kind=options.kind,
        backbone=name,
        weights=words,
        weights_fingerprint=content,
        preprocessing=encoder.preprocessing,
        stored=(stored[0], stored[1], stored[2]),
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
    """Every setting but where and how often it is kept; networks by their names only."""
    given = {name: value for name, value in asdict(options).items() if name not in _NOT_THE_TRAINING}
    return plain(given | {"optimizer": "adam", "schedule": "constant"})


def _weights(name: str, weights: str, trunk: torch.nn.Module, seed: int) -> tuple[str, str]:
    """What a network started from in words, and a hash of it."""
    spec = model_spec(name)
    if weights == RANDOM:
        return f"random (seed {seed})", state_fingerprint(trunk)
    if is_download(weights, spec):
        return f"{spec.default_weights if weights == 'default' else weights}, downloaded", state_fingerprint(trunk)
    return Path(weights).name, content_fingerprints([weights], None)[weights]
