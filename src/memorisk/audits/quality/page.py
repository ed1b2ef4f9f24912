"""The page of ``memorisk quality``: the figures with their reference, their meaning, the trainings, the setup.

The fixed wording defines each figure, the meaning of its interval, and its limits.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from memorisk.audits.quality.result import Quality
from memorisk.report.blocks import (
    Block,
    Callout,
    Definitions,
    Fact,
    Figure,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
    estimate,
    number,
    words,
)
from memorisk.report.columns import capitalized, column_numbers, column_texts, count, percent, rows
from memorisk.report.figures.intervals import series_plot
from memorisk.report.first_screen import FirstScreen
from memorisk.report.glance import limits_of
from memorisk.runs.errors import plural

MEANING: dict[str, str] = {
    "FID": "Distance of the means and covariances of the features; 0 where they are equal. Lower is better. It falls "
    "with the number of images, so that figures at different numbers do not compare.",
    "KID": "Distance of the distributions by a cubic kernel, over all pairs; about 0 for images of one distribution, "
    "and negative half of the time there. Lower is better. Its mean does not depend on the number of images, where "
    "each patient has one.",
    "MiFID": "FID, divided by the mean distance of a synthetic image to the nearest training image where that is below "
    "0.1. The threshold is that of a competition, for Inception features. It is no test of copying: one copied "
    "patient among thousands does not move it.",
    "precision": "Share of the synthetic images that lie among the training images (k = 3): are they realistic?",
    "recall": "Share of the training images that lie among the synthetic ones (k = 3): is everything there?",
    "density": "Mean number of neighbourhoods of training images about a synthetic one, over k (k = 5); 1 where the "
    "two are alike, above 1 where synthetic images crowd where training images are densest.",
    "coverage": "Share of the training images with a synthetic image in their neighbourhood (k = 5).",
    "IRS": "Share of the training images within reach: as many as an even draw would need for so many different "
    "nearest neighbours. 1 where more cannot be excluded.",
}
"""Meaning of each figure, in the order of the table."""

NOT_PRIVACY = (
    "These figures do not tell whether patients are exposed: copies of the training images would have the best figures "
    "of all. Run memorisk audit synthetic to learn whether patients are copied."
)
COPIES = "Copies of the training images have FID and KID near 0, and precision, recall and coverage near 1."
COMPARE = (
    "To judge the images, compare the column “As many synthetic” with the column “Held-out real”: both are measured "
    "against the same training images, at the same number of images. A perfect generator, which draws new patients "
    "from the population, would come near “Held-out real”. A better figure is no improvement: the images are then "
    "nearer to the training images than new patients are, as copies would be."
)
NO_REFERENCE = (
    "No held-out images were given, so the figures cannot be judged: what a perfect generator would get at these "
    "numbers of images is not known. Name held-out images with --held-out or --held-out-split."
)
IDS = "Numbers of patients and all intervals take each patient id for one person."
INTERVAL = (
    "An interval is about this figure at these numbers of images: what other images of the same generator, and other "
    "patients of the same population, would give on average. Units are patients on the real side and single images on "
    "the synthetic one. It is not about the figure that ever more images would approach, nor about what another "
    "training of the generator would give."
)
TRANSFER = (
    "Two networks a seed, by the same recipe: one trained on synthetic images, one on as many real ones. Both are "
    "asked about the same held-out patients. Intervals are over patients and trainings."
)
ONE_TRAINING = (
    "With one training of each, the interval speaks of these two networks only; --classifier-seeds trains more."
)
WEAK = (
    "Pixels and their components judge shapes and greys and little else: such figures rank sets of one kind of image, "
    "and do not compare with published ones, which are of a network. Name one with --features (docs/features.md)."
)
RANDOM = "The network has random weights: its figures are for trying the command out."
CLUSTERED = (
    "Several images of one patient lie near each other, so that the neighbourhoods about them are small: precision, "
    "recall, density and coverage are lower than with one image per patient, for the reference and the synthetic set."
)


SHARES = ("precision", "recall", "coverage", "IRS")
"""Figures that are shares, so that one axis holds all of them."""


def transfer_warnings(row: Mapping[str, Any]) -> list[str]:
    """List the limits of a comparison of classifiers trained on synthetic and on real images.

    Args:
        row: Row of the table of `memorisk.audits.quality.transfer.run_transfer`; all its rows say the same.
    """
    warnings = []
    for arm in ("synthetic", "real"):
        if missing := row[f"missing_{arm}"]:
            warnings.append(
                f"No {arm} image that was trained on has the label {missing}: these networks never learned it, and "
                "their AUC of that label is none of what they learned."
            )
        if n := int(row[f"one_answer_{arm}"]):
            networks = plural(row["n_trainings"], "network", "networks")
            warnings.append(
                f"Of the {networks} trained on {arm} images {n:,} gave every held-out image the same class: a balanced "
                "accuracy of guessing, whatever the images are worth, and without an interval where all networks do "
                "so. Train longer (--classifier-epochs) or name another network."
            )
    return warnings


def quality_page(found: Quality) -> Page:
    """Lay out the figures; the same figures give the same page."""
    sections = [
        Section("Figures", _figures(found), "figures"),
        *(
            []
            if found.transfer is None
            else [Section("Train on synthetic, test on real", _transfer(found.transfer), "transfer")]
        ),
        Section("What the figures mean", _meanings(found), "meaning"),
        Section("How it was done", _setup(found), "setup"),
    ]
    return Page(
        title="How good are the synthetic images?",
        lead=first_screen(found).blocks(_glance(found)),
        sections=sections,
        footer=[Paragraph("This page holds no image and no id.")],
    )


def first_screen(found: Quality) -> FirstScreen:
    """Show that quality is no privacy, how to read the figures, and the figures themselves.

    Args:
        found: Result of the measurements.
    """
    n = found.numbers
    doubts = [f"{capitalized(one.text)}: {one.remedy}. {IDS}" for one in n.ids.reasons]
    held = plural(n.held_out_patients, "patient", "patients") if n.held_out_images else "none given"
    return FirstScreen(
        kind="note",
        headline="Quality is not privacy",
        sentences=[NOT_PRIVACY, COMPARE if n.held_out_images else NO_REFERENCE],
        warnings={"It is not certain who is who": " ".join(doubts)} if doubts else {},
        facts=[
            Fact("Training images", count(n.training_images), plural(n.training_patients, "patient", "patients")),
            Fact("Synthetic images", count(n.synthetic_images)),
            Fact("Held-out images", count(n.held_out_images), held),
        ],
        tables=[*_tables(found), *([] if found.transfer is None else [_transfer_table(found.transfer)])],
        notes=[] if found.transfer is None else transfer_warnings(found.transfer.iloc[0]),
    )


def _glance(found: Quality) -> list[Block]:
    """Draw the figures that are shares, of the synthetic images and of as many held-out real ones."""
    first = rows(found.figures, [name == found.figures["features"].iloc[0] for name in found.figures["features"]])
    shares = rows(first, [name in SHARES for name in column_texts(first, "figure")])
    if not len(shares):
        return []
    labels = column_texts(shares, "figure")
    names = {"synthetic": "same_number"} | ({"held-out real": "reference"} if found.numbers.held_out_images else {})
    series, spoken = {}, list[str]()
    for title, name in names.items():
        series[title] = limits_of(shares, name)
        values = column_numbers(shares, name)
        spoken += [f"{label}, {title}: {percent(v)}" for label, v in zip(labels, values, strict=True)]
    return [
        Figure(
            svg=series_plot(labels, series, x_title="Share, with interval", reference=None, cut=False),
            title="Synthetic images, and as many held-out ones",
            caption="",
            alternative=f"{'; '.join(spoken)}.",
        )
    ]


def _tables(found: Quality) -> list[Table]:
    """Return the table of each feature space."""
    spaces = found.figures.groupby("features", sort=False)
    return [_table(own, bool(found.numbers.held_out_images)) for _, own in spaces]


def _figures(found: Quality) -> list[Block]:
    """Lay out a table for each feature space, with its limits."""
    blocks: list[Block] = []
    for features, own in found.figures.groupby("features", sort=False):
        name = str(features)
        if name.startswith(("pixels", "pca")):
            blocks.append(Callout("warning", ["In ", Name(name)], [Paragraph(WEAK)]))
        if "random weights" in name:
            blocks.append(Callout("warning", ["In ", Name(name)], [Paragraph(RANDOM)]))
        blocks.append(_table(own, bool(found.numbers.held_out_images)))
    blocks.append(Paragraph(INTERVAL))
    missing = rows(found.figures, found.figures["low"].isna().to_numpy())
    if len(missing):
        named = zip(column_texts(missing, "name"), column_texts(missing, "method"), strict=True)
        reasons: list[Text] = [[Name(name), ": ", Name(why)] for name, why in named]
        blocks.append(Steps(reasons))
    if found.numbers.training_images > found.numbers.training_patients:
        blocks.append(Paragraph(CLUSTERED))
    return blocks


def _table(own: pd.DataFrame, referenced: bool) -> Table:
    columns = [
        words("name", "Figure", wide=True, row=True),
        words("better", "Better"),
        estimate("estimate", "All synthetic", "power", "low", "high"),
    ]
    if referenced:
        columns += [
            estimate("same_number", "As many synthetic", "power"),
            estimate("reference", "Held-out real", "power"),
            number("n_reference", "Images of these two", "count"),
        ]
    caption = f"Intervals of {100 * float(own['level'].iloc[0]):g} % in brackets."
    return Table(frame=own, columns=columns, caption=caption, elsewhere="tables/quality.parquet")


def _transfer(transfer: pd.DataFrame) -> list[Block]:
    row = transfer.iloc[0]
    warned = [Paragraph(text) for text in transfer_warnings(row)]
    blocks: list[Block] = [
        *([Callout("warning", "This comparison says less than its numbers", warned)] if warned else []),
        Paragraph(TRANSFER),
        _transfer_table(transfer),
    ]
    if int(row["n_trainings"]) == 1:
        blocks.append(Callout("note", "One training of each", [Paragraph(ONE_TRAINING)]))
    return blocks


def _transfer_table(transfer: pd.DataFrame) -> Table:
    row = transfer.iloc[0]
    columns = [
        words("measure", "On held-out real patients", row=True),
        estimate("synthetic", "Trained on synthetic", "power"),
        estimate("real", "Trained on real", "power"),
        estimate("difference", "Difference", "power"),
    ]
    caption = (
        f"{row['classifier']}, {plural(int(row['n_trainings']), 'training', 'trainings')} of each on "
        f"{plural(int(row['n_train']), 'image', 'images')}; tested "
        f"on {count(row['n_test'])} images of {count(row['n_patients'])} patients."
    )
    return Table(frame=transfer, columns=columns, caption=caption, elsewhere="tables/train_on_synthetic.parquet")


def _meanings(found: Quality) -> list[Block]:
    measured = set(found.figures["figure"])
    items: list[tuple[Text, Text]] = [(name, meaning) for name, meaning in MEANING.items() if name in measured]
    return [Paragraph(COPIES), Definitions(items)]


def _setup(found: Quality) -> list[Block]:
    items: list[tuple[Text, Text]] = [(Name(name), Name(description)) for name, description in found.described.items()]
    blocks: list[Block] = [Definitions(items)]
    if not found.numbers.patients_given:
        text = (
            "No patients were given with some of the images, so that every image counts as a patient: intervals are "
            "too narrow if patients have several. Name patients with --group-from or --group-column."
        )
        blocks.append(Callout("note", "Patients were not given", [Paragraph(text)]))
    if found.notes:
        blocks.append(Steps([Name(note) for note in found.notes]))
    return blocks
