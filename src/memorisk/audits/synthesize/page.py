"""The report of a loop: may the set be shared, what is promised after drawing again, what was rejected, who looked.

Its fixed wording stands first, apart from the layout, so that a checker of its claims reads it in one place.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.filter.page import (
    cost_section,
    exposed_facts,
    exposed_section,
    guarantee_section,
    score_section,
    setup_section,
)
from memorisk.audits.filter.verdict import is_nothing_kept
from memorisk.audits.filter.wording import WEAK, promised_kinds
from memorisk.audits.generated.closing import DefinitionRows, footer, set_name
from memorisk.audits.generated.pictures import Pair
from memorisk.audits.generated.terms import Terms, p_words
from memorisk.audits.synthesize.table_three import table_three_block
from memorisk.audits.synthesize.verdict import rejection_words
from memorisk.models.settings import SamplingOptions
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Fact,
    Facts,
    Heading,
    Inline,
    Kind,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
)
from memorisk.report.columns import capitalized, count, percent
from memorisk.report.result import Result

HEADLINES: dict[str, tuple[Kind, str]] = {
    "pass": ("pass", "Made and filtered, with a guarantee"),
    "fail": ("fail", "Not to be shared"),
    "undecided": ("undecided", "Could not be decided"),
}
NOTHING: tuple[Kind, str] = ("fail", "Nothing was kept")
NOTHING_KEPT = "Every image that was drawn was rejected, so that there is nothing to share; why stands below."
SENTENCES = {
    "pass": "The folder “kept” holds as many images as were asked for, none of which a detector takes for a copy. What "
    "that promises, and what it does not, stands below.",
    "fail": "The images should not be shared as they are; why stands below.",
    "undecided": "What was made does not come with all that was asked for; what is missing stands below.",
}
LOOP = (
    "Every place was filled by drawing an image, comparing it with all training images, and, where it was rejected, "
    "drawing it again from another seed: of the same class or condition, up to {tries}."
)
LOOP_WITH_GAPS = (
    "For every place an image was drawn, compared with all training images, and, where it was rejected, drawn again "
    "from another seed: of the same class or condition, up to {tries}. Of {asked} places, {empty} stayed empty."
)
GAVE_UP = "Not one of the first draws passed, and {why}: no place was tried again."
SELECTED = (
    "Each kept image was screened once, at a threshold that was fixed before the first was drawn, so that the promise "
    "above holds for each drawing: a copy made by {kinds}, as the calibration's, passes with a probability of at most "
    "{miss}. Drawing again gives a place further chances to be filled by a copy that passes. Over all places, kept "
    "copies that are made so are at most {odds} times the rejected images, on average over runs; with {rejected} "
    "rejected and {kept} kept, and the chance in the number of rejections counted in, that is at most {high} of the "
    "kept images (95 %, by {places} places). A place that only ever gives such copies is worse off: in {tries} it is "
    "filled by one with a probability of up to {place}. Places that took many tries are listed in the ledger; look at "
    "them. Of copies that are made in other ways nothing is promised, however many images were rejected."
)
UNBOUNDED = (
    "No guarantee stands behind the threshold, so that nothing bounds how many copies passed, and every further try "
    "of a place is another chance for one."
)
UNKNOWN = (
    "Images that the generator was trained on are missing from TRAIN, or could not be read: copies of these pass, "
    "whatever the threshold, so that nothing bounds how many copies are kept."
)
PAIR = (
    "The generator drew each image from the condition of one training image. That pair is among those compared, and "
    "{n} of the rejected images reached the threshold with the very image that they were conditioned on."
)
AUDITED = (
    "The kept set was audited by a detector that took no part in choosing it: training {units} were ranked among "
    "{held} held-out ones. The full report lies in the folder audit."
)
NEARER = (
    "All {train} training {units} together against the held-out ones: are they nearer to the kept set? One-sided "
    "two-sample test of Kolmogorov and Smirnov, p = {p}. Single p-values cannot be tested against a uniform "
    "distribution, since all of them share the held-out {units}."
)
NOT_AUDITED = "No auditor was named: nobody but the detectors that chose the images has looked at them."
NOTHING_TO_AUDIT = "Nothing was kept, so the auditor {auditor} had nothing to look at."
TABLE_THREE = (
    "Before: the first draw of every place, which is the generator without the loop. Kept: after the loop. Reference: "
    "real images of new people. A rate of memorization is to be read beside what the detector says of new people."
)


def is_bounded(numbers: dict[str, Any]) -> bool:
    """Whether something bounds the copies among the kept images: a guarantee, and all training images are known.

    Args:
        numbers: Of the verdict.
    """
    known = not numbers["doubts"] and not numbers["n_train_unread"]
    return bool(numbers["guarantee"] and numbers["n_kept"] and known)


def times_words(n: int) -> str:
    """How often, in a sentence."""
    return "once" if n == 1 else f"{n:,} times"


def limitations(terms: Terms, numbers: dict[str, Any]) -> list[Text]:
    """What the loop does not say.

    Args:
        terms: What a group is called.
        numbers: Of the verdict.
    """
    said: list[Text] = [
        "The generator's own copies are another distribution than those of the families: of copies that are stronger, "
        "changed in other ways, or put together from several patients, nothing is promised.",
        "That an image was rejected does not show that it is a copy; that it was kept does not show that it is none.",
        "The generator itself remembers what it remembers. If it is released, anybody can draw from it what was "
        "rejected here.",
        "What is rejected is missing from the set: images that look like training images without copying them are "
        "drawn again as well, and the set moves away from the training images.",
        "The rest of this folder names training images and people. Only the folder “kept” is meant to be shared.",
    ]
    if not numbers["patients_known"]:
        said.append(
            "No patients are known: every image counts as an identity. If people have several images, the "
            "guarantee fails more often than stated."
        )
    return said


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
        Section("What this does not say", [Steps(limitations(terms, n))], "limits"),
        Section("How it was done", _setup(result, redact), "setup"),
    ]
    return Page(
        title=title,
        subtitle="A set of generated images, drawn again where a detector took one for a copy of a training image",
        lead=_lead(result, terms),
        sections=sections,
        footer=[Paragraph(footer(result.summary["versions"], redact))],
        redacted=redact,
    )


def _lead(result: Result, terms: Terms) -> list[Block]:
    """The verdict in words, why, what would decide it, and the numbers to carry away."""
    v, n = result.verdict, result.summary["numbers"]
    (kind, headline), sentence = HEADLINES[result.status], SENTENCES[result.status]
    if is_nothing_kept(n):
        (kind, headline), sentence = NOTHING, NOTHING_KEPT
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
    if not is_bounded(n):
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
        return [Paragraph(UNBOUNDED)]
    if not is_bounded(n):
        return [Paragraph(UNKNOWN)]
    miss = copies["miss_rate"]
    told = SELECTED.format(
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
    told, places = (LOOP_WITH_GAPS if n["n_empty"] else LOOP), (n["n_asked"], n["n_empty"])
    asked, empty = map(count, places)
    blocks: list[Block] = [Paragraph(told.format(tries=times_words(n["most_tries"]), asked=asked, empty=empty))]
    if n["gave_up"]:
        blocks.append(Paragraph(GAVE_UP.format(why=rejection_words(n["real_rejected"], n["units"]))))
    if n["paired"]:
        blocks.append(Paragraph(PAIR.format(n=count(n["n_of_source"]))))
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
        idle = NOTHING_TO_AUDIT.format(auditor=n["auditor"])
        return [Paragraph(NOT_AUDITED if n["auditor"] is None else Name(idle))]
    nearer, held = audit["nearer"], {"units": terms.units}
    told = AUDITED.format(held=count(nearer["n_held"]), **held)
    test = NEARER.format(train=count(nearer["n_train"]), p=p_words(nearer["p_value"]), **held)
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
    return [Paragraph(TABLE_THREE), table_three_block([n["table_three"]])]


def _setup(result: Result, redact: bool) -> list[Block]:
    """Everything to repeat it."""
    n, s = result.summary["numbers"], result.summary
    told: DefinitionRows = []
    for title, key, images, units in (
        ("Training", "training", n["n_train_images"], n["n_train_patients"]),
        ("Calibration", "calibration", n["n_calibration_images"], n["n_calibration"]),
    ):
        counted = f"{count(images)} images, {count(units)} {n['units']}"
        told.append((title, set_name(s["names"][key], counted, redact)))
    made, settings = s["generator"], s["settings"]
    conditioned = made["conditioning"] or made["conditioned_on"]
    sampling = SamplingOptions(**s["sampling"]).told(str(made["kind"]))
    told += [
        ("Generator", Name(f"{'' if redact else made['name'] + ', '}{made['kind']}, conditioned on {conditioned}")),
        ("Its fingerprint", Name(str(n["generator_source"]))),
        ("Sampling", Name(", ".join(f"{name} {value}" for name, value in sampling.items()))),
    ]
    drawn: DefinitionRows = [
        ("Balance", "paired with training images" if settings["paired"] else str(settings["balance"])),
        ("Most tries", count(settings["most_tries"])),
    ]
    return setup_section(result, told, drawn, redact)
