"""LiRA, the likelihood-ratio attack (Carlini et al. 2022), from reference models that did and did not see each image.

The statistic is ``phi = log p_y - log(1 - p_y)`` (`memorization.logit_margin`). For each image the references give
two Gaussians, of models that saw it (IN) and of models that did not (OUT):

* online: ``log N(phi; c_in, s_in) - log N(phi; c_out, s_out)``;
* offline: ``P(N(c_out, s_out) <= phi)``, which needs OUT references only. The score is its argument
  ``(phi - c_out) / s_out``: the same order, and no ties where the probability rounds to 1.

``c`` is the mean or the median of the image's references. Published code shares one name between
several conventions for ``c`` and ``s``; here both are explicit options. The spreads, one value per side, with x
running over images, r over the n_x references available to x:

* ``per_example``: ``s_x^2 = sum_r (phi_xr - mean_x)^2 / n_x`` (ddof 0, as the authors' code);
* ``pooled_residual``: ``s^2 = sum_x sum_r (phi_xr - mean_x)^2 / sum_x (n_x - 1)``, one value for all images: the
  spread left after each image's own difficulty, with the degrees of freedom that its mean has used up;
* ``global``: ``s^2 = sum_x sum_r (phi_xr - mean of all)^2 / sum_x n_x``, one value for all images, differences of
  difficulty between images included: the authors' ``fix_variance``. Their released code uses the IN value for both
  sides (an oversight, ``std_out = np.std(dat_in)``); here each side has its own.

The spread is taken about the mean whatever the centre, as in the authors' code. Their offline form is a two-sided
density; here it is the one-sided probability of their paper. Rules on numbers of references: METHODS section 1,
"Attacks".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name

FloatArray = NDArray[np.float64]

MODES = ("online", "offline")
CENTRES = ("mean", "median")
VARIANCES = ("per_example", "pooled_residual", "global")

ONLINE_FROM = 16
"""Models (target and its twin included) below which only the offline form is computed."""
PER_EXAMPLE_FROM = 64
"""Models below which a variance per image is too noisy to divide by."""
SPREAD_FLOOR = 1e-6
"""Smallest standard deviation of phi: references that are exactly equal would divide by zero."""
BLOCK = 4096
"""Number of images fitted at a time."""


@dataclass(frozen=True)
class References:
    """The references of every image, the same number on each side; NaN where one is not available."""

    refs_in: FloatArray
    """Values phi or p of models that saw the image, [R, N]."""
    refs_out: FloatArray
    """Values of models that did not see it, [R, N]."""


def lira_scores(
    target: ArrayLike,
    refs_in: ArrayLike | None,
    refs_out: ArrayLike,
    *,
    mode: str = "online",
    centre: str = "mean",
    variance: str = "pooled_residual",
    allow_small: bool = False,
) -> FloatArray:
    """Score the membership of every image in the target's training set; the head of this module has the formulas.

    Args:
        target: Value phi of the model attacked, [N]; NaN for images not to be scored.
        refs_in: Values phi of reference models that saw the image, [R, N], NaN = not available. Not used offline.
        refs_out: Values phi of reference models that did not see it, [R', N].
        mode: "online" or "offline".
        centre: "mean" or "median" of the image's references.
        variance: "per_example", "pooled_residual" or "global".
        allow_small: Whether to skip the rules on the number of models, which is 2 (r + 1) for r references per side:
            online only
            from 16 models, per_example only from 64.

    Returns:
        Scores, [N] float64, higher = more likely a member; NaN where the image has no target value or fewer than half
        of the
        references that the best-served image has (at least two for per_example).

    Raises:
        InputError: An unknown option, shapes that differ, an infinite value, or too few models.

    Example:
        >>> lira_scores([1.0], None, [[0.0], [1.0], [2.0]], mode="offline", allow_small=True).round(3).tolist()
        [0.0]
    """
    phi = np.asarray(target, dtype=np.float64)
    _check_options(mode, centre, variance)
    if np.isinf(phi).any():
        raise InputError("phi must be finite (NaN = not to be scored), in the target")
    fits = [_side(refs_out, phi, "refs_out", centre)]
    if mode == "online":
        fits.append(_side(refs_in, phi, "refs_in", centre))
    most = min(int(fit.count.max(initial=0)) for fit in fits)
    if not allow_small:
        _check_models(most, mode, variance)
    least = max((most + 1) // 2, 2 if variance == "per_example" else 1)
    scored = np.isfinite(phi) & np.logical_and.reduce([fit.count >= least for fit in fits])
    score = np.full(phi.shape, np.nan)
    if not scored.any():
        return score
    x = phi[scored]
    gaussians = [(fit.centre[scored], _spread(fit, scored, variance)) for fit in fits]
    c_out, s_out = gaussians[0]
    if mode == "offline":
        score[scored] = (x - c_out) / s_out
    else:
        c_in, s_in = gaussians[1]
        log_ratio = 0.5 * (np.square((x - c_out) / s_out) - np.square((x - c_in) / s_in)) + np.log(s_out / s_in)
        score[scored] = log_ratio
    return score


def twin_references(phi_a: ArrayLike, phi_b: ArrayLike, sign: ArrayLike, target_seed: int) -> References:
    """Collect references for model A (or B) of one seed, from the twin pairs of all other seeds.

    The target's own twin is left out with it. It shares the target's initialisation and batch order, and it saw exactly
    the images that the target did not, so as a reference it would pull the OUT centre towards members and the IN centre
    towards non-members. Without the pair every image has one IN and one OUT reference per other seed, K/2 - 1 per side
    of
    K = 2S models, whether or not the target saw it: with nothing memorized the AUC is 0.5.

    Args:
        phi_a: Values phi (or p, for RMIA) of model A of each seed, [S, N].
        phi_b: Values of model B, [S, N].
        sign: Signs, [S, N]: +1 where A saw the image, -1 where B did, 0 where both or neither did.
        target_seed: Row of the seed attacked.

    Returns:
        References [S - 1, N]; NaN where the image's sign in that seed is 0.

    Raises:
        InputError: Shapes differ, or no other seed is left.

    Example:
        >>> references = twin_references([[3.0], [4.0]], [[1.0], [2.0]], [[1], [-1]], 0)
        >>> references.refs_in.tolist(), references.refs_out.tolist()
        ([[2.0]], [[4.0]])
    """
    a, b = np.asarray(phi_a, dtype=np.float64), np.asarray(phi_b, dtype=np.float64)
    signs = np.asarray(sign)
    if a.ndim != 2 or a.shape != b.shape or a.shape != signs.shape:
        raise InputError(
            f"phi of both twins and signs must be [seeds, images]; got {a.shape}, {b.shape}, {signs.shape}"
        )
    n_seeds = len(a)
    if not 0 <= target_seed < n_seeds or n_seeds < 2:
        raise InputError(
            f"references come from the other seeds: need 2 seeds or more and a row below {n_seeds}, got {target_seed}"
        )
    others = np.arange(n_seeds) != target_seed
    refs = References(a[others], b[others])
    _exchange(refs.refs_in, refs.refs_out, signs[others] < 0)
    missing = signs[others] == 0
    if missing.any():
        refs.refs_in[missing] = refs.refs_out[missing] = np.nan
    return refs


def _exchange(first: FloatArray, second: FloatArray, swap: NDArray[np.bool_]) -> None:
    """Exchange the numbers of two arrays, in place, where ``swap``.

    The exchange works on the bits of the numbers, without a branch: membership is random, so that ``np.where`` is
    mispredicted at every other image and takes four times as long.
    """
    bits_first, bits_second = first.view(np.int64), second.view(np.int64)
    differing = (bits_first ^ bits_second) & -swap.astype(np.int64)
    bits_first ^= differing
    bits_second ^= differing


@dataclass(frozen=True)
class _Fit:
    """Statistics of one side's references that every convention needs, [N] each."""

    count: NDArray[np.intp]
    mean: FloatArray
    centre: FloatArray
    squares: FloatArray  # sum over references of (phi - mean)^2


def _side(refs: ArrayLike | None, phi: FloatArray, name: str, centre: str) -> _Fit:
    if refs is None:
        raise InputError(f"online LiRA needs {name}; without references that saw the images use mode='offline'")
    side = np.asarray(refs, dtype=np.float64)
    if phi.ndim != 1 or side.shape[1:] != phi.shape:
        raise InputError(f"target must be [images] and {name} [references, images]; got {phi.shape} and {side.shape}")
    if not len(side):
        raise InputError(f"LiRA needs references, and {name} has none")
    # In blocks of images that stay in the processor's cache: several times faster than over the whole array.
    blocks = [_fit(side[:, i : i + BLOCK], centre, name) for i in range(0, max(len(phi), 1), BLOCK)]
    return _Fit(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def _fit(refs: FloatArray, centre: str, name: str) -> tuple[NDArray[np.intp], FloatArray, FloatArray, FloatArray]:
    """Return count, mean, centre and squares of some images; mean and centre are 0 / 0 = NaN without references."""
    missing = np.isnan(refs)
    count = len(refs) - missing.sum(axis=0)
    values = np.where(missing, 0.0, refs)
    with np.errstate(invalid="ignore"):
        mean = values.sum(axis=0) / count
    if np.isinf(mean).any() or np.isnan(mean[count > 0]).any():
        raise InputError(f"phi must be finite (NaN = not available), in {name}")
    residual = np.where(missing, 0.0, values - mean)
    squares = np.einsum("rn,rn->n", residual, residual)
    return count, mean, mean if centre == "mean" else _median(refs, count), squares


def _median(refs: FloatArray, count: NDArray[np.intp]) -> FloatArray:
    ordered = np.sort(np.ascontiguousarray(refs.T), axis=1)  # [N, R], NaN last
    rows = np.arange(len(ordered))
    return 0.5 * (ordered[rows, np.maximum(count - 1, 0) // 2] + ordered[rows, np.minimum(count // 2, len(refs) - 1)])


def _spread(fit: _Fit, scored: NDArray[np.bool_], variance: str) -> FloatArray:
    """Return standard deviations of the scored images, [n]; one value for all except for per_example."""
    count, mean, squares = fit.count[scored], fit.mean[scored], fit.squares[scored]
    if variance == "per_example":
        variances = squares / count
    elif variance == "pooled_residual":
        variances = np.full(len(count), squares.sum() / max(int((count - 1).sum()), 1))
    else:
        # Within images plus between them: the sum of squares about the mean of all references.
        between = count * np.square(mean - (count * mean).sum() / count.sum())
        variances = np.full(len(count), (squares.sum() + between.sum()) / count.sum())
    return np.maximum(np.sqrt(variances), SPREAD_FLOOR)


def _check_options(mode: str, centre: str, variance: str) -> None:
    for kind, name, allowed in (
        ("LiRA mode", mode, MODES),
        ("LiRA centre", centre, CENTRES),
        ("LiRA variance", variance, VARIANCES),
    ):
        if name not in allowed:
            raise unknown_name(kind, name, allowed)


def _check_models(per_side: int, mode: str, variance: str) -> None:
    models = 2 * (per_side + 1)
    if mode == "online" and models < ONLINE_FROM:
        raise InputError(
            f"online LiRA needs {ONLINE_FROM} models ({ONLINE_FROM // 2 - 1} references per side), here {models}: "
            f"use mode='offline', or train more models"
        )
    if variance == "per_example" and models < PER_EXAMPLE_FROM:
        raise InputError(
            f"a LiRA variance per example needs {PER_EXAMPLE_FROM} models "
            f"({PER_EXAMPLE_FROM // 2 - 1} references per side), here {models}: "
            f"use variance='pooled_residual' or 'global'"
        )
