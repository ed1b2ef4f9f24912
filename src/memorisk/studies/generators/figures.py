"""Figure 3 of paper 003, and memorization against size, steps and copies, from the frames of the tables."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.report.blocks import Block, Column, Figure, Name, Table
from memorisk.report.figures.distance import distance_plot
from memorisk.report.figures.series import MOST_ROWS, series_plot
from memorisk.report.formats import percent
from memorisk.report.frames import numbers, rows, texts
from memorisk.studies.generators.distances import HELD_OUT, pools
from memorisk.studies.generators.reading import Read, Reading
from memorisk.studies.rare_distinctive.parts import StudyTable

MOST_DISTANCES = 12
"""Drawings of figure 3; the table has all generators."""


def distance_figures(reading: Reading) -> list[Block]:
    """Figure 3: a drawing a generator and detector, the first seed of each."""
    found: list[Block] = []
    seen: set[tuple[object, ...]] = set()
    for read in reading.last:
        key = (read.cell.data.name, read.cell.arm.name, read.cell.size, read.detector)
        if key in seen or len(found) == MOST_DISTANCES:
            continue
        seen.add(key)
        found.append(_distance_figure(read))
    return found


def _distance_figure(read: Read) -> Figure:
    drawn = pools(read)
    name = f"{read.cell.data.name}, {read.cell.arm.name}, {len(read.cell.training.rows):,} training images"
    medians = pd.DataFrame({"pool": list(drawn), "median": [float(np.median(v)) for v in drawn.values()],
                            "n": [len(v) for v in drawn.values()]})  # fmt: skip
    nearer = float(np.mean(drawn["generated"] < np.median(drawn[HELD_OUT])))
    said = f"{percent(nearer)} of generated images lie nearer to the training images than half of the held-out ones."
    columns = [
        Column(source="pool", heading="Images", row_heading=True),
        Column(source="median", heading="Median distance", format="power"),
        Column(source="n", heading="Images", format="count"),
    ]
    return Figure(
        svg=distance_plot(drawn, x_title="Distance to the nearest training image"),
        title="Figure 3: distances to the training images",
        caption=[Name(name), ", by ", Name(read.detector), f", seed {read.cell.seed}. {said}"],
        alternative=[Name(name), f": {said}"],
        table=Table(frame=medians, columns=columns, caption="The drawn distances in short."),
    )


def size_figure(table: StudyTable) -> list[Block]:
    """Memorized share against training-set size."""
    return _shares(table, "n_images", "training images", "Memorized share against training-set size")


def step_figure(table: StudyTable) -> list[Block]:
    """Memorized share against steps."""
    return _shares(table, "step", "steps", "Memorized share against steps")


def copies_figure(table: StudyTable) -> list[Block]:
    """Share of flagged patients against copies, the first seed of each generator."""
    frame = table.extra.get("levels")
    if frame is None or not len(frame):
        return []
    first = frame.groupby(["dataset", "arm", "n_images", "detector"], sort=False)["seed"].transform("first")
    own = rows(frame, [a == b for a, b in zip(frame["seed"], first, strict=True)])
    return _drawn(own, "copies", "copies", "Flagged patients against copies")


def memorized_figure(table: StudyTable) -> list[Block]:
    """Memorized share of every generator."""
    return _drawn(table.ours, "n_images", "images", "Memorized share of every generator") if len(table.ours) else []


def _shares(table: StudyTable, column: str, unit: str, title: str) -> list[Block]:
    return _drawn(table.ours, column, unit, title) if len(table.ours) else []


def _drawn(frame: pd.DataFrame, column: str, unit: str, title: str) -> list[Block]:
    """A drawing a data set: a row an arm and value, a series a detector."""
    found: list[Block] = []
    for dataset in dict.fromkeys(texts(frame, "dataset")):
        own = rows(frame, [name == dataset for name in texts(frame, "dataset")])
        if not np.isfinite(numbers(own, "share")).any():  # held-out patients too few for any share
            continue
        detectors = list(dict.fromkeys(texts(own, "detector")))
        keys = _keys(own, column)
        order = list(dict.fromkeys(keys))[:MOST_ROWS]
        series = {name: _series(own, keys, order, name) for name in detectors}
        labels = [f"{arm}, {value:,} {unit}" for arm, _, value in order]
        known = np.concatenate([limits[0] for limits in series.values()])
        reference = float(np.nanmax(numbers(own, "attained"))) if "attained" in own else None
        svg = series_plot(labels, series, x_title="Memorized share, 95 % limits", reference=reference, cut=False)
        said = f"from {percent(np.nanmin(known))} to {percent(np.nanmax(known))}"
        line = "; the line is what a generator without memory shows" if reference is not None else ""
        columns = [
            Column(source="arm", heading="Generator", row_heading=True),
            Column(source="n_images", heading="Training images", format="count"),
            *([Column(source=column, heading=unit.capitalize(), format="count")] if column != "n_images" else []),
            Column(source="detector", heading="Detector"),
            Column(source="share", heading="Share [95 %]", format="percent", interval=("share_low", "share_high")),
        ]
        found.append(
            Figure(
                svg=svg,
                title=title,
                caption=[Name(dataset), f": shares {said}{line}."],
                alternative=[Name(dataset), f": shares {said}."],
                table=Table(frame=own, columns=columns, caption="The drawn numbers."),
            )
        )
    return found


def _keys(frame: pd.DataFrame, column: str) -> list[tuple[str, int, int]]:
    """Arm, training images and value of each row."""
    columns = (numbers(frame, "n_images").astype(int).tolist(), numbers(frame, column).astype(int).tolist())
    return list(zip(texts(frame, "arm"), *columns, strict=True))


def _series(
    frame: pd.DataFrame, keys: Sequence[tuple[str, int, int]], order: Sequence[tuple[str, int, int]], detector: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[n] shares of one detector with their limits, in an order; NaN where there is none."""
    values = [numbers(frame, name) for name in ("share", "share_low", "share_high")]
    found = np.full((3, len(order)), np.nan)
    place = {key: i for i, key in enumerate(order)}
    for row, (key, name) in enumerate(zip(keys, texts(frame, "detector"), strict=True)):
        if name == detector and key in place:
            found[:, place[key]] = [column[row] for column in values]
    return found[0], found[1], found[2]
