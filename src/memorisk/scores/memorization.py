"""Losses, margins and the differential scores: the effect that training on an image has on it.

Paper 000, section 3 (equation 1) and METHODS section 1, "Score" and the table of designs; memorization and influence
by 0/1 correctness follow Feldman and Zhang (2020), on which the paper builds. Deviations: losses are always in
float64 from logits (never from rounded probabilities), and the standard error of the Feldman-Zhang estimate is never
zero.

Arrays in, arrays or frozen dataclasses out. Each row is a model pair (seed), each column an image.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]

MIN_INFLUENCE_MODELS = 100
"""Fewer models than this leave influence estimates with a standard error above 0.1 (METHODS section 1)."""


def cross_entropy(logits: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Compute the cross-entropy of each image's label, `-log softmax(z)_y`, in float64.

    Args:
        logits: Outputs of the network, `[n, k]`, any floating type; k at least 2.
        labels: Class of each image, `[n]`, integers in 0..k-1.

    Returns:
        Losses `[n]` in nats.

    Raises:
        InputError: Shapes or labels do not fit, or a logit is not finite.

    Example:
        >>> cross_entropy([[0.0, 0.0]], [1]).round(4).tolist()
        [0.6931]
    """
    z, y = _logits_and_labels(logits, labels)
    return np.asarray(scipy.special.logsumexp(z, axis=1)) - z[np.arange(len(y)), y]


def binary_cross_entropy(logits: ArrayLike, targets: ArrayLike) -> FloatArray:
    """Compute the cross-entropy of one logit per image, `log(1 + exp(-(2t - 1) z))`, in float64.

    Args:
        logits: Logit of each image, `[n]`.
        targets: Label of each image, `[n]`, 0 or 1. Soft targets are not accepted: this form keeps large logits exact.

    Returns:
        Losses `[n]` in nats.

    Raises:
        InputError: Shapes or targets do not fit, or a logit is not finite.

    Example:
        >>> binary_cross_entropy([0.0, 2.0], [1, 0]).round(4).tolist()
        [0.6931, 2.1269]
    """
    return np.logaddexp(0.0, -_signed_binary(logits, targets))


def logit_margin(logits: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Compute the log-odds of the label, `log p_y - log(1 - p_y) = z_y - logsumexp_{j != y} z_j`.

    The second form never forms `1 - p_y`, so it stays exact where p_y rounds to 0 or 1 (Carlini et al. 2022, the
    scale on which LiRA's Gaussians are fitted).

    Args:
        logits: Outputs of the network, `[n, k]`, or `[n]` for one logit per image, whose margin is `(2t - 1) z`.
        labels: Class of each image, `[n]`, integers in 0..k-1; 0 or 1 for one logit per image.

    Returns:
        Margins `[n]`.

    Raises:
        InputError: Shapes or labels do not fit, or a logit is not finite.

    Example:
        >>> logit_margin([[2.0, 0.0]], [0]).tolist()
        [2.0]
    """
    if np.ndim(logits) == 1:
        return _signed_binary(logits, labels)
    z, y = _logits_and_labels(logits, labels)
    rows = np.arange(len(y))
    others = z.copy()
    others[rows, y] = -np.inf
    return z[rows, y] - np.asarray(scipy.special.logsumexp(others, axis=1))


def memorization(gap: ArrayLike, sign: ArrayLike) -> FloatArray:
    """Compute the memorization score, `M(x) = mean over seeds with sigma_s(x) != 0 of sigma_s(x) D_s(x)`.

    The seeds are added one after another, in order.

    Args:
        gap: Loss gaps D_s, `[S, N]`; NaN is allowed where `sign` is 0.
        sign: Signs, `[S, N]`: +1 where A alone trained on the image, -1 where B alone did, 0 where both or neither did.

    Returns:
        M `[N]` in nats; NaN for an image that no seed scored.

    Raises:
        InputError: Shapes differ, a sign is not -1, 0 or +1, or the gap of a scored image is not finite.

    Example:
        >>> memorization([[1.0, -2.0], [3.0, 0.0]], [[1, -1], [1, 0]]).tolist()
        [2.0, 2.0]
    """
    d, s = _gap_and_sign(gap, sign)
    total = np.zeros(d.shape[1])
    for d_s, sign_s in zip(d, s, strict=True):
        total += np.where(sign_s != 0, sign_s * d_s, 0.0)
    scored = np.count_nonzero(s, axis=0)
    return np.divide(total, scored, out=np.full(total.shape, np.nan), where=scored > 0)


@dataclass(frozen=True)
class GroupTable:
    """Signed gaps averaged over the images of each group: the input of the class intervals."""

    group: NDArray
    """`[G]` sorted group ids."""
    values: FloatArray
    """`[G, S]` mean of `sigma_s D_s` over the group's images; NaN where the seed did not score the group."""
    n_images: NDArray[np.int64]
    """`[G]` images per group."""


def group_table(gap: ArrayLike, sign: ArrayLike, group: ArrayLike) -> GroupTable:
    """Average the signed gap over each group, one column per seed (METHODS section 1, "Class summary").

    Args:
        gap: Loss gaps of the images of one class, `[S, N]`.
        sign: Signs in {-1, 0, +1}, `[S, N]`.
        group: Group id of each image, `[N]`.

    Returns:
        Table `[G, S]`. An image that a seed did not score is left out of that seed's mean.

    Raises:
        InputError: As `memorization`, or `group` has another length.

    Example:
        >>> table = group_table([[1.0, 3.0, -2.0]], [[1, 1, -1]], ["p", "p", "q"])
        >>> table.values.tolist()
        [[2.0], [2.0]]
    """
    d, s = _gap_and_sign(gap, sign)
    ids, index, counts = np.unique(np.asarray(group), return_inverse=True, return_counts=True)
    if index.shape != d.shape[1:]:
        raise InputError(f"{len(index)} group ids for {d.shape[1]} images; give one per image")
    values = np.full((len(ids), len(d)), np.nan)
    for seed, (d_s, sign_s) in enumerate(zip(d, s, strict=True)):
        total = np.bincount(index, weights=np.where(sign_s != 0, sign_s * d_s, 0.0), minlength=len(ids))
        scored = np.bincount(index, weights=sign_s != 0, minlength=len(ids))
        np.divide(total, scored, out=values[:, seed], where=scored > 0)
    return GroupTable(group=ids, values=values, n_images=counts)


@dataclass(frozen=True)
class FeldmanZhang:
    """Memorization by 0/1 correctness, with the number of models that support it."""

    memorization: FloatArray
    """`[N]` P(correct | trained on it) - P(correct | not); NaN when one side has no model."""
    standard_error: FloatArray
    """`[N]` standard error over models, at most 1/sqrt(K) when half of K models saw the image."""
    n_in: NDArray[np.int64]
    """`[N]` models that trained on the image."""
    n_out: NDArray[np.int64]
    """`[N]` models that did not."""


def feldman_zhang(correct: ArrayLike, member: ArrayLike) -> FeldmanZhang:
    """Estimate the Feldman-Zhang memorization, `mean(correct | member) - mean(correct | not member)`.

    The standard error is `sqrt(p_in (1 - p_in) / n_in + p_out (1 - p_out) / n_out)` with each share shrunk to
    `(correct + 1) / (n + 2)`: with the plain shares, eight models that agree would have a standard error of zero,
    which reads as certainty. Models are taken as independent; the two twins of a pair nearly are.

    Args:
        correct: Whether model k classifies image i rightly, `[K, N]` 0/1 or boolean.
        member: Whether model k trained on image i, `[K, N]` boolean.

    Returns:
        Estimate, standard error and counts of models, each `[N]`.

    Raises:
        InputError: Shapes differ or values are not 0/1.

    Source:
        Feldman and Zhang (2020), equation 1, by subset sampling; METHODS section 1, design `balanced`.

    Example:
        >>> score = feldman_zhang([[1], [1], [0], [0]], [[True], [True], [False], [False]])
        >>> score.memorization.tolist(), score.standard_error.round(3).tolist()
        ([1.0], [0.433])
    """
    hits, members = _zero_one("correct", correct), _zero_one("member", member)
    if hits.shape != members.shape or hits.ndim != 2:
        raise InputError(
            f"correct and member have shapes {hits.shape} and {members.shape}; give [models, images] twice"
        )
    n_in, n_out = members.sum(0), (1 - members).sum(0)
    hits_in, hits_out = (hits * members).sum(0), (hits * (1 - members)).sum(0)
    share_in, share_out = _share(hits_in, n_in), _share(hits_out, n_out)
    shrunk_in, shrunk_out = (hits_in + 1) / (n_in + 2), (hits_out + 1) / (n_out + 2)
    variance = _share(shrunk_in * (1 - shrunk_in), n_in) + _share(shrunk_out * (1 - shrunk_out), n_out)
    return FeldmanZhang(
        memorization=share_in - share_out,
        standard_error=np.sqrt(variance),
        n_in=n_in.astype(np.int64),
        n_out=n_out.astype(np.int64),
    )


def influence(correct: ArrayLike, member: ArrayLike) -> FloatArray:
    """Estimate the influence of each training image on each target.

    It is `P(target correct | i in) - P(target correct | i out)`.

    Two masked matrix products, `member^T correct / n_in - (1 - member)^T correct / n_out`.

    Args:
        correct: Whether model k classifies target j rightly, `[K, M]` 0/1.
        member: Whether model k trained on image i, `[K, N]` boolean.

    Returns:
        Influence `[N, M]`; NaN rows for images that all or none of the models saw.

    Raises:
        InputError: Fewer than 100 models, or shapes differ.

    Source:
        Feldman and Zhang (2020), equation 2; METHODS section 1: only from K = 100.

    Example:
        >>> member = np.arange(100)[:, None] % 2 == 0
        >>> influence(member.astype(int), member).tolist()
        [[1.0]]
    """
    hits, members = _zero_one("correct", correct), _zero_one("member", member)
    if hits.ndim != 2 or members.ndim != 2 or len(hits) != len(members):
        raise InputError(
            f"correct and member have shapes {hits.shape} and {members.shape}; both need one row per model"
        )
    if len(members) < MIN_INFLUENCE_MODELS:
        raise InputError(
            f"influence needs at least {MIN_INFLUENCE_MODELS} models and got {len(members)}; "
            "train more, or read the memorization of each image, which needs fewer"
        )
    n_in, n_out = members.sum(0)[:, None], (1 - members).sum(0)[:, None]
    return _share(members.T @ hits, n_in) - _share((1 - members).T @ hits, n_out)


def _share(count: NDArray, total: NDArray) -> FloatArray:
    """Compute `count / total`, NaN where the total is 0."""
    shape = np.broadcast_shapes(count.shape, total.shape)
    return np.divide(count, total, out=np.full(shape, np.nan), where=np.broadcast_to(total > 0, shape))


def _zero_one(name: str, values: ArrayLike) -> FloatArray:
    """Return an array of zeros and ones as floats (so that products run in BLAS)."""
    array = np.asarray(values, dtype=np.float64)
    if not ((array == 0) | (array == 1)).all():
        raise InputError(f"{name} must hold 0 and 1 only; compare predictions with labels first")
    return array


def _logits_and_labels(logits: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, NDArray[np.intp]]:
    """Check logits and labels: return float64 logits `[n, k]` and integer labels `[n]`."""
    z, y = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if z.ndim != 2 or z.shape[1] < 2 or y.shape != z.shape[:1]:
        raise InputError(f"logits {z.shape} and labels {y.shape} do not fit; give [images, classes >= 2] and [images]")
    if not np.isfinite(z).all():
        raise InputError(f"{np.count_nonzero(~np.isfinite(z))} logits are not finite; lower the learning rate")
    if y.dtype.kind not in "iub" or (y.size and (y.min() < 0 or y.max() >= z.shape[1])):
        raise InputError(f"labels must be integers from 0 to {z.shape[1] - 1}")
    return z, y.astype(np.intp)


def _signed_binary(logits: ArrayLike, targets: ArrayLike) -> FloatArray:
    """Compute `(2t - 1) z` after checks."""
    z, t = np.asarray(logits, dtype=np.float64), np.asarray(targets, dtype=np.float64)
    if z.ndim != 1 or z.shape != t.shape:
        raise InputError(f"logits {z.shape} and targets {t.shape} do not fit; give one logit and one target per image")
    if not np.isfinite(z).all():
        raise InputError(f"{np.count_nonzero(~np.isfinite(z))} logits are not finite; lower the learning rate")
    if not ((t == 0) | (t == 1)).all():
        raise InputError("targets of a binary head must be 0 or 1")
    return (2 * t - 1) * z


def _gap_and_sign(gap: ArrayLike, sign: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Check gaps and signs, and return them as float64 `[S, N]`."""
    d, s = np.asarray(gap, dtype=np.float64), np.asarray(sign, dtype=np.float64)
    if d.ndim != 2 or d.shape != s.shape:
        raise InputError(f"gaps {d.shape} and signs {s.shape} do not fit; give [seeds, images] twice")
    if not np.isin(s, (-1, 0, 1)).all():
        raise InputError("signs must be +1 (A trained on it), -1 (B did) or 0 (both or neither)")
    if not np.isfinite(d[s != 0]).all():
        raise InputError(
            "the loss gap of a scored image is not finite; find the model whose loss became NaN or infinite"
        )
    return d, s
