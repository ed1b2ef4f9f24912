"""Losses of generators: errors of denoising by noise level, joined into one loss per image (`scores.noise_errors`).

A table has the columns of a score table (`audits.classifier.evidence`) with the error as ``loss``, and may have these:

| column | type | meaning |
|---|---|---|
| level | text or number | noise level of the row; each model then has one row per image, label and level |
| trivial | number above 0 | error of a trivial prediction of the same noise: the best linear one from the noisy image |

The label may be left out. What follows is the analysis of a classifier, in another unit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence, evidence_from_table, largest_loss
from memorisk.audits.classifier.result import DenoisingUtility
from memorisk.audits.classifier.tables.utility import denoising_utility
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.noise_errors import joined_losses, level_weights
from memorisk.statistics.verdicts.scales import NOISE_ERROR

NO_LABEL = "all images"
"""Class of the images of a generator without classes."""
LEVEL, TRIVIAL = "level", "trivial"


def denoising_evidence(table: pd.DataFrame) -> tuple[Evidence, DenoisingUtility | None, int]:
    """Check a table of a generator's losses, and join its levels.

    Args:
        table: Table of losses (module docstring).

    Returns:
        Score table in standard deviations of the gaps of unseen images; how much of the noise the models explain, None
        without the column ``trivial``; number of levels.

    Raises:
        InputError: The table of a level violates `evidence_from_table`, levels hold different images, or models give
            unseen images the same losses.
    """
    table = table if "label" in table else table.assign(label=NO_LABEL)
    names = table[LEVEL].unique().tolist() if LEVEL in table else [None]
    if any(pd.isna(name) for name in names if LEVEL in table):
        raise InputError(
            f"column {LEVEL} is empty in some rows: each row needs its noise level, or none has the column"
        )
    parts = [table if name is None else pd.DataFrame(table[table[LEVEL] == name]) for name in names]
    levels = [evidence_from_table(part, NOISE_ERROR) for part in parts]
    for name, part in zip(names[1:], levels[1:], strict=True):
        if _rows_of(part) != _rows_of(levels[0]):
            raise InputError(
                f"levels {one_line(names[0], 40)} and {one_line(name, 40)} hold different images, models or members: "
                "each model needs one row per image, label and level"
            )
    loss_a, loss_b = (np.stack([getattr(level, name) for level in levels], axis=1) for name in ("loss_a", "loss_b"))
    weights = level_weights(loss_a, loss_b, levels[0].items.split == "test")
    a, b = joined_losses(loss_a, weights), joined_losses(loss_b, weights)
    evidence = replace(levels[0], loss_a=a, loss_b=b, margin_a=-a, margin_b=-b)
    return evidence, _explained(parts, evidence, weights) if TRIVIAL in table else None, len(levels)


def _rows_of(evidence: Evidence) -> tuple[bytes | tuple[str, ...], ...]:
    """Return what levels must have in common: items, seeds and members."""
    items = evidence.items
    texts = (tuple(column.astype(str).tolist()) for column in (items.image, items.label, items.group, items.split))
    return (*texts, evidence.seeds.tobytes(), evidence.member_a.tobytes(), evidence.member_b.tobytes())


def _explained(parts: Sequence[pd.DataFrame], evidence: Evidence, weights: np.ndarray) -> DenoisingUtility:
    """Compare the errors on the test part, joined as the losses are, with those of the trivial prediction.

    The error of the best linear prediction depends on the image and the noise. One value for all images at every level
    is that of another prediction, such as 0, which any network is better than. A level may have one, as a critic's has.

    Args:
        parts: Table of each level.
        evidence: Score table with joined losses.
        weights: Weight of each level.

    Raises:
        InputError: An error of the trivial prediction is not a number above 0, or all images have one.
    """
    items = evidence.items
    test = items.split == "test"
    of_items = pd.MultiIndex.from_arrays([items.image[test], items.label[test]])
    least = np.zeros(len(of_items))
    for part, weight in zip(parts, weights, strict=True):
        trivial = np.asarray(pd.to_numeric(part[TRIVIAL], errors="coerce"), dtype=np.float64)
        largest = largest_loss(np.asarray(pd.to_numeric(part["loss"]), dtype=np.float64), NOISE_ERROR)
        if not (np.isfinite(trivial) & (trivial > 0) & (trivial <= largest)).all():
            raise InputError(
                f"column {TRIVIAL} holds values that are not numbers above 0 and at most {largest:.2g}; leave it "
                "out, or correct it"
            )
        row = of_items.get_indexer(pd.MultiIndex.from_arrays([part["image"].astype(str), part["label"].astype(str)]))
        least += weight * np.bincount(row[row >= 0], weights=trivial[row >= 0], minlength=len(of_items))
    if all(part[TRIVIAL].nunique() == 1 for part in parts):
        raise InputError(
            f"column {TRIVIAL} holds one value for all images: the error of the best linear prediction differs between "
            "images, and that of the prediction 0 shows nothing; compute it (docs/losses.md), or leave it out"
        )
    error = np.concatenate([evidence.loss_a, evidence.loss_b])[:, test]
    return denoising_utility(error, least / (2 * len(evidence.seeds)), items.group[test].astype(str))
