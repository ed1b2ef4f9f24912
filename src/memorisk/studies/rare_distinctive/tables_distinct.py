"""Tables 2, 3, 6 and 7 of paper 000: distinctiveness intervened on, and measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from memorisk.report.frames import largest_first, numbers, rows, texts, truths
from memorisk.studies.rare_distinctive.parts import StudyCell, StudyReading, StudyTable
from memorisk.studies.rare_distinctive.text import change, effect, share, signed

METRICS = {"ratio": "centroid_ratio", "intra": "intra_centroid_dist", "nearest_other": "nearest_other_class_dist"}
"""Scores by the paper's names (A.4), in the order of table 7."""

_RHO = "Spearman ρ"
_MEASURED_NOTE = (
    "The paper's centroid holds the image itself, so that rarity leaks in, and its p counts images as independent; the "
    "pairwise form compares with other patients' images only, and its interval and p are over patients."
)
_CHANGED_NOTE = (
    "The percentage grows without bound where little was remembered before, and the architecture shown is the one with "
    "the largest effect, which is a selection; ours are all of them, as differences with intervals beside what "
    "retraining alone does. The paper's means are over images, as in table 5; ours weigh patients alike."
)
_CHANGED_IN_FULL_NOTE = (
    "Cohen's d takes before and after as independent images, but they are the same, so the paired d_z stands beside "
    "it, with the untargeted classes and with what retraining alone does; on images that are grey already the "
    "intervention is refused."
)


def table_2(reading: StudyReading) -> StudyTable:
    """Atypicality against M: the ratio of distances, raw and within classes, a column an architecture."""
    title = "Atypicality (cosine distance in frozen features) against M: the ratio of distances"
    every = _associations(reading)
    ours = rows(every, [m == METRICS["ratio"] for m in texts(every, "metric")])
    printed = []
    for place in dict.fromkeys(zip(texts(ours, "dataset"), texts(ours, "features"), strict=True)):
        own = rows(ours, [p == place for p in zip(texts(ours, "dataset"), texts(ours, "features"), strict=True)])
        for name, column in (("raw", "paper_rho"), ("within-class resid.", "paper_rho_residual")):
            by_model = dict(zip(texts(own, "architecture"), numbers(own, column), strict=True))
            values = {a: signed(by_model.get(a), 3) for a in dict.fromkeys(texts(ours, "architecture"))}
            printed.append({"Dataset": place[0], "Features": place[1], _RHO: name} | values)
    paper = pd.DataFrame(printed or None, columns=None if printed else pd.Index([_RHO]))
    paper = _without_constant(paper, ("Dataset", "Features"))
    return _measured("table_2", title, paper, ours, reading, {})


def table_7(reading: StudyReading) -> StudyTable:
    """Every metric; distances by layer (figure 2) and probes are ``extra``."""
    title = "Atypicality against M, every metric"
    every = _associations(reading)
    order = []
    for metric in METRICS.values():
        of_metric = rows(every, [m == metric for m in texts(every, "metric")])
        order.append(largest_first(of_metric, "paper_rho"))
    ours = pd.concat(order, ignore_index=True)
    values = (("raw ρ", "paper_rho"), ("residualised ρ", "paper_rho_residual"))
    printed = {
        "Dataset": texts(ours, "dataset"),
        "Features": texts(ours, "features"),
        "Architecture": texts(ours, "architecture"),
        "Metric": texts(ours, "metric"),
        **{heading: [signed(v, 3) for v in numbers(ours, column)] for heading, column in values},
    }
    paper = _without_constant(pd.DataFrame(printed), ("Dataset", "Features"))
    extra = {"layers": _layers(reading.cells), "probes": _probes(reading.cells)}
    return _measured("table_7", title, paper, ours, reading, {k: v for k, v in extra.items() if len(v)})


def _measured(
    name: str, title: str, paper: pd.DataFrame, ours: pd.DataFrame, reading: StudyReading, extra: dict[str, Any]
) -> StudyTable:
    missing = tuple(f"{cell.name}: {cell.unexplained}" for cell in reading.cells if cell.unexplained)
    why = "" if len(ours) else "no finished cell was explained: run memorisk explain on the cells"
    return StudyTable(name, title, paper, ours, _MEASURED_NOTE, why, missing, extra)


def _associations(reading: StudyReading) -> pd.DataFrame:
    """A row a cell, feature space and score: the pairwise form, the centroid form beside it."""
    found = []
    for cell in reading.cells:
        table = cell.explained.get("atypicality_summary")
        if table is None:
            continue
        by_form = {(r["features"], r["score"], r["form"]): r for r in table.to_dict("records")}
        for features in dict.fromkeys(texts(table, "features")):
            for score, metric in METRICS.items():
                ours, paper = (by_form[features, score, form] for form in ("pairwise", "centroid"))
                found.append(_association(cell, features, metric, ours, paper))
    return pd.DataFrame(found, columns=None if found else pd.Index(["dataset", "architecture", "features", "metric"]))


def _association(
    cell: StudyCell, features: str, metric: str, ours: dict[Any, Any], paper: dict[Any, Any]
) -> dict[str, Any]:
    kept = ("rho", "low", "high", "rho_residual", "low_residual", "high_residual", "p", "smallest_p", "n", "n_groups")
    return {
        "dataset": cell.dataset,
        "architecture": cell.architecture,
        "features": features,
        "metric": metric,
        **{name: ours[name] for name in kept},
        **{"paper_rho": paper["rho"], "paper_rho_low": paper["low"], "paper_rho_high": paper["high"]},
        "paper_rho_residual": paper["rho_residual"],
        "paper_rho_residual_low": paper["low_residual"],
        "paper_rho_residual_high": paper["high_residual"],
        **{"paper_p": paper["p_paper"], "paper_p_residual": paper["p_paper_residual"]},
    }


def _layers(cells: Sequence[StudyCell]) -> pd.DataFrame:
    """Cosine distance of the twins' activations, a row a layer."""
    return _numbered(cells, "distances")


def _probes(cells: Sequence[StudyCell]) -> pd.DataFrame:
    """What the probes reach, a row a layer and kind, and what they could reach at most."""
    found = _numbered(cells, "probes")
    ceilings = {}
    for cell in cells:
        ceiling = ((cell.explanation.get("probes") or {}).get("reliability") or {}).get("ceiling") or {}
        ceilings[cell.dataset, cell.architecture] = [ceiling.get(k) for k in ("estimate", "low", "high")]
    keys = list(zip(texts(found, "dataset"), texts(found, "architecture"), strict=True))
    for at, name in enumerate(("ceiling", "ceiling_low", "ceiling_high")):
        found[name] = np.array([ceilings[key][at] for key in keys], dtype=np.float64)
    return found


def _numbered(cells: Sequence[StudyCell], name: str) -> pd.DataFrame:
    """One table of each explained cell, layers numbered in their order."""
    found = []
    for cell in cells:
        table = cell.explained.get(name)
        if table is None:
            continue
        layers = list(dict.fromkeys(texts(table, "layer")))
        number = [layers.index(layer) + 1 for layer in texts(table, "layer")]
        found.append(table.assign(dataset=cell.dataset, architecture=cell.architecture, number=number))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def table_3(reading: StudyReading) -> StudyTable:
    """The intervention on its target classes."""
    title = "Distinctiveness manipulation: memorization of the changed classes"
    headings = ["Dataset", "Class", "Change", "d", "Basis"]
    every = _interventions(reading)
    ours = rows(every, truths(every, "targeted"))
    printed = [
        dict(zip(headings, (*_place(row), _change(row), _effect(row), row["basis"] or "n/a"), strict=True))
        for row in _most_pronounced(ours).to_dict("records")
    ]
    paper = pd.DataFrame(printed, columns=pd.Index(headings))
    return _changed("table_3", title, paper, ours, _CHANGED_NOTE, reading)


def table_6(reading: StudyReading) -> StudyTable:
    """The intervention in full: the changed classes as printed, every class in ours."""
    title = "Distinctiveness manipulation in full"
    ours = _interventions(reading)
    targeted = rows(ours, truths(ours, "targeted"))
    names = list(dict.fromkeys(texts(targeted, "intervention")))
    after = names[0].capitalize() if len(names) == 1 else "After"
    headings = ["Dataset", "Class", "Freq. %", "Baseline", after, "Change", "d", "Basis"]
    printed = []
    for row in _most_pronounced(targeted).to_dict("records"):
        digits = 3 if _change(row).endswith("×") else 2
        means = (signed(row["paper_before"], digits), signed(row["paper_after"], digits))
        values = (share(row["frequency"]), *means)
        line = (*_place(row), *values, _change(row), _effect(row), row["basis"] or "n/a")
        printed.append(dict(zip(headings, line, strict=True)))
    paper = pd.DataFrame(printed, columns=pd.Index(headings))
    return _changed("table_6", title, paper, ours, _CHANGED_IN_FULL_NOTE, reading)


def _changed(
    name: str, title: str, paper: pd.DataFrame, ours: pd.DataFrame, note: str, reading: StudyReading
) -> StudyTable:
    missing = tuple(f"{cell.name}: no intervention in this run" for cell in reading.cells if cell.intervention is None)
    why = "" if len(ours) else "no finished cell had an intervention (--intervene)"
    return StudyTable(name, title, paper, ours, note, why, missing)


def _interventions(reading: StudyReading) -> pd.DataFrame:
    """A row a cell and class, targeted classes first."""
    found = []
    for cell in reading.cells:
        table, summary = cell.intervention, cell.result.summary.get("intervention") or {}
        if table is None:
            continue
        basis = [reading.bases.get((cell.dataset, label), "") for label in texts(table, "label")]
        front = {"dataset": cell.dataset, "architecture": cell.architecture}
        if "paper_before" not in table:  # a run made before has means over patients alone
            table = table.assign(paper_before=table["before"], paper_after=table["after"])
        found.append(table.assign(**front, intervention=str(summary.get("name") or ""), basis=basis))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _most_pronounced(targeted: pd.DataFrame) -> pd.DataFrame:
    """Of each data set the architecture with the largest change of a target class: the paper's choice (A.3)."""
    size = np.abs(numbers(targeted, "paper_after") - numbers(targeted, "paper_before"))
    cells = list(zip(texts(targeted, "dataset"), texts(targeted, "architecture"), strict=True))
    best: dict[str, tuple[float, str]] = {}
    for (dataset, architecture), value in zip(cells, np.nan_to_num(size, nan=-1.0), strict=True):
        if dataset not in best or value > best[dataset][0]:
            best[dataset] = (float(value), architecture)
    return rows(targeted, [best[dataset][1] == architecture for dataset, architecture in cells])


def _place(row: dict[Any, Any]) -> tuple[str, str]:
    return str(row["dataset"]), str(row["label"])


def _change(row: dict[Any, Any]) -> str:
    return change(row["paper_before"], row["paper_after"], row["paper_percent"])


def _effect(row: dict[Any, Any]) -> str:
    return effect(row["paper_before"], row["paper_after"], row["paper_cohens_d"])


def _without_constant(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Leave out leading columns that say the same in every row, as the paper's tables of one data set do."""
    return frame.drop(columns=[n for n in names if n in frame and len(set(texts(frame, n))) <= 1])
