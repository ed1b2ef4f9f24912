"""The training of one generator of the study, by `memorisk.training.generator_fit`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from memorisk.audits.generators.plan import Cell
from memorisk.models.conditions import Conditions
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.training.generator_snapshots import Snapshot

CONDITIONS = "conditions"
"""Folder of the study for what classifiers say of training images, which all conditionings of them share."""


def fit(cell: Cell, folder: Path, look: Callable[[Snapshot], None], progress: Progress = quiet) -> dict[str, Any]:
    """Train the generator of a cell.

    Args:
        cell: Of the study.
        folder: Where the training is kept while it lasts.
        look: Called at every snapshot.
        progress: Called with (stage, done, total).

    Returns:
        What is said of it in its folder.
    """
    from memorisk.training.generator_fit import fit_generator

    options = cell.arm.training(cell.seed, cell.options)
    fitted = fit_generator(
        cell.data.store,
        cell.training.repeated,
        options,
        folder,
        validation=cell.data.held_out,
        conditions=conditions_of(cell, progress),
        on_snapshot=look,
        progress=progress,
    )
    end = Snapshot(fitted.steps, options.steps, fitted.generator, float("nan"), None)
    look(end)  # where the last reading was killed after the training had ended
    return {"name": cell.name, "recipe": options.recipe(), "notes": fitted.notes}


def conditions_of(cell: Cell, progress: Progress = quiet) -> Conditions | None:
    """The pseudo-conditions of a cell's training images; None where it has none.

    Args:
        cell: Of the study.
        progress: Called with (stage, done, total).
    """
    if not cell.arm.conditioning:
        return None
    from memorisk.training.pseudo_conditions import pseudo_conditions

    options = cell.classifiers
    folder = cell.out / CONDITIONS / fingerprint(cell.data.store.data_hash, cell.training.rows, vars(options))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    which = cell.arm.conditioning
    return pseudo_conditions(
        cell.data.store, cell.training.rows, options, which=which, folder=folder, progress=progress
    )


def seconds_a_step(cell: Cell) -> float:
    """Of a step of a cell's training on this machine, from the second of two; nothing is kept.

    Pseudo-conditions, which classifiers would be trained for, stand in as zeros.

    Args:
        cell: Of the study.
    """
    import numpy as np

    from memorisk.training.generator_fit import build_training

    options, conditions = cell.arm.training(cell.seed, cell.options), None
    if cell.arm.conditioning:
        manifest, rows = cell.data.store.manifest, cell.training.rows
        values = np.zeros((len(rows), len(manifest.classes)), dtype=np.float32)
        conditions = Conditions(values, manifest.images[rows], manifest.labels[rows], cell.arm.conditioning)
    return build_training(cell.data.store, cell.training.repeated, options, conditions=conditions).seconds_a_step()
