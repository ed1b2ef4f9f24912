"""A measure with what was fitted on the references: how rows become what is compared, saved and loaded bit for bit."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path
from memorisk.scores.distances.registry import MEASURES, Measure
from memorisk.scores.distances.rows import FloatArray, Rows, beside, library

FORMAT = "memorisk distance measure 1"
DOMAINS = ("signed", "shift", "softplus")
POSITIVE = tuple(name for name, measure in MEASURES.items() if measure.domain == "non-negative")
BINARY = tuple(name for name, measure in MEASURES.items() if measure.domain == "binary")
_ARRAYS = ("minimum", "medians", "variance", "whitening")
_NUMBERS = ("name", "dimension", "references", "domain", "p", "binarise", "shrinkage", "constant_columns")


@dataclass(frozen=True, eq=False)
class FittedMeasure:
    """A measure, frozen after `fit_measure`."""

    name: str
    """SciPy's name."""
    dimension: int
    """Columns d."""
    references: int
    """Rows it was fitted on."""
    domain: str | None = None
    """How negative values were met: "signed", "shift", "softplus"; None where there were none or they do not matter."""
    p: float | None = None
    """Minkowski's power."""
    binarise: str | None = None
    """"median" for dice and matching."""
    shrinkage: float | None = None
    """Mahalanobis: Ledoit-Wolf's share of the identity; 0 for the plain covariance."""
    constant_columns: int | None = None
    """Standardised Euclidean: columns of the references that do not vary and are ignored."""
    minimum: FloatArray | None = None
    """[d] column minimum of the references, domain "shift"."""
    medians: FloatArray | None = None
    """[d] column medians: true is above."""
    variance: FloatArray | None = None
    """[d], ddof = 1, 0 for constant columns."""
    whitening: FloatArray | None = None
    """[d, d] W with W W' the inverse covariance."""

    @property
    def measure(self) -> Measure:
        """Its entry in the registry."""
        return MEASURES[self.name]

    @property
    def plain_words(self) -> str:
        """The measure with what was chosen and fitted, for a result to name."""
        said = [self.name]
        if self.p is not None:
            said.append(f"p = {self.p:g}")
        if self.domain:
            said.append({"signed": "signed data as SciPy computes it" + (", of |x|" * (self.name == "jensenshannon")),
                         "shift": "less the column minimum of the references, what is below counts as 0",
                         "softplus": "of log(1 + exp x)"}[self.domain])  # fmt: skip
        if self.binarise:
            said.append("true above the column median of the references")
        if self.shrinkage is not None:
            said.append(f"Ledoit-Wolf shrinkage {self.shrinkage:.3g}" if self.shrinkage else "plain covariance")
        if self.constant_columns:
            said.append(f"{self.constant_columns} constant columns ignored")
        return ", ".join(said)

    def rows(self, block: FloatArray) -> FloatArray:
        """What is compared: domain, binarisation and normalisation applied, each row on its own.

        Args:
            block: [m, d], checked by `check_rows`; an array, or a tensor on any device for the like of it.

        Returns:
            [m, d]; unit rows for cosine and correlation, shares for jensenshannon, 0 and 1 for dice and matching.
        """
        x, xp = self._positive(block), library(block)
        if self.medians is not None:
            return xp.asarray(x > beside(x, self.medians), dtype=xp.float64)
        if self.name == "correlation":
            x = _centred(x)
        if self.name in ("cosine", "correlation"):
            x = x / xp.amax(abs(x), axis=1, keepdims=True)
            return x / xp.sqrt(xp.sum(x * x, axis=1, keepdims=True))
        if self.name == "jensenshannon":
            x = x / xp.amax(x, axis=1, keepdims=True)
            return x / x.sum(axis=1, keepdims=True)
        return x

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
        if self.name in ("cosine", "jensenshannon"):
            rows.refuse(f"are zero, where {self.name} is undefined; leave them out", self._zero)
        if self.name == "correlation":
            rows.refuse("are constant, where correlation is undefined; leave them out", self._constant)

    def clipped(self, rows: Rows) -> int:
        """Values below the references' minimum, which the domain "shift" counts as 0."""
        if self.minimum is None:
            return 0
        return sum(int((x < beside(x, self.minimum)).sum()) for _, x in rows.blocks())

    def save(self, path: str | Path) -> None:
        """Write it to a safetensors file, whole or not at all."""
        from safetensors.numpy import save_file

        arrays = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        said = {"format": FORMAT, "measure": json.dumps({name: getattr(self, name) for name in _NUMBERS})}
        with atomic_path(path) as temporary:
            save_file(arrays, temporary, metadata=said)

    @classmethod
    def load(cls, path: str | Path) -> "FittedMeasure":
        """Read what `save` wrote; every number as it was.

        Raises:
            InputError: The file is missing, damaged, or holds something else.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="numpy") as file:
                said = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            if said.get("format") != FORMAT:
                raise InputError(f"{one_line(path)} holds no {FORMAT}; write one with FittedMeasure.save")
            return _sound(cls(**json.loads(said["measure"]), **arrays))
        except FileNotFoundError:
            raise InputError(f"there is no file {one_line(path)}") from None
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{one_line(path)} is damaged or no distance measure: {one_line(error, 120)}") from None

    def _positive(self, x: FloatArray) -> FloatArray:
        if self.minimum is not None:
            return (x - beside(x, self.minimum)).clip(0)
        if self.domain == "softplus":
            return library(x).logaddexp(library(x).zeros_like(x), x)
        return abs(x) if self.name == "jensenshannon" else x

    def _zero(self, x: FloatArray) -> NDArray[np.bool_]:
        return (self._positive(x) == 0).all(axis=1)

    def _constant(self, x: FloatArray) -> NDArray[np.bool_]:
        xp = library(x)
        return (xp.amax(x, axis=1) == xp.amin(x, axis=1)) | (_centred(x) == 0).all(axis=1)


def _centred(x: FloatArray) -> FloatArray:
    """Rows less their mean, the mean taken twice: the second removes the rounding of the first."""
    x = x - x.mean(axis=1, keepdims=True)
    return x - x.mean(axis=1, keepdims=True)


def _sound(found: FittedMeasure) -> FittedMeasure:
    """The measure, if names, types and shapes fit each other."""
    d: Any = found.dimension
    shapes = {"minimum": (d,), "medians": (d,), "variance": (d,), "whitening": (d, d)}
    needed = {"minimum": found.domain == "shift", "medians": found.binarise is not None,
              "variance": found.name == "seuclidean", "whitening": found.name == "mahalanobis"}  # fmt: skip
    for name, shape in shapes.items():
        array = getattr(found, name)
        if needed[name] != (array is not None):
            raise ValueError(f"{name} is {'missing' if array is None else 'not expected'}")
        if array is not None and (array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all()):
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}, or holds NaN")
    p = found.p
    if found.name not in MEASURES or found.domain not in (None, *DOMAINS) or (p is None) == (found.name == "minkowski"):
        raise ValueError("its parts do not fit each other")
    if not isinstance(d, int) or d < 1 or (p is not None and not 1 <= p < np.inf):
        raise ValueError("its parts do not fit each other")
    return found
