"""The page of the study: who is memorized; against size, steps and copies; quality; figure 3; table 3.

Figures are drawn from the frames of the tables. Closest pairs are shown as pictures only where the user chose them:
a training image, the generated one, their difference.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.comparison.pictures import PICTURE_SIDE, side_by_side
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Figure,
    Gallery,
    Heading,
    Name,
    Page,
    Paragraph,
    Steps,
    Thumbnail,
    data_uri,
    estimate,
)
from memorisk.report.columns import column_numbers, column_texts, percent, power, rows
from memorisk.report.figures.histograms import distance_plot
from memorisk.report.figures.intervals import MOST_ROWS, series_plot
from memorisk.studies.engine.figures import drawn, series_of
from memorisk.studies.engine.pages import answer_numbers, finding_blocks, lead_blocks, study_page
from memorisk.studies.engine.rows import distinct, rows_of
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.generators.config import KIND_NAMES, GeneratorsStudy
from memorisk.studies.generators.memorization import HELD_OUT, pools
from memorisk.studies.generators.results import Evaluation, StudyEvaluations
from memorisk.studies.generators.tables import LAYOUT
from memorisk.studies.generators.wording import NOT_SHOWN, findings, unjudgeable_sets

SHARE_FIGURES = {
    "memorized_figure": ("n_images", "images", "Memorized share of every generator"),
    "sizes_figure": ("n_images", "training images", "Memorized share against training-set size"),
    "steps_figure": ("step", "steps", "Memorized share against steps"),
}
"""Column, unit and title of the figures of memorized shares, by name."""
MOST_DISTANCES = 12
"""Most drawings of figure 3; the table has all generators."""


def distance_figures(reading: StudyEvaluations) -> list[Block]:
    """Draw figure 3: one drawing per generator and detector, the first seed of each."""
    figures: list[Block] = []
    drawn: set[tuple[object, ...]] = set()
    for read in reading.last:
        key = (read.cell.data.name, read.cell.arm.name, read.cell.size, read.detector)
        if key in drawn or len(figures) == MOST_DISTANCES:
            continue
        drawn.add(key)
        figures.append(_distance_figure(read))
    return figures


def _distance_figure(read: Evaluation) -> Figure:
    distances = pools(read)
    name = f"{read.cell.data.name}, {read.cell.arm.name}, {len(read.cell.training.rows):,} training images"
    medians = pd.DataFrame({"pool": list(distances), "median": [float(np.median(v)) for v in distances.values()],
                            "n": [len(v) for v in distances.values()]})  # fmt: skip
    nearer = float(np.mean(distances["generated"] < np.median(distances[HELD_OUT])))
    sentence = (
        f"{percent(nearer)} of generated images lie nearer to the training images than half of the held-out ones."
    )
    return drawn(
        distance_plot(distances, x_title="Distance to the nearest training image"),
        "Figure 3: distances to the training images",
        [Name(name), ", by ", Name(read.detector), f", seed {read.cell.seed}. {sentence}"],
        [Name(name), f": {sentence}"], medians, LAYOUT.frames["medians"].columns, table="The drawn distances in short.",
    )  # fmt: skip


def copies_figure(table: StudyTable) -> list[Block]:
    """Draw the share of flagged patients against copies, the first seed of each generator."""
    frame = table.extra.get("levels")
    if frame is None or not len(frame):
        return []
    first = frame.groupby(["dataset", "arm", "n_images", "detector"], sort=False)["seed"].transform("first")
    own = rows(frame, [a == b for a, b in zip(frame["seed"], first, strict=True)])
    return share_figures(own, "copies", "copies", "Flagged patients against copies")


def share_figures(frame: pd.DataFrame, column: str, unit: str, title: str) -> list[Block]:
    """Draw one figure of shares per data set: one row per arm and value, one series per detector.

    Args:
        frame: Rows with shares.
        column: Column of the values, for each of which a row is drawn.
        unit: Unit of the values.
        title: Title of the figures.
    """
    figures: list[Block] = []
    for dataset in dict.fromkeys(column_texts(frame, "dataset")):
        own = rows_of(frame, dataset=dataset)
        if not np.isfinite(column_numbers(own, "share")).any():  # held-out patients too few for any share
            continue
        keys = list(zip(own["arm"], own["n_images"].astype(int), own[column].astype(int), strict=True))
        order = list(dict.fromkeys(keys))[:MOST_ROWS]
        named = own.assign(row=list(map(str, keys)))
        series = series_of(named, "detector", "row", list(map(str, order)), ("share", "share_low", "share_high"))
        labels, sublabels = [arm for arm, _, _ in order], [f"{value:,} {unit}" for _, _, value in order]
        shares = np.concatenate([limits[0] for limits in series.values()])
        reference = float(np.nanmax(column_numbers(own, "attained"))) if "attained" in own else None
        svg = series_plot(
            labels, series, x_title="Memorized share, 95 % limits", reference=reference, cut=False, sublabels=sublabels
        )
        words = f": shares from {percent(np.nanmin(shares))} to {percent(np.nanmax(shares))}"
        line = "; the line is what a generator without memory shows" if reference is not None else ""
        columns = [
            Column(source="arm", heading="Generator", row_heading=True),
            Column(source="n_images", heading="Training images", format="count"),
            *([Column(source=column, heading=unit.capitalize(), format="count")] if column != "n_images" else []),
            Column(source="detector", heading="Detector"),
            estimate("share", "Share [95 %]", "percent"),
        ]
        figures.append(
            drawn(svg, title, [Name(dataset), f"{words}{line}."], [Name(dataset), f"{words}."], own, columns)
        )
    return figures


MOST_PAIRS = 6
"""Most pairs for each generator and detector."""


def pair_gallery(reading: StudyEvaluations) -> list[Block]:
    """Show the closest pairs of each generator, the first seed of each.

    Args:
        reading: Readings of all generators.
    """
    blocks: list[Block] = []
    done: set[tuple[object, ...]] = set()
    for read in reading.last:
        key = (read.cell.data.name, read.cell.arm.name, read.cell.size, read.detector)
        items = [] if key in done else _pairs(read)
        done.add(key)
        if items:
            caption = "Training image, generated image, size of their difference."
            blocks += [Heading([Name(f"{read.cell.name}, by {read.detector}")]), Gallery(items=items, caption=caption)]
    return blocks


def _pairs(read: Evaluation) -> list[Thumbnail]:
    own, cell = read.arrays, read.cell
    place = {int(row): i for i, row in enumerate(own["shown"])}
    order = np.argsort(own["synthetic_distance"], kind="stable")[: min(MOST_PAIRS, cell.options.closest)]
    items = []
    for synthetic in order.tolist():
        row = cell.training.rows[own["synthetic_nearest"][synthetic]]
        picture = side_by_side(np.asarray(cell.data.store.images[row]), own["shown_pixels"][place[synthetic]])
        caption = [f"distance {power(own['synthetic_distance'][synthetic])}", picture.difference_words]
        items.append(Thumbnail(data_uri=data_uri(picture.pixels, side=PICTURE_SIDE), caption=caption,
                               alternative="A training image and the generated image nearest to it"))  # fmt: skip
    return items


def generators_page(
    study: GeneratorsStudy, reading: StudyEvaluations, tables: Sequence[StudyTable], failed: Mapping[str, str]
) -> Page:
    """Lay out the study.

    Args:
        study: Study as its file describes it.
        reading: Readings of all generators.
        tables: Tables of `tables.generator_tables`.
        failed: Reason why each generator is not there, by name.
    """
    by_name, options = {table.name: table for table in tables}, study.options
    pictures = pair_gallery(reading) if options.gallery and not options.redact else []
    blocks: dict[str, list[Block]] = {
        name: share_figures(by_name[name.removesuffix("_figure")].ours, *words) for name, words in SHARE_FIGURES.items()
    }
    blocks |= {"copies_figure": copies_figure(by_name["copies"]), "figure_3": distance_figures(reading)}
    blocks["pictures"] = pictures
    if options.redact:
        hidden = "Ids of images and patients are left out; tables/ in the study's folder has them."
        blocks |= {"sources": [Paragraph(hidden)], "closest": []}
    return study_page(
        LAYOUT,
        tables,
        blocks,
        lead=_lead(reading, by_name, failed),
        redacted=options.redact,
        answers=_answers(by_name),
        held="images of the training data, as requested" if pictures else "no image",
    )


def _answers(by_name: Mapping[str, StudyTable]) -> dict[str, dict[str, Any]]:
    """Count for each section with an answer what its tables say; sections without numbers have none."""
    memorized = by_name["memorized"].ours
    low, chance = column_numbers(memorized, "share_low"), column_numbers(memorized, "attained")
    trends = column_texts(by_name["copies"].ours, "positive") if len(by_name["copies"].ours) else []
    sizes = _first_and_last(by_name["sizes"].ours, ("dataset", "arm", "detector"), "n_images")
    steps = _first_and_last(by_name["steps"].ours, ("dataset", "arm", "n_images", "repeated", "detector"), "step")
    kinds = _better_kinds(by_name["generators"].ours)
    sources, distances = by_name["sources"].ours, by_name["distances"]
    generated = rows_of(distances.ours, pool="generated") if len(distances.ours) else distances.ours
    answers = {
        "memorized": {
            "n_compared": int(np.isfinite(column_numbers(memorized, "share")).sum()),
            "n_memorized": int((low > chance).sum()),
        },
        "sizes": {"n_compared": len(sizes), "n_lower": sum(_is_below(most, fewest) for fewest, most in sizes)},
        "steps": {"n_compared": len(steps), "n_higher": sum(_is_below(first, last) for first, last in steps)},
        "copies": {"n_compared": len(trends), "n_shown": sum(trend != NOT_SHOWN for trend in trends)},
        "generators": {"n_compared": len(kinds)}
        | {f"n_{kind}": kinds.count(name) for kind, name in KIND_NAMES.items()},
        "sources": {
            "n_compared": len(memorized),
            "n_listed": len(distinct(sources, "dataset", "patient")) if len(sources) else 0,
        },
    }
    shifts = {"distances": answer_numbers(generated, distances.schema.columns, "shift")}
    return shifts | {section: numbers for section, numbers in answers.items() if numbers["n_compared"]}


def _first_and_last(table: pd.DataFrame, by: Sequence[str], column: str) -> list[tuple[dict, dict]]:
    """Return for each group the rows with the smallest and with the largest value of a column."""
    groups: dict[tuple[str, ...], list[dict]] = {}
    for row in sorted(table.to_dict("records"), key=lambda row: row[column]):
        if np.isfinite(row["share_low"]):
            groups.setdefault(tuple(str(row[name]) for name in by), []).append(row)
    return [(own[0], own[-1]) for own in groups.values() if own[0][column] < own[-1][column]]


def _is_below(smaller: Mapping, larger: Mapping, name: str = "share") -> bool:
    """Say whether the interval of one row lies wholly below that of another."""
    return smaller[f"{name}_high"] < larger[f"{name}_low"]


def _better_kinds(table: pd.DataFrame) -> list[str]:
    """Compare each figure of a DiT with that of a GAN of as many training images.

    Returns:
        The better kind of each pair; empty where their intervals overlap.
    """
    groups: dict[tuple[str, ...], list[dict]] = {}
    for row in table.to_dict("records"):
        key = ("dataset", "n_images", "repeated", "features", "figure")
        groups.setdefault(tuple(str(row[name]) for name in key), []).append(row)
    kinds = []
    for one, other in (pair for own in groups.values() for pair in combinations(own, 2)):
        if one["kind"] != other["kind"]:
            lower = next((a for a, b in ((one, other), (other, one)) if _is_below(a, b, "estimate")), None)
            better = lower if lower is None or one["better"] == "lower" else other if lower is one else one
            kinds.append("" if better is None else str(better["kind"]))
    return kinds


def _lead(reading: StudyEvaluations, by_name: Mapping[str, StudyTable], failed: Mapping[str, str]) -> list[Block]:
    lines = findings(by_name["memorized"].ours, by_name["copies"].ours)
    blocks = finding_blocks(lines) if lines else [Paragraph("No generator is finished yet.")]
    facts = {
        "Generators": len({cell.name for cell in reading.cells} | failed.keys()),
        "Finished": len(reading.cells) - len(reading.unfinished),
        "Data sets": len({cell.data.name for cell in reading.cells}),
    }
    doubts = unjudgeable_sets(reading.table)
    warnings = [Callout("warning", "What cannot be judged", [Steps(doubts)])] if doubts else []
    return lead_blocks(Callout("note", "What was memorized?", blocks), facts, failed, *warnings)
