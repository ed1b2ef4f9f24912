"""Latents of a set of images with the set's own mean and deviation: computed once for a content, or given directly.

An example is ``load_latents("scans/", "autoencoder:FOLDER")``; `memorisk.models.latents` lists the possible second
arguments. Latents are kept as features are (`memorisk.training.features.cache`): a killed computation continues, and
the same pixels have the same latent to the last bit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from memorisk.images.columns import read_csv
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.encoders.networks import check_channels
from memorisk.models.latents import LatentEncoder, external_encoder, open_latents
from memorisk.runs.checksums import is_intact
from memorisk.runs.environment import check_device
from memorisk.runs.errors import ARRAY_ERRORS, InputError, listed, one_line
from memorisk.runs.files import check_characters, fingerprint, read_array, read_json, read_table, write_json
from memorisk.runs.size_limits import check_arrays
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.features.cache import FeaturePlan, cached_features, computed_features
from memorisk.training.features.extraction import feature_batches, feature_precision
from memorisk.training.features.matrix import ImageSource

STATISTICS = "statistics.json"
LATENTS_PREFIX = "latents:"
_FORMAT = 1  # part of the key: a change of how images reach an encoder makes new latents
_COLUMNS = ("image", "group", "label", "dataset", "split")
_AT_ONCE = 1 << 22  # values
_PIXELS_PER_BATCH = {"cpu": 1 << 20, "cuda": 1 << 23}
_MOST_A_BATCH = 512


@dataclass(frozen=True, eq=False)
class Latents:
    """Latents of a set of images, with their statistics.

    Attributes:
        values: Latents, [N, c, h, w] float32, read-only, perhaps a memory map; rows as in the manifest.
        mean: Mean of each channel over the whole set, [c] float64.
        std: Population deviation of each channel over the whole set, [c] float64.
        manifest: Image, patient and label of each row.
        hashes: Hashes of the pixels, [N]; for latents given directly, hashes of the latents themselves.
        encoder: Encoder that computed the latents.
        store: The images; None for latents given directly.
        computed: Number of images that went through the encoder in this call; 0 where all were kept from before.
    """

    values: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    manifest: Manifest
    hashes: np.ndarray
    encoder: LatentEncoder
    store: ImageStore | None
    computed: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ids(self) -> np.ndarray:
        """Identifiers of the images, [N] str."""
        return self.manifest.images

    @property
    def groups(self) -> np.ndarray:
        """Patient of each image, [N] str."""
        return self.manifest.groups

    @cached_property
    def data_hash(self) -> str:
        """Hash over (id, label, group, split, content) of every image, which identifies the data of a result."""
        if self.store is not None:
            return self.store.data_hash
        splits = self.manifest.splits
        columns = [self.ids, self.manifest.labels, self.groups, self.hashes, *([] if splits is None else [splits])]
        return fingerprint({"latents": self.values.shape[1:]}, *(column.tolist() for column in columns), length=32)


def load_latents(
    images: ImageSource,
    encoder: LatentEncoder | str,
    *,
    options: ImageOptions | None = None,
    device: str | torch.device = "auto",
    precision: str = "auto",
    batch: int | None = None,
    cache: bool = True,
    progress: Progress = no_progress,
) -> Latents:
    """Compute the latents of images, or read them from the cache.

    Args:
        images: Source of the images, as for `memorisk.training.features.matrix.load_features`.
        encoder: Encoder that computes the latents, or its name.
        options: Settings that find, read and store the images; not with a store.
        device: Device to compute on; "auto" is a GPU where the machine has one.
        precision: Arithmetic of the encoder, as for `load_features`; pixels are float32 throughout.
        batch: Number of images per batch.
        cache: Whether latents are looked for and kept in the cache folder that also holds the image stores.
        progress: Function called with (stage, done, total).

    Raises:
        InputError: The images or the encoder are refused, or a latent is not finite.
        MemoriskError: The disk is full; what is done is kept.
    """
    if isinstance(images, ImageStore) and options is not None:
        raise InputError("images that are stored already take no options: give their source, or leave options out")
    store = images if isinstance(images, ImageStore) else _stored(images, options or ImageOptions(), progress)
    root, shape = store.folder.parent.parent, store.shape
    if isinstance(encoder, str):
        encoder = open_latents(encoder, shape, books=root if cache else None)
    check_channels(encoder.name, shape, encoder.channels)
    where = check_device(device)
    how = feature_precision(precision, where, mixed=encoder.kind != "pixels")
    plan = _plan(encoder, store, root / "latents", where, how, batch)
    features = (cached_features if cache else computed_features)(
        plan, progress=partial(progress, f"latents by {plan.name}")
    )
    if len(wrong := features.checks.not_finite):
        which = listed(store.manifest.images[wrong])
        raise InputError(f"latents by {encoder.name} are not finite for {len(wrong):,} images ({which})")
    values = features.values.reshape(-1, *encoder.latent_shape)
    mean, std = _cached_statistics(plan.folder, values) if cache else channel_statistics(values)
    return Latents(values, mean, std, store.manifest, store.pixel_hashes, encoder, store, features.computed)


def read_latents(path: str | Path, *, table: pd.DataFrame | None = None) -> Latents:
    """Read latents that were computed elsewhere, such as a generator's own: nothing is decoded.

    Args:
        path: ``.npz`` with ``latents`` [N, c, h, w], ``image`` [N] and, where they are known, ``group``, ``label``,
            ``dataset`` and ``split``; or ``.npy`` with a table of these columns. The prefix "latents:" is allowed.
        table: Table of a ``.npy``; by default the ``.csv`` or ``.parquet`` in the same folder, of the same name.

    Raises:
        InputError: The file is missing, damaged, of another shape or not finite, or the ids do not fit it.
    """
    file = Path(str(path).removeprefix(LATENTS_PREFIX))
    shown_name = one_line(file.name, 80)
    if not file.is_file():
        raise InputError(f"file of latents {one_line(file)} does not exist")
    try:
        values, rows = _read(file, table)
    except ARRAY_ERRORS as error:
        raise InputError(f"latents {shown_name} cannot be read: {one_line(error, 160)}") from None
    if values.ndim != 4 or values.dtype.kind not in "fiu" or not values.size:
        raise InputError(
            f"latents {shown_name} are {values.dtype} of shape {values.shape}; needed are numbers [N, c, h, w]"
        )
    manifest = _manifest(file, rows, len(values))
    if values.dtype != np.float32:
        with np.errstate(over="ignore"):  # what float32 cannot hold is found as not finite
            values = values.astype(np.float32)
    values.flags.writeable = False
    mean, std = channel_statistics(values)
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        wrong = [not np.isfinite(row).all() for row in values]
        raise InputError(
            f"latents {shown_name} are not finite for {sum(wrong):,} images ({listed(manifest.images[wrong])})"
        )
    _, c, h, w = (int(n) for n in values.shape)
    hashes = np.array([fingerprint(np.asarray(row), length=32) for row in values], dtype=object)
    encoder = external_encoder(f"latents given directly ({c} x {h} x {w})", (c, h, w))
    return Latents(values, mean, std, manifest, hashes, encoder, None)


def channel_statistics(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean and population deviation of each channel in float64, a few megabytes at a time.

    Args:
        values: Latents, [N, c, ...], perhaps on the disk.

    Returns:
        Mean and deviation, [c] float64 each.
    """
    step = max(1, _AT_ONCE // max(1, int(np.prod(values.shape[1:], dtype=np.int64))))
    return running_statistics(values[start : start + step] for start in range(0, len(values), step))


def running_statistics(blocks: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Compute `channel_statistics` of values that come in blocks.

    Sums of squares about each block's own mean are joined (Chan et al. 1979).

    Args:
        blocks: Blocks of latents, [n, c, ...] each, one at least.

    Returns:
        Mean and deviation, [c] float64 each.
    """
    total, mean, squares = 0, np.zeros(1), np.zeros(1)
    with np.errstate(invalid="ignore", over="ignore"):
        for values in blocks:
            block = np.asarray(values, dtype=np.float64).reshape(*values.shape[:2], -1)
            count = block.shape[0] * block.shape[2]
            own = block.mean(axis=(0, 2))
            apart = own - mean
            squares = squares + np.square(block - own[:, None]).sum(axis=(0, 2))
            squares = squares + np.square(apart) * (total * count / (total + count))
            mean = mean + apart * (count / (total + count))
            total += count
    return mean, np.sqrt(squares / max(1, total))


class _FlatEncoder(nn.Module):
    """An encoder whose latents are flattened to one vector per image."""

    def __init__(self, encoder: LatentEncoder) -> None:
        super().__init__()
        self.inner = encoder.load()
        self.shape, self.name = encoder.latent_shape, encoder.name
        self.training = self.inner.training

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Encode [b, C, H, W] to [b, c h w]."""
        latents = self.inner(x)
        if tuple(latents.shape[1:]) != self.shape:
            raise InputError(f"{self.name} gives latents of shape {list(latents.shape[1:])}, not {list(self.shape)}")
        return latents.flatten(1)


def _stored(images: str | Path | Manifest, options: ImageOptions, progress: Progress) -> ImageStore:
    manifest = images if isinstance(images, Manifest) else load_manifest(images, options)
    return build_store(manifest, options, progress=partial(progress, "decoding images"))


def _plan(
    encoder: LatentEncoder, store: ImageStore, root: Path, device: torch.device, precision: str, batch: int | None
) -> FeaturePlan:
    """Plan the computation: its key is the content of the images and whatever else decides the values."""
    computed_by = {
        "precision": precision,
        "device": device.type,
        "stored": store.shape,
        "depth": store.images.dtype.str,
    }
    content: dict[str, Any] = {"format": _FORMAT, **computed_by, **encoder.identity}
    height, width = encoder.size
    size = batch or max(1, min(_MOST_A_BATCH, _PIXELS_PER_BATCH.get(device.type, 1 << 20) // (height * width)))

    def compute(rows: np.ndarray):
        """Yield the latents of these rows, a batch at a time."""
        how = {"device": device, "precision": precision, "batch": size, "name": encoder.name}
        return feature_batches(_FlatEncoder(encoder), store.images, rows, encoder.preprocessing, **how)

    def meta() -> dict[str, Any]:
        """Describe the encoder."""
        return {"encoder": encoder.name, "identity": content, "latent_shape": encoder.latent_shape}

    return FeaturePlan.of(store, root, encoder.name, content, compute, meta)


def _cached_statistics(folder: Path, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read the statistics that are kept with the values, or compute and write them."""
    if is_intact(folder / STATISTICS):
        statistics = read_json(folder / STATISTICS)
        return np.array(statistics["mean"], dtype=np.float64), np.array(statistics["std"], dtype=np.float64)
    mean, std = channel_statistics(values)
    write_json(folder / STATISTICS, {"n": len(values), "mean": mean, "std": std}, recorded=True)
    return mean, std


def _read(file: Path, table: pd.DataFrame | None) -> tuple[np.ndarray, pd.DataFrame]:
    """Read the latents, and the table of the images that they belong to."""
    if file.suffix.lower() == ".npz":
        check_arrays(file)
        with np.load(file, allow_pickle=False) as archive:
            rows = {name: check_characters(archive[name]).astype(str) for name in _COLUMNS if name in archive.files}
            return archive["latents"], pd.DataFrame(rows, dtype=object)
    if file.suffix.lower() != ".npy":
        raise ValueError("latents are .npz or .npy")
    if table is None:
        beside = next((f for f in (file.with_suffix(".csv"), file.with_suffix(".parquet")) if f.is_file()), None)
        if beside is None:
            raise ValueError(
                f"a .npy names no images: put {file.stem}.csv next to it with columns image and group, or save .npz "
                "with latents, image and group"
            )
        table = read_csv(beside) if beside.suffix == ".csv" else read_table(beside)
    return read_array(file, mmap=True), table


def _manifest(file: Path, rows: pd.DataFrame, n: int) -> Manifest:
    shown_name = one_line(file.name, 80)
    if "image" not in rows:
        raise InputError(
            f"latents {shown_name} name no images: an array or column 'image' with an id for each is needed"
        )
    if len(rows) != n:
        raise InputError(f"latents {shown_name} have {n:,} rows and {len(rows):,} ids")
    given_columns = {name: rows[name].fillna("").astype(str).tolist() for name in _COLUMNS if name in rows}
    ids = given_columns["image"]
    groups = [group or image for group, image in zip(given_columns.get("group", ids), ids, strict=True)]
    columns = {"path": [file.name] * n, "label": given_columns.get("label", [""] * n)}
    table = pd.DataFrame({**given_columns, **columns, "group": groups}, dtype=object)
    manifest = Manifest(table=table, root=file.parent, name=file.stem)
    manifest.validate()
    return manifest
