"""Result of a benchmark before it is laid out: the leaderboard, and what was run.

The leaderboard orders detectors by their detection of test patients' copies, each by the measure that validation
chose. An order of estimates is a selection: the first of many is expected to find less of the next patients'
copies. Places are therefore ranges by paired tests, and the detector that *validation* put first is named with its
detection on test patients, who chose nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.copy_detection import PoolDetection
from memorisk.statistics.copies.detector_comparison import DetectorComparison, compare_pairs
from memorisk.statistics.copies.detector_ranks import RankRange, rank_ranges
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.studies.detectors.cells import DETECTORS, LOSS_NAMES, CellJob
from memorisk.studies.detectors.detection import Detector
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.detectors.pools import Parts
from memorisk.studies.engine.layout import read_layout
from memorisk.studies.engine.rows import limits
from memorisk.studies.engine.study import FinishedStudy
from memorisk.studies.engine.tables import StudyTable, fill_table

LAYOUT = read_layout(__package__, "study")
"""Schemas of the tables and the page."""


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Detectors in order.

    Attributes:
        rows: Table with one row per detector, the first on test patients first.
        places: Places by name.
        tied: Names of the detectors that detect most copies of validation patients: one, or several that detect as
            many.
    """

    rows: pd.DataFrame
    places: dict[str, RankRange]
    tied: list[str]

    @property
    def chosen(self) -> str:
        """Return the first of `tied`; empty without detectors."""
        return next(iter(self.tied), "")

    @property
    def undecided(self) -> list[str]:
        """Return the detectors that may be the first, in order."""
        return [str(name) for name in self.rows["name"] if self.places[str(name)].first == 1] if len(self.rows) else []


def leaderboard(measured: Sequence[Detector], strengths: Sequence[str]) -> Leaderboard:
    """Rank detectors at the last of the strengths.

    Args:
        measured: Detectors of the benchmark; those without a measure are in no row.
        strengths: Strengths of the copies.
    """
    strength = strengths[-1]
    able = [d for d in measured if d.chosen(strength)]
    if not able:
        return Leaderboard(pd.DataFrame(), {}, [])
    comparisons = paired_tests(list(combinations(able, 2)), strength)
    ranges = rank_ranges([d.name for d in able], comparisons)
    rates = {d.name: d.rate(d.chosen(strength), strength, "test") for d in able}
    shares = {d.name: d.share(d.chosen(strength), strength, "test") for d in able}
    order = sorted(able, key=lambda d: -shares[d.name])
    adjusted = {frozenset((c.first, c.second)): c.adjusted for c in comparisons}
    rows = []
    for d in order:
        beside = adjusted.get(frozenset((d.name, order[0].name)), float("nan"))
        row = {"place": ranges[d.name].words, **detector_columns(d), "p_first": beside}
        row |= {"detected_all": shares[d.name]}
        rows.append(row | share_columns("detected", rates[d.name]) | _row(d, strengths))
    found_there = {d.name: d.share(d.chosen(strength), strength, "validation") for d in able}
    tied = [name for name, value in found_there.items() if value == max(found_there.values())]
    return Leaderboard(pd.DataFrame(rows), ranges, tied)


def paired_tests(pairs: Sequence[tuple[Detector, Detector]], strength: str) -> list[DetectorComparison]:
    """Run paired tests of detectors on the same copies, each by the measure that validation chose; Holm over them.

    Args:
        pairs: Pairs of detectors that have a measure.
        strength: Strength of the copies.
    """
    if not pairs:
        return []
    involved = {d.name: d for pair in pairs for d in pair}
    hits = {name: d.hits(d.chosen(strength), strength, "test") for name, d in involved.items()}
    first = next(iter(involved.values()))
    source = first.of(first.chosen(strength), strength)[0].pools["test"].source
    return compare_pairs([(a.name, b.name) for a, b in pairs], hits, source)


def detector_columns(d: Detector) -> dict[str, object]:
    """Return the columns that identify a detector."""
    return {
        "name": d.name,
        "model": d.backbone.model,
        "pretraining": d.backbone.pretraining,
        "loss": LOSS_NAMES[d.loss],
    }


def share_columns(name: str, proportion: Proportion) -> dict[str, float]:
    """Return a share with its limits as columns; missing without trials."""
    if not proportion.trials:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), float("nan"))
    return limits(name, proportion)


def _row(d: Detector, strengths: Sequence[str]) -> dict[str, object]:
    """Return the further columns of a detector in the leaderboard."""
    strength = strengths[-1]
    measure = d.chosen(strength)
    pool = d.of(measure, strength)[0].pools["test"]
    published = d.published_values(strength)
    row: dict[str, object] = {"measure": measure, "n_tied": len(d.tied(strength)), "n_seeds": d.n_seeds}
    row |= {"validation": d.share(measure, strength, "validation"), "n_copies": len(pool.source)}
    row |= {"n_patients": len(np.unique(pool.source)), "references": pool.detection.n_references}
    row |= share_columns("recognised", d.rate(measure, strength, "test", lambda p: p.recognised))
    row |= share_columns("nearest", d.rate(measure, strength, "test", lambda p: p.nearest_is_source))
    row |= share_columns("flagged", d.false_flags(measure, strength, "test"))
    for pool_name in ("train", "validation"):
        row |= share_columns(f"detected_{pool_name}", d.rate(measure, strength, pool_name))
    for other in strengths[:-1]:
        row |= (
            share_columns(f"detected_{other}", d.rate(measure, other, "test")) if measure in d.measures(other) else {}
        )
    best = max(published, key=lambda m: published[m]) if published else ""
    return row | {"published_measure": best, "published": published.get(best, float("nan"))}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Benchmark(FinishedStudy):
    """Numbers of a benchmark."""

    source: str
    """Short name of the images."""
    options: BenchDetectorsOptions
    """Options of the benchmark."""
    detectors: list[Detector]
    """Finished detectors, over their seeds."""
    board: Leaderboard
    """Leaderboard of the detectors."""
    figure_1: pd.DataFrame
    """Numbers of figure 1."""
    numbers: pd.DataFrame
    """Table with one row per cell, measure, strength, form and pool: every rate with its limits."""
    parts: Parts
    """Division of the images; those of one grey level are in no part."""
    groups_given: bool
    """Whether the patients of the images were given."""


def cell_table(jobs: list[CellJob]) -> StudyTable:
    """Tabulate what was run: one row per cell, with failures."""
    return fill_table(LAYOUT, "cells", [job.row() for job in jobs])


def folder_table(jobs: list[CellJob]) -> StudyTable:
    """List the folder of each trained detector: one row per finished cell, as ``--features`` takes it."""
    trained = [job for job in jobs if job.cell.trained and job.done]
    rows = [{"detector": job.cell.name, "features": f"detector:{DETECTORS}/{job.detector.name}"} for job in trained]
    return fill_table(LAYOUT, "folders", rows)


def number_table(measured: list[Detector], strengths: tuple[str, ...]) -> pd.DataFrame:
    """Tabulate every rate of every cell, in both forms.

    Args:
        measured: Detectors of the benchmark.
        strengths: Strengths of the copies.
    """
    rows = []
    for d in measured:
        for m in d.measured:
            if m.strength not in strengths:
                continue
            cell = m.job.cell
            labels = {
                "model": cell.backbone.model, "pretraining": cell.backbone.pretraining, "loss": cell.loss,
                "seed": cell.seed, "measure": m.measure, "strength": m.strength,
            }  # fmt: skip
            for pool, read in m.pools.items():
                drawn = one_per_group(read.source, seed=d.seed)
                rates = share_columns("nearest", clopper_pearson(int(read.nearest_is_source[drawn].sum()), len(drawn)))
                rows.append({**labels, "form": "corrected", "pool": pool} | _rates(read.detection) | rates)
            for pool, detection in (m.published.pools if m.published else {}).items():
                flags = m.published.new_patients[pool] if m.published else None
                rates = {} if flags is None else {"new_patients": flags.estimate, "n_new_patients": flags.trials}
                rows.append({**labels, "form": "published", "pool": pool} | _rates(detection) | rates)
    return pd.DataFrame(rows)


def _rates(pool_detection: PoolDetection) -> dict[str, float | int | bool]:
    """Return the rates of one pool as columns."""
    detection, row = pool_detection.detection, {}
    for name, rate in (
        ("recognised", detection.recognised),
        ("right", detection.right),
        ("flags", pool_detection.false_flags),
    ):
        row |= share_columns(name, rate) | {f"n_{name}": rate.trials}
    row |= {"share": detection.share, "right_share": detection.right_share, "n_copies": detection.n_copies}
    row |= {"threshold": pool_detection.threshold.value, "threshold_kept": pool_detection.threshold.kept}
    return row | {"references": pool_detection.n_references}
