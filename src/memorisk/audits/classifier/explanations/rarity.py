"""Are rare classes memorized more? From finished runs to the paper's tables, ours beside (METHODS section 1, "Rarity").

A cell is an architecture on a data set: one finished run of ``audit classifier`` or ``audit losses``, of any design
(``rarity_cells``). Paper 000: table 1 (``rarity_table``, ``table_one``), table 5 (``class_table``), section A.11
(``rarity_across``).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.explanations.rarity_across import ACROSS, rarity_across
from memorisk.audits.classifier.explanations.rarity_cells import (
    NAN,
    RARE_BELOW,
    Cell,
    cell_from_run,
    distinct,
    finite,
    make_cell,
    rare_against_common,
    same_classes,
    why_no_ranks,
)
from memorisk.report.frames import numbers, texts
from memorisk.runs.errors import InputError, unknown_name
from memorisk.statistics.memorization.rarity import ClassRarity, ImageRarity, class_rarity, image_rarity
from memorisk.statistics.rank_tests import MannWhitney

__all__ = [
    "ACROSS",
    "RARE_BELOW",
    "Cell",
    "cell_from_run",
    "class_table",
    "make_cell",
    "rarity_across",
    "rarity_table",
    "table_one",
]


def rarity_table(cells: Iterable[Cell], *, draws: int = 9999, seed: int = 0) -> pd.DataFrame:
    """Table 1 of the paper, a row per cell, with the corrected columns beside.

    Columns: ``architecture, dataset, design, n_images, n_groups, n_seeds, n_classes, n_rare``; the paper's
    ``paper_rho, paper_sd, paper_p``; ``rho_low, rho_high`` of the same rho over patients and seeds (these classes as
    they are), ``rho_of_mean`` (of the seed-averaged M), ``image_p, image_smallest_p`` by permuting frequencies over
    classes; ``class_rho, class_low, class_high, class_p, class_p_negative, class_smallest_p``; Mann-Whitney of rare
    against common class means, ``mw_u, mw_p_rare_higher, mw_p_two_sided, mw_smallest_p, mw_shift, mw_low, mw_high``;
    ``n_permutations``; ``why`` for what is NaN.

    Args:
        cells: One per architecture and data set.
        draws: Random permutations where not all are visited.
        seed: Of those.

    Raises:
        InputError: No cells, or two of the same architecture and data set.
    """
    return pd.DataFrame([_cell_row(cell, draws, seed) for cell in distinct(cells)])


def _cell_row(cell: Cell, draws: int, seed: int) -> dict[str, Any]:
    images = image_rarity(cell.frequency, cell.m, cell.label, cell.group, draws=draws, seed=seed)
    scored = cell.scored
    classes = class_rarity(scored["frequency"], scored["mean"], draws=draws, seed=seed)
    ranks = rare_against_common(cell)
    return {
        "architecture": cell.architecture,
        "dataset": cell.dataset,
        "design": cell.design,
        "n_images": images.n_images,
        "n_groups": len(np.unique(cell.group)),
        "n_seeds": len(cell.seeds),
        "n_classes": classes.n_classes,
        "n_rare": ranks.n_first,
        "paper_rho": images.mean,
        "paper_sd": images.sd,
        "paper_p": images.p_printed,
        "rho_low": images.interval.low,
        "rho_high": images.interval.high,
        "rho_of_mean": images.of_mean,
        "image_p": images.permutation.p_two_sided,
        "image_smallest_p": images.permutation.smallest_two_sided,
        "class_rho": classes.rho,
        "class_low": classes.interval.low,
        "class_high": classes.interval.high,
        "class_p": classes.permutation.p_two_sided,
        "class_p_negative": classes.permutation.p_negative,
        "class_smallest_p": classes.permutation.smallest_two_sided,
        "mw_u": ranks.u,
        "mw_p_rare_higher": ranks.p_greater,
        "mw_p_two_sided": ranks.p_two_sided,
        "mw_smallest_p": ranks.smallest_one_sided,
        "mw_shift": ranks.shift,
        "mw_low": finite(ranks.low),
        "mw_high": finite(ranks.high),
        "n_permutations": classes.permutation.n_arrangements,
        "why": "; ".join(_why(cell, images, classes, ranks)),
    }


def _why(cell: Cell, images: ImageRarity, classes: ClassRarity, ranks: MannWhitney) -> list[str]:
    """Why something is NaN or rests on less than all classes."""
    reasons = []
    unscored = len(cell.classes) - len(cell.scored)
    if unscored:
        reasons.append(f"{unscored} of {len(cell.classes)} classes have no scored image")
    if np.isnan(images.sd):
        reasons.append("one seed: no s.d. over seeds")
    for name, interval in (("image", images.interval), ("class", classes.interval)):
        if interval.method.startswith("not measurable"):
            reasons.append(f"{name}-level interval {interval.method}")
    return [*reasons, *why_no_ranks(ranks)]


def table_one(table: pd.DataFrame, column: str = "paper_rho", spread: str | None = "paper_sd") -> pd.DataFrame:
    """The printed layout of table 1: a row per architecture, a column per data set, "mean ± s.d.".

    Args:
        table: Of ``rarity_table``.
        column: What is printed.
        spread: What stands behind ±; None for nothing.

    Raises:
        InputError: The table has no such column.
    """
    for name in (column, *([spread] if spread else [])):
        if name not in table.columns:
            raise unknown_name("column", name, [str(c) for c in table.columns])
    text = []
    around_all = numbers(table, spread) if spread else np.full(len(table), NAN)
    for value, around in zip(numbers(table, column), around_all, strict=True):
        shown = "" if np.isnan(value) else f"{value:.3f}"
        text.append(shown if np.isnan(around) or not shown else f"{shown} ± {around:.3f}")
    wide = table.assign(text=text).pivot(index="architecture", columns="dataset", values="text").fillna("")
    order = wide.loc[list(dict.fromkeys(texts(table, "architecture"))), list(dict.fromkeys(texts(table, "dataset")))]
    return order.rename_axis(columns=None).reset_index()


def class_table(cells: Iterable[Cell], *, dataset: str | None = None, sort_by: str | None = None) -> pd.DataFrame:
    """Table 5 of the paper: a row per class with its mean M in every architecture, largest first.

    Args:
        cells: Of one data set, or of several with ``dataset`` given.
        dataset: Which.
        sort_by: Architecture whose means order the rows; the first if not given.

    Returns:
        ``class, frequency, n``, a column per architecture, ``why``. n is that of ``sort_by``.

    Raises:
        InputError: Several data sets and none chosen, or an unknown name.
    """
    every = distinct(cells)
    names = list(dict.fromkeys(c.dataset for c in every))
    if dataset is None and len(names) > 1:
        raise InputError(f"the cells are of {len(names)} data sets ({', '.join(names[:5])}): choose one with dataset=")
    if dataset is not None and dataset not in names:
        raise unknown_name("data set", dataset, names)
    chosen = [c for c in every if c.dataset == (dataset or names[0])]
    architectures = [c.architecture for c in chosen]
    if sort_by is not None and sort_by not in architectures:
        raise unknown_name("architecture", sort_by, architectures)
    same_classes(chosen)
    first = chosen[architectures.index(sort_by)] if sort_by else chosen[0]
    table = pd.DataFrame(
        {
            "class": texts(first.classes, "label"),
            "frequency": numbers(first.classes, "frequency"),
            "n": first.classes["n"].to_numpy(),
            **{cell.architecture: numbers(cell.classes, "mean") for cell in chosen},
        }
    )
    absent = np.stack([np.isnan(numbers(table, name)) for name in architectures], axis=1)
    table["why"] = [
        f"no scored image in {', '.join(np.array(architectures)[row])}" if row.any() else "" for row in absent
    ]
    return table.sort_values(first.architecture, ascending=False, kind="stable", ignore_index=True)
