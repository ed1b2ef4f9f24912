"""The report of a synthetic audit, in the order in which a data-protection officer asks.

May it be released? Who is exposed? How sure is that? What do the distances look like? What of single images? Which pairs
are closest? What does it rest on, and what was not looked at?
"""

from typing import Any

from memorisk.audits.synthetic import words
from memorisk.audits.synthetic.pictures import Pictures
from memorisk.audits.synthetic.sections import (
    describing_section,
    distance_section,
    pair_section,
    picture_gallery,
    power_section,
)
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Definitions,
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
    Text,
)
from memorisk.report.formats import count, percent, probability
from memorisk.report.frames import rows, truths
from memorisk.report.result import Result


def synthetic_page(result: Result, pictures: Pictures | None = None, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Of `audits.synthetic.analysis.analyse_synthetic`.
        pictures: Pairs side by side; None for none.
        redact: Leave out every id and every picture.
    """
    pictures = None if redact else pictures
    n = result.summary["numbers"]
    units = str(n["units"])
    title: list[Inline] = ["Do the synthetic images copy anybody?"]
    if not redact:
        title += [" ", Name(str(result.summary["names"]["synthetic"]))]
    sections = [
        Section(f"Which {units} are exposed", _exposed(result, pictures, redact), "exposed"),
        Section("How sure is that", power_section(result, redact), "power"),
        Section("Distances", distance_section(result), "distances"),
        Section("Single synthetic images", describing_section(result, redact), "images"),
        Section("Closest pairs", pair_section(result, pictures, redact), "pairs"),
        Section("What the p-values rest on", _rests(result), "limits"),
        Section("What was not looked at", [Steps(list(words.NOT_LOOKED_AT))], "not-looked-at"),
        Section("How it was done", _setup(result, redact), "setup"),
    ]
    return Page(
        title=title,
        subtitle="An audit of generated images against the images that their generator was trained on",
        lead=_lead(result),
        sections=sections,
        footer=[Paragraph(_footer(result, redact))],
    )


def _lead(result: Result) -> list[Block]:
    """The verdict in words, why, what would decide it, and the numbers to carry away."""
    n, v = result.summary["numbers"], result.verdict
    units, unit = str(n["units"]), _one(n)
    kind, headline = words.HEADLINES[result.status]
    blocks: list[Block] = [Paragraph(words.SENTENCES[result.status].format(units=units, unit=unit))]
    blocks += [Heading("Why"), Steps([_sentence(why) for why in v["why"]])]
    if v["what_would_decide"]:
        blocks += [Heading("What would decide it"), Steps([_sentence(way) for way in v["what_would_decide"]])]
    recall = n["recall"]
    listed = Fact(
        f"{units.capitalize()} listed", _count(n["n_listed"]), f"of {count(n['n_train_patients'])} in training"
    )
    facts = [
        listed,
        Fact(
            "Nearer than every held-out one",
            _count(n["n_ahead"]),
            "" if n["p_ahead"] is None else f"p {probability(n['p_ahead'])}",
        ),
        Fact("Pixel-identical copies", count(n["n_certain_copies"])),
        Fact(
            "Planted copies found",
            "not known" if recall is None else percent(recall["estimate"]),
            "" if recall is None else f"{percent(recall['low'])} to {percent(recall['high'])}",
        ),
        Fact("Shortest possible list", _shortest(n), f"a pass needs {count(n['copied'])}"),
        Fact("Synthetic images", count(n["n_synthetic"])),
        Fact(f"Held-out {units}", _count(n["n_held_patients"], "none given")),
    ]
    return [Callout(kind, headline.format(units=units), blocks), Facts(facts)]


def _exposed(result: Result, pictures: Pictures | None, redact: bool) -> list[Block]:
    """The listed patients with the images that expose them, and certain copies."""
    n = result.summary["numbers"]
    units, unit = str(n["units"]), _one(n)
    blocks: list[Block] = []
    if n["n_certain_copies"]:
        blocks.append(_certain(result, redact))
    if n["n_listed"] is None:
        text = (
            "No held-out images were given. How near a synthetic image lies to a training image says nothing by itself: "
            f"images of different {units} may be as alike. No {unit} can be listed, and nobody can be cleared."
        )
        return [*blocks, Callout("note", "Nobody can be listed", [Paragraph(text)])]
    blocks.append(Callout("note", "What it means to be listed", [Paragraph(words.LISTED.format(units=units))]))
    if n["n_ahead"]:
        blocks.append(
            Paragraph(
                f"{count(n['n_ahead'])} training {unit if n['n_ahead'] == 1 else units} lie nearer to the set than every "
                f"held-out one (p {probability(n['p_ahead'])} that a random split has so many)."
            )
        )
    listed = rows(result.per_group, truths(result.per_group, "listed"))
    listed = listed.sort_values(["p_value", "distance", "group"], kind="stable")
    shown = [
        *([] if redact else [Column(source="group", heading=unit.capitalize(), row_heading=True)]),
        Column(source="n_images", heading="Images", format="count"),
        Column(source="distance", heading="Distance to the set", format="decimal"),
        Column(source="p_value", heading="p\N{NON-BREAKING HYPHEN}value", format="probability"),
        Column(source="p_adjusted", heading="Adjusted p", format="probability"),
        Column(source="n_compared", heading="Compared with", format="count"),
        *([] if redact else [Column(source="training_image", heading="Training image")]),
        *([] if redact else [Column(source="synthetic_image", heading="Synthetic image")]),
    ]
    table = Table(
        frame=listed,
        columns=shown,
        caption=f"Listed training {units}, smallest p first, each with the synthetic image nearest to an image of it. At "
        f"most {n['level']:.0%} of them are expected to be there by chance.",
        elsewhere="per_group.parquet; tables/exposures.parquet has every synthetic image that exposes somebody",
        empty=f"No training {unit} is listed." + _no_list(n),
    )
    blocks.append(table)
    if n["n_exposing"]:
        blocks.append(
            Paragraph(
                f"{count(n['n_exposing'])} synthetic images expose them. To release the set without them is not enough: "
                "a second copy, a little farther from its source, may remain. Audit the rest again."
            )
        )
    if pictures is not None and pictures.exposed:
        blocks.append(picture_gallery(pictures.exposed, "Listed: training image, synthetic image, their difference."))
    if redact and len(listed):
        blocks.append(Paragraph("Ids are left out of this report. They are in the run's own tables."))
    return blocks


def _certain(result: Result, redact: bool) -> Block:
    """Pixel-identical copies, by name."""
    n, pairs = result.summary["numbers"], result.tables["pairs"]
    chosen = rows(pairs, (pairs["part"] == "training") & pairs["identical"] & ~pairs["in_both"])
    height, width, _ = result.summary["shape"]
    blocks: list[Block] = [
        Paragraph(
            f"{count(n['n_certain_copies'])} synthetic images have the pixels of a training image, at {height} x {width} "
            f"pixels, and no held-out image has them. They are of {count(n['n_certain_patients'])} {n['units']}."
        )
    ]
    if not redact:
        columns = [
            Column(source="image", heading="Synthetic image", row_heading=True),
            Column(source="real_image", heading="Training image"),
            Column(source="group", heading=_one(n).capitalize()),
        ]
        blocks.append(
            Table(frame=chosen, columns=columns, caption="Pixel by pixel the same.", elsewhere="tables/pairs.parquet")
        )
    return Callout("fail", "Copies for certain", blocks)


def _rests(result: Result) -> list[Block]:
    n = result.summary["numbers"]
    known = words.assumptions(str(n["units"]), _one(n), bool(result.summary["groups_given"]))
    blocks: list[Block] = [Steps(known)]
    if n["n_held_shared_patients"]:
        blocks.append(
            Paragraph(
                f"{count(n['n_held_shared_images'])} held-out images are training images, pixel by pixel. An image in "
                f"both is no held-out image: {count(n['n_held_shared_patients'])} held-out {n['units']} were left out."
            )
        )
    return blocks


def _setup(result: Result, redact: bool) -> list[Block]:
    """Everything to repeat the audit."""
    n, s = result.summary["numbers"], result.summary
    sets = (
        ("Training", "training", f"{count(n['n_train_images'])} images of {count(n['n_train_patients'])} {n['units']}"),
        ("Synthetic", "synthetic", f"{count(n['n_synthetic'])} images"),
        ("Held out", "held_out", "none" if n["n_held_images"] is None else f"{count(n['n_held_images'])} images of {count(n['n_held_patients'])} {n['units']}"),
    )  # fmt: skip
    told: list[tuple[Text, Text]] = []
    for title, key, counted in sets:
        name = s["names"][key]
        told.append((title, counted if redact or name is None else [Name(str(name)), f", {counted}"]))
    height, width, channels = s["shape"]
    told += [
        ("Pixels", f"{height} x {width} x {channels}, resized by {s['settings']['resize']} where they were not"),
        ("Features", Name(str(s["feature_sentence"]))),
        ("Measure", Name(str(n["measure"]))),
        ("Level of the list (q)", f"{n['level']:g}"),
        ("A pass needs", f"lists of {n['copied']:,} and a recall of {s['settings']['recall']:.0%}"),
        ("Planted copies", f"{n['n_plants']:,}, {s['plants_asked']:,} of each kind asked for"),
        ("Seed", f"{s['settings']['seed']}"),
        ("Ids replaced by keyed hashes", "yes" if s["pseudonymised"] else "no"),
    ]
    told += [
        (f"Fingerprint, {what.replace('_', ' ')}", Name(str(value))) for what, value in n["data_hash"].items() if value
    ]
    blocks: list[Block] = [Definitions(told, compact=True)]
    if n["notes"] and not redact:
        blocks += [Heading("Notes of the run"), Steps([Name(str(note)) for note in n["notes"]])]
    versions: list[tuple[Text, Text]] = [(k, Name(str(v))) for k, v in s["versions"].items()]
    return [*blocks, Details("Versions", [Definitions(versions, compact=True)])]


def _footer(result: Result, redact: bool) -> str:
    version = result.summary["versions"].get("memorisk")
    shown = "Ids and images are left out." if redact else "This file names training images: handle it as personal data."
    return f"Made by memorisk {version}. {shown} It needs no network and asks for none."


def _no_list(n: dict[str, Any]) -> str:
    """That an empty list says little where none could be."""
    if n["shortest_list"] > n["n_train_patients"]:
        return " With so few held-out ones none could have been."
    if n["shortest_list"] > 1:
        return (
            f" A list of fewer than {count(n['shortest_list'])} was not possible: fewer copied ones would go unlisted."
        )
    return ""


def _shortest(n: dict[str, Any]) -> str:
    if n["shortest_list"] is None or n["shortest_list"] > n["n_train_patients"]:
        return "none"
    return count(n["shortest_list"])


def _count(value: Any, missing: str = "not known") -> str:
    return missing if value is None else count(value)


def _one(n: dict[str, Any]) -> str:
    return str(n["units"]).removesuffix("s")


def _sentence(text: str) -> Text:
    """A reason as a sentence of its own."""
    return Name(text[:1].upper() + text[1:])
