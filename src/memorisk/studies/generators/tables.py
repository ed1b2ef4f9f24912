"""The study's tables: A.5 of paper 003, memorization by size, steps and copies, figure 3, table 3 of paper 004."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.report.columns import column_numbers, column_texts, rows
from memorisk.studies.engine.layout import read_layout
from memorisk.studies.engine.number_texts import plain_number
from memorisk.studies.engine.rows import rows_of
from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.generators.memorization import (
    NO_THRESHOLD,
    OUTCOMES,
    closest_rows,
    distance_rows,
    level_rows,
    memrate_rows,
    source_rows,
    trend_rows,
)
from memorisk.studies.generators.results import FIGURE_RANGES, StudyEvaluations, mean_over_seeds, quality_rows
from memorisk.studies.generators.wording import NOT_SHOWN, lacks_power

LAYOUT = read_layout(__package__, "study")
"""Schemas of the tables and the page."""
_SHARE = {"share": (0.0, 1.0)}
_TRAINING_COLUMNS = ("dataset", "arm", "kind", "conditioning", "n_images")
CONDITIONINGS = {
    "label-noise": "Label + Noise", "prediction": "Prediction (Pred)", "prediction-label": "Pred + Label",
    "ensemble": "Ensemble", "ensemble-label": "Ensemble + Label",
}  # fmt: skip
"""Names of the conditionings in table 3 of paper 004, in its order."""


def generator_tables(reading: StudyEvaluations, names: Pseudonyms) -> list[StudyTable]:
    """Return all tables, in the order of the page.

    Args:
        reading: Readings of all generators.
        names: Pseudonyms in place of ids of images and patients.
    """
    builders: Sequence[Callable[[StudyEvaluations], StudyTable]] = (
        memorization_table, size_table, step_table, copies_table, generator_table, table_3,
    )  # fmt: skip
    rows = {
        "distances": distance_rows(reading),
        "sources": source_rows(reading, names),
        "closest": closest_rows(reading, names),
        "trained": setup_rows(reading),
    }
    return [build(reading) for build in builders] + [fill_table(LAYOUT, name, rows[name]) for name in rows]


def memorization_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate to how many training patients the finished generators' images are nearer than to new ones."""
    table = _last_evaluations(reading)
    counts = ("listed", "flagged", "ahead", "shortest_list", "n_synthetic")
    averaged = ("n_patients", "n_held", "nominal", "attained", *counts)
    ours = mean_over_seeds(table, (*_TRAINING_COLUMNS, "repeated", "detector"), _SHARE, averaged)
    note = [LAYOUT.sentences["no_power"]] if any(lacks_power(row) for row in ours.to_dict("records")) else []
    note += sorted({read.counted for read in reading.reads if read.counted})
    return fill_table(LAYOUT, "memorized", ours, note=note)


def size_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate memorization against training-set size."""
    table = _last_evaluations(reading)
    table = rows(table, [not repeated for repeated in table["repeated"]]) if len(table) else table
    ours = mean_over_seeds(
        table, (*_TRAINING_COLUMNS, "detector"), _SHARE, ("n_patients", "n_held", "epochs", "step", "attained")
    )
    return fill_table(LAYOUT, "sizes", _with_several(ours, ("dataset", "arm", "detector"), "n_images"))


def step_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate memorization against steps and epochs."""
    averaged = ("epochs", "loss", "held_out_loss", "n_patients", "n_held", "attained")
    ours = mean_over_seeds(reading.table, (*_TRAINING_COLUMNS, "repeated", "detector", "step"), _SHARE, averaged)
    return fill_table(LAYOUT, "steps", _with_several(ours, (*_TRAINING_COLUMNS, "repeated", "detector"), "step"))


def copies_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate the trend over copies, one row per generator, and the mean over seeds where there are several."""
    each = trend_rows(reading)
    ends = {"flagged": (-1.0, 1.0), "nearness": (-np.inf, np.inf)}
    ours = mean_over_seeds(each, (*_TRAINING_COLUMNS, "detector"), ends, ("n_patients", "levels"))
    if len(ours):
        keys = [*_TRAINING_COLUMNS, "detector"]
        names = [f"{name}_p" for name in OUTCOMES]
        largest = each[[*keys, *names]].groupby(keys, sort=False, dropna=False, as_index=False).max()
        ours = ours.merge(pd.DataFrame(largest), on=keys, how="left")
        ours = ours.assign(positive=_trend_words(ours))
    extra = {"seeds": each, "levels": level_rows(reading)} if len(ours) else {}
    return fill_table(LAYOUT, "copies", ours, extra=extra)


def generator_table(reading: StudyEvaluations) -> StudyTable:
    """Compare kinds of generators, as section A.5 of paper 003 does."""
    by = (*_TRAINING_COLUMNS, "repeated")
    ours = quality_rows(reading, by)
    figures = [name for name in FIGURE_RANGES if name != "IRS"]
    wide: dict[tuple[str, ...], dict[str, str]] = {}
    for row in ours.to_dict("records"):
        line = wide.setdefault(
            tuple(str(row[name]) for name in by),
            {"Generator": row["kind"], "Arm": row["arm"], "Data set": row["dataset"], "Images": str(row["n_images"])},
        )
        if row["figure"] in figures:
            line[str(row["figure"])] = plain_number(row["estimate"], 3)
    return fill_table(LAYOUT, "generators", ours, paper=list(wide.values()))


def table_3(reading: StudyEvaluations) -> StudyTable:
    """Tabulate FID, IRS and MemRate by conditioning, as table 3 of paper 004 does."""
    each = memrate_rows(reading)
    values = dict.fromkeys(("irs", "irs_all", "irs_held", "mem_rate", "held_rate"), (0.0, 1.0))
    by, counted = (
        (*_TRAINING_COLUMNS, "repeated", "detector", "threshold"),
        ("irs_n", "n_patients", "n_pairs", "n_held_pairs"),
    )
    ours = mean_over_seeds(each, by, values | {"excess": (-1.0, 1.0)}, counted)
    if len(ours):
        ours = _with_fid(ours, quality_rows(reading, (*_TRAINING_COLUMNS, "repeated")))
        place = {name: i for i, name in enumerate(CONDITIONINGS)}
        ours = ours.sort_values(by="conditioning", key=lambda c: c.map(place), kind="stable").reset_index(drop=True)
    paper = [
        (
            CONDITIONINGS.get(row["conditioning"], row["conditioning"]),
            row["dataset"],
            plain_number(row.get("fid"), 2),
            plain_number(row["irs_all"], 3),
            plain_number(100 * row["mem_rate"], 2),
        )
        for row in ours.to_dict("records")
    ]
    without = any(how.startswith(NO_THRESHOLD) for how in column_texts(ours, "threshold"))
    return fill_table(LAYOUT, "table_3", ours, paper=paper, note=[LAYOUT.sentences["no_threshold"]] if without else [])


def _with_fid(table: pd.DataFrame, quality: pd.DataFrame) -> pd.DataFrame:
    """Return the same rows with their FID, where it was measured."""
    if not len(quality):
        return table
    on = [*_TRAINING_COLUMNS, "repeated"]
    fid = rows_of(quality, figure="FID")
    columns = {"estimate": "fid", "estimate_low": "fid_low", "estimate_high": "fid_high", "reference": "fid_reference"}
    return table.merge(fid.rename(columns=columns)[[*on, *columns.values()]], on=on, how="left")


def setup_rows(reading: StudyEvaluations) -> list[dict[str, object]]:
    """Describe each generator in a row."""
    records = []
    for cell in reading.cells:
        training, settings = cell.training, cell.arm.training(cell.seed, cell.options)
        end = cell.arm.snapshots[-1]
        records.append(
            {
                "dataset": cell.data.name, "arm": cell.arm.name, "kind": cell.arm.kind,
                "network": settings.network if settings.kind == "dit" else "StyleGAN2", "seed": cell.seed,
                "n_images": len(training.rows), "n_patients": len(np.unique(training.groups)),
                "rows": int(training.copies.sum()), "n_held": cell.data.n_held, "held_images": len(cell.data.held_out),
                "steps": end, "batch": settings.images_a_step, "lr": settings.learning_rate,
                "epochs": cell.epochs(end), "n_synthetic": cell.n_images, "done": cell.done,
            }
        )  # fmt: skip
    return records


def _last_evaluations(reading: StudyEvaluations) -> pd.DataFrame:
    return rows(reading.table, reading.table["last"].tolist()) if len(reading.table) else reading.table


def _with_several(table: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
    """Return the rows whose group has several values of a column."""
    if not len(table):
        return table
    counts = table.groupby(list(by), sort=False, dropna=False)[column].transform("nunique")
    return rows(table, [int(n) > 1 for n in counts])


def _trend_words(table: pd.DataFrame) -> list[str]:
    """Return whether each trend is positive: an interval above 0."""
    sure = [np.asarray(column_numbers(table, f"{name}_low")) > 0 for name in OUTCOMES]
    return [
        "both" if a and b else "flagged" if a else "nearness" if b else NOT_SHOWN for a, b in zip(*sure, strict=True)
    ]
