"""Weights of diffusion transformers: from the folder of a generator, from one of diffusers, or by name where asked.

Loading is strict: a tensor that is missing, unknown, of another shape or not finite is refused. Of weights that were
trained on other images, the class table alone may be new, or embeddings of vectors in its place.
"""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.models.autoencoders.autoencoders import check_library
from memorisk.models.autoencoders.latents_seen import TrainedOn, read_trained_on
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.encoders.encoders import DEFAULT
from memorisk.models.generators.dit.diffusers_weights import CONFIG, fetch, fill, read_tensors
from memorisk.models.generators.dit.network import (
    DiTSpec,
    adapt_conditions,
    begin_conditions,
    built,
    parse_size,
    spec_of,
)
from memorisk.runs.damaged import ASTRAY
from memorisk.runs.errors import InputError, one_line

TRANSFORMER, VAE, SCHEDULER = "transformer", "vae", "scheduler"
_CLASSES = ("DiTTransformer2DModel", "Transformer2DModel")  # the paper's converted weights say the second
_TABLE = ".norm1.emb.class_embedder."


@dataclass(frozen=True)
class DiTFolder:
    """A diffusion transformer of diffusers on the disk: a pipeline's, or the transformer's folder alone."""

    name: str
    """As a report may show it."""
    transformer: Path
    """Of ``config.json`` and weights."""
    vae: Path | None
    """Of the autoencoder whose latents it draws, where there is one."""
    seen: TrainedOn | None = None
    """What it was trained on, where it is a generator that was trained here."""


def find_dit(text: str) -> DiTFolder:
    """Where the weights lie that a user names.

    Args:
        text: A folder of diffusers (of a pipeline or of a transformer), its file of weights, the run folder of a
            generator that was trained here, or ``NAME@default``: a pipeline by its name on the hub, which downloads,
            because it is asked for by name.

    Raises:
        InputError: There is none, or what it was trained on cannot be read.
    """
    root = Path(text)
    if text.endswith(f"@{DEFAULT}") and not root.exists():
        root = _downloaded(text.removesuffix(f"@{DEFAULT}"))
    elif root.is_file():
        root = root.parent
    if not root.is_dir():
        raise InputError(
            f"there is no folder {one_line(text)} of a diffusion transformer; {one_line(text, 60)}@{DEFAULT} looks for "
            "this name on the hub"
        )
    name = text if text.endswith(f"@{DEFAULT}") else root.resolve().name
    if not (root / TRANSFORMER / CONFIG).is_file() and (root / "generator" / TRANSFORMER / CONFIG).is_file():
        root = root / "generator"
    if (root / TRANSFORMER / CONFIG).is_file():
        vae = root / VAE
        known = vae if (vae / CONFIG).is_file() else None
        return DiTFolder(one_line(name, 60), root / TRANSFORMER, known, read_trained_on(root))
    if not (root / CONFIG).is_file():
        raise InputError(
            f"{one_line(text)} holds neither {TRANSFORMER}/{CONFIG} nor {CONFIG}: it is no DiT of diffusers"
        )
    beside = root.parent / VAE
    known = beside if (beside / CONFIG).is_file() else None
    return DiTFolder(one_line(name, 60), root, known, read_trained_on(root.parent))


def open_dit(
    text: str,
    *,
    side: int,
    channels: int,
    conditioned_on: str = "class",
    classes: int = 0,
    condition_dim: int = 0,
    learn_sigma: bool | None = None,
    size: str | None = None,
    seed: int = 0,
) -> Any:
    """A network that begins with weights that are there.

    Its class table is kept where the number of classes is the same; else, and for vectors, a new random embedding takes
    its place. Positions are computed for ``side``.

    Args:
        text: As for `find_dit`; ``facebook/DiT-XL-2-256@default`` are the paper's, of ImageNet.
        side: Numbers of a latent (or pixels) a side.
        channels: Of a latent (or of the pixels).
        conditioned_on: ``none``, ``class`` or ``vector``.
        classes: Of ``class``.
        condition_dim: Of ``vector``.
        learn_sigma: Whether it gives a variance; None for as the weights have it.
        size: As ``XL/2``, where the weights must be of this size.
        seed: Of a new embedding.

    Returns:
        As `memorisk.models.generators.dit.network.new_dit`.

    Raises:
        InputError: There are no such weights, or they do not fit.
        MissingExtraError: diffusers is not there.
    """
    check_library("a diffusion transformer")
    found = find_dit(text)
    said = f"DiT {found.name}"
    config = read_architecture(found.transformer, said)
    tensors = read_tensors(found.transformer, said)
    with seeded(seed):
        own = spec_of(build(config, said))
    _check_fit(said, own, channels=channels, learn_sigma=learn_sigma, size=size)
    spec = DiTSpec(
        **{name: getattr(own, name) for name in ("hidden", "depth", "heads", "patch", "channels", "learn_sigma")},
        side=side,
        conditioned_on=conditioned_on,
        classes=classes,
        condition_dim=condition_dim,
    )
    spec.validate()
    kept = conditioned_on == "class" and classes == config["num_embeds_ada_norm"]
    with seeded(seed):
        network = build({**config, "sample_size": side, "num_embeds_ada_norm": spec.rows}, said)
        adapt_conditions(network, condition_dim)
        begin_conditions(network)
    if not kept:
        tensors = {name: t for name, t in tensors.items() if _TABLE not in name}
    fill(network, tensors, said, new=() if kept else (_TABLE,))
    return network.train()


def read_architecture(folder: Path, said: str) -> dict[str, Any]:
    """What ``config.json`` says a network is built from.

    Args:
        folder: Of a transformer.
        said: What it is called in messages.

    Raises:
        InputError: There is none, or it is of another class.
    """
    try:
        found = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        name, norm = found.get("_class_name"), found.get("norm_type", "ada_norm_zero")
        if name not in _CLASSES or norm != "ada_norm_zero" or not isinstance(found["num_embeds_ada_norm"], int):
            raise ValueError(f"it is of class {one_line(name, 60)} ({one_line(norm, 40)}), and {_CLASSES[0]} is read")
        sizes = [found[key] for key in ("num_attention_heads", "attention_head_dim", "in_channels", "num_layers")]
        sizes += [found["sample_size"], found["patch_size"], found["num_embeds_ada_norm"]]
        if (
            not all(isinstance(value, int) and value > 0 for value in sizes)
            or found["sample_size"] % found["patch_size"]
        ):
            raise ValueError("its sizes are no whole numbers from 1 that fit each other")
    except ASTRAY as error:
        raise InputError(f"{CONFIG} of {said} cannot be used: {one_line(error, 120)}") from None
    return found


def build(config: Mapping[str, Any], said: str) -> Any:
    """A network of a configuration, in which other classes of diffusers may have left settings of theirs.

    Raises:
        InputError: It cannot be built.
    """
    from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel

    known = set(inspect.signature(DiTTransformer2DModel.__init__).parameters)
    try:
        return built({name: value for name, value in config.items() if name in known})
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        raise InputError(f"{said} cannot be built from its configuration: {one_line(error, 160)}") from None


def _check_fit(said: str, own: DiTSpec, *, channels: int, learn_sigma: bool | None, size: str | None) -> None:
    """Refuse weights whose input, output or size is another."""
    if own.channels != channels:
        raise InputError(
            f"{said} draws {own.channels} channels, and {channels} are asked for: name the autoencoder whose latents "
            "have as many, or train without these weights"
        )
    if learn_sigma is not None and own.learn_sigma != learn_sigma:
        has = "gives a variance beside the noise" if own.learn_sigma else "gives no variance"
        raise InputError(f"{said} {has}: set learn_sigma to {str(own.learn_sigma).lower()}, or leave it out")
    if size is not None and parse_size(size) != (own.hidden, own.depth, own.heads, own.patch):
        raise InputError(
            f"{said} has {own.depth} blocks of width {own.hidden} with {own.heads} heads and a patch of {own.patch}, "
            f"which is not {one_line(size, 40)}"
        )


def _downloaded(name: str) -> Path:
    """The folder of the hub's cache that holds a pipeline's parts."""
    more = ("model_index.json", f"{SCHEDULER}/scheduler_config.json")
    return fetch(name, (TRANSFORMER, VAE), f"{one_line(name, 80)}@{DEFAULT}", more)
