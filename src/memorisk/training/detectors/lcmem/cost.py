"""What a Siamese detector over latents takes: steps, looks at validation images, figures of the test part, bytes."""

from collections.abc import Sequence

import numpy as np

from memorisk.runs.cost import Cost, total
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.detectors.contrastive.parts import Division
from memorisk.training.detectors.lcmem.augmentations import FAMILIES
from memorisk.training.detectors.lcmem.fit import StageTraining
from memorisk.training.detectors.lcmem.options import LatentOptions
from memorisk.training.detectors.lcmem.report import MOST_COPIED
from memorisk.training.detectors.lcmem.validation import validation_pairs
from memorisk.training.engine.job_cost import state_bytes, tensor_bytes


def lcmem_cost(latents: Latents, parts: Division, stages: Sequence[StageTraining], options: LatentOptions) -> Cost:
    """Of a whole training: bounds of steps and images, since patience may end a stage.

    Args:
        latents: Of all images.
        parts: Who is trained on, chooses the epoch, measures.
        stages: One or two.
        options: Filled in.

    Returns:
        Latents through the encoder count as images passed where it is a network, and as features in the cache.
    """
    kept = Cost()
    if latents.store is not None:
        distinct = len(set(latents.hashes.tolist()))
        kept = Cost(
            images_passed=distinct if _encodes(latents) else 0,
            bytes_images=latents.store.images.nbytes,
            bytes_features=latents.values.nbytes,
        )
    measured = Cost(images_passed=_measured(latents, parts, options)) * len(stages)
    return kept + measured + total([_stage_cost(stage) for stage in stages])


def _stage_cost(training: StageTraining) -> Cost:
    """Of one stage: every epoch is looked at, and the start; thresholds are made at the end."""
    data, epochs = training.data, training.stage.epochs
    latents, rows = data.latents, data.validation
    dataset = None if data.dataset is None else data.dataset[rows]
    pairs = validation_pairs(rows, data.identity[rows], dataset, seed=training.options.seed)
    second = training.stage.number == 2
    wanted = latents.store is not None and (second or not len(pairs.positive))
    copies = len(FAMILIES) * len(pairs.copied) if wanted else 0
    trained = epochs * 4 * max(1, training.batches * training.size // 2)  # two images a pair, as many negative pairs
    augmented = second or training.options.stage1_augment != "none" or training.sampler.copies_needed
    encoded = copies + (trained if augmented else 0) if _encodes(latents) else 0
    return Cost(
        trainings=1,
        steps=epochs * training.batches,
        images_trained=trained,
        images_passed=(epochs + 1) * (len(rows) + copies) + len(rows) + encoded,
        bytes_weights=state_bytes(training.branch.tensors()) + _encoder_bytes(latents),
        at_most=("steps", "images_trained", "images_passed"),
    )


def _measured(latents: Latents, parts: Division, options: LatentOptions) -> int:
    """Test images, and copies of an image of each identity at every strength, that a detector is asked about."""
    rows = parts.rows["test"]
    identity = (latents.hashes if options.identities == "ignore" else parts.groups)[rows].astype(str)
    copied = min(len(np.unique(identity)), MOST_COPIED) if latents.store is not None else 0
    return len(rows) + copied * sum(len(strengths) for strengths in FAMILIES.values())


def _encodes(latents: Latents) -> bool:
    """Whether a network makes latents of images."""
    return latents.encoder.kind == "autoencoder"


def _encoder_bytes(latents: Latents) -> int:
    """Of the encoder, which stays beside the detector."""
    return tensor_bytes(latents.encoder.load()) if _encodes(latents) else 0
