"""What a generator's training takes, counted from its settings and its images before a network is built.

A GAN trains two networks. Counted as forward and backward is what goes through the network that learns: the images that
the generator makes for its own update (half as many for a path length), and for the discriminator's those and the real
ones (for R1 the real ones once more). Forward only is the other one: the discriminator's look at what the generator
makes for its update, and what the generator makes for the discriminator's.
"""

from pathlib import Path

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.autoencoders.latents import open_latents
from memorisk.models.generators.conditions import Conditions
from memorisk.runs.cost import Cost
from memorisk.training.engine.job_cost import fit_cost, tensor_bytes
from memorisk.training.generators.conditions.folds import FoldData, fold_file, fold_recipe
from memorisk.training.generators.conditions.options import FOLDS, PseudoOptions
from memorisk.training.generators.diffusion.fit import DiffusionTraining
from memorisk.training.generators.diffusion.held_out import known_held_out
from memorisk.training.generators.gan.fit import GanTraining
from memorisk.training.generators.gan.loop import path_images
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.rows import chosen_held_out, told_of
from memorisk.training.generators.snapshots import GeneratorTraining

_FLOAT32 = 4


def steps_cost(
    store: ImageStore,
    rows: np.ndarray,
    options: GeneratorOptions,
    validation: np.ndarray,
    conditions: Conditions | None = None,
) -> Cost:
    """Of a training to its last step, with its looks at held-out images; what stays on the disk is not in it.

    Args:
        store: The images.
        rows: To train on; may repeat.
        options: How.
        validation: Rows that measure.
        conditions: Of the training images, or blank ones in their place.
    """
    b, steps = options.images_a_step, options.steps
    if options.kind == "gan":
        size = int(store.images.shape[1])
        paths = -(-steps // options.gan_path_every) if options.gan_path else 0
        penalties = -(-steps // options.gan_r1_every) if options.r1_gamma(size**2, b) else 0
        return Cost(
            trainings=1,
            steps=2 * steps + paths + penalties,
            images_trained=3 * steps * b + paths * path_images(b) + penalties * b,
            images_passed=2 * steps * b,
        )
    looks = -(-steps // options.snapshot_every)
    measured = _measured(store, rows, options, validation, conditions)
    return Cost(trainings=1, steps=steps, images_trained=steps * b, images_passed=looks * measured)


def latents_cost(store: ImageStore, options: GeneratorOptions) -> Cost:
    """Of the latents that a diffusion model learns: each image, and mirrored, through the encoder once.

    Args:
        store: The images.
        options: Of the training.
    """
    if options.kind == "gan" or options.latent == "pixels":
        return Cost()
    _, height, width, channels = (int(n) for n in store.images.shape)
    encoder = open_latents(options.latent, (height, width, channels), size=height, books=store.folder.parent.parent)
    times, numbers = 2 if options.flip else 1, int(np.prod(encoder.latent_shape))
    return Cost(
        images_passed=times * len(set(store.pixel_hashes.tolist())),
        bytes_features=times * len(store.images) * numbers * _FLOAT32,
    )


def classifiers_cost(data: FoldData, options: PseudoOptions, which: str, folder: Path) -> dict[str, Cost]:
    """Of each classifier that makes pseudo-conditions and is not done, by the file of its outputs.

    Args:
        data: Their images.
        options: Of their training.
        which: What a condition is made of; label-noise needs no classifier.
        folder: Where their outputs are kept.
    """
    if which == "label-noise":
        return {}
    recipe, found = fold_recipe(data, options), {}
    for number in range(FOLDS):
        file = fold_file(number, data, recipe, options, folder)
        if file.is_file():
            continue
        fitted = fit_cost(int((data.fold != number).sum()), recipe.train)
        outputs = len(data.rows) * data.targets.n_outputs * _FLOAT32
        found[str(file)] = fitted + Cost(images_passed=len(data.rows), bytes_outputs=outputs)
    return found


def weights_cost(training: GeneratorTraining, kept: int = 0) -> Cost:
    """Of the generators that stay: the last one and the snapshots, each with the autoencoder of its latents.

    Args:
        training: Checked.
        kept: Snapshots.
    """
    if isinstance(training, GanTraining):
        size = tensor_bytes(training.networks[0])
    else:
        assert isinstance(training, DiffusionTraining)
        size = tensor_bytes(training.network) + (0 if training.vae is None else tensor_bytes(training.vae))
    return Cost(bytes_weights=(1 + kept) * size)


def _measured(
    store: ImageStore,
    rows: np.ndarray,
    options: GeneratorOptions,
    validation: np.ndarray,
    conditions: Conditions | None,
) -> int:
    """Held-out images that a look of a diffusion model passes."""
    chosen, _ = chosen_held_out(np.asarray(validation, dtype=np.int64), options.seed)
    told = told_of(store, rows, chosen, options, conditions)
    return len(known_held_out(told, options.drop_condition))
