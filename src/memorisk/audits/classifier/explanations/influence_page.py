"""The page of self-influence: the images that trained the network most on themselves."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.report.blocks import (
    Block,
    Fact,
    Figure,
    Gallery,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Thumbnail,
    data_uri,
    number,
    words,
)
from memorisk.report.columns import column_numbers, column_texts, count, percent
from memorisk.report.figures.intervals import series_plot
from memorisk.report.first_screen import FirstScreen
from memorisk.report.glance import counts_of, short_name
from memorisk.runs.errors import one_line, plural
from memorisk.scores.influence import SelfInfluence

MOST_SHOWN, MOST_DRAWN = 6, 8
"""Largest numbers of images in the gallery of the first screen, and in the figure."""
TABLE = "influence.parquet"
"""The file of the whole table, in the folder of the page."""


def influence_page(
    influence: SelfInfluence, table: pd.DataFrame, pixels: list[np.ndarray] | None = None, *, most: int = 48
) -> Page:
    """Lay out the most influential images.

    Args:
        influence: Result of `memorisk.scores.influence.self_influence`.
        table: A row for each image, the most influential first.
        pixels: Pixels of the first of these images, in this order; None for no pictures.
        most: Images on the page.
    """
    top = table.head(most)
    half = int(np.searchsorted(np.cumsum(table["share"].to_numpy(dtype=float)), 0.5)) + 1
    screen = FirstScreen(
        kind="note",
        headline=f"Half of all self-influence is that of {plural(half, 'image', 'images')} of {count(len(table))}",
        sentences=[
            "Look at the most influential images before anything is removed: wrong labels, damaged images and images "
            "with a mark of their own rank high; so do rare and difficult ones.",
            "Self-influence is how much the training on an image changed the loss of that very image: the sum over "
            "checkpoints of the learning rate times the squared gradient norm (TracInCP).",
        ],
        facts=[
            Fact("Images", count(len(table))),
            Fact("Checkpoints", count(len(influence.lrs))),
            Fact("Weights", count(influence.weights)),
        ],
    )
    first = [_share_figure(table)] if pixels is None else [Gallery(items=_thumbnails(pixels, top)[:MOST_SHOWN],
             caption="The most influential images, each with its share of all self-influence.")]  # fmt: skip
    columns = [
        words("image", "Image", row=True),
        words("label", "Label"),
        number("self_influence", "Self-influence"),
        number("share", "Share of all", "percent"),
        number("rank_in_class", "Rank in its class", "count"),
    ]
    blocks: list[Block] = [Table(frame=top, columns=columns, caption="The most influential first.", elsewhere=TABLE)]
    if pixels is not None:
        blocks.insert(0, _share_figure(table))
        blocks.insert(0, Gallery(items=_thumbnails(pixels, top), caption="The most influential first."))
    sections = [Section("The most self-influential images", blocks, "images")]
    if influence.fallback:
        steps = [Name(f"{name}: {one_line(why, 160)}") for name, why in influence.fallback.items()]
        text = f"Gradients of these weights were taken one image at a time ({influence.fallback_method}):"
        sections.append(Section("How it was computed", [Paragraph(text), Steps(steps)], "how"))
    return Page(
        title="Which images trained the network most on themselves?",
        subtitle="Self-influence, for cleaning data",
        lead=screen.blocks(first),
        sections=sections,
        footer=[Paragraph("This file names images: handle it as personal data. It asks for no network.")],
    )


def _thumbnails(pixels: Sequence[np.ndarray], top: pd.DataFrame) -> list[Thumbnail]:
    """Show images, each with its class and its share."""
    return [
        Thumbnail(
            data_uri=data_uri(image),
            caption=[short_name(row["image"]), ["class ", short_name(row["label"])], percent(row["share"])],
            alternative="Training image that is named below",
        )
        for image, row in zip(pixels, top.to_dict("records"), strict=True)
    ]


def _share_figure(table: pd.DataFrame) -> Figure:
    """Draw the shares of the most influential images."""
    top = table.head(MOST_DRAWN)
    shares = column_numbers(top, "share")
    svg = series_plot(
        column_texts(top, "image"), {"share": counts_of(100 * shares)}, x_title="Share of self-influence, in percent",
        sublabels=[f"class {label}" for label in column_texts(top, "label")],
    )  # fmt: skip
    words = f"The first {len(top)} images have {percent(shares.sum())} of all self-influence."
    return Figure(svg=svg, title="The most influential images", caption="", alternative=words)
