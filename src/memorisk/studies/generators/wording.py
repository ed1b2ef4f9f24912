"""Findings of the study, one sentence per generator, and the formats of the numbers of its tables.

``COLUMNS`` holds for the page and for Markdown alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from memorisk.report.blocks import Column, Inline, Name, Strong, estimate, number, words
from memorisk.report.columns import column_texts, count, decimal, mean_count, percent
from memorisk.runs.errors import plural
from memorisk.statistics.copies.set_memorization import can_show_memorization

Finding = Sequence[Inline]


def findings(memorized: pd.DataFrame, copies: pd.DataFrame) -> list[Finding]:
    """Return one line per generator and detector, then one line per trend.

    Args:
        memorized: Table of who is memorized.
        copies: Table of trends over copies.
    """
    lines: list[Finding] = []
    for row in memorized.to_dict("records"):
        name = f"{row['dataset']}, {row['arm']}, {count(row['n_images'])} training images, by {row['detector']}"
        lines.append([Name(name), ": ", Strong(_answer(row)), f" {_share(row)}"])
    for row in copies.to_dict("records"):
        name = f"{row['dataset']}, {row['arm']}, by {row['detector']}"
        sure = row["positive"] != "not shown"
        answer = "more copies, more memorized." if sure else "no trend over copies shown."
        slope = (
            f" Flagged per doubling: {decimal(row['flagged'])} ({_interval_words(row, 'flagged', decimal)}); nearness "
        )
        lines.append([Name(name), ": ", Strong(answer), f"{slope}{decimal(row['nearness'])} "
                      f"({_interval_words(row, 'nearness', decimal)})."])  # fmt: skip
    return lines


def unjudgeable_sets(reading: pd.DataFrame) -> list[Finding]:
    """List data sets whose generators cannot be judged: there are too few held-out patients for the nominal rate.

    Args:
        reading: Table with one row per reading.
    """
    if not len(reading):
        return []
    names = [
        name for name, share in zip(column_texts(reading, "dataset"), reading["share"], strict=True) if share != share
    ]
    return [
        [Name(name), ": too few held-out patients for the nominal rate: hold more out."]
        for name in dict.fromkeys(names)
    ]


def lacks_power(row: Mapping[Any, Any]) -> bool:
    """Return whether patients are too few to show memory, however much there is.

    Args:
        row: Row of the table of who is memorized.
    """
    share = row["share"]
    few = (round(row["n_patients"]), round(row["n_held"]))
    return share == share and not can_show_memorization(*few, nominal=row["nominal"])


def _answer(row: dict) -> str:
    if row["share"] != row["share"]:
        return "cannot be said."
    if row["share_low"] > row["attained"]:
        return "memorized."
    if row["share_high"] < row["attained"]:
        return "farther than chance."
    few = ""
    if lacks_power(row):
        held = plural(round(row["n_held"]), "held-out patient", "held-out patients")
        few = f", and could not have been, with {held}: hold more out"
    if row["listed"]:
        return (
            f"by the share not shown to have memorized{few}; but {mean_count(row['listed'])} of the patients are on "
            "the list of those who are nearer than chance explains."
        )
    return f"not shown to have memorized{few}."


def _share(row: dict) -> str:
    """Describe the share with its limits, and what it would be by chance."""
    if row["share"] != row["share"]:
        return "Too few held-out patients."
    return (
        f"{percent(row['share'])} ({_interval_words(row, 'share', percent)}) of {count(row['n_patients'])} training "
        "patients are "
        f"nearer to the generated images than all but {percent(row['nominal'])} of new patients are, judged by "
        f"{count(row['n_held'])} held-out ones; without memory {percent(row['attained'])}."
    )


def _interval_words(row: dict, name: str, write) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{write(low)} to {write(high)}" if low == low and high == high else "no interval"


_ARM = (words("dataset", "Data set"), words("arm", "Generator", row=True))
_TRAINING = (*_ARM, number("n_images", "Training images", "count"))
_DETECTOR = (*_TRAINING, words("detector", "Detector"))
_SHARE = estimate("share", "Memorized share [95 %]", "percent")
_UNITS = (number("n_patients", "Training patients", "count"), number("n_held", "Held-out patients", "count"))
_SEEDS = number("n_seeds", "Seeds", "count")
_REPEATED = Column(source="repeated", heading="Repeated images", format="yes_no")
_GENERATED = (number("synthetic", "Generated image", "count"), words("synthetic_seed", "Its seed"))

COLUMNS: Mapping[str, Sequence[Column]] = {
    "memorized": (
        *_TRAINING,
        _REPEATED,
        words("detector", "Detector"),
        _SHARE,
        number("attained", "Without memory", "percent"),
        number("flagged", "Patients flagged", "mean_count"),
        number("listed", "Listed", "mean_count"),
        number("shortest_list", "Shortest list", "mean_count"),
        number("ahead", "Ahead of all held-out", "mean_count"),
        *_UNITS,
        number("n_synthetic", "Generated images", "count"),
        _SEEDS,
    ),
    "sizes": (
        *_DETECTOR,
        _SHARE,
        number("attained", "Without memory", "percent"),
        number("step", "Steps", "count"),
        number("epochs", "Epochs", "power"),
        *_UNITS,
        _SEEDS,
    ),
    "steps": (
        *_TRAINING,
        _REPEATED,
        words("detector", "Detector"),
        number("step", "Steps", "count"),
        number("epochs", "Epochs", "power"),
        _SHARE,
        number("loss", "Loss", "power"),
        number("held_out_loss", "Held-out loss", "power"),
        *_UNITS,
        _SEEDS,
    ),
    "copies": (
        *_DETECTOR,
        estimate("flagged", "Flagged, per doubling [95 %]", "decimal"),
        number("flagged_p", "p", "probability"),
        estimate("nearness", "Nearness, per doubling [95 %]", "decimal"),
        number("nearness_p", "p", "probability"),
        words("positive", "Above 0"),
        number("levels", "Levels", "count"),
        number("n_patients", "Patients", "count"),
        _SEEDS,
    ),
    "levels": (
        *_DETECTOR,
        words("seed", "Seed"),
        number("copies", "Copies", "count"),
        estimate("share", "Patients flagged [95 %]", "percent"),
        number("nearness", "Mean nearness", "decimal"),
        number("level_patients", "Patients", "count"),
    ),
    "generators": (
        *_TRAINING,
        _REPEATED,
        words("features", "Features"),
        words("figure", "Figure"),
        words("better", "Better"),
        estimate("estimate", "Generated images [95 %]", "power"),
        number("n_synthetic", "of so many", "count"),
        estimate("same_number", "Generated, as many as held-out [95 %]", "power"),
        estimate("reference", "Held-out images [95 %]", "power"),
        number("n_reference", "of so many", "count"),
        number("n_real", "Compared with", "count"),
        number("n_real_patients", "Training patients", "count"),
        number("n_reference_patients", "Held-out patients", "count"),
        _SEEDS,
    ),
    "table_3": (
        words("dataset", "Data set"),
        words("arm", "Generator", row=True),
        words("conditioning", "Conditioning"),
        estimate("fid", "FID [95 %]", "power"),
        number("fid_reference", "held-out images", "power"),
        estimate("irs", "IRS [95 %]", "decimal"),
        estimate("irs_held", "held-out images [95 %]", "decimal"),
        number("irs_n", "of so many each", "count"),
        words("detector", "Detector"),
        estimate("mem_rate", "MemRate [95 %]", "percent"),
        estimate("held_rate", "held-out images [95 %]", "percent"),
        estimate("excess", "Difference [95 %]", "percent"),
        words("threshold", "Threshold"),
        number("n_pairs", "Pairs", "count"),
        number("n_held_pairs", "Held-out pairs", "count"),
        number("n_patients", "Patients", "count"),
        _SEEDS,
    ),
    "distances": (
        *_DETECTOR,
        words("seed", "Seed"),
        words("pool", "Images"),
        estimate("w1", "W1 [95 %]", "power"),
        number("w1_chance", "by chance", "power"),
        estimate("shift", "Shift [95 %]", "power"),
        number("median", "Median", "power"),
        number("held_median", "held out", "power"),
        number("n_units", "Units", "count"),
        number("n_held", "Held-out patients", "count"),
    ),
    "sources": (
        *_DETECTOR,
        words("seed", "Seed"),
        words("patient", "Patient"),
        words("image", "Image"),
        number("copies", "Copies", "count"),
        number("distance", "Distance", "power"),
        number("p", "p", "probability"),
        *_GENERATED,
    ),
    "closest": (
        *_DETECTOR,
        words("seed", "Seed"),
        number("place", "Place", "count"),
        number("distance", "Distance", "power"),
        number("second", "to the next patient", "power"),
        words("patient", "Patient"),
        words("image", "Training image"),
        *_GENERATED,
    ),
    "trained": (
        *_ARM,
        words("kind", "Kind"),
        words("network", "Network"),
        words("seed", "Seed"),
        number("n_images", "Training images", "count"),
        number("n_patients", "Patients", "count"),
        number("rows", "Rows", "count"),
        number("held_images", "Held-out images", "count"),
        number("n_held", "Held-out patients", "count"),
        number("steps", "Steps", "count"),
        number("batch", "Batch", "count"),
        words("lr", "Learning rate"),
        number("epochs", "Epochs", "power"),
        number("n_synthetic", "Generated images", "count"),
        Column(source="done", heading="Finished", format="yes_no"),
    ),
}
"""Columns of each table, by its name."""
