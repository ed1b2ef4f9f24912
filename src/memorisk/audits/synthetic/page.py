"""The report of a synthetic audit, in the order in which a data-protection officer asks.

May it be released? Who is exposed? How sure is that? What do the distances look like, what of single images, which
pairs are closest? What does it rest on, and what was not looked at?
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.generated.closing import DefinitionRows, footer, repeat_blocks, set_name
from memorisk.audits.generated.pictures import picture_gallery
from memorisk.audits.generated.plants import least_noticed_kind
from memorisk.audits.generated.terms import Terms, p_words, share
from memorisk.audits.synthetic import wording
from memorisk.audits.synthetic.pair_sections import (
    cluster_block,
    confirmed_callout,
    paired_section,
    review_section,
    unread_block,
)
from memorisk.audits.synthetic.pictures import Pictures, suspects
from memorisk.audits.synthetic.sections import describing_section, distance_section, pair_section, power_section
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
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
from memorisk.report.columns import booleans, capitalized, column_texts, count, percent, probability, rows
from memorisk.report.result import Result
from memorisk.report.statements.statement import WAYS
from memorisk.runs.errors import plural


def synthetic_page(result: Result, pictures: Pictures | None = None, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Of `audits.synthetic.analysis.analyse_synthetic`.
        pictures: Pairs side by side; None for none.
        redact: Leave out every id and every picture.
    """
    pictures = None if redact else pictures
    terms = Terms(str(result.summary["numbers"]["units"]))
    title: list[Inline] = ["Do the synthetic images copy anybody?"]
    if not redact:
        title += [" ", Name(str(result.summary["names"]["synthetic"]))]
    sections = [
        Section(f"Which {terms.units} are exposed", _exposed(result, terms, pictures, redact), "exposed"),
        Section("How sure is that", power_section(result, terms), "power"),
        Section("Distances", distance_section(result, terms), "distances"),
        *_paired(result, terms, pictures, redact),
        Section("Single synthetic images", describing_section(result, terms, redact), "images"),
        Section("Closest pairs", pair_section(result, terms, pictures, redact), "pairs"),
        Section("Pairs that a person judged", review_section(result, terms, redact), "review"),
        Section("What the p-values rest on", _rests(result, terms), "limits"),
        Section("What was not looked at", [Steps(list(wording.NOT_LOOKED_AT)), *unread_block(result)], "not-looked-at"),
        Section("How it was done", _setup(result, terms, redact), "setup"),
    ]
    return Page(
        title=title,
        subtitle="An audit of generated images against the images that their generator was trained on",
        lead=_lead(result, terms),
        sections=sections,
        footer=[Paragraph(footer(result.summary["versions"], redact))],
        redacted=redact,
    )


def _paired(result: Result, terms: Terms, pictures: Pictures | None, redact: bool) -> list[Section]:
    """Lay out the pairs of images whose origin was said."""
    if result.summary["numbers"]["paired"] is None:
        return []
    shown = []
    if pictures is not None and pictures.paired:
        shown = [picture_gallery(pictures.paired, "Memorized pairs that are not shown elsewhere", pictures.mirrored)]
    blocks = paired_section(result, terms, redact, shown)
    return [Section("Images and what they were generated from", blocks, "paired")]


def _lead(result: Result, terms: Terms) -> list[Block]:
    """The verdict in words, why, what would decide it, and the numbers to carry away."""
    v = result.verdict
    kind, headline = wording.HEADLINES[result.status]
    certain = result.status == "fail" and v["n_certain_copies"] + v["n_confirmed"]
    blocks: list[Block] = [Paragraph(terms.fill(wording.CERTAIN if certain else wording.SENTENCES[result.status]))]
    blocks += [Heading("Why"), Steps([capitalized(why) for why in v["why"]])]
    if v["what_would_decide"]:
        blocks += [Heading(WAYS[result.status]), Steps([capitalized(way) for way in v["what_would_decide"]])]
    return [Callout(kind, headline, blocks), Facts(_facts(result.summary["numbers"], terms))]


def _facts(n: dict[str, Any], terms: Terms) -> list[Fact]:
    recall, p = n["recall"], n["p_ahead"]
    found = Fact("Planted copies noticed", "not known")
    if recall is not None:
        limits = f"{percent(recall['low'])} to {percent(recall['high'])}"
        found = Fact("Planted copies noticed", percent(recall["estimate"]), limits)
    return [
        Fact("Images singled out", _count(n.get("n_singled"))),
        Fact(f"{terms.units.capitalize()} listed", _count(n["n_listed"]), f"of {count(n['n_train_patients'])}"),
        Fact("Nearer than all held out", _count(n["n_ahead"]), "" if p is None else f"p {probability(p)}"),
        Fact(
            "Pixel-identical copies",
            count(n["n_certain_copies"] + n["n_dismissed_identical_images"]),
            f"{count(n['n_dismissed_identical_images'])} dismissed" if n["n_dismissed_identical_images"] else "",
        ),
        Fact(
            f"{terms.units.capitalize()} with a nearly identical image",
            count(n["n_near_train"]),
            "; ".join(_beside_near(n)),
        ),
        found,
        *_least_found(n),
        *_rates(n),
        *_fewest(n),
        Fact("Synthetic images", count(n["n_synthetic"])),
        Fact(f"Held-out {terms.units}", _count(n["n_held_patients"], "none given")),
    ]


def _fewest(n: dict[str, Any]) -> list[Fact]:
    """Say of how many copies one at least would surely have been noticed."""
    if n["recall"] is None or "fewest_copied" not in n:
        return []
    fewest = n["fewest_copied"]
    told = "no number" if fewest is None else plural(fewest, "copy", "copies")
    return [Fact("Surely noticed from", told, "a pass needs 1")]


def _beside_near(n: dict[str, Any]) -> list[str]:
    """Say what stands beside the nearly identical ones."""
    held = [] if n["n_near_held"] is None else [f"held out: {count(n['n_near_held'])}"]
    return [*held, *([f"{count(n['n_dismissed_near'])} pairs dismissed"] if n["n_dismissed_near"] else [])]


def _least_found(n: dict[str, Any]) -> list[Fact]:
    """The kind of copy that is missed most."""
    if not n["recall_by_kind"]:
        return []
    kind = least_noticed_kind(n["recall_by_kind"])
    found = n["recall_by_kind"][kind]
    limits = f"{kind}, {percent(found['low'])} to {percent(found['high'])}"
    return [Fact("Of the kind noticed least", percent(found["estimate"]), limits)]


def _rates(n: dict[str, Any]) -> list[Fact]:
    """MemRate of the first detector that has one."""
    for said in n["paired"]["rates"] if n["paired"] else ():
        if said["rate"] is not None:
            held = "" if said["held"] is None else f"held out: {percent(said['held']['estimate'])}"
            return [Fact("MemRate", percent(said["rate"]["estimate"]), held)]
    return []


def _exposed(result: Result, terms: Terms, pictures: Pictures | None, redact: bool) -> list[Block]:
    """The listed patients with the images that expose them, and certain copies."""
    n = result.summary["numbers"]
    blocks = confirmed_callout(result, terms)
    blocks += _certain(result, terms, redact) if n["n_certain_copies"] else []
    blocks += _singled(result, terms, redact) if n.get("n_singled") else []
    clusters = cluster_block(result, terms, redact)
    if n["n_listed"] is None:
        return [*blocks, *clusters, Callout("note", "Nobody can be listed", [Paragraph(terms.fill(wording.NOBODY))])]
    blocks.append(Callout("note", "What it means to be listed", [Paragraph(terms.fill(wording.LISTED))]))
    chosen = suspects(result)
    blocks.append(_patients(result, terms, redact, listed=True))
    if n["n_ahead"]:
        lie = "lies" if n["n_ahead"] == 1 else "lie"
        blocks.append(
            Paragraph(
                f"{terms.counted(n['n_ahead'], 'training')} {lie} nearer to the set than every held-out one. A random "
                f"split has so many with probability {p_words(n['p_ahead'])}."
            )
        )
    if not n["n_listed"] and len(chosen):
        expected = n["n_train_patients"] / (n["n_held_patients"] + 1)
        blocks += [
            _patients(result, terms, redact, listed=False),
            Paragraph(terms.fill(wording.AHEAD, expected=f"{expected:.2g}")),
        ]
    if n["n_exposing"]:
        blocks.append(Paragraph(terms.fill(wording.REST, n=count(n["n_exposing"]))))
    if pictures is not None and pictures.exposed:
        blocks.append(picture_gallery(pictures.exposed, "The pairs of this table", pictures.mirrored))
    blocks += clusters
    if redact and len(chosen):
        blocks.append(Paragraph("Ids are left out of this report. They are in the run's own tables."))
    return blocks


def _singled(result: Result, terms: Terms, redact: bool) -> list[Block]:
    """Lay out the pairs that are nearer than chance explains."""
    names = [
        Column(source="image", heading="Synthetic image", row_heading=True),
        Column(source="training_image", heading="Training image"),
        *([Column(source="group", heading="Patient")] if terms.units == "patients" else []),
    ]
    columns = [
        *([] if redact else names),
        *([Column(source="detector", heading="By", wide=True)] if result.summary["numbers"]["n_detectors"] > 1 else []),
        Column(source="distance", heading="Distance", format="decimal"),
        Column(source="other_distance", heading="To the next", format="decimal"),
        Column(source="expected", heading="Expected by chance", format="probability"),
    ]
    shown = Table(
        frame=result.tables["singled_out"],
        columns=columns,
        caption=f"Pairs that are singled out, with the number of training {terms.units} expected as near by chance.",
        elsewhere="tables/singled_out.parquet",
        visible_rows=10,
    )
    return [Callout("warning", "Singled out", [Paragraph(terms.fill(wording.SINGLED))]), shown]


def _patients(result: Result, terms: Terms, redact: bool, *, listed: bool) -> Table:
    """The list, or those nearer than every held-out patient."""
    n = result.summary["numbers"]
    shown = rows(result.per_group, booleans(result.per_group, "listed" if listed else "ahead"))
    shown = shown.sort_values(["p_value", "distance", "group"], kind="stable")
    names = [
        Column(source="group", heading=terms.unit.capitalize(), row_heading=True),
        *([Column(source="training_image", heading="Training image")] if terms.units == "patients" else []),
        Column(source="synthetic_image", heading="Synthetic image"),
        *([Column(source="listed_by", heading="Listed by", wide=True)] if listed and n["n_detectors"] > 1 else []),
    ]
    heads = any(one["head"] for one in result.summary["detectors"])
    numbers = [
        *([Column(source="n_images", heading="Images", format="count")] if terms.units == "patients" else []),
        Column(source="distance", heading="Distance to the set", format="decimal"),
        *([Column(source="probability", heading="P", format="short")] if heads else []),
        Column(source="identical", heading="Same pixels", format="yes_no"),
        Column(source="p_value", heading="p\N{NON-BREAKING HYPHEN}value", format="probability"),
        Column(source="p_adjusted", heading="Adjusted p", format="probability"),
        Column(source="n_compared", heading="Compared with", format="count"),
    ]
    caption = f"Training {terms.units} nearer than every held-out one, each with the synthetic image nearest to it."
    if listed:
        caption = (
            f"Listed training {terms.units}, smallest p first, each with the synthetic image nearest to it. At most "
            f"{share(n['level'])} of them are expected to be there by chance."
        )
    return Table(
        frame=shown,
        columns=[*([] if redact else names), *numbers],
        caption=caption,
        elsewhere="per_group.parquet",
        empty=_nobody_listed(n, terms) + _no_list(n),
    )


def _certain(result: Result, terms: Terms, redact: bool) -> list[Block]:
    """Pixel-identical copies."""
    n, pairs = result.summary["numbers"], result.tables["pairs"]
    chosen = rows(pairs, _of_part(pairs, "training") & booleans(pairs, "identical") & ~booleans(pairs, "in_both"))
    height, width, _ = result.summary["shape"]
    have = "image has" if n["n_certain_copies"] == 1 else "images have"
    shared = "" if n["n_held_patients"] is None else " that no held-out image shares"
    whose = "" if terms.units == "images" else f" They show {terms.counted(n['n_certain_patients'])}."
    text = (
        f"{count(n['n_certain_copies'])} synthetic {have} the very pixels of a training image (at {height} x {width} "
        f"pixels), as it is, mirrored or turned by quarters{shared}.{whose} No statistics are needed to see that."
    )
    columns = [
        Column(source="image", heading="Synthetic image", row_heading=True),
        Column(source="real_image", heading="Training image"),
        *([Column(source="group", heading="Patient")] if terms.units == "patients" else []),
        Column(source="orientation", heading="The synthetic one taken"),
    ]
    shown = Table(
        frame=chosen, columns=columns, caption="Same pixels.", elsewhere="tables/pairs.parquet", visible_rows=10
    )
    return [Callout("fail", "Copies for certain", [Paragraph(text)]), *([] if redact else [shown])]


def _rests(result: Result, terms: Terms) -> list[Block]:
    n = result.summary["numbers"]
    blocks: list[Block] = [Steps(wording.assumptions(terms, bool(result.summary["groups_given"])))]
    if n["n_held_shared_patients"]:
        blocks.append(
            Paragraph(
                f"{count(n['n_held_shared_images'])} held-out images are training images, pixel by pixel. An image in "
                f"both is no held-out image. Left out: {terms.counted(n['n_held_shared_patients'])}."
            )
        )
    return blocks


def _setup(result: Result, terms: Terms, redact: bool) -> list[Block]:
    """Everything to repeat the audit."""
    n, s = result.summary["numbers"], result.summary
    told: DefinitionRows = []
    for title, key, images, units in (
        ("Training", "training", n["n_train_images"], n["n_train_patients"]),
        ("Synthetic", "synthetic", n["n_synthetic"], None),
        ("Held out", "held_out", n["n_held_images"], n["n_held_patients"]),
    ):
        counted = "none" if images is None else f"{count(images)} images"
        counted += f" of {terms.counted(units)}" if units is not None and terms.units == "patients" else ""
        told.append((title, set_name(s["names"][key], counted, redact)))
    height, width, channels = s["shape"]
    told += [
        ("Pixels", f"{height} x {width} x {channels}, by {s['settings']['resize']} where they were resized"),
        *(("Features", Name(str(one["sentence"]))) for one in s["detectors"]),
        ("Measure", Name(str(n["measure"]))),
        ("Level of the list (q)", f"{n['level']:g}"),
        (
            "A pass needs",
            f"nobody listed or singled out, and one copy of every planted kind noticed with probability "
            f"{s['settings']['recall']:g}",
        ),
        ("Planted copies", f"{n['n_plants']:,}; {s['plants_asked']:,} of each kind asked for"),
        ("Seed", f"{s['settings']['seed']}"),
        ("Ids replaced by keyed hashes", "yes" if s["pseudonymised"] else "no"),
    ]
    prints = {what.replace("_", " "): value for what, value in n["data_hash"].items() if value}
    told += [(f"Fingerprint, {what}", Name(str(value))) for what, value in prints.items()]
    return repeat_blocks(told, n["notes"], s["versions"], redact)


def _of_part(table: pd.DataFrame, part: str) -> np.ndarray:
    """[n] which rows are of a part."""
    return np.array([value == part for value in column_texts(table, "part")], dtype=bool)


def _nobody_listed(n: dict[str, Any], terms: Terms) -> str:
    """That the statistics list nobody, which clears nobody of the copies above."""
    if not n["n_certain_copies"] + n["n_confirmed"]:
        return f"No training {terms.unit} is listed."
    return f"Beside the copies above, which need no statistics, no training {terms.unit} is listed by distance."


def _no_list(n: dict[str, Any]) -> str:
    """That an empty list says little where none could be."""
    if n["shortest_list"] > n["n_train_patients"]:
        return " With so few held-out ones none could have been."
    if n["shortest_list"] > 1:
        return f" No list of fewer than {count(n['shortest_list'])} was possible: fewer copied ones would go unlisted."
    return ""


def _count(value: Any, missing: str = "not known") -> str:
    return missing if value is None else count(value)
