"""The 14 measures of paper 003 and one more: domain, fitted parameters, exact distances of small blocks.

Names are SciPy's (``scipy.spatial.distance``); METHODS section 3. All are distances: the nearest has the smallest,
where the published code maximised distances.
``whitened`` is memorisk's own: the cosine of what images do not share. All scans of a device look alike, so that their
embeddings lie in a narrow cone, and the differences between two people are small compared with what all share. The
mean of the unit rows of the references is subtracted, and the rest divided by its spread in every direction (the
covariance in Ledoit-Wolf's form, which any number of references determines), as METHODS section 6 requires for near
copies. Each `Measure` names its difference from SciPy. A `FittedMeasure` holds what was fitted on the references: it
turns rows into what is compared, and is saved and loaded bit for bit. `pairwise` and `rowwise` evaluate the definition
in float64.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import atomic_path
from memorisk.runs.user_code.plugins import Registry
from memorisk.scores.distances.rows import FloatArray, Rows, array_library, convert_like, rows_per_block

PAPER_MEASURES = (
    *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "dice", "euclidean"),
    *("jensenshannon", "mahalanobis", "matching", "minkowski", "seuclidean", "sqeuclidean"),
)
"""Names of the 14 measures of paper 003."""
_ANY, _POSITIVE, _BINARY = "any", "non-negative", "binary"
_NONE = "none"
_SAME = "none"
_POSITIVE_FITTED = "none; the column minimum with the domain 'shift'"
PLUGIN_FORMS = ("euclidean", "sqeuclidean", "cityblock", "chebyshev")
"""Measures that take any rows and fit nothing."""
UNIT_ROWS = ("correlation", "cosine", "whitened")
"""Measures of rows that are brought to length 1."""
FORMAT = "memorisk distance measure 1"
DOMAINS = ("signed", "shift", "softplus")
_ARRAYS = ("minimum", "medians", "variance", "mean", "whitening")
_NUMBERS = ("name", "dimension", "references", "domain", "p", "binarise", "shrinkage", "constant_columns")


@dataclass(frozen=True)
class Measure:
    """Properties of a measure that do not depend on data."""

    name: str
    """Name of the measure in SciPy."""
    formula: str
    """Formula for two rows x and y."""
    domain: str
    """Domain of the measure: "any", "non-negative" or "binary"."""
    fitted: str
    """Values that are fitted to the references, once."""
    scipy: str
    """Difference from ``scipy.spatial.distance.cdist``; "none" where there is none."""
    family: str
    """Method that evaluates many pairs at once: "product", "sum", "ratio", "share" or "entropy" (see ``bounds``)."""
    rows: Callable[[FloatArray], FloatArray] | None = None
    """Function of a plug-in that returns what is compared of rows, float64 [m, d] to [m, d], each row on its own."""
    like: str | None = None
    """Measure that compares a plug-in's rows, one of `PLUGIN_FORMS`; the search is that measure's, and as exact."""


_MEASURES = (
    Measure(
        "braycurtis", "sum |x - y| / sum |x + y|", _POSITIVE, _POSITIVE_FITTED,
        "0/0 is 0 here and nan in SciPy", "ratio",
    ),
    Measure(
        "canberra", "sum |x - y| / (|x| + |y|), terms 0/0 are 0", _POSITIVE, _POSITIVE_FITTED, _SAME, "share"
    ),
    Measure("chebyshev", "max |x - y|", _ANY, _NONE, _SAME, "sum"),
    Measure("cityblock", "sum |x - y|", _ANY, _NONE, _SAME, "sum"),
    Measure(
        "correlation", "cosine of x - mean(x) and y - mean(y)", _ANY, _NONE,
        "half the squared distance of unit rows: copies are at exactly 0, where SciPy gives about 1e-16", "product",
    ),
    Measure(
        "cosine", "1 - x.y / (|x| |y|) = |x/|x| - y/|y||^2 / 2", _ANY, _NONE,
        "half the squared distance of unit rows: copies are at exactly 0, where SciPy gives about 1e-16", "product",
    ),
    Measure(
        "dice", "(TF + FT) / (2 TT + TF + FT)", _BINARY, "the column medians",
        "0/0 is 0 here and nan in SciPy", "product",
    ),
    Measure("euclidean", "(sum (x - y)^2)^(1/2)", _ANY, _NONE, _SAME, "product"),
    Measure(
        "jensenshannon", "((KL(p|m) + KL(q|m)) / 2)^(1/2) in nats, p = x / sum x, q = y / sum y, m = (p + q) / 2",
        _POSITIVE, _POSITIVE_FITTED,
        "copies are at exactly 0, where SciPy gives up to 1e-8, or nan where rounding makes the sum negative; SciPy "
        "gives inf for zero rows; the domain 'signed' takes |x|", "entropy",
    ),
    Measure(
        "mahalanobis", "((x - y)' S^-1 (x - y))^(1/2)", _ANY,
        "the covariance S of the references (ddof = 1), its Ledoit-Wolf form where n <= d or S is singular",
        "SciPy without VI fits S to queries and references together, at every call", "product",
    ),
    Measure(
        "matching", "share of columns that differ (Hamming)", _BINARY, "the column medians",
        "called hamming in newer versions", "product",
    ),
    Measure(
        "minkowski", "(sum |x - y|^p)^(1/p)", _ANY, _NONE,
        "p = 3 unless given, SciPy's is 2 (then it is euclidean)", "sum",
    ),
    Measure(
        "seuclidean", "(sum (x - y)^2 / V)^(1/2)", _ANY,
        "the column variances V of the references (ddof = 1); constant columns are ignored and counted",
        "SciPy without V fits it to queries and references together, and gives nan for constant columns", "product",
    ),
    Measure("sqeuclidean", "sum (x - y)^2", _ANY, _NONE, _SAME, "product"),
    Measure(
        "whitened", "cosine of W'(x/|x| - m) and W'(y/|y| - m)", _ANY,
        "mean m of the references' unit rows, W with W W' the inverse of their covariance in Ledoit-Wolf's form",
        "SciPy has none", "product",
    ),
)  # fmt: skip

_OWN = {measure.name: measure for measure in _MEASURES}


def _registered(name: str, measure: Measure) -> Measure:
    """Return a measure as the search takes it; a plug-in has the family of the measure that it is like.

    Raises:
        InputError: A plug-in does not define what is compared, or by what.
    """
    if measure.rows is None or measure.like not in PLUGIN_FORMS:
        raise InputError(
            f"memorisk.measures: {one_line(name, 60)} needs rows, and like as one of {', '.join(PLUGIN_FORMS)}"
        )
    return replace(measure, domain=_ANY, family=_OWN[measure.like].family)


MEASURES = Registry("memorisk.measures", _OWN, Measure, _registered)
"""The measures by name, plug-ins last."""


def find_measure(name: str) -> Measure:
    """Find the measure of a name.

    Raises:
        InputError: The measure does not exist; the message names the nearest.

    Example:
        >>> find_measure("cosine").family
        'product'
    """
    if name not in MEASURES:
        raise unknown_name("measure", name, MEASURES)
    return MEASURES[name]


POSITIVE = tuple(name for name, measure in _OWN.items() if measure.domain == "non-negative")
BINARY = tuple(name for name, measure in _OWN.items() if measure.domain == "binary")


@dataclass(frozen=True, eq=False)
class FittedMeasure:
    """A measure, frozen after `fit_measure`."""

    name: str
    """Name of the measure in SciPy."""
    dimension: int
    """Number of columns d."""
    references: int
    """Number of rows that the measure was fitted on."""
    domain: str | None = None
    """Treatment of negative values: "signed", "shift", "softplus"; None where none occurred or they do not matter."""
    p: float | None = None
    """Power of the Minkowski distance."""
    binarise: str | None = None
    """Rule "median" for dice and matching; None for others."""
    shrinkage: float | None = None
    """Share of the identity in Ledoit-Wolf's form, for mahalanobis and whitened; 0 for the plain covariance."""
    constant_columns: int | None = None
    """Number of columns of the references that do not vary and are ignored, for seuclidean."""
    minimum: FloatArray | None = None
    """Column minimum of the references, [d], for the domain "shift"."""
    medians: FloatArray | None = None
    """Column medians of the references, [d]: a value above is true."""
    variance: FloatArray | None = None
    """Column variances of the references, [d], ddof = 1, 0 for constant columns."""
    mean: FloatArray | None = None
    """Mean of the references' unit rows, [d], for whitened."""
    whitening: FloatArray | None = None
    """Matrix W with W W' the inverse covariance, [d, d]."""

    @property
    def measure(self) -> Measure:
        """Entry of the measure in the registry."""
        return MEASURES[self.name]

    @property
    def plain_words(self) -> str:
        """Name of the measure with what was chosen and fitted, for a result to name."""
        parts = [self.name]
        if self.p is not None:
            parts.append(f"p = {self.p:g}")
        if self.domain:
            parts.append({"signed": "signed data as SciPy computes it" + (", of |x|" * (self.name == "jensenshannon")),
                         "shift": "less the column minimum of the references, what is below counts as 0",
                         "softplus": "of log(1 + exp x)"}[self.domain])  # fmt: skip
        if self.binarise:
            parts.append("true above the column median of the references")
        if self.shrinkage is not None:
            parts.append(f"Ledoit-Wolf shrinkage {self.shrinkage:.3g}" if self.shrinkage else "plain covariance")
        if self.constant_columns:
            parts.append(f"{self.constant_columns} constant columns ignored")
        return ", ".join(parts)

    def rows(self, block: FloatArray) -> FloatArray:
        """Return the rows to compare: domain, binarisation and normalisation applied, each row on its own.

        Args:
            block: Rows of the table, [m, d], checked by `check_rows`; an array, or a tensor on any device for the like
                of it.

        Returns:
            Rows to compare, [m, d]; unit rows for `UNIT_ROWS`, shares for jensenshannon, 0 and 1 for dice and matching.
        """
        if (own := self.measure.rows) is not None:
            return convert_like(
                block, self._mapped(own, block if isinstance(block, np.ndarray) else block.cpu().numpy())
            )
        x, xp = self._positive(block), array_library(block)
        if self.medians is not None:
            return xp.asarray(x > convert_like(x, self.medians), dtype=xp.float64)
        if self.name == "correlation":
            x = _centred(x)
        if self.name == "whitened":
            return convert_like(block, self._whitened(x if isinstance(x, np.ndarray) else x.cpu().numpy()))
        if self.name in UNIT_ROWS:
            return _unit(x)
        if self.name == "jensenshannon":
            x = x / xp.amax(x, axis=1, keepdims=True)
            return x / x.sum(axis=1, keepdims=True)
        return x

    def _mapped(self, own: Callable[[FloatArray], FloatArray], block: FloatArray) -> FloatArray:
        """Compute what a plug-in compares of rows.

        Raises:
            InputError: The plug-in returned other shapes than it got, or NaN.
        """
        mapped = np.asarray(own(np.asarray(block, dtype=np.float64)), dtype=np.float64)
        if mapped.shape != block.shape or not np.isfinite(mapped).all():
            raise InputError(f"the measure {self.name} gave rows of shape {mapped.shape}, or NaN, of {block.shape}")
        return mapped

    def check_rows(self, rows: Rows) -> None:
        """Refuse rows that the measure does not take.

        Raises:
            InputError: Another number of columns; NaN, inf; negative values without a domain; zero rows for cosine and
                jensenshannon, constant rows for correlation. Row numbers are named.
        """
        if rows.d != self.dimension:
            raise InputError(
                f"the {rows.what} have {rows.d} columns; the measure {self.name} was fitted on {self.dimension}"
            )
        rows.check()
        if self.name in POSITIVE and self.domain is None:
            rows.refuse(
                f"hold negative values, where the references of {self.name} held none; fit it with "
                "domain='signed', 'shift' or 'softplus'",
                lambda x: (x < 0).any(axis=1),
            )
        if self.name in ("cosine", "jensenshannon", "whitened"):
            rows.refuse(f"are zero, where {self.name} is undefined; leave them out", self._zero)
        if self.name == "correlation":
            rows.refuse("are constant, where correlation is undefined; leave them out", self._constant)

    def clipped(self, rows: Rows) -> int:
        """Count values below the references' minimum, which the domain "shift" counts as 0."""
        if self.minimum is None:
            return 0
        return sum(int((x < convert_like(x, self.minimum)).sum()) for _, x in rows.blocks())

    def save(self, path: str | Path) -> None:
        """Write it to a safetensors file, whole or not at all."""
        from safetensors.numpy import save_file

        arrays = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        metadata = {"format": FORMAT, "measure": json.dumps({name: getattr(self, name) for name in _NUMBERS})}
        with atomic_path(path) as temporary:
            save_file(arrays, temporary, metadata=metadata)

    @classmethod
    def load(cls, path: str | Path) -> "FittedMeasure":
        """Read what `save` wrote; every number as it was.

        Raises:
            InputError: The file is missing, damaged, or holds something else.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="numpy") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            if metadata.get("format") != FORMAT:
                raise InputError(f"{one_line(path)} holds no {FORMAT}; write one with FittedMeasure.save")
            return _checked_measure(cls(**json.loads(metadata["measure"]), **arrays))
        except FileNotFoundError:
            raise InputError(f"file {one_line(path)} does not exist") from None
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{one_line(path)} is damaged or no distance measure: {one_line(error, 120)}") from None

    def _positive(self, x: FloatArray) -> FloatArray:
        if self.minimum is not None:
            return (x - convert_like(x, self.minimum)).clip(0)
        if self.domain == "softplus":
            return array_library(x).logaddexp(array_library(x).zeros_like(x), x)
        return abs(x) if self.name == "jensenshannon" else x

    def _whitened(self, x: FloatArray) -> FloatArray:
        """Whiten unit rows less the mean, and scale to length 1.

        The sum runs column by column, so that no row depends on the others.
        """
        assert self.mean is not None
        assert self.whitening is not None
        rest, whitened = _unit(x) - self.mean, np.zeros((len(x), self.whitening.shape[1]))
        for column, weights in zip(rest.T, self.whitening, strict=True):
            whitened += column[:, None] * weights
        whitened[~rest.any(axis=1), 0] = 1.0  # the mean itself: no direction is its own
        return _unit(whitened)

    def _zero(self, x: FloatArray) -> NDArray[np.bool_]:
        return (self._positive(x) == 0).all(axis=1)

    def _constant(self, x: FloatArray) -> NDArray[np.bool_]:
        xp = array_library(x)
        return (xp.amax(x, axis=1) == xp.amin(x, axis=1)) | (_centred(x) == 0).all(axis=1)


def _unit(x: FloatArray) -> FloatArray:
    """Scale rows to length 1."""
    xp = array_library(x)
    x = x / xp.amax(abs(x), axis=1, keepdims=True)
    return x / xp.sqrt(xp.sum(x * x, axis=1, keepdims=True))


def _centred(x: FloatArray) -> FloatArray:
    """Subtract the mean of each row, taken twice: the second removes the rounding of the first."""
    x = x - x.mean(axis=1, keepdims=True)
    return x - x.mean(axis=1, keepdims=True)


def _checked_measure(measure: FittedMeasure) -> FittedMeasure:
    """Return the measure, if names, types and shapes fit each other."""
    d: Any = measure.dimension
    shapes = {"minimum": (d,), "medians": (d,), "variance": (d,), "mean": (d,), "whitening": (d, d)}
    needed = {"minimum": measure.domain == "shift", "medians": measure.binarise is not None,
              "variance": measure.name == "seuclidean", "mean": measure.name == "whitened",
              "whitening": measure.name in ("mahalanobis", "whitened")}  # fmt: skip
    for name, shape in shapes.items():
        array = getattr(measure, name)
        if needed[name] != (array is not None):
            raise ValueError(f"{name} is {'missing' if array is None else 'not expected'}")
        if array is not None and (array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all()):
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}, or holds NaN")
    p = measure.p
    if (
        measure.name not in MEASURES
        or measure.domain not in (None, *DOMAINS)
        or (p is None) == (measure.name == "minkowski")
    ):
        raise ValueError("its parts do not fit each other")
    if not isinstance(d, int) or d < 1 or (p is not None and not 1 <= p < np.inf):
        raise ValueError("its parts do not fit each other")
    return measure


class Definition(NamedTuple):
    """Arguments of `definitions.direct` other than the two rows."""

    code: int
    weights: FloatArray
    whitening: FloatArray
    p: float


def definition(measure: FittedMeasure) -> Definition:
    """Return a measure as arguments of `definitions.direct`."""
    from memorisk.scores.distances.definitions import CODES

    weights, whitening = np.zeros(0), np.zeros((0, 0))
    if measure.variance is not None:
        weights = np.divide(1.0, measure.variance, out=np.zeros(measure.dimension), where=measure.variance > 0)
    if measure.name == "mahalanobis" and measure.whitening is not None:
        whitening = np.array(measure.whitening, order="C")
    return Definition(CODES[measure.measure.like or measure.name], weights, whitening, measure.p or 0.0)


def pairwise(queries: Any, references: Any, measure: FittedMeasure) -> FloatArray:
    """Compute distances of every query to every reference, by definition in float64.

    Tests compare `nearest` and `histogram` with this form; one thread, one pair at a time.

    Args:
        queries: Vectors of the queries, [m, d]; an array, a memory map or a tensor.
        references: Vectors of the references, [n, d].
        measure: Measure from `fit_measure`.

    Returns:
        Distances, [m, n] float64; ``measures.MEASURES[measure.name].formula``.

    Raises:
        InputError: Shapes, types or rows that the measure does not take.

    Example:
        >>> from memorisk.scores.distances.fit import fit_measure
        >>> references = [[0.0, 0.0], [3.0, 4.0]]
        >>> pairwise([[0.0, 0.0]], references, fit_measure("euclidean", references)).tolist()
        [[0.0, 5.0]]
    """
    from memorisk.scores.distances.definitions import all_pairs

    query_rows, reference_rows = Rows(queries, "queries"), Rows(references, "references")
    for rows in (query_rows, reference_rows):
        measure.check_rows(rows)
    out = np.empty((query_rows.n, reference_rows.n))
    x, y = measure.rows(query_rows.block(0, query_rows.n)), measure.rows(reference_rows.block(0, reference_rows.n))
    code, weights, whitening, p = definition(measure)
    all_pairs(code, np.ascontiguousarray(x), np.ascontiguousarray(y), weights, whitening, p, out)
    return out


def rowwise(first: Any, second: Any, measure: FittedMeasure) -> FloatArray:
    """Compute the distance of each row to the same row of the other table: the diagonal of `pairwise`.

    The distance is that of the definition in float64.

    Args:
        first: Vectors of the first rows, [n, d]; an array, a memory map or a tensor.
        second: Vectors of the second rows, [n, d].
        measure: Measure from `fit_measure`.

    Returns:
        Distance of each pair of rows, [n] float64.

    Raises:
        InputError: Shapes, types or rows that the measure does not take.

    Example:
        >>> from memorisk.scores.distances.fit import fit_measure
        >>> references = [[0.0, 0.0], [3.0, 4.0]]
        >>> rowwise([[0.0, 1.0], [0.0, 0.0]], references, fit_measure("cityblock", references)).tolist()
        [1.0, 7.0]
    """
    from memorisk.scores.distances.definitions import some_pairs

    first_rows, second_rows = Rows(first, "first rows"), Rows(second, "second rows")
    if first_rows.n != second_rows.n:
        raise InputError(f"{first_rows.n:,} rows are compared with {second_rows.n:,}; give as many, pair by pair")
    for rows in (first_rows, second_rows):
        measure.check_rows(rows)
    out = np.empty(first_rows.n)
    step = rows_per_block(first_rows.d)
    for start in range(0, first_rows.n, step):
        stop = min(start + step, first_rows.n)
        x, y = (np.ascontiguousarray(measure.rows(rows.block(start, stop))) for rows in (first_rows, second_rows))
        place = np.arange(stop - start)
        code, weights, whitening, p = definition(measure)
        some_pairs(code, x, y, place, place, weights, whitening, p, out[start:stop])
    return out
