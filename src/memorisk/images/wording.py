"""How lists of names are worded in messages."""

from collections.abc import Sequence

import numpy as np

from memorisk.runs.errors import one_line


def listed(values: Sequence[object] | np.ndarray, shown: int = 5) -> str:
    """The first few of many values on one printable line: ``a, b, c and 12 more``."""
    head = ", ".join(one_line(v, 120) for v in values[:shown])
    return head if len(values) <= shown else f"{head} and {len(values) - shown:,} more"
