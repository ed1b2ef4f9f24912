"""Memorization rate: how often a generated image is of the person it was conditioned on (paper 004, Eq. 4).

    MemRate = share of training images x_r with P(s(C(x_r)), x_r) > 0.5.

Images of one patient match or miss together, so that the units are identities: each counts the share of its images,
and the limits are Clopper-Pearson's for as many trials as identities. That is exact with one image each; of
several, whose shares vary less than coins, the limits are wider than need be. The same rate of held-out real images
in place of the synthetic ones is what the detector finds where no person is memorized; read MemRate together with it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.statistics.jackknife import JackknifeInterval, counting_bound


@dataclass(frozen=True)
class MemorizationRate:
    """MemRate over identities, with the paper's rate over images."""

    estimate: float
    """Mean over identities of the share of their pairs that match; NaN without pairs."""
    low: float
    """Lower limit; 0 where no pair matches."""
    high: float
    """Upper limit; 1 where all do."""
    share: float
    """Share of all pairs, as in the paper: identities with more images count more."""
    exposed: Proportion
    """Share of identities with at least one matching pair."""
    n_identities: int
    """Number of identities: the units of the interval."""
    n_pairs: int
    """Number of pairs."""
    level: float
    """Nominal coverage; the actual one is not below it."""


def memorization_rate(
    matches: ArrayLike, identity: ArrayLike | None = None, *, level: float = 0.95
) -> MemorizationRate:
    """Compute MemRate of pairs of a synthetic image with the training image that it was conditioned on.

    Args:
        matches: Whether the detector calls the pair the same identity (probability above 0.5), [n].
        identity: Identity of the training image, [n]; None: each image its own.
        level: Coverage of the interval.

    Raises:
        InputError: Lengths differ, or level outside (0, 1).

    Source:
        Paper 004, Eq. 4 and table 3; METHODS section 4, "Use".

    Example:
        >>> found = memorization_rate([True, True, False, False], ["a", "a", "a", "b"])
        >>> round(found.estimate, 3), found.share, found.exposed.successes, found.n_identities
        (0.333, 0.5, 1, 2)
    """
    hit = np.asarray(matches, dtype=bool)
    groups = np.arange(len(hit)) if identity is None else np.asarray(identity)
    if hit.ndim != 1 or groups.shape != hit.shape:
        raise InputError(f"matches {hit.shape} and identities {groups.shape} do not fit; give one of each per pair")
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    matched = np.bincount(index, hit, minlength=len(count))
    exposed = clopper_pearson(int((matched > 0).sum()), len(count), level)
    if not len(hit):
        return MemorizationRate(math.nan, 0.0, 1.0, math.nan, exposed, 0, 0, level)
    estimate = float((matched / count).mean())
    low, high = counting_bound(estimate, len(count), level)
    return MemorizationRate(estimate, low, high, float(hit.mean()), exposed, len(count), len(hit), level)


def rate_difference(synthetic: MemorizationRate, held_out: MemorizationRate) -> JackknifeInterval:
    """Compute MemRate less its value on held-out real images, over identities.

    ``low = d - sqrt((p - p_low)^2 + (q_high - q)^2)``, ``high`` in the same way: the limits of both, combined. Pairs of
    the
    same training images on both sides make the interval wider than need be.

    Args:
        synthetic: Rate of the synthetic images.
        held_out: Rate of held-out real images, by their own identities.

    Returns:
        Estimate and limits; NaN and the whole range where either has no pairs.

    Raises:
        InputError: The two have different levels.

    Source:
        Newcombe (1998), method 10, with exact limits; Zou and Donner (2008).
    """
    p, q = synthetic, held_out
    if not math.isclose(p.level, q.level):
        raise InputError(f"the rates' intervals are at {p.level} and {q.level}; use one level")
    n = p.n_identities + q.n_identities
    if not p.n_pairs or not q.n_pairs:
        return JackknifeInterval(math.nan, -1.0, 1.0, math.nan, n, 1, "not measurable: no pairs on one side")
    d = p.estimate - q.estimate
    low = d - math.hypot(p.estimate - p.low, q.high - q.estimate)
    high = d + math.hypot(p.high - p.estimate, q.estimate - q.low)
    method = f"Clopper-Pearson limits over {p.n_identities:,} and {q.n_identities:,} identities, combined"
    return JackknifeInterval(d, max(low, -1.0), min(high, 1.0), math.nan, n, 1, method)
