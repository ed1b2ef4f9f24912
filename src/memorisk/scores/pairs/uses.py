"""One question at a time: logits, pairs above a threshold, most similar rows, histograms."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.scores.distances.rows import FloatArray, rows_per_block
from memorisk.scores.pairs.answers import Pairs, Top
from memorisk.scores.pairs.checks import open_vectors
from memorisk.scores.pairs.head import check_head
from memorisk.scores.pairs.one_pass import survey


def score(u: Any, v: Any, weight: Any, bias: Any) -> FloatArray:
    """Logits of every row of u with every row of v, by definition in float64.

    ``bias + sum_k weight_k |u_k - v_k|``: what all other answers are held to; for small blocks.

    Args:
        u: [n, d]; an array, a memory map or a tensor.
        v: [m, d]; None for u itself.
        weight: [d] or [1, d], of both signs.
        bias: The logit of a vector and itself.

    Returns:
        [n, m] float64; exactly symmetric where v is u.

    Raises:
        InputError: Shapes, types, rows or weights that cannot be taken.
    """
    from memorisk.scores.pairs.scans import all_pairs

    left, right = open_vectors(u, v)
    head = check_head(weight, bias, left.d)
    for rows in (left, right or left):
        rows.check()
    x = left.block(0, left.n)
    y = x if right is None else right.block(0, right.n)
    out = np.empty((len(x), len(y)))
    all_pairs(x, y, head.weight, head.bias, out)
    return out


def rowwise(u: Any, v: Any, weight: Any, bias: Any) -> FloatArray:
    """Logit of each row of u with the row of v beside it: the diagonal of `score`.

    Args:
        u: [n, d]; an array, a memory map or a tensor.
        v: [n, d].
        weight: [d] or [1, d], of both signs.
        bias: The logit of a vector and itself.

    Returns:
        [n] float64; ``rowwise(u, v)`` and ``rowwise(v, u)`` are the same to the bit.

    Raises:
        InputError: Shapes, types, rows or weights that cannot be taken.
    """
    from memorisk.scores.pairs.scans import row_pairs

    left, right = open_vectors(u, v)
    if right is None or left.n != right.n:
        raise InputError("u and v have different numbers of rows; give as many, pair by pair")
    head = check_head(weight, bias, left.d)
    for rows in (left, right):
        rows.check()
    out = np.empty(left.n)
    step = rows_per_block(left.d)
    for start in range(0, left.n, step):
        stop = min(start + step, left.n)
        x, y = (np.ascontiguousarray(rows.block(start, stop)) for rows in (left, right))
        row_pairs(x, y, head.weight, head.bias, out[start:stop])
    return out


def above(
    u: Any,
    v: Any,
    weight: Any,
    bias: Any,
    threshold: float,
    *,
    limit: int | None = 1_000_000,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> Pairs:
    """All pairs whose logit is at least a threshold; see `survey`.

    Returns:
        The most similar ``limit`` of them, and how many there are.
    """
    found = survey(
        u,
        v,
        weight,
        bias,
        threshold=threshold,
        limit=limit,
        exclude_same=exclude_same,
        device=device,
        threads=threads,
        block=block,
    )
    assert found.pairs is not None
    return found.pairs


def top(
    u: Any,
    v: Any,
    weight: Any,
    bias: Any,
    k: int = 1,
    *,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> Top:
    """The k most similar rows of v to every row of u (of u, without itself, where v is None); see `survey`."""
    found = survey(u, v, weight, bias, k=k, exclude_same=exclude_same, device=device, threads=threads, block=block)
    assert found.top is not None
    return found.top


def histogram(
    u: Any,
    v: Any,
    weight: Any,
    bias: Any,
    edges: ArrayLike,
    *,
    exclude_same: Any = None,
    device: str = "auto",
    threads: int | None = None,
    block: int | None = None,
) -> NDArray[np.int64]:
    """Pairs by logit, ``numpy.histogram(score(...), edges)[0]``, each pair once where v is None; see `survey`."""
    found = survey(
        u, v, weight, bias, edges=edges, exclude_same=exclude_same, device=device, threads=threads, block=block
    )
    assert found.counts is not None
    return found.counts
