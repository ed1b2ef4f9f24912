"""Figure 7 of paper 000: what the classes of each data set look like, only where the user chose pictures."""

from pathlib import Path

import numpy as np

from memorisk.audits.classifier.rendering import load_result
from memorisk.audits.finished_run import FinishedRun, open_finished
from memorisk.images.copies.interventions import find_intervention, intervene
from memorisk.report.blocks import Block, Gallery, Heading, Name, Paragraph, Text, Thumbnail
from memorisk.report.formats import decimal
from memorisk.report.frames import rows, texts
from memorisk.report.result import Result
from memorisk.report.thumbnails import data_uri
from memorisk.runs.errors import one_line
from memorisk.scores.attacks.differential import memorization
from memorisk.studies.rare_distinctive.parts import DAMAGED, StudyRuns

PICTURES = 3
"""Images a class."""

_LEFT_OUT = (
    "Figure 7 of the paper shows images of patients. Images appear in reports only as the user chose: with gallery: "
    "true in the settings of the study or of a data set, typical images of each class stand here."
)


def figure_7(runs: StudyRuns) -> list[Block]:
    """Typical images of each class, the most memorized class first; a line where no pictures were asked for.

    Shown are the images whose M lies nearest to the median of their class in the data set's first finished
    architecture, without ids; beside those of a changed class the images as the intervention left them.

    Args:
        runs: Of the study; ``pictured`` names the data sets whose pictures the user chose.
    """
    blocks: list[Block] = []
    for dataset in dict.fromkeys(d for _, d in runs.cells if d in runs.pictured):
        architecture, folder = next((a, path) for (a, d), path in runs.cells.items() if d == dataset)
        blocks.append(Heading(["Figure 7. Typical images of ", Name(dataset)]))
        try:
            blocks.append(_gallery(open_finished(folder, device="cpu"), load_result(Path(folder)), architecture))
        except DAMAGED as error:
            blocks.append(Paragraph(["Its images cannot be shown: ", Name(one_line(error, 200))]))
    return blocks or [Paragraph(_LEFT_OUT)]


def _gallery(run: FinishedRun, result: Result, architecture: str) -> Gallery:
    items: list[Thumbnail] = []
    targeted = _targeted(result)
    ordered = result.per_class.dropna(subset=["mean"]).sort_values(["mean", "label"], ascending=[False, True])
    for row in ordered.to_dict("records"):
        label = str(row["label"])
        pixels = run.store.images[_typical(run, label)]
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


def _targeted(result: Result) -> set[str]:
    """Classes that the cell's intervention changed."""
    table = result.tables.get("intervention")
    if table is None:
        return set()
    return set(texts(rows(table, np.asarray(table["targeted"], dtype=bool)), "label"))


def _typical(run: FinishedRun, label: str) -> np.ndarray:
    """Rows of the store of the scored images nearest to the median M of their class, in the order of that distance."""
    items = run.evidence.items
    m = memorization(run.evidence.gap, run.evidence.sign)
    own = np.flatnonzero((items.label.astype(str) == label) & (items.split == "canary") & np.isfinite(m))
    far = np.abs(m[own] - np.median(m[own])) if len(own) else np.empty(0)
    return run.item_row[own[np.argsort(far, kind="stable")[:PICTURES]]]


def _thumbnail(pixels: np.ndarray, captions: list[Text]) -> Thumbnail:
    return Thumbnail(data_uri=data_uri(pixels), caption=captions, alternative="Image of the class named below")
