"""Are images memorized more, the more often they stand in the training data? The trend over copies of one generator.

Which patients' images are repeated is drawn by lot, so that nothing but the number of copies tells the levels apart:
the permutation p-value is exact for the hypothesis that copies change nothing. The interval of the slope is
`statistics.trend`'s over patients. Where few are flagged it errs to one side: with nobody flagged among the few
patients of the highest level it is too short and lies too low. Simulated with 264 patients once and 12 each at 4, 16
and 64 copies, 5 % flagged at every level: 21 % of upper limits lie below the truth, 0.3 % of lower limits above it. So
an interval above 0 may be believed, and one below 0 may not.
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.generators.reading import Read, Reading, named_columns
from memorisk.statistics.proportions import clopper_pearson
from memorisk.statistics.trend import duplicate_trend

_STREAM, _AT_ONCE = 97, 1000
OUTCOMES = ("flagged", "nearness")
"""Whether a patient is flagged, and how near the set is to them (`Read.nearness`)."""


def trend_rows(reading: Reading) -> pd.DataFrame:
    """The slope of both outcomes per doubling of the copies, a row a generator with repeated images and detector.

    Units are training patients of the same generator; the interval is `statistics.trend.duplicate_trend`'s.

    Args:
        reading: What was measured.
    """
    return pd.DataFrame([_trend(read) for read in reading.last if _levels(read) > 1])


def level_rows(reading: Reading) -> pd.DataFrame:
    """Share of flagged patients at each number of copies, a row a generator, detector and level.

    Args:
        reading: What was measured.
    """
    found = []
    for read in reading.last:
        copies = read.patient_copies
        for level in np.unique(copies) if _levels(read) > 1 else ():
            own = copies == level
            share = clopper_pearson(int(read.flagged[own].sum()), int(own.sum()))
            found.append(
                {
                    **named_columns(read.cell), "detector": read.detector, "copies": int(level),
                    "share": share.estimate, "share_low": share.low, "share_high": share.high,
                    "nearness": float(read.nearness[own].mean()),
                    "level_patients": int(own.sum()),
                }
            )  # fmt: skip
    return pd.DataFrame(found)


def permutation_p(values: np.ndarray, copies: np.ndarray, *, seed: int, draws: int = 9999) -> float:
    """One-sided p of a slope on log2 copies: the share of random deals of the copies whose slope is at least as great.

    Args:
        values: [U] of each patient.
        copies: [U] dealt by lot.
        seed: Of the deals.
        draws: Their number; the observed one counts besides.
    """
    x = np.log2(copies) - np.log2(copies).mean()
    rng, reached = np.random.default_rng([_STREAM, seed]), 0
    observed = float(x @ values)
    slack = 1e-9 * float(np.abs(x) @ np.abs(values))  # deals that tie but for rounding
    for begin in range(0, draws, _AT_ONCE):
        deals = rng.permuted(np.tile(x, (min(_AT_ONCE, draws - begin), 1)), axis=1)
        reached += int((deals @ values >= observed - slack).sum())
    return (1 + reached) / (draws + 1)


def _levels(read: Read) -> int:
    return len(np.unique(read.patient_copies))


def _trend(read: Read) -> dict[str, Any]:
    """One generator, one detector."""
    row: dict[str, Any] = {**named_columns(read.cell), "detector": read.detector, "step": read.step}
    copies = read.patient_copies
    for name in OUTCOMES:
        values = np.asarray(getattr(read, name), dtype=np.float64)
        if np.ptp(values) == 0:  # all flagged, or none: the slope is 0 and its interval unknown, not empty
            row |= {f"{name}_p": 1.0, name: 0.0, f"{name}_low": float("nan"), f"{name}_high": float("nan")}
            continue
        row[f"{name}_p"] = permutation_p(values, copies, seed=read.cell.options.seed)
        slope = duplicate_trend(values[:, None], copies).slope
        row |= {name: slope.estimate, f"{name}_low": slope.low, f"{name}_high": slope.high}
    return {**row, "levels": _levels(read)}
