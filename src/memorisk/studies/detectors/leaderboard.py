"""The leaderboard: detectors by what they find of test patients' copies, each by the measure that validation chose.

An order of estimates is a selection: the first of many is expected to find less of the next patients' copies. Places
are therefore ranges by paired tests, and the detector that *validation* put first is named with what it finds on test
patients, who chose nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from memorisk.statistics.copies.detector_places import Place, compare_pairs, places
from memorisk.statistics.copies.paired_detectors import DetectorComparison
from memorisk.statistics.proportions import Proportion
from memorisk.studies.detectors.backbones import LOSS_NAMES
from memorisk.studies.detectors.detectors import Detector


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Detectors in order.

    Attributes:
        rows: A row a detector (`columns.COLUMNS`), the first on test patients first.
        places: By name.
        comparisons: Of all pairs on test patients' copies, Holm-adjusted over them.
        tied: Names of the detectors of which none detects more copies of validation patients: one, or several that
            they do not tell apart.
    """

    rows: pd.DataFrame
    places: dict[str, Place]
    comparisons: list[DetectorComparison]
    tied: list[str]

    @property
    def chosen(self) -> str:
        """The first of `tied`; empty without detectors."""
        return next(iter(self.tied), "")

    @property
    def undecided(self) -> list[str]:
        """Detectors that may be the first, in order."""
        return [str(name) for name in self.rows["name"] if self.places[str(name)].first == 1] if len(self.rows) else []


def leaderboard(found: Sequence[Detector], strengths: Sequence[str]) -> Leaderboard:
    """Rank detectors at the last of the strengths.

    Args:
        found: The detectors; those without a measure stand in no row.
        strengths: Of the copies.
    """
    strength = strengths[-1]
    able = [d for d in found if d.chosen(strength)]
    if not able:
        return Leaderboard(pd.DataFrame(), {}, [], [])
    comparisons = paired(list(combinations(able, 2)), strength)
    ranges = places([d.name for d in able], comparisons)
    rates = {d.name: d.rate(d.chosen(strength), strength, "test") for d in able}
    shares = {d.name: d.share(d.chosen(strength), strength, "test") for d in able}
    order = sorted(able, key=lambda d: -shares[d.name])
    adjusted = {frozenset((c.first, c.second)): c.adjusted for c in comparisons}
    rows = []
    for d in order:
        beside = adjusted.get(frozenset((d.name, order[0].name)), float("nan"))
        row = {"place": ranges[d.name].words, **named(d), "p_first": beside}
        row |= {"detected_all": shares[d.name]}
        rows.append(row | share("detected", rates[d.name]) | _row(d, strengths))
    found_there = {d.name: d.share(d.chosen(strength), strength, "validation") for d in able}
    tied = [name for name, value in found_there.items() if value == max(found_there.values())]
    return Leaderboard(pd.DataFrame(rows), ranges, comparisons, tied)


def paired(pairs: Sequence[tuple[Detector, Detector]], strength: str, pool: str = "test") -> list[DetectorComparison]:
    """Paired tests of detectors on the same copies, each by the measure that validation chose; Holm over them.

    Args:
        pairs: Detectors that have a measure.
        strength: Of the copies.
        pool: Whose copies.
    """
    if not pairs:
        return []
    involved = {d.name: d for pair in pairs for d in pair}
    hits = {name: d.hits(d.chosen(strength), strength, pool) for name, d in involved.items()}
    first = next(iter(involved.values()))
    source = first.of(first.chosen(strength), strength)[0].pools[pool].source
    return compare_pairs([(a.name, b.name) for a, b in pairs], hits, source)


def named(d: Detector) -> dict[str, object]:
    """The columns that say which detector it is."""
    return {
        "name": d.name,
        "model": d.backbone.model,
        "pretraining": d.backbone.pretraining,
        "loss": LOSS_NAMES[d.loss],
    }


def share(name: str, found: Proportion) -> dict[str, float]:
    """A share with its limits as columns; missing without trials."""
    if not found.trials:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), float("nan"))
    return {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high}


def _row(d: Detector, strengths: Sequence[str]) -> dict[str, object]:
    """What stands beside the detection at the strength of the tables."""
    strength = strengths[-1]
    measure = d.chosen(strength)
    pool = d.of(measure, strength)[0].pools["test"]
    published = d.published_values(strength)
    row: dict[str, object] = {"measure": measure, "n_tied": len(d.tied(strength)), "n_seeds": d.n_seeds}
    row |= {"validation": d.share(measure, strength, "validation"), "n_copies": len(pool.source)}
    row |= {"n_patients": len(np.unique(pool.source)), "references": pool.found.n_references}
    row |= share("recognised", d.rate(measure, strength, "test", lambda p: p.recognised))
    row |= share("nearest", d.rate(measure, strength, "test", lambda p: p.nearest_is_source))
    row |= share("flagged", d.false_flags(measure, strength, "test"))
    for pool_name in ("train", "validation"):
        row |= share(f"detected_{pool_name}", d.rate(measure, strength, pool_name))
    for other in strengths[:-1]:
        row |= share(f"detected_{other}", d.rate(measure, other, "test")) if measure in d.measures(other) else {}
    best = max(published, key=lambda m: published[m]) if published else ""
    return row | {"published_measure": best, "published": published.get(best, float("nan"))}
