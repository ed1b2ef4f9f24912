"""Pictures of the first screen of the classifier report: this file, this recipe, the classes, and the first patients.

These are flagged patients or, where none is flagged, those with the largest M.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from memorisk.audits.classifier.attack_numbers import ALL
from memorisk.audits.classifier.evidence import WHOLE
from memorisk.audits.classifier.pages.memorization import interval_figure
from memorisk.audits.classifier.pages.result_view import ResultView
from memorisk.audits.classifier.pages.strips import read_strips
from memorisk.report.blocks import Block, Figure, Gallery, Thumbnail, data_uri
from memorisk.report.columns import booleans, column_numbers, column_texts, decimal, percent, rows
from memorisk.report.figures.glance import attack_plot
from memorisk.report.flagged import number_flagged
from memorisk.report.glance import dots_figure, in_short, short_name
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.levels import ATTACK_GATE

MOST_CLASSES = 8
"""Number of classes in its figure."""


def glance(reading: ResultView, pictures: Mapping[str, np.ndarray] | None) -> list[Block]:
    """Draw what answers the heading: attacks, flagged patients among all, classes, and the first patients.

    Args:
        reading: Result with its numbers.
        pictures: Pixels by image id; None for no pictures.
    """
    blocks: list[Block] = [*_exposure(reading), *_classes(reading)]
    return [*blocks, *([] if reading.redacted else _patients(reading, pictures))]


def _exposure(reading: ResultView) -> list[Block]:
    """Draw the strongest attack on the file and on the recipe, and the flagged patients among all scored ones."""
    attacks = _strongest(reading)
    blocks: list[Block] = []
    if attacks:
        gate = reading.verdict.rule.attack_gate or ATTACK_GATE
        auc, low, high = zip(*attacks.values(), strict=True)
        spoken = ", ".join(
            f"{label}: {percent(a)} ({percent(b)} to {percent(c)})" for label, (a, b, c) in attacks.items()
        )
        blocks.append(
            Figure(
                svg=attack_plot(list(attacks), auc, low, high, gate),
                title="Attacker's success",
                caption="(50 % is guessing)",
                alternative=f"{spoken}. An audit fails from {percent(gate)} on.",
            )
        )
    flagged = number_flagged(reading.result.per_class, reading.verdict_flagged)
    if reading.groups_scored and not reading.no_p_values and flagged is not None:  # 0 would look like a finding
        flagged = min(flagged, reading.groups_scored)  # in two classes a patient may count twice
        dots = dots_figure(flagged, reading.groups_scored, reading.units, "flagged")
        if n_untested := int((column_numbers(reading.untestable(), "flagged") == 0).sum()):
            dots = replace(
                dots, caption=f"{dots.caption} Not tested: {plural(n_untested, 'class', 'classes')}.".strip()
            )
        blocks.append(dots)
    return blocks


def _strongest(reading: ResultView) -> dict[str, tuple[float, float, float]]:
    """Choose the AUC with its limits of the attack with the highest lower limit, on the file and on its like."""
    table, target, of_twins = reading.result.attacks, reading.summary.target, list[tuple[float, float, float]]()
    if {"label", "auc", "low", "high", "control"} <= set(table):
        of_all = np.array([label == ALL for label in column_texts(table, "label")], dtype=bool)
        table = rows(table, ~booleans(table, "control") & of_all)
        of_twins = list(zip(*(column_numbers(table, name) for name in ("auc", "low", "high")), strict=True))
    numbers = [] if target is None else [own.auc for own in target.attacks.values() if not own.control]
    of_file = [(own.estimate, own.low, own.high) for own in numbers]
    chosen = {}
    for name, attacks in (("this file", of_file), ("models trained alike", of_twins)):
        if measured := [attack for attack in attacks if np.isfinite(attack[1])]:
            chosen[name] = max(measured, key=lambda attack: attack[1])
    return chosen


def _classes(reading: ResultView) -> list[Block]:
    """Draw the mean M of the classes that are remembered most."""
    table = rows(reading.per_class, [label != WHOLE for label in column_texts(reading.per_class, "label")])
    if not len(table) or not {"mean", "low", "high"} <= set(table):
        return []
    cut = f"The first {MOST_CLASSES} of {len(table)}." if len(table) > MOST_CLASSES else ""
    return [in_short(interval_figure(table.head(MOST_CLASSES), reading.scale), "Memorization by class", cut)]


def _patients(reading: ResultView, pictures: Mapping[str, np.ndarray] | None) -> list[Block]:
    """Show the first patients, each by an image and by its losses."""
    images = reading.first_images()
    strips = read_strips(reading.result.folder, list(images.values()), reading.scale)
    groups = reading.first_groups()
    sizes = zip(column_texts(groups, "label"), column_texts(groups, "group"), column_numbers(groups, "M"), strict=True)
    m_of = {(label, group): m for label, group, m in sizes}
    items = []
    for (label, group), image in images.items():
        strip = strips.get((label, image))
        picture = "" if pictures is None or image not in pictures else data_uri(pictures[image])
        if picture or strip:
            items.append(
                Thumbnail(
                    data_uri=picture,
                    caption=[[short_name(group), ", ", short_name(label)], f"M {decimal(m_of[label, group])}"],
                    alternative="Training image of the patient named below",
                    strip="" if strip is None else strip.svg,
                )
            )
    if not items:
        return []
    who = f"Flagged {reading.units}" if len(reading.flagged_groups()) else f"Largest M; no {reading.unit} is flagged"
    dots = " Dots: losses; below, of models that saw the image." if strips else ""
    return [Gallery(items=items, caption=f"{who}.{dots}")]
