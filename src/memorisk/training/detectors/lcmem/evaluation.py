"""A Siamese detector in training, asked about the validation images."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from memorisk.models.detectors.lcmem_network import LatentNetwork
from memorisk.runs.errors import MemoriskError
from memorisk.training.detectors.lcmem.augmentations import to_unit
from memorisk.training.detectors.lcmem.data import AugmentedEncoder, LatentSource, PairData
from memorisk.training.detectors.lcmem.validation import (
    Score,
    Seen,
    ValidationPairs,
    look,
    strongest_copies,
    validation_pairs,
    weighted_quantile,
)
from memorisk.training.engine.devices import exact_products

_AT_ONCE = 256
_SPECIFICITIES = (0.5, 0.9, 0.95, 0.99)
_MISSES = (0.01, 0.05, 0.1)


@dataclass(frozen=True, eq=False)
class Watcher:
    """Validation pairs, and the latents of the copies that belong to them."""

    pairs: ValidationPairs
    latents: LatentSource
    copies: dict[str, torch.Tensor]
    """Latents [k, c, h, w] by family; empty where none are needed."""

    @classmethod
    def build(
        cls,
        data: PairData,
        latents: LatentSource,
        encoder: Callable[[], AugmentedEncoder],
        seed: int,
        *,
        with_copies: bool,
    ) -> "Watcher":
        """Draw the pairs, make the copies.

        Args:
            data: Of the training.
            latents: Of all rows.
            encoder: Of augmented images; asked only where there are copies.
            seed: Of what is drawn.
            with_copies: Whether recall is wanted; copies are made too where no identity has two images.
        """
        rows = data.validation
        dataset = None if data.dataset is None else data.dataset[rows]
        pairs = validation_pairs(rows, data.identity[rows], dataset, seed=seed)
        copies: dict[str, torch.Tensor] = {}
        if (with_copies or not len(pairs.positive)) and data.latents.store is not None:
            made = strongest_copies(data.latents, rows[pairs.copied], seed=seed)
            copies = {family: encoder().encode(to_unit(images)) for family, images in made.items()}
        return cls(pairs, latents, copies)

    def look(self, branch: LatentNetwork) -> Seen:
        """AUC and recall of the network as it is now; its mode is restored."""
        features = self._features(branch)
        copies = {family: embedded(branch, z) for family, z in self.copies.items()}
        return look(self.pairs, features, copies, similarity(branch))

    def calibration(self, branch: LatentNetwork) -> dict[str, Any]:
        """What scores of validation pairs are: thresholds by specificity and by share of positives missed."""
        features, score, pairs = self._features(branch), similarity(branch), self.pairs
        against = score(features[pairs.negative.first], features[pairs.negative.second])
        found: dict[str, Any] = {
            "on": "validation pairs, every identity counting one",
            "identities": pairs.n_identities,
            "specificity": {f"{s:g}": weighted_quantile(against, pairs.negative_weight, s) for s in _SPECIFICITIES},
        }
        if len(pairs.positive):
            together = score(features[pairs.positive.first], features[pairs.positive.second])
            found["missed"] = {f"{s:g}": weighted_quantile(together, pairs.weight, s) for s in _MISSES}
        return found

    def _features(self, branch: LatentNetwork) -> np.ndarray:
        rows = self.pairs.rows
        parts = [rows[begin : begin + _AT_ONCE] for begin in range(0, len(rows), _AT_ONCE)]
        return np.concatenate([embedded(branch, self.latents(part)) for part in parts])


def embedded(branch: LatentNetwork, z: torch.Tensor) -> np.ndarray:
    """Features [n, d] of latents, as at inference; the network's mode is restored.

    Raises:
        MemoriskError: A feature is not finite.
    """
    before = branch.training
    branch.eval()
    with torch.inference_mode(), exact_products(z.device):
        found = torch.cat([branch(some) for some in z.split(_AT_ONCE)]).float().cpu().numpy()
    branch.train(before)
    if not np.isfinite(found).all():
        raise MemoriskError("the detector's features became infinite: lower the learning rate, or use fp32")
    return found


def similarity(branch: LatentNetwork) -> Score:
    """How alike two features are: the head's logit, or the cosine."""
    head = branch.head

    def by_cosine(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """1 for the same direction."""
        a, b = u.astype(np.float64), v.astype(np.float64)
        return (a * b).sum(axis=1) / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-300)

    if head is None:
        return by_cosine
    weight = head.weight.detach().double().cpu().numpy()[0]
    bias = float(head.bias.detach())

    def by_head(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The logit."""
        return bias + np.abs(u.astype(np.float64) - v) @ weight

    return by_head
