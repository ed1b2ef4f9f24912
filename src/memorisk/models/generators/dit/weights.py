"""Weights of a diffusion transformer that exist already: found, checked, and opened to be trained further.

Weights come from the folder of a generator, from one of diffusers, or by name on request. Loading is strict: a tensor
that is missing, unknown, of another shape or not finite is refused. With weights that were trained on other images,
only the class table may be new, or embeddings of vectors in its place.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.models.autoencoder import check_library
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.encoders.feature_sources import DEFAULT
from memorisk.models.generators.dit.network import (
    DiTSpec,
    adapt_conditions,
    build_transformer,
    init_conditions,
    spec_of,
)
from memorisk.models.hub import CONFIG, download_folder, fill_network, read_tensors
from memorisk.models.provenance import TrainingRecord, read_training_record
from memorisk.models.settings import parse_size
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line
from memorisk.runs.files import read_json

TRANSFORMER, VAE, SCHEDULER = "transformer", "vae", "scheduler"
_CLASSES = ("DiTTransformer2DModel", "Transformer2DModel")  # the paper's converted weights say the second
_TABLE = ".norm1.emb.class_embedder."


@dataclass(frozen=True)
class DiTFolder:
    """A diffusion transformer of diffusers on the disk: a pipeline's, or the transformer's folder alone."""

    name: str
    """Name for a report."""
    transformer: Path
    """Folder with ``config.json`` and weights."""
    vae: Path | None
    """Folder of the autoencoder whose latents it draws, where there is one."""
    seen: TrainingRecord | None = None
    """Record of its training, where it is a generator that was trained here."""


def find_dit(text: str) -> DiTFolder:
    """Find the weights that a user names.

    Args:
        text: Folder of diffusers (of a pipeline or of a transformer), its file of weights, the run folder of a
            generator that was trained here, or ``NAME@default``: a pipeline by its name on the hub, which downloads,
            because the user names it.

    Raises:
        InputError: The weights do not exist, or the record of their training cannot be read.
    """
    root = Path(text)
    if text.endswith(f"@{DEFAULT}") and not root.exists():
        root = _downloaded(text.removesuffix(f"@{DEFAULT}"))
    elif root.is_file():
        root = root.parent
    if not root.is_dir():
        raise InputError(
            f"folder {one_line(text)} of a diffusion transformer does not exist; {one_line(text, 60)}@{DEFAULT} looks "
            "for this name on the hub"
        )
    name = text if text.endswith(f"@{DEFAULT}") else root.resolve().name
    if not (root / TRANSFORMER / CONFIG).is_file() and (root / "generator" / TRANSFORMER / CONFIG).is_file():
        root = root / "generator"
    if (root / TRANSFORMER / CONFIG).is_file():
        vae = root / VAE
        vae_folder = vae if (vae / CONFIG).is_file() else None
        return DiTFolder(one_line(name, 60), root / TRANSFORMER, vae_folder, read_training_record(root))
    if not (root / CONFIG).is_file():
        raise InputError(
            f"{one_line(text)} holds neither {TRANSFORMER}/{CONFIG} nor {CONFIG}: it is not a DiT of diffusers"
        )
    beside = root.parent / VAE
    vae_folder = beside if (beside / CONFIG).is_file() else None
    return DiTFolder(one_line(name, 60), root, vae_folder, read_training_record(root.parent))


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
    """Open a network that begins with existing weights.

    It keeps the class table of the weights where the number of classes is the same; else, and for vectors, a new random
    embedding takes its place. Positions are computed for ``side``.

    Args:
        text: Name of the weights, as for `find_dit`; ``facebook/DiT-XL-2-256@default`` are the paper's, of ImageNet.
        side: Side of a latent in numbers, or of the image in pixels.
        channels: Number of channels of a latent, or of the pixels.
        conditioned_on: Kind of the condition: ``none``, ``class`` or ``vector``.
        classes: Number of classes, for ``class``.
        condition_dim: Length of a condition, for ``vector``.
        learn_sigma: Whether it gives a variance; None for as the weights do.
        size: Size such as ``XL/2``, where the weights must be of this size.
        seed: Random seed of a new embedding.

    Returns:
        Network as `memorisk.models.generators.dit.network.new_dit` returns it.

    Raises:
        InputError: The weights do not exist, or do not fit.
        MissingExtraError: diffusers is not installed.
    """
    check_library("a diffusion transformer")
    source = find_dit(text)
    title = f"DiT {source.name}"
    config = read_architecture(source.transformer, title)
    tensors = read_tensors(source.transformer, title)
    with seeded(seed):
        own = spec_of(build_from_config(config, title))
    _check_fit(title, own, channels=channels, learn_sigma=learn_sigma, size=size)
    spec = DiTSpec(
        **{name: getattr(own, name) for name in ("hidden", "depth", "heads", "patch", "channels", "learn_sigma")},
        side=side,
        conditioned_on=conditioned_on,
        classes=classes,
        condition_dim=condition_dim,
    )
    spec.validate()
    keeps_classes = conditioned_on == "class" and classes == config["num_embeds_ada_norm"]
    with seeded(seed):
        network = build_from_config({**config, "sample_size": side, "num_embeds_ada_norm": spec.rows}, title)
        adapt_conditions(network, condition_dim)
        init_conditions(network)
    if not keeps_classes:
        tensors = {name: t for name, t in tensors.items() if _TABLE not in name}
    fill_network(network, tensors, title, new=() if keeps_classes else (_TABLE,))
    return network.train()


def read_architecture(folder: Path, title: str) -> dict[str, Any]:
    """Read the architecture from ``config.json``.

    Args:
        folder: Folder of a transformer.
        title: Name of the network in messages.

    Raises:
        InputError: The file is missing, or of another class.
    """
    try:
        config = read_json(folder / CONFIG)
        name, norm = config.get("_class_name"), config.get("norm_type", "ada_norm_zero")
        if name not in _CLASSES or norm != "ada_norm_zero" or not isinstance(config["num_embeds_ada_norm"], int):
            raise ValueError(f"it is of class {one_line(name, 60)} ({one_line(norm, 40)}), and {_CLASSES[0]} is read")
        sizes = [config[key] for key in ("num_attention_heads", "attention_head_dim", "in_channels", "num_layers")]
        sizes += [config["sample_size"], config["patch_size"], config["num_embeds_ada_norm"]]
        if (
            not all(isinstance(value, int) and value > 0 for value in sizes)
            or config["sample_size"] % config["patch_size"]
        ):
            raise ValueError("its sizes are not whole numbers of at least 1 that fit each other")
    except CONTENT_ERRORS as error:
        raise InputError(f"{CONFIG} of {title} cannot be used: {one_line(error, 120)}") from None
    return config


def build_from_config(config: Mapping[str, Any], title: str) -> Any:
    """Build a network from a configuration, which may hold settings of other classes of diffusers.

    Raises:
        InputError: The network cannot be built.
    """
    from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel

    parameters = set(inspect.signature(DiTTransformer2DModel.__init__).parameters)
    try:
        return build_transformer({name: value for name, value in config.items() if name in parameters})
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        raise InputError(f"{title} cannot be built from its configuration: {one_line(error, 160)}") from None


def _check_fit(title: str, own: DiTSpec, *, channels: int, learn_sigma: bool | None, size: str | None) -> None:
    """Refuse weights with another input, output or size."""
    if own.channels != channels:
        raise InputError(
            f"{title} draws {own.channels} channels, and {channels} are requested: name the autoencoder whose latents "
            "have as many, or train without these weights"
        )
    if learn_sigma is not None and own.learn_sigma != learn_sigma:
        has = "gives a variance besides the noise" if own.learn_sigma else "gives no variance"
        raise InputError(f"{title} {has}: set learn_sigma to {str(own.learn_sigma).lower()}, or leave it out")
    if size is not None and parse_size(size) != (own.hidden, own.depth, own.heads, own.patch):
        raise InputError(
            f"{title} has {own.depth} blocks of width {own.hidden} with {own.heads} heads and a patch of {own.patch}, "
            f"which is not {one_line(size, 40)}"
        )


def _downloaded(name: str) -> Path:
    """Return the folder of the hub's cache that holds a pipeline's parts."""
    more = ("model_index.json", f"{SCHEDULER}/scheduler_config.json")
    return download_folder(name, (TRANSFORMER, VAE), f"{one_line(name, 80)}@{DEFAULT}", more)
