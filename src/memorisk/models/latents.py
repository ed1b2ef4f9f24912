"""Latents: the form of an image for a detector that does not compare pixels themselves (paper 004, section 3.1).

``pixels``, ``pixels:64``             the image itself, scaled to [-1, 1]
``autoencoder:FOLDER``                the posterior mean of an AutoencoderKL of diffusers (``config.json`` and
                                      weights; the folder of a pipeline or of ``memorisk train autoencoder`` too)
``autoencoder:NAME@default``          the same by its name on the hub: downloads, because the user names it

The posterior is never sampled, so that an image has one latent. Latents that were computed elsewhere, a generator's
own, are read by `memorisk.training.autoencoders.latent_store.read_latents`; their encoder can say what it is but not
encode.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.encoders.networks import StoredShape, size_notes
from memorisk.models.provenance import TrainingRecord
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line, unknown_name
from memorisk.runs.files import read_json, write_json

KINDS = ("pixels", "autoencoder", "latents")
DESCRIPTION = "encoder.json"
_CODE = 1  # part of every identity: a change of what an encoder computes makes new latents
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class LatentEncoder:
    """Encoder of images as latents.

    Attributes:
        name: Name of the encoder in a report.
        kind: Kind of the encoder: "pixels", "autoencoder", or "latents" (given directly: it cannot encode).
        channels: Number of channels of the images that it takes, 1 or 3; grey ones are repeated where it takes 3.
        size: Height and width that images are resized to before it.
        latent_shape: Channels, height and width of a latent.
        identity: Values that latents depend on besides the images and the precision, in the form of JSON.
        load: Function that returns the module, built once: from [b, C, H, W] float32 in [0, 1], of this size and these
            channels, to the latents [b, c, h, w]; frozen, in evaluation mode, deterministic.
        notes: Sentences that a report must contain.
        seen: Record of the images that it was trained on, where that is known, as after ``memorisk train autoencoder``.
    """

    name: str
    kind: str
    channels: int
    size: tuple[int, int]
    latent_shape: tuple[int, int, int]
    identity: Mapping[str, Any]
    load: Callable[[], nn.Module]
    notes: tuple[str, ...] = ()
    seen: TrainingRecord | None = None

    @property
    def preprocessing(self) -> Preprocessing:
        """Describe the preparation of pixels by `models.encoders.networks.preparation`: size and channels, no mean."""
        return Preprocessing(self.size, self.channels, (0.0,) * self.channels, (1.0,) * self.channels)


class PixelLatents(nn.Module):
    """Latent of an image that is the pixels themselves."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [0, 1] to [-1, 1]."""
        return x * 2 - 1


def open_latents(
    text: str, stored: StoredShape, *, size: int | None = None, books: Path | None = None
) -> LatentEncoder:
    """Open the encoder that a user names, for images of one stored shape; nothing is built yet.

    Args:
        text: Name of the encoder, as in the table at the head of this module.
        stored: Height, width and channels of the images.
        size: Side in pixels that images are resized to; by default that of an autoencoder's training, and for pixels
            the stored one.
        books: Cache folder that remembers hashes of weights; None to hash them each time.

    Raises:
        InputError: The kind is unknown, the size is not possible, or the autoencoder does not exist.
        MissingExtraError: diffusers is not installed.
    """
    kind, colon, rest = text.partition(":")
    if size is not None and size < 1:
        raise InputError(f"size is {size}; it must be at least 1")
    if kind == "pixels":
        return _pixels(text, rest if colon else None, stored, size)
    if kind == "autoencoder" and rest:
        from memorisk.models.autoencoder import open_autoencoder

        return open_autoencoder(rest, stored, size=size, books=books)
    if kind == "latents":
        raise InputError(f"{one_line(text, 80)}: latents are given in place of images, not computed from them")
    forms = ("pixels", "pixels:SIDE", "autoencoder:FOLDER", "autoencoder:NAME@default", "latents:FILE")
    raise unknown_name("encoder of latents", one_line(text, 80), forms)


def external_encoder(name: str, latent_shape: tuple[int, int, int]) -> LatentEncoder:
    """Describe the encoder of latents that were computed elsewhere: only their shape is known, and it encodes nothing.

    Args:
        name: Name of the latents.
        latent_shape: Channels, height and width of a latent.
    """

    def load() -> nn.Module:
        """Refuse: the encoder is not known."""
        raise InputError(
            f"{one_line(name, 80)} were given, and not computed here: their encoder is not known, so that images "
            "cannot be turned into such latents; give latents of the same kind (latents:FILE)"
        )

    return LatentEncoder(
        name=name,
        kind="latents",
        channels=3,
        size=latent_shape[1:],
        latent_shape=latent_shape,
        identity={"code": _CODE, "kind": "latents", "shape": list(latent_shape)},
        load=load,
    )


def save_encoder(encoder: LatentEncoder, folder: str | Path) -> None:
    """Write an encoder to a folder, private and atomic, its description last: a reader needs nothing else.

    For an autoencoder only the encoding half is written, which cannot turn latents back into images.

    Args:
        encoder: Encoder of latents.
        folder: Folder to write to; it is made if it is missing.

    Raises:
        InputError: The encoder cannot be loaded.
    """
    target = Path(folder)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    description: dict[str, Any] = {"format": _FORMAT, "kind": encoder.kind, "name": encoder.name}
    description |= {"channels": encoder.channels, "size": encoder.size, "latent_shape": encoder.latent_shape}
    if encoder.kind == "autoencoder":
        from memorisk.models.autoencoder import save_encoder_weights

        description |= save_encoder_weights(encoder, target)
    if encoder.seen is not None:
        encoder.seen.save(target)
    write_json(target / DESCRIPTION, description, recorded=True)


def load_encoder(folder: str | Path) -> LatentEncoder:
    """Load an encoder from its folder; weights are compared with their hash and matched by name and shape.

    Args:
        folder: Folder that `save_encoder` wrote.

    Raises:
        InputError: The encoder does not exist, is damaged or of another form.
    """
    path = Path(folder)
    file = path / DESCRIPTION
    if not file.is_file():
        raise InputError(f"{one_line(path)} holds no encoder of latents: there is no {DESCRIPTION} in it")
    try:
        description = read_json(file)
        kind, name, form = str(description["kind"]), str(description["name"]), description["format"]
        channels, size, shape = (
            int(description["channels"]),
            _sides(description["size"], 2),
            _sides(description["latent_shape"], 3),
        )
        if form != _FORMAT or kind not in KINDS or channels not in (1, 3):
            raise ValueError(f"format {form}, kind {kind}, {channels} channels")
    except CONTENT_ERRORS as error:
        raise InputError(f"{one_line(file)} is not a description of an encoder: {one_line(error, 120)}") from None
    if kind == "latents":
        return external_encoder(name, (shape[0], shape[1], shape[2]))
    if kind == "pixels":
        return _pixel_encoder((size[0], size[1]), channels)
    from memorisk.models.autoencoder import load_encoder_weights

    return load_encoder_weights(path, description)


def _sides(sides: Any, n: int) -> tuple[int, ...]:
    values = tuple(int(value) for value in sides)
    if len(values) != n or min(values) < 1:
        raise ValueError(f"{sides} are not {n} whole numbers from 1")
    return values


def _pixels(text: str, side: str | None, stored: StoredShape, size: int | None) -> LatentEncoder:
    if side is not None and not (side.isdecimal() and int(side) > 0):
        raise InputError(f"{one_line(text, 80)!r} is not of the form pixels or pixels:SIDE, with a whole number from 1")
    own_side = int(side) if side is not None else None
    if own_side is not None and size is not None and own_side != size:
        raise InputError(f"{text} names {own_side} pixels a side and size {size}: give one of them")
    side_used = own_side or size
    return _pixel_encoder((side_used, side_used) if side_used else stored[:2], stored[2], stored)


def _pixel_encoder(size: tuple[int, int], channels: int, stored: StoredShape | None = None) -> LatentEncoder:
    module = PixelLatents().eval()
    return LatentEncoder(
        name=f"pixels {size[0]} x {size[1]}",
        kind="pixels",
        channels=channels,
        size=size,
        latent_shape=(channels, *size),
        identity={"code": _CODE, "kind": "pixels", "size": list(size), "channels": channels},
        load=lambda: module,
        notes=() if stored is None else tuple(size_notes(stored, size, None, trained=False)),
    )
