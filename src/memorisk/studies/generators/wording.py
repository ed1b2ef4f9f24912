"""Findings of the study: one sentence per generator and detector, and one per trend over copies."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from memorisk.report.blocks import Inline, Name, Strong
from memorisk.report.columns import column_texts, count, decimal, mean_count, percent
from memorisk.runs.errors import plural
from memorisk.statistics.copies.memorized_share import can_show_memorization, fewest_held_out

Finding = Sequence[Inline]
NOT_SHOWN = "not shown"
"""Text of a trend over copies that neither measure shows."""


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
        sure = row["positive"] != NOT_SHOWN
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


def hold_more_out(n_patients: float, n_held: float, nominal: float) -> str:
    """Say that held-out patients are too few to show memory, and how many it takes.

    Args:
        n_patients: Number of training patients, a mean over seeds.
        n_held: Number of held-out patients, a mean over seeds.
        nominal: Nominal rate of the share.
    """
    held = plural(round(n_held), "held-out patient", "held-out patients")
    fewest = fewest_held_out(round(n_patients), nominal=nominal)
    return f"with {held}: hold {'more' if fewest is None else f'{fewest:,} or more'} out"


def _answer(row: dict) -> str:
    if row["share"] != row["share"]:
        return "cannot be said."
    if row["share_low"] > row["attained"]:
        return "memorized."
    if row["share_high"] < row["attained"]:
        return "farther than chance."
    few = ""
    if lacks_power(row):
        few = f", and could not have been, {hold_more_out(row['n_patients'], row['n_held'], row['nominal'])}"
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
