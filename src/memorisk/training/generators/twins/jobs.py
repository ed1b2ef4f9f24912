"""One twin of a generator as a job: train on some rows, keep the weights, leave the losses of every image in a file.

A training is built in (`networks.TWIN_KINDS`), or a function of the user's
(`training.generators.kinds.user_training`). The file of losses, [L, N], is written last and marks the job as done. A
job that was killed continues from its last checkpoint.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from memorisk.models.generators.unet import trained_part
from memorisk.models.weight_files import save_weights
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.files import put_in_order, write_array
from memorisk.runs.steps import open_meter, written_steps
from memorisk.training.engine.devices import keep_freed_memory, limited_threads
from memorisk.training.engine.loop import Checkpoint
from memorisk.training.engine.step_loop import StepLoop
from memorisk.training.engine.user_training import count_training, guarded
from memorisk.training.generators.kinds.user_training import OwnRecipe, train_own
from memorisk.training.generators.twins.networks import (
    BuiltTwin,
    ScoredNetwork,
    build_twin,
    pixels_of,
    score_rows,
    write_shares,
)
from memorisk.training.generators.twins.recipes import TwinJob, built_in


@dataclass(frozen=True)
class TwinLog:
    """Log of a job.

    Attributes:
        key: Name of the job's files.
        loss: Mean training loss of the last hundred steps; None when it was done before, or by the user's function.
        seconds: Wall time of training and scoring; 0 when it was done before.
    """

    key: str
    loss: float | None
    seconds: float


def run_twin(job: TwinJob) -> TwinLog:
    """Run one training and leave its losses (and weights) in the run folder.

    Args:
        job: The job.

    Raises:
        InputError: Images and settings do not fit each other, or a checkpoint is of another training.
        UserCodeError: The user's function failed.
        MemoriskError: The loss became NaN, or a score is not finite.
    """
    if job.done:
        return TwinLog(job.key, None, 0.0)
    begun = time.perf_counter()
    if job.device == "cpu":
        keep_freed_memory()
    with limited_threads(job.threads), written_steps(job.steps_file):
        loss = _run_own(job, job.recipe) if isinstance(job.recipe, OwnRecipe) else _run_built_in(job)
    return TwinLog(job.key, loss, time.perf_counter() - begun)


def _run_built_in(job: TwinJob) -> float:
    """Train by the loop of the kind, and return the mean loss of the last steps."""
    twin = build_twin(job)
    _train(job, twin)
    _save(job, twin, score_rows(job, twin, np.arange(len(job.store.images))))
    remove_recorded(job.checkpoint_file)
    return float(twin.loop.losses[-100:].mean())


def _run_own(job: TwinJob, recipe: OwnRecipe) -> None:
    """Train by the user's function."""
    every = pixels_of(job, np.arange(len(job.store.images)))
    where = {"device": job.device, "python_path": job.python_path, "checkpoint_folder": job.checkpoint_folder}
    with guarded(recipe.function):
        denoiser = train_own(
            recipe,
            job.store,
            job.rows,
            negatives=job.negatives,
            seed=job.seed,
            tried=pixels_of(job, job.rows),
            **where,
        )
        network: Any = denoiser.network
        scored = ScoredNetwork(network if isinstance(network, nn.Module) else None, denoiser, every)
        losses = score_rows(job, scored, np.arange(len(job.store.images)))
    write_shares(job, denoiser)
    _save(job, scored, losses)
    shutil.rmtree(job.checkpoint_folder, ignore_errors=True)
    count_training()


def _save(job: TwinJob, scored: BuiltTwin | ScoredNetwork, losses: np.ndarray) -> None:
    """Write the weights, then the losses, which mark the job as done."""
    if job.keep_weights and scored.network is not None:
        save_weights(job.weights_file, trained_part(scored.network))
    write_array(job.losses_file, put_in_order(losses, job.kept_order, axis=1), recorded=True)


def _train(job: TwinJob, twin: BuiltTwin) -> None:
    """Train to the last step, from the kept state if there is one, and note the steps with the open meter."""
    meter, loop, recipe = open_meter(), twin.loop, built_in(job)
    steps = recipe.steps
    before = 0
    if meter is not None:
        meter.begin(0, steps)

    def progress(stage: str, done: int, n: int) -> None:
        """Note the steps that were done since the last call."""
        nonlocal before
        if meter is not None:
            meter.step(int(done) - before, (int(done) - before) * recipe.batch_size, _last_loss(loop))
            before = int(done)

    checkpoint = Checkpoint(job.checkpoint_file, job.key, job.checkpoint_seconds)
    loop.run([(0, steps)], checkpoint, lambda begin: True, progress, recipe.batch_size)
    if meter is not None:
        meter.end()


def _last_loss(loop: StepLoop) -> Callable[[], float]:
    """Return what reads the loss of the last step."""
    return lambda: float(loop.losses[max(0, loop.step - 1)].mean())
