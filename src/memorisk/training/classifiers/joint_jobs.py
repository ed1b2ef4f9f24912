"""Trainings of an audit that are computed together, and the cost of an audit's trainings.

All heads of a frozen trunk are one computation, and so are small networks stacked on a GPU. The jobs' files are the
same as if each had run alone (`jobs.run_training`), so that a run may change machines half-way. Models of a pair of the
paper design have unequal numbers of slots, and twins with partners of unlike size unequal numbers of images; jobs are
therefore grouped by both. The costs are counted from the jobs before any of them runs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.models.classifiers.specs import model_spec
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.executors.worker import OnOutcome, Outcome
from memorisk.runs.files import fingerprint, read_array
from memorisk.runs.workload import Cost, total
from memorisk.training.classifiers.jobs import CHECKPOINTS, JobLog, TrainJob, build_network, save_result
from memorisk.training.classifiers.linear_heads import fit_heads, trunk_features
from memorisk.training.classifiers.private import privacy_of
from memorisk.training.classifiers.stacked import fit_stacked, stack_size
from memorisk.training.engine.devices import limited_threads
from memorisk.training.engine.optimization import batch_bounds
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.predict import predict_logits


def run_jointly(jobs: Sequence[TrainJob], on_done: OnOutcome) -> bool:
    """Run jobs of one audit as one computation where that is the faster way.

    Args:
        jobs: Trainings that differ in rows and seed only.
        on_done: Function called for each job once its files are written.

    Returns:
        False when these jobs should run one by one instead; nothing is done then.
    """
    first = jobs[0]
    if first.own is not None or first.options.one_regime != "full":
        return False
    if model_spec(first.model).frozen_trunk:
        _train_heads(jobs, on_done)
        return True
    if first.device == "cpu":
        return False
    images = read_array(first.images, mmap=True)
    at_once = stack_size(
        build_network(first, images),
        first.options,
        n_models=len(jobs),
        image_shape=images.shape[1:],
        device=first.device,
    )
    if at_once < 2:
        return False
    for batch in _batches(jobs, at_once):
        _train_stacked(batch, images, on_done)
    return True


def _batches(jobs: Sequence[TrainJob], at_once: int) -> list[list[TrainJob]]:
    by_length: dict[tuple[int, int], list[TrainJob]] = defaultdict(list)
    for job in jobs:
        by_length[len(job.rows), job.n_slots].append(job)
    return [same[i : i + at_once] for same in by_length.values() for i in range(0, len(same), at_once)]


def _train_heads(jobs: Sequence[TrainJob], on_done: OnOutcome) -> None:
    """Train the heads of all jobs: each trunk's features once, [N, d], then the logits of one head at a time."""
    first = jobs[0]
    images = read_array(first.images, mmap=True)
    with limited_threads(first.threads):
        for same_trunk in group_by_trunk(jobs):
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
                    save_result(job, model, heads.only(k).logits(features)[0])
                    _report(jobs, job, float(heads.losses[-1, k]), on_done)


def group_by_trunk(jobs: Sequence[TrainJob]) -> list[list[TrainJob]]:
    """Group jobs whose trunks are the same network: all jobs with weights, those of one seed where it is random."""
    trunks: dict[int, list[TrainJob]] = defaultdict(list)
    for job in jobs:
        trunks[job.seed if job.weights in (None, "none") else -1].append(job)
    return list(trunks.values())


def _train_stacked(batch: list[TrainJob], images: np.ndarray, on_done: OnOutcome) -> None:
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
        save_result(job, model, logits)
        _report(batch, job, log.losses[-1], on_done)
    remove_recorded(checkpoint)


def _report(jobs: Sequence[TrainJob], job: TrainJob, loss: float, on_done: OnOutcome) -> None:
    on_done(Outcome(index=next(i for i, j in enumerate(jobs) if j is job), value=JobLog(job.key, loss, 0.0, 0)))


def jobs_cost(jobs: Sequence[TrainJob], *, weight_bytes: int | None, remote: bool = False) -> Cost:
    """Sum the costs of the jobs that are not done, each training once.

    Args:
        jobs: Jobs of one audit, the same network in all.
        weight_bytes: Size of one trained network in bytes; None where it is the user's own.
        remote: Whether a cluster trains them, each alone; here heads on a frozen trunk share its features.

    Returns:
        Cost in trainings, steps, images and bytes written.
    """
    todo = list({job.logits_file: job for job in jobs if not job.done}.values())
    shared = bool(todo) and not remote and todo[0].own is None and todo[0].options.one_regime == "full"
    if shared and model_spec(todo[0].model).frozen_trunk:
        features = sum(len(same[0].targets) for same in group_by_trunk(todo))
        heads = total([_job_cost(job, weight_bytes, passed=0) for job in todo])
        return heads + Cost(images_passed=features)
    return total([_job_cost(job, weight_bytes, _predictions(job)) for job in todo])


def fit_cost(n: int, options: TrainOptions) -> Cost:
    """Count the cost of one training by `training.classifiers.fit`, or by `training.classifiers.private`.

    Under differential privacy every step draws its images at random, so that their number is an expectation.

    Args:
        n: Number of images that it is trained on.
        options: Settings of the training, with epochs filled in.
    """
    if options.private:
        privacy = privacy_of(n, options)
        images = round(privacy.steps * privacy.sampling_rate * n)
        return Cost(trainings=1, steps=privacy.steps, images_trained=images, about=("images_trained",))
    epochs = options.epochs or 0
    return Cost(
        trainings=1, steps=epochs * len(batch_bounds(n, options.batch_size)), images_trained=epochs * n
    )  # fmt: skip


def tensor_bytes(network: nn.Module) -> int:
    """Return the size in bytes of all tensors that a network is saved with."""
    return state_bytes(network.state_dict())


def state_bytes(tensors: Mapping[str, Any]) -> int:
    """Return the size in bytes of all tensors in a network's state."""
    return sum(t.numel() * t.element_size() for t in tensors.values() if isinstance(t, torch.Tensor))


def _predictions(job: TrainJob) -> int:
    """Return the number of images whose logits the job writes, augmented passes counted."""
    return len(job.targets) * (1 + job.score_augmentations)


def _job_cost(job: TrainJob, weight_bytes: int | None, passed: int) -> Cost:
    """Count the cost of one training and of its files."""
    outputs = Cost(
        images_passed=passed,
        bytes_weights=weight_bytes if job.keep_weights else 0,
        bytes_outputs=_predictions(job) * job.n_outputs * np.dtype(np.float32).itemsize,
    )
    if job.own is not None:
        return outputs + Cost(trainings=1, steps=None, images_trained=None)
    return outputs + fit_cost(job.n_slots, job.options)
