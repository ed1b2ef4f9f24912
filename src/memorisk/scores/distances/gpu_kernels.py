"""Blocks of approximate values by Triton, for measures other than matrix products; see `kernels` and `bounds`.

Rows come transposed, [d, m] and [d, n], and padded with zeros, so that no load is masked. A program takes 128 x 128
pairs, a thread 8 x 8 of them in registers: values have the shape [8, 8, 16, 16], and Triton's own layout gives the last
two axes to the 256 threads, so that the 16 numbers a thread reads of a column serve 64 pairs. Import this module where
it is used: Triton is installed with PyTorch for GPUs only.
"""

from typing import Any

import triton
import triton.language as tl

from memorisk.scores.distances.bounds import Form

EACH, SIDE = 8, 16
PAIRS = EACH * SIDE
"""Rows and columns of a program's pairs, to multiples of which the blocks are padded."""
UNROLLED = 4
"""Columns of the rows in a turn of the loop, to multiples of which d is padded."""
_LEAST = tl.constexpr(1e-31)
_LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _logarithm(m, APPROXIMATE: tl.constexpr):
    """Compute the logarithm to base 2; by the GPU's own instruction where it exists, within 2^-22."""
    if APPROXIMATE:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [m], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.log2(m)


@triton.jit
def _term(a, b, KIND: tl.constexpr, POWER: tl.constexpr, APPROXIMATE: tl.constexpr):
    """Add what one column contributes to a pair's sum."""
    if KIND == "entropy":
        both = tl.maximum(a + b, _LEAST)
        return both * _logarithm(both, APPROXIMATE)
    apart = tl.abs(a - b)
    if KIND == "share":
        root = tl.math.rsqrt(tl.maximum(tl.abs(a) + tl.abs(b), _LEAST))
        return apart * (root * root)
    power = apart
    for _ in tl.static_range(POWER - 1):  # pyright: ignore[reportGeneralTypeIssues]
        power *= apart
    return power


@triton.jit
def _fill(
    x, y, own_x, own_y, tile, d, padded, step, n,
    KIND: tl.constexpr, POWER: tl.constexpr, APPROXIMATE: tl.constexpr,
    EACH: tl.constexpr, SIDE: tl.constexpr, UNROLLED: tl.constexpr,
):  # fmt: skip
    """Fill one program's pairs of ``tile``, as wide as ``y``.

    Programs in a row share queries and walk the references.
    """
    place = tl.arange(0, EACH)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    rows = tl.program_id(1) * EACH * SIDE + place
    columns = tl.program_id(0) * EACH * SIDE + place
    total = tl.full((EACH, EACH, SIDE, SIDE), 0.0, tl.float32)
    scale = tl.full((EACH, EACH, SIDE, SIDE), 0.0, tl.float32)
    x_at, y_at = x + rows, y + columns
    for _ in range(0, padded, UNROLLED):
        for u in tl.static_range(UNROLLED):  # pyright: ignore[reportGeneralTypeIssues]
            a = tl.load(x_at + u * step)[:, None, :, None]
            b = tl.load(y_at + u * n)[None, :, None, :]
            if KIND == "largest":
                total = tl.maximum(total, tl.abs(a - b))
            else:
                total += _term(a, b, KIND, POWER, APPROXIMATE)
            if KIND == "signed ratio":
                scale += tl.abs(a + b)
        x_at += UNROLLED * step
        y_at += UNROLLED * n
    if KIND == "ratio" or KIND == "entropy":
        scale = tl.load(own_x + rows)[:, None, :, None] + tl.load(own_y + columns)[None, :, None, :]
    if KIND == "ratio" or KIND == "signed ratio":
        total = total / tl.maximum(total + scale, _LEAST)
    elif KIND == "entropy":
        total = (scale - total * _LN2) / d
    where = rows[:, None, :, None].to(tl.int64) * n + columns[None, :, None, :]
    tl.store(tile + where, total)


def fill(form: Form, queries: Any, references: Any, tile: Any) -> None:
    """Fill a tile [m, n] on a device with values that ``form`` bounds.

    Rows and columns beyond the blocks' own hold no pair.

    Args:
        form: Form from `bounds.find_form`, of a family other than "product".
        queries: Block of queries, a `gpu.DeviceBlock`.
        references: Block of references, a `gpu.DeviceBlock`.
        tile: Contiguous tile of padded size.
    """
    kind = form.family
    if kind == "ratio" and form.measure.domain == "signed":
        kind = "signed ratio"
    elif kind == "sum":
        kind = "largest" if form.measure.name == "chebyshev" else "power"
    driver: Any = triton.runtime.driver
    nvidia = isinstance(_fill, triton.JITFunction) and driver.active.get_current_target().backend == "cuda"
    small = nvidia and kind != "signed ratio" and form.root <= 4
    registers = {"maxnreg": 128} if small else {}  # two programs a multiprocessor, where that spills nothing
    x, (m, n) = queries.short, tile.shape
    kernel: Any = _fill
    kernel[n // PAIRS, m // PAIRS](
        x, references.short, queries.own, references.own, tile, form.measure.dimension, len(x), x.stride(0), n,
        KIND=kind, POWER=int(form.root), APPROXIMATE=nvidia,
        EACH=EACH, SIDE=SIDE, UNROLLED=UNROLLED, num_warps=SIDE * SIDE // 32, enable_fp_fusion=True, **registers,
    )  # fmt: skip
