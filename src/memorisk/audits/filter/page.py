"""The report of a filter, in the order in which a data-protection officer asks.

May the kept set be shared, and what is promised? What did it cost? Whom did the rejected images expose, and which pairs
are closest? What do the scores look like, what could not be read, what is not said?
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from memorisk.audits.filter import words
from memorisk.audits.filter.closing import Told, footer, named, setup_section
from memorisk.audits.filter.sections import (
    cost_section,
    exposed_facts,
    exposed_section,
    guarantee_section,
    score_section,
    unread_section,
)
from memorisk.audits.filter.verdict import is_weak_alone
from memorisk.audits.synthetic.pictures import Pair
from memorisk.audits.synthetic.words import Terms
from memorisk.report.blocks import (
    Block,
    Callout,
    Fact,
    Facts,
    Heading,
    Inline,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
)
from memorisk.report.formats import capitalized, count, percent
from memorisk.report.result import Result


def filter_page(result: Result, pictures: Mapping[Pair, np.ndarray] | None = None, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Of `audits.filter.analysis.analyse_filter`.
        pictures: Pairs side by side; None for none.
        redact: Leave out every id and every picture.
    """
    n = result.summary["numbers"]
    terms = Terms(str(n["units"]))
    title: list[Inline] = ["Which synthetic images may stay?"]
    if not redact:
        title += [" ", Name(str(result.summary["names"]["synthetic"]))]
    sections = [Section("What is promised", guarantee_section(result, terms), "guarantee")]
    if n["filtered"]:
        shown = None if redact else pictures
        sections += [
            Section("What it cost", cost_section(result, terms), "cost"),
            Section("Whom rejected images point at", exposed_section(result, terms, shown, redact), "exposed"),
            Section("Scores", score_section(result), "scores"),
        ]
    sections += [
        Section("Not read", unread_section(result, redact), "unread"),
        Section("What this does not say", [Steps(words.not_said(terms, n))], "limits"),
        Section("How it was done", _setup(result, terms, redact), "setup"),
    ]
    return Page(
        title=title,
        subtitle="A set of generated images without what a detector takes for copies of training images",
        lead=_lead(result, terms),
        sections=sections,
        footer=[Paragraph(footer(result, redact))],
        redacted=redact,
    )


def _lead(result: Result, terms: Terms) -> list[Block]:
    """The verdict in words, why, what would decide it, and the numbers to carry away."""
    v, n = result.verdict, result.summary["numbers"]
    kind, headline = words.HEADLINES[result.status]
    sentence = words.SENTENCES[result.status]
    if result.status == "undecided" and n["filtered"]:
        weak = is_weak_alone(v)
        headline, sentence = (words.WEAKLY, words.KEPT_WEAKLY) if weak else (words.UNGUARANTEED, words.KEPT_SO)
    blocks: list[Block] = [Paragraph(sentence), Heading("Why"), Steps([Name(capitalized(why)) for why in v["why"]])]
    if v["what_would_decide"]:
        blocks += [Heading("What would decide it"), Steps([Name(capitalized(way)) for way in v["what_would_decide"]])]
    if n["n_kept"]:
        blocks.append(Paragraph(words.unpromised(n)))
    if n["n_kept"] and n["weak_features"]:
        blocks.append(Paragraph(words.WEAK))
    if v["exposed"]:
        blocks.append(Paragraph(str(v["exposed"])))
    return [Callout(kind, headline, blocks), Facts(_facts(n, terms))]


def _facts(n: dict[str, Any], terms: Terms) -> list[Fact]:
    real = n["real_rejected"]
    held = Fact("Real images that would be rejected", "not known")
    if real is not None:
        limits = f"{percent(real['low'])} to {percent(real['high'])}"
        held = Fact("Real images that would be rejected", percent(real["estimate"]), limits)
    return [
        Fact("Kept", count(n["n_kept"]), f"of {count(n['n_synthetic'])}"),
        Fact("Rejected", count(n["n_rejected"]), f"{count(n['rejected']['same pixels'])} with the same pixels"),
        Fact("Not read", count(n["rejected"]["unreadable"]), "rejected"),
        Fact(*_missed(n)),
        Fact(f"Calibration {terms.units}", count(n["n_calibration"]), f"missing: {count(n['missing'])}"),
        held,
        *exposed_facts(n, terms),
    ]


def _missed(n: dict[str, Any]) -> tuple[str, str, str]:
    """Of which copies how many are missed, and that this is all."""
    if not n["n_kept"]:
        return "Copies missed", "-", "nothing was kept"
    if not n["guarantee"]:
        return "Copies missed", "no promise", ""
    kinds, only = words.promised_kinds(n), "no others promised"
    if len(n["kinds"]) > 3:
        return f"Copies missed, of {len(n['kinds'])} kinds", f"at most {percent(n['miss_rate'])}", f"{kinds}; {only}"
    return f"{capitalized(kinds)} copies missed", f"at most {percent(n['miss_rate'])}", only


def _setup(result: Result, terms: Terms, redact: bool) -> list[Block]:
    """Everything to repeat it."""
    n, s = result.summary["numbers"], result.summary
    told: Told = []
    for title, key, images, units in (
        ("Training", "training", n["n_train_images"], n["n_train_patients"]),
        ("Synthetic", "synthetic", n["n_synthetic"], None),
        ("Calibration", "calibration", n["n_calibration_images"], n["n_calibration"]),
    ):
        counted = f"{count(images)} images"
        counted += f" of {terms.counted(units)}" if units is not None and terms.units == "patients" else ""
        told.append((title, named(s["names"][key], counted, redact)))
    height, width, channels = s["shape"]
    told.append(("Pixels", f"{height} x {width} x {channels}, by {s['settings']['resize']} where they were resized"))
    return setup_section(result, told, [], redact)
