"""Detection from distances: the corrected pools and the published ones of every cell.

A detector is taken over its seeds: the measure that validation patients chose, and the detection on test patients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memorisk.statistics.copies.calibration import group_values, one_per_group
from memorisk.statistics.copies.copy_detection import (
    PoolDetection,
    Queries,
    corrected_pools,
    false_flags,
    null_halves,
    published_pools,
)
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.studies.detectors.cells import Backbone, CellJob
from memorisk.studies.detectors.measurement import PUBLISHED_POOLS
from memorisk.studies.detectors.pools import NULLS, POOLS, Parts
from memorisk.studies.engine.cells import Arrays

Hits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PoolReading:
    """One pool by one measure at one strength, corrected.

    Attributes:
        detection: Threshold, shares and false flags.
        recognised: Whether each copy is at most as far as the threshold from some reference, [n].
        nearest_is_source: Whether the nearest reference is the copy's source, [n].
        flagged: Whether an image of each patient of the null is flagged, [k], for patients that did not make the
            threshold.
        source: Patient of each copy's source, [n].
    """

    detection: PoolDetection
    recognised: Hits
    nearest_is_source: Hits
    flagged: Hits
    source: np.ndarray

    @property
    def detected(self) -> Hits:
        """Return whether each copy is recognised, and as its source, [n]: the detection that counts."""
        return self.recognised & self.nearest_is_source


@dataclass(frozen=True, eq=False)
class PublishedReading:
    """The published rules at one measure and strength.

    Attributes:
        pools: Detection ratios of train and validation copies, and tau, by pool.
        new_patients: Share of patients without any image in the pool who are flagged at tau, by pool.
    """

    pools: dict[str, PoolDetection]
    new_patients: dict[str, Proportion]


@dataclass(frozen=True, eq=False)
class Measurement:
    """One cell by one measure at one strength.

    Attributes:
        job: Job of the cell.
        measure: Name of the measure.
        strength: "weak" or "strong".
        words: Description of the fitted measure, or the reason why it is not defined here.
        pools: Corrected readings by pool; empty where the measure is not defined.
        published: Published reading; None where it is not defined.
        published_refused: Reason why it is not defined; else empty.
    """

    job: CellJob
    measure: str
    strength: str
    words: str
    pools: dict[str, PoolReading]
    published: PublishedReading | None
    published_refused: str = ""


def read_cells(jobs: Sequence[CellJob]) -> list[Measurement]:
    """Read the measurements of finished cells, in their order."""
    measurements = []
    for job in jobs:
        if not job.done:
            continue
        for measure in job.options.chosen_measures:
            arrays = job.read(measure)
            measurements += [_read_measurement(job, measure, strength, arrays) for strength in job.options.strengths]
    return measurements


def _read_measurement(job: CellJob, measure: str, strength: str, arrays: Arrays) -> Measurement:
    refused = str(arrays["refused"]) if "refused" in arrays else ""
    published = None if "published_refused" in arrays else _published(job, strength, arrays)
    return Measurement(
        job=job,
        measure=measure,
        strength=strength,
        words=refused or str(arrays["words"]),
        pools={} if refused else _corrected(job, strength, arrays),
        published=published,
        published_refused=str(arrays.get("published_refused", "")),
    )


def _corrected(job: CellJob, strength: str, arrays: Arrays) -> dict[str, PoolReading]:
    """Read the train, validation and test pool, each with its own null."""
    parts, seed = job.division, job.options.split_seed
    copies = {pool: _copies(parts, pool, strength, arrays) for pool in POOLS}
    nulls = {
        pool: Queries(arrays[f"null_{pool}"], _ids(parts, parts.rows(NULLS[pool])), len(parts.pools[pool]))
        for pool in POOLS
    }
    by_pool = {}
    for pair in (("train", "validation"), ("validation", "test")):
        pool_queries = [queries[pool] for pool in pair for queries in (copies, nulls)]
        detections = corrected_pools(*pool_queries, specificity=job.options.specificity, seed=seed)
        for pool, detection in zip(pair, detections, strict=True):
            by_pool[pool] = replace(detection, name=f"{pool} copies -> {pool}")
    return {pool: _pool(by_pool[pool], copies[pool], nulls[pool], seed) for pool in POOLS}


def _pool(detection: PoolDetection, copies: Queries, null: Queries, seed: int) -> PoolReading:
    distance, group = np.asarray(null.distance), np.asarray(null.group)
    _, other = null_halves(null, seed)
    smallest = group_values(distance[other], group[other]) if other.any() else np.empty(0)
    return PoolReading(
        detection=detection,
        recognised=detection.threshold.flags(copies.distance),
        nearest_is_source=np.asarray(copies.right, dtype=bool),
        flagged=detection.threshold.flags(smallest),
        source=np.asarray(copies.group),
    )


def _copies(parts: Parts, pool: str, strength: str, arrays: Arrays) -> Queries:
    """Read copies of a pool's references; an image that equals the source pixel for pixel counts as its source."""
    rows = parts.pools[pool]
    right = parts.same_image(arrays[f"{strength}_{pool}_index"], rows)
    return Queries(arrays[f"{strength}_{pool}_distance"], _ids(parts, rows), len(rows), right)


def _published(job: CellJob, strength: str, arrays: Arrays) -> PublishedReading:
    parts, copies = job.division, []
    for pool in PUBLISHED_POOLS:
        rows = parts.rows(pool)
        right = parts.same_image(arrays[f"published_{strength}_{pool}_index"], rows)
        score = arrays[f"published_{strength}_{pool}_score"]
        copies.append(Queries(score, _ids(parts, rows), len(rows), right))
    baseline = Queries(arrays["published_baseline"], _ids(parts, parts.rows("train")), len(parts.rows("validation")))
    train, validation = copies
    pools = published_pools(train, validation, baseline, percent=job.options.percent, seed=job.options.split_seed)
    detections: dict[str, PoolDetection] = dict(zip(PUBLISHED_POOLS, pools, strict=True))
    new = _ids(parts, parts.rows("null", "test_null"))
    flags = {p: false_flags(arrays[f"published_null_{p}"], new, detections[p].threshold) for p in detections}
    return PublishedReading(detections, flags)


def _ids(parts: Parts, rows: np.ndarray) -> np.ndarray:
    return parts.groups[rows].astype(str)


HitSelector = Callable[[PoolReading], Hits]
"""Function that selects what is counted of a pool's copies."""


@dataclass(frozen=True, eq=False)
class Detector:
    """A backbone with a loss, trained or not: one or several cells that differ in their seed.

    Attributes:
        backbone: Backbone with its weights.
        loss: "none", "triplet" or "infonce".
        measured: Measurements of its finished cells, all measures at all strengths.
        seed: Random seed of the copy that is drawn from each patient for the intervals.
    """

    backbone: Backbone
    loss: str
    measured: Sequence[Measurement]
    seed: int

    @property
    def name(self) -> str:
        """Name the backbone and the loss."""
        return self.backbone.detector(self.loss)

    @cached_property
    def n_seeds(self) -> int:
        """Count the finished cells."""
        return len({m.job.cell.seed for m in self.measured})

    @cached_property
    def _by(self) -> dict[tuple[str, str], list[Measurement]]:
        by_measure: dict[tuple[str, str], list[Measurement]] = {}
        for m in self.measured:
            by_measure.setdefault((m.measure, m.strength), []).append(m)
        return by_measure

    def of(self, measure: str, strength: str) -> list[Measurement]:
        """Return a measure at a strength, one reading per seed."""
        return self._by.get((measure, strength), [])

    def measures(self, strength: str) -> list[str]:
        """Return the measures that are defined for every seed."""
        measures = dict.fromkeys(m for m, s in self._by if s == strength)
        return [m for m in measures if all(one.pools for one in self.of(m, strength))]

    def hits(self, measure: str, strength: str, pool: str, pick: HitSelector = lambda p: p.detected) -> Hits:
        """Return what is counted of each copy, [S, n], one row per seed."""
        return np.stack([pick(m.pools[pool]) for m in self.of(measure, strength)])

    def share(self, measure: str, strength: str, pool: str) -> float:
        """Compute the share of the pool's copies that are detected, seeds averaged."""
        return float(self.hits(measure, strength, pool).mean())

    def tied(self, strength: str) -> list[str]:
        """Return the measures that detect most copies of validation patients: one, or several that detect as many."""
        shares = {m: self.share(m, strength, "validation") for m in self.measures(strength)}
        return [m for m, value in shares.items() if value == max(shares.values())]

    def chosen(self, strength: str) -> str:
        """Return the first of `tied`; empty for none."""
        return next(iter(self.tied(strength)), "")

    def rate(self, measure: str, strength: str, pool: str, pick: HitSelector = lambda p: p.detected) -> Proportion:
        """Estimate the rate for a random copy of a random patient at a random seed; the units are patients."""
        hits = self.hits(measure, strength, pool, pick)
        source = np.tile(self.of(measure, strength)[0].pools[pool].source, len(hits))
        drawn = one_per_group(source, seed=self.seed)
        return clopper_pearson(int(hits.ravel()[drawn].sum()), len(drawn))

    def false_flags(self, measure: str, strength: str, pool: str) -> Proportion:
        """Estimate the share of patients without an image in the pool who are flagged, at a random seed each."""
        flagged = np.stack([m.pools[pool].flagged for m in self.of(measure, strength)])
        if not flagged.size:
            return clopper_pearson(0, 0)
        drawn = one_per_group(np.tile(np.arange(flagged.shape[1]), len(flagged)), seed=self.seed)
        return clopper_pearson(int(flagged.ravel()[drawn].sum()), len(drawn))

    def published(self, measure: str, strength: str, pool: str) -> float:
        """Compute paper 003's detection ratio of a pool's copies, seeds averaged; NaN where it is not defined."""
        shares = [m.published.pools[pool].detection.share for m in self.of(measure, strength) if m.published]
        return float(np.mean(shares)) if shares and len(shares) == self.n_seeds else float("nan")

    def published_flags(self, measure: str, strength: str, pool: str) -> Proportion:
        """Estimate the share of new patients that the published threshold flags; of the first seed."""
        first = self.of(measure, strength)[0].published
        return clopper_pearson(0, 0) if first is None else first.new_patients[pool]

    def published_values(self, strength: str) -> dict[str, float]:
        """Return the published detection ratio of validation copies by measure, where it is defined."""
        measures = dict.fromkeys(m for m, s in self._by if s == strength)
        values = {m: self.published(m, strength, "validation") for m in measures}
        return {m: v for m, v in values.items() if np.isfinite(v)}


def detectors(measured: Sequence[Measurement], seed: int) -> list[Detector]:
    """Return the detectors of finished cells, in the order of the grid.

    Args:
        measured: Measurements of `read_cells`.
        seed: Random seed of the copies that are drawn for the intervals.
    """
    by_detector: dict[tuple[str, str], list[Measurement]] = {}
    for m in measured:
        by_detector.setdefault((m.job.cell.backbone.name, m.job.cell.loss), []).append(m)
    return [Detector(own[0].job.cell.backbone, own[0].job.cell.loss, own, seed) for own in by_detector.values()]
