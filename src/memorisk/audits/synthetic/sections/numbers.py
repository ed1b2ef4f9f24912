"""Sections of the synthetic report with numbers: power, distances, single images, closest pairs."""

import numpy as np
import pandas as pd

from memorisk.audits.comparison.page_parts import image_columns
from memorisk.audits.comparison.pictures import picture_gallery
from memorisk.audits.comparison.terms import Terms, p_words, share
from memorisk.audits.synthetic import wording
from memorisk.audits.synthetic.result import DetectorSummary, Published, SyntheticNumbers, SyntheticSummary
from memorisk.audits.synthetic.sections.pairs import detector_block, spread_figures
from memorisk.audits.synthetic.sections.pictures import Pictures
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Figure,
    Heading,
    Name,
    Paragraph,
    Steps,
    Table,
    Text,
    estimate,
    number,
    words,
)
from memorisk.report.columns import (
    booleans,
    capitalized,
    column_numbers,
    column_texts,
    count,
    decimal,
    percent,
    probability,
    rows,
)
from memorisk.report.figures.histograms import distance_plot
from memorisk.report.figures.intervals import series_plot
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.planted_copies import BOUND_LEVEL

_MOST = 25


def power_section(result: Result, summary: SyntheticSummary) -> list[Block]:
    """Lay out the detectors, the planted copies that they would have found, and the lists that were possible."""
    n, blocks = summary.numbers, list[Block]()
    for one in summary.detectors:
        blocks.append(Paragraph([Name(one.sentence), f" Distance: {one.measure}."]))
    if notes := dict.fromkeys(note for one in summary.detectors for note in one.features.notes):
        blocks.append(Steps([Name(note) for note in notes]))
    if n.comparison.weak_features:
        blocks.append(Callout("warning", "A weak detector", [Paragraph(wording.WEAK)]))
    blocks += detector_block(result, n)
    if n.power.promise is None:
        why = "held_out" if n.sets.held is None else "saved" if n.comparison.saved_features else "none"
        return [*blocks, Paragraph(wording.NO_POWER[why]), *_lists(summary)]
    return [*blocks, *_power(result, summary, n.power.promise), *_lists(summary)]


def _power(result: Result, summary: SyntheticSummary, promise: str) -> list[Block]:
    """Lay out planted copies found, by kind, and the share of the set that copies can be."""
    terms, bound = summary.numbers.terms, summary.numbers.power.copies_bound_share
    blocks: list[Block] = [
        Paragraph(terms.fill(wording.POWER)),
        Paragraph(f"{capitalized(promise)}."),
        _kinds_table(result, terms),
        kinds_figure(result, summary.settings.recall),
    ]
    if bound is None:
        return [*blocks, *_also_tried(result, terms)]
    sentence = (
        f"At most {percent(bound)} of the set are copies of the planted kinds, in whatever mixture (hence by the kind "
        f"found least), with {share(BOUND_LEVEL)} confidence, if its images were drawn independently."
    )
    bounded = Paragraph(sentence if bound < wording.LARGEST_BOUND else wording.UNBOUNDED)
    return [*blocks, bounded, *_also_tried(result, terms)]


def distance_section(result: Result, summary: SyntheticSummary) -> list[Block]:
    """Lay out the comparison that counts, figure 3, and the published statistics, for each detector."""
    parts = [_of_detector(result, one, summary.numbers.terms) for one in summary.detectors]
    if len(parts) == 1:
        return parts[0]
    names = [one.name for one in summary.detectors]
    first = [Paragraph(["Compared by ", Name(names[0]), ":"]), *parts[0]]
    return [
        *first,
        *(Details(["Compared by ", Name(name)], part) for name, part in zip(names[1:], parts[1:], strict=True)),
    ]


def _of_detector(result: Result, one: DetectorSummary, terms: Terms) -> list[Block]:
    columns = [
        words("statistic", "Statistic", row=True),
        words("value", "Value"),
        words("beside", "Beside it"),
        words("cannot", "What it cannot tell", wide=True),
    ]
    caption = "Published statistics. None is used for the verdict: they find copies in sets without any."
    published = [] if one.published is None else [
        Heading("Statistics of the literature"),
        Table(frame=pd.DataFrame(_published(one.published, terms)), columns=columns, caption=caption),
    ]  # fmt: skip
    return [
        Heading(f"From real {terms.units} to the synthetic set"),
        _reversed_figure(result, one.name, one.head, terms),
        *spread_figures(result, one, terms),
        Heading("From images to the training set"),
        _usual_figure(result, one.name, one.head),
        *published,
    ]


def describing_section(result: Result, summary: SyntheticSummary, redact: bool) -> list[Block]:
    """Lay out the columns of single synthetic images, nearest first, by the first detector."""
    n, terms, first = summary.numbers, summary.numbers.terms, summary.detectors[0]
    table = result.per_image.sort_values(["distance", "image"], kind="stable")
    real, patient = ("nearest_image", "Nearest training image"), ("nearest_group", "Its patient")
    with_null = [
        number("nearer_than_new", f"Nearer than new {terms.units}", "percent"),
        number("p_listed", "p if it were a copy", "probability"),
    ]
    columns = [
        *image_columns(terms, redact=redact, real=real, patient=patient),
        number("distance", "Distance"),
        number("probability", "P", "short")
        if first.head
        else number("second_ratio", "Second-neighbour ratio", "short"),
        *([] if n.sets.held is None else with_null),
        number("similarity", "Similarity of details", "short"),
    ]
    images = Table(
        frame=table.head(_MOST),
        columns=columns,
        caption=f"The {min(_MOST, len(table))} synthetic images that lie nearest to a training image; all are in "
        "per_image.parquet.",
        visible_rows=10,
    )
    text = terms.fill(wording.NEARER) + ("" if first.head else " " + terms.fill(wording.RATIO))
    blocks: list[Block] = [Paragraph(text)]
    if n.comparison.n_detectors > 1:
        blocks.append(
            Paragraph(["Compared by ", Name(first.name), "; other comparisons are in tables/images_by_detector."])
        )
    blocks.append(images)
    if len(result.per_class):
        by_class = [
            words("label", "Class", row=True),
            number("n_training", "Training images", "count"),
            number("n_synthetic", "Synthetic images", "count"),
            number("n_exposing", "Exposing somebody", "count"),
        ]
        counts = Table(frame=result.per_class, columns=by_class, caption="Counts by class; no test.")
        blocks.append(Details("By class", [counts]))
    return blocks


def pair_section(result: Result, n: SyntheticNumbers, pictures: Pictures | None, redact: bool) -> list[Block]:
    """Lay out pairs with equal and nearly equal pixels, for training and held-out images, with requested pictures."""
    terms, pixels = n.terms, n.pixels
    text = " ".join(filter(None, (wording.PIXELS, pixels.near_rule)))
    if pixels.near_p is not None:
        text += f" Of a random split at least so many would be training {terms.units} with probability "
        text += f"{p_words(pixels.near_p)}."
    if pixels.n_shared_images:
        text += f" {count(pixels.n_shared_images)} of the equal ones are held-out images, too: these show no sure copy."
    blocks: list[Block] = [Paragraph(text), _pixel_counts(n, terms)]
    if redact:
        return blocks
    if len(result.tables["pairs"]):
        blocks.append(Details("Every pair", [_every_pair(result, terms)]))
    if pictures is None:
        return [*blocks, Paragraph("Pictures are left out of this report.")]
    galleries = [
        (pictures.equal, "Equal pixels"),
        (pictures.near, "Nearly equal pixels"),
        (pictures.closest, "Nearest by features"),
    ]
    if pictures.exposed:
        blocks.append(Paragraph("Pairs that are shown above are not shown again."))
    for pairs, title in galleries:
        blocks += picture_gallery(pairs, title, pictures.gravest)
    return blocks


def _lists(summary: SyntheticSummary) -> list[Block]:
    """Say which lists the numbers of held-out patients allow."""
    n, terms = summary.numbers, summary.numbers.terms
    if not summary.lists or n.listing is None or n.sets.held is None:
        return []
    columns = [
        Column(source="copied", heading=f"Copied {terms.units}", format="count", row_heading=True),
        number("share", "Of training", "percent"),
        Column(source="possible", heading="Could be listed", format="yes_no"),
        number("held_out_needed", f"Held-out {terms.units} needed", "count"),
    ]
    caption = "With these numbers no list is possible."
    if (shortest := n.listing.shortest_list_patients) <= n.sets.n_train_patients:
        caption = f"With these numbers a list names {terms.counted(shortest)} or more, or none."
    return [
        Heading("How short a list could be"),
        Paragraph(terms.fill(wording.SHORT_LISTS, n_held=count(n.sets.held.n_held_patients))),
        Table(frame=pd.DataFrame(to_json(one) for one in summary.lists), columns=columns, caption=caption),
    ]


def _kinds_table(result: Result, terms: Terms) -> Table:
    above = [number("above_half", "P > 0.5", "percent")]
    above = above if "above_half" in result.tables["kinds"] else []
    columns = [
        *_noticed_columns(terms),
        *above,
        number("median_distance", "Median distance"),
        words("what", "What was done", wide=True),
    ]
    return Table(
        frame=_kinds(result, required=True),
        columns=columns,
        caption=f"Planted copies found at the cut, by kind; one of each {terms.unit}.",
        elsewhere="tables/plants.parquet",
    )


def _noticed_columns(terms: Terms) -> list[Column]:
    return [
        words("kind", "Kind of copy", row=True),
        number("patients", terms.units.capitalize(), "count"),
        number("found", "Noticed", "count"),
        estimate("share", "Share [95 % interval]", "percent", "low", "high"),
    ]


def _kinds(result: Result, *, required: bool) -> pd.DataFrame:
    """Return the kinds that a pass is about, or the further ones; a run of before has required kinds alone."""
    table = result.tables["kinds"]
    if "required" not in table:
        return table if required else table.head(0)
    return rows(table, booleans(table, "required") == required)


def _also_tried(result: Result, terms: Terms) -> list[Block]:
    """Tabulate the kinds that are tried and not required, with the checks that noticed them."""
    table, every = _kinds(result, required=False), result.tables["kinds"]
    if not len(table):
        return []
    met = [
        words("kind", "Kind of copy", row=True),
        Column(source="required", heading="Required", format="yes_no"),
        number("planted", "Planted", "count"),
        number("by_pixels", "By pixels", "count"),
        number("by_singled_out", "Singled out", "count"),
        number("by_second_look", "Second look", "count"),
        number("missed", "Missed", "count"),
    ]
    return [
        Heading("Also tried, not required"),
        Paragraph(terms.fill(wording.ALSO_TRIED)),
        Table(
            frame=table,
            columns=[*_noticed_columns(terms), words("what", "What was done", wide=True)],
            caption=f"Also tried, not required: planted copies noticed, one of each {terms.unit}.",
            elsewhere="tables/plants.parquet",
        ),
        Table(
            frame=rows(every, column_numbers(every, "planted") > 0),
            columns=met,
            caption="What one copy of each kind would have met: planted copies by what noticed them, perhaps several "
            "checks, and those that were missed.",
        ),
    ]


def kinds_figure(result: Result, wanted: float) -> Figure:
    """Draw the share of planted copies that is noticed, by required kind.

    Args:
        result: Result of the audit.
        wanted: Share that the lower limit of each kind must reach.
    """
    table = _kinds(result, required=True)
    labels = [str(kind) for kind in table["kind"]]
    limits = column_numbers(table, "share"), column_numbers(table, "low"), column_numbers(table, "high")
    shares = [f"{kind}: {percent(share)}" for kind, share in zip(labels, limits[0], strict=True) if np.isfinite(share)]
    return Figure(
        svg=series_plot(
            labels, {"found": limits}, x_title="Share found, with 95 % interval", reference=wanted, cut=False
        ),
        title="Planted copies found, by kind",
        caption=f"The line is the {share(wanted)} that the lower end of every kind's interval must reach.",
        alternative="; ".join(shares) + ".",
    )


def _of(table: pd.DataFrame, detector: str) -> pd.DataFrame:
    """Return a detector's rows."""
    return rows(table, [name == detector for name in column_texts(table, "detector")])


def _reversed_figure(result: Result, detector: str, head: bool, terms: Terms) -> Figure:
    real = _of(result.tables["real_images"], detector)
    training = rows(real, [part == "training" for part in column_texts(real, "part")])
    pools = {
        f"training {terms.units}": group_values(column_numbers(training, "distance"), column_texts(training, "group"))
    }
    text: Text = f"Without held-out {terms.units} there is nothing to compare these distances with."
    marked = np.empty(0)
    if "held_out" in result.tables:
        pools[f"held-out {terms.units}"] = column_numbers(_of(result.tables["held_out"], detector), "distance")
        text = terms.fill(wording.REVERSED)
        listed = _of(result.tables["exposures"], detector)
        marked = (
            group_values(column_numbers(listed, "distance"), column_texts(listed, "group")) if len(listed) else marked
        )
    medians = [f"{name}: median {decimal(np.median(values))}" for name, values in pools.items()]
    title = f"{'Minus the logit' if head else 'Distance'} to the nearest synthetic image"
    return Figure(
        svg=distance_plot(pools, x_title=title, marked=marked, marked_as="listed"),
        title=f"How near the set comes to each of the {terms.units}",
        caption=text,
        alternative="; ".join(medians) + f"; {count(len(marked))} listed.",
    )


def _usual_figure(result: Result, detector: str, head: bool) -> Figure:
    real = _of(result.tables["real_images"], detector)
    held = [part == "held out" for part in column_texts(real, "part")]
    by_detector = result.tables.get("images_by_detector")
    generated = result.per_image if by_detector is None else _of(by_detector, detector)
    pools = {
        "generated": column_numbers(generated, "distance"),
        "held-out images": column_numbers(rows(real, held), "distance_to_training"),
    }
    if "plants" in result.tables:
        plants = _of(result.tables["plants"], detector)
        plants = rows(plants, booleans(plants, "required")) if "required" in plants else plants
        pools["planted copies"] = column_numbers(plants, "distance_nearest")
    nonempty = {name: values for name, values in pools.items() if len(values)}
    title = f"{'Minus the logit' if head else 'Distance'} to the nearest training image"
    return Figure(
        svg=distance_plot(nonempty, x_title=title),
        title="Generated, held-out and planted images",
        caption=wording.USUAL,
        alternative="; ".join(f"{name}: median {decimal(np.median(v))}" for name, v in nonempty.items()) + ".",
    )


def _published(found: Published, terms: Terms) -> list[dict[str, str]]:
    """Return one row per statistic: its value, the value for comparison, and what it cannot show."""
    statistics = []
    if (gap := found.wasserstein) is not None:
        beside = f"p {probability(gap.p_value)}, {count(gap.n_second)} held-out {terms.units}"
        statistics.append(("wasserstein", decimal(gap.distance), beside))
    if (c_t := found.c_t) is not None and not np.isnan(c_t.c_t):
        statistics.append(("c_t", decimal(c_t.c_t), f"p {probability(c_t.p)}"))
    share, new = found.authentic.share, found.authentic.of_new
    beside = f"held-out {terms.units} {percent(new.estimate)}" if new.trials else "no held-out images"
    limits = f"{percent(share.low)} to {percent(share.high)}"
    statistics.append(("authentic", f"{percent(share.estimate)} ({limits})", beside))
    return [
        {"statistic": wording.PUBLISHED[k][0], "value": v, "beside": b, "cannot": terms.fill(wording.PUBLISHED[k][1])}
        for k, v, b in statistics
    ]


def _pixel_counts(n: SyntheticNumbers, terms: Terms) -> Table:
    pixels, held = n.pixels, n.sets.held
    equal = {
        "what": "Synthetic images with the pixels of a real one",
        "training": pixels.n_certain_images + pixels.n_shared_images + pixels.n_dismissed_identical_images,
        "held": None if held is None else pixels.n_held_images,
    }
    near = {"training": pixels.n_near_train_patients, "held": pixels.n_near_held_patients}
    every = {"training": n.sets.n_train_patients, "held": None if held is None else held.n_held_patients}
    title = f"Real {terms.units}"
    counted = [equal, {"what": f"{title} with a nearly identical synthetic one", **near}, {"what": title, **every}]
    columns = [
        words("what", "Copies that pixels show", row=True),
        number("training", "Training", "count"),
        number("held", "Held out", "count"),
    ]
    return Table(frame=pd.DataFrame(counted), columns=columns, caption="Training images, with held-out ones as null.")


def _every_pair(result: Result, terms: Terms) -> Table:
    columns = [
        words("part", "Part", row=True),
        words("image", "Synthetic image"),
        words("real_image", "Real image"),
        *([words("group", "Patient")] if terms.units == "patients" else []),
        number("similarity", "Similarity"),
        Column(source="identical", heading="Same pixels", format="yes_no"),
        words("orientation", "The synthetic one taken"),
    ]
    return Table(
        frame=result.tables["pairs"],
        columns=columns,
        caption="Most similar first.",
        elsewhere="tables/pairs.parquet",
    )
