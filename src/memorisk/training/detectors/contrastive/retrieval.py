"""Retrieval of sources by their copies, which chooses a detector's epoch and is reported.

A copy is found where the nearest of all images of its part is its source (METHODS section 3: "a hit counts as right
only if the neighbour is the source"). The unit is the patient, since copies of one patient are not independent.
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
from memorisk.statistics.copies.detector_comparison import paired_hits
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.training.features.extraction import feature_batches


@dataclass(frozen=True)
class Retrieval:
    """Rate at which the source of a copy was the nearest image."""

    share: float
    """Share of all copies; patients with more images count more."""
    of_patients: Proportion
    """Share of one copy of each patient, drawn by a seed, with its interval."""
    n_copies: int
    """Number of copies, one per image; as many images are searched."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        return asdict(self)


def embed(
    network: nn.Module, images: np.ndarray, rows: np.ndarray, preprocessing: Preprocessing, device: torch.device
) -> np.ndarray:
    """Compute embeddings of chosen images in float32 and evaluation mode; the network's mode is restored.

    Args:
        network: Network from [b, C, h, w] to [b, d].
        images: Images, uint8 or uint16 [N, H, W, C].
        rows: Rows of the chosen images, [n].
        preprocessing: Preprocessing of the network.
        device: Device to compute on.

    Returns:
        Embeddings of the images, [n, d].

    Raises:
        MemoriskError: An embedding is not finite.
    """
    embeddings = np.concatenate(list(feature_batches(network, images, rows, preprocessing, device=device)))
    if not np.isfinite(embeddings).all():
        raise MemoriskError("the detector's embeddings became infinite: lower the learning rate, or use fp32")
    return embeddings


def source_hits(copies: np.ndarray, sources: np.ndarray, measure: str, hashes: np.ndarray) -> np.ndarray:
    """Find the copies whose nearest image is their source.

    Args:
        copies: Embeddings of the copies, [n, d], in the order of their sources.
        sources: Embeddings of the sources, [n, d].
        measure: Name of the distance in `memorisk.scores.distances`, such as "cosine".
        hashes: Hashes of the sources' pixels, [n]: an image with the same pixels is as good as the source.

    Returns:
        Whether each copy was found, [n] bool. Where several images are equally near the first one counts.
    """
    first = nearest(copies, sources, fit_measure(measure, sources), threads=torch.get_num_threads()).indices[:, 0]
    return hashes[first] == hashes


def retrieval(found: np.ndarray, groups: np.ndarray, seed: int) -> Retrieval:
    """Compute the share found, with its interval over patients.

    Args:
        found: Whether each copy was found, [n] bool.
        groups: Patient of each source, [n].
        seed: Random seed of the copy drawn for each patient.
    """
    drawn = one_per_group(groups, seed=seed)
    return Retrieval(float(found.mean()), clopper_pearson(int(found[drawn].sum()), len(drawn)), len(found))


def paired_difference(trained: np.ndarray, before: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """Compute the difference of two detectors on the same copies: jackknife interval over patients, exact paired test.

    Args:
        trained: Whether the trained detector found each copy, [n] bool.
        before: Whether the other detector found it, [n] bool.
        groups: Patient of each copy, [n].
    """
    return asdict(paired_hits(trained, before, groups))
