"""Every figure of a set's quality in one table, each with the same figure of held-out real images as its reference.

A figure of quality means something only in comparison with another at the same numbers of images in the same
features: FID falls with the number of images, recall rises. Held-out real images, as many as are compared, show
against the same training images what a perfect generator would get.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from memorisk.audits.quality.options import FIGURES
from memorisk.models.feature_description import FeatureDescription
from memorisk.runs.errors import InputError, unknown_name
from memorisk.scores.distances import fit_measure, nearest
from memorisk.statistics.quality.figures import QualityFigure, Samples, check_samples
from memorisk.statistics.quality.frechet import Frechet, frechet, frechet_figure
from memorisk.statistics.quality.kernel import kernel_distance
from memorisk.statistics.quality.manifold import DensityCoverage, PrecisionRecall, density_coverage, precision_recall
from memorisk.statistics.quality.memorization_informed import MemorizationInformed, mifid_figure
from memorisk.statistics.quality.retrieval_score import irs_of
from memorisk.training.features.matrix import Features

BETTER = dict.fromkeys(FIGURES, "higher") | {"FID": "lower", "KID": "lower", "MiFID": "lower"}
"""Direction in which each improves; density and IRS are best near their reference, above which they hold no more."""


@dataclass(frozen=True, eq=False)
class QualityTable:
    """The figures of a set of synthetic images.

    Attributes:
        table: One row per figure: ``figure`` (one of `FIGURES`), ``name`` (with features and numbers of images),
            ``better`` ("lower" or "higher"), ``estimate``, ``low``, ``high``; ``reference``, ``reference_low``,
            ``reference_high``: the same figure of ``n_reference`` held-out real images; ``same_number``,
            ``same_number_low``, ``same_number_high``: of as many synthetic images, which is what compares with it;
            ``n_real``, ``n_synthetic``, ``n_real_patients``, ``n_reference``, ``n_reference_patients``, ``features``,
            ``level``, and ``method``: how the limits were made or why there are none.
        features: Name of the features, in a few words.
        level: Coverage of the intervals.
    """

    table: pd.DataFrame
    features: str
    level: float

    def of(self, figure: str) -> dict[str, object]:
        """Return the row of a figure.

        Raises:
            InputError: The figure was not measured.
        """
        rows = self.table[self.table["figure"] == figure]
        if not len(rows):
            raise unknown_name("figure", figure, list(self.table["figure"]))
        return {str(name): value for name, value in rows.iloc[0].items()}


def measure_quality(
    train: Features,
    synthetic: Features,
    held_out: Features | None = None,
    *,
    figures: Sequence[str] = FIGURES,
    seed: int = 0,
    level: float = 0.95,
    intervals: bool = True,
) -> QualityTable:
    """Measure synthetic images against training images, and held-out images as if they were synthetic ones.

    Args:
        train: Features of the training images, with their patients.
        synthetic: Features of the synthetic images, by the same encoder; each is a draw of its own.
        held_out: Features of held-out real images; None for no reference.
        figures: Names of the figures to compute, some of `FIGURES`.
        seed: Seed of the draws that make numbers equal, and of the parts that make intervals.
        level: Coverage of the intervals.
        intervals: Whether to compute the slow ones too (precision, recall, density, coverage).

    Raises:
        InputError: Features of different encoders or that are not finite, an unknown figure, or too few images.
    """
    for name in figures:
        if name not in FIGURES:
            raise unknown_name("figure", name, FIGURES)
    for other in (synthetic, held_out):
        if other is not None:
            _refuse_different(train.described, other.described)
    how = _FigureSettings(seed, level, intervals)
    whole = _SetFigures(train, synthetic, how)
    reference, same = None, whole
    if held_out is not None:
        n = min(len(held_out), len(synthetic))
        reference = _SetFigures(train, _draw(held_out, n, seed), how, grouped=True)
        same = whole if n == len(synthetic) else _SetFigures(train, _draw(synthetic, n, seed), how)
    features = feature_name(train.described)
    rows = [_row(name, features, whole, reference, same) for name in FIGURES if name in figures]
    return QualityTable(pd.DataFrame(rows), features, level)


def feature_name(described: FeatureDescription) -> str:
    """Name the features of a figure: the network without its file, and that it is random if it is."""
    name = described.source.partition("@")[0].removeprefix("timm:")
    return f"{name}, random weights" if described.state == "random" else name


def figure_name(figure: str, features: str, n_synthetic: int, n_real: int) -> str:
    """Name a figure, as in ``FID (resnet50, 2,000 synthetic, 1,500 real images)``."""
    return f"{figure} ({features}, {n_synthetic:,} synthetic, {n_real:,} real images)"


@dataclass(frozen=True)
class _FigureSettings:
    """Settings that all figures share."""

    seed: int
    level: float
    intervals: bool


class _SetFigures:
    """The figures of one set against the training images, each computed at its first use."""

    def __init__(self, train: Features, others: Features, how: _FigureSettings, *, grouped: bool = False) -> None:
        self.how = how
        self.groups = others.groups if grouped else None
        self.samples: Samples = check_samples(
            train.values, others.values, train.groups, self.groups, level=how.level, fewest=2
        )

    def figure(self, name: str) -> QualityFigure:
        """Compute one of `FIGURES`; NaN with the reason where the images do not allow it."""
        ways: dict[str, Callable[[], QualityFigure]] = {
            "FID": lambda: frechet_figure(self.samples, self._frechet),
            "KID": lambda: kernel_distance(*self._both, level=self.how.level),
            "MiFID": lambda: self._mifid.figure,
            "precision": lambda: self._precision_recall.precision,
            "recall": lambda: self._precision_recall.recall,
            "density": lambda: self._density_coverage.density,
            "coverage": lambda: self._density_coverage.coverage,
            "IRS": self._irs,
        }
        try:
            return ways[name]()
        except InputError as error:
            return self.samples.no_interval(float("nan"), str(error))

    @property
    def _both(self) -> tuple[np.ndarray, ...]:
        samples = self.samples
        return samples.real, samples.synthetic, samples.real_unit, samples.synthetic_unit

    @cached_property
    def _frechet(self) -> Frechet:
        return frechet(self.samples)

    @cached_property
    def _mifid(self) -> MemorizationInformed:
        return mifid_figure(self.samples, self._frechet)

    @cached_property
    def _precision_recall(self) -> PrecisionRecall:
        how = self.how
        return precision_recall(*self._both, seed=how.seed, level=how.level, intervals=how.intervals)

    @cached_property
    def _density_coverage(self) -> DensityCoverage:
        how = self.how
        return density_coverage(*self._both, seed=how.seed, level=how.level, intervals=how.intervals)

    def _irs(self) -> QualityFigure:
        """Compute the IRS by Euclidean neighbours; its interval takes the images for independent draws."""
        samples = self.samples
        measure = fit_measure("euclidean", samples.real)
        neighbours = nearest(samples.synthetic, samples.real, measure, device="cpu").indices[:, 0]
        score = irs_of(neighbours, len(samples.real), level=samples.level)
        if samples.units[1] < len(samples.synthetic):
            return samples.no_interval(score.estimate, "images of one patient are no independent draws")
        limits = score.low, score.high
        return samples.figure(score.estimate, limits, float("nan"), "inverted distribution of distinct neighbours")


def _refuse_different(train: FeatureDescription, other: FeatureDescription) -> None:
    """Refuse to compare features of different encoders.

    Raises:
        InputError: The features come from two encoders.
    """
    if train.dimension != other.dimension:
        raise InputError(
            f"features of {train.dimension:,} and of {other.dimension:,} numbers do not compare: compute both by one "
            "encoder"
        )
    if "saved" in (train.state, other.state):
        return
    mine, theirs = ((d.encoder, d.weights_fingerprint) for d in (train, other))
    if mine != theirs:
        raise InputError(f"features by {mine[0]} and by {theirs[0]} do not compare: compute both by one encoder")


def _draw(features: Features, n: int, seed: int) -> Features:
    """Draw n of the features at random; return all as they are if there are no more."""
    if n == len(features):
        return features
    chosen = np.random.default_rng(seed).choice(len(features), n, replace=False)
    return features.select(np.sort(chosen))


def _row(
    name: str, features: str, whole: _SetFigures, reference: _SetFigures | None, same: _SetFigures
) -> dict[str, object]:
    figure = whole.figure(name)
    nobody = whole.samples.no_interval(float("nan"), "")
    beside = nobody if reference is None else reference.figure(name)
    equal = nobody if reference is None else same.figure(name)
    numbers = asdict(figure)
    return {
        "figure": name,
        "name": figure_name(name, features, figure.n_synthetic, figure.n_real),
        "better": BETTER[name],
        **{key: numbers[key] for key in ("estimate", "low", "high")},
        "reference": beside.estimate,
        "reference_low": beside.low,
        "reference_high": beside.high,
        "same_number": equal.estimate,
        "same_number_low": equal.low,
        "same_number_high": equal.high,
        "n_real": figure.n_real,
        "n_synthetic": figure.n_synthetic,
        "n_real_patients": figure.n_real_units,
        "n_reference": 0 if reference is None else beside.n_synthetic,
        "n_reference_patients": 0 if reference is None else beside.n_synthetic_units,
        "features": features,
        "level": figure.level,
        "method": figure.method,
    }
