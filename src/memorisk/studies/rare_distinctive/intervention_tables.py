"""Tables 2, 3, 4, 6, 7 and 11 of paper 000: interventions on distinctiveness, and regimes of training.

Tables 2, 3, 6 and 7 measure distinctiveness and intervene on it. Tables 4 and 11 show how much each regime of training
remembers, its accuracy, and its privacy promise.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from memorisk.report.columns import booleans, column_numbers, column_texts, largest_first, rows
from memorisk.studies.engine.number_texts import (
    change_text,
    effect_size_text,
    plain_number,
    regime_name,
    share_text,
    signed_number,
)
from memorisk.studies.engine.rows import distinct, rows_of
from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.rare_distinctive.rarity_cells import Cell
from memorisk.studies.rare_distinctive.results import LAYOUT, StudyCell, StudyDefence, StudyReading

METRICS = {"ratio": "centroid_ratio", "intra": "intra_centroid_dist", "nearest_other": "nearest_other_class_dist"}
"""Names of scores in the paper (A.4), in the order of table 7."""

_RHO = "Spearman ρ"


def table_2(reading: StudyReading) -> StudyTable:
    """Tabulate atypicality against M: the ratio of distances, raw and within classes, one column per architecture."""
    every = _associations(reading)
    ours = rows_of(every, metric=METRICS["ratio"])
    printed = []
    for dataset, features in distinct(ours, "dataset", "features"):
        own = rows_of(ours, dataset=dataset, features=features)
        for name, column in (("raw", "paper_rho"), ("within-class resid.", "paper_rho_residual")):
            by_model = dict(zip(column_texts(own, "architecture"), column_numbers(own, column), strict=True))
            values = {a: signed_number(by_model.get(a), 3) for a in dict.fromkeys(column_texts(ours, "architecture"))}
            printed.append({"Dataset": dataset, "Features": features, _RHO: name} | values)
    paper = pd.DataFrame(printed or None, columns=None if printed else pd.Index([_RHO]))
    return _distinctiveness_table("table_2", _without_constant(paper, ("Dataset", "Features")), ours, reading, {})


def table_7(reading: StudyReading) -> StudyTable:
    """Tabulate every metric; distances by layer (figure 2) and probes are ``extra``."""
    every = _associations(reading)
    each = [largest_first(rows_of(every, metric=metric), "paper_rho") for metric in METRICS.values()]
    ours = pd.concat(each, ignore_index=True)
    values = (("raw ρ", "paper_rho"), ("residualised ρ", "paper_rho_residual"))
    printed = {
        **{name.capitalize(): column_texts(ours, name) for name in ("dataset", "features", "architecture", "metric")},
        **{heading: [signed_number(v, 3) for v in column_numbers(ours, column)] for heading, column in values},
    }
    paper = _without_constant(pd.DataFrame(printed), ("Dataset", "Features"))
    extra = {"layers": _number_layers(reading.cells, "distances"), "probes": _probes(reading.cells)}
    return _distinctiveness_table("table_7", paper, ours, reading, {k: v for k, v in extra.items() if len(v)})


def _distinctiveness_table(
    name: str, paper: pd.DataFrame, ours: pd.DataFrame, reading: StudyReading, extra: dict[str, pd.DataFrame]
) -> StudyTable:
    missing = [f"{cell.name}: {cell.unexplained}" for cell in reading.cells if cell.unexplained]
    return fill_table(LAYOUT, name, ours, paper=paper, missing=missing, extra=extra)


def _associations(reading: StudyReading) -> pd.DataFrame:
    """Return one row per cell, feature space and score: the pairwise form, and the centroid form."""
    records = []
    for cell in reading.cells:
        table = cell.explained.get("atypicality_summary")
        if table is None:
            continue
        by_form = {(r["features"], r["score"], r["form"]): r for r in table.to_dict("records")}
        for features in dict.fromkeys(column_texts(table, "features")):
            for score, metric in METRICS.items():
                ours, paper = (by_form[features, score, form] for form in ("pairwise", "centroid"))
                records.append(_association(cell, features, metric, ours, paper))
    return pd.DataFrame(
        records, columns=None if records else pd.Index(["dataset", "architecture", "features", "metric"])
    )


def _association(
    cell: StudyCell, features: str, metric: str, ours: dict[Any, Any], paper: dict[Any, Any]
) -> dict[str, Any]:
    residual = ("rho_residual", "low_residual", "high_residual")
    columns = ("rho", "low", "high", *residual, "p", "smallest_p", "n", "n_groups")
    return {
        "dataset": cell.dataset,
        "architecture": cell.architecture,
        "features": features,
        "metric": metric,
        **{name: ours[name] for name in columns},
        **{"paper_rho": paper["rho"], "paper_rho_low": paper["low"], "paper_rho_high": paper["high"]},
        "paper_rho_residual": paper["rho_residual"],
        "paper_rho_residual_low": paper["low_residual"],
        "paper_rho_residual_high": paper["high_residual"],
        **{"paper_p": paper["p_paper"], "paper_p_residual": paper["p_paper_residual"]},
    }


def _probes(cells: Sequence[StudyCell]) -> pd.DataFrame:
    """Tabulate what the probes reach, one row per layer and kind, and what they could reach at most."""
    layers = _number_layers(cells, "probes")
    ceilings = {}
    for cell in cells:
        ceiling = ((cell.explanation.get("probes") or {}).get("reliability") or {}).get("ceiling") or {}
        ceilings[cell.dataset, cell.architecture] = [ceiling.get(k) for k in ("estimate", "low", "high")]
    keys = list(zip(column_texts(layers, "dataset"), column_texts(layers, "architecture"), strict=True))
    for at, name in enumerate(("ceiling", "ceiling_low", "ceiling_high")):
        layers[name] = np.array([ceilings[key][at] for key in keys], dtype=np.float64)
    return layers


def _number_layers(cells: Sequence[StudyCell], name: str) -> pd.DataFrame:
    """Return one table of each explained cell, layers numbered in their order."""
    numbered = []
    for cell in cells:
        table = cell.explained.get(name)
        if table is None:
            continue
        layers = list(dict.fromkeys(column_texts(table, "layer")))
        number = [layers.index(layer) + 1 for layer in column_texts(table, "layer")]
        numbered.append(table.assign(dataset=cell.dataset, architecture=cell.architecture, number=number))
    return pd.concat(numbered, ignore_index=True) if numbered else pd.DataFrame()


def table_3(reading: StudyReading) -> StudyTable:
    """Tabulate the intervention on its target classes."""
    every = _interventions(reading)
    ours = rows(every, booleans(every, "targeted"))
    printed = [
        (*_place(row), _change(row), _effect(row), row["basis"] or "n/a")
        for row in _largest_change(ours).to_dict("records")
    ]
    return fill_table(LAYOUT, "table_3", ours, paper=printed, missing=_without_intervention(reading))


def table_6(reading: StudyReading) -> StudyTable:
    """Tabulate the intervention in full: the changed classes as printed, every class in ours."""
    ours = _interventions(reading)
    targeted = rows(ours, booleans(ours, "targeted"))
    names = list(dict.fromkeys(column_texts(targeted, "intervention")))
    after = names[0].capitalize() if len(names) == 1 else "After"
    headings = ["Dataset", "Class", "Freq. %", "Baseline", after, "Change", "d", "Basis"]
    printed = []
    for row in _largest_change(targeted).to_dict("records"):
        digits = 3 if _change(row).endswith("×") else 2
        means = (signed_number(row["paper_before"], digits), signed_number(row["paper_after"], digits))
        values = (share_text(row["frequency"]), *means)
        line = (*_place(row), *values, _change(row), _effect(row), row["basis"] or "n/a")
        printed.append(dict(zip(headings, line, strict=True)))
    paper = pd.DataFrame(printed, columns=pd.Index(headings))
    return fill_table(LAYOUT, "table_6", ours, paper=paper, missing=_without_intervention(reading))


def _without_intervention(reading: StudyReading) -> list[str]:
    return [f"{cell.name}: no intervention in this run" for cell in reading.cells if cell.intervention is None]


def _interventions(reading: StudyReading) -> pd.DataFrame:
    """Return one row per cell and class, targeted classes first."""
    records = []
    for cell in reading.cells:
        table, summary = cell.intervention, cell.result.summary.get("intervention") or {}
        if table is None:
            continue
        basis = [reading.bases.get((cell.dataset, label), "") for label in column_texts(table, "label")]
        front = {"dataset": cell.dataset, "architecture": cell.architecture}
        if "paper_before" not in table:  # an earlier run has means over patients alone
            table = table.assign(paper_before=table["before"], paper_after=table["after"])
        records.append(table.assign(**front, intervention=str(summary.get("name") or ""), basis=basis))
    return pd.concat(records, ignore_index=True) if records else pd.DataFrame()


def _largest_change(targeted: pd.DataFrame) -> pd.DataFrame:
    """Select the architecture with the largest change of a target class in each data set: the paper's choice (A.3)."""
    size = np.abs(column_numbers(targeted, "paper_after") - column_numbers(targeted, "paper_before"))
    cells = list(zip(column_texts(targeted, "dataset"), column_texts(targeted, "architecture"), strict=True))
    best: dict[str, tuple[float, str]] = {}
    for (dataset, architecture), value in zip(cells, np.nan_to_num(size, nan=-1.0), strict=True):
        if dataset not in best or value > best[dataset][0]:
            best[dataset] = (float(value), architecture)
    return rows(targeted, [best[dataset][1] == architecture for dataset, architecture in cells])


def _place(row: dict[Any, Any]) -> tuple[str, str]:
    return str(row["dataset"]), str(row["label"])


def _change(row: dict[Any, Any]) -> str:
    return change_text(row["paper_before"], row["paper_after"], row["paper_percent"])


def _effect(row: dict[Any, Any]) -> str:
    return effect_size_text(row["paper_before"], row["paper_after"], row["paper_cohens_d"])


def _without_constant(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Leave out leading columns with the same value in every row, as the paper's tables of one data set do."""
    return frame.drop(columns=[n for n in names if n in frame and len(set(column_texts(frame, n))) <= 1])


def table_4(reading: StudyReading) -> StudyTable:
    """Tabulate the worst class by regime; each private regime has its smallest epsilon, as printed."""
    printed = []
    for defence in reading.defences:
        regimes = column_texts(defence.table, "regime")
        smallest = smallest_budgets(regimes)
        for regime in (regime for regime in regimes if regime in smallest):
            label, m = _worst_class(defence.cells[regime])
            worst = f"{label} {signed_number(m)}"
            printed.append((defence.dataset, regime_name(regime, short=True), _accuracy(defence, regime), worst))
    return fill_table(LAYOUT, "table_4", _regimes(reading), paper=printed)


def table_11(reading: StudyReading) -> StudyTable:
    """Tabulate every regime; the classes under each (figure 3a) are ``extra["by_regime"]``."""
    printed = []
    for defence in reading.defences:
        for regime in column_texts(defence.table, "regime"):
            label, m = _worst_class(defence.cells[regime])
            mean = float(np.nanmean(defence.cells[regime].m, axis=0).mean())
            values = (_accuracy(defence, regime), signed_number(mean), label, signed_number(m))
            printed.append((defence.dataset, regime_name(regime), *values))
    classes = [_by_regime(defence) for defence in reading.defences]
    extra = {"by_regime": pd.concat(classes, ignore_index=True)} if classes else {}
    return fill_table(LAYOUT, "table_11", _regimes(reading), paper=printed, extra=extra)


def smallest_budgets(regimes: Sequence[str]) -> list[str]:
    """Return regimes without a budget, and each private one with its smallest budget: the rows of table 4."""
    smallest: dict[str, str] = {}
    for regime in regimes:
        kind = next((k for k in ("dp-lora", "dp-full") if regime.startswith(f"{k}-")), regime)
        if kind not in smallest or (kind != regime and _epsilon(regime, kind) < _epsilon(smallest[kind], kind)):
            smallest[kind] = regime
    return list(smallest.values())


def _epsilon(regime: str, kind: str) -> float:
    return float(regime[len(kind) + 1 :])


def _worst_class(cell: Cell) -> tuple[str, float]:
    """Return the class with the largest mean M over its images (algorithm 1 of the paper), and that mean."""
    top = largest_first(cell.scored, "mean").head(1)
    return column_texts(top, "label")[0], float(column_numbers(top, "mean")[0])


def _accuracy(defence: StudyDefence, regime: str) -> str:
    return plain_number(100 * defence.accuracy_members[regime], 1)


def _regimes(reading: StudyReading) -> pd.DataFrame:
    """Return the rows of every comparison of regimes."""
    each = [
        defence.table.assign(
            dataset=defence.dataset,
            accuracy_members=[defence.accuracy_members[r] for r in column_texts(defence.table, "regime")],
        )
        for defence in reading.defences
    ]
    return pd.concat(each, ignore_index=True) if each else pd.DataFrame()


def _by_regime(defence: StudyDefence) -> pd.DataFrame:
    columns = ["label", "frequency", "mean", "low", "high", "tier", "n_groups_scored"]
    each = [
        result.per_class.reindex(columns=columns).assign(dataset=defence.dataset, regime=regime)
        for regime, result in defence.results.items()
    ]
    return pd.concat(each, ignore_index=True)
