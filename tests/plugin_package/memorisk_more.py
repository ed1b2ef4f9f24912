"""A measure, a reader, an encoder and a kind of audit that a package beside memorisk brings."""

from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.readers.limits import check_size
from memorisk.images.readers.registry import Format, ReadOptions
from memorisk.report.kinds import RunKind
from memorisk.scores.distances.measures import Measure


def _roots_of_shares(rows: np.ndarray) -> np.ndarray:
    """Square roots of a row's shares, [m, d] to [m, d]."""
    size = np.abs(rows)
    return np.sqrt(size / np.maximum(size.sum(axis=1, keepdims=True), 1e-300))


hellinger = Measure(
    "hellinger", "euclidean distance of the square roots of shares", "any", "none",
    "SciPy has none", "product", rows=_roots_of_shares, like="euclidean",
)  # fmt: skip


brightness = RunKind(
    name="brightness",
    command="audit brightness",
    function="memorisk_brightness:audit_brightness",
    options="memorisk_brightness:BrightnessOptions",
    page="memorisk_brightness:brightness_page",
    statement="memorisk_brightness:describe_brightness",
    question="Is the set too bright?",
    title="Audit of brightness",
    subject="the greys",
    looked_for="Whether the images are too bright.",
    passed="Not too bright",
)

raw8 = Format("RAW8", "raster", lambda head: head.startswith(b"RAW8"), "memorisk_more")


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Grey pixels after a header of eight bytes: RAW8, height and width."""
    data = path.read_bytes()
    height, width = np.frombuffer(data[4:8], dtype="<u2").tolist()
    check_size(path, width, height, how.max_pixels, stored=len(data))
    return np.frombuffer(data[8:], dtype=np.uint8).reshape(height, width, 1)


def count_frames(path: Path) -> int:
    """One."""
    return 1


def thumbnail(source: Any, stored: tuple[int, int, int], **how: Any) -> Any:
    """Encode an image by the means of its quarters: ``thumbnail:SIDE`` has SIDE x SIDE of them."""
    from torch import nn

    from memorisk.models.encoders.networks import Encoder, stored_preprocessing

    side = int(source.text.partition(":")[2] or 2)
    preprocessing = stored_preprocessing(stored, None)
    return Encoder(
        name=source.text,
        weights="",
        state="no network",
        preprocessing=preprocessing,
        identity={"code": 1, "architecture": source.text, "preprocessing": preprocessing.describe()},
        weights_fingerprint="",
        load=lambda: (nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Flatten()), ()),
    )
