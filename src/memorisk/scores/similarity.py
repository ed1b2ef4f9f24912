"""Similarity of two vectors by whatever a detector was made with: a head's logit, or minus a distance.

Larger is more alike, for every detector; thresholds of different detectors do not compare. A `Search` looks at all
pairs of two tables. It is handed in: by default the threads of this process search, elsewhere whoever has other
machines. Whatever stands behind it, all answers are exact: those of `memorisk.scores.pairs` and
`memorisk.scores.distances`, bit for bit.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.scores import distances, pairs
from memorisk.scores.distances import FittedMeasure, Neighbours, rowwise
from memorisk.scores.distances.rows import FloatArray
from memorisk.scores.pairs import Head, Survey


class Search(Protocol):
    """Search over all pairs of two tables."""

    def nearest(
        self,
        queries: Any,
        references: Any,
        measure: FittedMeasure,
        k: int = 1,
        *,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> Neighbours:
        """Search as `memorisk.scores.distances.nearest` does."""
        ...

    def histogram(
        self,
        queries: Any,
        references: Any,
        measure: FittedMeasure,
        edges: ArrayLike,
        *,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> NDArray[np.int64]:
        """Count as `memorisk.scores.distances.histogram` does."""
        ...

    def survey(
        self,
        u: Any,
        v: Any,
        head: Head,
        *,
        threshold: float | None = None,
        limit: int | None = 1_000_000,
        k: int | None = None,
        edges: ArrayLike | None = None,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> Survey:
        """Search as `memorisk.scores.pairs.survey` does."""
        ...


@dataclass(frozen=True)
class LocalSearch:
    """Search by the threads of this process."""

    def nearest(
        self,
        queries: Any,
        references: Any,
        measure: FittedMeasure,
        k: int = 1,
        *,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> Neighbours:
        """See `Search`."""
        return distances.nearest(queries, references, measure, k, exclude_same=exclude_same, device=device)

    def histogram(
        self,
        queries: Any,
        references: Any,
        measure: FittedMeasure,
        edges: ArrayLike,
        *,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> NDArray[np.int64]:
        """See `Search`."""
        return distances.histogram(queries, references, measure, edges, exclude_same=exclude_same, device=device)

    def survey(
        self,
        u: Any,
        v: Any,
        head: Head,
        *,
        threshold: float | None = None,
        limit: int | None = 1_000_000,
        k: int | None = None,
        edges: ArrayLike | None = None,
        exclude_same: Any = None,
        device: str = "auto",
    ) -> Survey:
        """See `Search`."""
        request = {"threshold": threshold, "limit": limit, "k": k, "edges": edges, "exclude_same": exclude_same}
        return pairs.survey(u, v, head.weight, head.bias, device=device, **request)


LOCAL_SEARCH = LocalSearch()


Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Nearest:
    """The references most alike to every query."""

    rows: Ids
    """[n, k] rows of the references, the most alike first, ties by the lower row; -1 where there are fewer than k."""
    scores: FloatArray
    """[n, k]; -inf where there is no row."""


@dataclass(frozen=True, eq=False)
class ThresholdPairs:
    """Pairs of rows that reach a threshold."""

    queries: Ids
    """[p] rows of the queries; sorted by score, the most alike first, ties by the lower rows."""
    references: Ids
    """[p] rows of the references."""
    scores: FloatArray
    """[p]."""
    count: int
    """All that reach it, whether they are listed or not."""


class Similarity(Protocol):
    """Similarity of two vectors."""

    @property
    def at_half(self) -> float:
        """Score at which the probability of the same identity is one half; NaN where there are no probabilities."""
        ...

    @property
    def words(self) -> str:
        """Describe the similarity for a report."""
        ...

    @property
    def reversed(self) -> "Similarity":
        """Return the similarity for sources that search their copies; the same where roles do not count."""
        ...

    def scores(self, first: Any, second: Any) -> FloatArray:
        """[n] of each row with the row beside it, by definition in float64."""
        ...

    def nearest(
        self, queries: Any, references: Any, k: int = 1, *, exclude_same: Any = None, device: str = "cpu"
    ) -> Nearest:
        """The k references most alike to every query; those of its own group left out by ``exclude_same``."""
        ...

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
        """All pairs with at least this score; the most alike ``limit`` of them listed."""
        ...

    def histogram(
        self, values: Any, edges: ArrayLike, *, exclude_same: Any = None, device: str = "cpu"
    ) -> NDArray[np.int64]:
        """[b] pairs of rows by score, each pair once; without those of one of the [n] groups ``exclude_same``."""
        ...

    def searched_by(self, search: Search) -> "Similarity":
        """Return the same similarity, with its searches over all pairs made by another, with the same answers."""
        ...


@dataclass(frozen=True, eq=False)
class HeadSimilarity:
    """The logit of a Siamese head: ``bias + sum_k weight_k |u_k - v_k|``."""

    head: Head
    search: Search = LOCAL_SEARCH
    """Search over all pairs."""

    at_half = 0.0
    words = "logit of the detector's head"

    @property
    def reversed(self) -> "HeadSimilarity":
        """Return itself: roles do not count."""
        return self

    def scores(self, first: Any, second: Any) -> FloatArray:
        """Compute [n] logits; the same both ways round, to the bit."""
        return pairs.rowwise(first, second, self.head.weight, self.head.bias)

    def nearest(
        self, queries: Any, references: Any, k: int = 1, *, exclude_same: Any = None, device: str = "cpu"
    ) -> Nearest:
        """Search by `memorisk.scores.pairs.survey`."""
        nearest = self.search.survey(queries, references, self.head, k=k, exclude_same=exclude_same, device=device).top
        assert nearest is not None
        return Nearest(nearest.indices, nearest.logits)

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
        """Search by `memorisk.scores.pairs.survey`."""
        how = {"limit": limit, "exclude_same": exclude_same, "device": device}
        reaching = self.search.survey(queries, references, self.head, threshold=threshold, **how).pairs
        assert reaching is not None
        return ThresholdPairs(reaching.first, reaching.second, reaching.logit, reaching.count)

    def histogram(
        self, values: Any, edges: ArrayLike, *, exclude_same: Any = None, device: str = "cpu"
    ) -> NDArray[np.int64]:
        """Count by `memorisk.scores.pairs.survey`; bins hold their lower edge."""
        counts = self.search.survey(
            values, None, self.head, edges=edges, exclude_same=exclude_same, device=device
        ).counts
        assert counts is not None
        return counts

    def searched_by(self, search: Search) -> "HeadSimilarity":
        """Return the same head with another search."""
        return replace(self, search=search)


@dataclass(frozen=True, eq=False)
class MeasureSimilarity:
    """Minus a distance."""

    measure: FittedMeasure
    search: Search = LOCAL_SEARCH
    """Search over all pairs."""

    at_half = float("nan")

    @property
    def words(self) -> str:
        """Describe the measure with its fitted parts."""
        return f"minus the distance ({self.measure.plain_words})"

    @property
    def reversed(self) -> "MeasureSimilarity":
        """Return itself: roles do not count."""
        return self

    def scores(self, first: Any, second: Any) -> FloatArray:
        """Compute [n] by `memorisk.scores.distances.rowwise`."""
        return -rowwise(first, second, self.measure)

    def nearest(
        self, queries: Any, references: Any, k: int = 1, *, exclude_same: Any = None, device: str = "cpu"
    ) -> Nearest:
        """Search by `memorisk.scores.distances.nearest`."""
        neighbours = self.search.nearest(queries, references, self.measure, k, exclude_same=exclude_same, device=device)
        return Nearest(neighbours.indices, -neighbours.distances)

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
        """Ask for neighbours, twice as many of the queries whose last one still reaches the score, until none does."""
        queries_left, n = np.arange(len(queries)), len(references)
        k, lists = 1, []
        while len(queries_left):
            k = min(k, n)
            groups = None if exclude_same is None else (np.asarray(exclude_same[0])[queries_left], exclude_same[1])
            neighbours = self.nearest(queries[queries_left], references, k, exclude_same=groups, device=device)
            more = (neighbours.scores[:, -1] >= threshold) & (neighbours.rows[:, -1] >= 0) & (k < n)
            place, column = np.nonzero((neighbours.scores >= threshold) & (neighbours.rows >= 0) & ~more[:, None])
            lists.append((queries_left[place], neighbours.rows[place, column], neighbours.scores[place, column]))
            queries_left, k = queries_left[more], 4 * k
        first, second, score = (np.concatenate(column) for column in zip(*lists, strict=True))
        order = np.lexsort((second, first, -score))[:limit]
        return ThresholdPairs(first[order], second[order], score[order], len(score))

    def histogram(
        self, values: Any, edges: ArrayLike, *, exclude_same: Any = None, device: str = "cpu"
    ) -> NDArray[np.int64]:
        """Count by `memorisk.scores.distances.histogram`, which meets each pair twice; bins hold their upper edge."""
        groups = np.arange(len(values)) if exclude_same is None else exclude_same
        bounds = -np.asarray(edges, dtype=np.float64)[::-1]
        how = {"exclude_same": (groups, groups), "device": device}
        return self.search.histogram(values, values, self.measure, bounds, **how)[::-1] // 2

    def searched_by(self, search: Search) -> "MeasureSimilarity":
        """Return the same measure with another search."""
        return replace(self, search=search)
