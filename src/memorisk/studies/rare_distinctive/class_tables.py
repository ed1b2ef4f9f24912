"""Tables 1, 5, 8, 9 and 10 of paper 000: rarity, M by class, attacks by class, data sets, training recipes."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.tables.attacks import STRONGEST
from memorisk.models.classifiers.specs import SPECS
from memorisk.report.columns import column_numbers, column_texts, largest_first, rows
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.twin_attacks import ATTACKS
from memorisk.studies.engine.number_texts import (
    NONE,
    mean_and_spread,
    plain_number,
    power_of_ten,
    share_text,
    signed_number,
    thousands_text,
)
from memorisk.studies.engine.rows import rows_of
from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.rare_distinctive.rarity import class_table, rarity_across, rarity_table, table_one
from memorisk.studies.rare_distinctive.results import LAYOUT, StudyCell, StudyReading

_FORMS = {
    ("other_seeds",): "other seeds, loss threshold",
    ("strongest", "other_seeds"): "other seeds, loss difference",
    ("strongest", "circular"): "the attacked models, loss difference (paper)",
}
"""Source of M and the attack that it is compared with, by place in the result."""
_NO_RARE = "– (no class below 5 % was scored)"


def table_1(reading: StudyReading, *, draws: int, seed: int) -> StudyTable:
    """Tabulate rarity by cell, and over cells (``extra["across"]``).

    Args:
        reading: Reading of the study.
        draws: Number of random permutations where not all are visited.
        seed: Random seed of the permutations.
    """
    cells = [cell.rarity for cell in reading.cells]
    if not cells:
        return fill_table(LAYOUT, "table_1", ())
    ours = rarity_table(cells, draws=draws, seed=seed)
    with_rare = [cell.dataset for cell in cells if cell.rare_scored]
    left_out = [name for name in reading.datasets if name not in with_rare]
    missing, extra = list[str](), {}
    try:
        extra["across"] = rarity_across(cells, draws=draws, seed=seed)
    except InputError as error:
        missing.append(f"over cells: {error}")
    return fill_table(LAYOUT, "table_1", ours, paper=_printed_rho(ours, left_out), missing=missing, extra=extra)


def _printed_rho(table: pd.DataFrame, without_rare: Sequence[str]) -> pd.DataFrame:
    """Return the paper's form; the paper compares rare classes, so that a data set without one has the reason."""
    wide = table_one(table)
    run = set(zip(column_texts(table, "architecture"), column_texts(table, "dataset"), strict=True))
    printed = {"Model": column_texts(wide, "architecture")}
    for name in wide.columns[1:]:
        cells = zip(printed["Model"], column_texts(wide, str(name)), strict=True)
        reason = _NO_RARE if name in without_rare else ""
        values = [reason if reason and (model, name) in run else mean_and_spread(text) for model, text in cells]
        printed[_heading(str(name), printed)] = values
    return pd.DataFrame(printed)


def table_5(reading: StudyReading) -> StudyTable:
    """Tabulate the mean M of each class in every architecture."""
    if not reading.cells:
        return fill_table(LAYOUT, "table_5", ())
    printed, missing = [], []
    for dataset in reading.datasets:
        try:
            printed += _class_rows(reading, dataset)
        except InputError as error:
            missing.append(f"{one_line(dataset, 60)}: {error}")
    paper = pd.DataFrame(printed or None, columns=None if printed else pd.Index(LAYOUT.tables["table_5"].paper))
    if len(reading.datasets) == 1:
        paper = paper.drop(columns="Dataset", errors="ignore")
    ours = pd.concat([_class_figures(cell) for cell in reading.cells], ignore_index=True)
    return fill_table(LAYOUT, "table_5", ours, paper=paper.fillna("n/a"), missing=missing)


def _class_rows(reading: StudyReading, dataset: str) -> list[dict[str, str]]:
    """Return the printed rows of a data set, in the order of its vision transformer's mean or its first network's."""
    cells = [cell.rarity for cell in reading.cells if cell.dataset == dataset]
    names = [cell.architecture for cell in cells]
    first = next((name for name in names if name.lower().startswith("vit")), names[0])
    table = class_table(cells, sort_by=first)
    lines = []
    for row in table.to_dict("records"):
        line = {
            "Dataset": dataset,
            "Class": str(row["class"]),
            "Freq. %": share_text(row["frequency"]),
            "n": str(row["n"]),
        }
        for name in reading.architectures:
            line[_heading(name, line)] = signed_number(row[name]) if name in names else "n/a"
        lines.append(line)
    return lines


def _class_figures(cell: StudyCell) -> pd.DataFrame:
    columns = ("label", "frequency", "mean", "low", "high", "tier", "flagged", "n_scored", "n_groups_scored")
    every = (*columns, "n_test_groups", "why_not")
    table = largest_first(cell.result.per_class.reindex(columns=list(every)), "mean").reset_index(drop=True)
    testable = np.array([not why for why in column_texts(table, "why_not")], dtype=bool)
    flagged = np.where(testable, column_numbers(table, "flagged"), np.nan)
    table = table.assign(flagged=flagged)
    return _class_column(table, cell)


def table_8(reading: StudyReading) -> StudyTable:
    """Tabulate attacks by class, by the paper's strongest; ``extra["agreement"]`` compares M with them (figure 4a)."""
    printed, ours = [], []
    for cell in reading.cells:
        table = largest_first(_attack_figures(cell), "best_auc")
        ours.append(table)
        classes = cell.rarity.classes
        over_images = dict(zip(column_texts(classes, "label"), column_numbers(classes, "mean"), strict=True))
        for row in table.to_dict("records"):
            label, m = str(row["label"]), over_images[str(row["label"])]
            values = (share_text(row["frequency"]), plain_number(row["best_auc"], 3), signed_number(m))
            printed.append((f"{cell.dataset} ({cell.architecture})", label, *values))
    agreement, missing = _agreement(reading.cells)
    extra = {} if agreement.empty else {"agreement": agreement}
    frame = pd.concat(ours, ignore_index=True) if ours else ()
    return fill_table(LAYOUT, "table_8", frame, paper=printed, missing=missing, extra=extra)


def _attack_figures(cell: StudyCell) -> pd.DataFrame:
    attacks = cell.result.attacks
    of_paper = [name for name, spec in ATTACKS.own.items() if not spec.control]
    records = []
    for row in cell.result.per_class.to_dict("records"):
        own = rows_of(attacks, label=row["label"])
        chosen = rows_of(own, attack=STRONGEST).to_dict("records")
        fixed: dict[str, Any] = dict(chosen[0]) if chosen else {}
        best = largest_first(rows(own, [name in of_paper for name in column_texts(own, "attack")]), "auc").head(1)
        best_auc = float(column_numbers(best, "auc")[0]) if len(best) else float("nan")
        records.append(
            {
                "label": str(row["label"]),
                "frequency": row["frequency"],
                **{name: fixed.get(name, float("nan")) for name in ("auc", "low", "high")},
                **{"mean": row["mean"], "mean_low": row["low"], "mean_high": row["high"]},
                "best_auc": best_auc,
                "best_attack": "" if np.isnan(best_auc) else ATTACKS[column_texts(best, "attack")[0]].title,
                **{name: fixed.get(name, 0) for name in ("n_members", "n_non_members", "n_groups")},
                "why": "" if np.isfinite(fixed.get("auc", np.nan)) else str(fixed.get("note") or "no attack"),
            }
        )
    return _class_column(pd.DataFrame(records), cell)


def _agreement(cells: Sequence[StudyCell]) -> tuple[pd.DataFrame, list[str]]:
    """Compare attack success at high and at low M, one row per cell and form (figure 4a)."""
    records, missing = [], []
    for cell in cells:
        both = cell.result.summary.get("agreement")
        if not isinstance(both, dict):
            missing.append(f"{cell.name}: M against attack success needs two seeds")
            continue
        if not isinstance(both.get("strongest"), dict):
            missing.append(f"{cell.name}: has no success of the loss difference; issue the run's command again")
        for place, form_words in _FORMS.items():
            form: Any = both
            for name in place:
                form = (form or {}).get(name)
            if form is None:
                continue
            row: dict[str, Any] = {"dataset": cell.dataset, "architecture": cell.architecture, "form": form_words}
            for name in ("difference", "spearman"):
                ends = form[name]
                row |= {name: ends["estimate"], f"{name}_low": ends["low"], f"{name}_high": ends["high"]}
            row |= {name: form[name] for name in ("success_high", "success_low", "n_high", "n_low")}
            records.append(row)
    return pd.DataFrame(records), missing


def _class_column(table: pd.DataFrame, cell: StudyCell) -> pd.DataFrame:
    front = pd.DataFrame({"dataset": [cell.dataset] * len(table), "architecture": [cell.architecture] * len(table)})
    return pd.concat([front, table.reset_index(drop=True)], axis=1)


def _heading(name: str, row: dict[str, Any]) -> str:
    """Return a user's name as a column, apart from the paper's own headings."""
    return f"{name} (name)" if name in row else name


DOMAINS = {
    "ham10000": "Dermatology",
    "chestxray14": "Radiology",
    "kvasircapsule": "Gastroenterology",
    "odir5k": "Ophthalmology",
    "retinaloct": "Retinal imaging",
}
"""Domains of the paper's data sets, by their readers' names in letters and digits; other data sets have no domain
here."""

_SETTINGS = (
    *("epochs", "lr", "optimizer", "schedule", "batch_size", "weight_decay", "class_weights", "augment", "head"),
    *("normalise", "precision", "regime", "device", "threads"),
)


def table_9(reading: StudyReading) -> StudyTable:
    """Tabulate the data sets."""
    cells = [next(c for c in reading.cells if c.dataset == name) for name in reading.datasets]
    ours = pd.DataFrame([_dataset_row(cell) for cell in cells])
    printed = []
    for cell, row in zip(cells, ours.to_dict("records"), strict=True):
        size = thousands_text(int(row["n_images"]))
        rarest = f"{row['rarest']} ({share_text(row['rarest_share'])}%)"
        imbalance = f"1 : {row['imbalance']:.0f}"
        printed.append((cell.dataset, _domain(cell), str(row["n_classes"]), size, imbalance, rarest))
    hashes = {cell.dataset: cell.result.verdict.get("data_hash") for cell in cells}
    others = [c for c in reading.cells if c.result.verdict.get("data_hash") != hashes[c.dataset]]
    missing = [f"{c.name}: its images or groups are others than those counted here" for c in others]
    missing += [
        f"{one_line(c.dataset, 60)}: no patient ids were given, so every image counts as a patient in all tables"
        for c in cells
        if not c.result.summary.get("groups_given")
    ]
    return fill_table(LAYOUT, "table_9", ours, paper=printed, missing=missing)


def _dataset_row(cell: StudyCell) -> dict[str, Any]:
    summary, classes, images = cell.result.summary, cell.result.per_class, cell.result.per_image
    has_groups = bool(summary.get("groups_given"))
    n, counts = int(summary["n_images"]), column_numbers(classes, "n")
    rarest = int(np.argmin(counts))
    each = images.drop_duplicates("image")
    scored = images.loc[np.isfinite(column_numbers(images, "M"))]
    of_one = each["group"].astype(str).value_counts()
    n_scored = int(scored["image"].nunique())
    return {
        "dataset": cell.dataset,
        "n_images": n,
        "n_groups": float(summary["n_groups"]) if has_groups else float("nan"),
        "images_per_patient": n / summary["n_groups"] if has_groups else float("nan"),
        "most_images": float(of_one.max()) if has_groups else float("nan"),
        "n_classes": int(summary["n_classes"]),
        "not_auditable": len(summary.get("not_auditable") or []),
        "imbalance": float(counts.max() / counts.min()),
        "rarest": column_texts(classes, "label")[rarest],
        "rarest_share": float(column_numbers(classes, "frequency")[rarest]),
        "rarest_groups": float(column_numbers(classes, "n_groups")[rarest]) if has_groups else float("nan"),
        "design": str(summary["design"]),
        **{name: int(summary[name]) for name in ("n_train", "n_canary", "n_test")},
        "n_scored": n_scored,
        "n_groups_scored": float(scored["group"].nunique()) if has_groups else float("nan"),
        "scored_share": n_scored / n,
    }


def _domain(cell: StudyCell) -> str:
    for name in (cell.result.summary.get("dataset"), cell.dataset):
        key = re.sub(r"[^a-z0-9]", "", str(name).lower())
        if key in DOMAINS:
            return DOMAINS[key]
    return NONE


def table_10(reading: StudyReading) -> StudyTable:
    """Tabulate how each architecture was trained; one row for each recipe where data sets differ in it."""
    recipes: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in reading.cells:
        row = _recipe(cell)
        key = tuple(row.values())
        if key in recipes:
            recipes[key]["datasets"] += f", {one_line(cell.dataset, 60)}"
        else:
            recipes[key] = row | {"datasets": one_line(cell.dataset, 60)}
    order = sorted(recipes.values(), key=lambda row: reading.architectures.index(row["architecture"]))
    lines = [(row["architecture"], row["pretraining"], row["epochs"], row["lr_printed"]) for row in order]
    ours = pd.DataFrame(order).drop(columns=["pretraining", "lr_printed"], errors="ignore")
    return fill_table(LAYOUT, "table_10", ours, paper=list(dict.fromkeys(lines)))


def _recipe(cell: StudyCell) -> dict[str, str]:
    """Return the settings of a training as text."""
    training = dict(cell.result.summary.get("training") or {})
    own = training.get("function") is not None
    weights = "its own" if own else weights_name(training.get("weights"))
    size = cell.config.get("size")
    return {
        "architecture": cell.architecture,
        "model": one_line(training.get("model"), 80),
        "weights": weights,
        **{name: _setting("n/a" if own else training.get(name)) for name in _SETTINGS},
        "size": "as stored" if size is None else str(size),
        "pretraining": weights if own else _pretraining(str(training.get("model")), training.get("weights")),
        "lr_printed": NONE if own else power_of_ten(training.get("lr") or float("nan")),
    }


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(v) for v in value)
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else one_line(value, 80)


def weights_name(weights: Any) -> str:
    """Return the name of weights: a file without its folder, which may name people; "none" for random ones."""
    return "none" if weights in (None, "none") else one_line(PurePath(str(weights)).name, 80)


def _pretraining(model: str, weights: Any) -> str:
    if weights in (None, "none"):
        return "Random initialisation"
    spec, name = SPECS.get(model), weights_name(weights)
    if name == "default" and spec is not None and spec.default_weights:
        name = f"default ({spec.default_weights})"
    return f"{name} (frozen trunk + linear head)" if spec is not None and spec.frozen_trunk else name
