"""Sets of images that are compared with each other: read, split, decoded to one form, stacked and chosen from."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.stacked import StackedImages
from memorisk.images.store import ImageStore, build_store
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Progress

Source = str | Path | Manifest | ImageStore
"""A source as for `load_manifest`, its manifest, or the store of its images."""


def read_source(source: Source, options: ImageOptions) -> Manifest | ImageStore:
    """The manifest of a source; what was handed in decoded stays decoded.

    Raises:
        InputError: It cannot be read.
    """
    return source if isinstance(source, (Manifest, ImageStore)) else load_manifest(source, options)


def manifest_of(source: Manifest | ImageStore) -> Manifest:
    """The manifest of a source, decoded or not."""
    return source.manifest if isinstance(source, ImageStore) else source


def given_splits(manifest: Manifest) -> list[str]:
    """Names of its given splits, sorted."""
    return [] if manifest.splits is None else sorted({str(part) for part in manifest.splits if part})


def split_source(
    source: Manifest | ImageStore, train: str, other: str
) -> tuple[Manifest | ImageStore, Manifest | ImageStore, list[str]]:
    """Two given splits of one source, and a sentence on how many images are in neither.

    Raises:
        InputError: There is no such split.
    """
    manifest = manifest_of(source)
    known, splits = given_splits(manifest), manifest.splits
    for name in (train, other):
        if splits is None or name not in known:
            have = f"has the splits {listed(known)}" if known else "has no given split"
            raise InputError(f"{one_line(manifest.name)} {have}; there is no {one_line(name, 40)!r} in it")
    take: Callable[[np.ndarray], Manifest | ImageStore] = (
        partial(select_rows, source) if isinstance(source, ImageStore) else source.subset
    )
    left = int(np.sum((splits != train) & (splits != other)))
    said = f"{left:,} images of TRAIN are in other parts than {train} and {other}; they take no part."
    return take(np.flatnonzero(splits == train)), take(np.flatnonzero(splits == other)), [said] if left else []


def decode_alike(
    given: Mapping[str, Manifest | ImageStore | None], options: Mapping[str, ImageOptions], progress: Progress
) -> dict[str, ImageStore]:
    """Decode sets to one size and as many channels: grey ones to three where another has colour.

    Args:
        given: By what they are called; those that are None have no store.
        options: How the images of each are read.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Images cannot be read, or sets differ in size or type.
    """
    stores = {
        what: _store(what, source, options[what], progress) for what, source in given.items() if source is not None
    }
    if len({store.images.shape[3] for store in stores.values()}) > 1:
        for what, store in stores.items():
            source = given[what]
            if store.images.shape[3] == 1 and isinstance(source, Manifest):
                stores[what] = _store(what, source, replace(options[what], channels=3), progress)
    shapes = {what: (store.images.shape[1:], store.images.dtype.name) for what, store in stores.items()}
    if len(set(shapes.values())) > 1:
        said = "; ".join(f"{what}: {' x '.join(map(str, shape))} {kind}" for what, (shape, kind) in shapes.items())
        raise InputError(f"the sets are stored in different forms ({said}): give size, and channels or depth")
    return stores


def _store(what: str, source: Manifest | ImageStore, options: ImageOptions, progress: Progress) -> ImageStore:
    if isinstance(source, ImageStore):
        return source
    return build_store(source, options, progress=partial(progress, f"decoding {what} images"))


def stack_stores(stores: list[ImageStore], order: np.ndarray | None = None) -> ImageStore:
    """Stores laid end to end, in an order, as one store; the pixels stay where they are.

    Args:
        stores: Of one shape and type.
        order: [N] rows of the stores laid end to end; None for all as they lie.
    """
    images = StackedImages([store.images for store in stores], order)
    tables = [store.manifest.table[["image", "path", "label", "group"]] for store in stores]
    table = pd.concat(tables, ignore_index=True)
    hashes = np.concatenate([store.pixel_hashes for store in stores])
    return replace(
        stores[0],
        images=cast(np.ndarray, images),
        manifest=replace(stores[0].manifest, table=table.iloc[images.order].reset_index(drop=True)),
        pixel_hashes=hashes[images.order],
    )


def select_rows(store: ImageStore, rows: np.ndarray) -> ImageStore:
    """Some rows of a store, [n] by index."""
    return replace(
        store,
        images=cast(np.ndarray, StackedImages([store.images], rows)),
        manifest=store.manifest.subset(rows),
        pixel_hashes=store.pixel_hashes[rows],
    )


LEAST_SHOWN = 3
"""Grey levels of 256 from the darkest to the brightest value: an image with fewer shows rounding alone."""


def is_blank(store: ImageStore, rows: np.ndarray) -> np.ndarray:
    """[n] whether an image has one value only: nobody is recognised in it."""
    return _range(store, rows) == 0


def shows_nothing(store: ImageStore) -> np.ndarray:
    """[N] whether an image spans fewer than `LEAST_SHOWN` grey levels, as a 16-bit file does that holds 0 to 255."""
    level = 257 if store.images.dtype == np.uint16 else 1
    return _range(store, np.arange(len(store.images))) < LEAST_SHOWN * level


def _range(store: ImageStore, rows: np.ndarray) -> np.ndarray:
    """[n] brightest value of an image less its darkest."""
    return np.array([int(image.max()) - int(image.min()) for image in (np.asarray(store.images[row]) for row in rows)])
