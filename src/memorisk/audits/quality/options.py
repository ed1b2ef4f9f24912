"""Settings of ``memorisk quality``: the three sets, the features, the figures, and the classifier if one is wanted.

The same class is the command line, the YAML file and the Python keywords.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.audits.comparison.options import PartOptions
from memorisk.report.options import PseudonymOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.options import (
    Device,
    HeldOutSplit,
    InputSize,
    Normalise,
    Precision,
    Threads,
    TrainSplit,
    Words,
    grouped,
)
from memorisk.runs.settings import check_between, check_counts, check_seeds, settings_of

AUTO = "auto"
FIGURES = ("FID", "KID", "MiFID", "precision", "recall", "density", "coverage", "IRS")
"""Names of the figures, in the order of the table."""


@grouped(
    "training",
    essential="held_out held_out_split features figures level classifier device",
    images="held_out",
    comparison="features synthetic_features held_out_features",
    statistics="figures level seed",
)
@dataclass(frozen=True, kw_only=True)
class QualityOptions(PseudonymOptions, PartOptions, ClusterOptions):
    """Settings of `memorisk quality`; how images are read is the same for all three sets."""

    held_out: str | None = None
    """Real images of patients unseen by the generator; they show what a perfect generator would score."""
    held_out_split: HeldOutSplit = None
    train_split: TrainSplit = None

    features: Words = (AUTO,)
    """Features (docs/features.md), one table each: NETWORK@WEIGHTS, detector:FOLDER, pixels:SIDE, pca:K, or a file with
    features of TRAIN; auto: pixels at 32 x 32, which capture shapes and grey levels only."""
    synthetic_features: Path | None = None
    """File with the features of SYNTHETIC, where --features names a file."""
    held_out_features: Path | None = None
    """File with the features of the held-out images, where --features names a file."""
    input_size: InputSize = None
    normalise: Normalise = None
    precision: Precision = "auto"
    device: Device = "auto"

    figures: Words = FIGURES
    """Quality measures to compute."""
    level: float = 0.95
    """Coverage of the intervals."""
    seed: int = 0
    """Random seed for subsampling to equal numbers of images, and first seed of the trainings."""

    classifier: str | None = None
    """Also train this network (auto, or a name as in `train classifier`) on synthetic images and on as many real ones,
    and test both on the held-out images. Needs labels."""
    classifier_weights: str | None = None
    """Pre-trained weights of --classifier: a file, "default" or a tag; by default none."""
    classifier_epochs: int | None = None
    """Epochs of --classifier; by default the architecture's."""
    classifier_seeds: int = 3
    """Trainings of --classifier on each set, with seeds from --seed on."""
    batch_size: int = 64
    """Images per step of --classifier."""
    threads: Threads = 1

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        self.check_cluster()
        check_between(self, "level")
        check_seeds(self, "seed", below=1 << 31)
        check_counts(self, classifier_epochs=1, classifier_seeds=1, batch_size=2, threads=1)
        self._check_lists()
        if self.classifier is not None and self.held_out is None and self.held_out_split is None:
            raise InputError("classifier is tested on held-out real images: name them with held_out or held_out_split")

    def _check_lists(self) -> None:
        """Check features and figures.

        Raises:
            InputError: None, one twice, or an unknown figure.
        """
        for name, values in (("features", self.features), ("figures", self.figures)):
            if not values:
                raise InputError(f"{name} names none: give one at least")
            if len(set(values)) < len(values):
                raise InputError(f"{name} names {next(v for v in values if values.count(v) > 1)!r} twice")
        for figure in self.figures:
            if figure not in FIGURES:
                raise unknown_name("figure", figure, FIGURES)


def quality_options(settings: Mapping[str, Any]) -> QualityOptions:
    """Build options from keyword names, with a "did you mean" for one that does not exist; a list may be one name.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(QualityOptions, settings)
