"""Distances of every query to its nearest reference, by one measure: the corrected pools and the published ones.

What is written is a file a measure with named arrays, float64 and int64; ``S`` is a strength of augmentation:

=====================================  ================================================================================
``null_POOL``                          [n] images of the pool's null asked among its references
``S_POOL_distance``, ``S_POOL_index``  [n] copies of the pool's references asked among these; row of the nearest
``published_baseline``                 [n] training images asked among all validation images
``published_null_POOL``                [n] images of both nulls asked among all of the train or validation part
``published_S_POOL_score``, ``_index``  [n] copies of the whole part asked among it
``words``                              the fitted measure in words
``refused``, ``published_refused``     why a form is not there, in place of its arrays
=====================================  ================================================================================
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.runs.scratch import scratch_array
from memorisk.scores.distances import FittedMeasure, fit_measure, nearest
from memorisk.scores.distances.fitted import BINARY, POSITIVE
from memorisk.scores.distances.published import published_neighbours
from memorisk.scores.distances.rows import rows_per_block
from memorisk.studies.detectors.parts import NULLS, POOLS, Parts
from memorisk.studies.unique_features.results import Arrays

PUBLISHED_POOLS = ("train", "validation")


def measure_pools(
    name: str,
    features: np.ndarray,
    copies: Mapping[str, np.ndarray],
    parts: Parts,
    *,
    domain: str,
    threads: int,
    device: str = "cpu",
) -> Arrays:
    """All distances by one measure.

    Args:
        name: Of the measure.
        features: [N, d] of all images.
        copies: [n, d] of the copies of ``parts.copied``, by strength.
        parts: The division.
        domain: "shift", "softplus" or "signed": how the corrected form meets signed features where a measure is
            defined for non-negative ones.
        threads: Of the computation.
        device: Where; distances are the same anywhere.

    Returns:
        The arrays of the table above; a form that is not defined for these features says why in its place.
    """
    how: dict[str, Any] = {"threads": threads, "device": device}
    try:
        measure = fit_corrected(name, taken(features, parts.rows("train")), domain=domain)
        found = _corrected(measure, features, copies, parts, how) | {"words": np.array(measure.plain_words)}
    except InputError as error:
        found = {"refused": np.array(str(error))}
    try:
        found |= _published(name, features, copies, parts, how)
    except InputError as error:
        found["published_refused"] = np.array(str(error))
    return found


def fit_corrected(name: str, references: np.ndarray, *, domain: str) -> FittedMeasure:
    """A measure as METHODS section 3 wants it: fitted once, frozen, its domain met, dice and matching binarised.

    Args:
        name: Of the measure.
        references: [n, d] features of the training images.
        domain: Used where the measure is for non-negative data and a reference is not.

    Raises:
        InputError: The measure does not take the references.
    """
    signed = name in POSITIVE and bool((np.asarray(references) < 0).any())
    return fit_measure(
        name, references, domain=domain if signed else None, binarise="median" if name in BINARY else None
    )


def _corrected(
    measure: FittedMeasure, features: np.ndarray, copies: Mapping[str, np.ndarray], parts: Parts, how: dict[str, Any]
) -> Arrays:
    """As many references in each pool, each with its own null, one frozen measure."""
    found: Arrays = {}
    for pool in POOLS:
        rows = parts.pools[pool]
        references = taken(features, rows)
        null = nearest(taken(features, parts.rows(NULLS[pool])), references, measure, **how)
        found[f"null_{pool}"] = null.distances[:, 0]
        for strength, values in copies.items():
            asked = nearest(taken(values, _of(parts, rows)), references, measure, **how)
            found[f"{strength}_{pool}_distance"] = asked.distances[:, 0]
            found[f"{strength}_{pool}_index"] = rows[asked.indices[:, 0]]
    return found


def _published(
    name: str, features: np.ndarray, copies: Mapping[str, np.ndarray], parts: Parts, how: dict[str, Any]
) -> Arrays:
    """All images of the train and validation parts, the measure fitted anew in every call."""
    found: Arrays = {}
    rows = {pool: parts.rows(pool) for pool in PUBLISHED_POOLS}
    null = taken(features, parts.rows("null", "test_null"))
    both = [taken(features, rows[pool]) for pool in ("train", "validation")]
    asked = published_neighbours(name, *both, **how)
    found["published_baseline"] = asked.scores
    for pool in PUBLISHED_POOLS:
        references = taken(features, rows[pool])
        found[f"published_null_{pool}"] = published_neighbours(name, null, references, **how).scores
        for strength, values in copies.items():
            asked = published_neighbours(name, taken(values, _of(parts, rows[pool])), references, **how)
            found[f"published_{strength}_{pool}_score"] = asked.scores
            found[f"published_{strength}_{pool}_index"] = rows[pool][asked.indices]
    return found


def taken(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of a table, on a file without a name where they are many, copied a few at a time."""
    found = scratch_array((len(rows), values.shape[1]), values.dtype)
    step = rows_per_block(values.shape[1])
    for first in range(0, len(rows), step):
        found[first : first + step] = values[rows[first : first + step]]
    return found


def _of(parts: Parts, rows: np.ndarray) -> np.ndarray:
    """Places of images among those of which copies were made."""
    return np.searchsorted(parts.copied, rows)
