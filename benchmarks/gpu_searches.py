"""Stages of ``gpu_quarter.py``: exact searches of pairs and of nearest neighbours, as shares of the card's rates.

Each search is held to the CPU's answers about the first rows, and has two rivals of a few lines. ``plain`` fills tiles
by PyTorch, products or differences of all columns, in float32, takes the nearest few of each row, and computes those
again in float64. ``compiled`` is the same, its tile through ``torch.compile`` (on a card only). Neither can say that
it missed nothing; how many of the first rows it gets wrong is counted. Rivals search some of the rows, and their
seconds are scaled, since their work is proportional to rows.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

from bench_distances import BINARY, POSITIVE, fit
from bench_pairs import BIAS, BINS, K, vectors, weights
from gpu_common import Rates, Run, WrongAnswer, seconds
from memorisk.scores.distances import nearest, neighbours
from memorisk.scores.distances.measures import PAPER_MEASURES, FittedMeasure, definition
from memorisk.scores.pairs import score, search, survey

CHECKED, SPARE, ROUNDS = 64, 8, 3
TILE_NUMBERS = 1 << 28
"""Differences that a plain tile holds at once: 1 GiB."""
PRODUCTS = [name for name in PAPER_MEASURES if name not in Rates.INSTRUCTIONS]

Tile = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@contextmanager
def searched_as_on_a_card(run: Run) -> Iterator[str]:
    """The device "cuda", which is the CPU where the run is small: the same code by Triton's interpreter."""
    with ExitStack() as stack:
        for module in (neighbours, search) if run.small else ():
            plain = module.find_device
            there = lambda name, u, v, plain=plain: run.device if name == "cuda" else plain(name, u, v)  # noqa: E731
            stack.enter_context(mock.patch.object(module, "find_device", there))
        yield "cuda"


def rivals(run: Run, tile: Tile, fused: Tile | None) -> dict[str, Tile]:
    """The ways to fill a tile in PyTorch alone."""
    compiled = {} if run.small or fused is None else {"compiled": torch.compile(fused, dynamic=False)}
    return {"plain": tile, **compiled}


def rows_of(tile: Tile, x: torch.Tensor, y: torch.Tensor, numbers: int) -> Iterator[tuple[slice, torch.Tensor]]:
    """Tiles of some rows of x against all of y, ``numbers`` at once."""
    step = max(1, TILE_NUMBERS // numbers)
    for first in range(0, len(x), step):
        rows = slice(first, first + step)
        yield rows, tile(x[rows], y)


def pairs(run: Run) -> None:
    """LCMem's head over the paper's 218,703,375 pairs: a histogram and the ten most similar of every row."""
    n, m, d = (96, 80, 24) if run.small else (16_125, 13_563, 512)
    device, u, w = run.device, vectors("random", n + m, d), weights(d)
    u, v = u[:n], u[n:]
    logits = score(u[:100], v[:100], w, BIAS)
    edges = np.linspace(logits.min(), logits.max(), BINS + 1)
    rates = Rates(device)
    limit = 2 * n * m * d / rates.medians["multiply_adds"]
    run.note(rates_per_second=rates.medians, pairs=n * m, d=d)
    tables = {"tensors": [torch.from_numpy(table).to(device) for table in (u, v)], "arrays": [u, v]}
    expected: Any = survey(u[:CHECKED], v, w, BIAS, k=K, device="cpu").top
    with searched_as_on_a_card(run) as card:
        for side, (x, y) in tables.items():
            answer: Any = survey(x, y, w, BIAS, k=K, edges=edges, device=card)  # compiles
            if not np.array_equal(answer.top.indices[:CHECKED], expected.indices):
                raise WrongAnswer(f"the most similar rows of {side} are not the CPU's")
            ask = lambda x=x, y=y: survey(x, y, w, BIAS, k=K, edges=edges, device=card)  # noqa: E731
            took = float(np.median([seconds(ask, device) for _ in range(1 if run.small else ROUNDS)]))
            run.note(**{side: {"seconds": took, "share_of_limit": limit / took}})
    run.note(
        f"Triton {run.results['tensors']['seconds']:.3f} s, {run.results['tensors']['share_of_limit']:.0%} of the limit"
    )
    x, y = tables["tensors"]
    weight, marks = (torch.from_numpy(part).to(device) for part in (w, edges))
    few = n if run.small else 4096
    plain = lambda a, b: (a[:, None] - b[None]).abs() @ weight + BIAS  # noqa: E731
    fused = lambda a, b: ((a[:, None] - b[None]).abs() * weight).sum(2) + BIAS  # noqa: E731
    for name, tile in rivals(run, plain, fused).items():
        nearest_rows, _ = plain_pairs(tile, x[:few], y, weight, marks)  # compiles
        took = seconds(lambda tile=tile: plain_pairs(tile, x[:few], y, weight, marks), device) * n / few
        wrong = int((nearest_rows[:CHECKED].cpu().numpy() != expected.indices).any(1).sum())
        row = {"seconds": took, "share_of_limit": limit / took, "rows_wrong": wrong, "rows_checked": CHECKED}
        run.note(f"{run.results['line']}; {name} {took:.3f} s, {wrong} rows wrong", **{name: row})


def plain_pairs(
    tile: Tile, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, edges: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The K most similar rows of each, and a histogram of the float32 logits."""
    tops, counts = [], torch.zeros(BINS + 2, dtype=torch.int64, device=x.device)
    for rows, values in rows_of(tile, x, y, len(y) * x.shape[1]):
        counts += torch.bincount(torch.bucketize(values, edges.float()).view(-1), minlength=BINS + 2)
        near = values.topk(K + SPARE).indices
        exact = (x[rows].double()[:, None] - y[near].double()).abs() @ weight.double()
        tops.append(near.gather(1, exact.topk(K).indices))
    return torch.cat(tops), counts


def formula(name: str, p: float, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A measure's order of pairs, over the last axis, as it is written."""
    apart = (x - y).abs()
    if name == "chebyshev":
        return apart.amax(-1)
    if name == "minkowski":
        return (apart**p).sum(-1)
    if name == "braycurtis":
        return apart.sum(-1) / (x + y).abs().sum(-1)
    if name == "dice":
        return apart.sum(-1) / (x + y).sum(-1)
    if name == "canberra":
        return (apart / (x.abs() + y.abs()).clip(1e-31)).sum(-1)
    if name == "jensenshannon":
        middle = (x + y) / 2
        return (torch.xlogy(x, x) + torch.xlogy(y, y) - 2 * torch.xlogy(middle, middle)).sum(-1)
    return apart.sum(-1) if name == "cityblock" else apart.square().sum(-1)


def products(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The order of pairs of a measure that is a matrix product."""
    own = y.square().sum(1)
    if name == "dice":
        both = x.square().sum(1)[:, None] + own
        return 1 - 2 * (x @ y.T) / both
    return torch.addmm(own, x, y.T, alpha=-2)


def rows_of_measure(measure: FittedMeasure, table: torch.Tensor) -> torch.Tensor:
    """Rows as the measure compares them, in float64: weighted or whitened where it does so."""
    rows: Any = torch.cat([torch.as_tensor(measure.rows(part.double())) for part in table.split(1 << 14)])  # pyright: ignore
    parts = definition(measure)
    if parts.weights.size:
        return rows * torch.from_numpy(np.sqrt(parts.weights)).to(table.device)
    return rows @ torch.from_numpy(parts.whitening).to(table.device) if parts.whitening.size else rows


def plain_nearest(tile: Tile, measure: FittedMeasure, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The nearest reference of every query."""
    answer, numbers = [], len(y) * (1 if measure.name in PRODUCTS else x.shape[1])
    low = x.float(), y.float()
    for rows, values in rows_of(tile, *low, numbers):
        near = values.topk(1 + SPARE, largest=False).indices
        exact = formula(measure.name, measure.p or 0.0, x[rows][:, None], y[near])
        answer.append(near.gather(1, exact.argmin(1, keepdim=True))[:, 0])
    return torch.cat(answer)


def distances(run: Run) -> None:
    """The nearest reference by each of the paper's 14 measures, then by PyTorch alone."""
    n, d = (300, 12) if run.small else (131_072, 512)
    rng, rates = np.random.default_rng(0), Rates(run.device)
    run.note(rates_per_second=rates.medians, n=n, d=d)
    normal = [rng.standard_normal((n, d), dtype=np.float32) for _ in range(2)]
    tables = {
        sign: [torch.from_numpy(change(t)).to(run.device) for t in normal]
        for sign, change in (("+", np.abs), ("", np.array))
    }
    measures, answers, searches, wrong = {}, {}, {}, []
    for name in PAPER_MEASURES:
        x, r = (np.abs(table) if name in POSITIVE else table for table in normal)
        measures[name] = fit(name, r)
        answers[name] = nearest(x[:CHECKED], r, measures[name], device="cpu")
        searches[name] = searched_nearest(run, measures[name], tables["+" * (name in POSITIVE)], answers[name], rates)
        run.note(searches=searches)
        shares = [row["share_of_limit"] for row in searches.values()]
        wrong = [measure for measure, row in searches.items() if not row["right"]]
        line = f"Triton: {len(shares)} measures, {min(shares):.0%} to {max(shares):.0%} of the limit"
        run.note(f"not the CPU's: {', '.join(wrong)}; {line}" if wrong else line)
    line, rows = run.results["line"], {}
    for name in (
        "cityblock",
        "euclidean",
        *(name for name in PAPER_MEASURES if name not in ("cityblock", "euclidean")),
    ):
        sides = tables["+" * (name in POSITIVE)]
        rows[name] = rivals_nearest(run, measures[name], sides, answers[name].indices[:, 0], rates)
        run.note(rivals=rows)
        slower = [
            min(way["seconds"] for way in row.values()) / searches[other]["seconds"] for other, row in rows.items()
        ]
        run.note(
            f"{line}; PyTorch alone takes {min(slower):.2g} to {max(slower):.2g} times as long ({len(slower)} measures)"
        )
    if wrong:
        raise WrongAnswer(f"the nearest references are not the CPU's by {', '.join(wrong)}")


def searched_nearest(
    run: Run, measure: FittedMeasure, tables: list[torch.Tensor], expected: Any, rates: Rates
) -> dict[str, Any]:
    """Seconds of one measure's search, and whether the first rows are the CPU's."""
    x, r = tables
    with searched_as_on_a_card(run) as card:
        nearest(x[:256], r, measure, device=card)  # compiles
        answer: list[Any] = []
        ask = lambda: answer.append(nearest(x, r, measure, device=card))  # noqa: E731
        took = seconds(ask, run.device)
    right = all(
        np.array_equal(getattr(answer[0], part)[:CHECKED], getattr(expected, part)) for part in ("indices", "distances")
    )
    limit = rates.limit(measure.name, float(len(x)) * len(r), x.shape[1])
    return {"seconds": took, "share_of_limit": limit / took, "right": right}


def rivals_nearest(
    run: Run, measure: FittedMeasure, tables: list[torch.Tensor], expected: np.ndarray, rates: Rates
) -> dict[str, dict[str, float]]:
    """Seconds of one measure by PyTorch alone."""
    name, p, n = measure.name, measure.p or 0.0, len(tables[0])
    few = n if run.small else 16_384 if name in PRODUCTS else 1024
    x, r = rows_of_measure(measure, tables[0][:few]), rows_of_measure(measure, tables[1])
    if name in PRODUCTS:
        x, r = (x, r) if name in BINARY else (x - r.mean(0), r - r.mean(0))
        ways = rivals(run, lambda a, b: products(name, a, b), None)
    else:
        every = lambda a, b: formula(name, p, a[:, None], b[None])  # noqa: E731
        ways = rivals(run, every, every if name in ("cityblock", "canberra") else None)
    row, limit = {}, rates.limit(name, float(n) * n, tables[0].shape[1])
    for way, tile in ways.items():
        answer = plain_nearest(tile, measure, x, r)  # compiles
        took = seconds(lambda tile=tile: plain_nearest(tile, measure, x, r), run.device) * n / few
        wrong = int((answer[:CHECKED].cpu().numpy() != expected).sum())
        row[way] = {"seconds": took, "share_of_limit": limit / took, "rows_wrong": wrong, "rows_checked": CHECKED}
    return row
