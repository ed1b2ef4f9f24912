"""Trainings that are one computation: all heads of a frozen trunk, or small networks stacked on a GPU.

The jobs' files are the same as if each had run alone (``jobs.run_training``), so that a run may change machines
half-way. A paper-design pair has unequal numbers of slots, twins with partners of unlike size unequal numbers of
images; jobs are therefore taken together by both.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch

from memorisk.models.classifiers.zoo import model_spec
from memorisk.runs.executors.pool import Outcome
from memorisk.runs.files import read_array
from memorisk.runs.fingerprint import fingerprint
from memorisk.training.engine.frozen import fit_heads, trunk_features
from memorisk.training.engine.jobs import CHECKPOINTS, JobLog, TrainJob, build_network, keep_result
from memorisk.training.engine.predict import predict_logits
from memorisk.training.engine.stacked import fit_stacked
from memorisk.training.engine.strategy import choose_strategy

Done = Callable[[Outcome], None]


def run_jointly(jobs: Sequence[TrainJob], on_done: Done) -> bool:
    """Run jobs of one audit as one computation where that is the way to do it.

    Args:
        jobs: Trainings that differ in rows and seed only.
        on_done: Called for each job once its files are written.

    Returns:
        False when these jobs should run one by one instead; nothing was done then.
    """
    first = jobs[0]
    if first.own is not None or first.options.one_regime != "full":
        return False
    if model_spec(first.model).frozen_trunk:
        _frozen(jobs, on_done)
        return True
    if first.device == "cpu":
        return False
    images = read_array(first.images, mmap=True)
    strategy = choose_strategy(
        build_network(first, images),
        first.options,
        n_models=len(jobs),
        image_shape=images.shape[1:],
        device=first.device,
    )
    if strategy.kind != "stacked":
        return False
    for batch in _batches(jobs, strategy.at_once):
        _stacked(batch, images, on_done)
    return True


def _batches(jobs: Sequence[TrainJob], at_once: int) -> list[list[TrainJob]]:
    by_length: dict[tuple[int, int], list[TrainJob]] = defaultdict(list)
    for job in jobs:
        by_length[len(job.rows), job.n_slots].append(job)
    return [same[i : i + at_once] for same in by_length.values() for i in range(0, len(same), at_once)]


def _frozen(jobs: Sequence[TrainJob], on_done: Done) -> None:
    """Train the heads of all jobs: each trunk's features once, [N, d], then the logits of one head at a time."""
    first = jobs[0]
    images = read_array(first.images, mmap=True)
    before = torch.get_num_threads()
    torch.set_num_threads(first.threads)
    try:
        for same_trunk in by_trunk(jobs):
            model = build_network(same_trunk[0], images)
            features = trunk_features(model, images, first.options, first.device, normalisation=first.normalisation)
            for batch in _batches(same_trunk, len(same_trunk)):
                heads = fit_heads(
                    features,
                    first.targets,
                    [job.rows for job in batch],
                    first.options,
                    n_outputs=first.n_outputs,
                    seeds=[job.seed for job in batch],
                    slots=batch[0].n_slots,
                    device=first.device,
                )
                for k, job in enumerate(batch):
                    heads.put(model, k)
                    keep_result(job, model, heads.only(k).logits(features)[0])
                    _report(jobs, job, float(heads.losses[-1, k]), on_done)
    finally:
        torch.set_num_threads(before)


def by_trunk(jobs: Sequence[TrainJob]) -> list[list[TrainJob]]:
    """Jobs whose trunks are the same network: all of them with weights, those of one seed where it is random."""
    trunks: dict[int, list[TrainJob]] = defaultdict(list)
    for job in jobs:
        trunks[job.seed if job.weights in (None, "none") else -1].append(job)
    return list(trunks.values())


def _stacked(batch: list[TrainJob], images: np.ndarray, on_done: Done) -> None:
    first = batch[0]
    models = [build_network(job, images) for job in batch]
    checkpoint = first.out / CHECKPOINTS / f"stack-{fingerprint([job.key for job in batch])}.safetensors"
    logs = fit_stacked(
        models,
        images,
        first.targets,
        [job.rows for job in batch],
        first.options,
        seeds=[job.seed for job in batch],
        slots=first.n_slots,
        device=first.device,
        checkpoint=checkpoint,
        checkpoint_seconds=first.checkpoint_seconds,
        normalisation=first.normalisation,
    )
    for job, model, log in zip(batch, models, logs, strict=True):
        logits = predict_logits(model, images, None, job.options, job.device, normalisation=job.normalisation)
        keep_result(job, model, logits)
        _report(batch, job, log.losses[-1], on_done)
    checkpoint.unlink(missing_ok=True)


def _report(jobs: Sequence[TrainJob], job: TrainJob, loss: float, on_done: Done) -> None:
    on_done(Outcome(index=next(i for i, j in enumerate(jobs) if j is job), value=JobLog(job.key, loss, 0.0, 0)))
