"""A detector as a source of features: ``detector:FOLDER``.

Those of a Siamese detector are what its head compares, always in float32: in bfloat16 they would keep three digits.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memorisk.models.detectors.detectors import WEIGHTS, DetectorConfig, load_detector, read_config
from memorisk.models.detectors.kinds import COPY
from memorisk.models.encoders.encoders import FeatureSource
from memorisk.models.encoders.networks import Encoder, Stored, check_channels, size_notes
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.fingerprint import file_fingerprint

_CODE = 1  # part of the identity: a change of what a detector computes makes new features


def open_detector(source: FeatureSource, stored: Stored, *, size: int | None, normalise: str | None) -> Encoder:
    """The encoder of a detector, whose folder says everything; it is loaded only when used.

    Args:
        source: Of kind "detector".
        stored: Height, width and channels of the images.
        size: Must be None: the detector has its own.
        normalise: Likewise.

    Raises:
        InputError: It is no detector, another size or normalisation is asked for, or the images are colours for a
            detector of grey ones.
    """
    if size is not None or normalise is not None:
        raise InputError(f"{source.shown}: a detector has its own size and normalisation; leave them out")
    folder = Path(source.name)
    config = read_config(folder)
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"{one_line(folder)} holds no whole detector: there is no {WEIGHTS} in it")
    preprocessing, latents = config.preprocessing, _latents(folder, config)
    check_channels(source.shown, stored, preprocessing.channels)
    content = file_fingerprint(folder / WEIGHTS)
    made_for = preprocessing.size[0] if preprocessing.size[0] == preprocessing.size[1] else None
    what = config.loss if latents is None else f"{config.kind}, {config.loss}"

    @cache
    def load() -> tuple[nn.Module, Sequence[str]]:
        """The detector's network."""
        return load_detector(folder).network, ()

    notes = [f"{source.shown} was trained by {what} ({config.protocol} protocol) from {config.backbone}."]
    notes += config.departures
    if stored != config.stored:
        trained, here = (" x ".join(map(str, shape)) for shape in (config.stored, stored))
        notes.append(f"Its training images were stored as {trained}, these are {here}.")
    return Encoder(
        name=f"{source.shown} ({config.backbone}, {what})",
        weights=f"{config.backbone} from {config.weights}, epoch {config.best_epoch}",
        state="trained",
        preprocessing=preprocessing,
        identity={
            "code": _CODE,
            "architecture": f"detector of {config.backbone}",
            "library": dict(config.versions).get("timm", ""),
            "weights": content,
            "preprocessing": preprocessing.describe(),
            "torch": str(torch.__version__),
            **({} if latents is None else {"latents": latents}),
        },
        weights_fingerprint=content,
        load=load,
        mixed=latents is None,
        notes=(*notes, *size_notes(stored, preprocessing.size, made_for, trained=True)),
    )


def _latents(folder: Path, config: DetectorConfig) -> dict[str, Any] | None:
    """What the latents of a Siamese detector depend on; None for one that looks at pixels by itself."""
    if config.kind == COPY:
        return None
    from memorisk.models.autoencoders.latents import load_encoder
    from memorisk.models.detectors.lcmem import ENCODER

    return dict(load_encoder(folder / ENCODER).identity)
