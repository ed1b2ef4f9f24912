"""Lists in many classes at once: which classes may list groups, and at what level within them.

METHODS section 1 requires Benjamini-Hochberg within class at level q. With C classes and nothing memorized that
lists some group in up to ``1 - (1 - q)^C`` of audits: 9 of 20 placebo audits of the ten-class digits at q = 0.05
(``docs/validity.md``), where the verdict fails on any flagged patient and so may fail at most q of harmless models.
Pooling the classes' p-values instead would take the rare classes' lists away. Here the classes are families
(Benjamini and Bogomolov 2014): each class's Simes p-value is the smallest level at which it would list a group;
Benjamini-Hochberg over classes selects R of C; within a selected class the level is q R / C. With nothing memorized
any group is listed with probability at most q; else the false share of a list, averaged over the listed classes, is
expected to be at most q.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import unknown_name
from memorisk.statistics.multiple_testing.lists import (
    CORRECTIONS,
    Rejections,
    benjamini_hochberg,
    benjamini_yekutieli,
    smallest_list_of,
)


@dataclass(frozen=True)
class FamilyLists:
    """Lists of all classes.

    Attributes:
        rejections: Listed groups of each class.
        class_p: Smallest level at which each class alone would list a group, [C]; NaN without p-values.
        selected: Whether each class may list, [C].
        level: Level within each class, [C]: q R / C, with R at least 1 for those not selected.
        smallest_list: Shortest list possible at that level, per class; None without p-values.
    """

    rejections: list[Rejections]
    class_p: NDArray[np.float64]
    selected: NDArray[np.bool_]
    level: NDArray[np.float64]
    smallest_list: list[int | None]


def family_lists(
    p_values: Sequence[ArrayLike], floors: Sequence[ArrayLike], q: float, correction: str = "bh"
) -> FamilyLists:
    """List groups in C classes with level q over all of them.

    Args:
        p_values: p-values of the groups, per class, NaN where a group has none.
        floors: Smallest p-value that each group could have had, per class.
        q: Level over the whole audit.
        correction: "bh", the two-level procedure above; "by", the same with Benjamini-Yekutieli at both levels;
            "bh-within", METHODS' form: each class at level q by itself.

    Returns:
        Lists, class p-values and the shortest possible lists of all classes.

    Raises:
        InputError: An unknown correction, or values outside [0, 1].

    Source:
        Benjamini and Bogomolov, JRSS B 76 (2014), section 3; Simes 1986.
    """
    if correction not in CORRECTIONS:
        raise unknown_name("correction", correction, CORRECTIONS)
    step_up = benjamini_yekutieli if correction == "by" else benjamini_hochberg
    arrays = [np.asarray(p, dtype=np.float64) for p in p_values]
    class_p = np.array([np.nanmin(step_up(p, q).adjusted) if np.isfinite(p).any() else np.nan for p in arrays])
    if correction == "bh-within":
        selected, level = np.isfinite(class_p), np.full(len(arrays), q)
    else:
        selected = step_up(class_p, q).rejected
        n_classes = max(int(np.isfinite(class_p).sum()), 1)
        level = np.full(len(arrays), q * max(int(selected.sum()), 1) / n_classes)
    lists = [
        step_up(p if chosen else np.full(len(p), np.nan), float(at))
        for p, chosen, at in zip(arrays, selected, level, strict=True)
    ]
    shortest = [
        smallest_list_of(f, float(at)) if np.isfinite(np.asarray(f, dtype=np.float64)).any() else None
        for f, at in zip(floors, level, strict=True)
    ]
    return FamilyLists(lists, class_p, selected, level, shortest)
