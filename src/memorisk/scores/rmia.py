"""RMIA, the robust membership-inference attack (Zarifzadeh et al. 2024): images ranked against a population.

``LR(x, z) = (p(x | target) / p(x)) / (p(z | target) / p(z))`` and ``score(x) = share of population images z with LR
>= gamma``, p the probability of the true label, ``p(.)`` its average over reference models. The program computes in
logarithms, and finds the share by a search in the sorted ratios of the population: O((N + Z) log Z), no N x Z array.
The score therefore takes at most Z + 1 values; more population images resolve lower false-positive rates.

The population must be non-members of the target and share no group with the images scored: ``split_population``.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name

FloatArray = NDArray[np.float64]

MODES = ("online", "offline")
LOG_FLOOR = float(np.log(np.finfo(np.float64).tiny))
"""Logarithm of the smallest probability above 0; a probability that has underflowed to 0 is read as this."""


def rmia_scores(
    p_target: ArrayLike,
    p_refs_in: ArrayLike | None,
    p_refs_out: ArrayLike,
    population_target: ArrayLike,
    population_refs: ArrayLike,
    *,
    gamma: float = 1.0,
    mode: str = "online",
    offline_a: float = 0.3,
    log: bool = False,
) -> FloatArray:
    """Score the membership of every image in the target's training set.

    Online, ``p(x) = (mean of p over IN references + mean over OUT references) / 2``; offline, with OUT references only,
    ``p(x) = ((1 + a) mean over OUT references + (1 - a)) / 2``. ``p(z)`` is the plain mean over the population's
    references online, and the same expression as ``p(x)`` offline.

    Args:
        p_target: Probability of the true label under the model attacked, [N]; NaN for images not to be scored.
        p_refs_in: Probability under references that saw the image, [R, N], NaN = not available. Not used offline.
        p_refs_out: Probability under references that did not see it, [R', N].
        population_target: Probability of the population's true labels under the model attacked, [Z].
        population_refs: Probability of these under references, [R'', Z]; OUT references when offline.
        gamma: Least ratio that counts, > 0. 1 is the released code's, 2 the paper's; the ranking of the images is
            the same but for ties, of which a large gamma makes more.
        mode: "online" or "offline".
        offline_a: Share of a reference's missing probability that is taken to be missing after training on x, too, in
            [0, 1] (1: training on x changes nothing). 0.3 is the authors' default.
        log: Whether the five arrays are log-probabilities (minus the cross-entropies), which cannot underflow.

    Returns:
        Scores, [N] in [0, 1], higher = more likely a member; NaN where the target or a needed side of references is not
        available.

    Raises:
        InputError: Unknown mode, shapes that differ, values that are not probabilities, an empty population, gamma <=
            0, or offline_a outside [0, 1].

    Example:
        >>> rmia_scores([0.9], [[0.8]], [[0.4]], [0.5, 0.5], [[0.4, 0.6]]).tolist()
        [1.0]
    """
    _check_options(mode, gamma, offline_a, p_refs_in)
    x = _log_probability(p_target, log, 1, "p_target")
    z = _log_probability(population_target, log, 1, "population_target")
    x_out = _log_mean(p_refs_out, log, x, "p_refs_out")
    z_mean = _log_mean(population_refs, log, z, "population_refs")
    if mode == "online":
        x_in = _log_mean(p_refs_in, log, x, "p_refs_in")
        with np.errstate(invalid="ignore"):  # NaN where a side is not available
            x_mean = np.logaddexp(x_in, x_out) - np.log(2.0)
    else:
        x_mean, z_mean = _offline_mean(x_out, offline_a), _offline_mean(z_mean, offline_a)
    ratio_x, ratio_z = x - x_mean, z - z_mean
    population = np.sort(ratio_z[np.isfinite(ratio_z)])
    if not len(population):
        raise InputError("RMIA needs population images with a target and a reference value; none is left")
    score = np.full(ratio_x.shape, np.nan)
    usable = np.isfinite(ratio_x)
    below = np.searchsorted(population, ratio_x[usable] - np.log(gamma), side="right")
    score[usable] = below / len(population)
    return score


def split_population(groups: ArrayLike, seed: int, share: float = 0.5) -> NDArray[np.bool_]:
    """Choose which non-members become the population; the others are scored. No group is on both sides.

    Groups are drawn in random order until they hold ``share`` of the images (the nearest attainable number). The draw
    depends on the set of groups and the seed, not on the order of the images.

    Args:
        groups: Group of every non-member, [N].
        seed: Seed of the draw.
        share: Share of the images that become the population, in (0, 1).

    Returns:
        Whether each image is in the population, [N] bool.

    Raises:
        InputError: Fewer than two groups, or a share outside (0, 1).

    Example:
        >>> split_population(["p", "p", "q", "r"], seed=0).tolist()
        [False, False, False, True]
    """
    names, index, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if not 0 < share < 1:
        raise InputError(f"the population's share must lie between 0 and 1, got {share}")
    if len(names) < 2:
        raise InputError(
            "RMIA needs non-members of 2 groups or more, some for the population and some to score: "
            "use LiRA, or a larger test part"
        )
    order = np.random.default_rng(seed).permutation(len(names))
    reached = np.cumsum(sizes[order])
    cut = int(np.argmin(np.abs(reached[:-1] - share * sizes.sum()))) + 1
    chosen = np.zeros(len(names), dtype=bool)
    chosen[order[:cut]] = True
    return chosen[index.reshape(-1)]


def _check_options(mode: str, gamma: float, offline_a: float, p_refs_in: ArrayLike | None) -> None:
    if mode not in MODES:
        raise unknown_name("RMIA mode", mode, MODES)
    if not gamma > 0 or not 0 <= offline_a <= 1:
        raise InputError(f"RMIA needs gamma > 0 and offline_a in [0, 1]; got {gamma} and {offline_a}")
    if mode == "online" and p_refs_in is None:
        raise InputError("online RMIA needs p_refs_in; without references that saw the images use mode='offline'")


def _checked(values: ArrayLike | None, log: bool, ndim: int, name: str) -> FloatArray:
    """Check that values are (logarithms of) probabilities, or NaN, and return them as float64.

    Raises:
        InputError: They are not, or the shape is another.
    """
    p = np.asarray(values, dtype=np.float64)
    if p.ndim != ndim:
        shape = "[images]" if ndim == 1 else "[references, images]"
        raise InputError(f"{name} must be {shape}, got an array of shape {p.shape}")
    least, most = (p.min(), p.max()) if p.size else (0.0, 0.0)
    if np.isnan(least):
        here = p[~np.isnan(p)]
        least, most = (here.min(), here.max()) if here.size else (0.0, 0.0)
    if most > (0.0 if log else 1.0) or (least == -np.inf if log else least < 0):
        allowed = "finite log-probabilities, at most 0" if log else "probabilities, between 0 and 1"
        raise InputError(f"{name} must hold {allowed} (NaN = not available)")
    return p


def _log_probability(values: ArrayLike | None, log: bool, ndim: int, name: str) -> FloatArray:
    p = _checked(values, log, ndim, name)
    return p if log else np.log(np.maximum(p, np.finfo(np.float64).tiny))


def _log_mean(values: ArrayLike | None, log: bool, like: FloatArray, name: str) -> FloatArray:
    """Return the logarithm of the mean probability over the references that are available, [N]; NaN where none is."""
    p = _checked(values, log, 2, name)
    if p.shape[1:] != like.shape:
        raise InputError(
            f"references must be [references, images] for {len(like)} images, got an array of shape {p.shape}"
        )
    if not log and len(p) and not np.isnan(np.vdot(p, p)):
        return np.log(np.maximum(p, np.finfo(np.float64).tiny).mean(axis=0))
    present = ~np.isnan(p)
    n = present.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not log:
            total = np.where(present, np.maximum(p, np.finfo(np.float64).tiny), 0.0).sum(axis=0)
            return np.where(n > 0, np.log(total / n), np.nan)
        filled = np.where(present, p, -np.inf)
        peak = filled.max(axis=0, initial=-np.inf)
        peak = np.where(np.isfinite(peak), peak, LOG_FLOOR)
        return np.where(n > 0, peak + np.log(np.exp(filled - peak).sum(axis=0)) - np.log(n), np.nan)


def _offline_mean(log_out: FloatArray, a: float) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.logaddexp(np.log1p(a) + log_out, np.log1p(-a)) - np.log(2.0)
