"""Sections of the synthetic report with numbers: power, distances, single images, closest pairs."""

import numpy as np
import pandas as pd

from memorisk.audits.synthetic import words
from memorisk.audits.synthetic.pictures import Pictures
from memorisk.report.blocks import (
    Block,
    Column,
    Details,
    Figure,
    Gallery,
    Heading,
    Name,
    Paragraph,
    Table,
    Text,
    Thumbnail,
)
from memorisk.report.distance_figure import distance_plot
from memorisk.report.formats import count, decimal, percent, probability
from memorisk.report.frames import numbers, rows, truths
from memorisk.report.result import Result
from memorisk.report.series_figure import series_plot
from memorisk.report.thumbnails import data_uri

_STRIP = 420
_MOST = 25


def power_section(result: Result, redact: bool) -> list[Block]:
    """What would have been found: planted copies by kind, and which lists were possible."""
    n = result.summary["numbers"]
    units = str(n["units"])
    blocks: list[Block] = []
    if n["recall"] is None:
        blocks.append(Paragraph(_no_power(result)))
    else:
        blocks.append(Paragraph(words.POWER.format(units=units, copied=count(n["copied"]))))
        blocks.append(Paragraph([f"{n['promise'][:1].upper()}{n['promise'][1:]}."]))
        blocks += [_kinds_table(result), _kinds_figure(result)]
        if n["copies_bound"] is not None:
            blocks.append(
                Paragraph(
                    f"{count(n['n_found_at_cut'])} of {count(n['n_synthetic'])} synthetic images lie as near to a "
                    f"training {units.removesuffix('s')} as the cut asks. At most {percent(n['copies_bound'])} of the set "
                    "are copies of the planted kinds, if its images were drawn independently."
                )
            )
    if lists := result.summary["lists"]:
        frame = pd.DataFrame(lists)
        columns = [
            Column(source="copied", heading=f"Copied {units}", format="count", row_heading=True),
            Column(source="share", heading="Of training", format="percent"),
            Column(source="possible", heading="Could be listed", format="yes_no"),
            Column(source="held_out_needed", heading=f"Held-out {units} needed", format="count"),
        ]
        caption = (
            f"A list has {count(n['shortest_list'])} {units} or none, with these numbers."
            if n["shortest_list"] <= n["n_train_patients"]
            else "With these numbers no list is possible."
        )
        blocks += [
            Heading("How short a list could be"),
            Paragraph(
                f"A p-value is no smaller than 1 / ({count(n['n_held_patients'])} + 1), however near a copy is. Few copied "
                f"{units} can be listed only beside many held-out ones."
            ),
            Table(frame=frame, columns=columns, caption=caption),
        ]
    return blocks


def distance_section(result: Result) -> list[Block]:
    """The comparison that counts, figure 3, and the published statistics beside them."""
    n = result.summary["numbers"]
    units = str(n["units"])
    unit = units.removesuffix("s")
    blocks: list[Block] = [Heading(f"From real {units} to the synthetic set"), _reversed_figure(result)]
    blocks += [Heading("From images to the training set"), _usual_figure(result)]
    found = []
    for key, value, interval in _published(result):
        name, cannot = words.PUBLISHED[key]
        found.append({"statistic": name, "value": value, "beside": interval, "cannot": cannot.format(units=units)})
    columns = [
        Column(source="statistic", heading="Statistic", row_heading=True),
        Column(source="value", heading="Value"),
        Column(source="beside", heading="Beside it"),
        Column(source="cannot", heading="What it cannot tell", wide=True),
    ]
    caption = f"Published statistics. None of them is used for the verdict: they find a {unit} copied where nobody is."
    return [
        *blocks,
        Heading("Statistics of the literature"),
        Table(frame=pd.DataFrame(found), columns=columns, caption=caption),
    ]


def describing_section(result: Result, redact: bool) -> list[Block]:
    """The columns of single synthetic images, nearest first."""
    n = result.summary["numbers"]
    units = str(n["units"])
    table = result.per_image.sort_values(["distance", "image"], kind="stable")
    columns = [
        *([] if redact else [Column(source="image", heading="Synthetic image", row_heading=True)]),
        *([] if redact else [Column(source="nearest_image", heading="Nearest training image")]),
        *([] if redact or units == "images" else [Column(source="nearest_group", heading="Its patient")]),
        Column(source="distance", heading="Distance", format="decimal"),
        Column(source="second_ratio", heading="Second-neighbour ratio", format="short"),
        *_with_null(n),
        Column(source="similarity", heading="Similarity of details", format="short"),
    ]
    shown = Table(
        frame=table.head(_MOST),
        columns=columns,
        caption=f"The {min(_MOST, len(table))} synthetic images that lie nearest to a training image.",
        elsewhere="per_image.parquet",
    )
    blocks: list[Block] = [Paragraph(words.NEARER.format(units=units, unit=units.removesuffix("s"))), shown]
    if len(result.per_class):
        columns = [
            Column(source="label", heading="Class", row_heading=True),
            Column(source="n_training", heading="Training images", format="count"),
            Column(source="n_synthetic", heading="Synthetic images", format="count"),
            Column(source="n_exposing", heading="Exposing somebody", format="count"),
        ]
        by_class = Table(frame=result.per_class, columns=columns, caption="Counts by class; no test.")
        blocks.append(Details("By class", [by_class]))
    return blocks


def pair_section(result: Result, pictures: Pictures | None, redact: bool) -> list[Block]:
    """Equal and nearly equal pixels, training beside held out, and pictures where they were asked for."""
    n, pairs = result.summary["numbers"], result.tables["pairs"]
    units = str(n["units"])
    counted = [
        {"what": "Synthetic images with the same pixels as an image", "training": n["n_certain_copies"] + n["n_shared_pixels"], "held": n["n_held_copies"] if n["n_held_patients"] is not None else np.nan},
        {"what": f"{units.capitalize()} with a nearly identical synthetic image", "training": n["n_near_train"], "held": n["n_near_held"]},
        {"what": f"{units.capitalize()} in all", "training": n["n_train_patients"], "held": n["n_held_patients"]},
    ]  # fmt: skip
    columns = [
        Column(source="what", heading="Pairs by pixels", row_heading=True),
        Column(source="training", heading="Training", format="count"),
        Column(source="held", heading="Held out", format="count"),
    ]
    text = (
        "Besides the features, the details of 32 x 32 thumbnails were compared, as they are and mirrored; nearly identical "
        "means a correlation of 0.95 or more. Below about 30 pixels a side simple shapes reach that without being copies: "
        "the column of held-out images says how often."
    )
    if n["near_p"] is not None:
        text += f" By chance so many of them would be training {units} with p {probability(n['near_p'])}."
    if n["n_shared_pixels"]:
        text += f" {count(n['n_shared_pixels'])} of the equal ones are held-out images as well: they are nobody's for certain."
    blocks: list[Block] = [
        Paragraph(text),
        Table(frame=pd.DataFrame(counted), columns=columns, caption="Copies that pixels show."),
    ]
    if len(pairs) and not redact:
        shown = [
            Column(source="part", heading="Part", row_heading=True),
            Column(source="image", heading="Synthetic image"),
            Column(source="real_image", heading="Real image"),
            Column(source="group", heading=units.removesuffix("s").capitalize()),
            Column(source="similarity", heading="Similarity", format="decimal"),
            Column(source="identical", heading="Same pixels", format="yes_no"),
            Column(source="mirrored", heading="Mirrored", format="yes_no"),
        ]
        every = Table(frame=pairs, columns=shown, caption="Most similar first.", elsewhere="tables/pairs.parquet")
        blocks.append(Details("Every pair", [every]))
    if pictures is None:
        return [*blocks, Paragraph("Pictures are shown only when a gallery was asked for.")] if not redact else blocks
    if pictures.copies:
        blocks.append(picture_gallery(pictures.copies, "Equal or nearly equal: training, synthetic, difference."))
    return [
        *blocks,
        picture_gallery(pictures.closest, "Nearest by features: training image, synthetic image, their difference."),
    ]


def picture_gallery(strips: dict[tuple[str, str], np.ndarray], caption: str) -> Gallery:
    """Strips of three pictures with the ids of a pair."""
    items = [
        Thumbnail(
            data_uri=data_uri(pixels, side=_STRIP),
            caption=[["training ", Name(real)], ["synthetic ", Name(synthetic)]],
            alternative="A training image, a synthetic image and their difference, named below",
        )
        for (real, synthetic), pixels in strips.items()
    ]
    return Gallery(items=items, caption=caption)


def _no_power(result: Result) -> str:
    n = result.summary["numbers"]
    if n["n_held_patients"] is None:
        return (
            "Without held-out images there is no cut at which a copy counts as found, so that nothing can be said of how "
            "many would have been."
        )
    if n["saved_features"]:
        return (
            "The features were computed elsewhere, so that no known copies could be hidden among the images: what would "
            "have been found is not known, and the audit cannot pass."
        )
    return "No known copies were hidden in the set: what would have been found is not known, and the audit cannot pass."


def _kinds_table(result: Result) -> Table:
    units = str(result.summary["numbers"]["units"])
    columns = [
        Column(source="kind", heading="Kind of copy", row_heading=True),
        Column(source="patients", heading=units.capitalize(), format="count"),
        Column(source="found", heading="Found", format="count"),
        Column(source="share", heading="Share [95 % interval]", format="percent", interval=("low", "high")),
        Column(source="median_distance", heading="Median distance", format="decimal"),
        Column(source="what", heading="What was done", wide=True),
    ]
    return Table(
        frame=result.tables["kinds"],
        columns=columns,
        caption=f"Planted copies found at the cut, by kind; one a {units.removesuffix('s')}.",
        elsewhere="tables/plants.parquet",
    )


def _kinds_figure(result: Result) -> Figure:
    table = result.tables["kinds"]
    labels = [str(kind) for kind in table["kind"]]
    share, low, high = (numbers(table, c) for c in ("share", "low", "high"))
    wanted = float(result.summary["settings"]["recall"])
    return Figure(
        svg=series_plot(
            labels,
            {"found": (share, low, high)},
            x_title="Share found, with 95 % interval",
            reference=wanted,
            cut=False,
        ),
        title="Planted copies found, by kind",
        caption=f"The line is the {wanted:.0%} that a pass asks for all kinds together.",
        alternative="; ".join(f"{k}: {percent(s)}" for k, s in zip(labels, share, strict=True) if np.isfinite(s)) + ".",
    )


def _reversed_figure(result: Result) -> Figure:
    n, train = result.summary["numbers"], result.per_group
    units = str(n["units"])
    pools = {f"training {units}": numbers(train, "distance")}
    text: Text = words.REVERSED.format(units=units, unit=units.removesuffix("s"))
    said = [f"Training {units}: median {decimal(np.median(pools[f'training {units}']))}"]
    if "held_out" in result.tables:
        pools[f"held-out {units}"] = numbers(result.tables["held_out"], "distance")
        said.append(f"held-out {units}: median {decimal(np.median(pools[f'held-out {units}']))}")
    else:
        text = f"Without held-out {units} there is nothing to compare these distances with."
    marked = numbers(rows(train, truths(train, "listed")), "distance")
    return Figure(
        svg=distance_plot(
            pools,
            x_title="Distance to the nearest synthetic image",
            marked=marked,
            marked_name="listed" if len(marked) else "",
        ),
        title=f"How near the set comes to each of the {units}",
        caption=text,
        alternative="; ".join(said) + f"; {count(len(marked))} listed.",
    )


def _usual_figure(result: Result) -> Figure:
    real = result.tables["real_images"]
    pools = {
        "generated": numbers(result.per_image, "distance"),
        "planted copies": numbers(result.tables["plants"], "distance_nearest")
        if "plants" in result.tables
        else np.empty(0),
        "held-out images": numbers(rows(real, real["part"] == "held out"), "distance_to_training"),
    }
    known = {name: values for name, values in pools.items() if len(values)}
    return Figure(
        svg=distance_plot(known, x_title="Distance to the nearest training image"),
        title="Generated, planted and held-out images",
        caption=words.USUAL,
        alternative="; ".join(f"{name}: median {decimal(np.median(v))}" for name, v in known.items()) + ".",
    )


def _with_null(n: dict) -> list[Column]:
    """The columns that held-out images allow."""
    if n["n_held_patients"] is None:
        return []
    return [
        Column(source="nearer_than_new", heading=f"Nearer than new {n['units']}", format="percent"),
        Column(source="p_listed", heading="p if it were a copy", format="probability"),
    ]


def _published(result: Result) -> list[tuple[str, str, str]]:
    """Key, value and what stands beside it."""
    s = result.summary
    units = str(s["numbers"]["units"])
    told = []
    if gap := s["wasserstein"]:
        told.append(("wasserstein", decimal(gap["distance"]), f"p {probability(gap['p_value'])}, {count(gap['n_second'])} held-out {units}"))  # fmt: skip
    if (c_t := s["c_t"]) and c_t["c_t"] is not None:
        told.append(("c_t", decimal(c_t["c_t"]), f"p {probability(c_t['p'])}"))
    share, new = s["authentic"]["share"], s["authentic"]["of_new"]
    beside = f"held-out {units} {percent(new['estimate'])}" if new["trials"] else "no held-out images"
    told.append(
        ("authentic", f"{percent(share['estimate'])} ({percent(share['low'])} to {percent(share['high'])})", beside)
    )
    return told
