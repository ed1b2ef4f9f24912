"""The interval of a median of paired ratios, for every benchmark here."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom


def median_interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> tuple[float, float, float]:
    """Median with its order-statistic interval of at least the level where the rounds allow one, else the range."""
    ordered, n = np.sort(values), len(values)
    k = max((k for k in range(n // 2) if 1 - 2 * binom.cdf(k, n, 0.5) >= level), default=0)
    return float(np.median(ordered)), float(ordered[k]), float(ordered[n - 1 - k])
