"""GPUs by the two numbers of their vendors' data sheets that a plan needs: float32 operations a second, and memory.

Sources: NVIDIA's data sheets of T4, V100 (SXM2, 32 GB), A10, RTX A6000, A100 (SXM, 40 and 80 GB), L4, L40S, H100 (SXM)
and H200 (SXM), and its architecture papers for GeForce RTX 3090 and 4090. The rates are peaks of arithmetic on
registers without tensor cores, a multiply-add counted as two operations; nobody reaches them. No card was at hand when
this was written: what share of its peak a search reaches is not measured (benchmarks/gpu_pairs.py and
benchmarks/gpu_distances.py measure it where there is a card).
"""

from dataclasses import dataclass

from memorisk.runs.errors import InputError, unknown_name


@dataclass(frozen=True)
class Card:
    """One GPU."""

    name: str
    """As it is named on the command line."""
    rate: float
    """Operations on float32 a second, a multiply-add being two."""
    memory: float
    """Bytes."""

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
"""By name."""


def find_card(name: str) -> Card:
    """A card by its name.

    Raises:
        InputError: It is none of `CARDS`.
    """
    for known, card in CARDS.items():
        if known.lower() == name.lower().replace(" ", ""):
            return card
    raise unknown_name("card", name, CARDS)
