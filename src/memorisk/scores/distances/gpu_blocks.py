"""Blocks of rows and tiles of values on a device, by PyTorch; what `rows`, `shortening` and `blocks` are on the CPU."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.scores.distances.bounds import Form
from memorisk.scores.distances.rows import Rows, rows_per_block
from memorisk.scores.distances.shortening import NORMS, SMALLEST, largest, relative

ELEMENTS = 1 << 24
"""Numbers of a block of rows: 128 MiB in float64, a few times that while they are prepared."""
QUERIES = 1 << 26
"""Numbers of the queries held at once: 256 MiB in float32."""
TILE = 1 << 28
"""Values of a tile: 1 GiB."""
PADDED = 128, 4
"""Rows and columns of a block come in multiples of these; see `gpu_kernels`."""


class DeviceRows(Rows):
    """A table whose blocks are read onto a device; whole, once, where it takes less than a quarter of the free memory.

    Args:
        table: As for `Rows`.
        what: As for `Rows`.
        device: A ``torch.device``.
    """

    elements = ELEMENTS

    def __init__(self, table: Any, what: str, device: Any) -> None:
        import torch

        super().__init__(table, what)
        self.device = device
        self._there: Any = None
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if self.n * self.d * self._table.dtype.itemsize < free // 4:
                self._there = self._moved(self._table)

    def block(self, first: int, last: int) -> Any:
        """Rows ``first`` to ``last`` in float64, a tensor on the device."""
        import torch

        part = self._moved(self._table[first:last]) if self._there is None else self._there[first:last]
        return part.to(torch.float64)

    def _moved(self, part: Any) -> Any:
        import torch

        if not self._tensor:
            part = torch.from_numpy(np.require(part, part.dtype.newbyteorder("="), ["C", "W"]))
        return part.to(self.device)


@dataclass(frozen=True, eq=False)
class DeviceBlock:
    """Rows made ready on a device; padded with zeros."""

    short: Any
    """[D, N] float32: the rows' columns."""
    own: Any
    """[N] float32, see `bounds.Block`."""
    slack: Any
    """[N] float64."""
    size: int
    """Rows without padding."""

    def part(self, first: int, last: int) -> "DeviceBlock":
        """Some of the rows; multiples of the padding, or the end."""
        here = slice(first, last)
        return DeviceBlock(self.short[:, here], self.own[here], self.slack[here], min(last, self.size) - first)


def prepare(form: Form, rows: DeviceRows, first: int, last: int) -> DeviceBlock:
    """Rows ``first`` to ``last``; see `bounds.Form.prepare`."""
    import torch

    n, d = (-(-size // step) * step for size, step in zip((last - first, rows.d), PADDED, strict=True))
    short = torch.zeros((d, n), dtype=torch.float32, device=rows.device)
    own, slack = torch.zeros_like(short[0]), torch.zeros_like(short[0], dtype=torch.float64)
    step = rows_per_block(rows.d, rows.elements)
    for start in range(first, last, step):
        end = min(start + step, last)
        here = slice(start - first, end - first)
        near, own[here], slack[here] = _shorten(form, form.measure.rows(rows.block(start, end)))
        short[: rows.d, here] = near.T
    return DeviceBlock(short, own, slack, last - first)


def _shorten(form: Form, exact: Any) -> tuple[Any, Any, Any]:
    """Rows in float32, their own terms and their slacks; see `shortening`, whose kernel this is in other words."""
    import torch

    moved, lost = form.moved(exact)
    value = moved * form.scale
    norm, inside = NORMS[form.family], abs(value) <= largest(value.shape[1], form.root)
    near = torch.where(inside & (abs(value) >= (SMALLEST if norm == 3 else 0.0)), value, 0.0).float()
    off = abs(value - near)
    if norm == 2:
        own = near.double().square().sum(1)
        slack = off.square().sum(1).sqrt() + 2.0**-50 * own.sqrt() + form.drift() * form.scale
    elif norm == 3:
        own = torch.full_like(off[:, 0], value.shape[1])
        slack = torch.where(off > 0, torch.where(near != 0, 2.0**-24, 1.0), 0.0).sum(1) + form.drift() * own
    elif norm == 4:
        own = torch.xlogy(value, 2.0 * value).sum(1)
        slack = (1.0 - 2.0 * value).clip(0).sum(1) + own.clip(0)
    else:
        own = abs(value).sum(1)
        slack = off.sum(1) + (2.0**-50 * bool(len(form.centre)) + form.drift()) * own
    inside = inside.all(1) & (own < 1e36)  # a value is infinite only where its pair is left out
    own, slack = torch.where(inside, own, 0.0), torch.where(inside, slack, torch.inf)
    return near, own, (relative(slack, own) if form.family == "ratio" else slack) + lost


def evaluate(form: Form, queries: DeviceBlock, references: DeviceBlock, tile: Any) -> Any:
    """Fill a tile [M, N] of padded size, up to a number a row that is still to be added, [M]; see `blocks.evaluate`.

    Raises:
        InputError: The measure is no product, and there is no Triton.
    """
    import torch

    rest = torch.zeros_like(queries.own)
    if form.family == "none":
        tile.zero_()
    elif form.family == "product":
        torch.addmm(references.own, queries.short.T, references.short, alpha=-2, out=tile)
        if form.measure.name == "dice":
            own = queries.own[:, None]
            tile.add_(own).div_((own + references.own).clip_(1e-31))
        else:
            rest = queries.own
    else:
        try:
            from memorisk.scores.distances.gpu_kernels import fill
        except ImportError:
            raise InputError(
                f"{form.measure.name} on a GPU needs Triton, which is not installed: python -m pip install triton, or "
                "give device='cpu'"
            ) from None
        fill(form, queries, references, tile)
    tile[:, references.size :] = torch.inf
    return rest


@contextmanager
def full_products(device: Any) -> Iterator[None]:
    """Products of float32 in float32, whatever the caller has set; as it was on leaving.

    Raises:
        InputError: The environment forces shorter ones (NVIDIA_TF32_OVERRIDE).
    """
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
            matmul = torch.backends.cuda.matmul
            try:
                stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            except RuntimeError:  # set by PyTorch's newer names, which the older ones cannot tell
                stack.callback(setattr, matmul, "fp32_precision", matmul.fp32_precision)
            torch.set_float32_matmul_precision("highest")
            fine = torch.full((128, 128), 1 + 2.0**-20, device=device)
            if float((fine @ torch.eye(128, device=device)).min()) == 1:
                raise InputError("this GPU multiplies in TF32 against PyTorch's setting; unset NVIDIA_TF32_OVERRIDE")
        yield
