"""Table 3 of paper 004: generators conditioned on vectors of their training images, and who is in their pairs.

MemRate is the share of training images whose own generated image a detector takes for the same person: a probability
above 0.5 by a head; by any other detector a score that misses at most 5 % of weakly augmented copies of held-out
patients (`statistics.pairs.guarantee`). Beside it stands what it is where nobody is memorized: held-out images, each
with a training image of its class.
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.memorization_rate import MemorizationRate, memorization_rate, rate_difference
from memorisk.statistics.pairs.guarantee import miss_guarantee
from memorisk.statistics.quality.retrieval_score import RetrievalScore, irs_of
from memorisk.studies.generators.reading import Read, Reading, named_columns

MISS_RATE = 0.05
NO_THRESHOLD = "none"
"""A threshold that begins so is none: there is no MemRate."""


def paired_rows(reading: Reading) -> pd.DataFrame:
    """MemRate and IRS of every generator that is conditioned on vectors, a row a detector.

    Args:
        reading: What was measured.
    """
    return pd.DataFrame([_row(read) for read in reading.last if "pair_score" in read.found])


def retrieval(read: Read) -> dict[str, Any]:
    """IRS of generated images and of held-out ones, asked about at the same number of either.

    Of more images more training images are the nearest of one (`statistics.quality.retrieval_score`), so that both are
    cut to the smaller number; generated images come in a random order already, held-out ones are drawn.

    Args:
        read: A reading.
    """
    made, held = read.found["synthetic_nearest"], read.found["held_nearest"]
    n = min(len(made), len(held))
    rng = np.random.default_rng(read.cell.options.seed)
    total = len(read.cell.training.rows)
    found = {"irs_all": irs_of(made, total)}
    found["irs"] = irs_of(rng.permutation(made)[:n], total)
    found["irs_held"] = irs_of(rng.permutation(held)[:n], total)
    return {key: v for name, score in found.items() for key, v in _limits(name, score).items()} | {"irs_n": n}


def _row(read: Read) -> dict[str, Any]:
    own, cell = read.found, read.cell
    threshold, how = _threshold(read)
    row: dict[str, Any] = {**named_columns(cell), "detector": read.detector, "step": read.step, "threshold": how}
    row |= retrieval(read)
    if np.isnan(threshold):
        return row
    groups = cell.data.groups
    rate = memorization_rate(own["pair_score"] > threshold, groups[own["pair_row"]].astype(str))
    held = memorization_rate(own["beside_score"] > threshold, read.held_groups[own["beside_row"] >= 0])
    excess = rate_difference(rate, held)
    row |= {**_rate("mem_rate", rate), **_rate("held_rate", held)}
    row |= {"n_pairs": rate.n_pairs, "n_held_pairs": held.n_pairs}
    return row | {"excess": excess.estimate, "excess_low": excess.low, "excess_high": excess.high}


def _threshold(read: Read) -> tuple[float, str]:
    """Above which score two images are taken for one person, and why."""
    half = float(read.found["at_half"])
    if not np.isnan(half):
        return half, "probability 0.5"
    if "copy_score" not in read.found:
        return float("nan"), f"{NO_THRESHOLD}: no copies were measured"
    chosen = one_per_group(read.held_groups, seed=read.cell.options.seed)
    kept = miss_guarantee(read.found["copy_score"][chosen], miss_rate=MISS_RATE)
    if not kept.kept:
        return float("nan"), f"{NO_THRESHOLD}: {kept.missing} held-out patients are missing"
    return float(np.nextafter(kept.threshold, -np.inf)), f"misses at most {MISS_RATE:.0%} of weak copies"


def _rate(name: str, rate: MemorizationRate) -> dict[str, float]:
    return {name: rate.estimate, f"{name}_low": rate.low, f"{name}_high": rate.high}


def _limits(name: str, score: RetrievalScore) -> dict[str, float]:
    return {name: score.estimate, f"{name}_low": score.low, f"{name}_high": score.high}
