"""What a Siamese detector is good for on test patients, who chose nothing: pairs told apart, augmented copies found.

* **AUC** over all positive pairs of the test identities and one negative of the same data set for each, every identity
  counting one, with its interval over identities (`memorisk.statistics.pairs.auc`); by data set, and their mean.
* **Specificity** of the same pairs at the score that 95 % of the positive ones reach: what a filter would leave.
* **Recall**: the share of identities whose copy (one image each, at most 1,000) scores at least the threshold that half
  of the *validation* negatives stay below; by family and strength, with Clopper-Pearson limits.
"""

from dataclasses import asdict
from typing import Any

import numpy as np

from memorisk.models.detectors.lcmem import LatentDetector
from memorisk.runs.progress import Progress
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.paired_detectors import paired_hits
from memorisk.statistics.pairs.auc import macro_average, pair_auc, pair_auc_difference
from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs, positive_pairs
from memorisk.statistics.pairs.specificity import specificity_at_sensitivity
from memorisk.statistics.proportions import clopper_pearson
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.detectors.contrastive.parts import Division
from memorisk.training.detectors.lcmem.augmentations import FAMILIES, augmented
from memorisk.training.detectors.lcmem.data import dataset_names
from memorisk.training.detectors.lcmem.evaluation import similarity
from memorisk.training.detectors.lcmem.fit import DETECTOR, STAGE1, FittedStage
from memorisk.training.detectors.lcmem.options import LatentOptions

MOST_COPIED = 1000
_SENSITIVITY = 0.95
_ALL = "all"


def measure_stages(
    latents: Latents, parts: Division, fitted: dict[str, FittedStage], options: LatentOptions, progress: Progress
) -> dict[str, Any]:
    """AUC and recall of each stage on the test part, and what the second has before the first.

    Args:
        latents: Of all images.
        parts: Who chose nothing.
        fitted: By stage.
        options: Of the training.
        progress: Called with (stage, done, total).

    Returns:
        ``{stage: {"auc": {data set: ...}, "specificity": likewise, "recall": {family: {strength: ...}}}}`` and, of two
        stages, ``{"detector_less_stage1": {"auc", "recall" at the strongest}}``; "auc" and "specificity" are empty
        where no identity has two test images.
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
    pairs = {name: found for name, found in pairs.items() if found is not None}
    scores = {
        stage: {name: _scores(fitted[stage].detector, features[stage], *both) for name, both in pairs.items()}
        for stage in fitted
    }
    hits = _hits(latents, rows, identity, fitted, features, options, progress)
    found: dict[str, Any] = {
        stage: {
            "auc": _aucs(scores[stage], pairs, identity),
            "specificity": _specificities(scores[stage], pairs, identity),
            "recall": _recalls(hits[stage]),
        }
        for stage in fitted
    }
    if STAGE1 in fitted:
        both = {name: (scores[DETECTOR][name], scores[STAGE1][name], pairs[name]) for name in pairs}
        found["detector_less_stage1"] = {
            "auc": {name: _difference(*three, identity) for name, three in both.items()},
            "recall": {
                family: asdict(paired_hits(strengths[-1], hits[STAGE1][family][-1]))
                for family, strengths in hits[DETECTOR].items()
            },
        }
    return found


def _pairs(identity: np.ndarray, rows: np.ndarray, seed: int) -> tuple[Pairs, Pairs] | None:
    """Positive and negative pairs of one data set, by places in the test part; None where there are none."""
    own = identity[rows]
    positive = positive_pairs(own)
    if not len(positive) or len(np.unique(own)) < 2:
        return None
    negative = negative_pairs(own, positive, seed=seed)
    return tuple(Pairs(rows[found.first], rows[found.second]) for found in (positive, negative))  # pyright: ignore[reportReturnType]


def _scores(detector: LatentDetector, features: np.ndarray, positive: Pairs, negative: Pairs) -> np.ndarray:
    """[P + Q] positives first."""
    score = similarity(detector.branch)
    return np.concatenate([score(features[found.first], features[found.second]) for found in (positive, negative)])


def _design(positive: Pairs, negative: Pairs, identity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second = (np.concatenate([getattr(positive, side), getattr(negative, side)]) for side in ("first", "second"))
    return np.arange(len(first)) < len(positive), identity[first], identity[second]


def _aucs(scores: dict[str, np.ndarray], pairs: dict[str, tuple[Pairs, Pairs]], identity: np.ndarray) -> dict[str, Any]:
    found = {name: pair_auc(scores[name], *_design(*pairs[name], identity)) for name in pairs}
    said: dict[str, Any] = {name: asdict(one) for name, one in found.items()}
    if len(found) > 1:
        said["macro average"] = asdict(macro_average([one.interval for one in found.values()]))
    return said


def _specificities(
    scores: dict[str, np.ndarray], pairs: dict[str, tuple[Pairs, Pairs]], identity: np.ndarray
) -> dict[str, Any]:
    """At 95 % sensitivity, by data set."""
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
    """Which copies each stage finds: ``{stage: {family: [[n] bool of each strength]}}``."""
    found: dict[str, dict[str, list[np.ndarray]]] = {stage: {} for stage in fitted}
    if latents.store is None:
        return found
    places = one_per_group(identity, seed=options.seed)
    if len(places) > MOST_COPIED:
        places = np.sort(np.random.default_rng(options.seed).choice(places, MOST_COPIED, replace=False))
    total = sum(len(strengths) for strengths in FAMILIES.values())
    for family, strengths in FAMILIES.items():
        for strength in strengths:
            progress("looking for copies", sum(len(one) for one in found[DETECTOR].values()), total)
            copies = augmented(latents.store.images, rows[places], family, strength, seed=options.seed)
            for stage, one in fitted.items():
                u = one.detector.embed(copies, device=options.device)
                score = similarity(one.detector.branch)(features[stage][places], u)
                threshold = one.detector.config.calibration["specificity"]["0.5"]
                found[stage].setdefault(family, []).append(score >= threshold)
    progress("looking for copies", total, total)
    return found


def _recalls(hits: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    return {
        family: {
            f"{strength:g}": asdict(clopper_pearson(int(hit.sum()), len(hit)))
            for strength, hit in zip(FAMILIES[family], found, strict=True)
        }
        for family, found in hits.items()
    }
