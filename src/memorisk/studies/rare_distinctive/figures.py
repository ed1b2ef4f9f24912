"""Figures 1 to 8 of paper 000, drawn from the numbers of a study's tables.

Each function takes the tables by name and returns blocks; nothing where its table has nothing to draw. Figure 7 shows
images of the classes of each data set, only where the user chose pictures.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.classifier.finished_run import FinishedRun, open_finished
from memorisk.audits.rendering import load_result
from memorisk.images.alterations.interventions import find_intervention, intervene
from memorisk.report.blocks import (
    Block,
    Details,
    Figure,
    Gallery,
    Heading,
    Inline,
    Name,
    Paragraph,
    Text,
    Thumbnail,
    data_uri,
)
from memorisk.report.columns import (
    booleans,
    column_numbers,
    column_texts,
    count,
    decimal,
    estimate_arrays,
    largest_first,
    rows,
)
from memorisk.report.figures.curves import layer_plot
from memorisk.report.figures.intervals import MOST_ROWS, difference_plot, series_plot, tradeoff_plot
from memorisk.report.figures.memorization import frequency_plot
from memorisk.report.result import Result
from memorisk.runs.errors import one_line
from memorisk.scores.memorization import memorization
from memorisk.studies.engine.figures import drawn, series_of
from memorisk.studies.engine.number_texts import regime_name
from memorisk.studies.engine.rows import distinct, rows_of
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.rare_distinctive.results import LAYOUT, READ_ERRORS, StudyRuns

Tables = Mapping[str, StudyTable]
IntervalColumns = tuple[str, str, str]

MEAN = ("mean", "low", "high")
DIFFERENCE, NOISE = ("difference", "low", "high"), ("noise", "noise_low", "noise_high")


def figure_1(tables: Tables) -> list[Block]:
    """Draw the mean M of each class of the first data set, by architecture."""
    every = tables["table_5"].ours
    if every.empty:
        return []
    dataset = column_texts(every, "dataset")[0]
    own = rows_of(every, dataset=dataset)
    caption = ["Data set ", Name(dataset), ", largest mean of the first architecture first."]
    title = "Figure 1. Per-class memorization by architecture."
    return [_intervals(own, "architecture", "label", MEAN, "Mean memorization M, with 95 % interval", title, caption)]


def figure_2(tables: Tables) -> list[Block]:
    """Draw the distance of the twins' activations by layer, at high and at low M, for each explained cell."""
    every = tables["table_7"].extra.get("layers", pd.DataFrame())
    blocks: list[Block] = []
    for dataset, architecture in distinct(every, "dataset", "architecture"):
        own = rows_of(every, dataset=dataset, architecture=architecture)
        bands = {f"{band} M": estimate_arrays(own, band) for band in ("high", "low")}
        low, high = column_numbers(own, "difference_low"), column_numbers(own, "difference_high")
        apart = int(np.sum((low > 0) | (high < 0)))
        caption = [*_cell_words(dataset, architecture), ". Bands are 95 % intervals over patients."]
        words = (
            f"Of {count(len(own))} layers, {count(apart)} have a difference of high and low M whose interval leaves "
            "out 0; that bands overlap does not show that there is none."
        )
        title = "Figure 2. Distance of candidate and independent activations by layer."
        svg, columns = layer_plot(bands, y_title="Cosine distance of the twins"), LAYOUT.frames["layers"].columns
        blocks.append(drawn(svg, title, caption, words, own, columns, table="Every layer."))
    return blocks


def figure_3(tables: Tables) -> list[Block]:
    """Draw two figures per data set: (a) each class under each regime, (b) accuracy on unseen images against mean M."""
    ours, classes = tables["table_11"].ours, tables["table_11"].extra.get("by_regime", pd.DataFrame())
    blocks: list[Block] = []
    for dataset in dict.fromkeys(column_texts(ours, "dataset")):
        own = rows_of(ours, dataset=dataset)
        blocks.append(_by_regime(rows_of(classes, dataset=dataset), dataset))
        names = [regime_name(name) for name in column_texts(own, "regime")]
        accuracy, m = (estimate_arrays(own, name) for name in ("accuracy", "mean_m"))
        alternative: list[Inline] = []
        for i, name in enumerate(names):
            values = [float(np.asarray(v)[i]) for v in (accuracy[0], m[0])]
            alternative.append(f"{name}: accuracy {_interval_words(values[0])}, mean M {_interval_words(values[1])}. ")
        svg = tradeoff_plot(names, accuracy, m, float(column_numbers(own, "majority")[0]))
        caption = ["Data set ", Name(dataset), ": accuracy on unseen images, right and low is good."]
        blocks.append(drawn(svg, "Figure 3 (b). What each regime costs and saves.", caption, alternative))
    return blocks


def _by_regime(own: pd.DataFrame, dataset: str) -> Figure:
    with_names = own.assign(regime=[regime_name(name) for name in column_texts(own, "regime")])
    first = rows_of(with_names, regime=column_texts(with_names, "regime")[0])
    caption = ["Data set ", Name(dataset), ", largest mean of the first regime first."]
    return _intervals(
        with_names, "regime", "label", MEAN, "Mean memorization M, with 95 % interval",
        "Figure 3 (a). Each class under each regime.", caption, numbers=with_names, frame="by_regime",
        table="Every class and regime.", labels=column_texts(largest_first(first, "mean"), "label"),
    )  # fmt: skip


def _intervals(
    every: pd.DataFrame, by: str, row: str, ends: IntervalColumns, x_title: str, title: str, caption: list[Inline],
    *, labels: Sequence[str] = (), numbers: pd.DataFrame | None = None, frame: str = "", table: str = "",
    cut: bool = True,
) -> Figure:  # fmt: skip
    """Draw a value with its interval, one row per label, one series per name of a column.

    Args:
        every: Rows of a table.
        by: Column that names the series.
        row: Column of the labels.
        ends: Columns of the value and its limits.
        x_title: Name of the axis.
        title: Title of the figure.
        caption: Caption, to which the number of left out rows is added.
        labels: Labels in their order, where it is not that of the rows.
        numbers: Drawn numbers, where no table of the page holds them.
        frame: Name of their columns in the study's schema.
        table: Caption of the drawn numbers.
        cut: Whether long intervals are cut.
    """
    labels = labels or list(dict.fromkeys(column_texts(every, row)))
    svg = series_plot(labels, series_of(every, by, row, labels, ends), x_title=x_title, cut=cut)
    columns = LAYOUT.frames[frame].columns if frame else ()
    words = _highest(every, by, row, ends)
    return drawn(svg, title, [*caption, _shorten(labels)], words, numbers, columns, table=table)


def figure_4a(tables: Tables) -> list[Block]:
    """Draw attack success at high less that at low M, by cell: M from other seeds, and the paper's circular form.

    The paper's form is by its strongest attack, the loss difference, which is M itself.
    """
    agreement = tables["table_8"].extra.get("agreement", pd.DataFrame())
    if agreement.empty:
        return []
    caption = (
        "Success of an attack at M > 0.3 less that at M ≤ 0.1. M from other seeds than the attacked model's answers "
        "the question, for the loss threshold, which an attacker can compute, and for the loss difference. The paper's "
        "form sets the loss difference against M from the attacked models, which is the same number: it agrees even "
        "where nothing is memorized."
    )
    return [
        _intervals(
            _with_cell_names(agreement), "form", "cell", ("difference", "difference_low", "difference_high"),
            "Difference of success, 95 % interval", "Figure 4 (a). Does M predict which images an attack finds?",
            [caption], numbers=agreement, frame="agreement", table="Every form.", cut=False,
        )
    ]  # fmt: skip


def figure_4b(tables: Tables) -> list[Block]:
    """Draw rarity against M, data set by data set: Spearman's rho over images with its interval."""
    rarity = tables["table_1"].ours
    if rarity.empty:
        return []
    caption = (
        "Rho of class frequency and M over images: below 0 rare classes are memorized more. Intervals are over "
        "patients and seeds, for these classes as they are; the s.d. over seeds is in table 1."
    )
    title = "Figure 4 (b). Rarity and memorization by data set and architecture."
    ends = ("paper_rho", "rho_low", "rho_high")
    x_title = "Spearman's rho, with 95 % interval"
    return [_intervals(rarity, "architecture", "dataset", ends, x_title, title, [caption], cut=False)]


def figure_5(tables: Tables) -> list[Block]:
    """Draw the changes that the intervention made in its target classes, one figure per architecture."""
    return _differences(
        tables["table_3"].ours, "Figure 5. What the intervention changed, compared with retraining.", with_dataset=True
    )


def figure_6(tables: Tables) -> list[Block]:
    """Draw every class of the first data set with an intervention, changed ones and others."""
    every = tables["table_6"].ours
    if every.empty:
        return []
    dataset = column_texts(every, "dataset")[0]
    title = "Figure 6. Every class under the intervention, changed or not."
    return _differences(rows_of(every, dataset=dataset), title, with_dataset=False)


def _differences(every: pd.DataFrame, title: str, *, with_dataset: bool) -> list[Block]:
    blocks: list[Block] = []
    for architecture in dict.fromkeys(column_texts(every, "architecture")):
        own = rows_of(every, architecture=architecture)
        labels = column_texts(own, "label")
        if with_dataset:
            labels = [f"{d}: {label}" for d, label in zip(column_texts(own, "dataset"), labels, strict=True)]
            where: list[Inline] = ["Architecture ", Name(architecture)]
        else:
            labels = [f"{v} (changed)" if c else v for v, c in zip(labels, booleans(own, "targeted"), strict=True)]
            where = _cell_words(column_texts(own, "dataset")[0], architecture)
        caption = [*where, f". Right of 0 more is remembered than before, left of it less.{_shorten(labels)}"]
        limits = ([column_numbers(own, end) for end in ends] for ends in (DIFFERENCE, NOISE))
        blocks.append(drawn(difference_plot(labels, *map(tuple, limits)), title, caption, _changes(own, labels)))
    return blocks


def _changes(own: pd.DataFrame, labels: Sequence[str]) -> list[Inline]:
    words: list[Inline] = []
    for i, label in enumerate(labels):
        values = {c: _interval_words(column_numbers(own, c)[i]) for c in (*DIFFERENCE, *NOISE)}
        words += [
            Name(label),
            f": {values['difference']} ({values['low']} to {values['high']}); retraining alone {values['noise']} "
            f"({values['noise_low']} to {values['noise_high']}). ",
        ]
    return words


def figure_8(tables: Tables) -> list[Block]:
    """Draw the frequency of the classes against M, one panel per data set; further architectures are folded away."""
    every = tables["table_5"].ours
    blocks: list[Block] = []
    for dataset in dict.fromkeys(column_texts(every, "dataset")):
        of_set = rows_of(every, dataset=dataset)
        panels = [
            _frequency(rows_of(of_set, architecture=a)) for a in dict.fromkeys(column_texts(of_set, "architecture"))
        ]
        blocks.append(panels[0])
        if len(panels) > 1:
            blocks.append(Details(["The other architectures on ", Name(dataset)], panels[1:]))
    return blocks


def _frequency(own: pd.DataFrame) -> Figure:
    place = _cell_words(column_texts(own, "dataset")[0], column_texts(own, "architecture")[0])
    with_mean = rows(own, np.isfinite(column_numbers(own, "mean")))
    words: list[Inline] = ["No class has a mean."]
    if len(with_mean):
        rarest = with_mean.iloc[int(np.argmin(column_numbers(with_mean, "frequency")))]
        top = largest_first(with_mean, "mean").iloc[0]
        words = ["The rarest class, ", Name(str(rarest["label"])), f", has mean M {_interval_words(rarest['mean'])}"]
        words += ["; the most memorized, ", Name(str(top["label"])), f", has {_interval_words(top['mean'])}."]
    numbers = (column_numbers(own, column) for column in ("frequency", *MEAN))
    svg = frequency_plot(column_texts(own, "label"), *numbers)
    caption = [*place, ". Each dot is a class, the line its 95 % interval."]
    return drawn(svg, "Figure 8. Frequency of a class against its memorization.", caption, words)


def _highest(frame: pd.DataFrame, by: str, row: str, ends: IntervalColumns) -> Text:
    """Describe the row with the highest value of each series."""
    words: list[Inline] = []
    for name in dict.fromkeys(column_texts(frame, by)):
        top = largest_first(rows_of(frame, **{by: name}), ends[0]).head(1)
        value, low, high = (_interval_words(column_numbers(top, column)[0]) for column in ends)
        words += [Name(name), ": highest in ", Name(column_texts(top, row)[0]), f", {value} ({low} to {high}). "]
    return words or "Nothing is drawn."


def _with_cell_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a column ``cell``: the architecture, and the data set where there are several."""
    several = len(set(column_texts(frame, "dataset"))) > 1
    pairs = zip(column_texts(frame, "dataset"), column_texts(frame, "architecture"), strict=True)
    return frame.assign(cell=[f"{d}: {a}" if several else a for d, a in pairs])


def _cell_words(dataset: str, architecture: str) -> list[Inline]:
    return [Name(dataset), ", ", Name(architecture)]


def _shorten(labels: Sequence[str]) -> str:
    return f" The first {MOST_ROWS} of {len(labels)} rows." if len(labels) > MOST_ROWS else ""


def _interval_words(value: float) -> str:
    return "unknown" if np.isnan(value) else decimal(value)


PICTURES = 3
"""Number of images shown for each class."""

_NO_PICTURES = (
    "Figure 7 of the paper shows images of patients. Images appear in reports only as the user chose: with gallery: "
    "true in the settings of the study or of a data set, this section shows typical images of each class."
)


def figure_7(runs: StudyRuns) -> list[Block]:
    """Show typical images of each class, the most memorized class first; one line where the user chose no pictures.

    The images shown are those whose M is nearest to the median of their class in the data set's first finished
    architecture, without ids. A changed class also shows the images as the intervention left them.

    Args:
        runs: Runs of the study; ``pictured`` names the data sets whose pictures the user chose.
    """
    blocks: list[Block] = []
    for dataset in dict.fromkeys(d for _, d in runs.cells if d in runs.pictured):
        architecture, folder = next((a, path) for (a, d), path in runs.cells.items() if d == dataset)
        blocks.append(Heading(["Figure 7. Typical images of ", Name(dataset)]))
        try:
            blocks.append(_gallery(open_finished(folder, device="cpu"), load_result(Path(folder)), architecture))
        except READ_ERRORS as error:
            blocks.append(Paragraph(["Its images cannot be shown: ", Name(one_line(error, 200))]))
    return blocks or [Paragraph(_NO_PICTURES)]


def _gallery(run: FinishedRun, result: Result, architecture: str) -> Gallery:
    items: list[Thumbnail] = []
    targeted = _target_classes(result)
    ordered = result.per_class.dropna(subset=["mean"]).sort_values(["mean", "label"], ascending=[False, True])
    for row in ordered.to_dict("records"):
        label = str(row["label"])
        pixels = run.store.images[_typical_rows(run, label)]
        captions: list[Text] = [Name(label), f"mean M {decimal(float(row['mean']))}"]
        items += [_thumbnail(image, captions) for image in pixels]
        if label in targeted and run.options.intervene:
            changed = intervene(find_intervention(run.options.intervene), pixels)
            items += [_thumbnail(image, [Name(label), run.options.intervene]) for image in changed]
    caption = (
        f"The {PICTURES} images of each class with M nearest to the median of their class, the class with the largest "
        f"mean M first (architecture {one_line(architecture, 60)}). What looks distinctive is for the reader to say."
    )
    return Gallery(items=items, caption=caption)


def _target_classes(result: Result) -> set[str]:
    """Return the classes that the cell's intervention changed."""
    table = result.tables.get("intervention")
    if table is None:
        return set()
    return set(column_texts(rows(table, np.asarray(table["targeted"], dtype=bool)), "label"))


def _typical_rows(run: FinishedRun, label: str) -> np.ndarray:
    """Return the store's rows of the scored images nearest to the median M of their class, nearest first."""
    items = run.evidence.items
    m = memorization(run.evidence.gap, run.evidence.sign)
    own = np.flatnonzero((items.label.astype(str) == label) & (items.split == "canary") & np.isfinite(m))
    far = np.abs(m[own] - np.median(m[own])) if len(own) else np.empty(0)
    return run.item_row[own[np.argsort(far, kind="stable")[:PICTURES]]]


def _thumbnail(pixels: np.ndarray, captions: list[Text]) -> Thumbnail:
    return Thumbnail(data_uri=data_uri(pixels), caption=captions, alternative="Image of the class named below")
