"""Figures of quality of every generator, from the rows that `audits.quality` makes: A.5 of paper 003."""

import numpy as np
import pandas as pd

from memorisk.report.frames import rows, texts
from memorisk.studies.generators.over_seeds import mean_over_seeds
from memorisk.studies.generators.reading import Reading

ENDS: dict[str, tuple[float, float]] = {
    "FID": (0.0, np.inf), "KID": (-np.inf, np.inf), "MiFID": (0.0, np.inf), "precision": (0.0, 1.0),
    "recall": (0.0, 1.0), "density": (0.0, np.inf), "coverage": (0.0, 1.0), "IRS": (0.0, 1.0),
}  # fmt: skip
"""The least and greatest value of each figure, in their order."""
_VALUES: tuple[str, ...] = ("estimate", "same_number", "reference")


def quality_rows(reading: Reading, by: tuple[str, ...]) -> pd.DataFrame:
    """A row a generator and figure, seeds together: the figure, at the number of held-out images, and of those.

    Args:
        reading: What was measured.
        by: Columns that tell generators apart.
    """
    found = []
    for figure, ends in ENDS.items():
        table = reading.quality
        own = rows(table, [name == figure for name in texts(table, "figure")]) if len(table) else table
        own = own.rename(columns={"low": "estimate_low", "high": "estimate_high"})
        kept = ("n_real", "n_synthetic", "n_reference", "n_real_patients", "n_reference_patients")
        values = dict.fromkeys(_VALUES, ends)
        found.append(mean_over_seeds(own, (*by, "features", "figure", "better"), values, kept))
    table = pd.concat(found, ignore_index=True)
    if not len(table):
        return table
    order = {key: i for i, key in enumerate(dict.fromkeys(_keys(table, by)))}
    place = [order[key] for key in _keys(table, by)]
    return table.take(np.argsort(place, kind="stable").tolist()).reset_index(drop=True)


def _keys(table: pd.DataFrame, by: tuple[str, ...]) -> list[tuple[str, ...]]:
    return list(zip(*(map(str, table[name]) for name in by), strict=True))
