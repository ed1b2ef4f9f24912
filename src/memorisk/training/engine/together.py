"""What K trainings in step have in common: equally many slots, and a batch order for each from its own seed."""

from collections.abc import Sequence

import numpy as np
import torch

from memorisk.runs.errors import InputError
from memorisk.training.engine.objectives import balancing_weights
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.order import batch_order


def stack_rows(rows_list: Sequence[np.ndarray], seeds: Sequence[int], n_images: int) -> torch.Tensor:
    """The rows of K trainings, [K, n] int64.

    Raises:
        InputError: if there are none, if they are not equally many, or if they lie outside the images.
    """
    if len(rows_list) != len(seeds) or not rows_list:
        raise InputError(f"there are {len(rows_list)} lists of rows for {len(seeds)} seeds; one each is needed")
    lengths = sorted({len(rows) for rows in rows_list})
    if len(lengths) > 1:
        raise InputError(f"models that train together need equally many images; here are {lengths[0]} to {lengths[-1]}")
    rows = torch.from_numpy(np.stack([np.asarray(r, dtype=np.int64) for r in rows_list]))
    if rows.numel() and (int(rows.min()) < 0 or int(rows.max()) >= n_images):
        raise InputError(f"rows run from {int(rows.min())} to {int(rows.max())}; there are {n_images} images")
    return rows


def ordered_rows(rows: torch.Tensor, seeds: Sequence[int], epoch: int, slots: int | None = None) -> torch.Tensor:
    """Rows [K, slots] in the order in which an epoch visits them: for each model as `fit` with its seed would."""
    orders = {seed: batch_order(seed, epoch, rows.shape[1], slots) for seed in set(seeds)}  # twins share theirs
    return rows.gather(1, torch.stack([orders[seed] for seed in seeds]))


def stack_weights(
    targets: torch.Tensor, rows: torch.Tensor, options: TrainOptions, n_outputs: int
) -> torch.Tensor | None:
    """Class weights of each model from its own training targets, [K, k], if the options ask for them."""
    if not options.class_weights:
        return None
    return torch.stack([balancing_weights(targets[r], options.head, n_outputs) for r in rows])
