"""How many pairs, tiles and blocks a search over all pairs has on the CPU, and columns it adds up at most.

Counted from the very sizes by which `memorisk.scores.pairs` and `memorisk.scores.distances` cut their tables; held to
counted searches in the tests.
"""

from dataclasses import dataclass

from memorisk.runs.errors import InputError
from memorisk.scores.distances import blocks
from memorisk.scores.distances.rows import rows_per_block
from memorisk.scores.pairs import one_pass
from memorisk.scores.pairs.grid import LANES


@dataclass(frozen=True)
class PairCounts:
    """Of one search by one process."""

    pairs: int
    """Different pairs."""
    tile_pairs: int
    """Pairs of all tiles: those on a tile's far side of the diagonal, too, where a set is searched by itself."""
    columns: int
    """Differences or products of two numbers: ``tile_pairs`` times the width; of a head's search, whose vectors are
    filled up to 32 numbers, at most: it gives pairs up earlier where only those above a threshold are asked for."""
    tiles: int
    """Pieces that a thread evaluates at once."""
    first_blocks: int
    """Blocks of rows of the first table."""
    second_blocks: int
    """Blocks of rows of the second one, each made ready once for every block of the first."""


def count_pairs(n: int, m: int | None, width: int, *, head: bool, block: int | None = None) -> PairCounts:
    """Count a search of n rows among m, or of n rows among themselves.

    Args:
        n: Rows of the first table (queries, u).
        m: Of the second one (references, v); None for all pairs of the first, each once, which heads alone have.
        width: Numbers of a vector.
        head: Whether a Siamese detector's head compares (`scores.pairs.survey`), or a measure (`scores.distances`).
        block: Rows of a block; None for what the search takes by itself.

    Raises:
        InputError: A number below 1, or a measure without a second table.
    """
    for what, number in (("rows", n), ("rows", m), ("numbers of a vector", width), ("rows of a block", block)):
        if number is not None and number < 1:
            raise InputError(f"{number} {what}: give at least 1")
    if m is None and not head:
        raise InputError("a measure compares two tables: give the rows of both")
    many = block or rows_per_block(width, one_pass.FIRST if head else blocks.QUERIES)
    few = block or rows_per_block(width)
    filled = -(-width // LANES) * LANES if head else width
    height = min(one_pass.TILE_ROWS if head else blocks.TILE_ROWS, many)
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
