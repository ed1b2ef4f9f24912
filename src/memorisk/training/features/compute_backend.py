"""The place where a command computes features and searches among them: this machine, or a cluster.

A detector has one such place (`training.detectors.pair_detectors.PairDetector`); code that works on its features does
not depend on it.

On a cluster features are jobs: blocks of whole batches, each by a worker that opens the same encoder. Images remain in
their store; images that are in memory alone are first written to shared storage. Blocks begin where batches begin, so
that every image is in the same batch as it would be on this machine, and a job has as many threads: a network's last
bits depend on both. A block that is done is kept until the command ends: a killed command continues.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from memorisk.images.stacked_images import StackedImages
from memorisk.models.encoders.feature_sources import FeatureSource
from memorisk.models.encoders.networks import Encoder, StoredShape, open_encoder
from memorisk.runs.arrays import ABANDONED_SECONDS, SharedArray, npy_file_of, share_array, wait_for_file, write_guard
from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.executors.placement import ClusterOptions, Placement
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.worker import Outcome
from memorisk.runs.files import fingerprint, read_array, write_array
from memorisk.runs.locks import folder_lock
from memorisk.runs.storage.locations import cache_folder
from memorisk.runs.workload import CountProgress
from memorisk.scores.similarity import LOCAL_SEARCH, Search
from memorisk.training.engine.devices import limited_threads
from memorisk.training.engine.pixels import Images
from memorisk.training.engine.predict import batch_of_size
from memorisk.training.features.extraction import feature_batches
from memorisk.training.features.search_jobs import DistributedSearch

NETWORKS = ("network", "transformers", "detector", "plugin")
"""Kinds of sources that are worth sending to a worker; pixels and their components are read as fast as sent."""
_BATCHES = 8  # most batches of a job
_MIN_JOBS = 16  # least number of jobs, where batches are as many
_MAX_LOCAL_BATCHES = 2  # most batches that this machine computes itself


@dataclass(frozen=True)
class FilePart:
    """Some images of one file."""

    path: str
    """Path of a .npy file [N, H, W, C]."""
    shared: SharedArray | None
    """Array that was written for the jobs, checked before it is used; None for a file that existed before."""
    rows: np.ndarray
    """Rows of the file, [p]."""
    places: np.ndarray
    """Places among the images of the job, [p]."""

    def read(self) -> np.ndarray:
        """Read the images, [p, H, W, C].

        Raises:
            MemoriskError: The file is gone or damaged.
        """
        file = Path(self.path)
        wait_for_file(file)
        images = read_array(file, mmap=True) if self.shared is None else self.shared.open()
        return np.take(images, self.rows, axis=0)


@dataclass(frozen=True)
class FeatureJob:
    """A block of images for one encoder."""

    answer: str
    """File that the job writes."""
    source: FeatureSource
    """Source that computes; its paths are absolute."""
    stored: StoredShape
    size: int | None
    normalise: str | None
    seed: int
    identity: str
    """Fingerprint of the encoder on this machine: a worker's must be the same."""
    pieces: tuple[FilePart, ...]
    n: int
    """Number of images of the block."""
    precision: str
    device: str
    batch: int
    threads: int


@dataclass(frozen=True)
class FeatureWork:
    """Computation of features by the workers of a cluster."""

    place: Placement
    """Cluster and folders of the workers."""
    folder: Path
    """Folder on shared storage, for images that have no file and for answers."""
    threads: int = 1
    """Number of threads of a job."""

    def takes(self, source: object, n: int, batch: int) -> bool:
        """Return whether so many images are worth sending to the workers."""
        return isinstance(source, FeatureSource) and source.kind in NETWORKS and n > _MAX_LOCAL_BATCHES * batch

    def blocks(
        self, like: FeatureJob, images: Images, rows: np.ndarray, progress: CountProgress | None = None
    ) -> Iterator[np.ndarray]:
        """Yield features of chosen images, [b, d] of one block after another.

        Args:
            like: Job without its images and its answer.
            images: Images of the set, [N, H, W, C].
            rows: Rows of the chosen images, [n].
            progress: Function called with images done and their number as blocks end.

        Raises:
            InputError: A worker has other weights or does not see them, or the encoder refuses the images.
            MemoriskError: Some blocks failed; those that are done are kept.
        """
        batches = -(-len(rows) // like.batch)
        step = like.batch * max(1, min(_BATCHES, batches // _MIN_JOBS))
        parts = [rows[first : first + step] for first in range(0, len(rows), step)]
        with write_guard(self.folder, "images of a pass"):
            jobs = [self._job(like, images, part) for part in parts]
        todo = [job for job in jobs if _read_block(job) is None]
        done = len(rows) - sum(job.n for job in todo)

        def ended(of: Outcome) -> None:
            """Count the images of a block."""
            nonlocal done
            done += todo[of.index].n if of.error is None else 0
            if progress is not None:
                progress(done, len(rows))

        place = replace(self.place, files=needed_files(like.source))
        run_jobs(run_features, todo, threads=self.threads, on_done=ended, place=place)
        for piece in (piece for job in jobs for piece in job.pieces if piece.shared is not None):
            Path(piece.path).unlink(missing_ok=True)
        for job in jobs:
            wait_for_file(Path(job.answer))
            features = _read_block(job)
            if features is None:
                raise MemoriskError(f"features in {one_line(self.folder, 160)} are damaged: remove that folder")
            yield features

    def _job(self, like: FeatureJob, images: Images, rows: np.ndarray) -> FeatureJob:
        """Build the job of some rows; images without a file of their own are written for it."""
        pieces = []
        for array, chosen, places in _parts(images, rows):
            path = npy_file_of(array)
            if path is not None and any(path.is_relative_to(place) for place in self.place.folders):
                pieces.append(FilePart(str(path), None, chosen, places))
                continue
            shared = share_array(self.folder, np.take(np.asarray(array), chosen, axis=0))
            pieces.append(FilePart(shared.path, shared, np.arange(len(chosen)), places))
        content = [[one.path, one.shared and one.shared.fingerprint, one.rows, one.places] for one in pieces]
        key = fingerprint(like.identity, like.precision, like.device, like.batch, content, length=32)
        return replace(like, answer=str(self.folder / f"features-{key}.npy"), pieces=tuple(pieces), n=len(rows))


def feature_job(
    source: FeatureSource,
    encoder: Encoder,
    stored: StoredShape,
    *,
    size: int | None,
    normalise: str | None,
    seed: int,
    precision: str,
    device: torch.device,
    batch: int | None,
    threads: int,
) -> FeatureJob:
    """Make the part of a job that all blocks of a pass share.

    Args:
        source: Source that computes.
        encoder: Encoder as it was opened on this machine.
        stored: Height, width and channels of the images.
        size: Side in pixels of the encoder's input.
        normalise: Mean and deviation of its input.
        seed: Random seed of untrained weights.
        precision: Arithmetic of the encoder, resolved.
        device: Device of the kind that workers are to compute on.
        batch: Number of images per batch; None for that of a pass on this machine.
        threads: Number of threads of a job.
    """
    height, width = encoder.preprocessing.size
    images = batch or batch_of_size(int(height), int(width))
    mark = fingerprint(encoder.identity, length=32)
    return FeatureJob(
        "", _absolute(source), stored, size, normalise, seed, mark, (), 0, precision, device.type, images, threads
    )


def run_features(job: FeatureJob) -> None:
    """Compute the features of a block and write them to its file.

    Raises:
        InputError: The weights on this machine are others, or the encoder refuses the images.
        MemoriskError: Images are gone, or the disk is full.
    """
    if _read_block(job) is not None:
        return
    encoder = _same_encoder(job)
    images = None
    for piece in job.pieces:
        pixels = piece.read()
        images = np.empty((job.n, *pixels.shape[1:]), pixels.dtype) if images is None else images
        images[piece.places] = pixels
    assert images is not None
    how = {"precision": job.precision, "dtype": encoder.dtype, "batch": job.batch, "name": encoder.name}
    with limited_threads(job.threads):
        module, _ = encoder.load()
        batches = feature_batches(
            module, images, np.arange(job.n), encoder.preprocessing, device=torch.device(job.device), **how
        )
        values = np.concatenate(list(batches))
    answer = Path(job.answer)
    with write_guard(answer.parent, "features"):
        write_array(answer, values, recorded=True)


def needed_files(source: FeatureSource) -> tuple[Path, ...]:
    """Name the files that workers must see to open an encoder: a file of weights, or a folder."""
    if source.comes_with_memorisk:
        return ()
    location = (source.name if source.kind in ("detector", "transformers") else source.weights) or ""
    return (Path(location).resolve(),) if location and Path(location).exists() else ()


def _same_encoder(job: FeatureJob) -> Encoder:
    """Open the encoder of a job, kept from the last one.

    Raises:
        InputError: It has other weights than on the machine of the command.
    """
    for _ in range(2):
        encoder = _encoder(job.source, job.stored, job.size, job.normalise, job.seed)
        if fingerprint(encoder.identity, length=32) == job.identity:
            return encoder
        _encoder.cache_clear()  # a file may have been replaced since
    raise InputError(f"{job.source.shown} is not what it is where the command was given: give all machines one file")


@lru_cache(maxsize=1)
def _encoder(source: FeatureSource, stored: StoredShape, size: int | None, normalise: str | None, seed: int) -> Encoder:
    """Open an encoder once for all jobs of a pass."""
    return open_encoder(source, stored, size=size, normalise=normalise, seed=seed)


def _read_block(job: FeatureJob) -> np.ndarray | None:
    """Read the features of a block; None where they are missing, or damaged, so that they are computed again."""
    try:
        features = read_array(job.answer)
    except (OSError, ValueError, EOFError):
        return None
    return features if features.ndim == 2 and len(features) == job.n else None


def _absolute(source: FeatureSource) -> FeatureSource:
    """Return the source with paths that mean the same in any working folder of a worker."""
    changes: dict[str, str] = {}
    if source.comes_with_memorisk:
        return source
    if source.kind in ("detector", "transformers") and Path(source.name).exists():
        changes["name"] = str(Path(source.name).resolve())
    if source.kind == "network" and source.weights and Path(source.weights).is_file():
        path = str(Path(source.weights).resolve())
        changes |= {"weights": path, "text": f"{source.name}@{path}"}
    return replace(source, **changes)


def _parts(images: Images, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield arrays that hold chosen images, the rows of each, and their places among the chosen."""
    places = np.arange(len(rows))
    if not isinstance(images, StackedImages):
        array = images.cpu().numpy() if isinstance(images, torch.Tensor) else images
        yield array, np.asarray(rows), places
        return
    wanted = images.order[rows]
    part_of = np.searchsorted(images.starts, wanted, side="right") - 1
    for number in np.unique(part_of):
        here = np.flatnonzero(part_of == number)
        for array, chosen, inner in _parts(images.parts[number], wanted[here] - images.starts[number]):
            yield array, chosen, here[inner]


SEARCHES = "searches"


@dataclass(frozen=True)
class ComputeBackend:
    """Place where searches and passes of images run."""

    search: Search = LOCAL_SEARCH
    """Search that compares all pairs."""
    features: FeatureWork | None = None
    """Computation of features by workers; None for this process."""


LOCAL = ComputeBackend()


@contextmanager
def open_compute_backend(
    options: ClusterOptions, store: Path | None, out: Path, *, device: str, threads: int | None = None
) -> Iterator[ComputeBackend]:
    """Open this machine, or the cluster that a command names, as long as the command runs.

    Tables, answers and images of jobs lie below the store's folder, which all machines see. They are removed when the
    command ends well; after a kill, the same command continues from them.

    Args:
        options: Options that name the place of the jobs.
        store: Folder of decoded images; None for the usual one.
        out: Folder of the run, which identifies the command.
        device: Device of jobs.
        threads: Number of threads of a job; None for one of a search, whose answers are the same by any number, and
            for as many of a pass of images as this process has: the last bits of a network's sums depend on them.

    Raises:
        InputError: The folder cannot be written, or the same command runs already.
        MemoriskError: The disk has no space left.
    """
    if options.executor == "local":
        yield LOCAL
        return
    cache = cache_folder(store).resolve()
    root, key = cache / SEARCHES, fingerprint(str(out.resolve()))
    with write_guard(root, "tables of a search"):
        root.mkdir(mode=0o700, exist_ok=True)
        _remove_abandoned(root)
    with folder_lock(root, name=f"{key}.lock"):
        folder = root / key
        with write_guard(root, "tables of a search"):
            folder.mkdir(mode=0o700, exist_ok=True)
        place = options.placement(cache, gpus=int(device.startswith("cuda")))
        search = DistributedSearch(place, folder, threads or 1)
        yield ComputeBackend(search, FeatureWork(place, folder, threads or torch.get_num_threads()))
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(root: Path) -> None:
    """Remove the folders of commands that were killed and not run again for a week.

    Clocks may be set, so that age alone proves nothing: a folder whose lock another command holds is in use.
    """
    for folder in root.iterdir():
        with suppress(OSError, InputError):
            if folder.is_dir() and time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                with folder_lock(root, name=f"{folder.name}.lock"):
                    shutil.rmtree(folder, ignore_errors=True)
