"""Sections of the filter's report with numbers: guarantee, cost, exposed patients and pairs, scores, not read."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.filter import words
from memorisk.audits.filter.deciding import REASONS, UNREADABLE
from memorisk.audits.synthetic.pictures import Pair
from memorisk.audits.synthetic.sections import picture_gallery
from memorisk.audits.synthetic.words import Terms
from memorisk.report.blocks import Block, Callout, Column, Fact, Figure, Heading, Name, Paragraph, Steps, Table
from memorisk.report.figures.distance import distance_plot
from memorisk.report.formats import count, decimal, percent
from memorisk.report.frames import numbers, rows, texts
from memorisk.report.result import Result
from memorisk.runs.errors import several

_NAMES = {"detector": "Detector", "family": "Copies"}


def guarantee_section(result: Result, terms: Terms) -> list[Block]:
    """The promise in METHODS' words, family by family, and what was left out for it."""
    n = result.summary["numbers"]
    blocks: list[Block] = []
    if n["guarantee"]:
        blocks += [Callout("note", "The promise", [Paragraph(Name(n["guarantee"]))])]
    if n["filtered"]:
        if n["n_kept"]:
            blocks.append(Paragraph(words.unpromised(n)))
        told = words.USER if n["threshold_by"] == "user" else words.GUARANTEE
        blocks.append(Paragraph(terms.fill(told)))
    if n["guarantee"] and n["shared_by"] > 1:
        blocks.append(Paragraph(_shared(n)))
    blocks.append(_guarantees(result, terms))
    if told := words.not_counted(n, terms):
        blocks += [Paragraph("Calibration asks for new people, and counts each once:"), Steps(told)]
    return blocks


def cost_section(result: Result, terms: Terms) -> list[Block]:
    """Rejected images by reason, detector and class; real images; diversity."""
    n = result.summary["numbers"]
    by_reason = [{"reason": reason, "n": n["rejected"][reason], "what": REASONS[reason]} for reason in REASONS]
    reasons = Table(
        frame=pd.DataFrame([row for row in by_reason if row["n"]], columns=["reason", "n", "what"]),
        columns=[
            Column(source="reason", heading="Reason", row_heading=True),
            Column(source="n", heading="Images", format="count"),
            Column(source="what", heading="What it means", wide=True),
        ],
        caption="Rejected images, by reason.",
        elsewhere="manifest.parquet",
        empty="No image is rejected.",
    )
    blocks: list[Block] = [Paragraph(terms.fill(words.COST)), reasons, _detectors(result)]
    if (real := n["real_rejected"]) is not None:
        shown = {"share": percent(real["estimate"]), "low": percent(real["low"]), "high": percent(real["high"])}
        blocks.append(Paragraph(terms.fill(words.REAL, **shown, n=count(real["trials"]))))
    if len(result.per_class):
        blocks += [Heading("Classes"), _classes(result)]
    columns = [
        Column(source="detector", heading="Detector", row_heading=True),
        Column(source="images", heading="Images"),
        Column(source="n", heading="Number", format="count"),
        Column(source="distinct", heading="Distinct nearest", format="count"),
        Column(source="irs", heading="IRS [95 % interval]", format="decimal", interval=("low", "high")),
        Column(source="n_equal", heading="Of as many", format="count"),
        Column(source="equal", heading="IRS of these", format="decimal", interval=("equal_low", "equal_high")),
    ]
    caption = "Image retrieval score, before and after."
    table = Table(frame=result.tables["diversity"], columns=columns, caption=caption)
    return [*blocks, Heading("Diversity"), Paragraph(terms.fill(words.DIVERSITY)), table]


def exposed_section(
    result: Result, terms: Terms, pictures: Mapping[Pair, np.ndarray] | None, redact: bool
) -> list[Block]:
    """Training patients to whom rejected images point, each with the closest pair."""
    names = [
        Column(source="group", heading=terms.unit.capitalize(), row_heading=True),
        *([Column(source="training_image", heading="Training image")] if terms.units == "patients" else []),
        Column(source="synthetic_image", heading="Synthetic image"),
    ]
    columns = [
        *([] if redact else names),
        Column(source="score", heading="Score", format="decimal"),
        Column(source="threshold", heading="Threshold", format="decimal"),
        Column(source="identical", heading="Same pixels", format="yes_no"),
        Column(source="n_rejected", heading="Rejected images", format="count"),
        Column(source="n_singled_out", heading="Singling out", format="count"),
    ]
    table = Table(
        frame=result.per_group,
        columns=columns,
        caption=terms.fill(words.EXPOSED_TABLE),
        elsewhere="per_group.parquet",
        empty="No rejected image points at anybody.",
    )
    counted = str(result.verdict["exposed"])
    blocks: list[Block] = [Paragraph(terms.fill(words.EXPOSED)), *([Paragraph(counted)] if counted else []), table]
    if redact:
        return [*blocks, Paragraph("Ids are left out of this report. They are in the run's own tables.")]
    if pictures is None:
        return [*blocks, Paragraph("Pictures are shown only when a gallery was asked for.")]
    return [*blocks, picture_gallery(pictures, "The closest pairs", frozenset())] if pictures else blocks


def exposed_facts(n: dict[str, Any], terms: Terms) -> list[Fact]:
    """How many are exposed, and at how many others a score points, beside what the threshold says of new people.

    Args:
        n: Numbers of the verdict.
        terms: What a group is called.
    """
    identical, singled = (count(n[name]) for name in ("n_identical", "n_by_score_singled_out"))
    new, real = f"of new {terms.units}: not known", n["real_rejected"]
    if real is not None:
        new = f"rejects {percent(real['low'])} to {percent(real['high'])} of new {terms.units}"
    return [
        Fact(f"Exposed {terms.units}", count(n["n_exposed"]), f"{identical} by identical pixels, {singled} by a score"),
        Fact("Pointed at, not singled out", terms.counted(words.pointed_at(n)), new),
    ]


def score_section(result: Result) -> list[Block]:
    """The distributions, a figure a detector."""
    return [Paragraph(words.SCORES), *(_figure(result, place) for place in range(len(result.summary["features"])))]


def unread_section(result: Result, redact: bool) -> list[Block]:
    """Synthetic images that could not be read."""
    chosen = rows(result.per_image, [reason == UNREADABLE for reason in texts(result.per_image, "reason")])
    if not len(chosen):
        return [Paragraph("Every synthetic image could be read.")]
    blocks: list[Block] = [Paragraph(words.UNREAD)]
    if redact:
        return [*blocks, Paragraph(f"{several(len(chosen), 'image', 'images')}; their names are left out.")]
    columns = [Column(source="image", heading="Synthetic image", row_heading=True)]
    if "detail" in chosen:
        columns.append(Column(source="detail", heading="Why", wide=True))
    return [*blocks, Table(frame=chosen, columns=columns, caption="Rejected unread.", elsewhere="manifest.parquet")]


def _shared(n: dict[str, Any]) -> str:
    return words.SHARED.format(
        detectors=several(len(n["detectors"]), "detector", "detectors"),
        families=several(len(n["families"]), "family", "families"),
        confidence=n["confidence"],
        shared=n["shared_by"],
        each=(1 - n["confidence"]) / n["shared_by"],
    )


def _guarantees(result: Result, terms: Terms) -> Table:
    n, table = result.summary["numbers"], result.tables["guarantees"]
    known = "missed" in table
    columns = [
        *([Column(source="detector", heading="Detector", row_heading=True)] if known else []),
        Column(source="words", heading="Copies", row_heading=not known, wide=True),
        Column(source="n_identities", heading="Identities", format="count"),
        Column(source="needed", heading="Needed", format="count"),
        Column(source="missing", heading="Missing", format="count"),
    ]
    if known and n["threshold_by"] == "user":
        limits = ("missed_low", "missed_high")
        columns += [
            Column(source="missed", heading="Missed", format="count"),
            Column(source="missed_share", heading="Share [95 % interval]", format="percent", interval=limits),
        ]
    elif known:
        columns += [
            Column(source="misses_allowed", heading="May be missed", format="count"),
            Column(source="threshold", heading="Threshold by these", format="decimal"),
            Column(source="missed", heading="Missed at the smallest", format="count"),
        ]
    caption = f"Calibration {terms.units} with a pair of each kind, and what the guarantee needs."
    return Table(frame=table, columns=columns, caption=caption, elsewhere="tables/calibration.parquet")


def _detectors(result: Result) -> Table:
    columns = [
        Column(source="detector", heading="Detector", row_heading=True),
        Column(source="threshold", heading="Threshold", format="decimal"),
        Column(source="n_rejected", heading="Rejected", format="count"),
        Column(source="n_alone", heading="By it alone", format="count"),
        Column(source="real_images", heading="Of real images", format="percent"),
    ]
    caption = "Images that reach the threshold, by detector. Scores of different detectors do not compare."
    return Table(frame=result.tables["detectors"], columns=columns, caption=caption)


def _classes(result: Result) -> Table:
    columns = [
        Column(source="label", heading="Class", row_heading=True),
        Column(source="n_before", heading="Before", format="count"),
        Column(source="n_kept", heading="Kept", format="count"),
        Column(source="n_rejected", heading="Rejected", format="count"),
        Column(source="share_rejected", heading="Of the class", format="percent"),
        Column(source="share_before", heading="Share before", format="percent"),
        Column(source="share_kept", heading="Share kept", format="percent"),
    ]
    return Table(frame=result.per_class, columns=columns, caption="Class balance, before and after.")


def _figure(result: Result, place: int) -> Figure:
    """Depth below an image and itself: synthetic and real best matches, calibration pairs, threshold."""
    found = result.summary["features"][place]
    name, top = str(found["detector"]), float(found["top"])
    threshold = float(result.summary["numbers"]["thresholds"][place])
    pools = {"synthetic images, best match": _depth(result.tables["scores"], name, top)}
    if len(real := result.tables["real_images"]):
        pools["real images of new people, best match"] = _depth(real, name, top)
    if len(pairs := result.tables["calibration"]):
        pools["calibration pairs"] = _depth(pairs, name, top)
    known = {what: values for what, values in pools.items() if len(values)}
    marked = [max(top - threshold, 0.0)]
    told = [f"{what}: median {decimal(np.median(values))}" for what, values in known.items()]
    return Figure(
        svg=distance_plot(known, x_title="Below the same vector", marked=marked, marked_as="threshold"),
        title="Best matches and calibration pairs",
        caption=[Name(name), f": {found['compares']}."],
        alternative="; ".join(told) + f"; threshold {decimal(marked[0])}.",
    )


def _depth(table: pd.DataFrame, detector: str, top: float) -> np.ndarray:
    """[n] how far the scores of a detector lie below the top; a head may put an unlike pair above it."""
    score = numbers(rows(table, [name == detector for name in texts(table, "detector")]), "score")
    return np.maximum(top - score[np.isfinite(score)], 0.0)
