"""Pictures of the first screen of the synthetic report: images that expose a person, planted copies, and pairs."""

import numpy as np

from memorisk.audits.comparison.pictures import glance_gallery
from memorisk.audits.synthetic.result import SyntheticSummary
from memorisk.audits.synthetic.sections.numbers import kinds_figure
from memorisk.audits.synthetic.sections.pictures import Pictures, suspects
from memorisk.report.blocks import Block
from memorisk.report.columns import booleans, column_texts, rows
from memorisk.report.glance import dots_figure, in_short
from memorisk.report.result import Result


def glance(result: Result, summary: SyntheticSummary, pictures: Pictures | None) -> list[Block]:
    """Draw what answers the heading: images that expose a person, planted copies by kind, the gravest pairs.

    Args:
        result: Result of the audit.
        summary: Its numbers.
        pictures: Pictures of pairs; None for none.
    """
    n = summary.numbers
    exposing = exposing_images(result, summary)
    blocks = list[Block]()
    looked = n.listing is not None and None not in (n.listing.n_listed_at_verdict, n.listing.n_singled_images)
    if exposing or looked:  # where no image could have been exposing, 0 would look like a finding
        what = f"expose a training {n.terms.unit}"
        blocks.append(dots_figure(len(exposing), n.sets.n_synthetic_images, "images", what))
    if n.power.recall is not None:
        blocks.append(in_short(kinds_figure(result, summary.settings.recall), "Planted copies noticed"))
    if pictures is not None and (gravest := pictures.gravest):
        caption, n_shown = "The nearest pairs", len({image for _, image in gravest} & exposing)
        if exposing:
            rest = f", of {n_shown} of these {len(exposing)} images" if n_shown < len(exposing) else ""
            caption = f"The gravest pairs{rest}"
        blocks.append(glance_gallery(gravest, f"{caption}: training, generated, difference"))
    return blocks


def exposing_images(result: Result, summary: SyntheticSummary) -> set[str]:
    """Collect the synthetic images that are copies for certain, are singled out, or are nearest to listed patients.

    Args:
        result: Result of the audit.
        summary: Its numbers.
    """
    pairs = result.tables["pairs"]
    of_training = np.array([part == "training" for part in column_texts(pairs, "part")], dtype=bool)
    certain = booleans(pairs, "identical") & ~booleans(pairs, "in_both") & of_training
    images = {*column_texts(rows(pairs, certain), "image")}
    if "singled_out" in result.tables:  # held-out images made it
        images |= {*column_texts(result.tables["singled_out"], "image")}
    return images | {*column_texts(suspects(result, summary.numbers.listing), "synthetic_image")}
