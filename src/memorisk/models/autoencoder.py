"""Autoencoders of diffusers (AutoencoderKL) as encoders of latents: from a folder, or by name on request.

Loading is strict and no code in a folder is run (`memorisk.models.hub`). A latent is the mean of the posterior, shifted
and scaled as in the configuration: ``(mean - shift) scaling``, or with a mean and deviation per channel
``(mean - m_c) scaling / s_c``.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from memorisk.images.file_hashes import content_fingerprints
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.encoders.feature_sources import DEFAULT
from memorisk.models.encoders.networks import StoredShape, check_channels, size_notes
from memorisk.models.hub import (
    CONFIG,
    download_folder,
    fill_network,
    missing_weights,
    quiet,
    read_tensors,
    refuse_mismatch,
    weight_files,
)
from memorisk.models.latents import LatentEncoder
from memorisk.models.provenance import TrainingRecord, read_training_record
from memorisk.models.weight_files import save_weights
from memorisk.runs.errors import CONTENT_ERRORS, InputError, MissingExtraError, one_line
from memorisk.runs.files import file_fingerprint, fingerprint

DIFFUSERS_CLASS, ENCODER_FILE = "AutoencoderKL", "encoder.safetensors"
_CODE = 1  # part of the identity: a change of what is computed makes new latents
_INSIDE = (".", "autoencoder", "vae")
_ATTENTION_LAYERS = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
_OLD_ATTENTION = re.compile(rf"(.*\.attentions\.\d+)\.({'|'.join(_ATTENTION_LAYERS)})\.(weight|bias)")
_MOST_LAYERS, _WIDEST = 64, 1 << 16
"""Most layers of a block and largest value of any other size, far above published networks; larger ones are refused."""


class PosteriorMean(nn.Module):
    """Encoding half of an autoencoder.

    Args:
        network: Autoencoder (AutoencoderKL); its encoder is not copied.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.encoder: nn.Module = network.encoder
        self.quant_conv: nn.Module | None = network.quant_conv
        self.config = {name: value for name, value in dict(network.config).items() if not name.startswith("_")}
        shift, scale = _affine(self.config)
        self.register_buffer("shift", shift, persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, H, W] in [0, 1] to latents [b, c, h, w]."""
        moments = self.encoder(x * 2 - 1)
        moments = moments if self.quant_conv is None else self.quant_conv(moments)
        return (moments.chunk(2, dim=1)[0] - self.shift) * self.scale


def open_autoencoder(text: str, stored: StoredShape, *, size: int | None, books: Path | None) -> LatentEncoder:
    """Open the encoder of an autoencoder of diffusers.

    Args:
        text: Folder of the autoencoder, or ``NAME@default``.
        stored: Height, width and channels of the images.
        size: Side in pixels; by default the ``sample_size`` of its configuration.
        books: Cache folder of hashes, as for `memorisk.models.latents.open_latents`.

    Raises:
        InputError: The folder or name does not exist, or has no AutoencoderKL that takes images of this size and these
        channels.
        MissingExtraError: diffusers is not installed.
    """
    check_library("latents of an autoencoder")
    folder = _folder(text)
    title = f"autoencoder {one_line(Path(text.removesuffix(f'@{DEFAULT}')).name or folder.resolve().name, 60)}"
    config = read_config(folder, title)
    side = _side(config, title)
    pixel_size = (size, size) if size else (side, side)
    check_channels(title, stored, config["in_channels"])
    content = _content(folder, title, books)
    shape = " x ".join(str(n) for n in latent_shape(config, pixel_size))
    notes = size_notes(stored, pixel_size, side, trained=True)
    record = read_training_record(folder)
    return _encoder(
        f"{title} ({shape})", config, pixel_size, content, lambda: load_autoencoder(folder, title), notes, record
    )


def whole_autoencoder(text: str) -> Any:
    """Load the whole AutoencoderKL that a user names, as `load_autoencoder` returns it.

    Args:
        text: Folder of the autoencoder, or ``NAME@default``.

    Raises:
        InputError: The autoencoder does not exist, or cannot be loaded.
    """
    folder = _folder(text)
    return load_autoencoder(folder, f"autoencoder {one_line(folder.resolve().name, 60)}")


def load_autoencoder(folder: Path, title: str) -> Any:
    """Load the whole AutoencoderKL of a folder, float32, frozen, in evaluation mode.

    Args:
        folder: Folder with ``config.json`` and weights.
        title: Name of the autoencoder in messages.

    Raises:
        InputError: The autoencoder cannot be loaded, or a tensor is missing, unknown, of another shape or not finite.
    """
    tensors = {_current_name(name): tensor for name, tensor in read_tensors(folder, title).items()}
    network = _built(read_config(folder, title), title)
    fill_network(network, tensors, title)
    return network.eval().requires_grad_(False)


def _current_name(tensor_name: str) -> str:
    """Return the present name of a tensor in diffusers; the attention's layers had others before diffusers 0.17."""
    match = _OLD_ATTENTION.fullmatch(tensor_name)
    return tensor_name if match is None else f"{match[1]}.{_ATTENTION_LAYERS[match[2]]}.{match[3]}"


def read_config(folder: Path, title: str) -> dict[str, Any]:
    """Read ``config.json`` of an AutoencoderKL.

    Raises:
        InputError: The file is missing, of another class or without its sizes.
    """
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        name = config.get("_class_name")
        if name != DIFFUSERS_CLASS:
            raise ValueError(f"it is of class {one_line(name, 60)}, and {DIFFUSERS_CLASS} is what is read")
        sizes = [config.get("in_channels", 3), config.get("latent_channels", 4), len(config["block_out_channels"])]
        if not all(isinstance(value, int) and value > 0 for value in sizes):
            raise ValueError("its channels are not whole numbers of at least 1")
        if sizes[0] not in (1, 3):
            raise ValueError(f"it takes images of {sizes[0]} channels, and images have 1 or 3")
    except CONTENT_ERRORS as error:
        raise InputError(f"{CONFIG} of {title} cannot be used: {one_line(error, 120)}") from None
    return config | {"in_channels": sizes[0], "latent_channels": sizes[1]}


def save_encoder_weights(encoder: LatentEncoder, folder: Path) -> dict[str, Any]:
    """Write the encoding half as ``encoder.safetensors``, and return the values for its description.

    Args:
        encoder: Encoder of kind "autoencoder".
        folder: Folder to write to.
    """
    module = encoder.load()
    assert isinstance(module, PosteriorMean)
    save_weights(folder / ENCODER_FILE, module, recorded=False)
    content = encoder.identity["weights"]
    return {"config": module.config, "weights": content, "file": file_fingerprint(folder / ENCODER_FILE)}


def load_encoder_weights(folder: Path, description: Mapping[str, Any]) -> LatentEncoder:
    """Load the encoder that `save_encoder_weights` wrote.

    Args:
        folder: Folder of the encoder.
        description: Description of the encoder.

    Raises:
        InputError: The weights are missing or not those of the description.
        MissingExtraError: diffusers is not installed.
    """
    check_library("latents of an autoencoder")
    file = folder / ENCODER_FILE
    try:
        config = dict(description["config"])
        content, expected, height, width = (
            str(description["weights"]),
            str(description["file"]),
            *map(int, description["size"]),
        )
        shape = latent_shape(config, (height, width))
        if [*shape] != list(description["latent_shape"]) or config["in_channels"] != description["channels"]:
            raise ValueError("its shapes do not agree with each other")
    except CONTENT_ERRORS as error:
        raise InputError(f"the description of the encoder in {one_line(folder)} is damaged: {error}") from None
    if not file.is_file() or file_fingerprint(file) != expected:
        raise InputError(f"{one_line(file)} is missing or not the one that was saved with its description")

    def network() -> Any:
        """Build an autoencoder of this configuration with the half that was saved; the caller drops the other."""
        autoencoder = _built(config, str(description["name"]))
        half = PosteriorMean(autoencoder)
        tensors = load_file(file)
        own = half.state_dict()
        wrong = [f"{name} is missing" for name in own if name not in tensors]
        wrong += [f"{name} is unknown" for name in tensors if name not in own]
        wrong += [f"{n} has another shape" for n in own if n in tensors and own[n].shape != tensors[n].shape]
        refuse_mismatch(wrong, one_line(file))
        half.load_state_dict(tensors)
        return autoencoder

    return _encoder(
        str(description["name"]), config, (height, width), content, network, [], read_training_record(folder)
    )


def latent_shape(config: Mapping[str, Any], size: tuple[int, int]) -> tuple[int, int, int]:
    """Return channels, height and width of a latent of images of this size."""
    factor = downsampling(config)
    return int(config.get("latent_channels", 4)), size[0] // factor, size[1] // factor


def downsampling(config: Mapping[str, Any]) -> int:
    """Return the number of pixels per side that become one of the latent: each block but the last halves it."""
    return 2 ** (len(config["block_out_channels"]) - 1)


def check_library(purpose: str) -> None:
    """Refuse in one line where diffusers is not installed; the function does not import it, which takes seconds.

    Raises:
        MissingExtraError: diffusers is not installed.
    """
    try:
        version("diffusers")
    except PackageNotFoundError:
        raise MissingExtraError("diffusers", "generative", purpose) from None


def autoencoder_class(purpose: str) -> Any:
    """Return the class AutoencoderKL of diffusers.

    Raises:
        MissingExtraError: diffusers is not installed.
    """
    try:
        with quiet("diffusers"):
            from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
    except ImportError:
        raise MissingExtraError("diffusers", "generative", purpose) from None
    return AutoencoderKL


def _encoder(
    name: str,
    config: Mapping[str, Any],
    size: tuple[int, int],
    content: str,
    network: Any,
    notes: list[str],
    seen: TrainingRecord | None,
) -> LatentEncoder:
    """Return the encoder of a network that is built on its first use."""
    factor = downsampling(config)
    if size[0] % factor or size[1] % factor:
        raise InputError(
            f"{name} makes one number of {factor} pixels a side: {size[0]} x {size[1]} pixels are not a multiple of "
            f"it; name one, as {max(factor, size[0] // factor * factor)}"
        )

    @cache
    def load() -> nn.Module:
        """Build the encoding half once."""
        return PosteriorMean(network()).eval()

    return LatentEncoder(
        name=name,
        kind="autoencoder",
        channels=int(config["in_channels"]),
        size=size,
        latent_shape=latent_shape(config, size),
        identity={
            "code": _CODE,
            "kind": "autoencoder",
            "library": f"diffusers {version('diffusers')}",
            "torch": str(torch.__version__),
            "weights": content,
            "size": list(size),
        },
        load=load,
        notes=tuple(notes),
        seen=seen,
    )


def _built(config: Mapping[str, Any], title: str) -> Any:
    """Build an untrained AutoencoderKL from a configuration."""
    kind = autoencoder_class("an autoencoder")
    for name, value in config.items():
        most = _MOST_LAYERS if name == "layers_per_block" else _WIDEST
        if any(isinstance(n, int) and n > most for n in (value if isinstance(value, list | tuple) else [value])):
            raise InputError(f"{title} is described by {one_line(name, 40)}, {one_line(value, 60)}: at most {most:,}")
    try:
        with quiet("diffusers"), seeded(0):
            return kind.from_config(dict(config))
    except Exception as error:  # diffusers and torch each raise their own kinds
        raise InputError(f"{title} cannot be built from its configuration: {one_line(error, 160)}") from None


def _affine(config: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the offset and the factor of a posterior mean, [c or 1, 1, 1] each."""
    try:
        scaling = float(config.get("scaling_factor") or 1.0)
        mean, std = config.get("latents_mean"), config.get("latents_std")
        if mean is not None and std is not None:
            shift, scale = torch.tensor(mean), scaling / torch.tensor(std)
        else:
            shift, scale = torch.tensor([float(config.get("shift_factor") or 0.0)]), torch.tensor([scaling])
        if shift.ndim != 1 or scale.ndim != 1:
            raise ValueError("latents_mean and latents_std are lists of numbers")
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(f"an autoencoder's scaling does not read as numbers: {one_line(error, 120)}") from None
    return shift.float()[:, None, None], scale.float()[:, None, None]


def _side(config: Mapping[str, Any], title: str) -> int:
    side = config.get("sample_size", 32)
    side = side[0] if isinstance(side, (list, tuple)) and side else side
    if not isinstance(side, int) or side < 1:
        raise InputError(f"{CONFIG} of {title} has no sample_size: {one_line(side, 40)}")
    return side


def _folder(text: str) -> Path:
    """Return the folder that holds config.json; it is downloaded on request."""
    if text.endswith(f"@{DEFAULT}") and not Path(text).is_dir():
        name = text.removesuffix(f"@{DEFAULT}")
        if Path(name).is_dir():
            raise InputError(f"autoencoder:{one_line(name)} is a folder, which is not downloaded: leave @default out")
        root = download_folder(name, ("", "vae"), f"autoencoder:{one_line(name, 80)}")
    else:
        root = Path(text)
    if not root.is_dir():
        raise InputError(
            f"folder {one_line(text)} of an autoencoder does not exist; autoencoder:{one_line(text, 60)}@default looks "
            "for this name on the hub"
        )
    folder = next((root / part for part in _INSIDE if (root / part / CONFIG).is_file()), None)
    if folder is None:
        raise InputError(f"{one_line(text)} has no {CONFIG}: it is not a folder of an autoencoder of diffusers")
    return folder


def _content(folder: Path, title: str, books: Path | None) -> str:
    """Hash the weights and the settings that decide how they are used."""
    weights = weight_files(folder)
    if not weights:
        raise missing_weights(title)
    contents = content_fingerprints([str(file) for file in weights], books)
    config = {name: value for name, value in read_config(folder, title).items() if not name.startswith("_")}
    return fingerprint(config, [[file.name, contents[str(file)]] for file in weights], length=32)
