"""One or several processes of one training, by accelerate: ``accelerate launch -m memorisk.cli train generator ...``.

Each process takes its share of every batch; a gradient is the mean over processes. What is random is drawn for the
whole batch by every process, from the same seed, so that several processes train what one would.
"""

import os
from datetime import timedelta
from typing import Any

import torch

from memorisk.runs.errors import InputError, MissingExtraError

_PATIENCE = timedelta(days=2)  # the others wait while the first looks at a snapshot


def is_main() -> bool:
    """Whether this process is the only one, or the one that writes; known before anything is imported."""
    return int(os.environ.get("RANK", "0")) == 0


def open_accelerator(device: torch.device, precision: str) -> Any:
    """An `accelerate.Accelerator` on this device, or of several processes on the device of each.

    Args:
        device: Of a single process.
        precision: fp32, bf16 or fp16.

    Raises:
        MissingExtraError: accelerate is not there.
    """
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
        from accelerate.utils import InitProcessGroupKwargs
    except ImportError:
        raise MissingExtraError("accelerate", "generative", "training a diffusion transformer") from None
    AcceleratorState._reset_state()  # an earlier training of this process may have had another precision
    return Accelerator(
        cpu=device.type == "cpu",
        mixed_precision="no" if precision == "fp32" else precision,
        device_placement=False,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_PATIENCE)],
    )


def wait_for_all() -> None:
    """Go on when every process has come here; at once where there is one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()


def share_of(batch_size: int, processes: int, number: int) -> slice:
    """Which rows of a batch a process takes.

    Args:
        batch_size: Rows of all processes.
        processes: How many there are.
        number: Of this one, from 0.

    Raises:
        InputError: They cannot have the same number of rows.
    """
    if batch_size % processes:
        raise InputError(
            f"batch_size is {batch_size} for {processes} processes, which take the same share: give a multiple"
        )
    each = batch_size // processes
    return slice(number * each, (number + 1) * each)
