"""Settings of a plan of a search over all pairs (`memorisk plan pairs`). Loads nothing heavy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memorisk.runs.errors import InputError

if TYPE_CHECKING:
    from memorisk.scores.search_cost import Card

HEAD = "head"
"""Name of the measure of a Siamese detector."""


@dataclass(frozen=True, kw_only=True)
class PairPlanOptions:
    """Sizes, measure and machines of a search to be planned."""

    synthetic: int
    """Number of synthetic images: rows of the first table."""

    train: int | None = None
    """Number of training images, the rows of the second table; by default all pairs of the synthetic images are
    compared, each once."""

    width: int = 512
    """Dimension of the vectors."""

    measure: str = HEAD
    """Measure: head (that of a Siamese detector), or one of the 15 distance measures."""

    neighbours: int = 1
    """Number of most similar images that are kept of each image."""

    listed: int = 0
    """Most pairs above a threshold that are listed; 0 for none."""

    bins: int = 0
    """Bins of a histogram of all pairs; 0 for no histogram."""

    workers: int = 1
    """Number of processes, or of machines like this one."""

    card: str | None = None
    """GPU by its name, such as A100 or H200."""

    rate: float | None = None
    """Peak of the GPU in 1e12 float32 operations per second, instead of --card. A multiply-add counts as two."""

    memory: float | None = None
    """Memory of the GPU in GB (1e9 bytes), with --rate."""

    cards: int = 1
    """Number of GPUs, each with a part of the first table."""

    share: float | None = None
    """Share of the peak that a search reaches, as you measured it; without it the hours are a lower bound."""

    timing: bool = True
    """Time a small search on this machine."""

    def validate(self) -> None:
        """Refuse what cannot be.

        Raises:
            InputError: A number below 1, a share beyond 1, half a card, or no such measure.
        """
        for name in ("synthetic", "width", "neighbours", "workers", "cards"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give at least 1")
        for name in ("listed", "bins"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; give at least 0")
        if self.train is not None and self.train < 1:
            raise InputError(f"train is {self.train}; give at least 1")
        if self.measure != HEAD:
            from memorisk.scores.distances import find_measure  # NumPy, which --help does without

            find_measure(self.measure)
        if self.card is not None and (self.rate, self.memory) != (None, None):
            raise InputError("card names a GPU and rate and memory describe one: give either")
        if (self.rate is None) != (self.memory is None):
            raise InputError("rate and memory describe a GPU together: give both")
        if self.share is not None and not 0 < self.share <= 1:
            raise InputError(f"share is {self.share}; it must lie between 0 and 1")
        if self.share is not None and self.chosen_card is None:
            raise InputError("share is of a card's peak: name the card, or give rate and memory")

    @property
    def chosen_card(self) -> "Card | None":
        """GPU of the plan; None for a plan without GPUs."""
        from memorisk.scores.search_cost import Card, find_card  # NumPy, too

        if self.card is not None:
            return find_card(self.card)
        if self.rate is None or self.memory is None:
            return None
        return Card("own", self.rate * 1e12, self.memory * 1e9)
