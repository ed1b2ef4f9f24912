"""Tables 9 and 10 of paper 000: the data sets, and how each architecture was trained."""

import re
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from memorisk.models.classifiers.specs import SPECS
from memorisk.report.frames import numbers, texts
from memorisk.runs.errors import one_line
from memorisk.studies.rare_distinctive.parts import StudyCell, StudyReading, StudyTable
from memorisk.studies.rare_distinctive.tables_classes import NO_CELL
from memorisk.studies.rare_distinctive.text import NONE, power_of_ten, share, thousands

DOMAINS = {
    "ham10000": "Dermatology",
    "chestxray14": "Radiology",
    "kvasircapsule": "Gastroenterology",
    "odir5k": "Ophthalmology",
    "retinaloct": "Retinal imaging",
}
"""Of the paper's data sets, by their readers' names in letters and digits; nothing is known of others."""

_DATASETS_NOTE = (
    "Images of one patient are not independent, so that ours counts patients, and the images of which M says anything."
)
_RECIPES_NOTE = (
    "The paper names the pre-training, not the weights, and leaves open the normalisation and the device; ours is what "
    "ran."
)
_SETTINGS = (
    *("epochs", "lr", "optimizer", "schedule", "batch_size", "weight_decay", "class_weights", "augment", "head"),
    *("normalise", "precision", "regime", "device", "threads"),
)


def table_9(reading: StudyReading) -> StudyTable:
    """The data sets."""
    title = "Data sets"
    headings = ["Dataset", "Domain", "Classes", "Images", "Imbalance", "Rarest class"]
    cells = [next(c for c in reading.cells if c.dataset == name) for name in reading.datasets]
    ours = pd.DataFrame([_dataset_row(cell) for cell in cells])
    printed = []
    for cell, row in zip(cells, ours.to_dict("records"), strict=True):
        size = thousands(int(row["n_images"]))
        rarest = f"{row['rarest']} ({share(row['rarest_share'])}%)"
        values = (cell.dataset, _domain(cell), str(row["n_classes"]), size, f"1 : {row['imbalance']:.0f}", rarest)
        printed.append(dict(zip(headings, values, strict=True)))
    hashes = {cell.dataset: cell.result.verdict.get("data_hash") for cell in cells}
    others = [c for c in reading.cells if c.result.verdict.get("data_hash") != hashes[c.dataset]]
    missing = [f"{c.name}: its images or groups are others than those counted here" for c in others]
    missing += [
        f"{one_line(c.dataset, 60)}: no patient ids were given, so every image counts as a patient in all tables"
        for c in cells
        if not c.result.summary.get("groups_given")
    ]
    paper = pd.DataFrame(printed, columns=pd.Index(headings))
    return StudyTable("table_9", title, paper, ours, _DATASETS_NOTE, "" if cells else NO_CELL, tuple(missing))


def _dataset_row(cell: StudyCell) -> dict[str, Any]:
    summary, classes, images = cell.result.summary, cell.result.per_class, cell.result.per_image
    named = bool(summary.get("groups_given"))
    n, counts = int(summary["n_images"]), numbers(classes, "n")
    rarest = int(np.argmin(counts))
    each = images.drop_duplicates("image")
    scored = images.loc[np.isfinite(numbers(images, "M"))]
    of_one = each["group"].astype(str).value_counts()
    n_scored = int(scored["image"].nunique())
    return {
        "dataset": cell.dataset,
        "n_images": n,
        "n_groups": float(summary["n_groups"]) if named else float("nan"),
        "images_per_patient": n / summary["n_groups"] if named else float("nan"),
        "most_images": float(of_one.max()) if named else float("nan"),
        "n_classes": int(summary["n_classes"]),
        "not_auditable": len(summary.get("not_auditable") or []),
        "imbalance": float(counts.max() / counts.min()),
        "rarest": texts(classes, "label")[rarest],
        "rarest_share": float(numbers(classes, "frequency")[rarest]),
        "rarest_groups": float(numbers(classes, "n_groups")[rarest]) if named else float("nan"),
        "design": str(summary["design"]),
        **{name: int(summary[name]) for name in ("n_train", "n_canary", "n_test")},
        "n_scored": n_scored,
        "n_groups_scored": float(scored["group"].nunique()) if named else float("nan"),
        "scored_share": n_scored / n,
    }


def _domain(cell: StudyCell) -> str:
    for name in (cell.result.summary.get("dataset"), cell.dataset):
        key = re.sub(r"[^a-z0-9]", "", str(name).lower())
        if key in DOMAINS:
            return DOMAINS[key]
    return NONE


def table_10(reading: StudyReading) -> StudyTable:
    """How each architecture was trained; a row for each recipe where data sets differ in it."""
    title = "Training by architecture"
    headings = ["Architecture", "Pretraining", "Epochs", "Learning rate"]
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in reading.cells:
        row = _recipe(cell)
        key = tuple(row.values())
        if key in found:
            found[key]["datasets"] += f", {one_line(cell.dataset, 60)}"
        else:
            found[key] = row | {"datasets": one_line(cell.dataset, 60)}
    order = sorted(found.values(), key=lambda row: reading.architectures.index(row["architecture"]))
    ours = pd.DataFrame(order)
    lines = [(row["architecture"], row["pretraining"], row["epochs"], row["lr_printed"]) for row in order]
    paper = pd.DataFrame(list(dict.fromkeys(lines)), columns=pd.Index(headings))
    ours = ours.drop(columns=["pretraining", "lr_printed"], errors="ignore")
    return StudyTable("table_10", title, paper, ours, _RECIPES_NOTE, "" if found else NO_CELL)


def _recipe(cell: StudyCell) -> dict[str, str]:
    """The settings of a training as text."""
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
    """Weights by their name: a file without its folder, which may name people; "none" for random ones."""
    return "none" if weights in (None, "none") else one_line(PurePath(str(weights)).name, 80)


def _pretraining(model: str, weights: Any) -> str:
    if weights in (None, "none"):
        return "Random initialisation"
    spec, name = SPECS.get(model), weights_name(weights)
    if name == "default" and spec is not None and spec.default_weights:
        name = f"default ({spec.default_weights})"
    return f"{name} (frozen trunk + linear head)" if spec is not None and spec.frozen_trunk else name
