"""The image store: every image decoded once, to one size, in one memory-mapped array that later runs reuse.

A store is a folder named by a key: a hash of the content of the files (`file_hashes` says when a file is read
again), of which rows of them are images, and of the options that decide pixels (depth, window, size, resize,
channels, max_pixels). A changed file or option is another key, hence another store; labels, groups and splits are
not in the key, since they change no pixel. Under the key stand ``images.npy`` [N, H, W, C], ``rows.parquet`` (of
each row a hash of its pixels, or why it could not be read) and ``meta.json``.

Building is parallel, with the memory of a few images whatever their number; it is resumable (blocks of rows that
are done are kept and, on the next try, checked against their hashes); and it is atomic: the folder takes its name
when all is written. One process builds, others wait for it.
"""

import mmap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.file_hashes import content_fingerprints
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import PixelRule
from memorisk.images.store_writer import (
    DECODED_IMAGES,
    IMAGES,
    ROWS,
    StorePlan,
    is_complete,
    manifest_sources,
    process_count,
    unreadable_error,
    write_store,
)
from memorisk.runs.arrays import write_guard
from memorisk.runs.files import fingerprint, read_array, read_table
from memorisk.runs.locks import folder_lock
from memorisk.runs.storage.locations import cache_folder
from memorisk.runs.workload import CountProgress

_FORMAT = 2  # part of the key: a change of what pixels are stored makes new stores


@dataclass(frozen=True)
class ImageStore:
    """Decoded images, ready to train on.

    Attributes:
        images: [N, H, W, C] uint8 or uint16, memory-mapped, read-only.
        manifest: Rows in the same order; images that could not be read are left out.
        key: Name of the store's content.
        folder: Where it lies.
        skipped: Images left out: ``image, path, reason``.
        pixel_hashes: [N] hash of each stored image.
    """

    images: np.ndarray
    manifest: Manifest
    key: str
    folder: Path
    skipped: pd.DataFrame
    pixel_hashes: np.ndarray

    @cached_property
    def data_hash(self) -> str:
        """Hash over (id, label, group, split, pixels) of every image: what a result was computed from."""
        splits = self.manifest.splits
        columns = [self.manifest.images, self.manifest.labels, self.manifest.groups, self.pixel_hashes]
        columns += [] if splits is None else [splits]
        layout = {"shape": self.images.shape, "dtype": self.images.dtype.str}
        return fingerprint(layout, *(column.tolist() for column in columns), length=32)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pixels that lie in the store's folder stay there when it goes to another process or machine."""
        pixels = self.images
        whole = isinstance(pixels, np.memmap) and isinstance(pixels.base, mmap.mmap)
        in_folder = whole and Path(str(getattr(pixels, "filename", ""))) == (self.folder / IMAGES).absolute()
        parts = (self.manifest, self.key, self.folder, self.skipped, self.pixel_hashes)
        return _unpickle, (None if in_folder else pixels, *parts)


def _unpickle(images: np.ndarray | None, manifest: Manifest, key: str, folder: Path, *rest: Any) -> "ImageStore":
    """A store that came from another process; its pixels are read from its folder where they lie there."""
    pixels = read_array(folder / IMAGES, mmap=True) if images is None else images
    return ImageStore(pixels, manifest, key, folder, *rest)


def build_store(
    manifest: Manifest,
    options: ImageOptions,
    *,
    processes: int | None = None,
    progress: CountProgress | None = None,
) -> ImageStore:
    """Decode the images of a manifest once, or find the store where that was done.

    Without ``size`` the images keep their common size. ``channels`` auto stores one channel when every image is grey
    (three equal channels count as grey), else three; 1 turns colour to luma, 3 repeats grey.

    Args:
        manifest: Which images.
        options: How they are read and resized, and where stores are kept.
        processes: Processes that decode; by default the cores this process may use. Never more than there are files.
        progress: Called with the images done and their number.

    Returns:
        The store, its rows in the manifest's order.

    Raises:
        InputError: Images cannot be read (listed; ``skip_unreadable`` leaves them out), differ in size while none is
            given, or the folder cannot be written.
        MemoriskError: The disk is full; what is done is kept.
    """
    options.validate()
    rule = PixelRule.of(options)
    sources = manifest_sources(manifest)
    root = cache_folder(options.store)
    workers = process_count(processes, sources)
    contents = content_fingerprints(list(dict.fromkeys(s.file for s in sources)), root, processes=workers)
    key = fingerprint(
        {"format": _FORMAT, **vars(rule)}, [[contents[s.file], s.member, s.frame] for s in sources], length=32
    )
    stores = root / "stores"
    folder = stores / key
    if not is_complete(folder):
        plan = StorePlan(key=key, stores=stores, sources=sources, rule=rule, manifest=manifest, options=options)
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
        raise unreadable_error(manifest, bad, reasons[bad].tolist())
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
