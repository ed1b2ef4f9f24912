"""Are images memorized more, the more often they stand in the training data? The trend over copies of one generator.

Which patients' images are repeated is drawn by lot, so that nothing but the number of copies tells the levels apart:
the permutation p-value is exact for the hypothesis that copies change nothing. Few patients stand often, so that the
limits of the slope are put together from each level's own (`statistics.memorization.level_slope`). They speak of
patients of this generator; other trainings are other seeds (`over_seeds`).
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.statistics.memorization.level_slope import mean_slope, share_slope
from memorisk.statistics.proportions import clopper_pearson
from memorisk.studies.generators.reading import Read, Reading, named_columns

_STREAM, _AT_ONCE = 97, 1000
OUTCOMES = ("flagged", "nearness")
"""Whether a patient is flagged, and how near the set is to them (`Read.nearness`)."""


def trend_rows(reading: Reading) -> pd.DataFrame:
    """The slope of both outcomes per doubling of the copies, a row a generator with repeated images and detector.

    Units are training patients of the same generator; intervals are `share_slope`'s and
    `mean_slope`'s.

    Args:
        reading: What was measured.
    """
    return pd.DataFrame([_trend(read) for read in reading.last if _levels(read) > 1])


def level_rows(reading: Reading) -> pd.DataFrame:
    """Share of flagged patients at each number of copies, a row a generator, detector and level.

    Where held-out patients are too few to flag anybody by there is no share, and its limits are 0 and 1.

    Args:
        reading: What was measured.
    """
    found = []
    for read in reading.last:
        copies = read.patient_copies
        for level in np.unique(copies) if _levels(read) > 1 else ():
            own = copies == level
            asked = own & _judged(read)
            share = clopper_pearson(int(read.flagged[asked].sum()), int(asked.sum()))
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


def _judged(read: Read) -> bool:
    """Whether there are held-out patients enough to flag anybody by."""
    return not np.isnan(read.share.estimate)


def _trend(read: Read) -> dict[str, Any]:
    """One generator, one detector."""
    row: dict[str, Any] = {**named_columns(read.cell), "detector": read.detector, "step": read.step}
    copies = read.patient_copies
    for name, slope_of in {"flagged": share_slope, "nearness": mean_slope}.items():
        if name == "flagged" and not _judged(read):
            row |= dict.fromkeys((name, f"{name}_low", f"{name}_high", f"{name}_p"), float("nan"))
            continue
        values = np.asarray(getattr(read, name), dtype=np.float64)
        slope = slope_of(values, copies)
        row |= {name: slope.estimate, f"{name}_low": slope.low, f"{name}_high": slope.high}
        row[f"{name}_p"] = permutation_p(values, copies, seed=read.cell.options.seed)
    return {**row, "levels": _levels(read)}
