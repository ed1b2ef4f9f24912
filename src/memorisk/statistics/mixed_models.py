"""Mixed models: random intercepts, crossed or nested, by restricted maximum likelihood.

``y = X beta + sum_k Z_k u_k + e``, ``u_k ~ N(0, s_k^2 I)``, ``e ~ N(0, s^2 I)``, Z_k the indicators of a factor.
Given the ratios r_k = s_k / s the rest is linear algebra of the q x q system ``A = L Z'Z L + I`` (L = diag(r), q
levels in all), as in lme4 (Bates, Maechler, Bolker and Walker 2015, section 3): the rows enter once, as
cross-products, so that 100,000 rows and 100 levels take less than a second. Nested factors are crossed ones whose
levels have names of their own (``nested``).

METHODS section 1, "Rarity", and paper 000, A.11, name the two models that are built on this
(``memorization.rarity_models``).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError

FloatArray = NDArray[np.float64]
STARTS = (0.1, 1.0, 10.0)
"""Ratios s_k / s tried for every factor; the likelihood is climbed from the best combination."""
LARGEST = 1e4
"""Ratio above which a residual variance counts as zero."""


@dataclass(frozen=True)
class MixedFit:
    """Fitted mixed model."""

    names: tuple[str, ...]
    """Names of the fixed effects, [p]."""
    coefficients: FloatArray
    """Coefficients by generalised least squares at the fitted variances, [p]."""
    covariance: FloatArray
    """Covariance of the coefficients, [p, p], ``s^2 (X' V^-1 X)^-1``, the variances taken as known."""
    variances: dict[str, float]
    """Variances s_k^2 by factor; 0 at the boundary."""
    residual: float
    """Residual variance s^2."""
    log_likelihood: float
    """Restricted log-likelihood, with all its constants: comparable between random parts, not between fixed ones."""
    n_rows: int
    """Number of rows of y."""
    levels: dict[str, int]
    """Number of levels by factor."""

    def coefficient(self, name: str) -> tuple[float, float]:
        """Return a fixed effect and its standard error.

        Raises:
            InputError: No fixed effect has that name.
        """
        if name not in self.names:
            raise InputError(f"the model has no fixed effect {name!r}; it has {', '.join(self.names)}")
        i = self.names.index(name)
        return float(self.coefficients[i]), float(np.sqrt(self.covariance[i, i]))


def nested(inner: ArrayLike, outer: ArrayLike) -> NDArray[np.intp]:
    """Number the levels of a factor within another: "mel" of one data set is not "mel" of the next.

    Args:
        inner: Levels of the inner factor, say classes, [n].
        outer: Levels of the outer factor, say data sets, [n].

    Returns:
        Codes 0, 1, ... of the pairs that occur, [n].
    """
    pairs = [np.unique(np.asarray(v).astype(str), return_inverse=True)[1] for v in (outer, inner)]
    return np.unique(np.stack(pairs, axis=1), axis=0, return_inverse=True)[1].ravel()


def fit_mixed(
    y: ArrayLike, x: ArrayLike, factors: Mapping[str, ArrayLike], names: Sequence[str] | None = None
) -> MixedFit:
    """Fit fixed effects and variance components.

    The fit maximises ``-2 l(r) = (n - p)(1 + log(2 pi D / (n - p))) + log|A| + log|X' V^-1 X|`` over the ratios r, with
    V = I + sum r_k^2 Z_k Z_k' and D = ``min_beta (y - X beta)' V^-1 (y - X beta)``; then ``s^2 = D / (n - p)``.

    Args:
        y: Outcome of each row, [n], at least p + 1 rows.
        x: Design matrix, [n, p], with a column of ones if there is to be an intercept; of full rank.
        factors: Levels [n] by name of each random intercept. At least two levels each, and fewer than n; none at all
            gives ordinary least squares.
        names: Names of the columns of x, [p]; x0, x1, ... if not given.

    Returns:
        Fitted model.

    Raises:
        InputError: Shapes, ranks or levels are not as above, or values are not finite.

    Source:
        Bates, Maechler, Bolker and Walker, Journal of Statistical Software 67 (2015), sections 3.1 to 3.4.
    """
    system = _System.of(y, x, factors)
    labels = tuple(names) if names is not None else tuple(f"x{i}" for i in range(system.xx.shape[0]))
    if len(labels) != system.xx.shape[0]:
        raise InputError(f"{len(labels)} names for {system.xx.shape[0]} columns of x; give one each")
    ratios = _climb(system)
    solved = system.solve(ratios)
    return MixedFit(
        names=labels,
        coefficients=solved.beta,
        covariance=solved.scale * solved.inverse,
        variances={k: float(solved.scale * r**2) for k, r in zip(factors, ratios, strict=True)},
        residual=solved.scale,
        log_likelihood=-solved.deviance / 2,
        n_rows=system.n,
        levels=dict(zip(factors, system.sizes, strict=True)),
    )


@dataclass(frozen=True)
class _Solved:
    """Model at given ratios: ``inverse = (X' V^-1 X)^-1``, scale = s^2."""

    beta: FloatArray
    inverse: FloatArray
    scale: float
    deviance: float


@dataclass(frozen=True)
class _System:
    """Cross-products of the rows: all that the likelihood needs."""

    zz: FloatArray
    zx: FloatArray
    zy: FloatArray
    xx: FloatArray
    xy: FloatArray
    yy: float
    n: int
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, y: ArrayLike, x: ArrayLike, factors: Mapping[str, ArrayLike]) -> "_System":
        """Check the data and multiply them out."""
        target, design = np.asarray(y, dtype=np.float64), np.asarray(x, dtype=np.float64)
        n = len(target)
        if target.ndim != 1 or design.ndim != 2 or len(design) != n or n <= design.shape[1]:
            raise InputError(f"y {target.shape} and x {design.shape} do not fit: give [n] and [n, p] with n above p")
        if not (np.isfinite(target).all() and np.isfinite(design).all()):
            raise InputError("y and x must be finite: leave unscored rows out")
        if np.linalg.matrix_rank(design) < design.shape[1]:
            raise InputError("a fixed effect is a combination of the others (a factor with one level?): leave it out")
        codes = [_codes(name, levels, n) for name, levels in factors.items()]
        sizes = tuple(int(c.max()) + 1 for c in codes)
        zz = np.block([[_counts(a, b, i, j) for b, j in zip(codes, sizes, strict=True)]
                       for a, i in zip(codes, sizes, strict=True)]) if codes else np.zeros((0, 0))  # fmt: skip
        both = np.column_stack([design, target])
        sums = np.vstack([_sums(c, both, k) for c, k in zip(codes, sizes, strict=True)] or [both[:0]])
        cross = both.T @ both
        return cls(zz, sums[:, :-1], sums[:, -1], cross[:-1, :-1], cross[:-1, -1], float(cross[-1, -1]), n, sizes)

    def solve(self, ratios: FloatArray) -> _Solved:
        """Compute fixed effects, scale and -2 restricted log-likelihood at these ratios."""
        spread = np.repeat(ratios, self.sizes)
        a = spread[:, None] * self.zz * spread + np.eye(len(spread))
        root = scipy.linalg.cholesky(a, lower=True, check_finite=False)
        wx = scipy.linalg.solve_triangular(root, spread[:, None] * self.zx, lower=True, check_finite=False)
        wy = scipy.linalg.solve_triangular(root, spread * self.zy, lower=True, check_finite=False)
        root_x = scipy.linalg.cholesky(self.xx - wx.T @ wx, lower=True, check_finite=False)
        half = scipy.linalg.solve_triangular(root_x, self.xy - wx.T @ wy, lower=True, check_finite=False)
        df = self.n - len(self.xx)
        rest = max(self.yy - float(wy @ wy) - float(half @ half), np.finfo(float).tiny)
        deviance = df * (1 + np.log(2 * np.pi * rest / df)) + 2 * np.log(np.diag(root)).sum()
        deviance += 2 * np.log(np.diag(root_x)).sum()
        inverse = scipy.linalg.cho_solve((root_x, True), np.eye(len(self.xx)), check_finite=False)
        beta = scipy.linalg.solve_triangular(root_x, half, lower=True, trans=1, check_finite=False)
        return _Solved(beta, inverse, rest / df, float(deviance))


def _climb(system: _System) -> FloatArray:
    """Find the ratios of the highest restricted likelihood; zero where zero is as good."""
    k = len(system.sizes)
    if not k:
        return np.zeros(0)

    def deviance(logs: FloatArray) -> float:
        """Deviance at these logarithms of the variance ratios."""
        return system.solve(np.exp(logs)).deviance

    limits = [(np.log(1e-6), np.log(LARGEST))] * k
    start = min(itertools.product(np.log(STARTS), repeat=k), key=lambda point: deviance(np.array(point)))
    best = scipy.optimize.minimize(deviance, start, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-10})
    # Central differences find the top more precisely than the forward ones of the climb.
    polished = scipy.optimize.minimize(
        deviance, best.x, method="L-BFGS-B", jac="3-point", bounds=limits, options={"ftol": 1e-15, "gtol": 1e-8}
    )
    ratios = np.exp(polished.x if polished.fun <= best.fun else best.x)
    for i in range(k):  # the boundary is out of reach of a logarithm
        without = ratios.copy()
        without[i] = 0.0
        if system.solve(without).deviance <= system.solve(ratios).deviance + 1e-7:
            ratios = without
    return ratios


def _codes(name: str, levels: ArrayLike, n: int) -> NDArray[np.intp]:
    values = np.asarray(levels)
    if values.shape != (n,):
        raise InputError(f"factor {name}: {values.shape} levels for {n} rows; give one per row")
    codes = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1]
    if not 2 <= codes.max() + 1 < n:
        raise InputError(
            f"factor {name} has {codes.max() + 1} levels in {n} rows: a random intercept needs at least two levels "
            "and several rows in some of them; leave it out"
        )
    return codes


def _counts(a: NDArray[np.intp], b: NDArray[np.intp], i: int, j: int) -> NDArray:
    """Count the rows with each pair of levels, [i, j]: a block of Z'Z."""
    return np.bincount(a * j + b, minlength=i * j).reshape(i, j).astype(np.float64)


def _sums(codes: NDArray[np.intp], columns: FloatArray, k: int) -> NDArray:
    """Sum columns by level, [k, columns]: a block of Z'[X y]."""
    return np.stack([np.bincount(codes, weights=c, minlength=k) for c in columns.T], axis=1)
