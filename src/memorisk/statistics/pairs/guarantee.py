"""Guarantee: a score above which no more than a stated share of copies is missed (METHODS section 4).

    k = max{k : P(Bin(n, alpha) <= k) <= delta / D},  tau = the (k + 1)-th smallest of n scores,

one score per identity: of *one random positive pair* of each. A pair is rejected where its score is at least tau; a
miss is a score below. Scores of all pairs are not independent: with pairs as units the promise fails several times
as often as stated, and a plain quantile fails in half of all calibrations
(``docs/results/guarantee_simulation.md``).

Of D detectors (or families of copies) whose thresholds come from the same identities each gets delta / D, so that
the promise holds for whichever is chosen afterwards, by whatever rule, on whatever data (Bonferroni). D counts all
that were looked at, not the chosen one.

The identities must be new to the detector: none in its training, none in the choice of its epoch or settings.

Do not leave out identities for looking like others: people who look alike are recognised alike, so that the others are
not a random sample. On structured images (a round field on black) that broke up to 85 % of calibrations
(``docs/results/guarantee_images.md``). `both_readings` counts them both ways instead.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError, plural
from memorisk.statistics.copies.calibration import identities_needed, misses_allowed, one_per_group


@dataclass(frozen=True)
class MissGuarantee:
    """Threshold on the score of a pair, larger = more alike, with the promise of rejecting from it on."""

    threshold: float
    """Threshold tau; a pair is rejected where its score is at least this. -inf, which rejects every pair and promises
    nothing, with too few identities."""
    n_identities: int
    """Number n of independent units, one pair each."""
    misses_allowed: int
    """Number k of misses allowed; -1 with too few identities."""
    needed: int
    """Least n with a promise: ln(delta / D) / ln(1 - alpha)."""
    miss_rate: float
    """Largest share alpha of copies that may be missed."""
    confidence: float
    """Share 1 - delta of calibrations in which that holds, for all D at once."""
    detectors: int
    """Number D of detectors or families whose thresholds come from these identities."""

    @property
    def kept(self) -> bool:
        """Return whether there were enough identities for a promise."""
        return self.misses_allowed >= 0

    @property
    def missing(self) -> int:
        """Return how many identities are missing for a guarantee."""
        return max(self.needed - self.n_identities, 0)

    def words(self, families: str) -> str:
        """State the promise as reports do, or how many identities are missing for it.

        Args:
            families: Kinds of the calibration's copies, such as "rotation, blur and JPEG"; or other positive pairs, as
                in "a
                new photograph of the same patient".
        """
        target = f"a miss rate of at most {_percent(self.miss_rate)} with {_percent(self.confidence)} confidence"
        shared = f", shared by {self.detectors} detectors or families" if self.detectors > 1 else ""
        if not self.kept:
            return (
                f"No guarantee: {target}{shared} needs {plural(self.needed, 'identity', 'identities')} that the "
                f"detector has not seen; there are {self.n_identities:,}, so {self.missing:,} are missing."
            )
        return (
            f"For a random copy, made by {families}, of a random new identity: {target}{shared} "
            f"(from {self.n_identities:,} identities, one random pair each; {self.misses_allowed:,} of them may be "
            "missed). Copies that a generator makes are another distribution, of which this promises nothing."
        )


def miss_guarantee(
    score: ArrayLike, *, miss_rate: float = 0.05, confidence: float = 0.95, detectors: int = 1
) -> MissGuarantee:
    """Find the largest threshold that misses at most ``miss_rate`` of new copies in ``confidence`` of calibrations.

    Conditional on the calibration the true miss rate is stochastically below ``Beta(k + 1, n - k)``, equal to it for
    continuous scores, whence ``P(miss rate > alpha) <= P(Bin(n, alpha) <= k) <= delta / D``. Ties are rejected.

    Args:
        score: Score of one random positive pair of each identity, [n] (`identity_pairs.one_positive_each`, or
            `calibration.one_per_group` over augmented copies); larger = more alike.
        miss_rate: Largest share alpha of copies that may be missed, in (0, 1).
        confidence: Confidence 1 - delta, in (0, 1).
        detectors: Number D of detectors or families given a threshold on these identities, the unused included.

    Returns:
        Threshold; -inf with ``kept`` False where there are fewer identities than ``needed``.

    Raises:
        InputError: A score that is not finite, a level outside (0, 1), or ``detectors`` below 1.

    Source:
        Wilks (1941); METHODS section 4, "Guarantee".

    Example:
        >>> found = miss_guarantee([0.2, 0.9, 0.8, 0.7], miss_rate=0.1)
        >>> found.kept, found.needed, found.missing
        (False, 29, 25)
    """
    values = np.asarray(score, dtype=np.float64)
    if values.ndim != 1:
        raise InputError(f"scores have shape {values.shape}; give one per identity")
    if not np.isfinite(values).all():
        raise InputError(
            f"{int((~np.isfinite(values)).sum())} of {len(values)} scores are not finite; leave these identities out"
        )
    if detectors < 1:
        raise InputError(f"detectors is {detectors}; give how many share the confidence, 1 or more")
    if not 0 < confidence < 1 or not 0 < miss_rate < 1:
        raise InputError(
            f"miss rate {miss_rate} and confidence {confidence} must lie between 0 and 1, as 0.05 and 0.95"
        )
    each = 1 - (1 - confidence) / detectors
    k = misses_allowed(len(values), miss_rate, each)
    return MissGuarantee(
        threshold=float(np.partition(values, k)[k]) if k >= 0 else -math.inf,
        n_identities=len(values),
        misses_allowed=k,
        needed=identities_needed(1 - miss_rate, each),
        miss_rate=miss_rate,
        confidence=confidence,
        detectors=detectors,
    )


@dataclass(frozen=True)
class Readings:
    """Thresholds under two readings of the identities, and the one that keeps the promise under either."""

    given: MissGuarantee
    """Guarantee for identities as they are given."""
    merged: MissGuarantee
    """Guarantee if look-alikes are one person, and an identity that looks like a known one is not new."""

    @property
    def cautious(self) -> MissGuarantee:
        """Lower threshold, hence none where one reading has too few identities; of equal ones, that of fewer."""
        return min(self.given, self.merged, key=lambda reading: (reading.threshold, reading.n_identities))


def both_readings(
    score: ArrayLike,
    unit: ArrayLike,
    *,
    seed: int = 0,
    miss_rate: float = 0.05,
    confidence: float = 0.95,
    detectors: int = 1,
) -> Readings:
    """Apply `miss_guarantee` to the identities as given, and to one random identity of each unit.

    The lower of two thresholds misses no more than either, so that whichever reading is true, ``P(miss rate > alpha)
    <= delta / D`` as for that reading alone.

    Args:
        score: Score of one random positive pair of each identity as given, [n]; larger = more alike.
        unit: Unit of each identity if look-alikes are one person, [n] whole numbers; -1: not a new person.
        seed: Seed of the identity that represents a unit.
        miss_rate: Largest share alpha of copies that may be missed.
        confidence: Confidence 1 - delta.
        detectors: Number D of detectors or families.

    Raises:
        InputError: As `miss_guarantee`, or lengths that differ.
    """
    values, units = np.asarray(score, dtype=np.float64), np.asarray(unit)
    if values.shape != units.shape:
        raise InputError(f"scores have shape {values.shape} and units {units.shape}; give one of each per identity")
    counted = np.flatnonzero(units >= 0)
    one_each = counted[one_per_group(units[counted], seed=seed)]
    as_given, merged = (
        miss_guarantee(each, miss_rate=miss_rate, confidence=confidence, detectors=detectors)
        for each in (values, values[one_each])
    )
    return Readings(as_given, merged)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
