"""Devices, precision and random generators of a training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from memorisk.runs.errors import InputError


def choose_precision(precision: str, device: torch.device) -> str:
    """What ``auto`` means on this device: bf16 on a GPU that computes in it, fp32 elsewhere."""
    if precision == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    if precision == "fp16" and device.type == "cpu":
        raise InputError("precision fp16 needs a GPU; on a CPU use fp32 or bf16")
    return precision


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The mixed-precision context of a forward pass; off for fp32."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "fp32")


@contextmanager
def forked_generators(device: torch.device) -> Iterator[Callable[[int], None]]:
    """A function that seeds the generators a network draws from; on leaving, their old states are back."""
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
    """PyTorch computes with so many threads on the CPU; on leaving, with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Full float32 convolutions on a GPU, where cuDNN by default rounds their inputs to 10 bits (TF32)."""
    if device.type != "cuda":
        yield
        return
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


def place(model: nn.Module, device: torch.device) -> None:
    """Move a network to the device, with convolutions in channels-last memory, which is faster on a CPU too."""
    model.to(device)
    model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] (torch's stub lacks this form)
