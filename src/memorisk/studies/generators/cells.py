"""One generator of the study: trained, and read at every snapshot. A killed one goes on from its checkpoint."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import write_table
from memorisk.runs.progress import Progress, quiet
from memorisk.studies.generators.config import NO_QUALITY
from memorisk.studies.generators.fitting import fit
from memorisk.studies.generators.measuring import WORK, Detectors, draw_images, measure, store_of
from memorisk.studies.generators.plan import Cell
from memorisk.studies.unique_features.results import write_result
from memorisk.training.generators.snapshots import Snapshot

TRAINING = "training"
Look = Callable[[Snapshot], None]


def run_cell(cell: Cell, detectors: Detectors, progress: Progress) -> None:
    """Train a generator, read it on the way, and leave the readings in its folder.

    Args:
        cell: Of the study.
        detectors: What compares images.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The images do not fit the generator.
        MemoriskError: The training broke.
    """
    cell.make_folder()
    steps = cell.arm.snapshots

    def look(snapshot: Snapshot) -> None:
        """Read the generator where the study asks for it and it was not read before."""
        if snapshot.step in steps and not cell.reading_file(snapshot.step).is_file():
            read_generator(cell, snapshot, detectors, progress)

    described = fit(cell, cell.folder / TRAINING, look, progress)
    if cell.missing:
        shutil.rmtree(cell.folder / TRAINING, ignore_errors=True)
        raise MemoriskError(f"{cell.name}: killed at a reading; the same command trains it again")
    cell.finish(described)
    cell.forget_failure()
    if not cell.options.keep_generators:
        shutil.rmtree(cell.folder / TRAINING, ignore_errors=True)


def run_alone(cell: Cell) -> None:
    """`run_cell` as a job: with detectors of its own, silent.

    Args:
        cell: Of the study.
    """
    run_cell(cell, Detectors(cell.options.device), quiet)


def read_generator(cell: Cell, snapshot: Snapshot, detectors: Detectors, progress: Progress) -> None:
    """Draw images, compare them, and write what was found."""
    last = snapshot.step == cell.arm.snapshots[-1]
    progress(f"drawing {cell.n_images:,} images", 0, 0)
    drawn = draw_images(cell, snapshot.generator)
    progress("measuring", 0, 0)
    found = measure(cell, drawn, detectors, last=last)
    nan = float("nan")
    held = snapshot.held_out_loss
    found |= {"loss": np.array(snapshot.loss, dtype=float), "held_out_loss": np.array(nan if held is None else held)}
    if last and cell.options.quality_source != NO_QUALITY:
        write_table(cell.quality_file(snapshot.step), quality(cell, drawn.images, detectors))
    write_result(cell.reading_file(snapshot.step), found)


def quality(cell: Cell, images: np.ndarray, detectors: Detectors) -> Any:
    """FID, KID, MiFID, precision and recall, density and coverage of the images, as a table a row a figure."""
    from memorisk.audits.quality.measuring import measure_quality

    source = cell.options.quality_source
    real = detectors.real(source, cell.data)
    made = detectors.features(source, store_of(images, cell, "synthetic"), cell.data)
    train, held = real.select(cell.training.rows), real.select(cell.data.held_out)
    found = measure_quality(train, made, held, seed=cell.options.seed).table
    shutil.rmtree(cell.folder / WORK, ignore_errors=True)
    return found
