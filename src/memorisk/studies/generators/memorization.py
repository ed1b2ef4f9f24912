"""Rows of tables: distances (figure 3 of paper 003), the trend over duplicates, pairs (table 3 of paper 004).

Distances. Paper 003 reads memorization from generated images that lie nearer to the training images than held-out
images do. Generators which copied no patient do so, too (14 % are flagged at 5 %, `recipes/synthetic_null.py`), so
these figures describe. A search in the other direction, from real images to generated ones, shows who is exposed.

Duplicates. Are images memorized more, the more often they occur in the training data? The patients whose images are
repeated are drawn at random, so that nothing but the number of copies distinguishes the levels: the permutation
p-value is exact for the hypothesis that copies change nothing. Few patients have many copies, so that the limits of
the slope are put together from each level's own (`statistics.contrasts`). They hold for patients of this
generator; other trainings are other seeds (`results.mean_over_seeds`).

Pairs. Generators are conditioned on vectors of their training images. MemRate is the share of training images whose
own generated image a detector takes for the same person: a probability above 0.5 by a head; by any other detector a
score that misses at most 5 % of weakly augmented copies of held-out patients (`statistics.pairs.guarantee`). The
rate without memorization accompanies it: that of held-out images, each with a training image of its class.
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.memorization_rate import memorization_rate, rate_difference
from memorisk.statistics.copies.reversed_queries import exposures
from memorisk.statistics.copies.wasserstein_distance import WassersteinDistance, wasserstein_distance
from memorisk.statistics.copy_slopes import mean_slope, share_slope
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.pairs.guarantee import miss_guarantee
from memorisk.statistics.quality.retrieval_score import irs_of
from memorisk.studies.engine.rows import limits
from memorisk.studies.generators.results import Evaluation, StudyEvaluations, named_columns

SYNTHETIC, HELD_OUT = "generated", "held out"
COPIES = {"weak": "weak copies", "strong": "strong copies"}


def pools(read: Evaluation) -> dict[str, np.ndarray]:
    """Return distances to the nearest training image, by the kind of the images that are compared.

    Args:
        read: Reading at the end of a training.
    """
    by_words = {SYNTHETIC: read.arrays["synthetic_distance"]}
    by_words |= {words: read.arrays[name] for name, words in COPIES.items() if name in read.arrays}
    return by_words | {HELD_OUT: read.arrays["held_train"]}


def distance_rows(reading: StudyEvaluations) -> pd.DataFrame:
    """Compare each pool with the held-out images: W1, the shift, and the second-neighbour ratio of generated images.

    Args:
        reading: Readings of all generators.
    """
    rows = []
    for read in reading.last:
        groups = {SYNTHETIC: None} | dict.fromkeys(COPIES.values(), read.cell.training.groups)
        drawn = pools(read)
        held = drawn.pop(HELD_OUT)
        for name, values in drawn.items():
            apart = wasserstein_distance(values, held, groups[name], read.held_groups)
            rows.append({**_evaluation_columns(read), "pool": name, "median": float(np.median(values)),
                          "held_median": float(np.median(held)), **_w1_columns(apart)})  # fmt: skip
    return pd.DataFrame(rows)


def closest_rows(reading: StudyEvaluations, names: Pseudonyms) -> pd.DataFrame:
    """List the closest pairs of generated and training images, the closest first.

    Args:
        reading: Readings of all generators.
        names: Pseudonyms in place of ids.
    """
    rows = []
    for read in reading.last:
        own, images = read.arrays, read.cell.data.store.manifest.images
        order = np.argsort(own["synthetic_distance"], kind="stable")[: read.cell.options.closest]
        train = read.cell.training.rows[own["synthetic_nearest"][order]]
        ids, patients = names.names(images[train]), names.names(read.cell.data.groups[train])
        for place, (image, who, synthetic) in enumerate(zip(ids, patients, order, strict=True), start=1):
            rows.append(
                {
                    **_evaluation_columns(read), "place": place, "image": str(image), "patient": str(who),
                    "synthetic": int(synthetic), "synthetic_seed": int(own["seeds"][synthetic]),
                    "distance": float(own["synthetic_distance"][synthetic]),
                    "second": float(own["synthetic_second"][synthetic]),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def source_rows(reading: StudyEvaluations, names: Pseudonyms) -> pd.DataFrame:
    """List every flagged training patient with the generated image that realises the distance.

    Args:
        reading: Readings of all generators.
        names: Pseudonyms in place of ids.
    """
    sources = []
    for read in reading.last:
        own, images = read.arrays, read.cell.data.store.manifest.images
        training = read.cell.training
        exposed = exposures(read.queries, own["train_distance"], own["train_nearest"], training.groups)
        p = dict(zip(read.queries.unit.tolist(), read.queries.p_value.tolist(), strict=True))
        rows = training.rows[exposed.image]
        ids, patients = names.names(images[rows]), names.names(exposed.unit)
        for i in range(len(rows)):
            sources.append(
                {
                    **_evaluation_columns(read), "image": str(ids[i]), "patient": str(patients[i]),
                    "copies": int(training.copies[exposed.image[i]]), "distance": float(exposed.distance[i]),
                    "p": p[exposed.unit[i]], "synthetic": int(exposed.synthetic[i]),
                    "synthetic_seed": int(own["seeds"][exposed.synthetic[i]]),
                }
            )  # fmt: skip
    return pd.DataFrame(sources)


def _evaluation_columns(read: Evaluation) -> dict[str, Any]:
    return {**named_columns(read.cell), "detector": read.detector, "step": read.step}


def _w1_columns(apart: WassersteinDistance) -> dict[str, Any]:
    return {
        **limits("w1", apart), "w1_chance": apart.chance,
        "shift": apart.shift, "shift_low": apart.shift_low, "shift_high": apart.shift_high,
        "n_units": apart.n_first, "n_held": apart.n_second,
    }  # fmt: skip


_STREAM, _AT_ONCE = 97, 1000
OUTCOMES = ("flagged", "nearness")
"""Outcomes of a patient: whether the patient is flagged, and how near the set is to them (`Evaluation.nearness`)."""


def trend_rows(reading: StudyEvaluations) -> pd.DataFrame:
    """Compute the slope of both outcomes per doubling of the copies.

    The table has one row for each detector and each generator with repeated images. Units are training patients of the
    same generator; intervals are those of `share_slope` and `mean_slope`.

    Args:
        reading: Readings of all generators.
    """
    return pd.DataFrame([_trend(read) for read in reading.last if _levels(read) > 1])


def level_rows(reading: StudyEvaluations) -> pd.DataFrame:
    """Compute the share of flagged patients at each number of copies, one row for each generator, detector and level.

    Where too few patients are held out to flag anyone, the share is missing and its limits are 0 and 1.

    Args:
        reading: Readings of all generators.
    """
    rows = []
    for read in reading.last:
        copies = read.patient_copies
        for level in np.unique(copies) if _levels(read) > 1 else ():
            own = copies == level
            tested = own & _has_enough_held_out(read)
            share = clopper_pearson(int(read.flagged[tested].sum()), int(tested.sum()))
            rows.append(
                {
                    **named_columns(read.cell), "detector": read.detector, "copies": int(level),
                    **limits("share", share),
                    "nearness": float(read.nearness[own].mean()),
                    "level_patients": int(own.sum()),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def permutation_p(values: np.ndarray, copies: np.ndarray, *, seed: int, draws: int = 9999) -> float:
    """Compute the one-sided p of a slope on log2 copies.

    Args:
        values: Value of each patient, [U].
        copies: Copies of each patient, dealt at random, [U].
        seed: Random seed of the deals.
        draws: Number of random deals; the observed one counts in addition.
    """
    x = np.log2(copies) - np.log2(copies).mean()
    rng, reached = np.random.default_rng([_STREAM, seed]), 0
    observed = float(x @ values)
    slack = 1e-9 * float(np.abs(x) @ np.abs(values))  # deals that tie but for rounding
    for begin in range(0, draws, _AT_ONCE):
        deals = rng.permuted(np.tile(x, (min(_AT_ONCE, draws - begin), 1)), axis=1)
        reached += int((deals @ values >= observed - slack).sum())
    return (1 + reached) / (draws + 1)


def _levels(read: Evaluation) -> int:
    return len(np.unique(read.patient_copies))


def _has_enough_held_out(read: Evaluation) -> bool:
    """Return whether there are enough held-out patients to flag anyone."""
    return not np.isnan(read.share.estimate)


def _trend(read: Evaluation) -> dict[str, Any]:
    """Fit the trend of one generator and detector."""
    row: dict[str, Any] = {**named_columns(read.cell), "detector": read.detector, "step": read.step}
    copies = read.patient_copies
    for name, slope_of in {"flagged": share_slope, "nearness": mean_slope}.items():
        if name == "flagged" and not _has_enough_held_out(read):
            row |= dict.fromkeys((name, f"{name}_low", f"{name}_high", f"{name}_p"), float("nan"))
            continue
        values = np.asarray(getattr(read, name), dtype=np.float64)
        slope = slope_of(values, copies)
        row |= limits(name, slope)
        row[f"{name}_p"] = permutation_p(values, copies, seed=read.cell.options.seed)
    return {**row, "levels": _levels(read)}


MISS_RATE = 0.05
NO_THRESHOLD = "none"
"""Beginning of a threshold that does not exist; its generator then has no MemRate."""


def memrate_rows(reading: StudyEvaluations) -> pd.DataFrame:
    """Compute MemRate and IRS of each generator that is conditioned on vectors, one row per detector.

    Args:
        reading: Readings of all generators.
    """
    return pd.DataFrame([_row(read) for read in reading.last if "pair_score" in read.arrays])


def retrieval(read: Evaluation) -> dict[str, Any]:
    """Compute the IRS of generated images and of held-out ones at the same number of either.

    With more images, more training images are the nearest of one (`statistics.quality.retrieval_score`), so that both
    are
    cut to the smaller number; generated images come in a random order already, held-out ones are drawn.

    Args:
        read: Reading of a generator.
    """
    synthetic, held = read.arrays["synthetic_nearest"], read.arrays["held_nearest"]
    n = min(len(synthetic), len(held))
    rng = np.random.default_rng(read.cell.options.seed)
    total = len(read.cell.training.rows)
    scores = {"irs_all": irs_of(synthetic, total)}
    scores["irs"] = irs_of(rng.permutation(synthetic)[:n], total)
    scores["irs_held"] = irs_of(rng.permutation(held)[:n], total)
    row: dict[str, Any] = {}
    for name, score in scores.items():
        row |= limits(name, score)
    return row | {"irs_n": n}


def _row(read: Evaluation) -> dict[str, Any]:
    own, cell = read.arrays, read.cell
    threshold, how = _threshold(read)
    row: dict[str, Any] = {**named_columns(cell), "detector": read.detector, "step": read.step, "threshold": how}
    row |= retrieval(read)
    if np.isnan(threshold):
        return row
    groups = cell.data.groups
    rate = memorization_rate(own["pair_score"] > threshold, groups[own["pair_row"]].astype(str))
    held = memorization_rate(own["beside_score"] > threshold, read.held_groups[own["beside_row"] >= 0])
    excess = rate_difference(rate, held)
    row |= limits("mem_rate", rate) | limits("held_rate", held)
    return row | {"n_pairs": rate.n_pairs, "n_held_pairs": held.n_pairs} | limits("excess", excess)


def _threshold(read: Evaluation) -> tuple[float, str]:
    """Return the score above which two images are taken for one person, and the reason."""
    half = float(read.arrays["at_half"])
    if not np.isnan(half):
        return half, "probability 0.5"
    if "copy_score" not in read.arrays:
        return float("nan"), f"{NO_THRESHOLD}: no copies were measured"
    chosen = one_per_group(read.held_groups, seed=read.cell.options.seed)
    guarantee = miss_guarantee(read.arrays["copy_score"][chosen], miss_rate=MISS_RATE)
    if not guarantee.kept:
        return float("nan"), f"{NO_THRESHOLD}: {guarantee.missing} held-out patients are missing"
    return float(np.nextafter(guarantee.threshold, -np.inf)), f"misses at most {MISS_RATE:.0%} of weak copies"
