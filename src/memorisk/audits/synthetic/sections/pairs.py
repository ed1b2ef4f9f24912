"""Sections of the synthetic report about pairs: conditioned ones, clusters of copies, a person's judgements, logits."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy

from memorisk.audits.comparison.page_parts import image_columns
from memorisk.audits.comparison.review_files import CONFIRM, DISMISS
from memorisk.audits.comparison.terms import TWO_IDENTITIES, Terms, share
from memorisk.audits.synthetic import wording
from memorisk.audits.synthetic.result import DetectorSummary, Paired, SyntheticNumbers, WindowCut
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Figure,
    Heading,
    Name,
    Paragraph,
    Table,
    estimate,
    number,
    words,
)
from memorisk.report.columns import booleans, column_numbers, column_texts, count, percent, rows
from memorisk.report.figures.histograms import logit_plot
from memorisk.report.result import Result
from memorisk.runs.errors import plural

MANY = 0.001
"""Share of the pairs of two patients above which an image and itself are not conspicuous."""


def detector_block(result: Result, n: SyntheticNumbers) -> list[Block]:
    """Tabulate the results of several detectors; for one with a head, the patients that it calls copied."""
    table, terms = result.tables["detectors"], n.terms
    several, heads = len(table) > 1, bool(np.isfinite(column_numbers(table, "above_half")).any())
    if not several and not heads:
        return []
    held = n.sets.held is not None
    above = [number("above_half", f"Training {terms.units} with P > 0.5", "percent")]
    above += [number("above_half_held", "Held out, likewise", "percent")] if held else []
    each = [
        number("listed", "Listed", "count"),
        number("ahead", "Nearer than all held out", "count"),
        number("p_ahead", "p", "probability"),
        estimate("found", "Planted copies found", "percent", "low", "high"),
    ]
    columns = [words("detector", "Detector", row=True), *(each if held else [])]
    listing = n.comparison.n_listing or len(table)
    words_of_parts = "" if listing == len(table) else " " + wording.PARTS_LIST_NOBODY
    text = wording.SHARED.format(n=listing, level=share(n.level / listing)) + words_of_parts
    caption = "What each detector says by itself." if several else "What the detector says."
    detectors = Table(frame=table, columns=[*columns, *(above if heads else [])], caption=caption)
    blocks: list[Block] = [Paragraph(text)] if several else []
    blocks.append(detectors)
    return [*blocks, Paragraph(terms.fill(wording.ABOVE_HALF))] if heads else blocks


def spread_figures(result: Result, one: DetectorSummary, terms: Terms) -> list[Block]:
    """Draw pairs by the logit of a head, paper 004's figure 6; nothing without one."""
    if one.itself is None or one.above_itself_pairs is None:
        return []
    table = result.tables["spread"]
    mine = rows(table, [name == one.name for name in column_texts(table, "detector")])
    counts = {
        kind: column_numbers(rows(mine, [k == kind for k in column_texts(mine, "kind")]), "pairs")
        for kind in dict.fromkeys(column_texts(mine, "kind"))
    }
    first = rows(mine, [k == next(iter(counts)) for k in column_texts(mine, "kind")])
    edges = np.r_[column_numbers(first, "low"), column_numbers(first, "high")[-1]]
    above = {kind: float(n[edges[:-1] >= -1e-9].sum() / max(n.sum(), 1)) for kind, n in counts.items()}
    shares = "; ".join(f"{kind}: {percent(share)} of {count(counts[kind].sum())} with P > 0.5"
                     for kind, share in above.items())  # fmt: skip
    figure = Figure(
        svg=logit_plot(edges, counts),
        title="All pairs by the detector's logit",
        caption=terms.fill(wording.SPREAD),
        alternative=f"{shares}.",
    )
    apart = float(max(counts[TWO_IDENTITIES].sum(), 1))
    share = one.above_itself_pairs / apart
    itself = wording.ITSELF.format(p=f"{scipy.special.expit(one.itself):.2f}", share=percent(share), units=terms.units)
    blocks: list[Block] = [Heading("Pairs of images"), figure, Paragraph(f"Pairs by their images: {shares}. {itself}")]
    if share > MANY:
        blocks.append(Callout("warning", "Exact copies do not stand out", [Paragraph(wording.BLIND)]))
    return blocks


def paired_section(
    result: Result, found: Paired, terms: Terms, redact: bool, pictures: Sequence[Block] = ()
) -> list[Block]:
    """Lay out MemRate with its value on held-out images, and the pairs that make it, with pictures if shown."""
    table = pd.DataFrame(
        [
            {
                "detector": rates.detector,
                "n": rates.n_memorized_pairs,
                **{
                    f"{what}_{k}": getattr(interval, k, np.nan)
                    for what, interval in (("rate", rates.rate), ("held", rates.held), ("excess", rates.excess))
                    for k in ("estimate", "low", "high")
                },
                "trials": np.nan if rates.rate is None else float(rates.rate.n_identities),
                "threshold": "P > 0.5" if rates.probability else rates.promise or wording.NO_THRESHOLD,
            }
            for rates in found.rates
        ]
    )
    columns = [
        words("detector", "Detector", row=True),
        number("n", "Pairs memorized", "count"),
        estimate("rate_estimate", "MemRate [95 % interval]", "percent", "rate_low", "rate_high"),
        estimate(
            "held_estimate", "On held-out images", "percent", "held_low", "held_high", missing="no held-out images"
        ),
        estimate("excess_estimate", "Difference", "percent", "excess_low", "excess_high"),
        number("trials", terms.units.capitalize(), "count"),
        words("threshold", "Threshold", wide=True),
    ]  # fmt: skip
    rates = f"{count(found.n_pairs)} synthetic images were compared with the training image they were generated from."
    if found.n_unpaired_images:
        rates += (
            f" For {count(found.n_unpaired_images)} no such image is named; they are compared with all, as every image."
        )
    caption = f"Every {terms.unit} counts alike, whatever the number of its images."
    blocks: list[Block] = [Paragraph(f"{rates} {terms.fill(wording.PAIRED)}")]
    blocks.append(Table(frame=table, columns=columns, caption=caption))
    alike = [rates.detector for rates in found.rates if rates.by_chance]
    if alike:
        warning = ["MemRate by ", Name(" and ".join(alike)), terms.fill(wording.NOT_LARGER)]
        blocks.append(Callout("warning", "No more than by chance", [Paragraph(warning)]))
    pairs = result.tables["paired"]
    chosen = rows(pairs, booleans(pairs, "memorized")).sort_values("score", ascending=False, kind="stable")
    if redact or not len(chosen):
        return blocks
    pair_columns = [
        *image_columns(terms),
        *([words("detector", "Detector")] if len(table) > 1 else []),
        number("score", "Score"),
        number("probability", "P", "short"),
    ]
    listing = Table(frame=chosen, columns=pair_columns, caption="Memorized pairs, most alike first.",
                    elsewhere="tables/paired.parquet", visible_rows=10)  # fmt: skip
    return [*blocks, listing, *pictures]


def cluster_block(result: Result, terms: Terms, redact: bool) -> list[Block]:
    """Lay out synthetic images that expose one patient together; count those that only repeat one another."""
    every = result.tables["clusters"]
    table = rows(every, every["n_groups"].to_numpy() > 0)
    others = len(every) - len(table)
    if not len(every):
        return []
    others_note: list[Block] = (
        [Paragraph(wording.OTHER_CLUSTERS.format(clusters=plural(others, "cluster", "clusters")))] if others else []
    )
    if not len(table):
        return others_note
    columns = [
        Column(source="cluster", heading="Cluster", format="count", row_heading=True),
        number("n_images", "Synthetic images", "count"),
        number("n_groups", f"Training {terms.units}", "count"),
        *([] if redact else [words("groups", "Whom they are flagged with", wide=True)]),
        *([] if redact else [words("images", "Which", wide=True)]),
    ]
    clusters = Table(frame=table, columns=columns, caption="The largest first.",
                  elsewhere="tables/clusters.parquet", visible_rows=10)  # fmt: skip
    return [Heading("Clusters of copies"), Paragraph(terms.fill(wording.CLUSTERS)), clusters, *others_note]


def review_section(result: Result, terms: Terms, redact: bool) -> list[Block]:
    """Lay out the pairs that a person should look at, and the judgements of persons."""
    table = result.tables["review"]
    verdicts = column_texts(table, "verdict")
    open_pairs = sum(not verdict for verdict in verdicts)
    blocks: list[Block] = []
    if open_pairs:
        blocks.append(Paragraph(wording.REVIEW.format(n=count(open_pairs), are="is" if open_pairs == 1 else "are")))
    if "changed" in table and len(changed := rows(table, [before != "" for before in column_texts(table, "changed")])):
        blocks += [Heading(f"Asked about anew: {count(len(changed))}"), Paragraph(wording.CHANGED)]
        before = words("changed", "Earlier judgement")
        blocks += _pair_table(changed, "Pairs that were judged before they changed.", [before], terms, redact)
    for verdict, title in ((DISMISS, "Dismissed"), (CONFIRM, "Confirmed")):
        judged = rows(table, [v == verdict for v in verdicts])
        if len(judged):
            blocks += _judged(judged, title, terms, redact)
    return blocks or [Paragraph("No pair asks to be looked at.")]


def _judged(table: pd.DataFrame, title: str, terms: Terms, redact: bool) -> list[Block]:
    """Lay out the pairs that a person dismissed or confirmed."""
    n = len(table)
    text = wording.DISMISSED if title == "Dismissed" else wording.CONFIRMED
    who = [words("by", "By"), words("reason", "Reason", wide=True)]
    blocks = _pair_table(table, f"{title} pairs.", who, terms, redact)
    return [Heading(f"{title} by a person: {count(n)}"), Paragraph(text), *blocks]


def _pair_table(
    table: pd.DataFrame, caption: str, judgement: Sequence[Column], terms: Terms, redact: bool
) -> list[Block]:
    """Tabulate pairs by name, with columns of their judgements; nothing in a redacted report."""
    if redact:
        return []
    names = image_columns(terms, image="synthetic_image", patient=("patient", "Patient"))
    columns = [*names, *judgement, words("found_by", "Found by", wide=True)]
    return [Table(frame=table, columns=columns, caption=caption, elsewhere="tables/review.parquet", visible_rows=10)]


def _window_cuts(windows: Sequence[WindowCut]) -> str:
    """Say from which correlation on a pair is confirmed, in windows of each size in which one can be."""
    reached = [window for window in windows if window.correlation is not None]
    cuts = [f"{window.correlation:.3f} in windows of {window.share:.0%} of either side" for window in reached]
    return f"The details must correlate by more than {', or '.join(cuts)}"


def alignment_section(result: Result, n: SyntheticNumbers, redact: bool, shown: Sequence[Block]) -> list[Block]:
    """Lay out the second look: the confirmed pairs with their transforms, and the confirmed planted copies.

    Args:
        result: Result with the table of alignments.
        n: Numbers of the audit.
        redact: Whether to leave out ids.
        shown: Pictures of confirmed pairs.
    """
    aligned, terms = n.aligned, n.terms
    if aligned is None:
        return [Paragraph("Nothing was laid on one another: that takes held-out images and a detector of images.")]
    text = terms.fill(wording.ALIGNED, expected=f"{aligned.expected:g}", n=count(n.sets.n_synthetic_images))
    if aligned.blind:
        text += " " + terms.fill(wording.NO_ALIGNMENT_CUT)
    else:
        looked_at = plural(aligned.n_images, "image that was", "images that were")
        confirmed = plural(aligned.n_pairs, f"pair of {looked_at} looked at is", f"pairs of {looked_at} looked at are")
        text += (
            f" {_window_cuts(aligned.windows)}. These cuts come from {count(aligned.n_null_people)} held-out "
            f"{terms.units} and {count(aligned.n_control_images)} synthetic images. {confirmed} confirmed; "
            f"{count(aligned.n_control_beyond)} synthetic images lie as well on a held-out image."
        )
    if aligned.confirms_no_plant:
        text += " " + wording.CONFIRMS_NO_PLANT
    if aligned.n_left:
        text += f" {count(aligned.n_left)} more images of flagged pairs were not looked at."
    if aligned.n_apart:
        text += " " + terms.fill(wording.ALIGNED_APART, n=plural(aligned.n_apart, "image", "images"))
    blocks: list[Block] = [Paragraph(text)]
    table = result.tables["alignments"]
    chosen = rows(table, booleans(table, "confirmed")).sort_values("similarity", ascending=False, kind="stable")
    if len(chosen) and not redact:
        columns = [
            *image_columns(terms),
            words("alignment", "What was done to the training image", wide=True),
            number("similarity", "Similarity"),
            number("overlap", "Overlap", "percent"),
        ]
        blocks.append(
            Table(frame=chosen, columns=columns, caption="Confirmed pairs, the most similar first.",
                  elsewhere="tables/alignments.parquet", visible_rows=10)
        )  # fmt: skip
    blocks += shown
    if aligned.plants:
        frame = pd.DataFrame(
            {"kind": kind, "share": of.estimate, "low": of.low, "high": of.high, "of": of.trials}
            for kind, of in aligned.plants.items()
        )
        columns = [
            words("kind", "Kind of copy", row=True),
            number("of", terms.units.capitalize(), "count"),
            estimate("share", "Confirmed [95 % interval]", "percent", "low", "high"),
        ]
        right = terms.of_one.replace("training", "right training")
        caption = f"Planted copies that the second look confirms on {right}."
        blocks.append(Table(frame=frame, columns=columns, caption=caption))
    return blocks


def confirmed_callout(result: Result, numbers: SyntheticNumbers) -> list[Block]:
    """Say that persons saw copies."""
    if not (n := numbers.pixels.n_confirmed_pairs):
        return []
    patients = int(booleans(result.per_group, "confirmed").sum())
    text = f"A person confirmed {plural(n, 'pair', 'pairs')} of a synthetic and a training image as copies, which show "
    return [Callout("fail", "Confirmed copies", [Paragraph(f"{text}{numbers.terms.counted(patients)}.")])]


def unread_block(result: Result, redact: bool) -> list[Block]:
    """List the images that were not looked at; only their number where names are redacted."""
    if "unread" not in result.tables:
        return []
    table = result.tables["unread"]
    columns = [
        words("part", "Part", row=True),
        words("image", "Image or file"),
        words("reason", "Why", wide=True),
    ]
    unread = Table(frame=table, columns=columns, caption="Not read.", elsewhere="tables/unread.parquet")
    text = "These were not compared. A synthetic one among them keeps the set from a pass."
    which = Paragraph(f"{plural(len(table), 'image', 'images')}; their names are left out.")
    return [Heading("Images that could not be read"), Paragraph(text), which if redact else Details("Which", [unread])]
