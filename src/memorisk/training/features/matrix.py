"""From any images to one feature matrix, with ids, groups and a description for the report.

An example is ``load_features("scans/", "resnet50@weights.safetensors")``; `memorisk.models.encoders.feature_sources`
lists the possible second arguments. Features are computed once for a content (`memorisk.training.features.cache`).

Networks embed volumes by three middle slices (`memorisk.images.volumes`): the vector of a volume is the vectors of its
slices one after the other, and where windows are embedded those of its first window come first. Pixels and their
components are those of all voxels.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.stacked_images import MiddleSlices
from memorisk.images.store import ImageStore, build_store
from memorisk.images.volumes import is_volume
from memorisk.models.encoders.feature_sources import FeatureSource, parse_source, read_saved
from memorisk.models.encoders.networks import Encoder, PixelPca, StoredShape, open_encoder, pca_encoder
from memorisk.models.feature_description import FeatureDescription
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path, file_fingerprint, fingerprint
from memorisk.runs.storage.locations import cache_folder
from memorisk.runs.workload import CountProgress, Progress, no_progress
from memorisk.training.features.cache import (
    CachedFeatures,
    Compute,
    FeatureChecks,
    FeaturePlan,
    cached_features,
    check_values,
    computed_features,
)
from memorisk.training.features.compute_backend import FeatureJob, FeatureWork, feature_job
from memorisk.training.features.extraction import (
    by_slices,
    feature_batches,
    feature_precision,
    windows_per_image,
)
from memorisk.training.features.pca import fit_pixel_pca

_FORMAT = 1  # part of the key: a change of how images reach an encoder makes new features

ImageSource = str | Path | Manifest | ImageStore
"""A source as for `load_manifest`, its manifest, or the store of its images."""

Reference = ImageStore | PixelPca | np.ndarray | list[int]
"""Data that PCA is fitted on: a store, rows of the images at hand (indices or a mask); or a fit."""


@dataclass(frozen=True, eq=False)
class Features:
    """Feature matrix of a set of images.

    Attributes:
        values: Features, [N, d] float32, read-only, perhaps a memory map; rows in the order of the images.
        ids: Identifiers of the images, [N] str.
        groups: Patient of each image, [N] str.
        described: Description for the report.
        checks: Rows that are not finite, constant rows and columns.
        computed: Number of images that went through the encoder in this call; 0 where all were kept from before.
    """

    values: np.ndarray
    ids: np.ndarray
    groups: np.ndarray
    described: FeatureDescription
    checks: FeatureChecks
    computed: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: np.ndarray | list[int]) -> "Features":
        """Return the features of some rows, by boolean mask [N] or by index [n], in that order, without the others."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool and len(chosen) != len(self):
            raise InputError(f"a mask of {len(chosen):,} rows was given for {len(self):,} images")
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        return replace(
            self,
            values=self.values[chosen],
            ids=self.ids[chosen],
            groups=self.groups[chosen],
            described=replace(self.described, n=len(chosen)),
            checks=self.checks.of_rows(chosen),
        )

    def save(self, path: str | Path) -> None:
        """Write them as ``.npz`` (``features, image, group``), private and atomic, a file that a source may name.

        Raises:
            InputError: The name does not end in .npz.
        """
        if Path(path).suffix.lower() != ".npz":
            raise InputError(f"features are saved as .npz; {one_line(Path(path).name, 80)} is named otherwise")
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, features=self.values, image=self.ids.astype(str), group=self.groups.astype(str))


def load_features(
    images: ImageSource,
    source: str | Path | FeatureSource | PixelPca,
    *,
    options: ImageOptions | None = None,
    reference: Reference | None = None,
    size: int | None = None,
    normalise: str | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    precision: str = "auto",
    batch: int | None = None,
    cache: bool = True,
    processes: int | None = None,
    work: FeatureWork | None = None,
    progress: Progress = no_progress,
) -> Features:
    """Compute the features of images, or read them from the cache.

    Args:
        images: Source of the images: a folder, table, DICOM tree or file of arrays; a manifest; or a store.
        source: Source of features (`memorisk.models.encoders.feature_sources`), or a PCA that was fitted.
        options: Settings that find, read and store the images; not with a store. ``size`` there is the stored side.
        reference: Images that ``pca:K`` is fitted on.
        size: Side of a network's input in pixels; by default that of its training, for memorisk's own the store's.
        normalise: Mean and deviation of a network's input where they are not the published ones, as "0.13/0.31".
        seed: Random seed of random weights.
        device: Device to compute on; "auto" is a GPU where the machine has one.
        precision: Arithmetic: "fp32", on a GPU also "bf16" and "fp16"; "auto" is bf16 there. PCA and pixels
            are always float64.
        batch: Number of images per batch; features do not depend on it.
        cache: Whether features are looked for and kept in the cache folder that also holds the image stores.
        processes: Number of processes that decode images.
        work: Workers of a cluster that compute the features of networks; None for this process, which computes those of
            volumes in any case.
        progress: Function called with (stage, done, total).

    Returns:
        Features of the images, rows in the order of the images.

    Raises:
        InputError: The images or the source are refused, or the features are constant.
        MemoriskError: The disk is full; what is done is kept.
    """
    wanted = source if isinstance(source, (FeatureSource, PixelPca)) else parse_source(source)
    if reference is not None and not (
        isinstance(wanted, FeatureSource) and wanted.kind == "pca" and not wanted.weights
    ):
        raise InputError("a reference is what pca:K is fitted on; these features are not fitted: leave it out")
    where = check_device(device)
    if isinstance(images, ImageStore):
        if options is not None:
            raise InputError("images that are stored already take no options: give their source, or leave options out")
        manifest = images.manifest
    else:
        manifest = images if isinstance(images, Manifest) else load_manifest(images, options)
    if isinstance(wanted, FeatureSource) and wanted.kind == "saved":
        return _read_saved(wanted, manifest)
    if isinstance(images, ImageStore):
        store = images
    else:
        counted = partial(progress, "decoding images")
        store = build_store(manifest, options or ImageOptions(), processes=processes, progress=counted)
    root = store.folder.parent.parent / "features"
    slices = by_slices(wanted, store.shape)
    encoder = _encoder(wanted, store, reference, root if cache else None, size, normalise, seed)
    how = feature_precision(precision, where, mixed=encoder.mixed)
    counted = partial(progress, f"features by {encoder.name}")
    plan = _plan(wanted, encoder, store, root, where, how, batch)
    if work is not None and isinstance(wanted, FeatureSource) and not slices:
        job = feature_job(
            wanted, encoder, store.shape, size=size, normalise=normalise, seed=seed, precision=how, device=where,
            batch=batch, threads=work.threads,
        )  # fmt: skip
        plan = replace(plan, compute=partial(_compute_by_workers, work, job, store, counted, plan.compute))
    matrix = (cached_features if cache else computed_features)(plan, progress=counted)
    return _features(wanted, encoder, store, how, matrix)


def _encoder(
    source: FeatureSource | PixelPca,
    store: ImageStore,
    reference: Reference | None,
    root: Path | None,
    size: int | None,
    normalise: str | None,
    seed: int,
) -> Encoder:
    if isinstance(source, PixelPca):
        return pca_encoder(source, store.shape)
    fitted = _fit_or_load_pca(source, store, reference, root) if source.kind == "pca" else None
    books = None if root is None else root.parent
    shape = (*store.shape[:2], 1) if by_slices(source, store.shape) else store.shape
    return open_encoder(source, shape, size=size, normalise=normalise, seed=seed, fitted=fitted, books=books)


def _fit_or_load_pca(
    source: FeatureSource, store: ImageStore, reference: Reference | None, root: Path | None
) -> PixelPca | None:
    """Return the fit that a source needs: from its file, as given, kept from before, or made now."""
    if source.weights is not None:
        return PixelPca.load(source.weights)
    if reference is None or isinstance(reference, PixelPca):
        return reference
    if isinstance(reference, ImageStore):
        base, rows = reference, np.arange(len(reference.images))
    else:
        base, rows = store, np.asarray(reference)
        if rows.dtype == bool and len(rows) != len(store.images):
            raise InputError(f"a mask of {len(rows):,} reference images was given for {len(store.images):,} images")
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
    fit = partial(fit_pixel_pca, base.images, int(source.components or 0), rows=rows, side=source.side)
    if root is None:
        return fit()
    content = {"format": _FORMAT, "components": source.components, "side": source.side, "stored": base.shape}
    file = root / f"pca-{fingerprint(content, base.pixel_hashes[rows].tolist(), length=32)}.npz"
    try:
        return PixelPca.load(file)
    except InputError:  # not there, or damaged
        pca = fit()
        cache_folder(root)
        pca.save(file)
        return pca


def _plan(
    source: FeatureSource | PixelPca,
    encoder: Encoder,
    store: ImageStore,
    root: Path,
    device: torch.device,
    precision: str,
    batch: int | None,
) -> FeaturePlan:
    """Plan the computation: its key is the content of the images and whatever else decides the values."""
    computed_by = {"precision": precision, "device": device.type, "dtype": str(encoder.dtype), "stored": store.shape}
    content = {"format": _FORMAT, "depth": store.images.dtype.str, **computed_by, **encoder.identity}

    def compute(rows: np.ndarray):
        """Yield features of these rows, a batch at a time."""
        module, _ = encoder.load()
        how = {"device": device, "precision": precision, "dtype": encoder.dtype, "batch": batch, "name": encoder.name}
        if not by_slices(source, store.shape):
            return feature_batches(module, store.images, rows, encoder.preprocessing, **how)
        assert isinstance(source, FeatureSource)
        slices = (MiddleSlices.PER_VOLUME * rows[:, None] + np.arange(MiddleSlices.PER_VOLUME)).ravel()
        batches = feature_batches(module, MiddleSlices(store.images), slices, encoder.preprocessing, **how)
        return _of_volumes(batches, windows_per_image(source))

    def meta() -> dict[str, Any]:
        """Describe the encoder and its weights."""
        return {"encoder": encoder.name, "identity": content, "loading": list(encoder.load()[1])}

    return FeaturePlan.of(store, root, encoder.name, content, compute, meta)


def _of_volumes(batches: Generator[np.ndarray], windows: int) -> Generator[np.ndarray]:
    """Join the vectors of slices [b, W * d] to those of volumes [n, W * 3 * d], window by window."""
    waiting: list[np.ndarray] = []
    for block in batches:
        vectors = np.concatenate([*waiting, block])
        n = len(vectors) // MiddleSlices.PER_VOLUME
        whole, rest = np.split(vectors, [n * MiddleSlices.PER_VOLUME])
        waiting = [rest]
        if n:
            yield whole.reshape(n, MiddleSlices.PER_VOLUME, windows, -1).swapaxes(1, 2).reshape(n, -1)


def _compute_by_workers(
    work: FeatureWork, job: FeatureJob, store: ImageStore, counted: CountProgress, here: Compute, rows: np.ndarray
) -> Generator[np.ndarray]:
    """Yield features of these rows by workers; on this machine for few rows, and for sources without a network."""
    if not work.takes(job.source, len(rows), job.batch):
        yield from here(rows)
    else:
        yield from work.blocks(job, store.images, rows, counted)


def _features(
    source: FeatureSource | PixelPca, encoder: Encoder, store: ImageStore, how: str, cached: CachedFeatures
) -> Features:
    ids, d = store.manifest.images, int(cached.values.shape[1])
    loading = [f"Weights of {encoder.name}: {one_line(note, 300)}." for note in cached.meta["loading"]]
    described = FeatureDescription(
        source=source.shown if isinstance(source, FeatureSource) else encoder.name,
        encoder=encoder.name,
        weights=encoder.weights,
        weights_fingerprint=encoder.weights_fingerprint,
        state=encoder.state,
        preprocessing=_preprocessing_notes(encoder, store.shape),
        precision="fp64" if encoder.dtype == torch.float64 else how,
        dimension=d,
        n=len(ids),
        n_distinct=cached.n_distinct,
        notes=(*encoder.notes, *loading, *cached.checks.sentences(ids, d)),
    )
    return Features(cached.values, ids, store.manifest.groups, described, cached.checks, cached.computed)


def _preprocessing_notes(encoder: Encoder, stored: StoredShape) -> str:
    """Describe the preprocessing of an image."""
    how = encoder.preprocessing
    height, width = how.size
    sliced = how.channels != stored[2] and is_volume(stored)
    steps = [f"stored at {stored[0]} x {stored[1]} pixels in {stored[2]} channel{'s' if stored[2] > 1 else ''}"]
    if is_volume(stored):
        what = "three middle slices" if sliced else "all voxels"
        steps = [f"{what} of volumes stored at {' x '.join(map(str, stored))} voxels"]
    if (stored[2] == 1 or sliced) and how.channels == 3:
        steps.append("grey repeated in three channels")
    if (height, width) != stored[:2]:
        steps.append(f"resized to {height} x {width} (bilinear, antialias)")
    if encoder.state in ("fitted", "no network"):
        return ", ".join([*steps, "scaled to [0, 1]"])
    mean, std = (", ".join(f"{value:.4g}" for value in values) for values in (how.mean, how.std))
    return ", ".join([*steps, f"mean {mean} and deviation {std} of [0, 1]"])


def _read_saved(source: FeatureSource, manifest: Manifest) -> Features:
    """Read features that the user brings."""
    saved = read_saved(source.name, manifest.images)
    with np.errstate(over="ignore"):  # what float32 cannot hold is found as not finite
        values = saved.values if saved.values.dtype == np.float32 else saved.values.astype(np.float32)
    values.flags.writeable = False
    checks = check_values(values, source.shown)
    notes = [] if saved.by_id else [f"{source.shown} has no ids: its rows are taken in the order of the images."]
    if saved.left_over:
        notes.append(f"{saved.left_over:,} rows of {source.shown} belong to none of the images and are left out.")
    described = FeatureDescription(
        source=source.shown,
        encoder=source.shown,
        weights="",
        weights_fingerprint=file_fingerprint(source.name),
        state="saved",
        preprocessing="computed elsewhere",
        precision=str(saved.values.dtype),
        dimension=int(values.shape[1]),
        n=manifest.n,
        n_distinct=None,
        notes=(*notes, *checks.sentences(manifest.images, int(values.shape[1]))),
    )
    return Features(values, manifest.images, manifest.groups, described, checks)
