"""Devices, precision, random generators, threads and processes of a training.

`keep_freed_memory`: a training step allocates the same few megabytes again and again. The C library's allocator hands
such blocks back to the system and fetches them anew, page by page; on a CPU that took up to a third of a small
network's step (benchmarks/results/training.json).

`open_accelerator`: several processes train one network (``accelerate launch -m memorisk train generator ...``).
Each takes its share of every batch; a gradient is the mean over processes. Every process draws the random numbers of
the whole batch, from the same seed, so that several processes train the same network as one would.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import nn

from memorisk.runs.errors import InputError, MissingExtraError


def choose_precision(precision: str, device: torch.device) -> str:
    """Resolve ``auto`` on this device: bf16 on a GPU that computes in it, fp32 elsewhere."""
    if precision == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    if precision == "fp16" and device.type == "cpu":
        raise InputError("precision fp16 needs a GPU; on a CPU use fp32 or bf16")
    return precision


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return the mixed-precision context of a forward pass; off for fp32."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "fp32")


@contextmanager
def forked_generators(device: torch.device) -> Iterator[Callable[[int], None]]:
    """Yield a function that seeds the generators a network draws from; restore their old states on leaving."""
    index = device.index if device.index is not None else 0
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[index] if on_gpu else []):
        generators = [torch.default_generator] + ([torch.cuda.default_generators[index]] if on_gpu else [])

        def reseed(seed: int) -> None:
            """Seed the generators that this block may draw from."""
            for generator in generators:
                generator.manual_seed(seed)

        yield reseed


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Let PyTorch compute with so many threads on the CPU; restore the earlier number on leaving."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Use full float32 convolutions on a GPU, where cuDNN by default rounds their inputs to 10 bits (TF32)."""
    if device.type != "cuda":
        yield
        return
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


def place(model: nn.Module, device: torch.device) -> None:
    """Move a network to the device, with convolutions in channels-last memory, which is faster on a CPU too."""
    model.to(device)
    model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] (torch's stub lacks this form)


def set_training_mode(model: nn.Module) -> None:
    """Set training mode, except for parts of which every parameter is frozen.

    A frozen trunk is a fixed function of the image: its batch normalisation keeps its statistics, and its dropout stays
    off.
    """
    model.train()
    for part in model.children():
        parameters = list(part.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            part.eval()
        else:
            set_training_mode(part)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_KEEP = 1 << 30
_LARGEST = 1 << 25  # the most that glibc takes on every version; larger blocks go back to the system at once


def keep_freed_memory() -> bool:
    """Let this process keep up to 1 GiB of freed memory, in blocks of up to 32 MiB, for itself.

    The setting holds for the whole process, hence it is for the owner of the process (a worker that trains), not for
    `fit`. Peak memory does not change: the kept memory has been in use before.

    Returns:
        Whether the C library took the setting; False where it has none (anything but glibc).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return mallopt(_MMAP_THRESHOLD, _LARGEST) == 1 and mallopt(_TRIM_THRESHOLD, _KEEP) == 1


_PATIENCE = timedelta(days=2)  # the other processes wait while the first measures a snapshot


def is_main() -> bool:
    """Return whether this process is the only one, or the one that writes; known before anything is imported."""
    return int(os.environ.get("RANK", "0")) == 0


def open_accelerator(device: torch.device, precision: str) -> Any:
    """Open an `accelerate.Accelerator` on this device, or for several processes on the device of each.

    Args:
        device: Device of a single process.
        precision: Arithmetic: fp32, bf16 or fp16.

    Raises:
        MissingExtraError: accelerate is not installed.
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
    """Continue when every process has reached this call; at once where one process runs."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()


def process_rows(batch_size: int, processes: int, number: int) -> slice:
    """Return the rows of a batch that a process takes.

    Args:
        batch_size: Number of rows of all processes together.
        processes: Number of processes.
        number: Number of this process, from 0.

    Raises:
        InputError: The processes cannot have the same number of rows.
    """
    if batch_size % processes:
        raise InputError(
            f"batch_size is {batch_size} for {processes} processes, which take the same share: give a multiple"
        )
    each = batch_size // processes
    return slice(number * each, (number + 1) * each)
