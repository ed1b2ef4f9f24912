"""Strength of a model's answer to a mark: KL divergences of its outputs, and the scores of paper 002.

Paper 002, sections 2.2 (white box) and 2.3 (black box); METHODS section 2. Probabilities in, numbers out.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]

CLIP = 1e-7
"""Probabilities are clipped to [CLIP, 1] (METHODS section 2, "Paper form")."""
FLOOR = 1e-12
"""Least divergence: smaller values are rounding, and their logarithm is that of this."""
SAME = 1e-3
"""Largest difference of two models that rounding explains, as a share of the roots of their divergences.

A change of e in logits changes the root of a divergence by about e at most. Single precision changes logits by less
than 1e-5, and a mark to which a model reacts has roots of 0.01 and more: rounding gives shares up to 1e-3. Models of
their own differ by more: of 1,000 simulated sets of 40, each with one probe, one control and two classes, the closest
pair of all has 4e-3, with 20 probes 0.13."""


@dataclass(frozen=True)
class PaperScore:
    """Score M of a mark as published."""

    m: float
    """Mean KL of the mark less mean KL of the random patches."""
    mean_mark: float
    """Mean KL(f(x_c) || f(x_u))."""
    mean_random: float
    """Mean KL(f(x_c) || f(x_r))."""
    p: float
    """One-tailed Welch t-test over probes. Probes are not replicates of the model, so that this is not a p-value of
    memorization."""
    n: int
    """Number of probes."""


@dataclass(frozen=True)
class WhiteBoxScore:
    """Score M_w of a mark as published."""

    m: float
    """Mean of log p(y | x_u) - log p(y | x_r)."""
    mean_mark: float
    """Mean p(y | x_u)."""
    mean_random: float
    """Mean p(y | x_r)."""
    n: int
    """Number of images of the label."""


def kl_divergence(clean: ArrayLike, marked: ArrayLike) -> FloatArray:
    """Compute KL(f(x_c) || f(x_u)) of each probe: ``sum_k p_k log(p_k / q_k)``, both clipped to [`CLIP`, 1].

    Args:
        clean: Probabilities of the clean probes, [..., n, K].
        marked: Probabilities of the marked probes, [..., n, K]; leading axes broadcast.

    Returns:
        Divergences [..., n] in nats. Clipped rows do not add to one, so a value may be below 0 by about K x `CLIP`.

    Raises:
        InputError: Shapes differ, or a value is not a probability.

    Example:
        >>> kl_divergence([[0.5, 0.5]], [[0.25, 0.75]]).round(4).tolist()
        [0.1438]
    """
    p, q = np.asarray(clean, dtype=np.float64), np.asarray(marked, dtype=np.float64)
    if p.ndim < 2 or p.shape[-2:] != q.shape[-2:]:
        raise InputError(f"probabilities have shapes {p.shape} and {q.shape}; give [n, K] of the same probes")
    for array in (p, q):
        if array.size and not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1 + 1e-6):
            raise InputError("probabilities must lie between 0 and 1: give the outputs of a softmax")
    p, q = np.clip(p, CLIP, 1), np.clip(q, CLIP, 1)
    return np.sum(p * (np.log(p) - np.log(q)), axis=-1)


def mean_log_kl(divergences: ArrayLike, *, floor: float = FLOOR) -> FloatArray:
    """Compute the statistic that is ranked: mean over probes of ``log max(KL, floor)``.

    Args:
        divergences: Divergences of the probes in nats, [..., n].
        floor: Least divergence that is used, in nats.

    Returns:
        Means over the probes, [...].

    Example:
        >>> round(float(mean_log_kl([1.0, 1.0])), 4)
        0.0
    """
    return np.log(np.maximum(np.asarray(divergences, dtype=np.float64), floor)).mean(axis=-1)


def paper_score(mark: ArrayLike, random: ArrayLike) -> PaperScore:
    """Compute M as published: ``mean KL(mark) - mean KL(random)``, with its Welch t-test (paper 002, equation 1).

    Args:
        mark: KL of the mark in nats, by probe, [n].
        random: KL of a fresh random patch in nats, by probe, [n].

    Raises:
        InputError: Fewer than two probes, or shapes differ.

    Example:
        >>> round(paper_score([0.2, 0.4, 0.3], [0.1, 0.1, 0.2]).m, 4)
        0.1667
    """
    u, r = np.asarray(mark, dtype=np.float64), np.asarray(random, dtype=np.float64)
    if u.ndim != 1 or u.shape != r.shape or len(u) < 2:
        raise InputError(f"divergences have shapes {u.shape} and {r.shape}; give [n] each, n at least 2")
    if np.ptp(u) == 0 and np.ptp(r) == 0:
        p = 1.0 if u[0] <= r[0] else 0.0
    else:
        _, welch = np.asarray(scipy.stats.ttest_ind(u, r, equal_var=False, alternative="greater"), dtype=np.float64)
        p = float(welch)
    return PaperScore(float(u.mean() - r.mean()), float(u.mean()), float(r.mean()), p, len(u))


def white_box_score(mark: ArrayLike, random: ArrayLike) -> WhiteBoxScore:
    """Compute M_w as published (section 2.2).

    M_w is the ``mean of log p(y | x_u) - log p(y | x_r)`` over training images of the label.

    Args:
        mark: Probability of the label with the mark, [n].
        random: Probability of the label with a random patch, [n].

    Raises:
        InputError: Shapes differ or the arrays are empty.

    Example:
        >>> round(white_box_score([0.9, 0.8], [0.6, 0.7]).m, 4)
        0.2695
    """
    u, r = np.asarray(mark, dtype=np.float64), np.asarray(random, dtype=np.float64)
    if u.ndim != 1 or u.shape != r.shape or not len(u):
        raise InputError(f"probabilities have shapes {u.shape} and {r.shape}; give [n] each, n at least 1")
    m = np.log(np.clip(u, CLIP, 1)) - np.log(np.clip(r, CLIP, 1))
    return WhiteBoxScore(float(m.mean()), float(u.mean()), float(r.mean()), len(u))
