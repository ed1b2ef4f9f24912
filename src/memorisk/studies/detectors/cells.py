"""One detector of the grid: it is trained where needed, and embeds every image and copy; distances by every measure.

A backbone is an architecture with its weights; the tables name its pre-training. A cell leaves a folder ``cells/KEY``
with one file per measure (`measurement`) and ``cell.json``, which is written last and marks it as done. A killed cell
resumes with the measures that are not there. ``failed.json`` holds the reason why a cell failed until the cell runs
through.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from memorisk.images.file_hashes import content_fingerprints
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.models.copy_detectors import load_detector
from memorisk.models.encoders.feature_sources import RANDOM, FeatureSource, parse_source, split_name
from memorisk.models.encoders.networks import PixelPca
from memorisk.runs.environment import available_memory
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.runs.files import fingerprint, read_array
from memorisk.runs.storage.locations import cache_folder
from memorisk.studies.detectors.measurement import measure_pools, too_large
from memorisk.studies.detectors.options import NO_TRAINING, BenchDetectorsOptions
from memorisk.studies.detectors.pools import CopyRows, Parts
from memorisk.studies.engine.cells import CellFolder
from memorisk.studies.engine.encoders import (
    features_description,
    refuse_not_finite,
    refuse_saved,
    shown_name,
)
from memorisk.training.engine.devices import limited_threads
from memorisk.training.features.matrix import Features, load_features
from memorisk.training.features.pca import fit_pixel_pca

LOSS_NAMES = {NO_TRAINING: "untrained", "triplet": "Triplet", "infonce": "InfoNCE"}


@dataclass(frozen=True)
class Backbone:
    """A backbone of the grid.

    Attributes:
        text: Source that computes its features, as `memorisk.models.encoders.feature_sources` reads it.
        model: Name of its architecture.
        pretraining: Name of its weights in the tables; "random" for none, empty for pixels and PCA.
        source: Source that `text` names.
    """

    text: str
    model: str
    pretraining: str
    source: FeatureSource

    @property
    def name(self) -> str:
        """Name the architecture and the pre-training, as in "resnet50, ImageNet"."""
        return f"{self.model}, {self.pretraining}" if self.pretraining else self.model

    def detector(self, loss: str) -> str:
        """Name a detector made of it, as the paper does: "resnet50 (ImageNet, Triplet)"."""
        inner = ", ".join(part for part in (self.pretraining, LOSS_NAMES[loss]) if part)
        return f"{self.model} ({inner})"

    @property
    def trainable(self) -> bool:
        """Return whether a detector can be trained from it."""
        return self.source.kind == "network"

    @property
    def seeded(self) -> bool:
        """Return whether its features depend on a seed without any training."""
        return self.source.weights == RANDOM


def read_backbone(spec: str) -> Backbone:
    """Read a backbone from its name on the command line.

    The name is ``NAME@WEIGHTS``, ``pixels`` or ``pca:16``, with ``=LABEL`` behind it.

    Args:
        spec: Text that `memorisk.models.encoders.feature_sources.parse_source` reads; the text behind the last ``=``
            names the pre-training in the tables (``resnet50@radimagenet.safetensors=RadImageNet``), else the weights
            do.

    Raises:
        InputError: A name is unknown, weights are not there, or the features are computed already and cannot be
            computed of copies.
    """
    text, label = split_name(spec)
    source = parse_source(text)
    refuse_saved(source, source.shown)
    return Backbone(text, _model(source), label or _pretraining(source), source)


def _model(source: FeatureSource) -> str:
    name = shown_name(source)
    return name if source.kind in ("pixels", "pca") else name.partition("@")[0]


def _pretraining(source: FeatureSource) -> str:
    if source.kind in ("pixels", "pca"):
        return ""
    if source.kind == "detector":
        return _training_words(source)
    if source.weights == RANDOM:
        return "random"
    if source.weights is None:
        return "its folder's"
    return re.sub(r"\.(safetensors|pt|pth|bin|h5|npz|th|tar)$", "", Path(source.weights).name)


def _training_words(source: FeatureSource) -> str:
    """Name the backbone and the loss of a trained detector: many have a folder of the same name."""
    from memorisk.models.provenance import read_config

    config = read_config(source.folder)
    return f"{config.backbone} by {LOSS_NAMES.get(config.loss, config.loss)}"


def weights_problem(backbone: Backbone) -> str:
    """Return why the weights that a backbone names cannot be read; empty where they can, or where none are on the disk.

    Only the built network shows whether they fit it.
    """
    from memorisk.models.weight_files import read_state_dict

    source = backbone.source
    try:
        if source.kind == "detector":
            load_detector(source.folder)
        elif source.kind == "network" and source.weights and Path(source.weights).is_file():
            read_state_dict(source.weights)
    except (InputError, OSError) as error:
        return one_line(error, 300)
    return ""


DETECTORS = "detectors"
_FORMAT = 1


@dataclass(frozen=True)
class Cell:
    """A detector of the grid.

    Attributes:
        backbone: Backbone with its weights.
        loss: "none", "triplet" or "infonce".
        seed: Random seed of its training and of random weights.
    """

    backbone: Backbone
    loss: str
    seed: int

    @property
    def trained(self) -> bool:
        """Return whether it is trained."""
        return self.loss != NO_TRAINING

    @property
    def name(self) -> str:
        """Name the cell in words."""
        return f"{self.backbone.detector(self.loss)}, seed {self.seed}"


def grid(backbones: Sequence[Backbone], losses: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """List every detector of the grid.

    Pixels and PCA are not trained and occur once, as does an untrained network whose weights are given.
    """
    cells = []
    for backbone in backbones:
        for loss in losses if backbone.trainable else (NO_TRAINING,):
            several = loss != NO_TRAINING or backbone.seeded
            cells += [Cell(backbone, loss, seed) for seed in (seeds if several else seeds[:1])]
    return cells


@dataclass(frozen=True, eq=False)
class CellJob(CellFolder):
    """A cell with all that it needs; picklable, images stay on the disk.

    Attributes:
        cell: Cell of the grid.
        out: Folder of the run.
        encoder: Key of what decides its features, except the division and the copies, which the run folder fixes.
        images: Folder of the image store.
        manifest: Manifest of all images.
        pixel_hashes: Hash of each image's pixels, [N].
        copied: Copies by strength.
        division: Division of the images.
        options: Options of the benchmark.
        device: Device that computes.
        memory: Number of bytes that it may take; None for the free memory where it runs.
    """

    cell: Cell
    out: Path
    encoder: str
    images: Path
    manifest: Manifest
    pixel_hashes: np.ndarray
    copied: Mapping[str, CopyRows]
    division: Parts
    options: BenchDetectorsOptions
    device: str
    memory: int | None = None

    @property
    def name(self) -> str:
        """Name the detector in words."""
        return self.cell.name

    @property
    def key(self) -> str:
        """Return the key of everything that decides its distances."""
        return fingerprint(self.encoder, self.options.domain)

    @property
    def detector(self) -> Path:
        """Return the folder of a trained detector."""
        return self.out / DETECTORS / self.encoder

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the measures, each of which has a file of distances."""
        return self.options.chosen_measures

    def store(self) -> ImageStore:
        """Open the store of the images."""
        nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
        images = read_array(self.images / "images.npy", mmap=True)
        return ImageStore(images, self.manifest, self.images.name, self.images, nothing, self.pixel_hashes)


def encoder_key(cell: Cell, options: BenchDetectorsOptions, device: str) -> str:
    """Return the key of a cell's features: weights count by their content, not by their path."""
    source = cell.backbone.source
    weights, name = source.weights, cell.backbone.text
    if source.kind in ("transformers", "detector") and source.folder.is_dir():
        files = sorted(str(path) for path in source.folder.iterdir() if path.is_file())
        held = content_fingerprints(files, _hash_folder(options))
        name, weights = source.kind, fingerprint([[Path(file).name, held[file]] for file in files])
    elif weights is not None and Path(weights).is_file():
        name = name.partition("@")[0]
        weights = content_fingerprints([weights], _hash_folder(options))[weights]
    precision = {"size": options.network_size, "precision": options.precision, "device": torch.device(device).type}
    content = {"format": _FORMAT, "name": name, "weights": weights, "loss": cell.loss, "seed": cell.seed}
    if cell.trained:
        settings = asdict(options.training("", cell.loss, cell.seed))
        content["training"] = {
            k: v for k, v in settings.items() if k not in ("backbone", "device", "checkpoint_seconds")
        }
    return fingerprint(content | precision)


def run_cell(job: CellJob) -> str:
    """Run a cell and leave its distances in the run folder; return its key.

    Raises:
        InputError: Its features cannot be computed, are not finite, or no measure takes them.
        MemoriskError: The disk is full.
    """
    if job.done:
        return job.key
    job.make_folder()
    with limited_threads(job.options.threads):
        features, copies = embed(job)
        how: dict[str, Any] = {"domain": job.options.domain, "threads": job.options.threads}
        free = available_memory() if job.memory is None else job.memory
        for name in job.missing:
            if why := too_large(name, len(job.division.rows("train")), features.values.shape[1], free):
                arrays = {"refused": np.array(why), "published_refused": np.array(why)}
            else:
                arrays = measure_pools(name, features.values, copies, job.division, device=job.device, **how)
            job.write(name, arrays)
        named = {"detector": job.cell.name, "loss": job.cell.loss, "seed": job.cell.seed}
        job.finish(named | features_description(features))
    return job.key


def embed(job: CellJob) -> tuple[Features, dict[str, np.ndarray]]:
    """Compute the features of all images, and of the copies by strength.

    Raises:
        InputError: The features cannot be computed, or are not finite.
    """
    store = job.store()
    source = _source(job, store)
    how: dict[str, Any] = {"seed": job.cell.seed, "device": job.device, "precision": job.options.precision}
    if job.cell.backbone.trainable and not job.cell.trained:
        how["size"] = job.options.network_size
    features = load_features(store, source, cache=not job.cell.trained, **how)
    refuse_not_finite(features, "images")
    copies = {}
    for strength, copied in job.copied.items():
        copy_features = load_features(copied.store(job.manifest), source, cache=False, **how)
        refuse_not_finite(copy_features, f"{strength} copies")
        copies[strength] = copy_features.values
    return features, copies


def _source(job: CellJob, store: ImageStore) -> str | PixelPca:
    """Return the source of the features: the backbone, a PCA fitted on training images, or a detector trained now."""
    source = job.cell.backbone.source
    if source.kind == "pca" and source.weights is None:
        return fit_pixel_pca(
            store.images, int(source.components or 0), rows=job.division.rows("train"), side=source.side
        )
    if job.cell.trained:
        _train(job, store)
        return f"detector:{job.detector}"
    if source.kind == "detector":
        _refuse_leakage(job, store)
    return job.cell.backbone.text


def _train(job: CellJob, store: ImageStore) -> None:
    """Train the detector on the train part, its epoch chosen by the validation part; or resume its training."""
    from memorisk.training.detectors.contrastive.fit import fit_detector

    cell, parts = job.cell, job.division
    options = replace(job.options.training(cell.backbone.text, cell.loss, cell.seed), device=job.device)
    fit_detector(store, parts.rows("train"), parts.rows("validation"), parts.groups, options, job.detector)


def _refuse_leakage(job: CellJob, store: ImageStore) -> None:
    """Refuse a detector that was trained, or whose epoch was chosen, on patients that must be new to it.

    Validation patients need not be new: they choose the measure, as they choose the epoch of a training here.

    Raises:
        InputError: The detector was trained or chosen so.
    """
    has_met = load_detector(job.cell.backbone.source.folder).seen_parts(store).part != ""
    new = np.isin(job.division.part, ("test", "null", "test_null"))
    n_patients = len(np.unique(job.division.groups[has_met & new].astype(str)))
    if n_patients:
        raise InputError(
            f"{job.cell.backbone.name} has seen {plural(n_patients, 'patient', 'patients')} of the test and null "
            "parts: what it finds of them says nothing of new patients"
        )


def _hash_folder(options: BenchDetectorsOptions) -> Path:
    """Return the folder that remembers hashes of unchanged files."""
    return cache_folder(options.store)
