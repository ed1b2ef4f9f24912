"""Of which copies is the source found first? What chooses a detector's epoch, and what is reported of it.

A copy is found where the nearest of all images of its part is its source (METHODS section 3: "a hit counts as right
only if the neighbour is the source"). The unit is the patient: copies of one stand or fall together.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.errors import MemoriskError
from memorisk.scores.distances import fit_measure, nearest
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.copy_detection import paired_hits
from memorisk.statistics.intervals import Proportion, clopper_pearson
from memorisk.training.features.extraction import feature_batches


@dataclass(frozen=True)
class Retrieval:
    """Rate at which the source of a copy was the nearest image."""

    share: float
    """Of all copies; patients with more images count more."""
    of_patients: Proportion
    """Of one copy of each patient, drawn by a seed: what the interval is about."""
    n_copies: int
    """Copies, one an image; as many images are searched."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return asdict(self)


def embed(
    network: nn.Module, images: np.ndarray, rows: np.ndarray, preprocessing: Preprocessing, device: torch.device
) -> np.ndarray:
    """Embeddings of chosen images in float32 and evaluation mode; the network's mode is restored.

    Args:
        network: From [b, C, h, w] to [b, d].
        images: uint8 or uint16 [N, H, W, C].
        rows: Which, [n].
        preprocessing: Of the network.
        device: Where to compute.

    Returns:
        [n, d].

    Raises:
        MemoriskError: An embedding is not finite.
    """
    found = np.concatenate(list(feature_batches(network, images, rows, preprocessing, device=device)))
    if not np.isfinite(found).all():
        raise MemoriskError("the detector's embeddings became infinite: lower the learning rate, or use fp32")
    return found


def source_hits(copies: np.ndarray, sources: np.ndarray, measure: str, hashes: np.ndarray) -> np.ndarray:
    """Find the copies whose nearest image is their source.

    Args:
        copies: [n, d], in the order of their sources.
        sources: [n, d].
        measure: By its name in `memorisk.scores.distances`, as "cosine".
        hashes: [n] of the pixels of the sources: an image with the same pixels is as good as the source.

    Returns:
        [n] bool. Where several images are equally near the first one counts.
    """
    first = nearest(copies, sources, fit_measure(measure, sources), threads=torch.get_num_threads()).indices[:, 0]
    return hashes[first] == hashes


def retrieval(found: np.ndarray, groups: np.ndarray, seed: int) -> Retrieval:
    """The share found, with its interval over patients.

    Args:
        found: [n] bool.
        groups: [n] patients of the sources.
        seed: Of the copy drawn of each patient.
    """
    drawn = one_per_group(groups, seed=seed)
    return Retrieval(float(found.mean()), clopper_pearson(int(found[drawn].sum()), len(drawn)), len(found))


def paired_difference(trained: np.ndarray, before: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """The difference of two detectors on the same copies: jackknife interval over patients, exact paired test.

    Args:
        trained: [n] bool.
        before: [n] bool.
        groups: [n] patients.
    """
    return asdict(paired_hits(trained, before, groups))
