"""How strongly a model answers to a mark: KL divergences of its outputs, and the scores of paper 002.

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
"""A divergence below this is rounding: its logarithm is taken of this."""


@dataclass(frozen=True)
class PaperScore:
    """M as published."""

    m: float
    """Mean KL of the mark less mean KL of the random patches."""
    mean_mark: float
    """Mean KL(f(x_c) || f(x_u))."""
    mean_random: float
    """Mean KL(f(x_c) || f(x_r))."""
    p: float
    """One-tailed Welch t-test over probes; probes are no replicates of the model, so that this is no p-value of
    memorization."""
    n: int
    """Probes."""


@dataclass(frozen=True)
class WhiteBoxScore:
    """M_w as published."""

    m: float
    """Mean of log p(y | x_u) - log p(y | x_r)."""
    mean_mark: float
    """Mean p(y | x_u)."""
    mean_random: float
    """Mean p(y | x_r)."""
    n: int
    """Images of the label."""


def kl_divergence(clean: ArrayLike, marked: ArrayLike, *, clip: float = CLIP) -> FloatArray:
    """KL(f(x_c) || f(x_u)) of each probe: ``sum_k p_k log(p_k / q_k)``, both clipped to [clip, 1].

    Args:
        clean: [..., n, K] probabilities of the clean probes.
        marked: [..., n, K] of the marked ones; leading axes broadcast.
        clip: Least probability.

    Returns:
        [..., n] nats; after clipping rows no longer add to one, so that a value may be below 0 by about K x clip.

    Raises:
        InputError: Shapes differ, or a value is no probability.
    """
    p, q = np.asarray(clean, dtype=np.float64), np.asarray(marked, dtype=np.float64)
    if p.ndim < 2 or p.shape[-2:] != q.shape[-2:]:
        raise InputError(f"probabilities have shapes {p.shape} and {q.shape}; give [n, K] of the same probes")
    for array in (p, q):
        if array.size and not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1 + 1e-6):
            raise InputError("probabilities must lie between 0 and 1: give the outputs of a softmax")
    p, q = np.clip(p, clip, 1), np.clip(q, clip, 1)
    return np.sum(p * (np.log(p) - np.log(q)), axis=-1)


def mean_log_kl(divergences: ArrayLike, *, floor: float = FLOOR) -> FloatArray:
    """The statistic that is ranked: mean over probes of ``log max(KL, floor)``.

    Args:
        divergences: [..., n].
        floor: Least divergence.

    Returns:
        [...].
    """
    return np.log(np.maximum(np.asarray(divergences, dtype=np.float64), floor)).mean(axis=-1)


def paper_score(mark: ArrayLike, random: ArrayLike) -> PaperScore:
    """M as published: ``mean KL(mark) - mean KL(random)``, with its Welch t-test (paper 002, equation 1).

    Args:
        mark: [n] KL of the mark, by probe.
        random: [n] KL of a fresh random patch, by probe.

    Raises:
        InputError: Fewer than two probes, or shapes differ.
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


def white_box_score(mark: ArrayLike, random: ArrayLike, *, clip: float = CLIP) -> WhiteBoxScore:
    """M_w as published: ``mean of log p(y | x_u) - log p(y | x_r)`` over training images of the label (section 2.2).

    Args:
        mark: [n] probability of the label with the mark.
        random: [n] with a random patch.
        clip: Least probability.

    Raises:
        InputError: Shapes differ or there is no image.
    """
    u, r = np.asarray(mark, dtype=np.float64), np.asarray(random, dtype=np.float64)
    if u.ndim != 1 or u.shape != r.shape or not len(u):
        raise InputError(f"probabilities have shapes {u.shape} and {r.shape}; give [n] each, n at least 1")
    m = np.log(np.clip(u, clip, 1)) - np.log(np.clip(r, clip, 1))
    return WhiteBoxScore(float(m.mean()), float(u.mean()), float(r.mean()), len(u))
