"""Figure 1 of paper 004: re-identification against copies, a point a detector that stands in both benchmarks."""

from pathlib import Path

import pandas as pd

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_table

BOARD = Path("tables") / "leaderboard.parquet"


def read_board(run: Path, kind: str) -> pd.DataFrame:
    """The leaderboard of the other benchmark's run.

    Args:
        run: Its folder.
        kind: "reid" or "copies": which it must be.

    Raises:
        InputError: It holds none.
    """
    file = run / BOARD
    needed = "auc" if kind == "reid" else "recall"
    if not file.is_file():
        raise InputError(f"{one_line(run)} holds no finished run of bench {kind}: there is no {BOARD} in it")
    found = read_table(file)
    if needed not in found or "detector" not in found:
        raise InputError(f"{one_line(run)} is a run of another benchmark; name one of bench {kind}")
    return found


def figure_1_frame(reid: pd.DataFrame, copies: pd.DataFrame) -> pd.DataFrame:
    """The numbers of figure 1: detectors of one name in both leaderboards.

    Args:
        reid: Leaderboard of `bench reid`.
        copies: Leaderboard of `bench copies`.
    """
    if not len(reid) or not len(copies):
        return pd.DataFrame()
    left = reid[["detector", "section", "dimension", "auc", "auc_low", "auc_high"]]
    return left.merge(copies[["detector", "recall", "recall_low", "recall_high"]], on="detector", how="inner")
