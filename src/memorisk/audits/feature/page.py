"""The report of a mark: the findings, the place of the mark among its controls, and the strongest answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from memorisk.audits.feature.reasons import MATCHED_LEVEL
from memorisk.audits.feature.result import FeatureSummary, FeatureVerdict
from memorisk.report.blocks import (
    Block,
    Definitions,
    Details,
    Fact,
    Figure,
    Gallery,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
    Thumbnail,
    data_uri,
    number,
    words,
)
from memorisk.report.columns import column_numbers, count, decimal
from memorisk.report.figures.histograms import rank_plot
from memorisk.report.first_screen import FirstScreen, verdict_screen
from memorisk.report.glance import in_short
from memorisk.report.quantities import facts
from memorisk.report.result import Result
from memorisk.statistics.memorization.mark_rank import MarkRank
from memorisk.statistics.verdicts.levels import POWER, share_words

if TYPE_CHECKING:  # it loads models
    from memorisk.images.alterations.marks import Mark

FOUND = "Not ready for release: the model reacts to the mark more than chance explains"
"""Headline of a failure."""
SENTENCES = {
    "pass": "The model is no more sensitive to the mark than chance makes models that were trained without it. A weak "
    "trace of the mark can go unnoticed: the reasons say how sensitive a model must be to be found.",
    "fail": "Do not release this model: its answers may give away that the mark was in the training data, and with it "
    "whoever the mark belongs to. Train it again without the mark, and audit it again.",
    "undecided": "The audit cannot say whether the model remembers the mark: this is not a pass.",
}
MOST_PROBES = 12
_SHOWN_CONTROLS = 11


def feature_page(result: Result, marks: Sequence["Mark"] = (), *, redact: bool = False) -> Page:
    """Lay out the audit of a mark.

    Args:
        result: Result of `audits.feature.analysis.analyse_feature`.
        marks: The mark and its controls, for pictures; an empty sequence for a page without pictures.
        redact: Whether to leave out the mark, its texts and the probes' ids.
    """
    summary = FeatureSummary.read(result.summary)
    sections = [
        Section("The mark among its controls", _controls(summary, result, marks, redact), "controls"),
        Section("The published form", _published(summary), "paper"),
        Section("What the mark does to the answers", _answers(result, redact), "answers"),
        Section("What was asked", _setup(summary), "setup"),
        Section("How to read this", _reading_guide(summary), "reading"),
    ]
    held = "It shows the mark, which may name a person: handle it as such."
    if redact:
        held = "It leaves out the mark; config.yaml in the run folder names it."
    return Page(
        title="Does the model remember the mark?",
        lead=first_screen(result).blocks([in_short(_place(summary, result), "The mark among marks like it")]),
        sections=sections,
        footer=[Paragraph(f"{held} It needs no network and asks for none.")],
        redacted=redact,
    )


def first_screen(result: Result) -> FirstScreen:
    """Show the verdict, its reasons, the sensitivity to the mark and what it rests on.

    Args:
        result: Result of the audit.
    """
    verdict, requested = FeatureVerdict.read(result.verdict), FeatureSummary.read(result.summary).n_controls_asked
    n_made, sentences = verdict.counts.n_controls, [SENTENCES[verdict.status]]
    if allowances := verdict.test.allowances:
        sentences.append(f"The gate is looser than the default: {' and '.join(allowances.values())}.")
    if n_made < requested:
        sentences.append(f"{n_made:,} of {requested:,} requested controls were made: no further mark is like it.")
    return replace(
        verdict_screen(result, FOUND if verdict.status == "fail" else ""),
        sentences=sentences,
        facts=[Fact("Sensitivity to the mark", *sensitivity(verdict)), *facts(verdict, models=model_units(verdict))],
    )


def model_units(verdict: FeatureVerdict) -> str:
    """Name the audited models, the units of M."""
    return "model" if verdict.counts.n_models == 1 else "models"


def sensitivity(verdict: FeatureVerdict) -> tuple[str, str]:
    """Word how many times as sensitive to the mark the model is, exp(M), and the quantity that it is compared with."""
    beside = "that of the references" if verdict.counts.n_references else "that to similar marks"
    return f"{np.exp(verdict.m.estimate_log):.3g} times", beside


def _models(rank: MarkRank, table: pd.DataFrame) -> Figure:
    """Draw the audited models among their references: their rank is the p-value."""
    audited = np.asarray(table["audited"], dtype=bool)
    t = column_numbers(table, "t")
    value, others = float(t[audited].mean()), t[~audited]
    limit = float(others.mean()) + rank.detectable if isfinite(rank.detectable) else None
    return Figure(
        svg=rank_plot(
            others, value, limit=limit, x_title="Mean log KL of the mark less that of its controls",
            names=("audited", "references"),
        ),
        title="The model among its references",
        caption="The p-value is the rank of the audited model here. One model in 20 that never saw the mark lies "
        "right of 19 references by chance.",
        alternative=f"The audited model has {decimal(value)}, the references {decimal(others.min())} to "
        f"{decimal(others.max())}.",
    )  # fmt: skip


def _place(summary: FeatureSummary, result: Result) -> Figure:
    """Draw the answer to the mark among the answers to its controls."""
    rank, table = summary.rank, result.tables["controls"]
    centred = rank.method == "centred"
    others = column_numbers(table, "mean_log_kl") - (column_numbers(table, "reference_mean_log_kl") if centred else 0.0)
    value = summary.mean_log_kl - (summary.reference_mean_log_kl if centred else 0.0)
    limit = None
    if rank.method != "references" and isfinite(rank.detectable):
        limit = float(np.mean(others)) + rank.detectable
    title = "Mean over probes of log KL" + (", less the references'" if centred else "")
    return Figure(
        svg=rank_plot(others, value, limit=limit, x_title=title, names=("the mark", "its controls")),
        title="The mark among its controls",
        caption="Right of most: the model answers to the mark more than to marks like it.",
        alternative=f"The mark has {decimal(value)}; the controls {decimal(np.min(others))} to "
        f"{decimal(np.max(others))}, p among them {decimal(rank.p_controls)}.",
    )


def _controls(summary: FeatureSummary, result: Result, marks: Sequence["Mark"], redact: bool) -> list[Block]:
    """Lay out the mark among its controls."""
    rank, table = summary.rank, result.tables["controls"]
    place: list[tuple[Text, Text]] = []
    if summary.ink is not None:
        place = [
            ("Ink of the mark", decimal(summary.ink)),
            ("Share of the controls with less ink (ties half)", decimal(summary.place_in_ink)),
        ]
    if summary.place_in_reference_kl is not None:
        place.append(("Share with less KL under the references", decimal(summary.place_in_reference_kl)))
    blocks: list[Block] = [Definitions(place, compact=True)] if place else []
    blocks.append(_place(summary, result))
    if rank.method == "references":
        blocks.insert(0, _models(rank, result.tables["models"]))
    if marks:
        blocks.append(_pictures(marks[: 1 + _SHOWN_CONTROLS]))
    columns = [
        *([] if redact else [words("control", "Control", row=True)]),
        number("ink", "Ink"),
        number("mean_log_kl", "Mean log KL"),
        number("mean_kl", "Mean KL"),
        *([number("reference_mean_log_kl", "Mean log KL, references")] if rank.n_references else []),
    ]
    ordered = table.sort_values(["mean_log_kl", "control"], ascending=[False, True])
    control_table = Table(
        frame=ordered, columns=columns, caption="Controls, the strongest first.", elsewhere="tables/controls.parquet",
        most_rows=25,
    )  # fmt: skip
    return [*blocks, Details("Every control", [control_table])]


def _pictures(marks: Sequence["Mark"]) -> Gallery:
    """Show the mark and some of its controls, on grey so that their opacity shows."""
    names: list[Text] = [["the mark: ", Name(marks[0].name)], *(Name(control.name) for control in marks[1:])]
    items = [
        Thumbnail(data_uri=data_uri(_on_grey(m)), caption=[name], alternative="A small pattern, named below")
        for m, name in zip(marks, names, strict=True)
    ]
    return Gallery(items=items, caption="The mark and the first of its controls, on grey.")


def _on_grey(mark: "Mark") -> np.ndarray:
    values = mark.values if mark.values.ndim == 3 else mark.values[:, :, None]
    alpha = mark.alpha[:, :, None]
    pixels = np.rint(255 * (0.45 * (1 - alpha) + alpha * values)).astype(np.uint8)
    h, w = pixels.shape[:2]
    side = max(h, w)
    square = np.full((side, side, pixels.shape[2]), round(255 * 0.45), dtype=np.uint8)
    square[(side - h) // 2 : (side - h) // 2 + h, (side - w) // 2 : (side - w) // 2 + w] = pixels
    return square


def _published(summary: FeatureSummary) -> list[Block]:
    p, white = summary.published, summary.white_box
    if p is None:
        return [Paragraph("Not among the outputs: it needs a fresh random patch for each probe.")]
    rows: list[tuple[Text, Text]] = [
        ("M as published: mean KL of the mark less that of random patches", f"{p.m_nats:.4g}"),
        ("Mean KL, mark and random", f"{p.mean_mark_nats:.4g}, {p.mean_random_nats:.4g}"),
        ("s.d. over redraws of the random patches", _known_text(p.sd_over_redraws)),
        ("Range over the models", _known_text(p.range_over_models)),
        ("Welch's t-test over probes, one-tailed p", f"{p.p_welch:.3g}"),
    ]
    if white is not None:
        rows += [
            ("M_w, white box", f"{white.m:.4g}"),
            ("Mean probability of the label, mark and random", f"{white.mean_mark:.3g}, {white.mean_random:.3g}"),
            ("Range of M_w over the models", _known_text(white.range_over_models)),
            ("Images of the label", [Name(white.label), f", {count(white.n_images)}"]),
        ]
    text = (
        "The t-test counts probes as replicates of the model, and random patches match neither the mark's ink nor its "
        "contrast: it finds memorization in models that never saw the mark. It is printed, not used."
    )
    return [Definitions(rows, compact=True), Paragraph(text)]


def _known_text(value: float | None) -> str:
    return "one only" if value is None else f"{value:.3g}"


def _answers(result: Result, redact: bool) -> list[Block]:
    classes = result.per_class.sort_values("shift", key=np.abs, ascending=False, kind="stable")
    class_table = Table(
        frame=classes,
        columns=[
            words("label", "Class", row=True),
            number("clean", "Mean probability, clean"),
            number("shift", "Change by the mark"),
        ],
        caption="Mean over probes, the largest change first.",
        elsewhere="per_class.parquet",
        most_rows=20,
    )
    if redact:
        return [class_table]
    top: pd.DataFrame = result.per_image.sort_values(["kl", "image"], ascending=[False, True]).head(MOST_PROBES)
    moved = Table(
        frame=top,
        columns=[
            words("image", "Probe", row=True),
            number("kl", "KL"),
        ],
        caption="The probes whose answer the mark moved most.",
        elsewhere="per_image.parquet",
    )
    return [class_table, moved]


def _setup(summary: FeatureSummary) -> list[Block]:
    mark, models, zero = summary.mark, summary.models, summary.opacity_zero
    size = f", {mark.kind}" + (f", {mark.pixels[0]} x {mark.pixels[1]}" if mark.pixels else "")
    unseen = "not given" if zero.largest_kl_nats is None else f"largest KL {zero.largest_kl_nats:.2g}, p {zero.p:g}"
    rows: list[tuple[Text, Text]] = [
        ("Mark", [Name(mark.name or "left out"), size]),
        ("Place, opacity", f"{mark.place}, {1 if mark.opacity is None else mark.opacity:g}"),
        ("Controls", Name(summary.controls_kind)),
        ("Preprocessing", Name(_words(models.preprocessing) or "outputs were given")),
        ("Opacity 0", unseen),
    ]
    for what, descriptions in (("Model", models.models), ("Reference", models.references)):
        rows += [(what, Name(_words({k: v for k, v in one.items() if k != "preprocessing"}))) for one in descriptions]
    return [Definitions(rows, compact=True)]


def _words(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items())


def _reading_guide(summary: FeatureSummary) -> list[Block]:
    items: list[Text] = [
        "Mark and controls are exchangeable only if the mark was not chosen for its shape. Controls have the mark's "
        "pixels in another arrangement, equally rough, or names of the same length; a given letter still answers "
        "somewhat more or less than they do in models that never saw it, so that without references a p near the level "
        f"is weak evidence ({MATCHED_LEVEL} of harmless models at 5 %, by the letter), and decides nothing.",
        "With references trained alike without the mark the test is exact for every mark, if they differ from the "
        "audited model by chance alone.",
        "A mark that is not found was not shown to be absent from the training data: one training image often leaves "
        "no trace that answers show. The report says which sensitivity would have been found in "
        f"{share_words(POWER)}, in a model like the references.",
        "M is the logarithm of how many times as sensitive the model is to the mark as to a control, in geometric mean "
        f"over probes{', less that of the references' if summary.rank.n_references else ''}. Probes are no replicates "
        "of the model: its unit is the trained model.",
    ]
    return [Steps(items)]
