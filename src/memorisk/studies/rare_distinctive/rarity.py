"""Are rare classes memorized more? This module makes the paper's tables, with our columns, from finished runs.

METHODS section 1, "Rarity". A cell is an architecture on a data set: one finished run of ``audit classifier`` or
``audit losses``, of any design (``rarity_cells``). Paper 000: table 1 (``rarity_table``, ``table_one``), table 5
(``class_table``). Section A.11 is ``rarity_across``: sign tests, mixed models and permutations within data sets,
over cells.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from memorisk.report.columns import column_numbers, column_texts
from memorisk.statistics.memorization.rarity import ClassRarity, ImageRarity, class_rarity, image_rarity, rho_per_seed
from memorisk.statistics.memorization.rarity_models import FrequencySlope, class_mean_model, paper_model
from memorisk.statistics.rank_tests import MannWhitney, SignTest, sign_test
from memorisk.studies.engine.rows import fields_of
from memorisk.studies.rare_distinctive.rarity_cells import (
    NAN,
    Cell,
    check_same_classes,
    distinct_cells,
    limit_or_nan,
    missing_ranks_reason,
    rare_against_common,
)

ACROSS = (
    *("statistic", "form", "scope", "estimate", "low", "high", "standard_error", "df"),
    *("p_one_sided", "p_two_sided", "smallest_one_sided", "smallest_two_sided"),
    *("n_units", "unit", "n_rows", "var_class", "var_seed", "var_dataset", "var_residual", "why"),
)


def rarity_across(cells: Iterable[Cell], *, draws: int = 9999, seed: int = 0) -> pd.DataFrame:
    """Compute the statistics over cells, one row per statistic (columns ``ACROSS``).

    * sign test of the cells' mean rho: the paper's; of the data sets' mean rho: ours, since cells share data sets.
      As in the paper, data sets without a rare class (below 5 %) take no part; nor does one whose rare classes were
      too small to be scored, since its rho says nothing of them.
    * our mixed model with the p of permuting frequencies within data sets, and the same slope judged class by class
      (delete-one-class interval, studentised permutation), which also holds where rare classes' means are noisier;
    * the paper's mixed model, over all rows and per architecture;
    * Mann-Whitney of rare against common classes, per cell.

    Args:
        cells: Cells, one per architecture and data set.
        draws: Number of random permutations where not all are visited.
        seed: Random seed of the permutations.

    Raises:
        InputError: The list of cells is empty, has two of one architecture and data set, or runs of one data set with
            different images.
    """
    every = distinct_cells(cells)
    for name in {c.dataset for c in every}:
        check_same_classes([c for c in every if c.dataset == name])
    records = [*_sign_rows(every), *_our_rows(every, draws, seed), *_paper_rows(every)]
    records += [_rank_row(cell) for cell in every]
    return pd.DataFrame(records).reindex(columns=list(ACROSS))


def _sign_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    with_rare = [c for c in cells if c.rare_scored]
    rho = [_mean(rho_per_seed(c.frequency, c.m)) for c in with_rare]
    finite = [(c.dataset, r) for c, r in zip(with_rare, rho, strict=True) if not np.isnan(r)]
    left_out = sorted({c.dataset for c in cells} - {c.dataset for c in with_rare})
    why = f"no class below 5 % was scored: {', '.join(left_out)}" if left_out else ""
    sets = list(dict.fromkeys(name for name, _ in finite))
    by_set = [float(np.mean([r for other, r in finite if other == name])) for name in sets]
    return [
        _sign_row(sign_test([r for _, r in finite]), "paper", "cell", why),
        _sign_row(sign_test(by_set), "ours", "data set", why),
    ]


def _sign_row(test: SignTest, form: str, unit: str, why: str) -> dict[str, Any]:
    return {
        "statistic": "sign test of mean rho",
        "form": form,
        "scope": f"{test.n_negative} of {test.n} negative",
        **fields_of(test.share, "estimate", "low", "high"),
        **fields_of(test, "p_one_sided", "p_two_sided", "smallest_one_sided", "smallest_two_sided"),
        "n_units": test.n,
        "unit": unit,
        "n_rows": test.n,
        "why": why,
    }


def _our_rows(cells: Sequence[Cell], draws: int, seed: int) -> list[dict[str, Any]]:
    table = pd.concat(
        [c.scored.assign(architecture=c.architecture, dataset=c.dataset) for c in cells], ignore_index=True
    )
    label, dataset, architecture = (column_texts(table, name) for name in ("label", "dataset", "architecture"))
    mean, frequency = column_numbers(table, "mean"), column_numbers(table, "frequency")
    fit = class_mean_model(mean, frequency, label, dataset, architecture, draws=draws, seed=seed)
    model = _slope_row(fit, "class mean ~ log frequency + data set + architecture + (1|class)", "ours", "all cells")
    if fit.permutation is None:
        return [model]
    test = fit.permutation
    by_class = model | {
        "statistic": "slope on log frequency, class by class",
        "estimate": test.slope,
        "low": test.low,
        "high": test.high,
        "standard_error": NAN,
        "df": test.df,
        "p_one_sided": test.studentised.p_negative,
        "p_two_sided": test.studentised.p_two_sided,
        "smallest_one_sided": test.studentised.smallest_negative,
        "smallest_two_sided": test.studentised.smallest_two_sided,
    }
    return [model, {k: v for k, v in by_class.items() if not k.startswith("var_")}]


def _paper_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    scopes = {"all cells": list(cells)}
    names = list(dict.fromkeys(c.architecture for c in cells))
    scopes |= {name: [c for c in cells if c.architecture == name] for name in names} if len(names) > 1 else {}
    records = []
    for scope, chosen in scopes.items():
        columns = [np.concatenate(v) for v in zip(*(_long_table(c) for c in chosen), strict=True)]
        fit = paper_model(*columns)
        records.append(_slope_row(fit, "M ~ frequency + (1|class) + (1|seed) + (1|dataset)", "paper", scope))
    return records


def _long_table(cell: Cell) -> tuple[NDArray, ...]:
    """Return M, frequency, label, seed and data set of every image and seed that was scored."""
    s, i = np.nonzero(np.isfinite(cell.m))
    sets = np.full(len(i), cell.dataset, dtype=object)
    return cell.m[s, i], cell.frequency[i], cell.label[i], np.asarray(cell.seeds)[s], sets


def _slope_row(fit: FrequencySlope, statistic: str, form: str, scope: str) -> dict[str, Any]:
    test = fit.permutation.plain if fit.permutation else None
    one_sided = NAN
    if test is None and not np.isnan(fit.p_t):
        one_sided = fit.p_t / 2 if fit.slope < 0 else 1 - fit.p_t / 2
    return {
        "statistic": statistic,
        "form": form,
        "scope": scope,
        "estimate": fit.slope,
        **fields_of(fit, "low", "high", "standard_error", "df", "n_rows", "why"),
        "p_one_sided": test.p_negative if test else one_sided,
        "p_two_sided": test.p_two_sided if test else fit.p_t,
        "smallest_one_sided": test.smallest_negative if test else NAN,
        "smallest_two_sided": test.smallest_two_sided if test else NAN,
        "n_units": fit.n_classes,
        "unit": "class within data set",
        **{f"var_{name}": value for name, value in fit.variances.items()},
    }


def _rank_row(cell: Cell) -> dict[str, Any]:
    test = rare_against_common(cell)
    return {
        "statistic": "Mann-Whitney, rare less common class means",
        "form": "paper",
        "scope": f"{cell.architecture}, {cell.dataset}",
        "estimate": test.shift,
        "low": limit_or_nan(test.low),
        "high": limit_or_nan(test.high),
        "p_one_sided": test.p_greater,
        **fields_of(test, "p_two_sided", "smallest_one_sided", "smallest_two_sided"),
        "n_units": test.n_first + test.n_second,
        "unit": "class",
        "n_rows": test.n_first + test.n_second,
        "why": "; ".join(missing_ranks_reason(test)),
    }


def _mean(values: NDArray[np.float64]) -> float:
    finite = values[~np.isnan(values)]
    return float(finite.mean()) if len(finite) else NAN


def rarity_table(cells: Iterable[Cell], *, draws: int = 9999, seed: int = 0) -> pd.DataFrame:
    """Compute table 1 of the paper, one row per cell, with the corrected columns.

    Columns: ``architecture, dataset, design, n_images, n_groups, n_seeds, n_classes, n_rare``; the paper's
    ``paper_rho, paper_sd, paper_p``; ``rho_low, rho_high`` of the same rho over patients and seeds (these classes as
    they are), ``rho_of_mean`` (of the seed-averaged M), ``image_p, image_smallest_p`` by permuting frequencies over
    classes; ``class_rho, class_low, class_high, class_p, class_p_negative, class_smallest_p``; Mann-Whitney of rare
    against common class means, ``mw_u, mw_p_rare_higher, mw_p_two_sided, mw_smallest_p, mw_shift, mw_low, mw_high``;
    ``n_permutations``; ``why`` for what is NaN.

    Args:
        cells: Cells, one per architecture and data set.
        draws: Number of random permutations where not all are visited.
        seed: Random seed of the permutations.

    Raises:
        InputError: The list of cells is empty, or has two of the same architecture and data set.
    """
    return pd.DataFrame([_cell_row(cell, draws, seed) for cell in distinct_cells(cells)])


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
        "mw_low": limit_or_nan(ranks.low),
        "mw_high": limit_or_nan(ranks.high),
        "n_permutations": classes.permutation.n_arrangements,
        "why": "; ".join(_reason(cell, images, classes, ranks)),
    }


def _reason(cell: Cell, images: ImageRarity, classes: ClassRarity, ranks: MannWhitney) -> list[str]:
    """Return why something is NaN or rests on less than all classes."""
    reasons = []
    unscored = len(cell.classes) - len(cell.scored)
    if unscored:
        reasons.append(f"{unscored} of {len(cell.classes)} classes have no scored image")
    if np.isnan(images.sd):
        reasons.append("one seed: no s.d. over seeds")
    for name, interval in (("image", images.interval), ("class", classes.interval)):
        if np.isnan(interval.low):
            reasons.append(f"{name}-level interval {interval.method}")
    return [*reasons, *missing_ranks_reason(ranks)]


def table_one(table: pd.DataFrame) -> pd.DataFrame:
    """Return the printed layout of table 1: one row per architecture, one column per data set, "mean ± s.d.".

    Args:
        table: Table of ``rarity_table``.
    """
    text = []
    for value, around in zip(column_numbers(table, "paper_rho"), column_numbers(table, "paper_sd"), strict=True):
        rho = "" if np.isnan(value) else f"{value:.3f}"
        text.append(rho if np.isnan(around) or not rho else f"{rho} ± {around:.3f}")
    wide = table.assign(text=text).pivot(index="architecture", columns="dataset", values="text").fillna("")
    order = wide.loc[
        list(dict.fromkeys(column_texts(table, "architecture"))), list(dict.fromkeys(column_texts(table, "dataset")))
    ]
    return order.rename_axis(columns=None).reset_index()


def class_table(cells: Sequence[Cell], *, sort_by: str) -> pd.DataFrame:
    """Return table 5 of the paper: one row per class with its mean M in every architecture, largest first.

    Args:
        cells: Cells of one data set, one per architecture.
        sort_by: Name of the architecture whose means order the rows.

    Returns:
        Table with ``class, frequency, n``, one column per architecture. n is that of ``sort_by``.

    Raises:
        InputError: The cells are of different images.
    """
    check_same_classes(cells)
    first = next(cell for cell in cells if cell.architecture == sort_by)
    table = pd.DataFrame(
        {
            "class": column_texts(first.classes, "label"),
            "frequency": column_numbers(first.classes, "frequency"),
            "n": first.classes["n"].to_numpy(),
            **{cell.architecture: column_numbers(cell.classes, "mean") for cell in cells},
        }
    )
    return table.sort_values(sort_by, ascending=False, kind="stable", ignore_index=True)
