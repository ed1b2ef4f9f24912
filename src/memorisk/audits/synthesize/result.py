"""Result of a loop: the numbers behind its verdict, its page and its lines in the terminal.

`LoopSummary` is ``summary.json``. ``verdict.json`` holds its `LoopNumbers` but for the notes: those of a filter over
everything drawn (`audits.filter.result`), then the loop's own. A field with a default is missing in runs of before it
was computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from memorisk.audits.filter.result import FilterNumbers, ScreeningSettings, ScreeningSetup, SetNames
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.report.numbers import INLINE, to_json
from memorisk.statistics.pairs.regenerated_copies import RegeneratedCopies


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A figure and its interval; NaN where it is not known."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class TableThreeRow:
    """A row of the paper's table 3."""

    generator: str
    conditioning: str
    n: int
    """Number of images in each set that FID and IRS are computed from."""
    n_training: int
    """Number of training images."""
    features: str
    distance: str
    figures: Mapping[str, Mapping[str, Limits]]
    """FID, IRS and MemRate, each before the loop, of the kept images, and of real images of new people."""
    memorized_by: str
    memorized_at: str
    no_rate: str = ""
    """Reason why MemRate is missing."""
    paired: bool


@dataclass(frozen=True, kw_only=True)
class LoopNumbers:
    """The numbers behind the verdict."""

    filter: Annotated[FilterNumbers, INLINE]
    generator: str
    generator_source: str
    """Source that identifies the generator's weights."""
    conditioned_on: str
    conditioning: str
    n_asked: int
    """Number of places, each for one image."""
    n_drawn: int
    """Number of images drawn."""
    n_empty: int
    """Places that stayed empty."""
    n_attempts: int
    hopeless: bool = False
    """Whether the threshold rejects (nearly) everybody."""
    gave_up: bool = False
    """Whether no place was tried again for that reason."""
    most_tries: int
    """Largest number of tries for a place."""
    paired: bool
    """Whether images were drawn from the condition of a training image."""
    n_of_source: int
    """Number of images that reach the threshold with that very image."""
    copies: RegeneratedCopies | None
    """Effect of drawing again on the guarantee; None where nothing was drawn."""
    doubts: tuple[str, ...]
    """Doubts about the training images."""
    table_three: TableThreeRow | None

    @property
    def bounded(self) -> RegeneratedCopies | None:
        """Return what bounds the copies among the kept images: a guarantee, and all training images are known."""
        sets = self.filter.sets
        complete = not self.doubts and not sets.n_train_unread
        return self.copies if self.filter.promise.guarantee and sets.n_kept_images and complete else None

    def in_verdict(self) -> dict[str, Any]:
        """Return the numbers that ``verdict.json`` holds."""
        return {key: value for key, value in to_json(self).items() if key != "notes"}


@dataclass(frozen=True, kw_only=True)
class LoopSettings(ScreeningSettings):
    """Options of the run."""

    balance: str
    paired: bool
    images: int
    most_tries: int


@dataclass(frozen=True, kw_only=True)
class LoopSetup(ScreeningSetup):
    """Settings and software of the run."""

    settings: LoopSettings


@dataclass(frozen=True, kw_only=True)
class LoopSummary:
    """Content of ``summary.json``."""

    audit: Literal["synthesize"] = "synthesize"
    names: SetNames
    shape: tuple[int, int, int]
    numbers: LoopNumbers
    generator: GeneratorConfig
    sampling: SamplingOptions
    setup: Annotated[LoopSetup, INLINE]
