"""What a training of the study takes and what is asked of its model afterwards, at most: it may end before its time."""

import numpy as np

from memorisk.runs.cost import Cost
from memorisk.runs.files import read_array
from memorisk.studies.unique_features.jobs import N_CHECKPOINTS, PROFILE_CONTROLS, CanaryJob
from memorisk.training.engine.job_cost import fit_cost

_ANSWERS = 3  # without the mark, with it, with it at opacity 0


def canary_cost(job: CanaryJob, *, known: bool, weights: int) -> Cost:
    """Of one training to its last epoch.

    Args:
        job: The training.
        known: Whether its canary is the one that it will have; one of the highest or lowest self-influence is chosen
            later, and its class is taken for the largest.
        weights: Bytes of its network where they are kept.

    Returns:
        Steps, images and passes, bounds all; the size of the answers depends on the epoch that is taken.
    """
    epochs, n, v = job.options.epochs or 0, len(job.rows), len(job.validation)
    probes, controls = len(read_array(job.probes, mmap=True)), len(job.controls)
    asked = v * (epochs + 1) + probes * (_ANSWERS + controls + job.redraws)
    asked += 2 * job.redraws * _white_images(job, known) + (3 * probes if job.latent else 0)
    if job.profile:
        asked += epochs * probes * (_ANSWERS + min(controls, PROFILE_CONTROLS) + 1)
    gradients = 0
    if job.influence:
        asked += n
        gradients = min(N_CHECKPOINTS, epochs) * (n if job.influence == "all" else 1)
    return fit_cost(n, job.options) + Cost(
        images_trained=gradients,
        images_passed=asked,
        bytes_weights=weights if job.keep_weights else 0,
        bytes_outputs=None,
        at_most=("steps", "images_trained", "images_passed"),
    )


def _white_images(job: CanaryJob, known: bool) -> int:
    """Training images of which M_w is taken: all, or those of the canary's class without it."""
    labels = job.labels[job.rows]
    if job.canary is None:
        return len(labels)
    largest = int(np.unique(labels, return_counts=True)[1].max())
    return (int((labels == labels[job.canary]).sum()) if known else largest) - 1
