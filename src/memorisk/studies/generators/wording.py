"""What the study found, in a sentence a generator, and how the numbers of its tables are shown.

``COLUMNS`` holds for the page and for Markdown alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from memorisk.report.blocks import Column, Inline, Name, Strong
from memorisk.report.columns import column_texts, count, decimal, mean_count, percent
from memorisk.runs.errors import plural
from memorisk.statistics.copies.set_memorization import can_show_memorization

Finding = Sequence[Inline]


def findings(memorized: pd.DataFrame, copies: pd.DataFrame) -> list[Finding]:
    """A line a generator and detector, then a line a trend.

    Args:
        memorized: The table of who is memorized.
        copies: The table of trends over copies.
    """
    lines: list[Finding] = []
    for row in memorized.to_dict("records"):
        name = f"{row['dataset']}, {row['arm']}, {count(row['n_images'])} training images, by {row['detector']}"
        lines.append([Name(name), ": ", Strong(_answer(row)), f" {_share(row)}"])
    for row in copies.to_dict("records"):
        name = f"{row['dataset']}, {row['arm']}, by {row['detector']}"
        sure = row["positive"] != "not shown"
        said = "more copies, more memorized." if sure else "no trend over copies shown."
        slope = (
            f" Flagged per doubling: {decimal(row['flagged'])} ({_interval_words(row, 'flagged', decimal)}); nearness "
        )
        lines.append([Name(name), ": ", Strong(said), f"{slope}{decimal(row['nearness'])} "
                      f"({_interval_words(row, 'nearness', decimal)})."])  # fmt: skip
    return lines


def unjudgeable_sets(reading: pd.DataFrame) -> list[Finding]:
    """Data sets whose generators cannot be judged: too few held-out patients for the nominal rate.

    Args:
        reading: A row a reading.
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
    """Whether patients are too few to show memory, however much there is.

    Args:
        row: Of the table of who is memorized.
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
    """The share with its limits, and what it would be by chance."""
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


def _text(source: str, heading: str, *, row: bool = False) -> Column:
    return Column(source=source, heading=heading, row_heading=row)


def _number(source: str, heading: str, kind: str = "count") -> Column:
    return Column(source=source, heading=heading, format=kind)


def _limits(source: str, heading: str, kind: str = "percent") -> Column:
    return Column(source=source, heading=heading, format=kind, interval=(f"{source}_low", f"{source}_high"))


_ARM = (_text("dataset", "Data set"), _text("arm", "Generator", row=True))
_TRAINING = (*_ARM, _number("n_images", "Training images"))
_DETECTOR = (*_TRAINING, _text("detector", "Detector"))
_SHARE = _limits("share", "Memorized share [95 %]")
_UNITS = (_number("n_patients", "Training patients"), _number("n_held", "Held-out patients"))
_SEEDS = _number("n_seeds", "Seeds")
_REPEATED = Column(source="repeated", heading="Repeated images", format="yes_no")
_GENERATED = (_number("synthetic", "Generated image"), _text("synthetic_seed", "Its seed"))

COLUMNS: Mapping[str, Sequence[Column]] = {
    "memorized": (
        *_TRAINING,
        _REPEATED,
        _text("detector", "Detector"),
        _SHARE,
        _number("attained", "Without memory", "percent"),
        _number("flagged", "Patients flagged", "mean_count"),
        _number("listed", "Listed", "mean_count"),
        _number("shortest_list", "Shortest list", "mean_count"),
        _number("ahead", "Ahead of all held-out", "mean_count"),
        *_UNITS,
        _number("n_synthetic", "Generated images"),
        _SEEDS,
    ),
    "sizes": (
        *_DETECTOR,
        _SHARE,
        _number("attained", "Without memory", "percent"),
        _number("step", "Steps"),
        _number("epochs", "Epochs", "power"),
        *_UNITS,
        _SEEDS,
    ),
    "steps": (
        *_TRAINING,
        _REPEATED,
        _text("detector", "Detector"),
        _number("step", "Steps"),
        _number("epochs", "Epochs", "power"),
        _SHARE,
        _number("loss", "Loss", "power"),
        _number("held_out_loss", "Held-out loss", "power"),
        *_UNITS,
        _SEEDS,
    ),
    "copies": (
        *_DETECTOR,
        _limits("flagged", "Flagged, per doubling [95 %]", "decimal"),
        _number("flagged_p", "p", "probability"),
        _limits("nearness", "Nearness, per doubling [95 %]", "decimal"),
        _number("nearness_p", "p", "probability"),
        _text("positive", "Above 0"),
        _number("levels", "Levels"),
        _number("n_patients", "Patients"),
        _SEEDS,
    ),
    "levels": (
        *_DETECTOR,
        _text("seed", "Seed"),
        _number("copies", "Copies"),
        _limits("share", "Patients flagged [95 %]"),
        _number("nearness", "Mean nearness", "decimal"),
        _number("level_patients", "Patients"),
    ),
    "generators": (
        *_TRAINING,
        _REPEATED,
        _text("features", "Features"),
        _text("figure", "Figure"),
        _text("better", "Better"),
        _limits("estimate", "Generated images [95 %]", "power"),
        _number("n_synthetic", "of so many"),
        _limits("same_number", "Generated, as many as held-out [95 %]", "power"),
        _limits("reference", "Held-out images [95 %]", "power"),
        _number("n_reference", "of so many"),
        _number("n_real", "Compared with"),
        _number("n_real_patients", "Training patients"),
        _number("n_reference_patients", "Held-out patients"),
        _SEEDS,
    ),
    "table_3": (
        _text("dataset", "Data set"),
        _text("arm", "Generator", row=True),
        _text("conditioning", "Conditioning"),
        _limits("fid", "FID [95 %]", "power"),
        _number("fid_reference", "held-out images", "power"),
        _limits("irs", "IRS [95 %]", "decimal"),
        _limits("irs_held", "held-out images [95 %]", "decimal"),
        _number("irs_n", "of so many each"),
        _text("detector", "Detector"),
        _limits("mem_rate", "MemRate [95 %]"),
        _limits("held_rate", "held-out images [95 %]"),
        _limits("excess", "Difference [95 %]"),
        _text("threshold", "Threshold"),
        _number("n_pairs", "Pairs"),
        _number("n_held_pairs", "Held-out pairs"),
        _number("n_patients", "Patients"),
        _SEEDS,
    ),
    "distances": (
        *_DETECTOR,
        _text("seed", "Seed"),
        _text("pool", "Images"),
        _limits("w1", "W1 [95 %]", "power"),
        _number("w1_chance", "by chance", "power"),
        _limits("shift", "Shift [95 %]", "power"),
        _number("median", "Median", "power"),
        _number("held_median", "held out", "power"),
        _number("n_units", "Units"),
        _number("n_held", "Held-out patients"),
    ),
    "sources": (
        *_DETECTOR,
        _text("seed", "Seed"),
        _text("patient", "Patient"),
        _text("image", "Image"),
        _number("copies", "Copies"),
        _number("distance", "Distance", "power"),
        _number("p", "p", "probability"),
        *_GENERATED,
    ),
    "closest": (
        *_DETECTOR,
        _text("seed", "Seed"),
        _number("place", "Place"),
        _number("distance", "Distance", "power"),
        _number("second", "to the next patient", "power"),
        _text("patient", "Patient"),
        _text("image", "Training image"),
        *_GENERATED,
    ),
    "trained": (
        *_ARM,
        _text("kind", "Kind"),
        _text("network", "Network"),
        _text("seed", "Seed"),
        _number("n_images", "Training images"),
        _number("n_patients", "Patients"),
        _number("rows", "Rows"),
        _number("held_images", "Held-out images"),
        _number("n_held", "Held-out patients"),
        _number("steps", "Steps"),
        _number("batch", "Batch"),
        _text("lr", "Learning rate"),
        _number("epochs", "Epochs", "power"),
        _number("n_synthetic", "Generated images"),
        Column(source="done", heading="Finished", format="yes_no"),
    ),
}
"""Of each table by its name."""
