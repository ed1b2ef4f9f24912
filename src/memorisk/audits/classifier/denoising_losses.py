"""Losses of generators: errors of denoising by noise level, joined into one loss per image (`scores.noise_errors`).

A table has the columns of a score table (`audits.classifier.evidence`) with the error as ``loss``, and may have these:

| column | type | meaning |
|---|---|---|
| level | text or number | noise level of the row; each model then has one row per image, label and level |
| trivial | number above 0 | error of a trivial prediction of the same noise, such as its mean, 0 |

The label may be left out. What follows is the analysis of a classifier, in another unit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence, evidence_from_table
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
    evidence = joined_evidence(levels)
    return evidence, _explained(table, levels) if TRIVIAL in table else None, len(levels)


def joined_evidence(levels: Sequence[Evidence]) -> Evidence:
    """Join the losses of noise levels, weighted by the gaps of images of the test part.

    Args:
        levels: Score table of each level, of the same items and models.

    Returns:
        Score table whose losses count standard deviations of the gaps of unseen images.

    Raises:
        InputError: As `level_weights`.
    """
    loss_a, loss_b = (np.stack([getattr(level, name) for level in levels], axis=1) for name in ("loss_a", "loss_b"))
    weights = level_weights(loss_a, loss_b, levels[0].items.split == "test")
    a, b = joined_losses(loss_a, weights), joined_losses(loss_b, weights)
    return replace(levels[0], loss_a=a, loss_b=b, margin_a=-a, margin_b=-b)


def _rows_of(evidence: Evidence) -> tuple[bytes | tuple[str, ...], ...]:
    """Return what levels must have in common: items, seeds and members."""
    items = evidence.items
    texts = (tuple(column.astype(str).tolist()) for column in (items.image, items.label, items.group, items.split))
    return (*texts, evidence.seeds.tobytes(), evidence.member_a.tobytes(), evidence.member_b.tobytes())


def _explained(table: pd.DataFrame, levels: Sequence[Evidence]) -> DenoisingUtility:
    """Compare the errors on the test part, summed over levels, with those of the trivial prediction.

    Raises:
        InputError: An error of the trivial prediction is not a number above 0.
    """
    trivial = np.asarray(pd.to_numeric(table[TRIVIAL], errors="coerce"), dtype=np.float64)
    if not (np.isfinite(trivial) & (trivial > 0)).all():
        raise InputError(f"column {TRIVIAL} holds values that are not numbers above 0; leave it out, or correct it")
    items = levels[0].items
    test = items.split == "test"
    of_items = pd.MultiIndex.from_arrays([items.image[test], items.label[test]])
    of_rows = pd.MultiIndex.from_arrays([table["image"].astype(str), table["label"].astype(str)])
    row = of_items.get_indexer(of_rows)
    least = np.bincount(row[row >= 0], weights=trivial[row >= 0], minlength=len(of_items))
    error = np.sum([np.concatenate([level.loss_a, level.loss_b])[:, test] for level in levels], axis=0)
    return denoising_utility(error, least / (2 * len(levels[0].seeds)), items.group[test].astype(str))
