"""Are images memorized more, the more often they stand in the training data? The trend over copies of one generator.

Which patients' images are repeated is drawn by lot, so that nothing but the number of copies tells the levels apart.
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.generators.reading import Read, Reading, named_columns
from memorisk.statistics.proportions import clopper_pearson
from memorisk.statistics.trend import duplicate_trend

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


def _levels(read: Read) -> int:
    return len(np.unique(read.patient_copies))


def _trend(read: Read) -> dict[str, Any]:
    """One generator, one detector."""
    row: dict[str, Any] = {**named_columns(read.cell), "detector": read.detector, "step": read.step}
    copies = read.patient_copies
    for name in OUTCOMES:
        values = np.asarray(getattr(read, name), dtype=np.float64)
        if np.ptp(values) == 0:  # all flagged, or none: the slope is 0 and its interval unknown, not empty
            row |= {name: 0.0, f"{name}_low": float("nan"), f"{name}_high": float("nan")}
            continue
        slope = duplicate_trend(values[:, None], copies).slope
        row |= {name: slope.estimate, f"{name}_low": slope.low, f"{name}_high": slope.high}
    return {**row, "levels": _levels(read)}
