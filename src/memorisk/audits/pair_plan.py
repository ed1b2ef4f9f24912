"""A search over all pairs on paper: pairs, operations, bytes, blocks, jobs, cards and hours, for tables of any size.

Nothing is read and nothing is searched but, for the hours on this machine, a small table of random vectors. Counts are
exact (`memorisk.scores.search_cost`); bytes are those of the arrays that a search holds; hours on a card are a lower
bound at its data sheet's peak, and another number only at a share of it that the caller states, since none was
measured.
"""

import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from memorisk.audits.pair_plan_options import HEAD, PairPlanOptions
from memorisk.report.quantities import Quantity
from memorisk.scores.distances import find_measure, fit_measure, nearest
from memorisk.scores.distances import gpu as measure_blocks
from memorisk.scores.distances.rows import rows_per_block
from memorisk.scores.pairs import gpu as head_blocks
from memorisk.scores.pairs import search as one_pass
from memorisk.scores.pairs import survey
from memorisk.scores.search_cost import Card, PairCounts, count_pairs

JOB_ROWS = 8192
TIMED_ROWS = 2048
"""Rows a side of the search that is timed here: seconds on any machine."""
_HOURS = Quantity(
    "hours expected",
    "power",
    missing="unknown: no share of a card's peak was measured; give yours with --share",
)
_FEWEST = Quantity("fewest cards that keep both tables", missing="none: the second table is too large")
_FLOAT32, _NEIGHBOUR, _LISTED, _BIN = 4, 16, 24, 8  # bytes of a number, of a row and its score, of a pair, of a count


@dataclass(frozen=True)
class CardPlan:
    """A search on GPUs."""

    card: Card
    """Kind of each card."""
    cards: Annotated[int, Quantity("cards")]
    """Number of cards; each takes a part of the first table and all of the second."""
    table_bytes: Annotated[int, Quantity("tables on each card", "size")]
    """Bytes of both tables as one card keeps them, where they fit."""
    work_bytes: Annotated[int, Quantity("work on each card", "size")]
    """Bytes of a tile and of blocks that are made ready, on one card."""
    kept: Annotated[bool, Quantity("both tables stay on each card", "yes_no")]
    """Whether both tables stay on each card; a search keeps one that takes less than a quarter of the free memory."""
    sent_again_bytes: Annotated[int, Quantity("sent to each card again", "size", if_any=True)]
    """Bytes sent to one card after each table once: the table that is not kept, for every block of the first."""
    cards_for_memory: Annotated[int | None, _FEWEST]
    """Smallest number of cards of this kind that keep both tables; None where the second table is too large for any
    number."""
    hours_at_peak: Annotated[float, Quantity("hours at the data sheet's peak, at least", "power")]
    """Hours if every operation ran at the data sheet's peak: no search is quicker."""
    hours: Annotated[float | None, _HOURS]
    """Hours at the share of the peak that the caller stated; None without one."""


@dataclass(frozen=True)
class PairPlan:
    """Plan of a search over all pairs."""

    counts: PairCounts
    """Counts of one process that does all of it on a CPU."""
    operations: Annotated[int, Quantity("operations, at most", "power")]
    """Largest number of arithmetic operations: two for every column (a subtraction and an addition, or a multiplication
    and an addition)."""
    jobs: Annotated[int, Quantity(f"jobs for --executor, of {JOB_ROWS:,} rows")]
    """Number of parts for `--executor`, each some rows of the first table against all of the second."""
    input_bytes: Annotated[int, Quantity("tables", "size")]
    """Bytes of both tables in float32."""
    answer_bytes: Annotated[int, Quantity("answers, at most", "size")]
    """Largest number of bytes that are kept."""
    worker_bytes: Annotated[int, Quantity("held by a process besides, about", "size")]
    """Approximate bytes of a process in addition to the tables and answers: blocks and a tile."""
    pairs_per_second: Annotated[float | None, Quantity("pairs a second on this machine", "power", if_any=True)]
    """Pairs per second on this machine with all its threads, by a small search; None where it was not timed."""
    hours_here: Annotated[float | None, Quantity("hours on machines like this one", "power", if_any=True)]
    """Hours at that rate, by the requested number of workers."""
    gpu: CardPlan | None
    """Plan of the search on cards; None where no card was named."""

    @property
    def n_pairs(self) -> Annotated[int, Quantity("pairs")]:
        """Number of pairs that are compared."""
        return self.counts.pairs


def plan_pairs(options: PairPlanOptions) -> PairPlan:
    """Plan a search.

    Args:
        options: Sizes of the tables, the measure and the machines.

    Raises:
        InputError: Numbers or names that cannot be.

    Example:
        >>> options = PairPlanOptions(synthetic=10_000_000, train=10_000_000, card="H200", timing=False)
        >>> plan = plan_pairs(options)
        >>> plan.counts.pairs, plan.input_bytes, plan.jobs
        (100000000000000, 40960000000, 1221)
    """
    options.validate()
    n, m, d = options.synthetic, options.train, options.width
    head = options.measure == HEAD
    counts = count_pairs(n, m, d, head=head)
    rate = _pairs_per_second(options) if options.timing else None
    card = options.chosen_card
    return PairPlan(
        counts=counts,
        operations=2 * counts.columns,
        jobs=-(-n // JOB_ROWS),
        input_bytes=_FLOAT32 * d * (n + (m or 0)),
        answer_bytes=_NEIGHBOUR * n * options.neighbours + _LISTED * options.listed + _BIN * options.bins,
        worker_bytes=_worker_bytes(n, m or n, d, head=head, listed=bool(options.listed)),
        pairs_per_second=rate,
        hours_here=None if rate is None else counts.pairs / rate / options.workers / 3600,
        gpu=None if card is None else _card_plan(card, options, counts),
    )


def _worker_bytes(n: int, m: int, d: int, *, head: bool, listed: bool) -> int:
    """Count the bytes of a worker: blocks of both tables, in float64 and as compared, and a tile for each thread."""
    many, few = min(n, rows_per_block(d, one_pass.FIRST_NUMBERS)), min(m, rows_per_block(d))
    short = 2 if head else _FLOAT32
    tile = one_pass.TILE_ROWS * few * (4 + _LISTED * listed)
    return (many + few) * d * (8 + short) + _threads() * tile


def _card_plan(card: Card, options: PairPlanOptions, counts: PairCounts) -> CardPlan:
    """Estimate memory and hours of cards that share the first table."""
    n, m, d = options.synthetic, options.train or options.synthetic, options.width
    head, own = options.measure == HEAD, -(-n // options.cards)
    width = head_blocks.padded(d, head_blocks.CHUNK) + head_blocks.CHUNK if head else d  # both signs are filled up
    room, row = card.memory / 4, _FLOAT32 * width
    fits = (row * m < room, row * own < room)
    block = head_blocks.ROWS if head else rows_per_block(d, measure_blocks.QUERIES)
    again = (-(-own // block) - 1) * row * m if not fits[0] else 0
    tile = _FLOAT32 * min(head_blocks.ROWS, own) * min(head_blocks.ROWS, m) if head else 4 * measure_blocks.TILE
    held = row * 2 * min(block, max(own, m))
    product = not head and find_measure(options.measure).family == "product"
    seconds = counts.pairs * d * 2 / (card.rate if product else card.rate / 2) / options.cards
    return CardPlan(
        card=card,
        cards=options.cards,
        table_bytes=row * (m + own) if options.train is not None else row * m,
        work_bytes=tile + held,
        kept=all(fits),
        sent_again_bytes=int(again),
        cards_for_memory=_fewest_cards(n, row, room) if fits[0] else None,
        hours_at_peak=seconds / 3600,
        hours=None if options.share is None else seconds / options.share / 3600,
    )


def _fewest_cards(n: int, row: int, room: float) -> int:
    """Return the cards with which a part of the first table takes less than the room."""
    most = int((room - 1) // row)  # rows
    return -(-n // max(1, most))


def _threads() -> int:
    """Return the number of threads of a search on this machine."""
    from numba import config

    return int(getattr(config, "NUMBA_NUM_THREADS", 1))


def _pairs_per_second(options: PairPlanOptions) -> float:
    """Time a small search with the same questions on random vectors, the second of two: the first one compiles."""
    rng = np.random.default_rng(0)
    u, v = (rng.normal(size=(TIMED_ROWS, options.width)).astype(np.float32) for _ in range(2))
    weight = rng.normal(size=options.width)
    search = _head_search(u, v, weight, options) if options.measure == HEAD else _measure_search(u, v, options)
    seconds = 0.0
    for _ in range(2):
        begun = time.perf_counter()
        search()
        seconds = time.perf_counter() - begun
    return TIMED_ROWS**2 / seconds


def _head_search(u: np.ndarray, v: np.ndarray, weight: np.ndarray, options: PairPlanOptions) -> Any:
    """Run the survey that is timed."""
    edges = np.linspace(-1, 1, options.bins + 1) * 4 * np.abs(weight).sum() if options.bins else None
    threshold = 0.0 if options.listed else None
    return lambda: survey(u, v, weight, 0.0, threshold=threshold, k=options.neighbours, edges=edges, device="cpu")


def _measure_search(u: np.ndarray, v: np.ndarray, options: PairPlanOptions) -> Any:
    """Run the search for the nearest that is timed, on vectors without negative values, which all measures take."""
    measure = fit_measure(options.measure, abs(v), binarise="median" if _is_binary(options.measure) else None)
    return lambda: nearest(abs(u), abs(v), measure, options.neighbours, device="cpu")


def _is_binary(name: str) -> bool:
    """Return whether a measure takes zeros and ones."""
    from memorisk.scores.distances.measures import BINARY

    return name in BINARY
