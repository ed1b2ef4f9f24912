"""memorisk's side of the cases about sets of vectors: nearest neighbours, quality, copying."""

from collections.abc import Callable
from functools import partial

import numpy as np

from memorisk.scores.distances import fit_measure, nearest
from memorisk.statistics.copies.copy_tests import authenticity, copying_z, data_copying
from memorisk.statistics.copies.reversed_queries import reversed_queries
from memorisk.statistics.quality.frechet import frechet_distance
from memorisk.statistics.quality.kernel import subset_kernel_distance
from memorisk.statistics.quality.manifold import precision_recall

Arrays = dict[str, np.ndarray]
Call = Callable[[], Arrays]
Prepare = Callable[[Arrays], Call]
SETS = ("honest", "copies", "drawn_together")


def search(data: Arrays, measure: str) -> Call:
    """The ten nearest of every query."""
    queries, references = data["queries"], data["references"]
    nearest(queries[:64], references[:64], fit_measure(measure, references[:64]), 10, threads=1)  # compiles

    def run() -> Arrays:
        """Exact."""
        found = nearest(queries, references, fit_measure(measure, references), 10, threads=1)
        return {"rows": found.indices, "distances": found.distances}

    return run


def fid(data: Arrays) -> Call:
    """The figure alone, as the peer."""
    return lambda: {"values": np.array([frechet_distance(data["real"], data["synthetic"], intervals=False).estimate])}


def kid(data: Arrays) -> Call:
    """The published form over subsets."""

    def run() -> Arrays:
        """Mean and deviation."""
        found = subset_kernel_distance(data["real"], data["synthetic"], subsets=20, size=len(data["real"]) // 2)
        return {"values": np.array([found.mean, found.deviation])}

    return run


def prc(data: Arrays) -> Call:
    """Figures alone, as the peer."""

    def run() -> Arrays:
        """Precision and recall."""
        found = precision_recall(data["real"], data["synthetic"], intervals=False)
        return {"values": np.array([found.precision.estimate, found.recall.estimate])}

    return run


def _near(queries: np.ndarray, references: np.ndarray, *, own: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(queries))
    same = (rows, rows) if own else None
    measure = fit_measure("euclidean", references)
    found = nearest(queries, references, measure, exclude_same=same, threads=1)
    return found.distances[:, 0], found.indices[:, 0]


def authentic(data: Arrays) -> Call:
    """Percentage of each set."""
    train = data["train"]

    def run() -> Arrays:
        """By the definition of the text."""
        own = _near(train, train, own=True)[0]
        found = [authenticity(*_near(data[name], train), own).share for name in SETS]
        return {"values": np.array([100 * one.estimate for one in found])}

    return run


def c_t(data: Arrays) -> Call:
    """Distances to the training images of the cell, and the statistic."""
    return lambda: {"values": np.array([_c_t(data, name) for name in SETS])}


def _by_cell(data: Arrays, name: str) -> np.ndarray:
    found = np.empty(len(data[f"cell.{name}"]))
    for cell in np.unique(data["cell.train"]):
        rows = data[f"cell.{name}"] == cell
        if rows.any():
            found[rows] = _near(data[f"reduced.{name}"][rows], data["reduced.train"][data["cell.train"] == cell])[0]
    return found


def _c_t(data: Arrays, name: str) -> float:
    given = (_by_cell(data, name), _by_cell(data, "test"), data[f"cell.{name}"], data["cell.test"])
    return data_copying(*given, least=21).c_t


def ahead(data: Arrays) -> Call:
    """The question memorisk asks instead: are training images nearer to the set than every held-out one is?"""

    def run() -> Arrays:
        """The p-value of each set as a whole, from the distances of real images to it."""
        found = []
        for name in SETS:
            train, held = (_near(data[side], data[name])[0] for side in ("train", "test"))
            found.append(reversed_queries(train, held).p_ahead)
        return {"values": np.array(found)}

    return run


def continuous(data: Arrays) -> np.ndarray:
    """C_T with the continuity correction of half a rank in every cell."""
    found = []
    for name in SETS:
        own, test = _by_cell(data, name), _by_cell(data, "test")
        z, weight = [], []
        for cell in np.unique(data["cell.train"]):
            q, p = own[data[f"cell.{name}"] == cell], test[data["cell.test"] == cell]
            if len(q) > 20:
                m, n = len(q), len(p)
                z.append(copying_z(q, p) + 0.5 / np.sqrt(m * n * (m + n + 1) / 12))
                weight.append(n)
        found.append(np.average(z, weights=weight) if z else np.nan)
    return np.array(found)


CASES: dict[str, Prepare] = {
    "squared_euclidean": partial(search, measure="sqeuclidean"),
    "cosine": partial(search, measure="cosine"),
    "fid": fid,
    "kid": kid,
    "precision_recall": prc,
    "authenticity": authentic,
    "c_t": c_t,
    "ahead": ahead,
}
EXPLAINED: dict[str, Callable[[Arrays], np.ndarray]] = {"continuous": continuous}
