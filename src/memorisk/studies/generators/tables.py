"""The study's tables: A.5 of paper 003, memorization by size, steps and copies, figure 3, table 3 of paper 004."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.report.columns import column_numbers, column_texts, rows
from memorisk.studies.engine.number_texts import plain_number
from memorisk.studies.engine.tables import StudyTable, TableLayout
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
from memorisk.studies.generators.wording import COLUMNS, lacks_power

LAYOUT = TableLayout(columns=COLUMNS, extra={"levels": "By number of copies"})
_SHARE = {"share": (0.0, 1.0)}
_TRAINING_COLUMNS = ("dataset", "arm", "kind", "conditioning", "n_images")
_EMPTY = pd.DataFrame()
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
        memorization_table, size_table, step_table, copies_table, generator_table, table_3, distance_table,
        lambda r: _source_table(r, names), lambda r: _closest_table(r, names), setup_table,
    )  # fmt: skip
    return [build(reading) for build in builders]


def memorization_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate to how many training patients the finished generators' images are nearer than to new ones."""
    table = _last_evaluations(reading)
    counts = ("listed", "flagged", "ahead", "shortest_list", "n_synthetic")
    averaged = ("n_patients", "n_held", "nominal", "attained", *counts)
    ours = mean_over_seeds(table, (*_TRAINING_COLUMNS, "repeated", "detector"), _SHARE, averaged)
    note = (
        "Share: of training patients nearer to the generated images than all but the nominal rate of held-out patients "
        "are; a generator that memorized no patient has the nominal rate. Exact limits over patients of both parts; of "
        "several seeds the wider of these and Student's. Listed: by Benjamini-Hochberg; “shortest list” says how "
        "many a list needs at least. Ahead: training patients nearer than every held-out one. Numbers of patients are "
        "means over seeds."
    )
    if any(lacks_power(row) for row in ours.to_dict("records")):
        note += (
            " Where held-out patients are so few that the lower limit is not above the rate without memory even if "
            "every training patient is memorized, a share cannot be shown to be one of memory: hold more out."
        )
    note = " ".join([note, *sorted({read.counted for read in reading.reads if read.counted})])
    why = "" if len(ours) else "no generator is finished"
    return StudyTable("memorized", "Who is memorized", _EMPTY, ours, note, why)


def size_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate memorization against training-set size."""
    table = _last_evaluations(reading)
    table = rows(table, [not repeated for repeated in table["repeated"]]) if len(table) else table
    ours = mean_over_seeds(
        table, (*_TRAINING_COLUMNS, "detector"), _SHARE, ("n_patients", "n_held", "epochs", "step", "attained")
    )
    several = _has_several(ours, ("dataset", "arm", "detector"), "n_images")
    ours = rows(ours, several) if len(ours) else ours
    note = (
        "The same kind of generator, trained for as many steps on fewer or more images, hence for more or fewer "
        "epochs. As many images are drawn of each."
    )
    return StudyTable("sizes", "Memorization against training-set size", _EMPTY, ours, note,
                      "" if len(ours) else "no generator was trained on sets of several sizes")  # fmt: skip


def step_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate memorization against steps and epochs."""
    averaged = ("epochs", "loss", "held_out_loss", "n_patients", "n_held", "attained")
    ours = mean_over_seeds(reading.table, (*_TRAINING_COLUMNS, "repeated", "detector", "step"), _SHARE, averaged)
    several = _has_several(ours, (*_TRAINING_COLUMNS, "repeated", "detector"), "step")
    ours = rows(ours, several) if len(ours) else ours
    note = (
        "The same trainings read on the way. An epoch is once through the training rows, copies counted. The loss is "
        "that of the training; the held-out loss of a diffusion model is taken with the same noise each time."
    )
    return StudyTable("steps", "Memorization against steps and epochs", _EMPTY, ours, note,
                      "" if len(ours) else "no generator was read at several steps")  # fmt: skip


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
    note = (
        "Slope per doubling of the copies, by least squares on log2 copies within one generator, its patients as "
        "units, limits from those of each level of copies; of several seeds the mean, as elsewhere. Flagged: of "
        "whether a patient is nearer than the nominal rate allows. Nearness: of minus the natural logarithm of the "
        "patient's distance. Who has how many copies was drawn by lot, so that p, of random deals of the copies, is "
        "exact; of several seeds it is the largest. Shares by level are exact, over patients, at the bar of that "
        "generator."
    )
    why = "" if len(ours) else "no generator was trained on repeated images"
    extra = {"seeds": each, "levels": level_rows(reading)} if len(ours) else {}
    return StudyTable("copies", "Memorization against copies", _EMPTY, ours, note, why, extra=extra)


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
    note = (
        "Figures hold for these features and numbers of images only. Intervals are over patients and generated images. "
        "Held-out images are what a perfect generator would draw: compare with them at their number. The paper's own "
        "figure of A.5 is missing from its text (“Figure ??”), so that no layout is repeated. Its claim that both "
        "kinds memorize rests on generated images that lie nearer to training images than these to validation "
        "images, which is the section on distances; the shares of memorized patients are the first table."
    )
    why = "" if len(ours) else "no figure of quality was measured"
    return StudyTable("generators", "DiT against GAN (A.5)", pd.DataFrame(list(wide.values())), ours, note, why)


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
    paper = pd.DataFrame(
        [
            {"Conditioning": CONDITIONINGS.get(row["conditioning"], row["conditioning"]), "Data set": row["dataset"],
             "FID ↓": plain_number(row.get("fid"), 2), "IRS ↑": plain_number(row["irs_all"], 3),
             "Mem-Rate (%) ↓": plain_number(100 * row["mem_rate"], 2)}
            for row in ours.to_dict("records")
        ]
    )  # fmt: skip
    note = (
        "MemRate: of training images whose own generated image the detector takes for the same person, patients equal; "
        "then held-out real images, each with a training image of its class, and the difference. A MemRate "
        "no larger than theirs is the detector's false alarms. The IRS of the first table is over all generated "
        "images; below it is compared with held-out real images at the same number of either. FID is lower where "
        "more images are compared."
    )
    if any(how.startswith(NO_THRESHOLD) for how in column_texts(ours, "threshold")):
        note += (
            " MemRate is empty where nothing says from which score on two images are of one person: the detector gives "
            "no probability, and there are too few held-out patients, or no copies of their images, for a threshold."
        )
    why = "" if len(ours) else "no generator is conditioned on vectors of its training images"
    return StudyTable("table_3", "Pseudo-conditions (paper 004)", paper, ours, note, why)


def _with_fid(table: pd.DataFrame, quality: pd.DataFrame) -> pd.DataFrame:
    """Return the same rows with their FID, where it was measured."""
    if not len(quality):
        return table
    on = [*_TRAINING_COLUMNS, "repeated"]
    fid = rows(quality, [name == "FID" for name in column_texts(quality, "figure")])
    columns = {"estimate": "fid", "estimate_low": "fid_low", "estimate_high": "fid_high", "reference": "fid_reference"}
    return table.merge(fid.rename(columns=columns)[[*on, *columns.values()]], on=on, how="left")


def distance_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate the numbers of figure 3."""
    each = distance_rows(reading)
    note = (
        "Distances to the nearest training image, against those of held-out images. W1: Wasserstein-1 distance; "
        "chance: what two samples of one law of these sizes show. Shift: mean less that of held-out images, patients "
        "equal; below 0 is nearer. A generator that is narrower than its data lies nearer to the training images "
        "without having copied any: this describes, the table of who is memorized tests. Limits are over patients and "
        "generated images. Copies of a training image are near to it where a detector recognises it."
    )
    return StudyTable("distances", "Nearest-neighbour distances (figure 3)", _EMPTY, each, note,
                      "" if len(each) else "no generator is finished")  # fmt: skip


def _source_table(reading: StudyEvaluations, names: Pseudonyms) -> StudyTable:
    each = source_rows(reading, names)
    note = (
        "Training patients on the list, each with the image of theirs and the generated image that are "
        "nearest. A generated image is made again by its seed where generators are kept."
    )
    why = "" if len(each) else "no patient is listed"
    return StudyTable("sources", "Sources: who is on the list", _EMPTY, each, note, why)


def _closest_table(reading: StudyEvaluations, names: Pseudonyms) -> StudyTable:
    each = closest_rows(reading, names)
    note = "Every set of images has closest pairs: look at them, but judge by the tables above."
    return StudyTable("closest", "Closest pairs", _EMPTY, each, note, "" if len(each) else "no generator is finished")


def setup_table(reading: StudyEvaluations) -> StudyTable:
    """Tabulate each generator."""
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
    note = "Rows: what a training goes through in an epoch, an image of 16 copies counted 16 times."
    return StudyTable("trained", "What was run", _EMPTY, pd.DataFrame(records), note)


def _last_evaluations(reading: StudyEvaluations) -> pd.DataFrame:
    return rows(reading.table, reading.table["last"].tolist()) if len(reading.table) else reading.table


def _has_several(table: pd.DataFrame, by: Sequence[str], column: str) -> list[bool]:
    """Return whether a row's group has several values of a column, [n]."""
    if not len(table):
        return []
    counts = table.groupby(list(by), sort=False, dropna=False)[column].transform("nunique")
    return [int(n) > 1 for n in counts]


def _trend_words(table: pd.DataFrame) -> list[str]:
    """Return whether each trend is positive: an interval above 0."""
    sure = [np.asarray(column_numbers(table, f"{name}_low")) > 0 for name in OUTCOMES]
    return [
        "both" if a and b else "flagged" if a else "nearness" if b else "not shown" for a, b in zip(*sure, strict=True)
    ]
