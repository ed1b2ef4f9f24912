"""memorisk's side of every case, in the form of an adapter: the same inputs, prepared and then called in the time.

`EXPLAINED` holds, for cases where a peer follows another convention, memorisk's result with that one changed: what
then still differs is what the convention does not explain. Modules are imported when a case is asked for, so that a
worker starts at once.
"""

import importlib
from collections.abc import Callable
from functools import partial

import numpy as np

Arrays = dict[str, np.ndarray]

_CASES = {
    "ours_membership": (
        *("lira_online", "lira_online_median", "lira_online_pooled", "lira_online_global", "lira_offline"),
        *("lira_offline_probability", "rmia_online_2", "rmia_offline_2", "rmia_offline_1", "loss_threshold"),
    ),
    "ours_sets": (*("squared_euclidean", "cosine", "fid", "kid", "precision_recall", "authenticity", "c_t", "ahead"),),
    "ours_images": ("influence", "near_pairs", "near_pairs_turned", "features"),
}
_EXPLAINED = {
    "ours_membership": ("pooled_by_number", "two_sided", "unbiased", "largest_half"),
    "ours_sets": ("continuous",),
}


def _prepare(module: str, name: str, data: Arrays) -> Callable[[], Arrays]:
    return importlib.import_module(module).CASES[name](data)


def _explain(module: str, name: str, data: Arrays) -> np.ndarray:
    return importlib.import_module(module).EXPLAINED[name](data)


CASES = {name: partial(_prepare, module, name) for module, names in _CASES.items() for name in names}
EXPLAINED = {name: partial(_explain, module, name) for module, names in _EXPLAINED.items() for name in names}
"""Results by one convention of a peer's."""
