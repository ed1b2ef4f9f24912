"""What the study found, in a sentence a generator."""

from collections.abc import Sequence

import pandas as pd

from memorisk.report.blocks import Inline, Name, Strong
from memorisk.report.formats import count, decimal, percent
from memorisk.report.frames import texts

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


def _answer(row: dict) -> str:
    if row["share"] != row["share"]:
        return "cannot be said."
    if row["share_low"] > row["attained"]:
        return "memorized."
    return "not shown to have memorized." if row["share_high"] >= row["attained"] else "farther than chance."


def _share(row: dict) -> str:
    """The share with its limits, and what it would be by chance."""
    if row["share"] != row["share"]:
        return "Too few held-out patients."
    return (
        f"{percent(row['share'])} ({_ends(row, 'share', percent)}) of {count(row['n_patients'])} training patients are "
        f"nearer to the generated images than new ones are; without memory {percent(row['attained'])}."
    )


def _ends(row: dict, name: str, write) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{write(low)} to {write(high)}" if low == low and high == high else "no interval"
