"""Plan of an audit of a generator: its cost, and what it could say, before anything is trained."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.look_alikes import searched_pairs
from memorisk.audits.classifier.planning.dry_run import DryRun, outlook
from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.classifier.planning.rehearsal import Choice
from memorisk.audits.classifier.result import LookAlikes
from memorisk.audits.classifier.twins.twin_trainings import training_processes
from memorisk.audits.generator.extraction import extraction_cost
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.target import published_passes
from memorisk.audits.generator.trainings import Training, control_jobs, make_jobs
from memorisk.audits.generator.words import item_captions
from memorisk.images.store import ImageStore
from memorisk.models.generators.noise_attacks import CLID_SHARES
from memorisk.runs.workload import Cost
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.kinds.user_training import OwnRecipe
from memorisk.training.generators.twins.networks import BuiltTwin, build_twin, score_rows
from memorisk.training.generators.twins.recipes import TwinJob, built_in

_TIMED_STEPS, _TIMED_IMAGES = 12, 16


def generator_outlook(
    out: Path,
    plan: Plan,
    store: ImageStore,
    choice: Choice[GeneratorAuditOptions],
    alike: LookAlikes,
    training: Training = None,
) -> DryRun:
    """Count the work, time a few steps and scores, and rehearse the analysis on losses that hold nothing.

    Args:
        out: The run folder.
        plan: Parts, designs and scored items.
        store: The images.
        choice: Options with the number of models, and why there are so many.
        alike: Images of different patients that are nearly the same.
        training: Function or folder, from `read_training`; steps and time of a function are not known.
    """
    options = choice.options
    pairs = make_jobs(out, store, plan, options, training)
    jobs = [job for pair in [*pairs, control_jobs(pairs)] for job in pair]
    todo = [job for job in jobs if not job.done]
    first, n, seconds = jobs[0], len(store.images), None
    of_target = published_passes(options) * n
    if options.target is not None:
        a_loss = options.levels * 2 * options.draws  # passes for the loss of an image
        of_target += (1 + 2 * (options.guidance != 1)) * n * a_loss  # a guided loss takes two passes
    if options.caption_words:
        of_target += len(CLID_SHARES) * 2 * options.draws * sum(map(len, item_captions(store, plan, options)))
    cost = Cost(
        trainings=len(todo),
        pairs=searched_pairs(store, alike),
        bytes_outputs=len(jobs) * 8 * first.recipe.levels * n,
    ) + extraction_cost(store, options)
    if isinstance(training, OwnRecipe):
        passes = n * options.levels * 2 * options.draws
        cost = replace(cost, steps=None, images_trained=None, bytes_weights=None if first.keep_weights else 0)
    else:
        recipe = built_in(first)
        with limited_threads(first.threads):
            twin = build_twin(first)
            passes = twin.passes(recipe, n)
            a_training, a_pass = _seconds(first, twin)
        seconds = (a_training + a_pass * passes) * len(todo) / training_processes(options) + a_pass * of_target
        cost = replace(
            cost,
            steps=len(todo) * recipe.steps,
            images_trained=len(todo) * recipe.steps * recipe.batch_size,
            bytes_weights=len(jobs) * 4 * twin.parameters * first.keep_weights,
        )
    cost += Cost(images_passed=len(todo) * passes + of_target)
    return outlook(plan, store, choice, alike, network=network_words(options), cost=cost, seconds=seconds)


def network_words(options: GeneratorAuditOptions) -> str:
    """Name the generator in words.

    Args:
        options: Settings of the audit.
    """
    if options.train is not None:
        return options.train
    if options.kind == "tiny":
        return "tiny diffusion network"
    if options.kind == "gan":
        return "GAN of the StyleGAN2 kind"
    if options.kind == "unet":
        if options.lora is not None:
            return "LoRA of a U-Net of a folder"
        return "U-Net of a folder" if options.unet_folder else f"U-Net {options.chosen_network}"
    return f"DiT {options.chosen_network}{'' if options.latent == 'pixels' else f' on latents of {options.latent}'}"


def _seconds(job: TwinJob, twin: BuiltTwin) -> tuple[float, float]:
    """Estimate the seconds of one training, and of one pass of an image, from a few steps and a few images."""
    rows, recipe = np.arange(min(_TIMED_IMAGES, len(job.store.images))), built_in(job)
    short = replace(recipe, draws=1)
    begun = time.perf_counter()
    score_rows(replace(job, recipe=short), twin, rows)
    a_pass = (time.perf_counter() - begun) / twin.passes(short, len(rows))
    step = float(np.median(twin.loop.seconds(min(_TIMED_STEPS, recipe.steps))))
    return step * recipe.steps, a_pass
