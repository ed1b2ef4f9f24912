"""The most self-influential images on one page: where mislabelled, damaged and marked ones gather (paper 002, 2.4)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
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
)
from memorisk.report.columns import count
from memorisk.report.page import render_page
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_table, write_text
from memorisk.runs.folder import check_out_folder
from memorisk.scores.influence import SelfInfluence

PAGE, TABLE = "influence.html", "influence.parquet"


def influence_view(
    found: SelfInfluence,
    images: Sequence[str],
    labels: Sequence[str],
    *,
    out: str | Path,
    pixels: np.ndarray | None = None,
    most: int = 48,
) -> pd.DataFrame:
    """Write a table of all images by self-influence, and a page of the most influential ones.

    Args:
        found: From `memorisk.scores.influence.self_influence`.
        images: [N] ids.
        labels: [N] classes.
        out: A new or empty folder.
        pixels: [N, H, W, C] stored images, to show pictures of those on the page; None for none.
        most: Images on the page.

    Returns:
        A row an image, the most influential first: ``image, label, self_influence, share, rank_in_class``.

    Raises:
        InputError: Lengths differ, or the folder holds other files.
    """
    n = len(found.values)
    if len(images) != n or len(labels) != n or (pixels is not None and len(pixels) != n):
        raise InputError(f"self-influence is of {n:,} images: give as many ids, labels and pixels")
    if not most >= 1:
        raise InputError(f"most is {most}; it must be at least 1")
    folder = Path(out)
    check_out_folder(folder, {}, identity=[])
    order = found.top(n)
    table = pd.DataFrame({"image": [str(v) for v in images], "label": [str(v) for v in labels]})
    table["self_influence"] = found.values
    table["share"] = found.values / max(float(found.values.sum()), np.finfo(float).tiny)
    table["rank_in_class"] = table.groupby("label")["self_influence"].rank(ascending=False, method="first").astype(int)
    table = table.iloc[order].reset_index(drop=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_table(folder / TABLE, table)
    shown = None if pixels is None else [np.asarray(pixels[row]) for row in order[:most]]
    write_text(folder / PAGE, render_page(_page(found, table, shown, most)))
    return table


def _page(found: SelfInfluence, table: pd.DataFrame, pixels: list[np.ndarray] | None, most: int) -> Page:
    top = table.head(most)
    half = int(np.searchsorted(np.cumsum(table["share"].to_numpy(dtype=float)), 0.5)) + 1
    facts = [
        Fact("Images", count(len(table))),
        Fact("Checkpoints", count(len(found.lrs))),
        Fact("Weights", count(found.weights)),
        Fact("Half of all self-influence", f"{count(half)} images"),
    ]
    text = (
        "Self-influence is how much the training on an image changed the loss of that very image: the sum over "
        "checkpoints of the learning rate times the squared gradient norm (TracInCP). Wrong labels, damaged images and "
        "images with a mark of their own stand high; so do rare and difficult ones. Look before anything is removed."
    )
    lead: list[Block] = [Callout("note", "What to look at first", [Paragraph(text)]), Facts(facts)]
    columns = [
        Column(source="image", heading="Image", row_heading=True),
        Column(source="label", heading="Label"),
        Column(source="self_influence", heading="Self-influence", format="decimal"),
        Column(source="share", heading="Share of all", format="percent"),
        Column(source="rank_in_class", heading="Rank in its class", format="count"),
    ]
    shown: list[Block] = [Table(frame=top, columns=columns, caption="The most influential first.", elsewhere=TABLE)]
    if pixels is not None:
        items = [
            Thumbnail(data_uri=data_uri(image), caption=[Name(row["image"]), ["class ", Name(row["label"])]])
            for image, row in zip(pixels, top.to_dict("records"), strict=True)
        ]
        shown.insert(0, Gallery(items=items, caption="The most influential first."))
    sections = [Section("The most self-influential images", shown, "images")]
    if found.fallback:
        told = [Name(f"{name}: {one_line(why, 160)}") for name, why in found.fallback.items()]
        text = f"Gradients of these weights were taken one image at a time ({found.fallback_method}):"
        sections.append(Section("How it was computed", [Paragraph(text), Steps(told)], "how"))
    return Page(
        title="Which images trained the network most on themselves?",
        subtitle="Self-influence, for cleaning data",
        lead=lead,
        sections=sections,
        footer=[Paragraph("This file names images: handle it as personal data. It asks for no network.")],
    )
