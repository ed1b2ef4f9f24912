"""What the study found, in a sentence a network: in the answers alone, and with the label known."""

from collections.abc import Sequence

import pandas as pd

from memorisk.report.blocks import Inline, Name, Strong
from memorisk.report.formats import count, decimal, percent, probability
from memorisk.report.frames import rows, texts
from memorisk.statistics.proportions import clopper_pearson
from memorisk.studies.unique_features.config import LEVEL

Line = Sequence[Inline]

_BLACK = (
    "m",
    "In the answers alone: M {m} ({m_low} to {m_high}), p {p} for all {n_canaries} canaries together",
    "; {found} found alone, {below_all} below all references",
)
_WHITE = (
    "excess",
    "With the label known: M_w above the references' by {excess} ({excess_low} to {excess_high})",
    "; {found} of {n_found} canaries found alone",
)
_WRITTEN = {"p": probability} | dict.fromkeys(("n_canaries", "found", "below_all", "n_found"), count)
"""Every other number is a decimal one."""


def findings(white: pd.DataFrame, black: pd.DataFrame) -> list[Line]:
    """A line a network and data set.

    Args:
        white: Table 1, corrected: M_w of canaries at random.
        black: Table 2, corrected: M of canaries by self-influence.
    """
    found: list[Line] = []
    for dataset, network in dict.fromkeys([*_arms(black), *_arms(white)]):
        seen, asked = _row(white, dataset, network), _row(black, dataset, network)
        parts = [*_said(asked, *_BLACK), *_said(seen, *_WHITE)]
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


def _said(row: dict, column: str, sentence: str, alone: str) -> list[str]:
    """A measure and who was found alone by it; nothing where it was not taken."""
    if not _known(row.get(column)):
        return []
    written = {k: _WRITTEN.get(k, decimal)(v) for k, v in row.items() if isinstance(v, int | float)}
    return [(sentence + (alone if _known(row.get("found")) else "")).format_map(written) + "."]


def _arms(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(texts(table, "dataset"), texts(table, "network"), strict=True))


def _row(table: pd.DataFrame, dataset: str, network: str) -> dict:
    own = rows(table, [arm == (dataset, network) for arm in _arms(table)])
    return own.to_dict("records")[0] if len(own) else {}


def _known(value: object) -> bool:
    return isinstance(value, int | float) and value == value


def _below(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and value <= limit
