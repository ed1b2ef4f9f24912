"""What the study found, in a sentence a network: in the answers alone, and with the label known."""

from collections.abc import Sequence

import pandas as pd

from memorisk.audits.unique.config import LEVEL
from memorisk.report.blocks import Inline, Name, Strong
from memorisk.report.formats import count, decimal, percent, probability
from memorisk.report.frames import rows, texts
from memorisk.statistics.proportions import clopper_pearson

Line = Sequence[Inline]


def findings(white: pd.DataFrame, black: pd.DataFrame) -> list[Line]:
    """A line a network and data set.

    Args:
        white: Table 1, corrected: M_w of canaries at random.
        black: Table 2, corrected: M of canaries by self-influence.
    """
    found: list[Line] = []
    for dataset, network in dict.fromkeys([*_arms(black), *_arms(white)]):
        seen, asked = _row(white, dataset, network), _row(black, dataset, network)
        parts = [*_black(asked), *_white(seen)]
        if not parts:
            continue
        remembered = _below(asked.get("p"), LEVEL) or (_known(seen.get("excess_low")) and seen["excess_low"] > 0)
        answer = "remembered. " if remembered else "not shown to be remembered. "
        found.append([Name(f"{dataset}, {network}"), ": ", Strong(answer), " ".join(parts)])
    return found


def learned_nothing(table: pd.DataFrame) -> list[Line]:
    """Networks whose models are not surely better on validation images than always naming the commonest class.

    Args:
        table: "What was run".
    """
    lines: list[Line] = []
    for row in table.to_dict("records"):
        n = int(row["n_validation"])
        if clopper_pearson(round(row["accuracy"] * n), n).low > row["majority"]:
            continue
        said = f"{percent(row['accuracy'])} of {count(n)} validation images, the commonest class has"
        name = f"{row['dataset']}, {row['network']}, {row['regulariser']}"
        lines.append(
            [Name(name), f": {said} {percent(row['majority'])}. What such models remember says little of trained ones."]
        )
    return lines


def _black(row: dict) -> list[str]:
    """Of the answers alone."""
    if not _known(row.get("m")):
        return []
    said = (
        f"In the answers alone: M {decimal(row['m'])} ({decimal(row['m_low'])} to {decimal(row['m_high'])}), p "
        f"{probability(row['p'])} for all {count(row['n_canaries'])} canaries together"
    )
    if _known(row.get("found")):
        said += f"; {count(row['found'])} found alone, {count(row['below_all'])} below all references"
    return [said + "."]


def _white(row: dict) -> list[str]:
    """With the label and the training images known."""
    if not _known(row.get("excess")):
        return []
    said = (
        f"With the label known: M_w above the references' by {decimal(row['excess'])} ({decimal(row['excess_low'])} to "
        f"{decimal(row['excess_high'])})"
    )
    if _known(row.get("found")):
        said += f"; {count(row['found'])} of {count(row['n_found'])} canaries found alone"
    return [said + "."]


def _arms(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(texts(table, "dataset"), texts(table, "network"), strict=True))


def _row(table: pd.DataFrame, dataset: str, network: str) -> dict:
    own = rows(table, [arm == (dataset, network) for arm in _arms(table)])
    return own.to_dict("records")[0] if len(own) else {}


def _known(value: object) -> bool:
    return isinstance(value, int | float) and value == value


def _below(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and value <= limit
