"""From distances to what is recognised: the corrected pools and the published ones of every cell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.copy_detection import (
    PoolDetection,
    Queries,
    corrected_pools,
    false_flags,
    null_halves,
    published_pools,
)
from memorisk.statistics.proportions import Proportion
from memorisk.studies.detectors.cells import CellJob
from memorisk.studies.detectors.measuring import PUBLISHED_POOLS
from memorisk.studies.detectors.parts import NULLS, POOLS, Parts
from memorisk.studies.unique_features.results import Arrays, read_result

Hits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PoolReading:
    """One pool by one measure at one strength, corrected.

    Attributes:
        found: Threshold, shares and false flags.
        recognised: [n] each copy: at most as far as the threshold from some reference.
        nearest_is_source: [n] whether the nearest reference is the copy's source.
        flagged: [k] patients of the null that did not make the threshold: whether an image of theirs is flagged.
        source: [n] patient of each copy's source.
    """

    found: PoolDetection
    recognised: Hits
    nearest_is_source: Hits
    flagged: Hits
    source: np.ndarray

    @property
    def detected(self) -> Hits:
        """[n] recognised, and as what it is a copy of: what counts."""
        return self.recognised & self.nearest_is_source


@dataclass(frozen=True, eq=False)
class PublishedReading:
    """The published rules at one measure and strength.

    Attributes:
        pools: Detection ratios of train and validation copies, and tau.
        new_patients: By pool, the share of patients without any image there who are flagged at tau.
    """

    pools: dict[str, PoolDetection]
    new_patients: dict[str, Proportion]


@dataclass(frozen=True, eq=False)
class Measured:
    """One cell by one measure at one strength.

    Attributes:
        job: The cell.
        measure: Name.
        strength: "weak" or "strong".
        words: The fitted measure in words, or why it is not defined here.
        pools: Corrected, by pool; empty where the measure is not defined.
        published: None where it is not defined.
        published_refused: Why not.
    """

    job: CellJob
    measure: str
    strength: str
    words: str
    pools: dict[str, PoolReading]
    published: PublishedReading | None
    published_refused: str = ""


def read_cells(jobs: Sequence[CellJob]) -> list[Measured]:
    """Everything that finished cells measured, in their order."""
    found = []
    for job in jobs:
        if not job.done:
            continue
        for measure in job.options.chosen_measures:
            arrays = read_result(job.file(measure))
            found += [_measured(job, measure, strength, arrays) for strength in job.options.strengths]
    return found


def _measured(job: CellJob, measure: str, strength: str, arrays: Arrays) -> Measured:
    refused = str(arrays["refused"]) if "refused" in arrays else ""
    published = None if "published_refused" in arrays else _published(job, strength, arrays)
    return Measured(
        job=job,
        measure=measure,
        strength=strength,
        words=refused or str(arrays["words"]),
        pools={} if refused else _corrected(job, strength, arrays),
        published=published,
        published_refused=str(arrays.get("published_refused", "")),
    )


def _corrected(job: CellJob, strength: str, arrays: Arrays) -> dict[str, PoolReading]:
    """Train, validation and test pool, each with its own null."""
    parts, seed = job.parts, job.options.split_seed
    copies = {pool: _copies(parts, pool, strength, arrays) for pool in POOLS}
    nulls = {
        pool: Queries(arrays[f"null_{pool}"], _ids(parts, parts.rows(NULLS[pool])), len(parts.pools[pool]))
        for pool in POOLS
    }
    found = {}
    for pair in (("train", "validation"), ("validation", "test")):
        given = [queries[pool] for pool in pair for queries in (copies, nulls)]
        detections = corrected_pools(*given, specificity=job.options.specificity, seed=seed)
        for pool, detection in zip(pair, detections, strict=True):
            found[pool] = replace(detection, name=f"{pool} copies -> {pool}")
    return {pool: _pool(found[pool], copies[pool], nulls[pool], seed) for pool in POOLS}


def _pool(found: PoolDetection, copies: Queries, null: Queries, seed: int) -> PoolReading:
    distance, group = np.asarray(null.distance), np.asarray(null.group)
    _, other = null_halves(null, seed)
    smallest = group_values(distance[other], group[other]) if other.any() else np.empty(0)
    return PoolReading(
        found=found,
        recognised=found.threshold.flags(copies.distance),
        nearest_is_source=np.asarray(copies.right, dtype=bool),
        flagged=found.threshold.flags(smallest),
        source=np.asarray(copies.group),
    )


def _copies(parts: Parts, pool: str, strength: str, arrays: Arrays) -> Queries:
    """Copies of a pool's references; an image that is the source's twin, pixel for pixel, is its source."""
    rows = parts.pools[pool]
    right = parts.same_image(arrays[f"{strength}_{pool}_index"], rows)
    return Queries(arrays[f"{strength}_{pool}_distance"], _ids(parts, rows), len(rows), right)


def _published(job: CellJob, strength: str, arrays: Arrays) -> PublishedReading:
    parts, copies = job.parts, []
    for pool in PUBLISHED_POOLS:
        rows = parts.rows(pool)
        right = parts.same_image(arrays[f"published_{strength}_{pool}_index"], rows)
        score = arrays[f"published_{strength}_{pool}_score"]
        copies.append(Queries(score, _ids(parts, rows), len(rows), right))
    baseline = Queries(arrays["published_baseline"], _ids(parts, parts.rows("train")), len(parts.rows("validation")))
    train, validation = copies
    pools = published_pools(train, validation, baseline, percent=job.options.percent, seed=job.options.split_seed)
    named: dict[str, PoolDetection] = dict(zip(PUBLISHED_POOLS, pools, strict=True))
    new = _ids(parts, parts.rows("null", "test_null"))
    flags = {p: false_flags(arrays[f"published_null_{p}"], new, named[p].threshold) for p in named}
    return PublishedReading(named, flags)


def _ids(parts: Parts, rows: np.ndarray) -> np.ndarray:
    return parts.groups[rows].astype(str)
