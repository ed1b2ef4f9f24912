"""Measurement of a Siamese detector on test patients, who chose nothing: separation of pairs, recall of copies.

* **AUC** over all positive pairs of the test identities and one negative of the same data set for each, every identity
  counting one, with its interval over identities (`memorisk.statistics.pairs.auc`); by data set, and their mean.
* **Specificity** of the same pairs at the score that 95 % of the positive ones reach: the share of negatives that a
  filter would leave.
* **Recall**: the share of identities whose copy (one image each, at most 1,000) scores at least the threshold that half
  of the *validation* negatives stay below; by family and strength, with Clopper-Pearson limits.

`lcmem_cost` counts the cost of a training: steps, looks at validation images, figures of the test part, bytes.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from memorisk.images.alterations.families import FAMILIES
from memorisk.images.alterations.graded import augmented
from memorisk.models.lcmem import LatentDetector
from memorisk.runs.workload import Cost, Progress, total
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.detector_comparison import paired_hits
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.pairs.auc import macro_average, pair_auc, pair_auc_difference
from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs, positive_pairs
from memorisk.statistics.pairs.specificity import specificity_at_sensitivity
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.classifiers.joint_jobs import state_bytes, tensor_bytes
from memorisk.training.detectors.lcmem.fit import DETECTOR_FOLDER, STAGE1, FittedStage, StageTraining
from memorisk.training.detectors.lcmem.inputs import dataset_names
from memorisk.training.detectors.lcmem.validation import similarity, validation_pairs
from memorisk.training.detectors.options import LatentOptions
from memorisk.training.engine.data import Division

MAX_COPIED = 1000
_SENSITIVITY = 0.95
_ALL = "all"


def measure_stages(
    latents: Latents, parts: Division, fitted: dict[str, FittedStage], options: LatentOptions, progress: Progress
) -> dict[str, Any]:
    """Measure AUC and recall of each stage on the test part, and the difference of the second to the first.

    Args:
        latents: Latents of all images.
        parts: Parts of the data, of which "test" chose nothing.
        fitted: Trained detectors by stage.
        options: Settings of the training.
        progress: Function called with (stage, done, total).

    Returns:
        ``{stage: {"auc": {data set: ...}, "specificity": {data set: ...}, "recall": {family: {strength: ...}}}}`` and,
        after two stages, ``{"detector_less_stage1": {"auc", "recall" at the strongest}}``; "auc" and "specificity" are
        empty where no identity has two test images.
    """
    rows = parts.rows["test"]
    identity = latents.hashes[rows].astype(str) if options.identities == "ignore" else parts.groups[rows].astype(str)
    sets = dataset_names(latents)
    within = np.full(len(rows), _ALL) if sets is None else sets[rows]
    device = options.device
    features = {
        name: one.detector.embed_latents(np.array(latents.values[rows]), device=device) for name, one in fitted.items()
    }
    pairs = {name: _pairs(identity, np.flatnonzero(within == name), options.seed) for name in np.unique(within)}
    pairs = {name: results for name, results in pairs.items() if results is not None}
    scores = {
        stage: {name: _scores(fitted[stage].detector, features[stage], *both) for name, both in pairs.items()}
        for stage in fitted
    }
    hits = _hits(latents, rows, identity, fitted, features, options, progress)
    results: dict[str, Any] = {
        stage: {
            "auc": _aucs(scores[stage], pairs, identity),
            "specificity": _specificities(scores[stage], pairs, identity),
            "recall": _recalls(hits[stage]),
        }
        for stage in fitted
    }
    if STAGE1 in fitted:
        both = {name: (scores[DETECTOR_FOLDER][name], scores[STAGE1][name], pairs[name]) for name in pairs}
        results["detector_less_stage1"] = {
            "auc": {name: _difference(*three, identity) for name, three in both.items()},
            "recall": {
                family: asdict(paired_hits(strengths[-1], hits[STAGE1][family][-1]))
                for family, strengths in hits[DETECTOR_FOLDER].items()
            },
        }
    return results


def _pairs(identity: np.ndarray, rows: np.ndarray, seed: int) -> tuple[Pairs, Pairs] | None:
    """Draw positive and negative pairs of one data set, by places in the test part; None where it has none."""
    own = identity[rows]
    positive = positive_pairs(own)
    if not len(positive) or len(np.unique(own)) < 2:
        return None
    negative = negative_pairs(own, positive, seed=seed)
    return tuple(Pairs(rows[kind.first], rows[kind.second]) for kind in (positive, negative))  # pyright: ignore[reportReturnType]


def _scores(detector: LatentDetector, features: np.ndarray, positive: Pairs, negative: Pairs) -> np.ndarray:
    """Score the pairs, [P + Q], positives first."""
    score = similarity(detector.branch)
    return np.concatenate([score(features[kind.first], features[kind.second]) for kind in (positive, negative)])


def _design(positive: Pairs, negative: Pairs, identity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second = (np.concatenate([getattr(positive, side), getattr(negative, side)]) for side in ("first", "second"))
    return np.arange(len(first)) < len(positive), identity[first], identity[second]


def _aucs(scores: dict[str, np.ndarray], pairs: dict[str, tuple[Pairs, Pairs]], identity: np.ndarray) -> dict[str, Any]:
    aucs = {name: pair_auc(scores[name], *_design(*pairs[name], identity)) for name in pairs}
    figures: dict[str, Any] = {name: asdict(one) for name, one in aucs.items()}
    if len(aucs) > 1:
        figures["macro average"] = asdict(macro_average([one.interval for one in aucs.values()]))
    return figures


def _specificities(
    scores: dict[str, np.ndarray], pairs: dict[str, tuple[Pairs, Pairs]], identity: np.ndarray
) -> dict[str, Any]:
    """Estimate the specificity at 95 % sensitivity, by data set."""
    return {
        name: asdict(specificity_at_sensitivity(scores[name], *_design(*both, identity), sensitivity=_SENSITIVITY))
        for name, both in pairs.items()
    }


def _difference(
    second: np.ndarray, first: np.ndarray, pairs: tuple[Pairs, Pairs], identity: np.ndarray
) -> dict[str, Any]:
    return asdict(pair_auc_difference(second, first, *_design(*pairs, identity)))


def _hits(
    latents: Latents,
    rows: np.ndarray,
    identity: np.ndarray,
    fitted: dict[str, FittedStage],
    features: dict[str, np.ndarray],
    options: LatentOptions,
    progress: Progress,
) -> dict[str, dict[str, list[np.ndarray]]]:
    """Find copies by each stage: ``{stage: {family: [[n] bool of each strength]}}``."""
    hits: dict[str, dict[str, list[np.ndarray]]] = {stage: {} for stage in fitted}
    if latents.store is None:
        return hits
    places = one_per_group(identity, seed=options.seed)
    if len(places) > MAX_COPIED:
        places = np.sort(np.random.default_rng(options.seed).choice(places, MAX_COPIED, replace=False))
    total = sum(len(strengths) for strengths in FAMILIES.values())
    for family, strengths in FAMILIES.items():
        for strength in strengths:
            progress("looking for copies", sum(len(one) for one in hits[DETECTOR_FOLDER].values()), total)
            copies = augmented(latents.store.images, rows[places], family, strength, seed=options.seed)
            for stage, one in fitted.items():
                u = one.detector.embed(copies, device=options.device)
                score = similarity(one.detector.branch)(features[stage][places], u)
                threshold = one.detector.config.calibration["specificity"]["0.5"]
                hits[stage].setdefault(family, []).append(score >= threshold)
    progress("looking for copies", total, total)
    return hits


def _recalls(hits: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    return {
        family: {
            f"{strength:g}": asdict(clopper_pearson(int(hit.sum()), len(hit)))
            for strength, hit in zip(FAMILIES[family], family_hits, strict=True)
        }
        for family, family_hits in hits.items()
    }


def lcmem_cost(latents: Latents, parts: Division, stages: Sequence[StageTraining], options: LatentOptions) -> Cost:
    """Count the cost of a whole training: bounds of steps and images, since patience may end a stage.

    Args:
        latents: Latents of all images.
        parts: Parts that train, choose the epoch and measure.
        stages: Trainings of the one or two stages.
        options: Settings, filled in.

    Returns:
        Cost; latents through the encoder count as images passed where it is a network, and as features in the cache.
    """
    inputs = Cost()
    if latents.store is not None:
        distinct = len(set(latents.hashes.tolist()))
        inputs = Cost(
            images_passed=distinct if _encodes(latents) else 0,
            bytes_images=latents.store.images.nbytes,
            bytes_features=latents.values.nbytes,
        )
    measured = Cost(images_passed=_measured(latents, parts, options)) * len(stages)
    return inputs + measured + total([_stage_cost(stage) for stage in stages])


def _stage_cost(training: StageTraining) -> Cost:
    """Count the cost of one stage: a look at the start and at every epoch, and thresholds at the end."""
    data, epochs = training.data, training.part.epochs
    latents, rows = data.latents, data.validation
    dataset = None if data.dataset is None else data.dataset[rows]
    pairs = validation_pairs(rows, data.identity[rows], dataset, seed=training.options.seed)
    second = training.part.number == 2
    wanted = latents.store is not None and (second or not len(pairs.positive))
    copies = len(FAMILIES) * len(pairs.copied) if wanted else 0
    trained = epochs * 4 * max(1, training.batches * training.size // 2)  # two images per pair, as many negative pairs
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
    """Count the test images, and copies of an image of each identity at every strength, that a detector embeds."""
    rows = parts.rows["test"]
    identity = (latents.hashes if options.identities == "ignore" else parts.groups)[rows].astype(str)
    copied = min(len(np.unique(identity)), MAX_COPIED) if latents.store is not None else 0
    return len(rows) + copied * sum(len(strengths) for strengths in FAMILIES.values())


def _encodes(latents: Latents) -> bool:
    """Return whether a network makes latents of images."""
    return latents.encoder.kind == "autoencoder"


def _encoder_bytes(latents: Latents) -> int:
    """Count the bytes of the encoder, which is kept together with the detector."""
    return tensor_bytes(latents.encoder.load()) if _encodes(latents) else 0
