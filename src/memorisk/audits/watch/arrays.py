"""Images in memory as an image store: what a training draws, and real images that Python hands in."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.cache import cache_folder
from memorisk.images.decoding.decoding import hash_pixels
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError


def checked_images(images: object, what: str) -> np.ndarray:
    """[n, H, W, C] of what somebody gave as images.

    Args:
        images: uint8 or uint16, [n, H, W] or [n, H, W, C] with 1 or 3 channels.
        what: What they are called in the message.

    Raises:
        InputError: They are something else.
    """
    found = np.asarray(images)
    found = found[..., None] if found.ndim == 3 else found
    good = found.dtype in (np.uint8, np.uint16) and found.ndim == 4 and found.shape[3] in (1, 3) and found.size
    if not good:
        raise InputError(
            f"{what} are {found.dtype} of shape {np.shape(found)}; uint8 images [n, H, W] or [n, H, W, C] with 1 or 3 "
            "channels are needed"
        )
    return found


def as_stored(images: np.ndarray, like: ImageStore, what: str) -> np.ndarray:
    """Images with the channels of a store: grey ones repeated, three equal channels as one.

    Raises:
        InputError: They are of another size or type, or in colour where the store is grey.
    """
    wanted, have = like.images.shape[1:], images.shape[1:]
    if have[2] == 1 and wanted[2] == 3:
        images = np.repeat(images, 3, axis=3)
    elif have[2] == 3 and wanted[2] == 1 and (images == images[..., :1]).all():
        images = images[..., :1]
    if images.shape[1:] != wanted or images.dtype != like.images.dtype:
        raise InputError(
            f"{what} are {' x '.join(map(str, have))} {images.dtype}, the training images are stored as "
            f"{' x '.join(map(str, wanted))} {like.images.dtype}: give size, and channels or depth"
        )
    return images


def store_of(
    images: np.ndarray, name: str, groups: Sequence[str] | np.ndarray | None = None, *, cache: Path | None = None
) -> ImageStore:
    """A store of images that lie in memory; nothing is written.

    Args:
        images: [n, H, W, C].
        name: What they are called; with a number it is the id of each.
        groups: [n] whose each image is; None: each its own.
        cache: Cache folder beside whose stores features are kept.

    Raises:
        InputError: Not one group an image.
    """
    ids = [f"{name} {i}" for i in range(len(images))]
    whose = ids if groups is None else [str(group) for group in groups]
    if len(whose) != len(ids):
        raise InputError(f"{len(whose)} groups are given for {len(ids)} {name} images: give one an image")
    table = pd.DataFrame({"image": ids, "path": "", "label": "", "group": whose}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    none = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    folder = cache_folder(cache) / "stores" / "in memory"
    return ImageStore(images, Manifest(table=table, root=None, name=name), "in memory", folder, none, hashes)
