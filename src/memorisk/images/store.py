"""The image store: every image decoded once, to one size, in one memory-mapped array that later runs reuse.

A store is a folder named by a key: a hash of the content of the files (`file_hashes` decides when a file is read
again), of the rows of them that are images, and of the options that decide pixels (depth, window, size, resize,
channels, max_pixels). A changed file or option gives another key, hence another store; labels, groups and splits are
not in the key, since they change no pixel. The folder holds ``images.npy`` [N, H, W, C] (of volumes [N, H, W, D],
`memorisk.images.volumes`), ``rows.parquet`` (for
each row a hash of its pixels, or why it could not be read) and ``meta.json``.

Building is parallel, with the memory of a few images whatever their number; it is resumable (blocks of rows that
are done are kept and, on the next try, checked against their hashes); and it is atomic: the folder gets its name
when all is written. One process builds, others wait for it.
"""

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.file_hashes import content_fingerprints
from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import PIXEL_HASH, PixelRule, Source, hash_pixels
from memorisk.images.store_writer import (
    DECODED_IMAGES,
    IMAGES,
    ROWS,
    StorePlan,
    is_complete,
    process_count,
    unreadable_error,
    write_store,
)
from memorisk.images.volumes import is_volume_member
from memorisk.runs.arrays import write_guard
from memorisk.runs.errors import InputError
from memorisk.runs.files import fingerprint, read_array, read_table
from memorisk.runs.locks import folder_lock
from memorisk.runs.storage.locations import cache_folder
from memorisk.runs.workload import CountProgress

_FORMAT = 2  # part of the key: a change of the stored pixels makes new stores


@dataclass(frozen=True)
class ImageStore:
    """Store of decoded images, ready to train on.

    Attributes:
        images: Decoded images, [N, H, W, C] uint8 or uint16, memory-mapped, read-only; volumes are [N, H, W, D].
        manifest: Manifest with rows in the same order; images that could not be read are left out.
        key: Name of the store's content.
        folder: Folder of the store.
        skipped: Table ``image, path, reason`` of the images left out.
        pixel_hashes: Hash of each stored image, [N].
    """

    images: np.ndarray
    manifest: Manifest
    key: str
    folder: Path
    skipped: pd.DataFrame
    pixel_hashes: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a stored image, or depth of a volume."""
        height, width, channels = (int(n) for n in self.images.shape[1:])
        return height, width, channels

    @cached_property
    def data_hash(self) -> str:
        """Hash (id, label, group, split, pixels) of every image: the data from which a result was computed."""
        splits = self.manifest.splits
        columns = [self.manifest.images, self.manifest.labels, self.manifest.groups, self.pixel_hashes]
        columns += [] if splits is None else [splits]
        layout = {"shape": self.images.shape, "dtype": self.images.dtype.str}
        return fingerprint(layout, *(column.tolist() for column in columns), length=32)

    def hashed_manifest(self, **columns: Any) -> Manifest:
        """Return the manifest with the hash of each image's pixels, by which a finished run knows its images again.

        Args:
            **columns: Further columns, [N] each.
        """
        return replace(self.manifest, table=self.manifest.table.assign(**columns, **{PIXEL_HASH: self.pixel_hashes}))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the store without pixels that lie in its folder: they stay there when it moves to another process."""
        pixels = self.images
        whole = isinstance(pixels, np.memmap) and isinstance(pixels.base, mmap.mmap)
        in_folder = whole and Path(str(getattr(pixels, "filename", ""))) == (self.folder / IMAGES).absolute()
        parts = (self.manifest, self.key, self.folder, self.skipped, self.pixel_hashes)
        return _unpickle, (None if in_folder else pixels, *parts)


def _unpickle(images: np.ndarray | None, manifest: Manifest, key: str, folder: Path, *rest: Any) -> "ImageStore":
    """Return a store that came from another process; its pixels are read from its folder where they lie there."""
    pixels = read_array(folder / IMAGES, mmap=True) if images is None else images
    return ImageStore(pixels, manifest, key, folder, *rest)


def store_of_pixels(
    images: np.ndarray,
    store: ImageStore,
    name: str,
    *,
    ids: Sequence[str] | None = None,
    labels: Sequence[str] | str = "",
    hashes: np.ndarray | None = None,
) -> ImageStore:
    """Make a store of images in memory, each of a group of its own.

    Args:
        images: Pixels, [n, H, W, C].
        store: Store in whose folder features of the images are kept.
        name: Name of the set, and the key of its store.
        ids: Name of each image; by default its number.
        labels: Label of each image, or of all.
        hashes: Hash of the pixels of each image, where they are known.
    """
    names = list(map(str, range(len(images)))) if ids is None else list(ids)
    table = pd.DataFrame({"image": names, "path": "", "label": labels, "group": names}, dtype=object)
    if hashes is None:
        hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    return ImageStore(images, Manifest(table, None, name), name, store.folder, nothing, hashes)


def manifest_sources(manifest: Manifest) -> list[Source]:
    """Return the places of the pixels of each row."""
    table, root = manifest.table, manifest.root
    members: list[Any] = table["member"].tolist() if "member" in table else [None] * manifest.n
    frames: list[Any] = table["frame"].tolist() if "frame" in table else [None] * manifest.n
    paths = [
        path if root is None or path.startswith(BUILTIN) else os.path.join(root, path)  # noqa: PTH118 - a million rows
        for path in table["path"].tolist()
    ]
    return [
        Source(path, None if pd.isna(member) else str(member) or None, None if pd.isna(frame) else int(frame))
        for path, member, frame in zip(paths, members, frames, strict=True)
    ]


def build_store(
    manifest: Manifest,
    options: ImageOptions,
    *,
    processes: int | None = None,
    progress: CountProgress | None = None,
) -> ImageStore:
    """Decode the images of a manifest once, or find the store of an earlier run.

    Without ``size`` the images keep their common size. ``channels`` auto stores one channel when every image is grey
    (three equal channels count as grey), else three; 1 turns colour to luma, 3 repeats grey.

    Args:
        manifest: Manifest of the images.
        options: Options by which images are read and resized, and the place of stores.
        processes: Number of processes that decode; by default the cores this process may use. Never more than files.
        progress: Function called with the number of images done and the number of all.

    Returns:
        Store with rows in the manifest's order.

    Raises:
        InputError: Images cannot be read (listed; ``skip_unreadable`` leaves them out), differ in size while ``size``
            is not set, or the folder cannot be written.
        MemoriskError: The disk is full; finished blocks are kept.
    """
    options.validate()
    rule = PixelRule.of(options)
    sources = manifest_sources(manifest)
    if rule.size is None and any(is_volume_member(source.member) for source in sources):
        raise InputError("every volume is brought to a cube: give its side in voxels with size, as --size 32")
    root = cache_folder(options.store)
    workers = process_count(processes, sources)
    files = dict.fromkeys(file for source in sources for file in source.files)
    contents = content_fingerprints(list(files), root, processes=workers)
    key = fingerprint({"format": _FORMAT, **vars(rule)}, [source.content(contents) for source in sources], length=32)
    stores = root / "stores"
    folder = stores / key
    if not is_complete(folder):
        plan = StorePlan(
            key=key,
            stores=stores,
            sources=sources,
            rule=rule,
            names=manifest.table.loc[:, ["path", "image"]],
            options=options,
        )
        with write_guard(stores, DECODED_IMAGES):
            stores.mkdir(mode=0o700, exist_ok=True)
            with folder_lock(stores, name=f"{key}.lock", wait=True):
                if not is_complete(folder):
                    write_store(plan, processes=workers, progress=progress)
    return _opened(folder, manifest, options)


def _opened(folder: Path, manifest: Manifest, options: ImageOptions) -> ImageStore:
    rows = read_table(folder / ROWS)
    reasons = rows["reason"].to_numpy(dtype=object)
    bad = np.flatnonzero(reasons != "")
    if len(bad) and not options.skip_unreadable:
        raise unreadable_error(manifest.table, bad, reasons[bad].tolist())
    good = np.flatnonzero(reasons == "")
    skipped = pd.DataFrame(
        {
            "image": manifest.images[bad],
            "path": manifest.table["path"].to_numpy(dtype=object)[bad],
            "reason": reasons[bad],
        }
    )
    images = read_array(folder / IMAGES, mmap=True)
    read = rows.take(good)
    hashes, readable = read["pixel_hash"].to_numpy(dtype=object), manifest.subset(good)
    return ImageStore(images, readable, folder.name, folder, skipped, hashes)
