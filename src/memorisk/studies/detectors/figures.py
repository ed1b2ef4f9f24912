"""Figures 1, 2 and 4 of paper 003, from the frames of the tables, so that a figure cannot differ from its table."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from memorisk.report.blocks import Block, Column, Figure, Name, Table
from memorisk.report.figures.series import series_plot
from memorisk.report.formats import percent
from memorisk.report.frames import numbers, texts
from memorisk.studies.detectors.backbones import LOSS_NAMES
from memorisk.studies.detectors.detectors import Detector
from memorisk.studies.rare_distinctive.parts import StudyTable

PUBLISHED, CORRECTED = "as published, validation", "corrected, test"
_NAMED = ("name", "model", "pretraining", "loss")
NUMBERED = {"triplet": "Figure 2", "infonce": "Figure 4", "none": "Figure 2, untrained"}


def architecture_frame(found: Sequence[Detector], board: pd.DataFrame, strength: str) -> pd.DataFrame:
    """Figure 1's numbers: of each detector the published mean over measures with its standard error, and the corrected.

    Args:
        found: The detectors.
        board: Rows of the leaderboard.
        strength: Of the copies.
    """
    made = []
    by = {d.name: d for d in found}
    for row in board.to_dict("records"):
        values = list(by[row["name"]].published_values(strength).values())
        middle = float(np.mean(values)) if values else np.nan
        error = float(stats.sem(values)) if len(values) > 1 else np.nan
        kept = {k: row[k] for k in (*_NAMED, "measure", "detected", "detected_low", "detected_high")}
        made.append({**kept, "mean": middle, "mean_low": middle - error, "mean_high": middle + error})
    return pd.DataFrame(made)


def architecture_figure(frame: pd.DataFrame) -> list[Block]:
    """Figure 1: network architectures in their configurations."""
    if not len(frame):
        return []
    pairs = zip(texts(frame, "pretraining"), texts(frame, "loss"), strict=True)
    below = [", ".join(part for part in pair if part) for pair in pairs]
    series = {PUBLISHED: _limits(frame, "mean"), CORRECTED: _limits(frame, "detected")}
    svg = series_plot(
        texts(frame, "model"), series, x_title="Share of copies", reference=None, cut=False, sublabels=below
    )
    best = frame.to_dict("records")[0]
    equal = int((frame["detected"] == best["detected"]).sum())
    most = "most test copies are detected by " if equal == 1 else f"nothing separates the first {equal}, among them "
    said = (
        "Published: mean over the measures of the detection ratio of validation copies, with the standard error over "
        "measures, which is what the published code draws. Corrected: test copies that are recognised as what they are "
        "copies of, by the measure chosen on validation, with the exact 95 % interval over patients."
    )
    words = [f"{len(frame)} detectors; {most}", Name(str(best["name"])),
             f": {percent(best['detected'])}."]  # fmt: skip
    columns = [
        Column(source="model", heading="Model", row_heading=True),
        *(Column(source=s, heading=h) for s, h in (("pretraining", "Pre-training"), ("loss", "Loss"))),
        _share("mean", "Published mean [± standard error]"),
        _share("detected", "Corrected [95 %]"),
    ]
    table = Table(frame=frame, columns=columns, caption="The drawn numbers.")
    title = "Figure 1: network architectures in their configurations"
    return [Figure(svg=svg, title=title, caption=said, alternative=words, table=table)]


def measure_figure(table: StudyTable) -> Figure:
    """Figure 2 or 4: the measures under a loss.

    Args:
        table: Of `measure_tables.measure_tables`.
    """
    own, loss = table.ours, table.name.removeprefix("measures_")
    series = {PUBLISHED: _limits(own, "published"), CORRECTED: _limits(own, "detected")}
    svg = series_plot(texts(own, "measure"), series, x_title="Share of copies", reference=None, cut=False)
    first = own.to_dict("records")[0]
    said = (
        "Means over detectors. Published: detection ratio of validation copies; its 95 % interval is of the spread "
        "between networks and is not drawn for one alone. Corrected: test copies, with 95 % limits over patients."
    )
    equal = int((own["detected"] == first["detected"]).sum())
    most = "detects most test copies" if equal == 1 else f"and {equal - 1} more detect as many test copies"
    words = f"{len(own)} measures; {first['measure']} {most}: {percent(first['detected'])}."
    columns = [
        Column(source="measure", heading="Measure", row_heading=True),
        _share("published", "Published [its 95 %]"),
        _share("detected", "Corrected [95 %]"),
    ]
    drawn = Table(frame=own, columns=columns, caption="The drawn numbers.")
    title = f"{NUMBERED[loss]}: measures, {LOSS_NAMES[loss]}"
    return Figure(svg=svg, title=title, caption=said, alternative=words, table=drawn)


def _limits(frame: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return numbers(frame, column), numbers(frame, f"{column}_low"), numbers(frame, f"{column}_high")


def _share(source: str, heading: str) -> Column:
    return Column(source=source, heading=heading, format="percent", interval=(f"{source}_low", f"{source}_high"))
