"""What one detector finds of the pairs of the re-identification benchmark, and of all pairs of the test images."""

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.judges import ALONE, Judge
from memorisk.studies.pairs.pairing import KINDS, PartPairs, part_pairs
from memorisk.studies.unique_features.results import Arrays

SCORES, ALL_PAIRS = "scores", "all_pairs"
REID_PARTS = (SCORES, ALL_PAIRS)
BINS = 60


def reid_pairs(cell: Cell, part: str) -> list[PartPairs]:
    """The pairs that every detector of the run is asked about.

    Args:
        cell: Any detector of the run.
        part: "validation" or "test".
    """
    return part_pairs(cell.division, part, cell.division.names, seed=cell.options.seed)


def run_reid(cell: Cell, judge: Judge) -> None:
    """Leave the scores of the listed pairs, and what was found among all pairs.

    Raises:
        InputError: Scores that are not defined.
    """
    if SCORES in cell.missing:
        cell.write(SCORES, _listed(cell, judge))
    if ALL_PAIRS in cell.missing:
        cell.write(ALL_PAIRS, _all_pairs(cell, judge, cell.read(SCORES)))


def _listed(cell: Cell, judge: Judge) -> Arrays:
    found: Arrays = {}
    for part in (VALIDATION, TEST):
        for some in reid_pairs(cell, part):
            place = cell.division.names.index(some.dataset)
            for kind in KINDS:
                pairs = some.pairs[kind]
                scores = judge.scores(pairs.first, pairs.second)
                bad = int((~np.isfinite(scores)).sum())
                if bad:
                    raise InputError(f"{bad:,} of {len(scores):,} {part} pairs have no score: their features are zero "
                                     "or constant")  # fmt: skip
                found[f"{part}/{place}/{kind}"] = scores
    return found


def _all_pairs(cell: Cell, judge: Judge, scores: Arrays) -> Arrays:
    """Of each test image the closest one of another patient, and how many pairs have which score; a data set each."""
    found: Arrays = {"why_not": np.array("")}
    for place, dataset in enumerate(cell.division.names):
        rows = cell.division.rows(TEST, dataset)
        groups = cell.division.groups[rows].astype(str)
        closest = judge.closest(rows, groups)
        if closest is None:
            return {"why_not": np.array(ALONE)}
        found[f"{place}/closest"] = closest
        same, other = (scores.get(f"test/{place}/{kind}", np.empty(0)) for kind in KINDS[:2])
        if not len(same):
            continue
        low = min(float(same.min()), float(np.quantile(other, 0.001)))
        high = max(float(same.max()), float(closest[np.isfinite(closest)].max(initial=-np.inf)))
        edges = np.linspace(low, np.nextafter(high, np.inf) if high > low else low + 1, BINS + 1)
        counts = judge.histogram(rows, groups, edges)
        assert counts is not None  # what has a closest image has a histogram
        total = (len(rows) ** 2 - int(np.square(np.unique(groups, return_counts=True)[1]).sum())) // 2
        found |= {
            f"{place}/edges": edges,
            f"{place}/different": counts,
            f"{place}/same": np.histogram(same, edges)[0],
            f"{place}/n_different": np.array(total),
        }
    return found
