"""Likeness of images by their parts: the most alike of several windows, exactly, over all pairs.

A copy may show a part of its source (a crop), show it turned, or hold a part of it (a region that was pasted). The
vector of a whole image then says little, and the vector of the right window says much. An image is here a table of
vectors, one for each of its windows, each centred, whitened and brought to length 1 (`PartsMeasure`). Two images x and
y are at the distance

    min over the pairs of windows (i, j) that are compared of |x_i - y_j|^2 / 2  =  1 - cosine.

Which pairs are compared is the `Comparison`: ``PLACES`` compares windows at the same place, ``VIEWS`` compares the
whole copy (the first window) with every window of the source, turned ones among them. Roles differ there: ``nearest``
takes copies as queries, ``reversed`` takes sources. The search reads only the first window of a copy, so that a copy's
table may end with it. Of a volume each window is one of each of its slices, and windows of the same slice are compared.

A window without details has no vector and is a row of zeros. Its distance from every other window is `NO_WINDOW`.

The search multiplies in float32 and computes anew, by the definition in float64, every pair that rounding could have
hidden: with u = 2^-24 a product of k numbers is off by at most ``k u / (1 - k u)`` times the lengths (Higham 2002,
theorem 3.1), and unit rows in float32 are off by at most 2 u.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.rows import team
from memorisk.scores.similarity import Nearest, ThresholdPairs

FloatArray = NDArray[np.float64]
Comparison = Literal["places", "views"]
PLACES: Comparison = "places"
VIEWS: Comparison = "views"
NO_WINDOW = 1.0
"""Distance of a window without details: that of vectors at right angles."""
_TILES, _LEAST_TILE = 1 << 24, 1 << 21
"""Numbers in the tiles of all threads together, 64 MiB in float32; and in one tile at least, for fast products."""
_BLOCK = 1 << 6
"""Pairs of a tile's row in one block, of which the search looks at the most alike first."""
_IMAGES = 1 << 10
"""Number of images whose windows are whitened at a time."""
_PAIRS = 1 << 14
"""Number of pairs that are computed by the definition at a time."""
_ROUNDING = 2.0**-24


@dataclass(frozen=True, eq=False)
class PartsMeasure:
    """Common part of windows, which is taken away before they are compared."""

    mean: FloatArray
    """Mean of the unit vectors of all windows, [d]."""
    whitening: FloatArray
    """Directions of most variance, divided by their deviation, [d, k]."""

    def rows(self, vectors: ArrayLike) -> NDArray[np.float32]:
        """Bring windows to unit rows.

        Args:
            vectors: Vectors of windows, [n, W, d]; zeros for a window without details.

        Returns:
            Rows of length 1, or 0 for a window without details, [n, W, k].
        """
        table = np.asarray(vectors)
        rows = np.empty((*table.shape[:2], self.whitening.shape[1]), np.float32)
        for start in range(0, len(table), _IMAGES):
            rows[start : start + _IMAGES] = self._unit_rows(table[start : start + _IMAGES].astype(np.float64))
        return rows

    def _unit_rows(self, x: FloatArray) -> FloatArray:
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        there = length > 0
        whitened = (np.divide(x, length, out=np.zeros_like(x), where=there) - self.mean) @ self.whitening
        size = np.linalg.norm(whitened, axis=-1, keepdims=True)
        return np.divide(whitened, size, out=np.zeros_like(whitened), where=there & (size > 0))


def fit_parts(vectors: ArrayLike, components: int, *, floor: float = 0.0) -> PartsMeasure:
    """Fit the mean and the directions of most variance of windows.

    Args:
        vectors: Vectors of the windows of real images, training and held out alike, [n, W, d].
        components: Number of directions, k; fewer where there are not as many.
        floor: Share of the median variance of these directions that is added to each.

    Returns:
        Measure of the windows; directions without variance are left out.

    Raises:
        InputError: Fewer than two windows have details, or all windows are alike.
    """
    x = np.asarray(vectors, dtype=np.float64)
    x = x.reshape(-1, x.shape[-1])
    length = np.linalg.norm(x, axis=1)
    unit = x[length > 0] / length[length > 0, None]
    if len(unit) < 2:
        raise InputError("fewer than two windows of the real images have details, so that parts cannot be compared")
    from sklearn.covariance import LedoitWolf

    mean = unit.mean(axis=0)
    shrunk = LedoitWolf(assume_centered=True, store_precision=False).fit(unit - mean)
    values, directions = np.linalg.eigh(np.asarray(shrunk.covariance_))
    values, directions = values[::-1][:components], directions[:, ::-1][:, :components]
    telling = values > np.finfo(np.float32).eps ** 2  # smaller values come from rounding the vectors to float32
    if not telling.any():
        raise InputError("the windows of the real images are all alike, so that parts cannot be compared")
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])])
    return PartsMeasure(
        mean,
        np.ascontiguousarray((signs * directions / np.sqrt(values + floor * np.median(values[telling])))[:, telling]),
    )


@dataclass(frozen=True, eq=False)
class PartsSimilarity:
    """Minus the distance of the most alike windows of two images.

    Attributes:
        measure: Measure of the windows.
        windows: W, the number of windows of a source; rows are [n, W * d], the windows one after the other.
        comparison: Pairs of windows that are compared.
        sources_ask: Whether the first image of a pair is the source and the second one the copy.
        slices: Number of slices of an image; the W windows are those of the first window in each slice, and so on.
    """

    measure: PartsMeasure
    windows: int
    comparison: Comparison
    sources_ask: bool = False
    slices: int = 1

    at_half = float("nan")

    @property
    def words(self) -> str:
        """Describe the comparison for a report."""
        of = "" if self.slices == 1 else f" of {self.slices} slices"
        n = self.windows // self.slices
        if n == 1:
            return f"distance of whitened vectors{of and f', the most alike{of}'}"
        how = "at the same place" if self.comparison == PLACES else "of a training image with the whole of the other"
        return f"distance of the most alike of {n} windows{of} {how}"

    @property
    def reversed(self) -> "PartsSimilarity":
        """Return the same comparison with the roles of copy and source exchanged."""
        return replace(self, sources_ask=not self.sources_ask)

    def scores(self, first: Any, second: Any) -> FloatArray:
        """Compare each image with the image of the same row, by the definition in float64: [n]."""
        first_windows, second_windows = self._tables(first, second)
        return -self._distances(
            first_windows, second_windows, np.arange(len(first_windows)), np.arange(len(second_windows))
        )

    def nearest(
        self, queries: Any, references: Any, k: int = 1, *, exclude_same: Any = None, device: str = "cpu"
    ) -> Nearest:
        """Search the k references most alike to every query, exactly, ties by the lower row.

        Args:
            queries: Images, [q, W * d]; copies, or sources in the ``reversed`` similarity.
            references: Images to search, [n, W * d].
            k: Number of references per query.
            exclude_same: Groups of the queries and of the references; pairs of one group are left out.
            device: Not used: parts are compared on the CPU.
        """
        query_windows, reference_windows = self._tables(queries, references)
        nearest, slack = _no_references(len(query_windows), k), 2 * self._slack(query_windows)

        def rank(first: int, tile: NDArray[np.float32]) -> None:
            self._rank_queries(nearest, query_windows, reference_windows, first, tile, slack)

        self._over_tiles(rank, query_windows, reference_windows, exclude_same)
        return nearest

    def nearest_both_ways(self, queries: Any, references: Any, k: int = 1) -> tuple[Nearest, Nearest]:
        """Search in one pass what two searches find: `nearest`, and that of the ``reversed`` similarity with k of 1.

        Args:
            queries: Images, [q, W * d]; copies, or sources in the ``reversed`` similarity.
            references: Images to search, [n, W * d].
            k: Number of references per query.

        Returns:
            References most alike to every query, k each, and the query most alike to every reference.
        """
        query_windows, reference_windows = self._tables(queries, references)
        nearest, back, slack = (
            _no_references(len(query_windows), k),
            _no_references(len(reference_windows), 1),
            2 * self._slack(query_windows),
        )
        some = reference_windows.any(axis=(1, 2))
        best = np.where(some, np.float32(-np.inf), np.float32(np.inf))  # no tile reaches that of an empty reference
        lists, lock = [], Lock()

        def rank(first: int, tile: NDArray[np.float32]) -> None:
            self._rank_queries(nearest, query_windows, reference_windows, first, tile, slack)
            of_tile = tile.max(axis=0)
            with lock:
                cut = np.maximum(best, of_tile, out=best) - slack
            query, reference = _places(tile >= cut)
            lists.append((query + first, reference, tile[query, reference]))

        self._over_tiles(rank, query_windows, reference_windows)
        if not lists:
            return nearest, back
        query, reference, product = (np.concatenate(column) for column in zip(*lists, strict=True))
        near = product >= best[reference] - slack
        query, reference = query[near], reference[near]
        _rank(back, reference, query, -self._distances(query_windows, reference_windows, query, reference))
        back.rows[~some], back.scores[~some] = 0, -NO_WINDOW  # every query is as near: the first one wins the tie
        return nearest, back

    def _rank_queries(
        self, nearest: Nearest, left: NDArray, right: NDArray, first: int, tile: NDArray, slack: float
    ) -> None:
        """Enter the nearest references of the queries of a tile."""
        k = min(nearest.rows.shape[1], tile.shape[1])
        allowed = tile > -np.inf
        near = (tile >= (_kth_largest(tile, k) - slack)[:, None]) & allowed
        empty = ~left[first : first + len(tile)].any(axis=(1, 2))  # all are as near: the first ones win the tie
        near[empty] = allowed[empty] & (np.cumsum(allowed[empty], axis=1) <= k)
        query, reference = _places(near)
        _rank(nearest, query + first, reference, -self._distances(left, right, query + first, reference))

    def reaching(
        self,
        queries: Any,
        references: Any,
        threshold: float,
        *,
        limit: int | None = 1_000_000,
        exclude_same: Any = None,
        device: str = "cpu",
    ) -> ThresholdPairs:
        """Search all pairs with at least this score; the most alike ``limit`` of them are listed."""
        query_windows, reference_windows = self._tables(queries, references)
        lists = []

        def collect(first: int, tile: NDArray[np.float32]) -> None:
            query, reference = _places(tile >= threshold + NO_WINDOW - self._slack(query_windows))
            exact = -self._distances(query_windows, reference_windows, query + first, reference)
            there = exact >= threshold
            lists.append((query[there] + first, reference[there], exact[there]))

        self._over_tiles(collect, query_windows, reference_windows, exclude_same)
        query, reference, score = (np.concatenate(column) for column in zip(*lists, strict=True))
        order = np.lexsort((reference, query, -score))[:limit]
        return ThresholdPairs(query[order], reference[order], score[order], len(score))

    def histogram(
        self, values: Any, edges: ArrayLike, *, exclude_same: Any = None, device: str = "cpu"
    ) -> NDArray[np.int64]:
        """Refuse: which of two images is the copy is not known where every pair counts once."""
        raise InputError("pairs of images are not counted by their parts: choose another detector")

    def _tables(self, queries: Any, references: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Bring the windows that are compared to unit rows: [q, W, k] and [n, W, k], or the whole ones alone."""
        return self._rows(queries, self.sources_ask), self._rows(references, not self.sources_ask)

    def _rows(self, table: Any, sources: bool) -> NDArray[np.float32]:
        values = np.asarray(table)
        windows = values.reshape(len(values), -1, len(self.measure.mean))
        return self.measure.rows(windows[:, : self.windows if sources or self.comparison == PLACES else self.slices])

    def _pairs(self, left: NDArray, right: NDArray) -> Iterator[tuple[NDArray, NDArray]]:
        """Yield the tables of windows [n, k] and [m, k] that are compared."""
        for w in range(self.windows):
            yield left[:, w % left.shape[1]], right[:, w % right.shape[1]]

    def _distances(self, left: NDArray, right: NDArray, one: NDArray, other: NDArray) -> FloatArray:
        """Compute the distances of pairs of rows, [p], by the definition."""
        least = np.full(len(one), NO_WINDOW)
        for start in range(0, len(one), _PAIRS):
            some = slice(start, start + _PAIRS)
            for x, y in self._pairs(left, right):
                first, second = x[one[some]].astype(np.float64), y[other[some]].astype(np.float64)
                there = first.any(axis=1) & second.any(axis=1)
                apart = np.where(there, np.square(first - second).sum(axis=1) / 2, NO_WINDOW)
                np.minimum(least[some], apart, out=least[some])
        return least

    def _slack(self, rows: NDArray) -> float:
        """Return the largest difference between a product in float32 and 1 less the distance."""
        return (rows.shape[-1] + 8) * 2 * _ROUNDING

    def _over_tiles(
        self,
        function: Callable[[int, NDArray[np.float32]], None],
        left: NDArray,
        right: NDArray,
        exclude_same: Any = None,
    ) -> None:
        """Call a function on the first query and the products [b, n] of blocks of queries with all references.

        Threads take one block each, in no order: the maximum over windows then takes as many cores as the products do.
        Products of pairs that are left out are -inf.
        """
        same: Callable[[slice], NDArray[np.bool_]] | None = None
        if exclude_same is not None:
            ids = np.unique(np.concatenate([np.asarray(part) for part in exclude_same]), return_inverse=True)[1]
            mine, theirs = ids[: len(left)], ids[len(left) :]
            same = lambda rows: mine[rows, None] == theirs[None]  # noqa: E731

        def multiply(rows: slice) -> None:
            tile = np.zeros((rows.stop - rows.start, len(right)), np.float32)  # that of windows without details
            product = np.empty_like(tile)
            for x, y in self._pairs(left[rows], right):
                np.maximum(tile, np.matmul(x, y.T, out=product), out=tile)
            if same is not None:
                tile[same(rows)] = -np.inf
            function(rows.start, tile)

        with team(None) as threads:
            tile = max(_LEAST_TILE, _TILES // threads.threads)
            step = min(max(1, tile // max(1, len(right))), max(1, -(-len(left) // threads.threads)))
            threads.run_parts(multiply, len(left), step)


def _no_references(n: int, k: int) -> Nearest:
    """Return an answer for n queries without any reference."""
    return Nearest(np.full((n, k), -1, np.int64), np.full((n, k), -np.inf))


def _places(marked: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the marked pairs, [p] each, in order; few are, so that one flat pass is fastest."""
    rows, columns = np.divmod(np.flatnonzero(marked), marked.shape[1])
    return rows, columns


def _rank(nearest: Nearest, query: NDArray, reference: NDArray, score: NDArray) -> None:
    """Enter the references of some queries, [p] pairs each, the most alike first and ties by the lower row."""
    order = np.lexsort((reference, -score, query))
    query, reference, score = query[order], reference[order], score[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    some = place < nearest.rows.shape[1]
    nearest.rows[query[some], place[some]] = reference[some]
    nearest.scores[query[some], place[some]] = score[some]


def _kth_largest(tile: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """Return a value at most the k-th largest of each row, and seldom less: [b].

    It is the k-th largest of the largest ones of blocks of the row.
    """
    n, size = tile.shape[1], max(1, min(_BLOCK, tile.shape[1] // (2 * k)))
    largest = np.maximum.reduceat(tile, np.arange(0, n, size), axis=1)
    return np.partition(largest, -k, axis=1)[:, -k]
