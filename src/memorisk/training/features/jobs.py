"""Features of images as jobs: blocks of whole batches, each by a worker that opens the same encoder.

Images stay where their store is; what lies in memory alone goes to shared storage first. Blocks begin where batches
begin, so that every image stands in the batch that it would stand in here, and a job has as many threads: a network's
last bits depend on both. A block that is done stays until the command
ends: a killed one goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from memorisk.images.stacked import StackedImages
from memorisk.models.encoders.encoders import FeatureSource
from memorisk.models.encoders.networks import Encoder, Stored, open_encoder
from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.pool import Outcome, run_jobs
from memorisk.runs.files import read_array, write_array
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Counted
from memorisk.runs.shared_arrays import SharedArray, share_array, wait_for, whole_file
from memorisk.runs.unfinished import write_guard
from memorisk.training.engine.devices import limited_threads
from memorisk.training.engine.pixels import Images
from memorisk.training.features.extraction import feature_batch_size, feature_batches

NETWORKS = ("network", "transformers", "detector")
"""Kinds of sources that are worth the way to a worker; pixels and their components are read as fast as sent."""
_BATCHES = 8  # of a job, at most
_SPREAD = 16  # jobs at least, where there are as many batches
_FEWEST = 2  # batches that stay here


@dataclass(frozen=True)
class Piece:
    """Some images of one file."""

    path: str
    """Of a .npy file [N, H, W, C]."""
    shared: SharedArray | None
    """Where the file was written for the jobs: looked through before it is used."""
    rows: np.ndarray
    """[p] of the file."""
    places: np.ndarray
    """[p] among the images of the job."""

    def read(self) -> np.ndarray:
        """[p, H, W, C].

        Raises:
            MemoriskError: The file is gone or damaged.
        """
        file = Path(self.path)
        wait_for(file)
        images = read_array(file, mmap=True) if self.shared is None else self.shared.open()
        return np.take(images, self.rows, axis=0)


@dataclass(frozen=True)
class FeatureJob:
    """A block of images for one encoder."""

    answer: str
    """The file that it leaves."""
    source: FeatureSource
    """What computes; its paths are absolute."""
    stored: Stored
    size: int | None
    normalise: str | None
    seed: int
    identity: str
    """Of the encoder here: a worker's must be the same."""
    pieces: tuple[Piece, ...]
    n: int
    """Images."""
    precision: str
    device: str
    batch: int
    threads: int


@dataclass(frozen=True)
class FeatureWork:
    """Computes features by the workers of a cluster."""

    place: Placement
    """Where."""
    folder: Path
    """On shared storage, for images that have no file and for answers."""
    threads: int = 1
    """Of a job."""

    def takes(self, asked: object, n: int, batch: int) -> bool:
        """Whether so many images are worth the way to the workers."""
        return isinstance(asked, FeatureSource) and asked.kind in NETWORKS and n > _FEWEST * batch

    def blocks(
        self, like: FeatureJob, images: Images, rows: np.ndarray, progress: Counted | None = None
    ) -> Iterator[np.ndarray]:
        """Features of chosen images, [b, d] of one block after another.

        Args:
            like: The job but for its images and its answer.
            images: [N, H, W, C].
            rows: Which, [n].
            progress: Called with images done and their number as blocks end.

        Raises:
            InputError: A worker has other weights or does not see them, or the encoder refuses the images.
            MemoriskError: Some blocks could not be had; those that are done are kept.
        """
        batches = -(-len(rows) // like.batch)
        step = like.batch * max(1, min(_BATCHES, batches // _SPREAD))
        parts = [rows[first : first + step] for first in range(0, len(rows), step)]
        with write_guard(self.folder, "images of a pass"):
            jobs = [self._job(like, images, part) for part in parts]
        todo = [job for job in jobs if _answered(job) is None]
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
            wait_for(Path(job.answer))
            found = _answered(job)
            if found is None:
                raise MemoriskError(f"features in {one_line(self.folder, 160)} are damaged: remove that folder")
            yield found

    def _job(self, like: FeatureJob, images: Images, rows: np.ndarray) -> FeatureJob:
        """The job of some rows; what has no file of its own is written for it."""
        pieces = []
        for array, chosen, places in _parts(images, rows):
            path = whole_file(array)
            if path is not None and any(path.is_relative_to(place) for place in self.place.folders):
                pieces.append(Piece(str(path), None, chosen, places))
                continue
            shared = share_array(self.folder, np.take(np.asarray(array), chosen, axis=0))
            pieces.append(Piece(shared.path, shared, np.arange(len(chosen)), places))
        told = [[one.path, one.shared and one.shared.fingerprint, one.rows, one.places] for one in pieces]
        key = fingerprint(like.identity, like.precision, like.device, like.batch, told, length=32)
        return replace(like, answer=str(self.folder / f"features-{key}.npy"), pieces=tuple(pieces), n=len(rows))


def feature_job(
    source: FeatureSource,
    encoder: Encoder,
    stored: Stored,
    *,
    size: int | None,
    normalise: str | None,
    seed: int,
    precision: str,
    device: torch.device,
    batch: int | None,
    threads: int,
) -> FeatureJob:
    """What all blocks of a pass have in common.

    Args:
        source: What computes.
        encoder: As it was opened here.
        stored: Height, width and channels of the images.
        size: As for `open_encoder`, and so the next two.
        normalise: Likewise.
        seed: Likewise.
        precision: Settled.
        device: Of the kind that workers are to compute on.
        batch: Images a batch; None for what a pass here has.
        threads: Of a job.
    """
    height, width = encoder.preprocessing.size
    images = batch or feature_batch_size((int(height), int(width)))
    mark = fingerprint(encoder.identity, length=32)
    return FeatureJob(
        "", _absolute(source), stored, size, normalise, seed, mark, (), 0, precision, device.type, images, threads
    )


def run_features(job: FeatureJob) -> None:
    """Leave the features of a block.

    Raises:
        InputError: The weights here are others, or the encoder refuses the images.
        MemoriskError: Images are gone, or the disk is full.
    """
    if _answered(job) is not None:
        return
    encoder = _same_encoder(job)
    images = None
    for piece in job.pieces:
        found = piece.read()
        images = np.empty((job.n, *found.shape[1:]), found.dtype) if images is None else images
        images[piece.places] = found
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
        write_array(answer, values)


def needed_files(source: FeatureSource) -> tuple[Path, ...]:
    """What workers must see to open an encoder: a file of weights, or a folder."""
    given = (source.name if source.kind in ("detector", "transformers") else source.weights) or ""
    return (Path(given).resolve(),) if given and Path(given).exists() else ()


def _same_encoder(job: FeatureJob) -> Encoder:
    """The encoder of a job, kept from the last one.

    Raises:
        InputError: It has other weights than where the command was given.
    """
    for _ in range(2):
        encoder = _encoder(job.source, job.stored, job.size, job.normalise, job.seed)
        if fingerprint(encoder.identity, length=32) == job.identity:
            return encoder
        _encoder.cache_clear()  # a file may have been replaced since
    raise InputError(f"{job.source.shown} is not what it is where the command was given: give all machines one file")


@lru_cache(maxsize=1)
def _encoder(source: FeatureSource, stored: Stored, size: int | None, normalise: str | None, seed: int) -> Encoder:
    """Opened once for all jobs of a pass."""
    return open_encoder(source, stored, size=size, normalise=normalise, seed=seed)


def _answered(job: FeatureJob) -> np.ndarray | None:
    """The features of a block; None where they are not there, or damaged, so that they are made again."""
    try:
        found = read_array(job.answer)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.ndim == 2 and len(found) == job.n else None


def _absolute(source: FeatureSource) -> FeatureSource:
    """The source with paths that mean the same wherever a worker was started."""
    given: dict[str, str] = {}
    if source.kind in ("detector", "transformers") and Path(source.name).exists():
        given["name"] = str(Path(source.name).resolve())
    if source.kind == "network" and source.weights and Path(source.weights).is_file():
        path = str(Path(source.weights).resolve())
        given |= {"weights": path, "text": f"{source.name}@{path}"}
    return replace(source, **given)


def _parts(images: Images, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Arrays that hold chosen images, which rows of each, and their places among the chosen."""
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
