"""Compute the cost of a classifier audit from the very jobs that it would run: twins, placebo, intervention, pairs."""

from dataclasses import replace
from pathlib import Path

from memorisk.audits.classifier.interventions.plan import Intended
from memorisk.audits.classifier.interventions.run import intervention_jobs
from memorisk.audits.classifier.jobs import Recipe, make_jobs
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.placebo import placebo_plans
from memorisk.audits.classifier.plan import Plan
from memorisk.audits.classifier.privacy import bound_job
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.zoo import is_download, model_spec
from memorisk.runs.cost import Cost, total
from memorisk.training.engine.job_cost import jobs_cost, tensor_bytes
from memorisk.training.engine.jobs import TrainJob, build_network
from memorisk.training.private.regimes import merge_adapters


def classifier_cost(
    out: Path, store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions, intended: Intended | None
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
    twins = [job for pair in make_jobs(out, store, plan, recipe, options) for job in pair]
    parts = [twins]
    for placebo, _ in placebo_plans(store, plan, options):
        parts.append([job for pair in make_jobs(out, store, placebo, recipe, options) for job in pair])
    if intended is not None:
        parts += [[job for pair in pairs for job in pair] for pairs in intervention_jobs(
            out, store, plan, recipe, options, intended)]  # fmt: skip
    if options.canary_pairs:
        parts.append([bound_job(out, store, plan, recipe, options)[0]])
    weight = _weight_bytes(twins[0], store)
    asked = Cost(images_passed=store.manifest.n * (1 + options.score_augmentations) if options.target else 0)
    trained = total([jobs_cost(jobs, weight_bytes=weight, remote=options.executor != "local") for jobs in parts])
    return trained + asked + Cost(bytes_images=store.images.nbytes)


def _weight_bytes(job: TrainJob, store: ImageStore) -> int | None:
    """Count the bytes of one trained network; None where the user's function makes it."""
    if job.own is not None:
        return None
    plain = replace(job, weights="none") if is_download(job.weights, model_spec(job.model)) else job
    network = build_network(plain, store.images)
    merge_adapters(network)
    return tensor_bytes(network)
