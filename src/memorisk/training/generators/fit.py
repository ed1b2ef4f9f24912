"""Train a generator of any kind on rows of a store and write it to a folder.

The folder gets ``generator/`` (which `memorisk.load_generator` reads), ``history.json`` and, if requested,
``snapshots/step-00001000/``, each a generator's folder. While it runs, ``stop.json`` in the folder (``{"reason":
"..."}``) ends it at the next look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.generators import DESCRIPTION, Generator, load_generator
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line
from memorisk.runs.files import read_json, write_json
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.engine.devices import is_main, limited_threads, wait_for_all
from memorisk.training.engine.loop import CHECKPOINT
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.snapshots import Evaluations, GeneratorTraining, OnSnapshot

GENERATOR, HISTORY = "generator", "history.json"


@dataclass(frozen=True)
class FittedGenerator:
    """A generator with the history of its training."""

    generator: Generator
    """Generator with the averaged weights of the last step."""
    steps: int
    """Number of steps done."""
    history: tuple[Mapping[str, Any], ...]
    """History with one row per look: ``step, loss, held_out_loss`` and the figures that the kind adds."""
    stopped: str | None
    """Reason of an early end; None where the training reached its last step."""
    notes: tuple[str, ...]
    """Notes for the report, one sentence each."""
    folder: Path
    """Folder of the generator."""


def fit_generator(
    store: ImageStore,
    rows: np.ndarray,
    options: GeneratorOptions,
    folder: str | Path,
    *,
    validation: np.ndarray | None = None,
    conditions: Conditions | None = None,
    on_snapshot: OnSnapshot | None = None,
    progress: Progress = no_progress,
) -> FittedGenerator:
    """Train a generator and write it to a folder.

    Killed and called again with the same arguments it continues, and gives the same bytes; once done it is only read.

    Args:
        store: The images; classes are the labels of its manifest.
        rows: Rows to train on, [n]; an image whose row occurs 16 times is seen 16 times as often.
        options: Settings of the training.
        folder: Folder to write: new, empty, or that of the same training.
        validation: Rows that measure the held-out loss, and nothing else.
        conditions: Conditions of the training images, for a generator that is conditioned on a vector.
        on_snapshot: Function called at every look; False ends the training there.
        progress: Function called with (stage, done, total).

    Returns:
        Trained generator and its history.

    Raises:
        InputError: Settings, images, labels or conditions do not fit each other, or the folder holds another generator;
            nothing was written.
        MissingExtraError: diffusers or accelerate is not installed.
        MemoriskError: The loss became NaN or infinite.
    """
    options.validate()
    with limited_threads(options.threads):
        training = build_training(store, rows, options, validation=validation, conditions=conditions, progress=progress)
        return run_training(training, options, folder, on_snapshot=on_snapshot, progress=progress)


def build_training(
    store: ImageStore,
    rows: np.ndarray,
    options: GeneratorOptions,
    *,
    validation: np.ndarray | None = None,
    conditions: Conditions | None = None,
    progress: Progress = no_progress,
) -> GeneratorTraining:
    """Build a training of the kind that the options name, checked, on its device; arguments as for `fit_generator`."""
    if options.kind == "gan":
        from memorisk.training.generators.kinds.gan_training import GanTraining

        if conditions is not None:
            raise InputError("a GAN is trained without conditions here: leave them out")
        return GanTraining(store, rows, options, validation=validation)
    from memorisk.training.generators.kinds.diffusion_training import DiffusionTraining

    return DiffusionTraining(store, rows, options, validation=validation, conditions=conditions, progress=progress)


def run_training(
    training: GeneratorTraining,
    options: GeneratorOptions,
    folder: str | Path,
    *,
    on_snapshot: OnSnapshot | None = None,
    progress: Progress = no_progress,
) -> FittedGenerator:
    """Run a checked training as `fit_generator` does.

    Args:
        training: Training from `build_training`.
        options: Settings of the training.
        folder: Folder to write, as for `fit_generator`.
        on_snapshot: Function called at every look; False ends the training there.
        progress: Function called with (stage, done, total).

    Raises:
        InputError: The folder holds another generator.
        MemoriskError: The loss became NaN or infinite.
    """
    target = Path(folder)
    if (target / HISTORY).is_file():
        return _read_fitted(target, training.key)
    if is_main():
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    looks = Evaluations(training, target, options.keep_snapshots, on_snapshot)
    log = training.run(target / CHECKPOINT, looks, progress)
    outcome = {"key": training.key, "steps": log.steps, "stopped": looks.reason}
    if is_main():
        training.save(target / GENERATOR, log.steps)
        write_json(target / HISTORY, {**outcome, "history": log.history, "notes": training.notes}, recorded=True)
        remove_recorded(target / CHECKPOINT)
    wait_for_all()
    generator = load_generator(target / GENERATOR)
    return FittedGenerator(generator, log.steps, log.history, looks.reason, training.notes, target / GENERATOR)


def _read_fitted(folder: Path, key: str) -> FittedGenerator:
    """Read the generator that an earlier call wrote.

    Raises:
        InputError: The folder holds another generator, or is damaged.
    """
    try:
        record = read_json(folder / HISTORY)
        same, history, notes = record["key"] == key, tuple(record["history"]), tuple(record["notes"])
        steps, stopped = int(record["steps"]), record["stopped"]
    except CONTENT_ERRORS as error:
        raise InputError(f"{one_line(folder / HISTORY)} is damaged: {one_line(error, 120)}") from None
    if not same:
        raise InputError(f"{one_line(folder)} holds another generator: choose another folder, or delete that one")
    remove_recorded(folder / CHECKPOINT)  # a kill may have come before
    if not (folder / GENERATOR / DESCRIPTION).is_file():
        raise InputError(f"{one_line(folder / GENERATOR)} is gone: delete {one_line(folder)} and train it again")
    return FittedGenerator(load_generator(folder / GENERATOR), steps, history, stopped, notes, folder / GENERATOR)
