"""What trainings of an audit take, counted from their jobs before any of them runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.models.classifiers.zoo import model_spec
from memorisk.runs.cost import Cost, total
from memorisk.training.engine.jobs import TrainJob
from memorisk.training.engine.joint_jobs import by_trunk
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.order import batch_bounds
from memorisk.training.private.private import privacy_of


def jobs_cost(jobs: Sequence[TrainJob], *, weight_bytes: int | None, remote: bool = False) -> Cost:
    """All that is not done of some jobs, each training once.

    Args:
        jobs: Of one audit, the same network in all.
        weight_bytes: Of one trained network; None where it is the user's own.
        remote: Whether a cluster trains them, each alone; here heads on a frozen trunk share its features.

    Returns:
        Trainings, steps, images and the bytes that they leave.
    """
    todo = list({job.logits_file: job for job in jobs if not job.done}.values())
    shared = bool(todo) and not remote and todo[0].own is None and todo[0].options.one_regime == "full"
    if shared and model_spec(todo[0].model).frozen_trunk:
        features = sum(len(same[0].targets) for same in by_trunk(todo))
        heads = total([_job_cost(job, weight_bytes, passed=0) for job in todo])
        return heads + Cost(images_passed=features)
    return total([_job_cost(job, weight_bytes, _predictions(job)) for job in todo])


def fit_cost(n: int, options: TrainOptions) -> Cost:
    """Of one training by `memorisk.training.engine.fit`, or privately by `memorisk.training.private.private`.

    Under differential privacy every step draws its images at random, so that their number is an expectation.

    Args:
        n: Images that it is trained on.
        options: With epochs filled in.
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
    """Bytes of all tensors that a network is saved with."""
    return state_bytes(network.state_dict())


def state_bytes(tensors: Mapping[str, Any]) -> int:
    """Bytes of the tensors among what a network's state holds."""
    return sum(t.numel() * t.element_size() for t in tensors.values() if isinstance(t, torch.Tensor))


def _predictions(job: TrainJob) -> int:
    """Images whose logits it leaves, augmented passes counted."""
    return len(job.targets) * (1 + job.score_augmentations)


def _job_cost(job: TrainJob, weight_bytes: int | None, passed: int) -> Cost:
    """Of one training and what it leaves."""
    left = Cost(
        images_passed=passed,
        bytes_weights=weight_bytes if job.keep_weights else 0,
        bytes_outputs=_predictions(job) * job.n_outputs * np.dtype(np.float32).itemsize,
    )
    if job.own is not None:
        return left + Cost(trainings=1, steps=None, images_trained=None)
    return left + fit_cost(job.n_slots, job.options)
