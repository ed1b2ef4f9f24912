"""Numbers of flagged patients as every reader sees them: "not tested" where none could have been flagged, never 0.

Pages, statements, comparisons and notebooks count by these functions.
"""

import numpy as np
import pandas as pd

from memorisk.report.columns import booleans, column_numbers
from memorisk.statistics.verdicts.noticeable_gap import MIN_ROOM

NOT_TESTED = "not tested"
"""Text in place of a number."""


def classes_with_room(per_class: pd.DataFrame) -> np.ndarray:
    """Say in which classes a single patient could have been on the verdict's list, `[C]`: those with room on it.

    Args:
        per_class: Table of the classes; older runs have no ``room``, and the list that is shown takes its place.
    """
    return column_numbers(per_class, "room") >= MIN_ROOM if "room" in per_class else _classes_with_list(per_class)


def classes_tested(per_class: pd.DataFrame) -> np.ndarray:
    """Say which classes were tested, `[C]`: those with flagged patients, and those where one alone could have been.

    One alone could have been flagged where it has room on the list that is shown and on the verdict's.

    Args:
        per_class: Table of the classes.

    Example:
        >>> table = pd.DataFrame({"room": [5.0, 0.1, 0.1], "testable": True, "flagged": [0, 79, 0]})
        >>> classes_tested(table).tolist()
        [True, True, False]
    """
    flagged = column_numbers(per_class, "flagged") > 0
    return flagged | (classes_with_room(per_class) & _classes_with_list(per_class))


def flagged_counts(per_class: pd.DataFrame) -> np.ndarray:
    """Count the flagged groups of each class, `[C]`; NaN where no group is flagged and none alone could have been.

    Args:
        per_class: Table of the classes.
    """
    return np.where(classes_tested(per_class), column_numbers(per_class, "flagged"), np.nan)


def number_flagged(per_class: pd.DataFrame, n_flagged: int) -> int | None:
    """Return the number of flagged groups of all classes; None where it is 0 and no class was tested.

    Args:
        per_class: Table of the classes.
        n_flagged: Number of flagged groups, each once.
    """
    return None if not n_flagged and len(per_class) and not classes_tested(per_class).any() else n_flagged


def _classes_with_list(per_class: pd.DataFrame) -> np.ndarray:
    """Return which classes have a list at the requested level, `[C]`."""
    return booleans(per_class, "testable") if "testable" in per_class else np.ones(len(per_class), dtype=bool)
