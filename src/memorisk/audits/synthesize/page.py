"""The report of a loop: may the set be shared, what is promised after drawing again, what was rejected, who looked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.filter.closing import Told, footer, named, setup_section
from memorisk.audits.filter.sections import (
    cost_section,
    exposed_facts,
    exposed_section,
    guarantee_section,
    score_section,
)
from memorisk.audits.filter.verdict import is_nothing_kept
from memorisk.audits.filter.words import WEAK, promised_kinds
from memorisk.audits.synthesize import words
from memorisk.audits.synthesize.outlook import said_of
from memorisk.audits.synthesize.table_three import table_three_block
from memorisk.audits.synthetic.pictures import Pair
from memorisk.audits.synthetic.words import Terms, p_words
from memorisk.models.generators.sampling_options import SamplingOptions
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Fact,
    Facts,
    Heading,
    Inline,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
)
from memorisk.report.formats import capitalized, count, percent
from memorisk.report.result import Result


def loop_page(result: Result, pictures: Mapping[Pair, np.ndarray] | None = None, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Of `audits.synthesize.analysis.analyse_loop`.
        pictures: Pairs side by side; None for none.
        redact: Leave out every id and every picture.
    """
    n = result.summary["numbers"]
    terms = Terms(str(n["units"]))
    title: list[Inline] = ["Images made, screened and made again"]
    if not redact:
        title += [" ", Name(str(n["generator"]))]
    sections = [Section("What is promised", [*guarantee_section(result, terms), *_selected(n)], "guarantee")]
    if n["filtered"]:
        shown = None if redact else pictures
        sections += [
            Section("The loop", _loop(result, n), "loop"),
            Section("The kept set, audited", _audited(n, terms), "audit"),
            Section("Quality and memorization", _table_three(n), "table-three"),
            Section("What was rejected", cost_section(result, terms), "cost"),
            Section("Whom rejected images point at", exposed_section(result, terms, shown, redact), "exposed"),
            Section("Scores", score_section(result), "scores"),
        ]
    sections += [
        Section("What this does not say", [Steps(words.not_said(terms, n))], "limits"),
        Section("How it was done", _setup(result, redact), "setup"),
    ]
    return Page(
        title=title,
        subtitle="A set of generated images, drawn again where a detector took one for a copy of a training image",
        lead=_lead(result, terms),
        sections=sections,
        footer=[Paragraph(footer(result, redact))],
        redacted=redact,
    )


def _lead(result: Result, terms: Terms) -> list[Block]:
    """The verdict in words, why, what would decide it, and the numbers to carry away."""
    v, n = result.verdict, result.summary["numbers"]
    (kind, headline), sentence = words.HEADLINES[result.status], words.SENTENCES[result.status]
    if is_nothing_kept(n):
        (kind, headline), sentence = words.NOTHING, words.NOTHING_KEPT
    why = [Name(capitalized(reason)) for reason in v["why"]]
    blocks: list[Block] = [Paragraph(sentence), Heading("Why"), Steps(why)]
    if v["what_would_decide"]:
        ways = [Name(capitalized(str(way))) for way in v["what_would_decide"]]
        blocks += [Heading("What would decide it"), Steps(ways)]
    facts = [
        Fact("Kept", count(n["n_kept"]), f"of {count(n['n_asked'])}"),
        Fact("Drawn", count(n["n_drawn"]), f"{count(n['n_rejected'])} rejected"),
        Fact(*_copies(n)),
        *exposed_facts(n, terms),
        Fact("Listed by the auditor", *_listed(n)),
    ]  # fmt: skip
    if n["n_kept"] and n["weak_features"]:
        blocks.append(Paragraph(WEAK))
    if v["exposed"]:
        blocks.append(Paragraph(str(v["exposed"])))
    return [Callout(kind, headline, blocks), Facts(facts)]


def _copies(n: dict[str, Any]) -> tuple[str, str, str]:
    """Which copies among the kept images are bounded, the upper limit, and what is not promised."""
    if not n["n_kept"]:
        return "Copies among the kept", "-", "nothing kept"
    if not words.is_bounded(n):
        return "Copies among the kept", "no promise", "training images are not all known" if n["guarantee"] else ""
    kinds, most = promised_kinds(n), f"at most {percent(n['copies']['high'])}"
    if len(n["kinds"]) > 3:
        return f"Copies of {len(n['kinds'])} kinds among the kept", most, f"95 % limit; {kinds}; no others promised"
    return f"Copies made by {kinds} among the kept", most, "95 % limit; no others promised"


def _listed(n: dict[str, Any]) -> tuple[str, str]:
    """How many the auditor lists, and what it says of all together."""
    if (audit := n["audited"]) is not None:
        return count(audit["n_listed"]), f"nearer as a whole: p {p_words(audit['nearer']['p_value'])}"
    return ("not asked", "") if n["auditor"] is None else ("-", "nothing was kept to look at")


def _selected(n: dict[str, Any]) -> list[Block]:
    """What drawing again does to the promise."""
    copies = n["copies"]
    if copies is None or not n["n_kept"]:
        return []
    if not n["guarantee"]:
        return [Paragraph(words.UNBOUNDED)]
    if not words.is_bounded(n):
        return [Paragraph(words.UNKNOWN)]
    miss = copies["miss_rate"]
    told = words.SELECTED.format(
        kinds=promised_kinds(n),
        miss=percent(miss),
        odds=f"{miss / (1 - miss):.3g}",
        rejected=count(copies["n_rejected"]),
        kept=count(copies["n_kept"]),
        high=percent(copies["high"]),
        places=count(n["n_asked"]),
        tries=f"{n['most_tries']:,} tries" if n["most_tries"] > 1 else "one try",
        place=percent(copies["place"]),
    )
    return [Heading("After drawing again"), Paragraph(told)]


def _loop(result: Result, n: dict[str, Any]) -> list[Block]:
    """Attempts, and how many images each took."""
    told, places = (words.LOOP_WITH_GAPS if n["n_empty"] else words.LOOP), (n["n_asked"], n["n_empty"])
    asked, empty = map(count, places)
    blocks: list[Block] = [Paragraph(told.format(tries=words.times(n["most_tries"]), asked=asked, empty=empty))]
    if n["gave_up"]:
        blocks.append(Paragraph(words.GAVE_UP.format(why=said_of(n["real_rejected"], n["units"]))))
    if n["paired"]:
        blocks.append(Paragraph(words.PAIR.format(n=count(n["n_of_source"]))))
    table = Table(
        frame=result.tables["attempts"],
        columns=[
            Column(source="attempt", heading="Attempt", format="count", row_heading=True),
            Column(source="n_drawn", heading="Drawn", format="count"),
            Column(source="n_rejected", heading="Rejected", format="count"),
            Column(source="n_kept", heading="Kept", format="count"),
        ],
        caption="Attempts. Every image ever drawn is in ledger.csv, with why it was rejected.",
        elsewhere="tables/attempts.parquet",
    )
    return [*blocks, table]


def _audited(n: dict[str, Any], terms: Terms) -> list[Block]:
    """What the auditor says."""
    audit = n["audited"]
    if audit is None:
        idle = words.NOTHING_TO_AUDIT.format(auditor=n["auditor"])
        return [Paragraph(words.NOT_AUDITED if n["auditor"] is None else Name(idle))]
    nearer, held = audit["nearer"], {"units": terms.units}
    told = words.AUDITED.format(held=count(nearer["n_held"]), **held)
    test = words.NEARER.format(train=count(nearer["n_train"]), p=p_words(nearer["p_value"]), **held)
    frame = pd.DataFrame(
        [
            ("Detector", audit["auditor"]),
            ("Verdict of the audit", audit["status"]),
            (f"Training {terms.units} listed", count(audit["n_listed"])),
            (f"Training {terms.units} copied for certain", count(audit["n_certain"])),
        ],
        columns=["what", "found"],
    )
    columns = [Column(source="what", heading="", row_heading=True), Column(source="found", heading="Found")]
    why = [Name(str(reason)) for reason in audit["why"]]
    table = Table(frame=frame, columns=columns, caption="The audit of the kept set.")
    said = [Paragraph(str(nearer["said"]))] if nearer.get("said") else []  # patients counted by one image: in sight
    return [Paragraph(told), table, Paragraph(test), *said, Details("Why the audit says so", [Steps(why)])]


def _table_three(n: dict[str, Any]) -> list[Block]:
    if n["table_three"] is None:
        return [Paragraph("Nothing was kept whose quality could be measured.")]
    return [Paragraph(words.TABLE_THREE), table_three_block([n["table_three"]])]


def _setup(result: Result, redact: bool) -> list[Block]:
    """Everything to repeat it."""
    n, s = result.summary["numbers"], result.summary
    told: Told = []
    for title, key, images, units in (
        ("Training", "training", n["n_train_images"], n["n_train_patients"]),
        ("Calibration", "calibration", n["n_calibration_images"], n["n_calibration"]),
    ):
        counted = f"{count(images)} images, {count(units)} {n['units']}"
        told.append((title, named(s["names"][key], counted, redact)))
    made, settings = s["generator"], s["settings"]
    conditioned = made["conditioning"] or made["conditioned_on"]
    sampling = SamplingOptions(**s["sampling"]).told(str(made["kind"]))
    told += [
        ("Generator", Name(f"{'' if redact else made['name'] + ', '}{made['kind']}, conditioned on {conditioned}")),
        ("Its fingerprint", Name(str(n["generator_source"]))),
        ("Sampling", Name(", ".join(f"{name} {value}" for name, value in sampling.items()))),
    ]
    drawn: Told = [
        ("Balance", "paired with training images" if settings["paired"] else str(settings["balance"])),
        ("Most tries", count(settings["most_tries"])),
    ]
    return setup_section(result, told, drawn, redact)
