"""The 14 measures of paper 003, each with its direction, domain, fitted parameters and difference from SciPy.

Names are SciPy's (``scipy.spatial.distance``); METHODS section 3. All are distances: the nearest has the smallest.
"""

from dataclasses import dataclass

from memorisk.runs.errors import unknown_name

DIRECTION = "smaller is nearer"
_ANY, _POSITIVE, _BINARY = "any", "non-negative", "binary"
_NONE = "none"
_DEFINED = "defined for every row"
_SAME = "none"


@dataclass(frozen=True)
class Measure:
    """What is known of a measure before it meets data."""

    name: str
    """SciPy's name."""
    formula: str
    """Of two rows x and y."""
    domain: str
    """"any", "non-negative" or "binary"."""
    fitted: str
    """What is taken from the references, once."""
    degenerate: str
    """What happens with zero rows and constant rows."""
    scipy: str
    """Where it differs from ``scipy.spatial.distance.cdist``; "none" where it does not."""
    family: str
    """How many pairs are evaluated at once: "product", "sum", "ratio", "share" or "entropy" (see ``bounds``)."""
    direction: str = DIRECTION
    """The same for all: METHODS section 3 names the published code that maximised distances."""


_POSITIVE_FITTED = "none; the column minimum with the domain 'shift'"
_MEASURES = (
    Measure(
        "braycurtis", "sum |x - y| / sum |x + y|", _POSITIVE, _POSITIVE_FITTED,
        "defined; two zero rows are at distance 0, opposite rows of signed data at infinity",
        "0/0 is 0 here and nan in SciPy", "ratio",
    ),
    Measure(
        "canberra", "sum |x - y| / (|x| + |y|), terms 0/0 are 0", _POSITIVE, _POSITIVE_FITTED, _DEFINED, _SAME, "share"
    ),
    Measure("chebyshev", "max |x - y|", _ANY, _NONE, _DEFINED, _SAME, "sum"),
    Measure("cityblock", "sum |x - y|", _ANY, _NONE, _DEFINED, _SAME, "sum"),
    Measure(
        "correlation", "cosine of x - mean(x) and y - mean(y)", _ANY, _NONE, "constant rows are refused by number",
        "half the squared distance of unit rows: copies are at exactly 0, where SciPy gives about 1e-16", "product",
    ),
    Measure(
        "cosine", "1 - x.y / (|x| |y|) = |x/|x| - y/|y||^2 / 2", _ANY, _NONE, "zero rows are refused by number",
        "half the squared distance of unit rows: copies are at exactly 0, where SciPy gives about 1e-16", "product",
    ),
    Measure(
        "dice", "(TF + FT) / (2 TT + TF + FT)", _BINARY, "the column medians", "defined; two rows of False are at 0",
        "0/0 is 0 here and nan in SciPy", "product",
    ),
    Measure("euclidean", "(sum (x - y)^2)^(1/2)", _ANY, _NONE, _DEFINED, _SAME, "product"),
    Measure(
        "jensenshannon", "((KL(p|m) + KL(q|m)) / 2)^(1/2) in nats, p = x / sum x, q = y / sum y, m = (p + q) / 2",
        _POSITIVE, _POSITIVE_FITTED, "zero rows are refused by number",
        "copies are at exactly 0, where SciPy gives up to 1e-8, or nan where rounding makes the sum negative; SciPy "
        "gives inf for zero rows; the domain 'signed' takes |x|", "entropy",
    ),
    Measure(
        "mahalanobis", "((x - y)' S^-1 (x - y))^(1/2)", _ANY,
        "the covariance S of the references (ddof = 1), its Ledoit-Wolf form where n <= d or S is singular", _DEFINED,
        "SciPy without VI fits S to queries and references together, at every call", "product",
    ),
    Measure(
        "matching", "share of columns that differ (Hamming)", _BINARY, "the column medians", _DEFINED,
        "called hamming in newer versions", "product",
    ),
    Measure(
        "minkowski", "(sum |x - y|^p)^(1/p)", _ANY, _NONE, _DEFINED,
        "p = 3 unless given, SciPy's is 2 (then it is euclidean)", "sum",
    ),
    Measure(
        "seuclidean", "(sum (x - y)^2 / V)^(1/2)", _ANY,
        "the column variances V of the references (ddof = 1); constant columns are ignored and counted", _DEFINED,
        "SciPy without V fits it to queries and references together, and gives nan for constant columns", "product",
    ),
    Measure("sqeuclidean", "sum (x - y)^2", _ANY, _NONE, _DEFINED, _SAME, "product"),
)  # fmt: skip

MEASURES: dict[str, Measure] = {measure.name: measure for measure in _MEASURES}
"""The 14 measures by name."""


def find_measure(name: str) -> Measure:
    """The measure of a name.

    Raises:
        InputError: There is none; the nearest name is said.
    """
    if name not in MEASURES:
        raise unknown_name("measure", name, MEASURES)
    return MEASURES[name]
