"""Rarity over cells: sign tests, mixed models, permutations within data sets (paper 000, A.11; METHODS section 1)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from memorisk.audits.classifier.explanations.rarity_cells import (
    NAN,
    Cell,
    distinct,
    finite,
    rare_against_common,
    same_classes,
    why_no_ranks,
)
from memorisk.report.frames import numbers, rows, texts
from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.rarity import rho_per_seed
from memorisk.statistics.memorization.rarity_models import FrequencySlope, class_mean_model, paper_model
from memorisk.statistics.rank_tests import SignTest, sign_test

ACROSS = (
    *("statistic", "form", "scope", "estimate", "low", "high", "standard_error", "df"),
    *("p_one_sided", "p_two_sided", "smallest_one_sided", "smallest_two_sided"),
    *("n_units", "unit", "n_rows", "var_class", "var_seed", "var_dataset", "var_residual", "why"),
)


def rarity_across(cells: Iterable[Cell], *, draws: int = 9999, seed: int = 0, min_groups: int = 1) -> pd.DataFrame:
    """Everything that is said over cells, a row per statistic (columns ``ACROSS``).

    * sign test of the cells' mean rho: the paper's; of the data sets' mean rho: ours, since cells share data sets.
      As in the paper, data sets without a rare class (below 5 %) take no part; nor does one whose rare classes were
      too small to be scored, since its rho says nothing of them.
    * our mixed model with the p of permuting frequencies within data sets, and the same slope judged class by class
      (delete-one-class interval, studentised permutation), which also holds where rare classes' means are noisier;
    * the paper's mixed model, over all rows and per architecture;
    * Mann-Whitney of rare against common classes, per cell.

    Args:
        cells: One per architecture and data set.
        draws: Random permutations where not all are visited.
        seed: Of those.
        min_groups: Classes with fewer scored patients are left out of our model.

    Raises:
        InputError: No cells, two of one architecture and data set, or runs of one data set that are of different
            images.
    """
    every = distinct(cells)
    for name in {c.dataset for c in every}:
        same_classes([c for c in every if c.dataset == name])
    found = [*_sign_rows(every), *_our_rows(every, draws, seed, min_groups), *_paper_rows(every)]
    found += [_rank_row(cell) for cell in every]
    return pd.DataFrame(found).reindex(columns=list(ACROSS))


def _sign_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    with_rare = [c for c in cells if c.rare_scored]
    rho = [_mean(rho_per_seed(c.frequency, c.m)) for c in with_rare]
    known = [(c.dataset, r) for c, r in zip(with_rare, rho, strict=True) if not np.isnan(r)]
    left_out = sorted({c.dataset for c in cells} - {c.dataset for c in with_rare})
    why = f"no class below 5 % was scored: {', '.join(left_out)}" if left_out else ""
    sets = list(dict.fromkeys(name for name, _ in known))
    by_set = [float(np.mean([r for other, r in known if other == name])) for name in sets]
    return [
        _sign_row(sign_test([r for _, r in known]), "paper", "cell", why),
        _sign_row(sign_test(by_set), "ours", "data set", why),
    ]


def _sign_row(test: SignTest, form: str, unit: str, why: str) -> dict[str, Any]:
    return {
        "statistic": "sign test of mean rho",
        "form": form,
        "scope": f"{test.n_negative} of {test.n} negative",
        "estimate": test.share.estimate,
        "low": test.share.low,
        "high": test.share.high,
        "p_one_sided": test.p_one_sided,
        "p_two_sided": test.p_two_sided,
        "smallest_one_sided": test.smallest_one_sided,
        "smallest_two_sided": test.smallest_two_sided,
        "n_units": test.n,
        "unit": unit,
        "n_rows": test.n,
        "why": why,
    }


def _our_rows(cells: Sequence[Cell], draws: int, seed: int, min_groups: int) -> list[dict[str, Any]]:
    table = pd.concat(
        [c.scored.assign(architecture=c.architecture, dataset=c.dataset) for c in cells], ignore_index=True
    )
    used = rows(table, numbers(table, "n_groups") >= min_groups)
    if used.empty:
        raise InputError(f"no class has {min_groups} scored patients: lower min_groups")
    label, dataset, architecture = (texts(used, name) for name in ("label", "dataset", "architecture"))
    mean, frequency = numbers(used, "mean"), numbers(used, "frequency")
    fit = class_mean_model(mean, frequency, label, dataset, architecture, draws=draws, seed=seed)
    left_out = f"{len(table) - len(used)} class means of fewer than {min_groups} patients left out"
    why = [fit.why, left_out if len(used) < len(table) else ""]
    model = _slope_row(fit, "class mean ~ log frequency + data set + architecture + (1|class)", "ours", "all cells")
    model["why"] = "; ".join(w for w in why if w)
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
    found = []
    for scope, chosen in scopes.items():
        columns = [np.concatenate(v) for v in zip(*(_long(c) for c in chosen), strict=True)]
        fit = paper_model(*columns)
        found.append(_slope_row(fit, "M ~ frequency + (1|class) + (1|seed) + (1|dataset)", "paper", scope))
    return found


def _long(cell: Cell) -> tuple[NDArray, ...]:
    """M, frequency, label, seed and data set of every image and seed that was scored."""
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
        "low": fit.low,
        "high": fit.high,
        "standard_error": fit.standard_error,
        "df": fit.df,
        "p_one_sided": test.p_negative if test else one_sided,
        "p_two_sided": test.p_two_sided if test else fit.p_t,
        "smallest_one_sided": test.smallest_negative if test else NAN,
        "smallest_two_sided": test.smallest_two_sided if test else NAN,
        "n_units": fit.n_classes,
        "unit": "class within data set",
        "n_rows": fit.n_rows,
        **{f"var_{name}": value for name, value in fit.variances.items()},
        "why": fit.why,
    }


def _rank_row(cell: Cell) -> dict[str, Any]:
    test = rare_against_common(cell)
    return {
        "statistic": "Mann-Whitney, rare less common class means",
        "form": "paper",
        "scope": f"{cell.architecture}, {cell.dataset}",
        "estimate": test.shift,
        "low": finite(test.low),
        "high": finite(test.high),
        "p_one_sided": test.p_greater,
        "p_two_sided": test.p_two_sided,
        "smallest_one_sided": test.smallest_one_sided,
        "smallest_two_sided": test.smallest_two_sided,
        "n_units": test.n_first + test.n_second,
        "unit": "class",
        "n_rows": test.n_first + test.n_second,
        "why": "; ".join(why_no_ranks(test)),
    }


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else NAN
