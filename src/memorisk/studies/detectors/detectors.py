"""Detectors over their seeds: the measure that validation patients chose, and what is found on test patients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.proportions import Proportion, clopper_pearson
from memorisk.studies.detectors.backbones import Backbone
from memorisk.studies.detectors.reading import Hits, Measured, PoolReading

Pick = Callable[[PoolReading], Hits]
"""What is counted of a pool's copies."""


@dataclass(frozen=True, eq=False)
class Detector:
    """A backbone trained by a loss, or not: one or several cells that differ in their seed.

    Attributes:
        backbone: Its network.
        loss: "none", "triplet" or "infonce".
        measured: All measures at all strengths of its finished cells.
        seed: Of the copy that is drawn from each patient for the intervals.
    """

    backbone: Backbone
    loss: str
    measured: Sequence[Measured]
    seed: int

    @property
    def name(self) -> str:
        """Backbone and loss."""
        return self.backbone.detector(self.loss)

    @cached_property
    def n_seeds(self) -> int:
        """Finished cells."""
        return len({m.job.cell.seed for m in self.measured})

    @cached_property
    def _by(self) -> dict[tuple[str, str], list[Measured]]:
        found: dict[tuple[str, str], list[Measured]] = {}
        for m in self.measured:
            found.setdefault((m.measure, m.strength), []).append(m)
        return found

    def of(self, measure: str, strength: str) -> list[Measured]:
        """A measure at a strength, a reading a seed."""
        return self._by.get((measure, strength), [])

    def measures(self, strength: str) -> list[str]:
        """Measures that are defined for every seed."""
        named = dict.fromkeys(m for m, s in self._by if s == strength)
        return [m for m in named if all(one.pools for one in self.of(m, strength))]

    def hits(self, measure: str, strength: str, pool: str, pick: Pick = lambda p: p.detected) -> Hits:
        """[S, n] what is counted of each copy, a row a seed."""
        return np.stack([pick(m.pools[pool]) for m in self.of(measure, strength)])

    def share(self, measure: str, strength: str, pool: str) -> float:
        """Share of the pool's copies that are detected, seeds averaged."""
        return float(self.hits(measure, strength, pool).mean())

    def tied(self, strength: str) -> list[str]:
        """The measures that detect most copies of validation patients: one, or several that detect as many."""
        shares = {m: self.share(m, strength, "validation") for m in self.measures(strength)}
        return [m for m, value in shares.items() if value == max(shares.values())]

    def chosen(self, strength: str) -> str:
        """The first of `tied`; empty for none."""
        return next(iter(self.tied(strength)), "")

    def rate(self, measure: str, strength: str, pool: str, pick: Pick = lambda p: p.detected) -> Proportion:
        """What a random copy of a random patient meets, at a random one of the seeds; the units are patients."""
        hits = self.hits(measure, strength, pool, pick)
        source = np.tile(self.of(measure, strength)[0].pools[pool].source, len(hits))
        drawn = one_per_group(source, seed=self.seed)
        return clopper_pearson(int(hits.ravel()[drawn].sum()), len(drawn))

    def false_flags(self, measure: str, strength: str, pool: str) -> Proportion:
        """Patients without any image in the pool who are flagged, at a random one of the seeds each."""
        flagged = np.stack([m.pools[pool].flagged for m in self.of(measure, strength)])
        if not flagged.size:
            return clopper_pearson(0, 0)
        drawn = one_per_group(np.tile(np.arange(flagged.shape[1]), len(flagged)), seed=self.seed)
        return clopper_pearson(int(flagged.ravel()[drawn].sum()), len(drawn))

    def published(self, measure: str, strength: str, pool: str) -> float:
        """Paper 003's detection ratio of a pool's copies, seeds averaged; NaN where it is not defined."""
        shares = [m.published.pools[pool].detection.share for m in self.of(measure, strength) if m.published]
        return float(np.mean(shares)) if shares and len(shares) == self.n_seeds else float("nan")

    def published_flags(self, measure: str, strength: str, pool: str) -> Proportion:
        """New patients whom the published threshold flags; of the first seed."""
        first = self.of(measure, strength)[0].published
        return clopper_pearson(0, 0) if first is None else first.new_patients[pool]

    def published_values(self, strength: str) -> dict[str, float]:
        """Published detection ratio of validation copies by measure, where it is defined."""
        named = dict.fromkeys(m for m, s in self._by if s == strength)
        values = {m: self.published(m, strength, "validation") for m in named}
        return {m: v for m, v in values.items() if np.isfinite(v)}


def detectors(measured: Sequence[Measured], seed: int) -> list[Detector]:
    """The detectors of finished cells, in the order of the grid.

    Args:
        measured: Of `reading.read_cells`.
        seed: Of the copies that are drawn for the intervals.
    """
    found: dict[tuple[str, str], list[Measured]] = {}
    for m in measured:
        found.setdefault((m.job.cell.backbone.name, m.job.cell.loss), []).append(m)
    return [Detector(own[0].job.cell.backbone, own[0].job.cell.loss, own, seed) for own in found.values()]
