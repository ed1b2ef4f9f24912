"""Result of `memorisk explain` for a finished audit: tables, numbers, and how they were computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from memorisk.report.numbers import to_json
from memorisk.statistics.reliability import Reliability

BEFORE = "before"
"""Name of the features of the run's own network before its training."""


@dataclass(frozen=True, kw_only=True)
class ProbedLayers:
    """Model and images that were probed."""

    seed: int
    other_seeds: tuple[int, ...]
    """Seeds that M is computed from."""
    n_probed: int
    """Number of probed images."""
    n_compared: int
    """Number of images that one of the twins was trained on."""
    n_groups_probed: int
    layers: str
    """Way in which the layers were chosen."""
    model: str


@dataclass(frozen=True)
class LayerFindings:
    """Relation of the layers to M.

    Attributes:
        probes: A row for each layer and kind of probe: ``layer, kind, auroc, low, high, fold_mean, fold_sd, shuffled,
            n, n_groups, width``.
        distances: A row for each layer: ``layer, high, high_low, high_high, low, low_low, low_high, difference,
            difference_low, difference_high, n_high, n_low, n_groups``.
        reliability: Reliability of M over the other seeds, and the most that a probe could reach.
        summary: The probed seed, what was probed, how the layers were chosen.
    """

    probes: pd.DataFrame
    distances: pd.DataFrame
    reliability: Reliability
    summary: ProbedLayers


@dataclass(frozen=True, kw_only=True)
class ExplanationSummary:
    """Examined images and settings, with notes for the reader."""

    dataset: str
    data_hash: str
    design: str
    seeds: tuple[int, ...]
    """Seeds that M averages."""
    features: tuple[str, ...]
    feature_weights: str | None
    n_scored: int
    """Number of scored images."""
    n_groups_scored: int
    n_reference: int
    """Number of images that the distances are to."""
    permutations: int
    """Number of permutations behind each p-value."""
    pseudonymised: bool
    notes: tuple[str, ...]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Explanation:
    """Properties of images and layers that go with M in a finished run.

    Attributes:
        atypicality: A row for each scored image and feature space: ``features, image, label, group, M`` and each score
            in both forms (``intra, nearest_other, ratio``; ``centroid_...`` is the paper's), ``reason`` where one is
            missing.
        associations: A row for each feature space, form and score: ``features, form, score, rho, low, high,
            rho_residual, low_residual, high_residual, p, smallest_p, p_paper, p_paper_residual, n, n_groups,
            n_movable``.
        layers: Probes and distances, or None where they were not requested.
        summary: Examined images and settings, with notes for the reader.
        redact: Whether the run, and so the page, leaves ids out.
    """

    atypicality: pd.DataFrame
    associations: pd.DataFrame
    layers: LayerFindings | None
    summary: ExplanationSummary
    redact: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the summary with the associations, and the probes' ceiling and layers where there are some."""
        content = to_json(self.summary) | {"associations": self.associations.to_dict("records")}
        if self.layers is None:
            return content
        probes = to_json(self.layers.summary) | {
            "reliability": to_json(self.layers.reliability),
            "layers_probed": self.layers.probes.to_dict("records"),
            "distances": self.layers.distances.to_dict("records"),
        }
        return content | {"probes": probes}
