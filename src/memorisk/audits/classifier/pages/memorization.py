"""Lay out the sections of the classifier report on memorization: classes, rarity, members and the null."""

from dataclasses import replace
from math import isnan

import numpy as np
import pandas as pd

from memorisk.audits.classifier.pages.result_view import ResultView, listed
from memorisk.audits.classifier.result import RarestAgainstTop
from memorisk.report.blocks import (
    Block,
    Column,
    Details,
    Figure,
    Heading,
    Inline,
    Name,
    Paragraph,
    Steps,
    Table,
    Text,
    Tone,
    estimate,
    number,
    words,
)
from memorisk.report.columns import column_numbers, column_texts, decimal, is_missing, percent, probability, rows
from memorisk.report.figures import memorization as figures
from memorisk.report.flagged import NOT_TESTED, classes_with_room, flagged_counts
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.levels import POWER, PREREQUISITE_LEVEL, share_words
from memorisk.statistics.verdicts.scales import LossScale

NO_GAP = "none"
"""Words for a class without a list, and for one in which no gap is surely noticed."""
TIER_TONES: dict[str, Tone] = {
    "HIGH": "bad",
    "MODERATE": "middling",
    "LOW": "good",
    "insufficient evidence": "quiet",
}


_SUMMARY = ("label", "mean", "tier", "flagged", "n", "frequency", "n_groups_scored")
"""Columns of the table of classes that a first screen has room for."""


_HIGH_MEANS = {
    True: "the model is far surer of this image than it would be of a new one",
    False: "the model reconstructs this image far better than it would a new one",
}
"""Meaning of a mean M in the tier HIGH, by whether the models give answers."""


def class_section(reading: ResultView) -> list[Block]:
    """Lay out the class table with intervals, and its figure."""
    table = reading.per_class
    if not len(table):
        return [Paragraph("No class was scored.")]
    main = _class_table(reading, table)
    blocks: list[Block] = [
        Paragraph(
            f"M is what an image gains from being trained on: 0 means nothing, above {reading.scale.high} (HIGH) that "
            f"{_HIGH_MEANS[reading.scale.of_answers]}. The interval says how far chance in the training "
            f"reaches: it is of the mean over these very {reading.units}, were the models trained again, and says "
            f"nothing of other {reading.units}; a wide one means that little is known."
        )
    ]
    if {"mean", "low", "high"} <= set(table):
        blocks.append(interval_figure(table, reading.scale))
    return [*blocks, main, *_reasons(table), *_other_summaries(table)]


def class_summary(reading: ResultView) -> Table:
    """Return the first columns of the table of classes, for a first screen.

    Args:
        reading: Result with its classes.
    """
    table = _class_table(reading, reading.per_class)
    columns = [column for column in table.columns if column.source in _SUMMARY]
    return replace(table, columns=columns, caption="Classes by mean memorization, highest first.")


def _class_table(reading: ResultView, table: pd.DataFrame) -> Table:
    gates = tuple(reading.scale.gates.values())
    columns = [
        words("label", "Class", row=True),
        Column(
            source="mean",
            heading=f"Mean M, {reading.scale.unit} [95 % interval]",
            format="decimal",
            interval=("low", "high"),
            gates=gates,
        ),
        Column(source="tier", heading="Tier", tones=TIER_TONES),
        number("flagged", f"{reading.units.capitalize()} flagged", "count", missing=NOT_TESTED),
        number("smallest_list", "Smallest list", "count", missing="none"),
        number("noticeable_gap", "Noticeable gap", "short", missing=NOT_TESTED),
        number("test_mean", "Gap of unseen"),
        Column(
            source="excess",
            heading="M less that",
            format="decimal",
            interval=("excess_low", "excess_high"),
            gates=gates,
        ),
        number("n", "Images", "count"),
        number("frequency", "Share", "percent"),
        number("n_groups_scored", "Scored", "count"),
        number("n_test_groups", "Test", "count"),
    ]
    if "flagged" in table:
        table = table.assign(flagged=flagged_counts(table))
    if "noticeable_gap" in table:
        gap = [NO_GAP if np.isinf(g) else g for g in column_numbers(table, "noticeable_gap")]
        table = table.assign(noticeable_gap=pd.Series(gap, index=table.index, dtype=object))
    twins = {"test_mean", "excess"} if reading.summary.design != "paper" else set()  # they gain nothing unseen
    return Table(
        frame=table,
        columns=[c for c in columns if c.source in table and c.source not in twins],
        caption=f"Classes by mean memorization, highest first. Noticeable gap: the smallest, in "
        f"{reading.scale.unit}, with which a single {reading.unit} would have been flagged in {share_words(POWER)}. "
        f"Scored, test: {reading.units} that were scored, and unseen ones for the null."
        + ("" if twins else " The verdict reads M less the mean gap of unseen images."),
        visible_rows=30,
        elsewhere="per_class.parquet",
    )


def _reasons(table: pd.DataFrame) -> list[Block]:
    """List why classes cannot be tested, each reason once with its classes."""
    by_reason: dict[str, list[str]] = {}
    alone = "too few models, or too few test images, to flag even a strongly remembered one alone"
    reasons = column_texts(table, "why_not")
    for label, reason, tested in zip(column_texts(table, "label"), reasons, classes_with_room(table), strict=True):
        if reason or not tested:
            by_reason.setdefault(reason or alone, []).append(label)
    if not by_reason:
        return []
    lines: list[Text] = [[*listed(labels), ": ", Name(reason)] for reason, labels in by_reason.items()]
    return [Heading("Classes without a list, or where a single one can go unnoticed"), Steps(lines)]


def interval_figure(table: pd.DataFrame, scale: LossScale) -> Figure:
    """Draw the mean M of each class with its interval.

    Args:
        table: Table of classes, highest mean first.
        scale: Scale of the means.
    """
    labels = column_texts(table, "label")
    with_mean = rows(table, ~np.isnan(column_numbers(table, "mean")))
    sentence: list[Inline] = ["No class has a mean."]
    if len(with_mean):
        top, bottom = with_mean.iloc[0], with_mean.iloc[-1]
        sentence = ["The highest mean is that of ", Name(str(top.get("label"))), f" ({with_interval(top)})"]
        if len(with_mean) > 1:
            sentence += [", the lowest that of ", Name(str(bottom.get("label"))), f" ({with_interval(bottom)})"]
        sentence += [". The table below the figure has all numbers."]
    cut = f" The first {figures.MOST_ROWS} of {len(labels)} classes." if len(labels) > figures.MOST_ROWS else ""
    return Figure(
        svg=figures.interval_plot(
            labels,
            *(column_numbers(table, c) for c in ("mean", "low", "high")),
            tiers=(scale.moderate, scale.high),
        ),
        title=f"Mean memorization of each class, in {scale.unit}.",
        caption=f"Dot: mean; line: 95 % interval; shading: tier (LOW below {scale.moderate}, "
        f"HIGH above {scale.high}). "
        f"An arrow marks an interval that extends beyond the edge.{cut}",
        alternative=sentence,
    )


def _other_summaries(table: pd.DataFrame) -> list[Block]:
    """Lay out median and trimmed mean, folded away."""
    wanted = {
        "median": ("Median", "median_low", "median_high"),
        "trimmed_mean": ("10 % trimmed mean", "trimmed_low", "trimmed_high"),
    }
    columns = [
        estimate(c, f"{title} [95 % interval]", low=low, high=high)
        for c, (title, low, high) in wanted.items()
        if {c, low, high} <= set(table)
    ]
    if not columns:
        return []
    first = words("label", "Class", row=True)
    caption = "Summaries that a few extreme images move less; their intervals take the patients as a sample."
    return [Details("Median and trimmed mean", [Table(frame=table, columns=[first, *columns], caption=caption)])]


def rarity_section(reading: ResultView) -> list[Block]:
    """Lay out frequency against M, and the rarest class next to the most memorized one."""
    table = reading.findings
    if not {"frequency", "mean", "low", "high"} <= set(table) or not len(table):
        return [Paragraph("Frequencies of the classes are not part of this result.")]
    if len(table) == 1:
        return [Paragraph("All images are of one class, so that no frequencies are compared.")]
    blocks: list[Block] = []
    if reading.summary.rarest_vs_top is not None:
        blocks.append(Paragraph(rarest_sentence(reading.summary.rarest_vs_top)))
    same_numbers = Table(
        frame=table.sort_values("frequency", kind="stable"),
        columns=[
            words("label", "Class", row=True),
            number("frequency", "Share", "percent"),
            estimate("mean", f"Mean M, {reading.scale.unit} [95 % interval]", low="low", high="high"),
        ],
        caption="The same numbers, rarest class first.",
    )
    rarest = same_numbers.frame.iloc[0]
    top = table.iloc[0]
    sentence: list[Inline] = [
        "The rarest class, ",
        Name(str(rarest.get("label"))),
        f", has mean M {with_interval(rarest)}; ",
    ]
    sentence += ["the most memorized, ", Name(str(top.get("label"))), f", has {with_interval(top)} at "]
    sentence += [f"{percent(top['frequency'])} of the images."]
    blocks.append(
        Figure(
            svg=figures.frequency_plot(
                column_texts(table, "label"), *(column_numbers(table, c) for c in ("frequency", "mean", "low", "high"))
            ),
            title="Frequency of a class against its memorization.",
            caption="Each dot is a class; the line is its 95 % interval. If rarity alone mattered, the dots would "
            "fall from the upper left to the lower right.",
            alternative=sentence,
            table=same_numbers,
        )
    )
    return blocks


def rarest_sentence(pair: RarestAgainstTop) -> Text:
    """Say whether the rarest class is the most memorized one, with the difference and its interval.

    Args:
        pair: The rarest class beside the others.
    """
    rarest, top = Name(pair.label_rarest), Name(pair.label_top)
    size = _size(pair.n_rarest, pair.mean_rarest)
    if pair.too_rare:
        return ["The rarest class, ", rarest, size, ", has too few images to be compared with others."]
    if pair.label_rarest == pair.label_top:
        return ["The rarest class, ", rarest, size, ", is also the most memorized one.", *_beside_most_frequent(pair)]
    pieces: list[Inline] = ["The rarest class, ", rarest, size, ", is not the most memorized; "]
    pieces += [top, _size(pair.n_top, pair.mean_top), " is."]
    difference, low, high = pair.difference, pair.low, pair.high
    if isnan(difference):
        return pieces
    pieces.append(f" Their means differ by {decimal(abs(difference))}")
    if not isnan(low) and not isnan(high):
        low, high = sorted((low, high) if difference >= 0 else (-low, -high))
        pieces.append(f" (95 % interval {decimal(low)} to {decimal(high)})")
        pieces.append(", which chance may explain" if low <= 0 else ", not corrected for the choice of the largest")
    return [*pieces, "."]


def _beside_most_frequent(pair: RarestAgainstTop) -> list[Inline]:
    """Say by how much the mean of the rarest class differs from that of the most frequent one, if there is one."""
    pieces: list[Inline] = []
    difference, low, high = (
        pair.difference_most_frequent,
        pair.low_most_frequent,
        pair.high_most_frequent,
    )
    if not isnan(difference):
        size = _size(pair.n_most_frequent, pair.mean_most_frequent)
        pieces = [" Its mean differs from that of the most frequent class, ", Name(pair.label_most_frequent), size]
        pieces.append(f", by {decimal(difference)}")
        if not isnan(low) and not isnan(high):
            pieces.append(f" (95 % interval {decimal(low)} to {decimal(high)})")
            pieces.append(", which chance may explain" if low <= 0 else ", not corrected for its being the largest")
        pieces.append(".")
    return [*pieces, " One data set alone says nothing of rarity."]


def _size(n: int | None, mean: float) -> str:
    """Word the number of images and the mean M of one of the two classes, as far as they are known."""
    facts = [
        *([] if n is None else [plural(n, "image", "images")]),
        *([] if isnan(mean) else [f"mean M {decimal(mean)}"]),
    ]
    return f" ({', '.join(facts)})" if facts else ""


def null_section(reading: ResultView) -> list[Block]:
    """Lay out members' M against the null, and the distribution of p-values."""
    null = reading.summary.null
    blocks: list[Block] = []
    if null is not None and null.members and null.null:
        members, chance = np.array(null.members), np.array(null.null)
        blocks.append(
            Figure(
                svg=figures.null_against_members(members, chance),
                title="Memorization of the training images against chance.",
                caption="Read upwards from a value of M: the share of training images that reach it (full line), and "
                "the share of unseen images on which the same calculation gives as much by chance (dashed). Where the "
                "full line lies above the dashed one, something is remembered.",
                alternative=_null_words(members, chance, reading.scale),
            )
        )
    blocks += _check_of_the_null(reading)
    if reading.no_p_values:
        blocks.append(reading.no_p_value_callout())
    elif len(reading.result.per_group):
        p = column_numbers(reading.result.per_group, "p_value")
        low = float(np.mean(p[np.isfinite(p)] <= 0.05))
        drawn = Figure(
            svg=figures.p_value_histogram(p),
            title=f"p-values of the {reading.units}.",
            caption="Without memorization all bars would be about as high as the dashed line.",
            alternative=f"{percent(low)} of the p-values are at most 0.05; without memorization it would be about 5 %.",
        )
        blocks.append(Details(f"p-values of all {reading.units}", [drawn]))
    return blocks or [Paragraph("The null is not part of this result.")]


def _check_of_the_null(reading: ResultView) -> list[Block]:
    """Say whether unseen images look alike in the canary and the test part, class by class."""
    p = column_numbers(reading.result.per_class, "prerequisite_p")
    finite = np.isfinite(p)
    if not finite.any():
        return []
    failing = [
        t
        for t, bad in zip(
            column_texts(reading.result.per_class, "label"), finite & (p <= PREREQUISITE_LEVEL), strict=True
        )
        if bad
    ]
    smallest = (
        f"(smallest p over classes, corrected for their number: {probability(p[finite].min())}; a class at or below "
        f"{PREREQUISITE_LEVEL:g} would get no p-values)."
    )
    if failing:
        return [Paragraph(["Unseen canaries do not look like test images in ", *listed(failing), f" {smallest}"])]
    return [Paragraph(f"Images that no model saw look alike in the canary and the test part {smallest}")]


def _null_words(members: np.ndarray, chance: np.ndarray, scale: LossScale) -> str:
    shares = [
        f"M of at least {value}: {percent(np.mean(members >= value))} of the training images, "
        f"{percent(np.mean(chance >= value))} by chance"
        for value in (scale.moderate, scale.high, 1.0)
    ]
    return "; ".join(shares) + "."


def with_interval(row: pd.Series, column: str = "mean", *gates: float) -> str:
    """Word a number with its interval, for a sentence; the gates are what they are compared with."""
    low, high, value = row.get("low"), row.get("high"), row.get(column)
    limits = ""
    if not is_missing(low) and not is_missing(high):
        limits = f", 95 % interval {decimal(low, gates)} to {decimal(high, gates)}"
    return ("not known" if is_missing(value) else decimal(value, gates)) + limits
