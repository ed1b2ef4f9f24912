"""Approximations in float32 with bounds that always hold: |key - value| <= rho |value| + beta.

The *key* of a pair is a monotone function of its distance (``Form.multiplier``, ``Form.power``), the *value* is what a
block evaluator leaves in its tile. With u = 2^-24, gamma(n) = n u / (1 - n u) (Higham, Accuracy and Stability of
Numerical Algorithms, chapter 3) and r the measured distance of a row to its float32 form:

- product: key K = s^2 |x - y|^2 of rows centred, weighted or whitened, and scaled; value |x|^2 + |y|^2 - 2 x.y, off by
  at most gamma(d + 8) (|x|^2 + |y|^2) in any order of addition, and |y|^2 <= 2 |x|^2 + 2 K. It is exact for 0 and 1.
- sum: terms of one sign, so that rounding is relative, gamma(d + c); r by the triangle inequality.
- ratio (braycurtis): key N / (N + D) with N = sum |x - y|, D = sum |x + y|; N + D >= |x|_1 + |y|_1, so that rows off by
  r change it by at most r / |x|_1.
- share (canberra): every term is off by 3 u, by u where a row is not a float32 row, by 1 below 1e-30.
- entropy (jensenshannon): key d^2; with x = d p / 2, value (h(x) + h(y) - sum m log m) / d with m = x + y and
  h(x) = sum x log 2x. As t log t is convex and at least t - 1, the sum of |m log m| is at most r(x) + r(y) with
  r(x) = h(x) + sum max(1 - 2x, 0).

Where no bound can be given (values out of range) beta is infinite and every pair is evaluated by definition.

On a GPU (``Form.on_device``) PyTorch prepares the rows and adds in another order: they may differ from those of
the definition by ``drift`` of their norm, (d + 64)^(3/2) 2^-50, more than the normalisations can. Sums and products are
those of float32 (no TF32), in any order, fused or not. The bounds assume of the rest: quotients within 2 ulp (PTX ISA,
``div.full.f32``: 2), which the ratio's bound has room for; reciprocal square roots within 2^-22 (``rsqrt.approx``:
2^-22.9), so that a term of a share is off by 12 u; binary logarithms within 2^-21, of their own size outside (1/2, 2)
(``lg2.approx``: 2^-22), so that the entropy's terms are off by 19 u and its beta is taken twice.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorisk.scores.distances.measures import BINARY, UNIT_ROWS, Definition, FittedMeasure, definition
from memorisk.scores.distances.rows import FloatArray, Rows, Team, array_library, convert_like
from memorisk.scores.distances.sketch import NO_DIRECTIONS, Sketch, empty_sketch, find_directions, sketch_rows

UNIT = 2.0**-24
LOG_ERROR = 6e-7
"""Bound of ``kernels.logarithms`` in addition to 4 u |log|, held by a test over all fractions."""
BOUND_ROOM = 1.0 + 2.0**-10
"""Factor of every beta: room for the rounding of the bounds themselves."""
MOST_POWERS = 16
_NO_FORM = "none"


@dataclass(frozen=True, eq=False)
class Block:
    """Rows prepared for the search."""

    exact: FloatArray
    """Rows that the definition takes, [m, d]."""
    short: NDArray[np.float32]
    """Rows centred, scaled and rounded, [m, d]."""
    own: NDArray[np.float32]
    """Own term of each row, [m]: |x|^2, sum |x| or the entropy term."""
    slack: FloatArray
    """Distance r of each row from its float32 form in the family's norm, [m]; infinite where the row has no such
    form."""
    sketch: Sketch | None = None
    """Sketch by the form's directions, where it has some."""

    def part(self, first: int, last: int) -> "Block":
        """Return some of the rows."""
        here = slice(first, last)
        sketch = self.sketch and self.sketch.part(first, last)
        return Block(self.exact[here], self.short[here], self.own[here], self.slack[here], sketch)


@dataclass(frozen=True, eq=False)
class Form:
    """Form in which a measure's pairs are approximated in one call."""

    measure: FittedMeasure
    definition: Definition
    family: str
    """Family of the measure in the registry, or "none" where every pair is evaluated by definition."""
    centre: FloatArray
    """Centre that is first subtracted from every row, [d]; empty for none."""
    scale: float
    """Factor of every row: a power of two, or d / 2 for jensenshannon."""
    multiplier: float
    """Factor of the distance in the key, which is ``(multiplier distance)^power``."""
    power: float
    """Exponent of the key (see ``multiplier``); 0 for ``distance / (1 + distance)``."""
    root: float
    """Exponent of the key in the value: Minkowski's p."""
    rho: float
    """Relative bound of a value."""
    room: float = BOUND_ROOM
    """Factor of every beta."""
    directions: NDArray[np.float32] = field(default_factory=lambda: NO_DIRECTIONS)
    """Directions of the sketches (`sketch`), [d, c]; empty without them."""

    def on_device(self) -> "Form":
        """Return the form where a GPU evaluates it: its quotients and logarithms are approximate."""
        rho = self.rho + 8 * UNIT * (self.family == "share")
        return replace(self, rho=rho, room=BOUND_ROOM * (2.0 if self.family == "entropy" else 1.0))

    def prepare(self, rows: Rows, first: int, last: int, workers: Team) -> Block:
        """Prepare the rows ``first`` to ``last``, some of them by each thread."""
        size, d = last - first, self.measure.dimension
        exact = rows.own(first, last)
        one = None if exact is None else exact[:1]
        as_they_are = one is not None and self.measure.rows(one) is one
        exact = exact if exact is not None and as_they_are else np.empty((size, d))
        short, norms, slack = np.empty((size, d), np.float32), np.empty(size, np.float32), np.empty(size)
        block = Block(exact, short, norms, slack, empty_sketch(size, self.directions))
        step = max(1, min(256, -(-size // workers.threads)))

        def fill(start: int) -> None:
            part = block.part(start, min(start + step, size))
            if not as_they_are:
                part.exact[:] = self.measure.rows(rows.block(first + start, first + start + len(part.exact)))
            self._fill(part)

        workers.run(fill, range(0, size, step))
        return block

    def betas(self, queries: Any, references: Any) -> Any:
        """Return absolute bounds [m] of the queries' values against a block of references, where the blocks are."""
        d, most = self.measure.dimension, float(references.slack.max())
        both = queries.slack + most
        if self.family == _NO_FORM:
            beta = both + np.inf
        elif self.measure.name in BINARY:
            beta = both * 0.0 if d < 1 << 22 else both + np.inf
        elif self.family == "product":
            beta = _product_betas(d, self.rho, queries.own, both)
        elif self.family == "sum":
            beta = both * (1.0 + self.rho) + (d * 2.0**-120) ** (1.0 / self.root)
        elif self.family == "entropy":
            beta = gamma(d) * both / d + 16 * UNIT * (both / d + 1.0) + LOG_ERROR
        else:  # ratio: the larger share of two rows; share: terms of both
            beta = (queries.slack.clip(most) if self.family == "ratio" else both) + d * 1e-30
        return beta * self.room

    def with_sketches(self, references: Rows, queries: int, k: int) -> "Form":
        """Return the form with directions for sketches, where these find the k nearest of ``queries`` rows sooner."""
        if self.family != "product" or self.measure.name in BINARY:
            return self
        return replace(self, directions=find_directions(self, references, queries, k))

    def sketch_bounds(self, queries: Sketch, references: Sketch) -> tuple[float, FloatArray, FloatArray]:
        """Bound the squared distances of sketches: rho, betas [m], and the slacks [m] of the pairs (`sketch`)."""
        d = self.directions.shape[1]
        rho, slack = _product_rho(d), queries.slack + float(references.slack.max())
        return rho, _product_betas(d, rho, queries.own, 0.0 * slack) * self.room, slack

    def moved(self, exact: Any) -> tuple[Any, Any]:
        """Return rows centred and weighted or whitened, and what the rounding of that may have taken, [m] or 0."""
        x, lost = (exact - self.centre if len(self.centre) else exact), 0.0
        if self.definition.whitening.size:  # the product's own rounding, and the definition's
            lost = 4.0 * (self.measure.dimension + 4) * 2.0**-53 * float(np.linalg.norm(self.definition.whitening))
            lost = (x * x).sum(axis=1) ** 0.5 * lost * self.scale
        return _weighed(x, self.definition), lost

    def drift(self) -> float:
        """Bound the distance of a row prepared on a device from the definition's row, as a share of its norm."""
        same = self.measure.name not in ("cosine", "correlation", "jensenshannon") and self.measure.domain != "softplus"
        return 0.0 if same else (self.measure.dimension + 64) ** 1.5 * 2.0**-50

    def _fill(self, out: Block) -> None:
        """Fill the parts of a block except the rows of the definition."""
        from memorisk.scores.distances.kernels import round_to_float32

        exact = out.exact
        if self.definition.weights.size or self.definition.whitening.size:
            moved, floor = self.moved(exact)
            round_to_float32(np.ascontiguousarray(moved), np.zeros(0), self.scale, self.family, self.root, out)
            out.slack[:] += floor
        else:
            round_to_float32(exact, self.centre, self.scale, self.family, self.root, out)
        if out.sketch is not None:
            sketch_rows(self.directions, out.short, out.own, out.slack, out.sketch)


def gamma(n: float) -> float:
    """Compute ``n u / (1 - n u)``, the bound of n roundings; infinite where it does not hold."""
    return n * UNIT / (1 - n * UNIT) if n * UNIT < 0.01 else np.inf


def _product_rho(d: int) -> float:
    """Return the relative bound of the family "product"."""
    return 4 * gamma(d + 8) + 2.0**-18


def _product_betas(d: int, rho: float, own: Any, both: Any) -> Any:
    """Bound the family "product" absolutely, by the squared norms [m] of the queries and the slacks of pairs."""
    own = array_library(both).asarray(own, dtype=both.dtype)
    return 3.0 * gamma(d + 8) * own * (1.0 + rho) + both**2 * (1.0 + 2.0**20) + 2.0**-100


def find_form(measure: FittedMeasure, references: Rows, exact: bool) -> Form:
    """Find centre, scale and bounds for a set of references; one pass over them.

    Args:
        measure: Measure from `fit_measure`.
        references: Table of references, checked.
        exact: Whether queries and references are of types whose values are float32 values: sums then need no centre.
    """
    parts, family, p = definition(measure), measure.measure.family, measure.p
    if p in (1.0, 2.0):
        family = "product" if p == 2 else family
    elif p is not None and (p != int(p) or p > MOST_POWERS):
        family = _NO_FORM
    centring = (family == "product" and measure.name not in BINARY) or (family == "sum" and not exact)
    centre, most = _centre_and_size(measure, references, centring, parts)
    scale, d = _scale(family, most, measure), measure.dimension
    multiplier, power, root = {
        "product": (scale, 2.0, 1.0), "sum": (scale, 1.0, 1.0), "ratio": (1.0, 0.0, 1.0), "share": (1.0, 1.0, 1.0),
        "entropy": (1.0, 2.0, 1.0), _NO_FORM: (1.0, 1.0, 1.0),
    }[family]  # fmt: skip
    rho = {"product": _product_rho(d), "sum": gamma(d + 4), "ratio": 2.1 * gamma(d + 6),
           "share": gamma(d + 8), "entropy": 0.0, _NO_FORM: 0.0}[family]  # fmt: skip
    if measure.name in UNIT_ROWS:
        multiplier, power = 2.0 * scale**2, 1.0
    elif measure.name == "sqeuclidean":
        multiplier, power = scale**2, 1.0
    elif measure.name in BINARY:
        multiplier, power, rho = (d if measure.name == "matching" else 1.0), 1.0, 0.0
        rho = rho if measure.name == "matching" else 4 * UNIT
    elif measure.name == "minkowski" and family == "sum":
        root, rho = float(p or 1), gamma(d + 2 * (p or 1) + 4)
    elif measure.name == "chebyshev":
        rho = 4 * UNIT
    if not np.isfinite(rho):
        family, rho = _NO_FORM, 0.0
    return Form(measure, parts, family, centre, scale, float(multiplier), power, root, float(rho))


def _centre_and_size(
    measure: FittedMeasure, references: Rows, centring: bool, parts: Definition
) -> tuple[FloatArray, float]:
    """Return the mean of the references where rows are centred (else nothing), and about their largest number."""
    centre, most = np.zeros(0), 0.0
    if centring:
        total: Any = 0.0
        for _, x in references.blocks():
            total = total + measure.rows(x).sum(axis=0)
        centre = total / references.n
    if measure.measure.family == "entropy" or measure.name in (*UNIT_ROWS, *BINARY):
        return centre, 1.0
    for _, x in references.blocks():
        rows = measure.rows(x)
        if measure.measure.family == "product" and not (parts.weights.size or parts.whitening.size):
            most = max(most, float(rows.max()), -float(rows.min()))  # before centring: a scale of any size will do
        else:
            most = max(most, float(abs(_weighed(rows - centre if centring else rows, parts)).max()))
    return centre, most


def _weighed(x: Any, parts: Definition) -> Any:
    """Multiply rows by the roots of the weights, or by the whitening."""
    if parts.weights.size:
        return x * convert_like(x, np.sqrt(parts.weights))
    return x @ convert_like(x, parts.whitening) if parts.whitening.size else x


def _scale(family: str, most: float, measure: FittedMeasure) -> float:
    """Return a power of two that brings the references near 1; 1 where none is needed, d / 2 for jensenshannon."""
    if family == "entropy":
        return measure.dimension / 2
    if measure.name in BINARY or most == 0:
        return 1.0
    if family in ("product", "sum") or not 2.0**-40 < most < 2.0**40:
        return float(2.0 ** -np.clip(np.floor(np.log2(most)), -300, 340))
    return 1.0


def kernel_arguments(form: Form) -> tuple[Any, ...]:
    """Return a form as arguments of the compiled scans."""
    return (*form.definition, form.multiplier, form.power, form.root, form.rho)
