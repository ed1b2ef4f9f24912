"""Attack AUC of single patients over many models: who is found almost surely, where attacks on average guess.

A patient was in the training data of one model of each pair of twins. Over S pairs, with mid-ranks of the patient's 2S
losses,

    AUC = mean over s, t of [loss_seen,s < loss_unseen,t] + 1/2 [equal]
        = (sum of ranks of unseen - S (S + 1) / 2) / S^2.

Null: a coin of its own decides in each pair which twin saw the patient, so that the two losses of a pair may be
exchanged. AUC is linear in the ranks, and all 2^S exchanges are one matrix product: p is exact, and the mean share of
patients with an AUC of at least a under the exchanges is the curve that chance gives.

Interval: over all shifts k, AUC is the mean of S-term means of [loss_seen,s < loss_unseen,s+k], each a binomial share
where trainings are independent. A mean of binomial shares has no larger exponential moments than one of them, so that
Chernoff's bound holds: the limits are the probabilities q with S kl(AUC || q) = log(2 / level). For all patients
together the level is divided by their number; the worst patient's interval then covers though that patient was
selected.

Source: METHODS section 8; Knolle and others (Nature, 2026) plot the share of patients by AUC over 200 models, without
the curve of chance and without limits.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.randomization.sign_flips import flip_blocks, plan_flips

FloatArray = NDArray[np.float64]

MAX_FLIPS = 4096
"""Number of exchanges up to which all are computed: those of 12 pairs."""
SURE_AUC = 0.9
"""AUC from which texts count patients as found almost surely."""


@dataclass(frozen=True)
class PatientAucs:
    """Attack AUC of each of G patients."""

    auc: FloatArray
    """AUC, [G]; NaN for patients who were not scored in every pair of a common number."""
    p: FloatArray
    """One-sided p that training does not lower the patient's loss, [G]."""
    low: FloatArray
    """Lower limit at the level of all patients together, [G]."""
    high: FloatArray
    """Upper limit, [G]."""
    grid: FloatArray
    """Values of AUC, ascending, [A]."""
    share: FloatArray
    """Share of patients with an AUC of at least each value, [A]."""
    chance: FloatArray
    """The same under exchanges of the two losses of each pair, [A]."""

    @property
    def worst(self) -> int:
        """Index of the patient with the largest AUC, the smallest p first; -1 without any."""
        if np.isnan(self.auc).all():
            return -1
        order = np.lexsort((self.p, -np.nan_to_num(self.auc, nan=-1.0)))
        return int(order[0])


def patient_aucs(seen: ArrayLike, unseen: ArrayLike, *, level: float = 0.95, seed: int = 0) -> PatientAucs:
    """Compute the AUC of each patient, with its exact null and limits that hold for all patients together.

    Args:
        seen: Mean loss of each patient's images under the model of each pair that saw them, in nats, [S, G]; NaN
            where the patient was not scored.
        unseen: The same under the model that did not, [S, G].
        level: Coverage of all intervals together.
        seed: Seed of the exchanges where more than `MAX_FLIPS` are possible.

    Raises:
        InputError: Shapes differ, or the level is not between 0 and 1.

    Example:
        >>> scores = patient_aucs([[0.1, 0.5], [0.2, 0.4], [0.1, 0.6]], [[1.0, 0.4], [1.2, 0.5], [0.9, 0.5]])
        >>> scores.auc.round(2).tolist(), scores.p.tolist()
        ([1.0, 0.39], [0.125, 0.75])
    """
    inside, outside = np.asarray(seen, dtype=np.float64), np.asarray(unseen, dtype=np.float64)
    if inside.ndim != 2 or inside.shape != outside.shape:
        raise InputError(f"losses have shapes {inside.shape} and {outside.shape}; give [pairs, patients] of each")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a coverage between 0 and 1, such as 0.95")
    scored = np.isfinite(inside) & np.isfinite(outside)
    n_pairs = scored.sum(axis=0)
    most = int(n_pairs.max(initial=0))
    usable = (n_pairs == most) & (n_pairs > 0)
    auc, p, low, high = np.full((4, inside.shape[1]), np.nan)
    n = int(usable.sum())
    grid = np.arange(2 * most * most + 1) / max(2 * most * most, 1)
    if not n:
        return PatientAucs(auc, p, low, high, grid, np.zeros(len(grid)), np.zeros(len(grid)))
    # All pairs of a patient, in the order of seeds, whichever they are.
    order = np.argsort(~scored[:, usable], axis=0, kind="stable")[:most]
    inside, outside = (np.take_along_axis(x[:, usable], order, axis=0) for x in (inside, outside))
    ranks = scipy.stats.rankdata(np.concatenate([inside, outside]), axis=0)
    half = (ranks[most:] - ranks[:most]) / 2
    # Twice S^2 AUC is a whole number: 2 S^2 AUC = sum of signs x (rank difference) + S^2, exact in floating point.
    own = half.sum(axis=0)
    at_least, counts, n_flips = np.zeros(n), np.zeros(len(grid)), 0
    flips, exact = plan_flips(most, n, MAX_FLIPS * n, seed)
    for signs in flip_blocks(most, flips, exact, seed, width=n):
        sums = signs @ half
        at_least += (sums >= own - 1e-9).sum(axis=0)
        places = np.rint(2 * sums + most * most).astype(np.int64)
        counts += np.bincount(places.ravel(), minlength=len(grid))
        n_flips += len(signs)
    auc[usable] = 0.5 + own / most**2
    p[usable] = at_least / n_flips  # the identity is among the flips
    low[usable], high[usable] = binomial_mean_limits(auc[usable], most, 1 - (1 - level) / n)
    places = np.rint(2 * own + most * most).astype(np.int64)
    share = np.bincount(places, minlength=len(grid))[::-1].cumsum()[::-1] / n
    return PatientAucs(auc, p, low, high, grid, share, counts[::-1].cumsum()[::-1] / counts.sum())


def binomial_mean_limits(share: ArrayLike, n: int, level: float) -> tuple[FloatArray, FloatArray]:
    """Compute limits of the probability behind means of binomial shares of n draws each, by Chernoff's bound.

    The limits q solve ``n kl(share || q) = log(2 / (1 - level))`` with the relative entropy
    ``kl(a || q) = a log(a / q) + (1 - a) log((1 - a) / (1 - q))``; they hold for any mean of shares that depend on one
    another in any way.

    Args:
        share: Mean shares, [k].
        n: Number of draws of each share.
        level: Coverage.

    Example:
        >>> low, high = binomial_mean_limits([0.5, 1.0], 10, 0.95)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.139, 0.692], [0.861, 1.0])
    """
    a = np.asarray(share, dtype=np.float64)
    bound = np.log(2 / (1 - level)) / n

    def limit(of: FloatArray) -> FloatArray:
        """Bisect for the limit below each share."""
        low, high = np.zeros(len(of)), of.copy()
        for _ in range(60):
            middle = (low + high) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                entropy = scipy.special.rel_entr(of, middle) + scipy.special.rel_entr(1 - of, 1 - middle)
            outside = entropy > bound
            low, high = np.where(outside, middle, low), np.where(outside, high, middle)
        return low

    return limit(a), 1 - limit(1 - a)
