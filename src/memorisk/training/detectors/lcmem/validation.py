"""Validation that chooses the epoch of a Siamese detector: pairs of validation patients, and augmented copies.

**Stage 1** takes the epoch with the highest AUC over all positive pairs of the validation identities and one negative
of the same data set for each, every identity counting one: weights are 1 / pairs of the identity. Of an identity with
more than 50 pairs a random 50 are used.

**Stage 2** takes the highest sum of this AUC and the recall under augmentation: the share of validation identities
whose copy (one image each, of at most 200 identities; every family of `images.alterations.families.FAMILIES`
at its strongest) scores at least the threshold that half of the negatives, by weight, stay below: the rule of paper
004's figure 4. The recall is the mean over the families.

Without two images of one identity, positives of the AUC are those copies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from memorisk.images.alterations.families import FAMILIES
from memorisk.images.alterations.graded import augmented, to_unit
from memorisk.models.lcmem import LatentNetwork
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs, pair_weights, positive_pairs
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.detectors.lcmem.inputs import AugmentedEncoder, LatentSource, PairData
from memorisk.training.engine.devices import exact_products

SPECIFICITY = 0.5
"""Share of the negatives that stay below the threshold of a recall."""
_MOST_PAIRS = 50
_MOST_COPIED = 200

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Function from (features [n, d], features [n, d]) to similarities [n], larger = more alike."""


@dataclass(frozen=True)
class ValidationFigures:
    """Figures of a look at the validation images."""

    auc: float
    """Patient-weighted area under the ROC curve."""
    recall: float
    """Recall of copies at the strongest augmentations; NaN where none were made."""


@dataclass(frozen=True)
class ValidationPairs:
    """Pairs among chosen images, by their places in ``rows``."""

    rows: np.ndarray
    """Rows of the images, [n]."""
    positive: Pairs
    """Pairs of one identity each, P of them."""
    negative: Pairs
    """Pairs of two identities each, Q of them."""
    weight: np.ndarray
    """Weights of the positives, [P]."""
    negative_weight: np.ndarray
    """Weights of the negatives, [Q]."""
    copied: np.ndarray
    """Places of the images whose copies are looked for, [k]."""
    n_identities: int
    """Number of identities with a positive pair."""


def validation_pairs(
    rows: np.ndarray, identity: np.ndarray, dataset: np.ndarray | None, *, seed: int
) -> ValidationPairs:
    """Draw the pairs that choose an epoch.

    Args:
        rows: Rows of the validation images, [n].
        identity: Identity of each image, [n].
        dataset: Data set of each image, [n]; None where all are of one.
        seed: Random seed of the draws.

    Raises:
        InputError: All images are of one identity.
    """
    if len(np.unique(identity)) < 2:
        raise InputError("all validation images are of one identity: at least two are needed to tell them apart")
    positive = _limit_pairs(positive_pairs(identity), identity, seed)
    enough = len(positive) or min(len(rows), _MOST_COPIED)
    sets = None if dataset is None or _single_identity(identity, dataset) else dataset
    negative = negative_pairs(identity, positive if len(positive) else enough, dataset=sets, seed=seed)
    copied = one_per_group(identity, seed=seed)
    if len(copied) > _MOST_COPIED:
        copied = np.sort(np.random.default_rng(seed).choice(copied, _MOST_COPIED, replace=False))
    return ValidationPairs(
        rows,
        positive,
        negative,
        pair_weights(identity[positive.first]),
        pair_weights(identity[negative.first]),
        copied,
        len(np.unique(identity[positive.first])),
    )


def strongest_copies(latents: Latents, rows: np.ndarray, *, seed: int) -> dict[str, np.ndarray]:
    """Make copies of images by every family at its strongest, ``{family: [n, H, W, C]}``.

    Args:
        latents: Latents with their images.
        rows: Rows of the images to copy.
        seed: Random seed of the copies.
    """
    assert latents.store is not None
    images = latents.store.images
    return {family: augmented(images, rows, family, strengths[-1], seed=seed) for family, strengths in FAMILIES.items()}


def evaluate_features(
    pairs: ValidationPairs, features: np.ndarray, copies: dict[str, np.ndarray], score: Score
) -> ValidationFigures:
    """Compute AUC and recall of features.

    Args:
        pairs: Pairs of validation images.
        features: Features of the validation images, [n, d].
        copies: Features [k, d] of their copies, by family; empty where none were made.
        score: Function that compares two features.
    """
    against = score(features[pairs.negative.first], features[pairs.negative.second])
    originals = features[pairs.copied]
    alike = {family: score(originals, values) for family, values in copies.items()}
    threshold = weighted_quantile(against, pairs.negative_weight, SPECIFICITY)
    recall = float(np.mean([(values >= threshold).mean() for values in alike.values()])) if alike else float("nan")
    if len(pairs.positive):
        together = score(features[pairs.positive.first], features[pairs.positive.second])
        weight = pairs.weight
    else:
        together = np.concatenate([*alike.values(), np.empty(0)])
        weight = np.ones(len(together))
    return ValidationFigures(_auc(together, weight, against, pairs.negative_weight), recall)


def weighted_quantile(values: np.ndarray, weight: np.ndarray, share: float) -> float:
    """Return the smallest value that at least this share of the weight is at or below."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(total, share * total[-1])])


def _auc(together: np.ndarray, weight: np.ndarray, against: np.ndarray, negative_weight: np.ndarray) -> float:
    """Compute the weighted AUC, ties one half; NaN where one of the two sides is empty."""
    from sklearn.metrics import roc_auc_score

    if not len(together) or not len(against):
        return float("nan")
    truth = np.arange(len(together) + len(against)) < len(together)
    weights = np.concatenate([weight, negative_weight])
    return float(roc_auc_score(truth, np.concatenate([together, against]), sample_weight=weights))


def _limit_pairs(pairs: Pairs, identity: np.ndarray, seed: int) -> Pairs:
    """Draw at most 50 pairs of each identity."""
    own = identity[pairs.first]
    shuffled = np.random.default_rng(seed).permutation(len(own))
    ranked = shuffled[np.argsort(np.unique(own, return_inverse=True)[1][shuffled], kind="stable")]
    _, count = np.unique(own, return_counts=True)
    place = np.arange(len(own)) - np.repeat(np.cumsum(count) - count, count)
    chosen = np.sort(ranked[place < _MOST_PAIRS])
    return Pairs(pairs.first[chosen], pairs.second[chosen])


def _single_identity(identity: np.ndarray, dataset: np.ndarray) -> bool:
    """Return whether a data set has a single identity, so that it has no negative pair of its own."""
    return any(len(np.unique(identity[dataset == name])) < 2 for name in np.unique(dataset))


_AT_ONCE = 256
_SPECIFICITIES = (0.5, 0.9, 0.95, 0.99)
_MISS_RATES = (0.01, 0.05, 0.1)


@dataclass(frozen=True, eq=False)
class ValidationSet:
    """Validation pairs, and the latents of the copies that belong to them."""

    pairs: ValidationPairs
    latents: LatentSource
    copies: dict[str, torch.Tensor]
    """Latents of the copies, [k, c, h, w] by family; empty where none are needed."""

    @classmethod
    def build(
        cls,
        data: PairData,
        latents: LatentSource,
        encoder: Callable[[], AugmentedEncoder],
        seed: int,
        *,
        with_copies: bool,
    ) -> "ValidationSet":
        """Draw the pairs and make the copies.

        Args:
            data: Data of the training.
            latents: Latents of all rows.
            encoder: Function that opens the encoder of augmented images; called only where copies are needed.
            seed: Random seed of the draws.
            with_copies: Whether recall is wanted; copies are made too where no identity has two images.
        """
        rows = data.validation
        dataset = None if data.dataset is None else data.dataset[rows]
        pairs = validation_pairs(rows, data.identity[rows], dataset, seed=seed)
        copies: dict[str, torch.Tensor] = {}
        if (with_copies or not len(pairs.positive)) and data.latents.store is not None:
            strongest = strongest_copies(data.latents, rows[pairs.copied], seed=seed)
            copies = {family: encoder().encode(to_unit(images)) for family, images in strongest.items()}
        return cls(pairs, latents, copies)

    def look(self, branch: LatentNetwork) -> ValidationFigures:
        """Compute AUC and recall of the network in its present state; its mode is restored."""
        features = self._features(branch)
        copies = {family: embed_validation_rows(branch, z) for family, z in self.copies.items()}
        return evaluate_features(self.pairs, features, copies, similarity(branch))

    def calibration(self, branch: LatentNetwork) -> dict[str, Any]:
        """Compute thresholds on validation pairs: by specificity, and by the share of positives missed."""
        features, score, pairs = self._features(branch), similarity(branch), self.pairs
        against = score(features[pairs.negative.first], features[pairs.negative.second])
        thresholds: dict[str, Any] = {
            "on": "validation pairs, every identity counting one",
            "identities": pairs.n_identities,
            "specificity": {f"{s:g}": weighted_quantile(against, pairs.negative_weight, s) for s in _SPECIFICITIES},
        }
        if len(pairs.positive):
            together = score(features[pairs.positive.first], features[pairs.positive.second])
            thresholds["missed"] = {f"{s:g}": weighted_quantile(together, pairs.weight, s) for s in _MISS_RATES}
        return thresholds

    def _features(self, branch: LatentNetwork) -> np.ndarray:
        rows = self.pairs.rows
        parts = [rows[begin : begin + _AT_ONCE] for begin in range(0, len(rows), _AT_ONCE)]
        return np.concatenate([embed_validation_rows(branch, self.latents(part)) for part in parts])


def embed_validation_rows(branch: LatentNetwork, z: torch.Tensor) -> np.ndarray:
    """Compute features [n, d] of latents, as at inference; the network's mode is restored.

    Raises:
        MemoriskError: A feature is not finite.
    """
    before = branch.training
    branch.eval()
    with torch.inference_mode(), exact_products(z.device):
        features = torch.cat([branch(some) for some in z.split(_AT_ONCE)]).float().cpu().numpy()
    branch.train(before)
    if not np.isfinite(features).all():
        raise MemoriskError("the detector's features became infinite: lower the learning rate, or use fp32")
    return features


def similarity(branch: LatentNetwork) -> Score:
    """Build the score of the similarity of two features: the head's logit, or the cosine."""
    head = branch.head

    def by_cosine(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Compute the cosine, 1 for the same direction."""
        a, b = u.astype(np.float64), v.astype(np.float64)
        return (a * b).sum(axis=1) / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-300)

    if head is None:
        return by_cosine
    weight = head.weight.detach().double().cpu().numpy()[0]
    bias = float(head.bias.detach())

    def by_head(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Compute the logit of each pair."""
        return bias + np.abs(u.astype(np.float64) - v) @ weight

    return by_head
