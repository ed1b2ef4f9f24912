"""The page of the study: who is memorized; against size, steps and copies; DiT against GAN; figure 3; table 3.

Figures are drawn from the frames of the tables. Closest pairs are shown as pictures only where the user chose them:
a training image, the generated one, their difference.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from memorisk.audits.comparison.pictures import PICTURE_SIDE, side_by_side
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Fact,
    Facts,
    Figure,
    Gallery,
    Heading,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Thumbnail,
    data_uri,
)
from memorisk.report.columns import column_numbers, column_texts, count, percent, power, rows
from memorisk.report.figures.histograms import distance_plot
from memorisk.report.figures.intervals import MOST_ROWS, series_plot
from memorisk.studies.engine.tables import StudyTable, failure_blocks, table_blocks
from memorisk.studies.generators.config import GeneratorsStudy
from memorisk.studies.generators.memorization import HELD_OUT, pools
from memorisk.studies.generators.results import Evaluation, StudyEvaluations
from memorisk.studies.generators.tables import LAYOUT
from memorisk.studies.generators.wording import findings, unjudgeable_sets

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
    drawn = pools(read)
    name = f"{read.cell.data.name}, {read.cell.arm.name}, {len(read.cell.training.rows):,} training images"
    medians = pd.DataFrame({"pool": list(drawn), "median": [float(np.median(v)) for v in drawn.values()],
                            "n": [len(v) for v in drawn.values()]})  # fmt: skip
    nearer = float(np.mean(drawn["generated"] < np.median(drawn[HELD_OUT])))
    sentence = (
        f"{percent(nearer)} of generated images lie nearer to the training images than half of the held-out ones."
    )
    columns = [
        Column(source="pool", heading="Images", row_heading=True),
        Column(source="median", heading="Median distance", format="power"),
        Column(source="n", heading="Images", format="count"),
    ]
    return Figure(
        svg=distance_plot(drawn, x_title="Distance to the nearest training image"),
        title="Figure 3: distances to the training images",
        caption=[Name(name), ", by ", Name(read.detector), f", seed {read.cell.seed}. {sentence}"],
        alternative=[Name(name), f": {sentence}"],
        table=Table(frame=medians, columns=columns, caption="The drawn distances in short."),
    )


def size_figure(table: StudyTable) -> list[Block]:
    """Draw the memorized share against training-set size."""
    return _shares(table, "n_images", "training images", "Memorized share against training-set size")


def step_figure(table: StudyTable) -> list[Block]:
    """Draw the memorized share against steps."""
    return _shares(table, "step", "steps", "Memorized share against steps")


def copies_figure(table: StudyTable) -> list[Block]:
    """Draw the share of flagged patients against copies, the first seed of each generator."""
    frame = table.extra.get("levels")
    if frame is None or not len(frame):
        return []
    first = frame.groupby(["dataset", "arm", "n_images", "detector"], sort=False)["seed"].transform("first")
    own = rows(frame, [a == b for a, b in zip(frame["seed"], first, strict=True)])
    return _share_figures(own, "copies", "copies", "Flagged patients against copies")


def memorized_figure(table: StudyTable) -> list[Block]:
    """Draw the memorized share of every generator."""
    return (
        _share_figures(table.ours, "n_images", "images", "Memorized share of every generator")
        if len(table.ours)
        else []
    )


def _shares(table: StudyTable, column: str, unit: str, title: str) -> list[Block]:
    return _share_figures(table.ours, column, unit, title) if len(table.ours) else []


def _share_figures(frame: pd.DataFrame, column: str, unit: str, title: str) -> list[Block]:
    """Draw one figure per data set: one row per arm and value, one series per detector."""
    figures: list[Block] = []
    for dataset in dict.fromkeys(column_texts(frame, "dataset")):
        own = rows(frame, [name == dataset for name in column_texts(frame, "dataset")])
        if not np.isfinite(column_numbers(own, "share")).any():  # held-out patients too few for any share
            continue
        detectors = list(dict.fromkeys(column_texts(own, "detector")))
        keys = _keys(own, column)
        order = list(dict.fromkeys(keys))[:MOST_ROWS]
        series = {name: _series(own, keys, order, name) for name in detectors}
        labels = [f"{arm}, {value:,} {unit}" for arm, _, value in order]
        shares = np.concatenate([limits[0] for limits in series.values()])
        reference = float(np.nanmax(column_numbers(own, "attained"))) if "attained" in own else None
        svg = series_plot(labels, series, x_title="Memorized share, 95 % limits", reference=reference, cut=False)
        shares_range = f"from {percent(np.nanmin(shares))} to {percent(np.nanmax(shares))}"
        line = "; the line is what a generator without memory shows" if reference is not None else ""
        columns = [
            Column(source="arm", heading="Generator", row_heading=True),
            Column(source="n_images", heading="Training images", format="count"),
            *([Column(source=column, heading=unit.capitalize(), format="count")] if column != "n_images" else []),
            Column(source="detector", heading="Detector"),
            Column(source="share", heading="Share [95 %]", format="percent", interval=("share_low", "share_high")),
        ]
        figures.append(
            Figure(
                svg=svg,
                title=title,
                caption=[Name(dataset), f": shares {shares_range}{line}."],
                alternative=[Name(dataset), f": shares {shares_range}."],
                table=Table(frame=own, columns=columns, caption="The drawn numbers."),
            )
        )
    return figures


def _keys(frame: pd.DataFrame, column: str) -> list[tuple[str, int, int]]:
    """Return arm, number of training images and value of each row."""
    columns = (
        column_numbers(frame, "n_images").astype(int).tolist(),
        column_numbers(frame, column).astype(int).tolist(),
    )
    return list(zip(column_texts(frame, "arm"), *columns, strict=True))


def _series(
    frame: pd.DataFrame, keys: Sequence[tuple[str, int, int]], order: Sequence[tuple[str, int, int]], detector: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the shares of one detector with their limits, [n] each, in an order; NaN where there is none."""
    values = [column_numbers(frame, name) for name in ("share", "share_low", "share_high")]
    columns = np.full((3, len(order)), np.nan)
    place = {key: i for i, key in enumerate(order)}
    for row, (key, name) in enumerate(zip(keys, column_texts(frame, "detector"), strict=True)):
        if name == detector and key in place:
            columns[:, place[key]] = [column[row] for column in values]
    return columns[0], columns[1], columns[2]


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


_IDS = ("sources", "closest")
"""Tables that name images and patients."""


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

    def tables_of(*names: str) -> list[Block]:
        """Return the blocks of some tables, one after the other."""
        return table_blocks(LAYOUT, *(by_name[name] for name in names))

    hidden = "Ids of images and patients are left out; tables/ in the study's folder has them."
    listed = [Paragraph(hidden)] if options.redact else tables_of(*_IDS)
    sections = [
        Section(
            "Who is memorized",
            [*tables_of("memorized"), *memorized_figure(by_name["memorized"])],
            "memorized",
        ),
        Section("Training-set size", [*tables_of("sizes"), *size_figure(by_name["sizes"])], "sizes"),
        Section("Steps and epochs", [*tables_of("steps"), *step_figure(by_name["steps"])], "steps"),
        Section("Copies", [*tables_of("copies"), *copies_figure(by_name["copies"])], "copies"),
        Section("DiT against GAN", tables_of("generators"), "generators"),
        Section("Distances", [*tables_of("distances"), *distance_figures(reading)], "distances"),
        Section("Pseudo-conditions", tables_of("table_3"), "table-3"),
        Section("Sources and closest pairs", listed, "sources"),
        Section("What was run", tables_of("trained"), "setup"),
        Section("How to read this", _how_to_read(), "reading"),
    ]
    pictures = pair_gallery(reading) if options.gallery and not options.redact else []
    if pictures:
        sections.insert(8, Section("Pictures", pictures, "pictures"))
    held = "images of the training data, as requested" if pictures else "no image"
    return Page(
        title="What generators memorize",
        subtitle="A study of generators of images, by kind, training-set size, copies and epochs",
        lead=_lead(reading, by_name, failed),
        sections=sections,
        footer=[Paragraph(f"This page holds {held}. Every reading is a row of tables/readings.parquet.")],
        redacted=study.options.redact,
    )


def _lead(reading: StudyEvaluations, by_name: Mapping[str, StudyTable], failed: Mapping[str, str]) -> list[Block]:
    lines = findings(by_name["memorized"].ours, by_name["copies"].ours)
    blocks: list[Block] = [Steps(lines)] if lines else [Paragraph("No generator is finished yet.")]
    facts = [
        Fact("Generators", count(len({cell.name for cell in reading.cells} | failed.keys()))),
        Fact("Finished", count(len(reading.cells) - len(reading.unfinished))),
        Fact("Data sets", count(len({cell.data.name for cell in reading.cells}))),
        Fact("Failed", count(len(failed))),
    ]
    lead: list[Block] = [Callout("note", "What was memorized?", blocks), Facts(facts)]
    doubts = unjudgeable_sets(reading.table)
    if doubts:
        lead.append(Callout("warning", "What cannot be judged", [Steps(doubts)]))
    return [*lead, *failure_blocks(failed)]


def _how_to_read() -> list[Block]:
    return [
        Steps(
            [
                "Patients are divided before anything is trained. No generator saw an image of those who are "
                "held out, and their nearest generated image is searched as that of training patients is. Without "
                "memorization both are equally near, however narrow or wide the generated set.",
                "A share whose interval holds the rate without memory does not prove that no patient is memorized: a "
                "copy of one patient among thousands moves no share. The list and the closest pairs look for that.",
                "More generated images find more: a generator shows what it knows only in enough images. Shares "
                "compare generators at the same number of images.",
                "A detector that does not recognise a changed copy does not see it. Several detectors are read "
                "side by side; none of them was chosen for its result.",
                "Generators differ in kind, size and settings at once: a table of two kinds compares these two "
                "trainings, not all that could be made of either.",
                "Each interval holds 95 % by itself, not all of them at once. The largest of many is a selection.",
            ]
        )
    ]
