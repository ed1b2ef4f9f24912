"""Cost of an audit, from the very jobs that it would run: twins, placebo, intervention, pairs."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.classifier.retraining.interventions import InterventionPlan, intervention_jobs
from memorisk.audits.classifier.retraining.placebo import placebo_plans
from memorisk.audits.classifier.retraining.privacy import bound_job
from memorisk.audits.classifier.twins.control_training import control_jobs
from memorisk.audits.classifier.twins.trainings import Recipe, make_jobs
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.specs import model_spec
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.workload import Cost, total
from memorisk.training.classifiers.jobs import TrainJob, build_network, train_network
from memorisk.training.classifiers.joint_jobs import jobs_cost, tensor_bytes
from memorisk.training.classifiers.regimes import merge_adapters
from memorisk.training.engine.devices import keep_freed_memory

_TIMED_PIXELS = 1 << 20
"""Pixels of the batch that is timed: 64 images up to 128 px, 20 at 224 px."""


def classifier_cost(
    out: Path,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    intended: InterventionPlan | None,
) -> Cost:
    """Count the trainings that are not done, the images they see, and the bytes they leave.

    Args:
        out: Run folder; it need not exist.
        store: Images of the audit.
        plan: Design: parts and twins.
        recipe: Training recipe.
        options: Options of the audit.
        intended: Planned intervention; None without one.
    """
    pairs = make_jobs(out, store, plan, recipe, options)
    twins = [job for pair in pairs for job in pair]
    parts = [[*twins, *control_jobs(pairs, recipe)]]
    for placebo, _ in placebo_plans(store, plan, options):
        parts.append([job for pair in make_jobs(out, store, placebo, recipe, options) for job in pair])
    if intended is not None:
        parts += [[job for pair in pairs for job in pair] for pairs in intervention_jobs(
            out, store, plan, recipe, options, intended)]  # fmt: skip
    if options.canary_pairs:
        parts.append([bound_job(out, store, plan, recipe, options)[0]])
    weight = _weight_bytes(twins[0], store)
    of_target = Cost(images_passed=store.manifest.n * (1 + options.score_augmentations) if options.target else 0)
    trained = total([jobs_cost(jobs, weight_bytes=weight, remote=options.executor != "local") for jobs in parts])
    return trained + of_target + Cost(bytes_images=store.images.nbytes)


def _weight_bytes(job: TrainJob, store: ImageStore) -> int | None:
    """Count the bytes of one trained network; None where the user's function makes it."""
    network = _trained_network(job, store)
    return None if network is None else tensor_bytes(network)


def parameter_count(job: TrainJob, store: ImageStore) -> int | None:
    """Count the parameters of one trained network; None where the user's function makes it.

    Args:
        job: Job of its training.
        store: Images of the audit.
    """
    network = _trained_network(job, store)
    return None if network is None else sum(parameter.numel() for parameter in network.parameters())


def _trained_network(job: TrainJob, store: ImageStore) -> nn.Module | None:
    """Build a network of the form that a training leaves, random; None where the user's function builds it.

    Its form does not depend on the pre-trained weights, which a finished run may have lost.
    """
    if job.own is not None:
        return None
    network = build_network(replace(job, weights="none"), store.images)
    merge_adapters(network)
    return network


def seconds_per_image(plan: Plan, recipe: Recipe, store: ImageStore, options: ClassifierOptions) -> float | None:
    """Time of one image in a training step, from the second of two steps; None where the step is not known.

    A user's own function, heads on a frozen trunk (one pass for all of them) and small networks stacked on a GPU take
    another time than their steps alone would tell. A step takes as long from random weights as from trained ones.
    """
    if recipe.own or model_spec(recipe.model).frozen_trunk or recipe.device.startswith("cuda"):
        return None
    job: TrainJob = make_jobs(Path(), store, plan, recipe, options)[0][0]
    rows = job.rows[: max(2, min(job.options.batch_size, _TIMED_PIXELS // int(np.prod(store.images.shape[1:3]))))]
    keep_freed_memory()
    begun: list[float] = []
    short = replace(
        job, rows=rows, slots=None, weights="none", options=replace(job.options, epochs=2, batch_size=len(rows))
    )
    try:
        train_network(
            short,
            build_network(short, store.images),
            store.images,
            noise_seed=short.noise_seed,
            on_epoch=lambda epoch, loss: begun.append(time.perf_counter()),
        )
    except InputError:
        raise
    except MemoriskError:  # the training breaks at its own place, and says what is kept
        return None
    return (begun[1] - begun[0]) / len(rows)
