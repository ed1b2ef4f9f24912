"""The measured rate of a card's arithmetic: chains of operations in registers, by Triton."""

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _chains(out, turns, a, b, ROOTS: tl.constexpr, SIZE: tl.constexpr, UNROLLED: tl.constexpr):
    """Eight chains of multiply-adds, or of reciprocal roots, in every thread's registers."""
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = place.to(tl.float32) + 1.5
    for _ in range(turns):
        for _ in tl.static_range(UNROLLED):  # pyright: ignore[reportGeneralTypeIssues]
            x = tl.math.rsqrt(x) if ROOTS else x * a + b
    tl.store(out + place, x)


def chains(out: torch.Tensor, programs: int, turns: int, size: int, unrolled: int, *, roots: bool) -> None:
    """Run ``turns`` times ``unrolled`` operations on each of ``programs`` times ``size`` numbers."""
    kernel: Any = _chains
    kernel[(programs,)](
        out, turns, 0.999, 0.001, ROOTS=roots, SIZE=size, UNROLLED=unrolled, enable_fp_fusion=True, num_warps=8
    )
