"""What the study found, in a sentence a generator."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from memorisk.report.blocks import Inline, Name, Strong
from memorisk.report.formats import count, decimal, mean_count, percent
from memorisk.report.frames import texts
from memorisk.runs.errors import several
from memorisk.statistics.memorization.memorized_share import can_be_shown

Line = Sequence[Inline]


def findings(memorized: pd.DataFrame, copies: pd.DataFrame) -> list[Line]:
    """A line a generator and detector, then a line a trend.

    Args:
        memorized: The table of who is memorized.
        copies: The table of trends over copies.
    """
    lines: list[Line] = []
    for row in memorized.to_dict("records"):
        name = f"{row['dataset']}, {row['arm']}, {count(row['n_images'])} training images, by {row['detector']}"
        lines.append([Name(name), ": ", Strong(_answer(row)), f" {_share(row)}"])
    for row in copies.to_dict("records"):
        name = f"{row['dataset']}, {row['arm']}, by {row['detector']}"
        sure = row["positive"] != "not shown"
        said = "more copies, more memorized." if sure else "no trend over copies shown."
        slope = f" Flagged per doubling: {decimal(row['flagged'])} ({_ends(row, 'flagged', decimal)}); nearness "
        lines.append([Name(name), ": ", Strong(said), f"{slope}{decimal(row['nearness'])} "
                      f"({_ends(row, 'nearness', decimal)})."])  # fmt: skip
    return lines


def learned_nothing(reading: pd.DataFrame) -> list[Line]:
    """Data sets whose generators cannot be judged: too few held-out patients for the nominal rate.

    Args:
        reading: A row a reading.
    """
    if not len(reading):
        return []
    names = [name for name, share in zip(texts(reading, "dataset"), reading["share"], strict=True) if share != share]
    return [
        [Name(name), ": too few held-out patients for the nominal rate: hold more out."]
        for name in dict.fromkeys(names)
    ]


def never_shown(row: Mapping[Any, Any]) -> bool:
    """Whether patients are too few to show memory, however much there is.

    Args:
        row: Of the table of who is memorized.
    """
    share = row["share"]
    few = (round(row["n_patients"]), round(row["n_held"]))
    return share == share and not can_be_shown(*few, nominal=row["nominal"])


def _answer(row: dict) -> str:
    if row["share"] != row["share"]:
        return "cannot be said."
    if row["share_low"] > row["attained"]:
        return "memorized."
    if row["share_high"] < row["attained"]:
        return "farther than chance."
    few = ""
    if never_shown(row):
        held = several(round(row["n_held"]), "held-out patient", "held-out patients")
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
        f"{percent(row['share'])} ({_ends(row, 'share', percent)}) of {count(row['n_patients'])} training patients are "
        f"nearer to the generated images than all but {percent(row['nominal'])} of new patients are, judged by "
        f"{count(row['n_held'])} held-out ones; without memory {percent(row['attained'])}."
    )


def _ends(row: dict, name: str, write) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{write(low)} to {write(high)}" if low == low and high == high else "no interval"
