"""Tables 1, 5 and 8 of paper 000: rarity, M by class, and the attacks by class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_table import STRONGEST
from memorisk.audits.classifier.explanations.rarity import class_table, rarity_across, rarity_table, table_one
from memorisk.report.frames import largest_first, numbers, rows, texts
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.attacks.registry import ATTACKS
from memorisk.studies.rare_distinctive.parts import StudyCell, StudyReading, StudyTable
from memorisk.studies.rare_distinctive.text import mean_and_spread, plain, share, signed

NO_CELL = "no cell is finished"
_RARITY_NOTE = (
    "The paper's rho counts images as independent and its sign test counts cells that share data sets; ours permutes "
    "frequencies over classes, tests class means and takes the data set as the unit, each beside the smallest p it "
    "could have had."
)
_CLASSES_NOTE = (
    "The paper gives means alone; ours have intervals over patients and trainings, and no tier below ten scored "
    "patients."
)
_ATTACKS_NOTE = (
    "The best of several attacks is chosen on the images it is judged by, so the paper's column is optimistic; ours is "
    "one attack chosen beforehand, the loss difference, which the paper names as its strongest, with its interval over "
    "patients. It needs the twin, which an attacker does not have."
)
_FORMS = {
    ("other_seeds",): "other seeds, loss threshold",
    ("strongest", "other_seeds"): "other seeds, loss difference",
    ("strongest", "circular"): "the attacked models, loss difference (paper)",
}
"""Where M comes from and which attack it is set against, by place in the result."""


def table_1(reading: StudyReading, *, draws: int, seed: int) -> StudyTable:
    """Rarity by cell, and over cells (``extra["across"]``).

    Args:
        reading: The study.
        draws: Random permutations where not all are visited.
        seed: Of those.
    """
    title = "Rarity and memorization: Spearman's rho of class frequency and M, mean ± s.d. over seeds"
    cells = [cell.rarity for cell in reading.cells]
    if not cells:
        return _empty("table_1", title, _RARITY_NOTE, ["Model"], NO_CELL)
    ours = rarity_table(cells, draws=draws, seed=seed)
    with_rare = [cell.dataset for cell in cells if cell.rare_scored]
    left_out = [name for name in reading.datasets if name not in with_rare]
    shown = rows(ours, [name in with_rare for name in texts(ours, "dataset")])
    missing = [f"{one_line(n, 60)}: no class below 5 % was scored, so it is not in the paper's form" for n in left_out]
    extra = {}
    try:
        extra["across"] = rarity_across(cells, draws=draws, seed=seed)
    except InputError as error:
        missing.append(f"over cells: {error}")
    return StudyTable("table_1", title, _printed_rho(shown), ours, _RARITY_NOTE, missing=tuple(missing), extra=extra)


def _printed_rho(table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        return pd.DataFrame(columns=pd.Index(["Model"]))
    wide = table_one(table)
    printed = {"Model": texts(wide, "architecture")}
    for name in wide.columns[1:]:
        printed[_heading(str(name), printed)] = [mean_and_spread(text) for text in texts(wide, str(name))]
    return pd.DataFrame(printed)


def table_5(reading: StudyReading) -> StudyTable:
    """Mean M of each class in every architecture."""
    title = "Per-class memorization M"
    if not reading.cells:
        return _empty("table_5", title, _CLASSES_NOTE, ["Class", "Freq. %", "n"], NO_CELL)
    printed, missing = [], []
    for dataset in reading.datasets:
        try:
            printed += _class_rows(reading, dataset)
        except InputError as error:
            missing.append(f"{one_line(dataset, 60)}: {error}")
    paper = pd.DataFrame(printed or None, columns=None if printed else pd.Index(["Class", "Freq. %", "n"]))
    if len(reading.datasets) == 1:
        paper = paper.drop(columns="Dataset", errors="ignore")
    ours = pd.concat([_class_figures(cell) for cell in reading.cells], ignore_index=True)
    return StudyTable("table_5", title, paper.fillna("n/a"), ours, _CLASSES_NOTE, missing=tuple(missing))


def _class_rows(reading: StudyReading, dataset: str) -> list[dict[str, str]]:
    """The printed rows of a data set, by the mean of its vision transformer, as the paper's, or its first network."""
    cells = [cell.rarity for cell in reading.cells if cell.dataset == dataset]
    names = [cell.architecture for cell in cells]
    first = next((name for name in names if name.lower().startswith("vit")), names[0])
    table = class_table(cells, sort_by=first)
    found = []
    for row in table.to_dict("records"):
        line = {"Dataset": dataset, "Class": str(row["class"]), "Freq. %": share(row["frequency"]), "n": str(row["n"])}
        for name in reading.architectures:
            line[_heading(name, line)] = signed(row[name]) if name in names else "n/a"
        found.append(line)
    return found


def _class_figures(cell: StudyCell) -> pd.DataFrame:
    columns = ("label", "frequency", "mean", "low", "high", "tier", "flagged", "n_scored", "n_groups_scored")
    every = (*columns, "n_test_groups", "why_not")
    table = largest_first(cell.result.per_class.reindex(columns=list(every)), "mean").reset_index(drop=True)
    testable = np.array([not why for why in texts(table, "why_not")], dtype=bool)
    flagged = np.where(testable, numbers(table, "flagged"), np.nan)
    table = table.assign(flagged=flagged)
    return _named(table, cell)


def table_8(reading: StudyReading) -> StudyTable:
    """Attacks by class, by the paper's strongest; M against their success is ``extra["agreement"]`` (figure 4a)."""
    title = "Membership inference by class: the best attack's AUC and mean M"
    headings = ["Dataset", "Class", "Freq. %", "MIA AUC", "M(x)"]
    if not reading.cells:
        return _empty("table_8", title, _ATTACKS_NOTE, headings, NO_CELL)
    printed, ours = [], []
    for cell in reading.cells:
        table = largest_first(_attack_figures(cell), "best_auc")
        ours.append(table)
        over_images = dict(zip(texts(cell.rarity.classes, "label"), numbers(cell.rarity.classes, "mean"), strict=True))
        for row in table.to_dict("records"):
            where = f"{cell.dataset} ({cell.architecture})"
            m = over_images[str(row["label"])]
            values = (share(row["frequency"]), plain(row["best_auc"], 3), signed(m))
            printed.append(dict(zip(headings, (where, str(row["label"]), *values), strict=True)))
    paper = pd.DataFrame(printed, columns=pd.Index(headings))
    agreement, missing = _agreement(reading.cells)
    extra = {} if agreement.empty else {"agreement": agreement}
    frame = pd.concat(ours, ignore_index=True)
    return StudyTable("table_8", title, paper, frame, _ATTACKS_NOTE, missing=tuple(missing), extra=extra)


def _attack_figures(cell: StudyCell) -> pd.DataFrame:
    attacks = cell.result.attacks
    of_paper = [name for name, spec in ATTACKS.items() if not spec.control]
    found = []
    for row in cell.result.per_class.to_dict("records"):
        own = rows(attacks, [name == row["label"] for name in texts(attacks, "label")])
        chosen = rows(own, [name == STRONGEST for name in texts(own, "attack")]).to_dict("records")
        fixed: dict[str, Any] = dict(chosen[0]) if chosen else {}
        best = largest_first(rows(own, [name in of_paper for name in texts(own, "attack")]), "auc").head(1)
        best_auc = float(numbers(best, "auc")[0]) if len(best) else float("nan")
        found.append(
            {
                "label": str(row["label"]),
                "frequency": row["frequency"],
                **{name: fixed.get(name, float("nan")) for name in ("auc", "low", "high")},
                **{"mean": row["mean"], "mean_low": row["low"], "mean_high": row["high"]},
                "best_auc": best_auc,
                "best_attack": "" if np.isnan(best_auc) else ATTACKS[texts(best, "attack")[0]].title,
                **{name: fixed.get(name, 0) for name in ("n_members", "n_non_members", "n_groups")},
                "why": "" if np.isfinite(fixed.get("auc", np.nan)) else str(fixed.get("note") or "no attack"),
            }
        )
    return _named(pd.DataFrame(found), cell)


def _agreement(cells: Sequence[StudyCell]) -> tuple[pd.DataFrame, list[str]]:
    """Attack success at high and at low M, a row a cell and form (figure 4a)."""
    found, missing = [], []
    for cell in cells:
        both = cell.result.summary.get("agreement")
        if not isinstance(both, dict):
            missing.append(f"{cell.name}: M against attack success needs two seeds")
            continue
        if not isinstance(both.get("strongest"), dict):
            missing.append(f"{cell.name}: has no success of the loss difference; issue the run's command again")
        for place, shown in _FORMS.items():
            form: Any = both
            for name in place:
                form = (form or {}).get(name)
            if form is None:
                continue
            row: dict[str, Any] = {"dataset": cell.dataset, "architecture": cell.architecture, "form": shown}
            for name in ("difference", "spearman"):
                limits = form[name]
                row |= {name: limits["estimate"], f"{name}_low": limits["low"], f"{name}_high": limits["high"]}
            row |= {name: form[name] for name in ("success_high", "success_low", "n_high", "n_low")}
            found.append(row)
    return pd.DataFrame(found), missing


def _named(table: pd.DataFrame, cell: StudyCell) -> pd.DataFrame:
    front = pd.DataFrame({"dataset": [cell.dataset] * len(table), "architecture": [cell.architecture] * len(table)})
    return pd.concat([front, table.reset_index(drop=True)], axis=1)


def _heading(name: str, taken: dict[str, Any]) -> str:
    """A user's name as a column, apart from the paper's own headings."""
    return f"{name} (name)" if name in taken else name


def _empty(name: str, title: str, note: str, headings: list[str], why: str) -> StudyTable:
    return StudyTable(name, title, pd.DataFrame(columns=pd.Index(headings)), pd.DataFrame(), note, why_empty=why)
