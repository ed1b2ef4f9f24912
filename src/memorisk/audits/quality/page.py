"""The page of ``memorisk quality``: the figures beside their reference, what they mean, what was trained, the setup."""

from typing import TYPE_CHECKING

import pandas as pd

from memorisk.audits.quality import words
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Definitions,
    Fact,
    Facts,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
)
from memorisk.report.formats import count
from memorisk.report.frames import rows, texts
from memorisk.runs.errors import several

if TYPE_CHECKING:  # it lays itself out by this module
    from memorisk.audits.quality.quality import Quality


def quality_page(found: "Quality") -> Page:
    """Lay out the figures; the same figures give the same page."""
    sections = [
        Section("Figures", _figures(found), "figures"),
        *(
            []
            if found.transfer is None
            else [Section("Train on synthetic, test on real", _transfer(found), "transfer")]
        ),
        Section("What the figures mean", _meanings(found), "meaning"),
        Section("How it was done", _setup(found), "setup"),
    ]
    return Page(
        title="How good are the synthetic images?",
        subtitle="Figures of quality, with their features and numbers of images",
        lead=_lead(found),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id.")],
    )


def _lead(found: "Quality") -> list[Block]:
    n = found.numbers
    reference = Paragraph(words.COMPARE if n["held_out_images"] else words.NO_REFERENCE)
    held = f"{count(n['held_out_patients'])} patients" if n["held_out_images"] else "none given"
    facts = [
        Fact("Training images", count(n["training_images"]), f"{count(n['training_patients'])} patients"),
        Fact("Synthetic images", count(n["synthetic_images"])),
        Fact("Held-out images", count(n["held_out_images"]), held),
    ]
    return [Callout("note", "Quality is not privacy", [Paragraph(words.NOT_PRIVACY)]), reference, Facts(facts)]


def _figures(found: "Quality") -> list[Block]:
    """A table a feature space, and what is to be said of it."""
    blocks: list[Block] = []
    for features, own in found.figures.groupby("features", sort=False):
        name = str(features)
        if name.startswith(("pixels", "pca")):
            blocks.append(Callout("warning", ["In ", Name(name)], [Paragraph(words.WEAK)]))
        if "random weights" in name:
            blocks.append(Callout("warning", ["In ", Name(name)], [Paragraph(words.RANDOM)]))
        blocks.append(_table(own, bool(found.numbers["held_out_images"])))
    blocks.append(Paragraph(words.INTERVAL))
    missing = rows(found.figures, found.figures["low"].isna().to_numpy())
    if len(missing):
        named = zip(texts(missing, "name"), texts(missing, "method"), strict=True)
        reasons: list[Text] = [[Name(name), ": ", Name(why)] for name, why in named]
        blocks.append(Steps(reasons))
    if found.numbers["training_images"] > found.numbers["training_patients"]:
        blocks.append(Paragraph(words.CLUSTERED))
    return blocks


def _table(own: pd.DataFrame, referenced: bool) -> Table:
    columns = [
        Column(source="name", heading="Figure", row_heading=True, wide=True),
        Column(source="better", heading="Better"),
        _with_limits("estimate", "All synthetic", "low", "high"),
    ]
    if referenced:
        columns += [
            _with_limits("same_number", "As many synthetic"),
            _with_limits("reference", "Held-out real"),
            Column(source="n_reference", heading="Images of these two", format="count"),
        ]
    caption = f"Intervals of {100 * float(own['level'].iloc[0]):g} % in brackets."
    return Table(frame=own, columns=columns, caption=caption, elsewhere="tables/quality.parquet")


def _with_limits(source: str, heading: str, low: str = "", high: str = "") -> Column:
    interval = (low or f"{source}_low", high or f"{source}_high")
    return Column(source=source, heading=heading, format="power", interval=interval)


def _transfer(found: "Quality") -> list[Block]:
    assert found.transfer is not None
    row = found.transfer.iloc[0]
    columns = [
        Column(source="measure", heading="On held-out real patients", row_heading=True),
        _with_limits("synthetic", "Trained on synthetic"),
        _with_limits("real", "Trained on real"),
        _with_limits("difference", "Difference"),
    ]
    said = (
        f"{row['classifier']}, {several(int(row['n_trainings']), 'training', 'trainings')} of each on "
        f"{several(int(row['n_train']), 'image', 'images')}; tested "
        f"on {count(row['n_test'])} images of {count(row['n_patients'])} patients."
    )
    warned = [Paragraph(text) for text in words.transfer_warnings(row)]
    blocks: list[Block] = [
        *([Callout("warning", "This comparison says less than its numbers", warned)] if warned else []),
        Paragraph(words.TRANSFER),
        Table(frame=found.transfer, columns=columns, caption=said, elsewhere="tables/train_on_synthetic.parquet"),
    ]
    if int(row["n_trainings"]) == 1:
        blocks.append(Callout("note", "One training of each", [Paragraph(words.ONE_TRAINING)]))
    return blocks


def _meanings(found: "Quality") -> list[Block]:
    measured = set(found.figures["figure"])
    items: list[tuple[Text, Text]] = [(name, said) for name, said in words.MEANING.items() if name in measured]
    return [Definitions(items)]


def _setup(found: "Quality") -> list[Block]:
    items: list[tuple[Text, Text]] = [(Name(name), Name(said)) for name, said in found.described.items()]
    blocks: list[Block] = [Definitions(items)]
    if not found.numbers["patients_given"]:
        text = (
            "No patients were given with some of the images, so that every image stands for itself: intervals are too "
            "narrow if patients have several. Name patients with --group-from or --group-column."
        )
        blocks.append(Callout("note", "Patients were not given", [Paragraph(text)]))
    if found.notes:
        blocks.append(Steps([Name(note) for note in found.notes]))
    return blocks
