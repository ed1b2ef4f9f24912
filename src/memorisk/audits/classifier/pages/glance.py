"""Pictures of the first screen of the classifier report: this file, this recipe, the classes, and who is flagged."""

from collections.abc import Mapping

import numpy as np

from memorisk.audits.classifier.attack_numbers import ALL, AttackRow
from memorisk.audits.classifier.evidence import WHOLE
from memorisk.audits.classifier.pages.memorization import interval_figure
from memorisk.audits.classifier.pages.strips import read_strips
from memorisk.audits.classifier.pages.wording import ResultView
from memorisk.report.blocks import Block, Figure, Gallery, Name, Thumbnail, data_uri
from memorisk.report.columns import column_numbers, column_texts, decimal, percent, rows
from memorisk.report.figures.glance import attack_plot
from memorisk.report.glance import dots_figure, in_short
from memorisk.report.numbers import from_json
from memorisk.statistics.verdicts.levels import ATTACK_GATE

MOST_CLASSES = 8
"""Number of classes in its figure."""


def glance(reading: ResultView, gallery: Mapping[str, np.ndarray] | None) -> list[Block]:
    """Draw what answers the heading: attacks, flagged patients among all, classes, and the first flagged patients.

    Args:
        reading: Result with its numbers.
        gallery: Pixels by image id; None for no pictures.
    """
    blocks: list[Block] = [*_exposure(reading), *_classes(reading)]
    return [*blocks, *([] if reading.redacted else _patients(reading, gallery))]


def _exposure(reading: ResultView) -> list[Block]:
    """Draw the strongest attack on the file and on the recipe, and the flagged patients among all scored ones."""
    attacks = _strongest(reading)
    blocks: list[Block] = []
    if attacks:
        gate = reading.verdict.rule.attack_gate or ATTACK_GATE
        auc, low, high = (
            [getattr(row.numbers.auc, name) for row in attacks.values()] for name in ("estimate", "low", "high")
        )
        spoken = ", ".join(
            f"{label}: {percent(a)} ({percent(b)} to {percent(c)})"
            for label, a, b, c in zip(attacks, auc, low, high, strict=True)
        )
        blocks.append(
            Figure(
                svg=attack_plot(list(attacks), auc, low, high, gate),
                title="Attacker's success",
                caption="(50 % is guessing)",
                alternative=f"{spoken}. An audit fails from {percent(gate)} on.",
            )
        )
    if reading.groups_scored and not reading.no_p_values:
        blocks.append(dots_figure(reading.verdict_flagged, reading.groups_scored, reading.units, "flagged"))
    return blocks


def _strongest(reading: ResultView) -> dict[str, AttackRow]:
    """Choose the attack with the highest lower limit, on the file to be released and on the models trained alike."""
    of_twins = (
        [from_json(AttackRow, row) for row in reading.result.attacks.to_dict("records") if row.get("label") == ALL]
        if len(reading.result.attacks)
        else []
    )
    target = reading.summary.target
    of_file = [] if target is None else [AttackRow(label=ALL, attack=a, numbers=n) for a, n in target.attacks.items()]
    chosen = {}
    for name, attacks in (("this file", of_file), ("models trained alike", of_twins)):
        measured = [a for a in attacks if not a.numbers.control and np.isfinite(a.numbers.auc.low)]
        if measured:
            chosen[name] = max(measured, key=lambda row: row.numbers.auc.low)
    return chosen


def _classes(reading: ResultView) -> list[Block]:
    """Draw the mean M of the classes that are remembered most."""
    table = rows(reading.per_class, [label != WHOLE for label in column_texts(reading.per_class, "label")])
    if not len(table) or not {"mean", "low", "high"} <= set(table):
        return []
    cut = f"The first {MOST_CLASSES} of {len(table)}." if len(table) > MOST_CLASSES else ""
    return [in_short(interval_figure(table.head(MOST_CLASSES)), "Memorization by class", cut)]


def _patients(reading: ResultView, gallery: Mapping[str, np.ndarray] | None) -> list[Block]:
    """Show the first flagged patients, each by an image and by its losses."""
    images = reading.flagged_images()
    strips = read_strips(reading.result.folder, list(images.values()))
    groups = reading.flagged_groups()
    sizes = zip(column_texts(groups, "label"), column_texts(groups, "group"), column_numbers(groups, "M"), strict=True)
    m_of = {(label, group): m for label, group, m in sizes}
    items = []
    for (label, group), image in images.items():
        strip = strips.get((label, image))
        picture = "" if gallery is None or image not in gallery else data_uri(gallery[image])
        if picture or strip:
            items.append(
                Thumbnail(
                    data_uri=picture,
                    caption=[[Name(group), ", ", Name(label)], f"M {decimal(m_of[label, group])}"],
                    alternative="Training image of the patient named below",
                    strip="" if strip is None else strip.svg,
                )
            )
    if not items:
        return []
    return [
        Gallery(
            items=items,
            caption=f"Flagged {reading.units}. Dots: losses of models that saw the image (below), and others.",
        )
    ]
