"""The report of a filter, in the order in which a data-protection officer asks.

May the kept set be shared (the audit of it decides), and what is promised? What did it cost? Which patients did the
rejected images expose, and which pairs are closest? What do the scores look like, what could not be read, what remains
open?

The report of a loop (`audits.synthesize.page`) shares the sections with numbers (audit, guarantee, cost, exposed
patients and pairs, scores), and its end: how it was done, and the line below the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from memorisk.audits.comparison.page_parts import DefinitionRows, footer, repeat_blocks, set_rows
from memorisk.audits.comparison.pictures import Pair, PairPicture, at_a_glance, glance_gallery, picture_gallery
from memorisk.audits.comparison.sets import further_parts_note
from memorisk.audits.filter import wording
from memorisk.audits.filter.result import (
    KEPT,
    DetectorSummary,
    FamilyCost,
    FilterNumbers,
    FilterSummary,
    Promise,
    ScreeningSetup,
)
from memorisk.audits.filter.wording import REASONS, UNREADABLE, n_equal_pixels
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Fact,
    Figure,
    Heading,
    Inline,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    estimate,
    number,
    words,
)
from memorisk.report.columns import capitalized, column_numbers, column_texts, count, decimal, percent, rows
from memorisk.report.figures.histograms import distance_plot
from memorisk.report.figures.intervals import series_plot
from memorisk.report.first_screen import FirstScreen, verdict_screen
from memorisk.report.glance import counts_of, dots_figure, in_short
from memorisk.report.numbers import from_json, to_json
from memorisk.report.result import Result
from memorisk.runs.errors import plural
from memorisk.statistics.intervals.shares import Proportion

_NAMES = {"detector": "Detector", "family": "Copies"}


def guarantee_section(result: Result, n: FilterNumbers) -> list[Block]:
    """Lay out the promise in METHODS' words, family by family, and what was left out for it."""
    terms, promise = n.terms, n.promise
    blocks: list[Block] = []
    if promise.guarantee:
        blocks += [Callout("note", "The promise", [Paragraph(Name(promise.guarantee))])]
    if promise.doubts:
        blocks.append(Paragraph(Name(wording.NO_PROMISE.format(why="; ".join(promise.doubts)))))
    if n.sets.filtered:
        if promise.guarantee:
            blocks.append(Paragraph(wording.unpromised_words(promise)))
        explanation = wording.USER if promise.threshold_by == "user" else wording.GUARANTEE
        blocks.append(Paragraph(terms.fill(explanation)))
    if promise.guarantee and promise.shared_by > 1:
        blocks.append(Paragraph(_shared(promise)))
    blocks.append(_guarantees(result, n))
    if promise.costs:
        blocks += [
            Heading("What each family costs"),
            Paragraph(terms.fill(wording.FAMILY_COSTS)),
            cost_table(promise.costs),
        ]
    if explanation := wording.excluded_words(n.calibration.exclusions, terms):
        blocks += [Paragraph("Calibration asks for new people, and counts each once:"), Steps(explanation)]
    return blocks


def audit_section(n: FilterNumbers) -> list[Section]:
    """Lay out what the audit of the kept set says, where there was one."""
    if (audit := n.audited) is None:
        return []
    rows = [
        ("Detectors", "; ".join(audit.detectors)),
        ("Verdict", audit.status),
        (f"Training {n.units} listed", count(audit.n_listed_patients)),
        ("Kept images singled out", count(audit.n_singled_images)),
        ("Kept images confirmed by the second look", count(audit.n_confirmed_images)),
        (f"Training {n.units} copied for certain", count(audit.n_certain_patients)),
    ]
    frame = pd.DataFrame(rows, columns=["what", "found"])
    columns = [words("what", "", row=True), words("found", "Found")]
    table = Table(frame=frame, columns=columns, caption="The audit of the kept set.")
    text = n.terms.fill(wording.AUDITED, folder=audit.folder)
    return [Section("The kept set, audited", [Paragraph(text), table], "audit")]


def cost_section(result: Result, n: FilterNumbers) -> list[Block]:
    """Lay out rejected images by reason, detector and class; real images; diversity."""
    terms = n.terms
    by_reason = [{"reason": reason, "n": n.sets.rejected.get(reason, 0), "what": REASONS[reason]} for reason in REASONS]
    reasons = Table(
        frame=pd.DataFrame([row for row in by_reason if row["n"]], columns=["reason", "n", "what"]),
        columns=[
            words("reason", "Reason", row=True),
            number("n", "Images", "count"),
            words("what", "What it means", wide=True),
        ],
        caption="Rejected images, by reason.",
        elsewhere="manifest.parquet",
        empty="No image is rejected.",
    )
    blocks: list[Block] = [Paragraph(terms.fill(wording.COST)), reasons, _detectors(result)]
    if (real := n.real_rejected) is not None:
        fields = {"share": percent(real.estimate), "low": percent(real.low), "high": percent(real.high)}
        blocks.append(Paragraph(terms.fill(wording.REAL, **fields, n=count(real.trials))))
    if len(result.per_class):
        blocks += [Heading("Classes"), _classes(result)]
    columns = [
        words("detector", "Detector", row=True),
        words("images", "Images"),
        number("n", "Number", "count"),
        number("distinct", "Distinct nearest", "count"),
        estimate("irs", "IRS [95 % interval]", low="low", high="high"),
        number("n_equal", "Of as many", "count"),
        estimate("equal", "IRS of these"),
    ]
    caption = "Image retrieval score, before and after."
    table = Table(frame=result.tables["diversity"], columns=columns, caption=caption)
    return [*blocks, Heading("Diversity"), Paragraph(terms.fill(wording.DIVERSITY)), table]


def exposed_section(
    result: Result, n: FilterNumbers, pictures: Mapping[Pair, PairPicture] | None, redact: bool
) -> list[Block]:
    """Lay out the training patients that rejected images point to, each with the closest pair."""
    terms, counted = n.terms, wording.exposed_words(n)
    names = [
        words("group", terms.unit.capitalize(), row=True),
        *([words("training_image", "Training image")] if terms.units == "patients" else []),
        words("synthetic_image", "Synthetic image"),
    ]
    columns = [
        *([] if redact else names),
        number("score", "Score"),
        number("threshold", "Threshold"),
        Column(source="identical", heading="Same pixels", format="yes_no"),
        number("n_rejected", "Rejected images", "count"),
        number("n_singled_out", "Singling out", "count"),
    ]
    table = Table(
        frame=result.per_group,
        columns=columns,
        caption=terms.fill(wording.EXPOSED_TABLE),
        elsewhere="per_group.parquet",
        empty="No rejected image points at anybody.",
    )
    blocks: list[Block] = [Paragraph(terms.fill(wording.EXPOSED)), *([Paragraph(counted)] if counted else []), table]
    if redact:
        return [*blocks, Paragraph("Ids are left out of this report. They are in the run's own tables.")]
    if pictures is None:
        return [*blocks, Paragraph("Pictures are left out of this report.")]
    return [*blocks, *picture_gallery(pictures, "The closest pairs", at_a_glance(pictures))]


def exposed_facts(n: FilterNumbers) -> list[Fact]:
    """Count who is exposed, and who reaches the threshold along with others, with the false alarms on new people."""
    exposed, real, alarms = n.exposed, n.real_rejected, "false alarms: not known"
    if real is not None:
        alarms = f"false alarms: {percent(real.low)} to {percent(real.high)} of new {n.units}"
    detail = f"{count(exposed.n_identical_patients)} by pixels, {count(exposed.n_singled_patients)} by score"
    return [
        Fact(f"{wording.exposed_as(exposed).capitalize()} {n.units}", count(exposed.n_exposed_patients), detail),
        Fact("Similar, not singled out", n.terms.counted(exposed.n_pointed_patients), alarms),
    ]


def score_section(result: Result, n: FilterNumbers, setup: ScreeningSetup) -> list[Block]:
    """Draw the distributions of scores, a figure for each detector."""
    pairs = zip(setup.features, n.promise.thresholds, strict=True)
    return [Paragraph(wording.SCORES), *(_figure(result, one, threshold) for one, threshold in pairs)]


def unread_section(result: Result, redact: bool) -> list[Block]:
    """List the synthetic images that could not be read."""
    chosen = rows(result.per_image, [reason == UNREADABLE for reason in column_texts(result.per_image, "reason")])
    if not len(chosen):
        return [Paragraph("Every synthetic image could be read.")]
    blocks: list[Block] = [Paragraph(wording.UNREAD)]
    if redact:
        return [*blocks, Paragraph(f"{plural(len(chosen), 'image', 'images')}; their names are left out.")]
    columns = [words("image", "Synthetic image", row=True)]
    if "detail" in chosen:
        columns.append(words("detail", "Why", wide=True))
    return [*blocks, Table(frame=chosen, columns=columns, caption="Rejected unread.", elsewhere="manifest.parquet")]


def _shared(promise: Promise) -> str:
    return wording.SHARED.format(
        detectors=plural(len(promise.detectors), "detector", "detectors"),
        families=plural(promise.shared_by // len(promise.detectors), "family", "families"),
        confidence=promise.confidence,
        shared=promise.shared_by,
        each=(1 - promise.confidence) / promise.shared_by,
    )


def _guarantees(result: Result, n: FilterNumbers) -> Table:
    table = result.tables["guarantees"]
    screened = "missed" in table
    columns = [
        *([words("detector", "Detector", row=True)] if screened else []),
        words("words", "Copies", wide=True, row=not screened),
        number("n_identities", "Identities", "count"),
        number("needed", "Needed", "count"),
        number("missing", "Missing", "count"),
    ]
    if screened and n.promise.threshold_by == "user":
        limits = ("missed_low", "missed_high")
        columns += [
            number("missed", "Missed", "count"),
            Column(source="missed_share", heading="Share [95 % interval]", format="percent", interval=limits),
        ]
    elif screened:
        columns += [
            number("misses_allowed", "May be missed", "count"),
            number("threshold", "Threshold by these"),
            number("missed", "Missed at the smallest", "count"),
        ]
    caption = f"Calibration {n.units} with a pair of each kind, and what the guarantee needs."
    return Table(frame=table, columns=columns, caption=caption, elsewhere="tables/calibration.parquet")


def cost_table(costs: Sequence[FamilyCost]) -> Table:
    """Tabulate what the threshold of each family leaves out.

    Args:
        costs: Costs of all families that were tried.
    """
    frame = pd.DataFrame(
        {
            "family": [cost.family for cost in costs],
            "promised": ["promised" if cost.promised else "not promised" for cost in costs],
            "threshold": [", ".join(f"{threshold:.3g}" for threshold in cost.thresholds) for cost in costs],
            **_share_columns("new", [cost.new for cost in costs]),
            **_share_columns("made", [cost.synthetic for cost in costs]),
        }
    )
    columns = [
        words("family", "Copies", row=True, wide=True),
        words("promised", "Promise"),
        words("threshold", "Threshold"),
        estimate("new", "New people left out [95 % interval]", "percent"),
    ]
    if any(cost.synthetic is not None for cost in costs):
        columns.append(estimate("made", "Synthetic images left out [95 % interval]", "percent"))
    return Table(frame=frame, columns=columns, caption="What the threshold of each family leaves out by itself.")


def _share_columns(name: str, shares: Sequence[Proportion | None]) -> dict[str, list[float]]:
    """Return the columns of a share with its limits; NaN where it is not known."""
    return {
        f"{name}{end}": [np.nan if share is None else getattr(share, value) for share in shares]
        for end, value in (("", "estimate"), ("_low", "low"), ("_high", "high"))
    }


def _detectors(result: Result) -> Table:
    columns = [
        words("detector", "Detector", row=True),
        number("threshold", "Threshold"),
        number("n_rejected", "Rejected", "count"),
        number("n_alone", "By it alone", "count"),
        number("real_images", "Of real images", "percent"),
    ]
    caption = "Images that reach the threshold, by detector. Scores of different detectors do not compare."
    return Table(frame=result.tables["detectors"], columns=columns, caption=caption)


def _classes(result: Result) -> Table:
    columns = [
        words("label", "Class", row=True),
        number("n_before", "Before", "count"),
        number("n_kept", "Kept", "count"),
        number("n_rejected", "Rejected", "count"),
        number("share_rejected", "Of the class", "percent"),
        number("share_before", "Share before", "percent"),
        number("share_kept", "Share kept", "percent"),
    ]
    return Table(frame=result.per_class, columns=columns, caption="Class balance, before and after.")


def _figure(result: Result, detector: DetectorSummary, threshold: float) -> Figure:
    """Draw how far below an image and itself the best matches and calibration pairs lie, with the threshold."""
    name, top = detector.detector, detector.top
    pools = {"synthetic images": _depth(result.tables["scores"], name, top)}
    if len(real := result.tables["real_images"]):
        pools["real images of new people"] = _depth(real, name, top)
    if len(pairs := result.tables["calibration"]):
        pools["calibration pairs"] = _depth(pairs, name, top)
    distances = {what: values for what, values in pools.items() if len(values)}
    marked = [max(top - threshold, 0.0)]
    medians = [f"{what}: median {decimal(np.median(values))}" for what, values in distances.items()]
    return Figure(
        svg=distance_plot(
            distances,
            x_title="Score of an image with itself, less that of the pair",
            marked=marked,
            marked_as="threshold",
        ),
        title="Best matches and calibration pairs",
        caption=[Name(name), f": {detector.compares}."],
        alternative="; ".join(medians) + f"; threshold {decimal(marked[0])}.",
    )


def _depth(table: pd.DataFrame, detector: str, top: float) -> np.ndarray:
    """Return how far, [n], the scores of a detector lie below the top; a head may put an unlike pair above it."""
    score = column_numbers(rows(table, [name == detector for name in column_texts(table, "detector")]), "score")
    return np.maximum(top - score[np.isfinite(score)], 0.0)


def setup_section(
    n: FilterNumbers, setup: ScreeningSetup, first: DefinitionRows, settings: DefinitionRows, redact: bool
) -> list[Block]:
    """List the settings that repeat the run.

    Args:
        n: Numbers of the run.
        setup: Setup of the run.
        first: Rows that come first: the images and their form.
        settings: Rows of settings that only this command has.
        redact: Leave out the notes of the run, which may name files.
    """
    definitions = list(first)
    for detector in setup.features:
        definitions.append(
            ("Detector", Name(f"{detector.detector}: {detector.sentence} Compared by {detector.compares}."))
        )
    definitions += [
        ("Miss rate, confidence", f"{n.promise.miss_rate:g}, {n.promise.confidence:g}"),
        *settings,
        ("Seed", f"{setup.settings.seed}"),
        ("Ids replaced by keyed hashes", "yes" if setup.pseudonymised else "no"),
    ]
    definitions += [(f"Fingerprint, {what}", Name(value)) for what, value in to_json(n.data_hash).items() if value]
    notes = [*n.notes, *(note for detector in setup.features for note in detector.notes)]
    return repeat_blocks(definitions, notes, setup.versions, redact)


def filter_page(result: Result, pictures: Mapping[Pair, PairPicture] | None = None, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Result of `audits.filter.analysis.analyse_filter`.
        pictures: Pictures of pairs side by side; None for none.
        redact: Leave out every id and every picture.
    """
    summary = from_json(FilterSummary, result.summary)
    n = summary.numbers
    title: list[Inline] = ["Which synthetic images may stay?"]
    if not redact:
        title += [" ", Name(summary.names.synthetic)]
    sections = [*audit_section(n), Section("What is promised", guarantee_section(result, n), "guarantee")]
    if n.sets.filtered:
        gallery = None if redact else pictures
        sections += [
            Section("What it cost", cost_section(result, n), "cost"),
            Section("Whom rejected images point at", exposed_section(result, n, gallery, redact), "exposed"),
            Section("Scores", score_section(result, n, summary.setup), "scores"),
        ]
    sections += [
        Section("Not read", unread_section(result, redact), "unread"),
        Section("What this does not say", [Steps(wording.limitations(n))], "limits"),
        Section("How it was done", _setup(summary, redact), "setup"),
    ]
    return Page(
        title=title,
        lead=first_screen(result).blocks(left_out(result, n, summary.setup, None if redact else pictures)),
        sections=sections,
        footer=[Paragraph(footer(summary.setup.versions, redact))],
        redacted=redact,
    )


def first_screen(result: Result) -> FirstScreen:
    """Show the verdict on the kept set, the reasons, what is promised, who is exposed, and the main numbers.

    Args:
        result: Result of the filter.
    """
    n = from_json(FilterSummary, result.summary).numbers
    return replace(screening_screen(result, n), facts=_facts(n), files=kept_files(n))


def left_out(
    result: Result, n: FilterNumbers, setup: ScreeningSetup, pictures: Mapping[Pair, PairPicture] | None
) -> list[Block]:
    """Draw how many images were left out, by which scores, of which classes, and the gravest of their pairs.

    Args:
        result: Result of a filter, or of a loop around one.
        n: Its numbers.
        setup: Its setup.
        pictures: Pictures of pairs; None for none.
    """
    sets, blocks = n.sets, list[Block]()
    if not sets.filtered:
        return []
    blocks.append(dots_figure(sets.n_rejected_images, sets.n_synthetic_images, "images", "left out"))
    if setup.features and n.promise.thresholds:
        scores = _figure(result, setup.features[0], n.promise.thresholds[0])
        blocks.append(in_short(scores, "Scores"))
    classes = result.per_class
    if len(classes):
        before, after = (column_numbers(classes, name) for name in ("n_before", "n_kept"))
        labels = column_texts(classes, "label")
        spoken = [f"{label}: {count(a)}, kept {count(b)}" for label, a, b in zip(labels, before, after, strict=True)]
        series = {"before": counts_of(before), "kept": counts_of(after)}
        blocks.append(
            Figure(
                svg=series_plot(labels, series, x_title="Images", cut=False),
                title="Images by class, before and after",
                caption="",
                alternative=f"{'; '.join(spoken)}.",
            )
        )
    if pictures:
        blocks.append(glance_gallery(at_a_glance(pictures), "Left out: training, generated, difference"))
    return blocks


def screening_screen(result: Result, n: FilterNumbers) -> FirstScreen:
    """Return what the first screens of a filter and of a loop around one share.

    Args:
        result: Result of either.
        n: Numbers of the filter.
    """
    headline, sentence = wording.conclusion(result.status, n)
    promise, exposed = n.promise, wording.exposed_words(n)
    promised = [promise.guarantee, wording.unpromised_words(promise)] if promise.guarantee else []
    promised += [wording.NO_PROMISE.format(why="; ".join(promise.doubts))] if promise.doubts else []
    screen = verdict_screen(result, headline)
    lists = {**screen.lists, "What is promised besides": promised, "Who is exposed": [exposed] if exposed else []}
    excluded = wording.excluded_words(n.calibration.exclusions, n.terms)
    notes = [f"Calibration: {who}." for who in excluded]
    if others := n.sets.other_parts:
        notes.append(further_parts_note(others, pixels_compared=True))
    return replace(screen, sentences=[sentence], lists=lists, notes=notes)


def kept_files(n: FilterNumbers) -> dict[str, str]:
    """Name the folder of the kept set and the report of its audit, where there are any."""
    folder = {"Kept set": KEPT} if n.sets.n_kept_images else {}
    return folder if n.audited is None else folder | {"Its audit": f"{n.audited.folder}/report.html"}


def _facts(n: FilterNumbers) -> list[Fact]:
    sets, calibration, real = n.sets, n.calibration, n.real_rejected
    held = Fact("False alarms on real images", "not known")
    if real is not None:
        limits = f"{percent(real.low)} to {percent(real.high)} of new {n.units}"
        held = Fact("False alarms on real images", percent(real.estimate), limits)
    return [
        Fact("Kept", count(sets.n_kept_images), f"of {count(sets.n_synthetic_images)}"),
        Fact("Rejected", count(sets.n_rejected_images), f"{count(n_equal_pixels(sets.rejected))} with the same pixels"),
        Fact("Could not be read", count(sets.rejected[UNREADABLE])),
        *exposed_facts(n),
        Fact(*_missed(n)),
        held,
        Fact(
            f"Calibration {n.units}",
            count(calibration.n_calibration_patients),
            f"missing: {count(n.promise.n_missing_patients)}",
        ),
    ]


def _missed(n: FilterNumbers) -> tuple[str, str, str]:
    """Say how many copies are missed, of which kinds, and that others are not covered."""
    promise = n.promise
    if not n.sets.n_kept_images:
        return "Copies missed", "-", "nothing was kept"
    if not promise.guarantee:
        return "Copies missed", "no promise", ""
    kinds, most, only = (
        wording.promised_kinds(promise),
        f"at most {percent(promise.miss_rate)}",
        "other kinds: not covered",
    )
    if len(promise.kinds) > 3:
        return f"Copies missed, of {len(promise.kinds)} kinds", most, f"{kinds}; {only}"
    return f"{capitalized(kinds)} copies missed", most, only


def _setup(s: FilterSummary, redact: bool) -> list[Block]:
    """List the settings that repeat the run."""
    n, sets, calibration = s.numbers, s.numbers.sets, s.numbers.calibration
    compared = (
        ("Training", s.names.training, sets.n_train_images, sets.n_train_patients),
        ("Synthetic", s.names.synthetic, sets.n_synthetic_images, None),
        ("Calibration", s.names.calibration, calibration.n_calibration_images, calibration.n_calibration_patients),
    )
    first = set_rows(compared, n.terms, s.shape, s.setup.settings.resize, redact=redact)
    return setup_section(n, s.setup, first, [], redact)
