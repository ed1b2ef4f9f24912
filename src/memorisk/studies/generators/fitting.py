"""The training of one generator of the study, by `memorisk.training.generators.fit`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.models.generators.conditions import Conditions
from memorisk.runs.errors import InputError
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.studies.generators.plan import Cell
from memorisk.training.generators.snapshots import GeneratorTraining, Snapshot

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
    from memorisk.training.generators.fit import fit_generator

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
    from memorisk.training.generators.conditions.pseudo_conditions import pseudo_conditions

    options, folder = cell.classifiers, conditions_folder(cell)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    which = cell.arm.conditioning
    return pseudo_conditions(
        cell.data.store, cell.training.rows, options, which=which, folder=folder, progress=progress
    )


def conditions_folder(cell: Cell) -> Path:
    """Where the classifiers of a cell's training images leave what they say.

    Args:
        cell: Of the study.
    """
    return cell.out / CONDITIONS / fingerprint(cell.data.store.data_hash, cell.training.rows, vars(cell.classifiers))


def blank_conditions(cell: Cell) -> Conditions | None:
    """Zeros in place of the pseudo-conditions that classifiers would be trained for; None where a cell has none.

    Args:
        cell: Of the study.
    """
    if not cell.arm.conditioning:
        return None
    from memorisk.training.generators.conditions.folds import fold_data

    which, data = cell.arm.conditioning, fold_data(cell.data.store, cell.training.rows, None)
    length = data.onehot.shape[1] * (2 if which.endswith("-label") else 1)
    values = np.zeros((len(data.rows), length), dtype=np.float32)
    return Conditions(values, cell.data.store.manifest.images[data.rows], data.labels, which)


def seconds_a_step(cell: Cell) -> float:
    """Of a step of a cell's training on this machine, from the second of two; nothing is kept.

    Args:
        cell: Of the study.

    Raises:
        InputError: It cannot be trained.
    """
    return _built(cell).seconds_a_step()


def weight_bytes(cell: Cell) -> int | None:
    """Of a cell's generator; None where it cannot be trained.

    Args:
        cell: Of the study.
    """
    from memorisk.training.generators.cost import weights_cost

    try:
        return weights_cost(_built(cell)).bytes_weights
    except InputError:
        return None


def _built(cell: Cell) -> GeneratorTraining:
    """A cell's training before its first step, with blank conditions."""
    from memorisk.training.generators.fit import build_training

    options, conditions = cell.arm.training(cell.seed, cell.options), blank_conditions(cell)
    return build_training(cell.data.store, cell.training.repeated, options, conditions=conditions)
