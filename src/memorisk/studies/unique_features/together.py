"""Canary trainings side by side on a GPU: one stack for many, each stopped early by its own validation loss.

A network with running statistics, dropout or augmentation is trained alone, as on a CPU.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import numpy as np
from torch import nn

from memorisk.images.marks.marks import burn_stored
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import read_array
from memorisk.studies.unique_features.jobs import CanaryJob, after_epoch, finish, initial_loss, run_canary
from memorisk.studies.unique_features.measures import normalised_mark_check
from memorisk.training.engine.early_stacked import fit_early_stacked
from memorisk.training.engine.stacked import why_not_stackable

STACK = 32
"""Networks of a stack."""


def run_on_gpu(
    jobs: Sequence[CanaryJob], on_done: Callable[[CanaryJob, MemoriskError | None], None], *, most: int = STACK
) -> None:
    """Run jobs, those of one network and data set together where that is possible.

    Args:
        jobs: Not done yet.
        on_done: Called with each job as it ends, and with what went wrong; the others go on.
        most: Networks of a stack.
    """
    for group in stacks(jobs, most):
        try:
            if len(group) > 1:
                run_together(group)
            else:
                run_canary(group[0])
        except MemoriskError as error:  # InputError is one
            if len(group) == 1:
                on_done(group[0], error)
                continue
            for job in group:  # one network of a stack failed: each by itself, so that the others are not lost
                _alone(job, on_done)
            continue
        for job in group:
            on_done(job, None)


def stacks(jobs: Sequence[CanaryJob], most: int = STACK) -> list[list[CanaryJob]]:
    """Jobs that can be trained as one, in the order in which the first of each stands; others alone.

    Args:
        jobs: Any.
        most: Networks of a stack.
    """
    found: dict[str, list[list[CanaryJob]]] = {}
    order: list[list[CanaryJob]] = []
    able: dict[str, bool] = {}
    for job in jobs:
        key = repr((job.network, asdict(job.options), job.data, job.images, len(job.rows), job.patience, job.device))
        if key not in able:
            able[key] = not why_not_stackable(job.model(), job.options)
        open_ones = found.setdefault(key, [])
        if able[key] and open_ones and len(open_ones[-1]) < most:
            open_ones[-1].append(job)
            continue
        open_ones.append([job])
        order.append(open_ones[-1])
    return order


def run_together(jobs: Sequence[CanaryJob]) -> None:
    """Train a stack and leave the answers of each.

    Raises:
        InputError: They do not belong together.
        MemoriskError: A loss became NaN.
    """
    first = jobs[0]
    if any(not np.array_equal(job.rows, first.rows) or job.images != first.images for job in jobs):
        raise InputError("a stack trains on one data set and its rows")
    clean = read_array(first.images, mmap=True)
    images, labels, rows = with_canaries(jobs, clean)
    models, initial = [job.model() for job in jobs], []
    for job, model in zip(jobs, models, strict=True):
        own = job.pixels()[0]
        normalised_mark_check(job, own)
        initial.append(initial_loss(job, model, own) if job.influence else float("nan"))
    keep = [after_epoch(job) for job in jobs]

    def on_epoch(epoch: int, going: Mapping[int, nn.Module]) -> None:
        """Hand the models that still train to what looks at each."""
        for place, model in going.items():
            each = keep[place]
            if each is not None:
                each(epoch, model)

    logs = fit_early_stacked(
        models, images, labels, rows, first.validation, first.options, seeds=[job.seed for job in jobs],
        patience=first.patience, device=first.device, normalisation=first.normalisation,
        on_epoch=on_epoch if any(keep) else None,
    )  # fmt: skip
    for job, model, log, begun in zip(jobs, models, logs, initial, strict=True):
        finish(job, model.to(job.device), log, job.pixels()[0], clean, begun)


def with_canaries(jobs: Sequence[CanaryJob], clean: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Images with each job's marked one behind them, their labels, and each job's rows.

    Args:
        jobs: Of one data set.
        clean: [N, H, W, C].

    Returns:
        [N + canaries, H, W, C], [N + canaries] and a row index for each job.
    """
    extra, labels, rows = [], [], []
    for job in jobs:
        own = job.rows.copy()
        if job.canary is not None:
            row = own[job.canary]
            extra.append(burn_stored(clean[row : row + 1], job.carried))
            labels.append(job.labels[row])
            own[job.canary] = len(clean) + len(extra) - 1
        rows.append(own)
    images = np.concatenate([clean, *extra]) if extra else np.asarray(clean)
    return images, np.concatenate([jobs[0].labels, np.array(labels, dtype=np.int64)]), rows


def _alone(job: CanaryJob, on_done: Callable[[CanaryJob, MemoriskError | None], None]) -> None:
    try:
        run_canary(job)
    except MemoriskError as error:
        on_done(job, error)
    else:
        on_done(job, None)
