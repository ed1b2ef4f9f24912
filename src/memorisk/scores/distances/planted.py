"""Does a measure find copies? Planted ones must be at rank 1: a test of its direction, its domain and its fit."""

import numpy as np

from memorisk.scores.distances.fitted import BINARY, POSITIVE
from memorisk.scores.distances.fitting import fit_measure
from memorisk.scores.distances.neighbours import nearest
from memorisk.scores.distances.registry import find_measure


def finds_copies(name: str, *, seed: int = 0) -> bool:
    """Whether every exact copy and every slightly changed copy has its source as the nearest reference.

    200 references of 64 columns, the first 50 copied, once as they are and once with noise of a hundredth of their
    spread; an exact copy must be at distance 0 too.

    Args:
        name: One of ``registry.MEASURES``.
        seed: Of the numbers.

    Raises:
        InputError: There is no such measure.
    """
    find_measure(name)
    rng = np.random.default_rng(seed)
    references = rng.normal(size=(200, 64))
    noise = 0.01 * rng.normal(size=(50, 64))
    measure = fit_measure(
        name,
        references,
        domain="shift" if name in POSITIVE else None,
        binarise="median" if name in BINARY else None,
    )
    exact = nearest(references[:50], references, measure)
    changed = nearest(references[:50] + noise, references, measure)
    sources = np.arange(50)
    found = (exact.indices[:, 0] == sources).all() and (changed.indices[:, 0] == sources).all()
    return bool(found and (exact.distances == 0).all())
