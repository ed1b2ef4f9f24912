"""The cost of a search over all pairs: pairs, tiles and blocks on the CPU, and the GPUs that could do it.

`PairCounts` holds how many pairs, tiles and blocks a search has on the CPU, and how many columns it adds up at
most. It uses the very sizes by which `memorisk.scores.pairs` and `memorisk.scores.distances` cut their tables; the
tests compare it with counted searches.

A `Card` is a GPU by the two numbers of its data sheet that a plan needs: float32 operations a second, and memory.
Sources: NVIDIA's data sheets of T4, V100 (SXM2, 32 GB), A10, RTX A6000, A100 (SXM, 40 and 80 GB), L4, L40S, H100
(SXM) and H200 (SXM), and its architecture papers for GeForce RTX 3090 and 4090. The rates are peaks of arithmetic
on registers without tensor cores, a multiply-add counted as two operations; real programs do not reach them. No card
was at hand when this was written: the share of its peak that a search reaches is not measured
(benchmarks/gpu_quarter.py measures it where there is a card).
"""

from dataclasses import dataclass

from memorisk.runs.errors import InputError, unknown_name
from memorisk.scores.distances import neighbours
from memorisk.scores.distances.rows import rows_per_block
from memorisk.scores.pairs import search
from memorisk.scores.pairs.quantization import LANES


@dataclass(frozen=True)
class PairCounts:
    """Pairs, tiles and blocks of one search by one process."""

    pairs: int
    """Number of different pairs."""
    tile_pairs: int
    """Pairs of all tiles: those on a tile's far side of the diagonal, too, where a set is searched by itself."""
    columns: int
    """Differences or products of two numbers: ``tile_pairs`` times the width. It is a maximum for a head's search,
    whose
    vectors are filled up to 32 numbers: that search gives pairs up earlier where it needs only those above a
    threshold."""
    tiles: int
    """Number of pieces that a thread evaluates at once."""
    first_blocks: int
    """Number of blocks of rows of the first table."""
    second_blocks: int
    """Number of blocks of rows of the second table, each made ready once for every block of the first."""


def count_pairs(n: int, m: int | None, width: int, *, head: bool, block: int | None = None) -> PairCounts:
    """Count a search of n rows among m, or of n rows among themselves.

    Args:
        n: Number of rows of the first table (queries, u).
        m: Number of rows of the second table (references, v); None for all pairs of the first, each once, which heads
            alone
            have.
        width: Number of numbers in a vector.
        head: Whether a Siamese detector's head compares (`scores.pairs.survey`), or a measure (`scores.distances`).
        block: Number of rows of a block; None for the search's own choice.

    Raises:
        InputError: A number below 1, or a measure without a second table.

    Example:
        >>> count_pairs(1000, 500, 64, head=False).pairs
        500000
    """
    for what, number in (("rows", n), ("rows", m), ("numbers of a vector", width), ("rows of a block", block)):
        if number is not None and number < 1:
            raise InputError(f"{number} {what}: give at least 1")
    if m is None and not head:
        raise InputError("a measure compares two tables: give the rows of both")
    many = block or rows_per_block(width, search.FIRST_NUMBERS if head else neighbours.QUERIES)
    few = block or rows_per_block(width)
    filled = -(-width // LANES) * LANES if head else width
    height = min(search.TILE_ROWS if head else neighbours.TILE_ROWS, many)
    starts = range(0, n, many)
    if m is not None:
        second = len(starts) * -(-m // few)
        tiles = sum(-(-(min(first + many, n) - first) // height) for first in starts) * -(-m // few)
        return PairCounts(n * m, n * m, n * m * filled, tiles, len(starts), second)
    tiles = visited = second = 0
    for first in starts:
        last = min(first + many, n)
        of_block = -(-(n - first) // few)
        second += of_block
        for row in range(first, last, height):
            visited += (min(row + height, last) - row) * (n - row - 1)  # only rows that follow the tile's first
            tiles += of_block - (row + 1 - first) // few if row + 1 < n else 0
    return PairCounts(n * (n - 1) // 2, visited, visited * filled, tiles, len(starts), second)


@dataclass(frozen=True)
class Card:
    """One GPU by its name, its peak rate and its memory."""

    name: str
    """Name on the command line."""
    rate: float
    """Operations on float32 per second, a multiply-add being two."""
    memory: float
    """Size of the memory in bytes."""

    def __post_init__(self) -> None:
        if not self.rate > 0 or not self.memory > 0:
            raise InputError(f"a card of {self.rate:g} operations a second and {self.memory:g} bytes: both must be > 0")


CARDS = {
    name: Card(name, tera * 1e12, giga * 1e9)
    for name, tera, giga in (
        ("T4", 8.1, 16), ("V100", 15.7, 32), ("A10", 31.2, 24), ("A6000", 38.7, 48), ("A100-40", 19.5, 40),
        ("A100", 19.5, 80), ("L4", 30.3, 24), ("L40S", 91.6, 48), ("RTX3090", 35.6, 24), ("RTX4090", 82.6, 24),
        ("H100", 67.0, 80), ("H200", 67.0, 141),
    )
}  # fmt: skip
"""Cards by their names on the command line."""


def find_card(name: str) -> Card:
    """Find a card by its name.

    Raises:
        InputError: It is none of `CARDS`.
    """
    for card_name, card in CARDS.items():
        if card_name.lower() == name.lower().replace(" ", ""):
            return card
    raise unknown_name("card", name, CARDS)
