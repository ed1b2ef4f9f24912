"""Similarity of two vectors by the measure of a detector: a head's logit, or minus a distance.

Larger is more alike, for every detector; thresholds of different detectors do not compare. A `Search` looks at all
pairs of two tables. The caller passes it: by default the threads of this process search; another `Search` may use
other machines. All answers of every `Search` are exact: those of `memorisk.scores.pairs` and
`memorisk.scores.distances`, bit for bit.
"""

from dataclasses import dataclass
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
        """Search with `distances.nearest` in this process."""
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
        """Count with `distances.histogram` in this process."""
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
        """Search with `pairs.survey` in this process."""
        request = {"threshold": threshold, "limit": limit, "k": k, "edges": edges, "exclude_same": exclude_same}
        return pairs.survey(u, v, head.weight, head.bias, device=device, **request)


LOCAL_SEARCH = LocalSearch()


Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Nearest:
    """The references most alike to every query."""

    rows: Ids
    """Rows of the references, [n, k], the most alike first, ties by the lower row; -1 where there are fewer than k."""
    scores: FloatArray
    """Similarity of these references, [n, k]; -inf where a row is missing."""


@dataclass(frozen=True, eq=False)
class ThresholdPairs:
    """Pairs of rows that reach a threshold."""

    queries: Ids
    """Rows of the queries, [p]; sorted by score, the most alike first, ties by the lower rows."""
    references: Ids
    """Rows of the references, [p]."""
    scores: FloatArray
    """Similarity of each pair, [p]."""
    count: int
    """Number of all pairs that reach the threshold, whether they are listed or not."""


class Similarity(Protocol):
    """Similarity of two vectors, with its searches over tables."""

    @property
    def at_half(self) -> float:
        """Score at which the probability of the same identity is one half; NaN for scores without probabilities."""
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
        """Compare each row with the row of the same number, by definition in float64: [n]."""
        ...

    def nearest(
        self, queries: Any, references: Any, k: int = 1, *, exclude_same: Any = None, device: str = "cpu"
    ) -> Nearest:
        """Search the k references most alike to every query; ``exclude_same`` leaves out those of its own group."""
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
        """Search all pairs with at least this score; the most alike ``limit`` of them are listed."""
        ...

    def histogram(
        self, values: Any, edges: ArrayLike, *, exclude_same: Any = None, device: str = "cpu"
    ) -> NDArray[np.int64]:
        """Count pairs of rows by score, each pair once: [b]; ``exclude_same`` leaves out pairs of one of [n] groups."""
        ...


@dataclass(frozen=True, eq=False)
class HeadSimilarity:
    """Logit of a Siamese head: ``bias + sum_k weight_k |u_k - v_k|``."""

    head: Head
    search: Search = LOCAL_SEARCH
    """Search that finds neighbours and pairs."""

    at_half = 0.0
    words = "logit of the detector's head"

    @property
    def reversed(self) -> "HeadSimilarity":
        """Return itself: roles do not count."""
        return self

    def scores(self, first: Any, second: Any) -> FloatArray:
        """Compute [n] logits; exchanging the two sides does not change a bit."""
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


@dataclass(frozen=True, eq=False)
class MeasureSimilarity:
    """Similarity as minus a distance."""

    measure: FittedMeasure
    search: Search = LOCAL_SEARCH
    """Search that finds neighbours and pairs."""

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
        """Compute [n] similarities by `memorisk.scores.distances.rowwise`."""
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
        """Search neighbours, more of the queries whose last one still reaches the score, until none does."""
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
