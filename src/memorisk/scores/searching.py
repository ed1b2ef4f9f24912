"""Searches over all pairs, as one thing that is handed in: here by default, elsewhere by whoever has other machines.

Whatever stands behind it, answers are those of `memorisk.scores.distances` and `memorisk.scores.pairs`, bit for bit.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.scores import distances, pairs
from memorisk.scores.distances import FittedMeasure, Neighbours
from memorisk.scores.pairs import Head, Survey


class Search(Protocol):
    """Looks at all pairs of two tables."""

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
        """As `memorisk.scores.distances.nearest`."""
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
        """As `memorisk.scores.distances.histogram`."""
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
        """As `memorisk.scores.pairs.survey`."""
        ...


@dataclass(frozen=True)
class SearchHere:
    """By the threads of this process."""

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
        asked = {"threshold": threshold, "limit": limit, "k": k, "edges": edges, "exclude_same": exclude_same}
        return pairs.survey(u, v, head.weight, head.bias, device=device, **asked)


HERE = SearchHere()
