"""The page of self-influence: the images that trained the network most on themselves."""

import numpy as np
import pandas as pd

from memorisk.report.blocks import (
    Block,
    Callout,
    Fact,
    Facts,
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
from memorisk.report.columns import count
from memorisk.runs.errors import one_line
from memorisk.scores.influence import SelfInfluence

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
    facts = [
        Fact("Images", count(len(table))),
        Fact("Checkpoints", count(len(influence.lrs))),
        Fact("Weights", count(influence.weights)),
        Fact("Half of all self-influence", f"{count(half)} images"),
    ]
    text = (
        "Self-influence is how much the training on an image changed the loss of that very image: the sum over "
        "checkpoints of the learning rate times the squared gradient norm (TracInCP). Wrong labels, damaged images and "
        "images with a mark of their own rank high; so do rare and difficult ones. Look before anything is removed."
    )
    lead: list[Block] = [Callout("note", "What to look at first", [Paragraph(text)]), Facts(facts)]
    columns = [
        words("image", "Image", row=True),
        words("label", "Label"),
        number("self_influence", "Self-influence"),
        number("share", "Share of all", "percent"),
        number("rank_in_class", "Rank in its class", "count"),
    ]
    blocks: list[Block] = [Table(frame=top, columns=columns, caption="The most influential first.", elsewhere=TABLE)]
    if pixels is not None:
        items = [
            Thumbnail(data_uri=data_uri(image), caption=[Name(row["image"]), ["class ", Name(row["label"])]])
            for image, row in zip(pixels, top.to_dict("records"), strict=True)
        ]
        blocks.insert(0, Gallery(items=items, caption="The most influential first."))
    sections = [Section("The most self-influential images", blocks, "images")]
    if influence.fallback:
        steps = [Name(f"{name}: {one_line(why, 160)}") for name, why in influence.fallback.items()]
        text = f"Gradients of these weights were taken one image at a time ({influence.fallback_method}):"
        sections.append(Section("How it was computed", [Paragraph(text), Steps(steps)], "how"))
    return Page(
        title="Which images trained the network most on themselves?",
        subtitle="Self-influence, for cleaning data",
        lead=lead,
        sections=sections,
        footer=[Paragraph("This file names images: handle it as personal data. It asks for no network.")],
    )
