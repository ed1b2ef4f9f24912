"""The fit of a measure on the references: variances, covariance, medians and minima, once (METHODS section 3)."""

from typing import Any

import numpy as np

from memorisk.runs.errors import InputError, unknown_name
from memorisk.scores.distances.measures import BINARY, DOMAINS, POSITIVE, FittedMeasure, find_measure
from memorisk.scores.distances.rows import FloatArray, Rows, name_rows, rows_per_block


def fit_measure(
    name: str, references: Any, *, domain: str | None = None, p: float = 3.0, binarise: str | None = None
) -> FittedMeasure:
    """Fit the values that a measure takes from the references; queries never change it.

    Variance and covariance with ddof = 1; Ledoit-Wolf shrinkage (scikit-learn) where n <= d or the covariance is
    singular, and always for whitened; medians and minima by column.

    Args:
        name: One of ``measures.MEASURES``.
        references: Vectors of the references, [n, d]; an array, a memory map or a tensor.
        domain: Domain for braycurtis, canberra and jensenshannon, which are defined for non-negative data: "signed" (as
            SciPy
            computes them, jensenshannon of |x|), "shift" (less the column minimum of the references, queries below it
            clipped) or "softplus" (``log(1 + exp x)``).
        p: Minkowski's power, at least 1; 2 is the paper's form.
        binarise: "median" for dice and matching: true above the column median of the references.

    Returns:
        Measure with its fitted values, frozen; `FittedMeasure.plain_words` names what was fitted.

    Raises:
        InputError: Unknown name; NaN, inf; negative references without a domain; a setting that is missing or of
            another measure; references too few or without variance.

    Example:
        >>> fit_measure("minkowski", [[0.0, 1.0], [1.0, 0.0]], p=4.0).plain_words
        'minkowski, p = 4'
    """
    measure = find_measure(name)
    _check_settings(name, domain, binarise)
    rows = Rows(references, "references")
    if not rows.n:
        raise InputError("the references are empty")
    rows.check()
    parts: dict[str, Any] = {"domain": domain, "binarise": binarise}
    if name in POSITIVE:
        parts |= _fit_domain(rows, name, domain)
    elif name in BINARY:
        parts["medians"] = _medians(rows)
    elif name == "minkowski":
        if not 1 <= p < np.inf:
            raise InputError(f"minkowski's p is {p}; give at least 1 (for infinity: chebyshev)")
        parts["p"] = float(p)
    elif name in ("seuclidean", "mahalanobis", "whitened"):
        if rows.n < 2:
            raise InputError(f"{name} needs at least two references, {rows.n} given")
        fit = {"seuclidean": _fit_variance, "mahalanobis": _fit_whitening, "whitened": _fit_unit_whitening}[name]
        parts |= fit(rows)
    fitted = FittedMeasure(measure.name, rows.d, rows.n, **parts)
    fitted.check_rows(rows)
    return fitted


def _check_settings(name: str, domain: str | None, binarise: str | None) -> None:
    """Refuse settings that are unknown, or that the measure does not use."""
    if domain is not None:
        if domain not in DOMAINS:
            raise unknown_name("domain", domain, DOMAINS)
        if name not in POSITIVE:
            raise InputError(f"{name} is defined for any data and takes no domain; only {', '.join(POSITIVE)} do")
    if name in BINARY:
        if binarise is None:
            raise InputError(
                f"{name} compares true and false; give binarise='median' (true above the references' column median)"
            )
        if binarise != "median":
            raise unknown_name("binarisation", binarise, ("median",))
    elif binarise is not None:
        raise InputError(f"{name} takes no binarise; only {', '.join(BINARY)} do")


def _fit_domain(rows: Rows, name: str, domain: str | None) -> dict[str, Any]:
    """Return the column minimum for "shift"; refuse negative references without a domain."""
    if domain is None:
        bad = np.concatenate([np.flatnonzero((x < 0).any(axis=1)) + first for first, x in rows.blocks()])
        if len(bad):
            raise InputError(
                f"{name_rows(bad)} of the references hold negative values, {name} is defined for non-negative data; "
                "give domain='signed' (as SciPy computes it), 'shift' or 'softplus'"
            )
    if domain != "shift":
        return {}
    return {"minimum": np.min([x.min(axis=0) for _, x in rows.blocks()], axis=0)}


def _medians(rows: Rows) -> FloatArray:
    """Compute the median of every column, some columns at a time."""
    step = rows_per_block(rows.n)
    return np.concatenate([np.median(rows.columns(c, c + step), axis=0) for c in range(0, rows.d, step)])


def _mean(rows: Rows) -> FloatArray:
    """Compute the mean of every column; the second pass removes the rounding of the first."""
    first = sum((x.sum(axis=0) for _, x in rows.blocks()), np.zeros(rows.d)) / rows.n
    return first + sum(((x - first).sum(axis=0) for _, x in rows.blocks()), np.zeros(rows.d)) / rows.n


def _fit_variance(rows: Rows) -> dict[str, Any]:
    """Compute variances by column; a column that does not vary gets 0 exactly, without rounding."""
    mean = _mean(rows)
    total = sum((((x - mean) ** 2).sum(axis=0) for _, x in rows.blocks()), np.zeros(rows.d))
    low = np.min([x.min(axis=0) for _, x in rows.blocks()], axis=0)
    high = np.max([x.max(axis=0) for _, x in rows.blocks()], axis=0)
    variance = np.where(low == high, 0.0, total / (rows.n - 1))
    constant = int((variance == 0).sum())
    if constant == rows.d:
        raise InputError("the references do not vary in any column; seuclidean needs some variance")
    return {"variance": variance, "constant_columns": constant}


def _fit_whitening(rows: Rows) -> dict[str, Any]:
    """Compute W with ``W W' = S^-1``, from the eigenvectors of the covariance S or of its Ledoit-Wolf form."""
    mean = _mean(rows)
    values, vectors, shrinkage = np.empty(0), np.empty((0, 0)), 0.0
    if rows.n > rows.d:
        covariance = np.zeros((rows.d, rows.d))
        for _, x in rows.blocks():
            centred = x - mean
            covariance += centred.T @ centred
        covariance /= rows.n - 1
        values, vectors = np.linalg.eigh(covariance)
        del covariance
    if rows.n <= rows.d or _singular(values, rows.d):
        from sklearn.covariance import LedoitWolf

        del vectors  # as large as the covariance
        shrunk = LedoitWolf(assume_centered=True, store_precision=False).fit(rows.block(0, rows.n) - mean)
        values, vectors = np.linalg.eigh(np.asarray(shrunk.covariance_))
        shrinkage = float(shrunk.shrinkage_)
    if _singular(values, rows.d):
        raise InputError(
            "the covariance of the references is singular even after shrinkage; mahalanobis needs variance"
        )
    vectors /= np.sqrt(values)
    return {"whitening": np.ascontiguousarray(vectors), "shrinkage": shrinkage}


def _fit_unit_whitening(rows: Rows) -> dict[str, Any]:
    """Compute the mean of the unit rows, and W with ``W W' = S^-1`` of their covariance in Ledoit-Wolf's form."""
    from sklearn.covariance import LedoitWolf

    rows.refuse("are zero, where whitened is undefined; leave them out", lambda x: (x == 0).all(axis=1))
    unit = np.concatenate([x / np.linalg.norm(x, axis=1, keepdims=True) for _, x in rows.blocks()])
    mean = unit.mean(axis=0)
    shrunk = LedoitWolf(assume_centered=True, store_precision=False).fit(unit - mean)
    values, vectors = np.linalg.eigh(np.asarray(shrunk.covariance_))
    if _singular(values, rows.d):
        raise InputError("the references are all alike; whitened needs variance, choose cosine")
    whitening = np.ascontiguousarray(vectors / np.sqrt(values))
    return {"mean": mean, "whitening": whitening, "shrinkage": float(shrunk.shrinkage_)}


def _singular(values: np.ndarray, d: int) -> bool:
    """Return whether ascending eigenvalues hold one that is 0 up to rounding."""
    return bool(values[0] <= max(values[-1], 0.0) * 8 * d * np.finfo(np.float64).eps)
