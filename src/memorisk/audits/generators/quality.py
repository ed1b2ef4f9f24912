"""Figures of quality of every generator as columns: a row a generator, from the rows that `audits.quality` makes."""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.generators.reading import Reading, named_columns
from memorisk.report.frames import numbers, texts

FIGURES: dict[str, tuple[float, float]] = {
    "fid": (0.0, np.inf), "kid": (-np.inf, np.inf), "mifid": (0.0, np.inf), "precision": (0.0, 1.0),
    "recall": (0.0, 1.0), "density": (0.0, np.inf), "coverage": (0.0, 1.0),
}  # fmt: skip
"""With the least and greatest value of each."""


def quality_rows(reading: Reading) -> pd.DataFrame:
    """A row a generator, with each figure, its limits, and that of held-out real images.

    Args:
        reading: What was measured.
    """
    table = reading.quality
    if not len(table):
        return pd.DataFrame()
    named = list(named_columns(reading.cells[0]))
    found = []
    for key, own in table.groupby(named, sort=False, dropna=False):
        row: dict[str, Any] = dict(zip(named, key if isinstance(key, tuple) else (key,), strict=True))
        row |= {"features": texts(own, "features")[0]}
        columns = {name: numbers(own, name) for name in ("estimate", "low", "high", "reference")}
        for i, figure in enumerate(texts(own, "figure")):
            name = figure.lower()
            if name not in FIGURES:
                continue
            row |= {name: columns["estimate"][i], f"{name}_low": columns["low"][i], f"{name}_high": columns["high"][i]}
            row[f"{name}_reference"] = columns["reference"][i]
        row |= {name: float(numbers(own, name).max()) for name in ("n_real", "n_synthetic")}
        found.append(row)
    return pd.DataFrame(found)
