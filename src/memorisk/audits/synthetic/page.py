"""The report of a synthetic audit, in the order in which a data-protection officer asks.

May it be released? Who is exposed, and is one subgroup copied more? How sure is that? What do the distances look like,
what of single images, which pairs are closest? What does it rest on, and what was not looked at?
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from memorisk.audits.comparison.page_parts import footer, image_columns, repeat_blocks, set_rows
from memorisk.audits.comparison.pictures import aligned_gallery, picture_gallery
from memorisk.audits.comparison.plants import least_noticed_kind
from memorisk.audits.comparison.terms import Terms, p_words, share
from memorisk.audits.synthetic import wording
from memorisk.audits.synthetic.result import Listing, Paired, Power, SyntheticNumbers, SyntheticSummary
from memorisk.audits.synthetic.sections.glance import glance
from memorisk.audits.synthetic.sections.numbers import describing_section, distance_section, pair_section, power_section
from memorisk.audits.synthetic.sections.pairs import (
    alignment_section,
    cluster_block,
    confirmed_callout,
    paired_section,
    review_section,
    unread_block,
)
from memorisk.audits.synthetic.sections.people import subgroup_section
from memorisk.audits.synthetic.sections.pictures import Pictures, suspects
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Fact,
    Inline,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    number,
    words,
)
from memorisk.report.columns import booleans, column_texts, count, percent, rows
from memorisk.report.first_screen import FirstScreen, verdict_screen
from memorisk.report.numbers import from_json
from memorisk.report.quantities import facts
from memorisk.report.result import Result
from memorisk.runs.errors import one_line, plural
from memorisk.statistics.intervals.shares import Proportion


def synthetic_page(result: Result, pictures: Pictures | None = None, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Result of `audits.synthetic.analysis.analyse_synthetic`.
        pictures: Pictures of pairs side by side; None for a page without pictures.
        redact: Whether to leave out every id and every picture.
    """
    pictures = None if redact else pictures
    summary = from_json(SyntheticSummary, result.summary)
    terms = summary.numbers.terms
    title: list[Inline] = ["Do the synthetic images copy anybody?"]
    if not redact:
        title += [" ", Name(summary.names.synthetic)]
    sections = [
        Section(f"Which {terms.units} are exposed", _exposed(result, summary, pictures, redact), "exposed"),
        *_second_look(result, summary.numbers, pictures, redact),
        *subgroup_section(result, summary.numbers),
        Section("How sure is that", power_section(result, summary), "power"),
        Section("Distances", distance_section(result, summary), "distances"),
        *_paired(result, summary.numbers, pictures, redact),
        Section("Single synthetic images", describing_section(result, summary, redact), "images"),
        Section("Closest pairs", pair_section(result, summary.numbers, pictures, redact), "pairs"),
        Section("Pairs that a person judged", review_section(result, terms, redact), "review"),
        Section("What the p-values rest on", _rests(summary), "limits"),
        Section(
            "What was not looked at",
            [Steps(list(wording.NOT_LOOKED_AT)), *unread_block(result, redact)],
            "not-looked-at",
        ),
        Section("How it was done", _setup(summary, redact), "setup"),
    ]
    return Page(
        title=title,
        lead=first_screen(result).blocks(glance(result, summary, pictures)),
        sections=sections,
        footer=[Paragraph(footer(summary.versions, redact))],
        redacted=redact,
    )


def _second_look(result: Result, n: SyntheticNumbers, pictures: Pictures | None, redact: bool) -> list[Section]:
    """Lay out the pairs that were laid on one another, where some were."""
    if n.aligned is None:
        return []
    gallery = [] if pictures is None or not pictures.aligned else [aligned_gallery(pictures.aligned)]
    return [Section("Second look", alignment_section(result, n, redact, gallery), "second-look")]


def _paired(result: Result, n: SyntheticNumbers, pictures: Pictures | None, redact: bool) -> list[Section]:
    """Lay out the pairs of synthetic images and the images that they were generated from."""
    if n.paired is None:
        return []
    gallery = []
    if pictures is not None and pictures.paired:
        gallery = picture_gallery(pictures.paired, "Memorized pairs that are not shown elsewhere", pictures.gravest)
    blocks = paired_section(result, n.paired, n.terms, redact, gallery)
    return [Section("Images and what they were generated from", blocks, "paired")]


def first_screen(result: Result) -> FirstScreen:
    """Show the verdict, its reasons, the main numbers, and the pairs that wait for a person.

    Args:
        result: Result of the audit.
    """
    summary = from_json(SyntheticSummary, result.summary)
    n = summary.numbers
    certain = result.status == "fail" and n.pixels.n_certain
    of_training = certain and certain > n.pixels.n_other_images
    settled = wording.CERTAIN if of_training else wording.OF_FURTHER_PART
    sentences = [settled if certain else wording.SENTENCES[result.status]]
    if not certain and result.status in wording.MORE:
        sentences.append(wording.MORE[result.status])
    notes = [] if summary.groups_given else [wording.NO_IDS]
    notes += [note] if (note := n.sets.other_parts_note) else []
    if n_open := sum(not judgement for judgement in column_texts(result.tables["review"], "verdict")):
        run = one_line(result.folder or "RUN")
        notes.append(wording.TO_JUDGE.format(pairs=plural(n_open, "pair", "pairs"), run=run))
    return replace(verdict_screen(result), sentences=[*map(n.terms.fill, sentences)], facts=_facts(n), notes=notes)


def _facts(n: SyntheticNumbers) -> list[Fact]:
    """Show the main numbers: counts of findings first, then the counts that are zero."""
    sets = n.sets
    return [
        *sorted([*facts(n, units=n.units), *_confirmed(n)], key=lambda fact: fact.value == "0"),
        *_noticed(n.power),
        *_rates(n.paired),
        *_fewest(n.power, n.sets.n_train_patients),
        Fact("Synthetic images", count(sets.n_synthetic_images)),
        Fact(f"Held-out {n.units}", "none given" if sets.held is None else count(sets.held.n_held_patients)),
    ]


def _confirmed(n: SyntheticNumbers) -> list[Fact]:
    """Count the images that the second look confirms."""
    if n.aligned is None:
        return []
    if n.aligned.blind:
        return [Fact("Confirmed by alignment", count(None))]
    looked = f"of {count(n.aligned.n_images)} looked at"
    if n.aligned.confirms_no_plant:
        looked += "; it confirms no planted copy either"
    return [Fact("Confirmed by alignment", count(n.aligned.n_confirmed_images), looked)]


def _fewest(power: Power, n_train: int) -> list[Fact]:
    """Show the number of copies of which one at least would surely have been noticed."""
    fewest = power.fewest_copied_patients
    if power.recall is None or fewest == 0:
        return []
    copies = "no number suffices" if fewest is None or fewest > n_train else plural(fewest, "copy", "copies")
    return [Fact("Copies needed to be noticed", copies, "a pass needs 1")]


def _noticed(power: Power) -> list[Fact]:
    """Show the share noticed of all planted copies, and of the kind that is missed most."""
    if power.recall is None:
        return [Fact("Planted copies noticed", "not known")]
    facts = [Fact("Planted copies noticed", percent(power.recall.estimate), _limits(power.recall))]
    if by_kind := power.recall_by_kind:
        kind = least_noticed_kind(by_kind)
        limits = f"{kind}, {_limits(by_kind[kind])}"
        facts.append(Fact("Weakest kind of copy", percent(by_kind[kind].estimate), limits))
    return facts


def _limits(share: Proportion) -> str:
    return f"{percent(share.low)} to {percent(share.high)}"


def _rates(paired: Paired | None) -> list[Fact]:
    """Return MemRate of the first detector that has one, or why no detector has one."""
    every = () if paired is None else paired.rates
    for rates in every:
        if rates.rate is not None:
            held = "" if rates.held is None else f"held out: {percent(rates.held.estimate)}"
            return [Fact("MemRate", percent(rates.rate.estimate), held)]
    return [Fact("MemRate", "not known", rates.promise or wording.NO_THRESHOLD) for rates in every[:1]]


def _exposed(result: Result, summary: SyntheticSummary, pictures: Pictures | None, redact: bool) -> list[Block]:
    """Lay out the listed patients with the images that expose them, and certain copies."""
    n, terms, listing = summary.numbers, summary.numbers.terms, summary.numbers.listing
    blocks = confirmed_callout(result, n)
    blocks += _certain(result, summary, redact) if n.pixels.n_certain_images else []
    blocks += _singled(result, n, redact) if listing is not None and listing.n_singled_images else []
    clusters = cluster_block(result, terms, redact)
    if listing is None or n.sets.held is None:
        return [*blocks, *clusters, Callout("note", "No list is possible", [Paragraph(terms.fill(wording.NOBODY))])]
    blocks.append(Callout("note", "What it means to be listed", [Paragraph(terms.fill(wording.LISTED))]))
    chosen = suspects(result, listing)
    blocks.append(_patients(result, summary, listing, redact, listed=True))
    if ahead := listing.n_ahead_patients:
        lie = "lies" if ahead == 1 else "lie"
        blocks.append(
            Paragraph(
                f"{terms.counted(ahead, 'training')} {lie} nearer to the set than every held-out one. A random "
                f"split has so many with probability {p_words(listing.p_ahead)}."
            )
        )
    if not listing.n_listed_patients and len(chosen):
        expected = n.sets.n_train_patients / (n.sets.held.n_held_patients + 1)
        blocks += [
            _patients(result, summary, listing, redact, listed=False),
            Paragraph(terms.fill(wording.AHEAD, expected=f"{expected:.2g}")),
        ]
    if listing.n_exposing_images:
        blocks.append(Paragraph(terms.fill(wording.REST, n=count(listing.n_exposing_images))))
    if pictures is not None and pictures.exposed:
        blocks += picture_gallery(pictures.exposed, "The pairs of this table", pictures.gravest)
    blocks += clusters
    if redact and len(chosen):
        blocks.append(Paragraph("Ids are left out of this report. They are in the run's own tables."))
    return blocks


def _singled(result: Result, n: SyntheticNumbers, redact: bool) -> list[Block]:
    """Lay out the pairs that are nearer than chance explains."""
    terms = n.terms
    columns = [
        *image_columns(terms, redact=redact),
        *([words("detector", "By", wide=True)] if n.comparison.n_detectors > 1 else []),
        number("distance", "Distance"),
        number("other_distance", "To the next"),
        number("expected", "Expected by chance", "probability"),
    ]
    table = Table(
        frame=result.tables["singled_out"],
        columns=columns,
        caption=f"Pairs that are singled out, with the number of training {terms.units} expected as near by chance.",
        elsewhere="tables/singled_out.parquet",
        visible_rows=10,
    )
    return [Callout("warning", "Singled out", [Paragraph(terms.fill(wording.SINGLED))]), table]


def _patients(result: Result, summary: SyntheticSummary, listing: Listing, redact: bool, *, listed: bool) -> Table:
    """Lay out the list, or the patients nearer than every held-out one."""
    n, terms = summary.numbers, summary.numbers.terms
    patients = rows(result.per_group, booleans(result.per_group, "listed" if listed else "ahead"))
    patients = patients.sort_values(["p_value", "distance", "group"], kind="stable")
    names = [
        words("group", terms.unit.capitalize(), row=True),
        *([words("training_image", "Training image")] if terms.units == "patients" else []),
        words("synthetic_image", "Synthetic image"),
        *([words("listed_by", "Listed by", wide=True)] if listed and n.comparison.n_detectors > 1 else []),
    ]
    heads = any(one.head for one in summary.detectors)
    numbers = [
        *([number("n_images", "Images", "count")] if terms.units == "patients" else []),
        number("distance", "Distance to the set"),
        *([number("probability", "P", "short")] if heads else []),
        Column(source="identical", heading="Same pixels", format="yes_no"),
        number("p_value", "p\N{NON-BREAKING HYPHEN}value", "probability"),
        number("p_adjusted", "Adjusted p", "probability"),
        number("n_compared", "Compared with", "count"),
    ]
    caption = f"Training {terms.units} nearer than every held-out one, each with the synthetic image nearest to it."
    if listed:
        caption = (
            f"Listed training {terms.units}, smallest p first, each with the synthetic image nearest to it. At most "
            f"{share(n.level)} of them are expected to be there by chance."
        )
    return Table(
        frame=patients,
        columns=[*([] if redact else names), *numbers],
        caption=caption,
        elsewhere="per_group.parquet",
        empty=_nobody_listed(n, terms) + _no_list(n, listing),
    )


def _certain(result: Result, summary: SyntheticSummary, redact: bool) -> list[Block]:
    """Lay out the pixel-identical copies."""
    pixels, terms, pairs = summary.numbers.pixels, summary.numbers.terms, result.tables["pairs"]
    chosen = rows(pairs, _of_part(pairs, "training") & booleans(pairs, "identical") & ~booleans(pairs, "in_both"))
    height, width, _ = summary.shape
    have = "image has" if pixels.n_certain_images == 1 else "images have"
    shared = "" if summary.numbers.sets.held is None else " that no held-out image shares"
    whose = "" if terms.units == "images" else f" They show {terms.counted(pixels.n_certain_patients)}."
    text = (
        f"{count(pixels.n_certain_images)} synthetic {have} the very pixels of a training image (at {height} x {width} "
        f"pixels), as it is, mirrored or turned by quarters{shared}.{whose} No statistics are needed to see that."
    )
    columns = [
        *image_columns(terms, real=("real_image", "Training image")),
        words("orientation", "The synthetic one taken"),
    ]
    table = Table(
        frame=chosen, columns=columns, caption="Same pixels.", elsewhere="tables/pairs.parquet", visible_rows=10
    )
    return [Callout("fail", "Copies for certain", [Paragraph(text)]), *([] if redact else [table])]


def _rests(summary: SyntheticSummary) -> list[Block]:
    sets, terms = summary.numbers.sets, summary.numbers.terms
    blocks: list[Block] = [Steps(wording.assumptions(terms, summary.groups_given))]
    if sets.n_held_shared_patients:
        blocks.append(
            Paragraph(
                f"{count(sets.n_held_shared_images)} held-out images are training images, pixel by pixel. An image in "
                f"both is no held-out image. Left out: {terms.counted(sets.n_held_shared_patients)}."
            )
        )
    return blocks


def _setup(s: SyntheticSummary, redact: bool) -> list[Block]:
    """List the settings that repeat the audit."""
    n, sets, held = s.numbers, s.numbers.sets, s.numbers.sets.held
    compared = (
        ("Training", s.names.training, sets.n_train_images, sets.n_train_patients),
        ("Synthetic", s.names.synthetic, sets.n_synthetic_images, None),
        ("Held out", s.names.held_out, held and held.n_held_images, held and held.n_held_patients),
    )
    settings = set_rows(compared, n.terms, s.shape, s.settings.resize, redact=redact)
    settings += [
        *(("Features", Name(one.sentence)) for one in s.detectors),
        ("Measure", Name(n.comparison.measure)),
        ("Level of the list (q)", f"{n.level:g}"),
        (
            "A pass needs",
            f"no person listed, no image singled out, and one copy of every planted kind noticed with probability "
            f"{s.settings.recall:g}",
        ),
        ("Planted copies", f"{n.comparison.n_plants:,}; {s.plants_asked:,} of each kind requested"),
        ("Seed", f"{s.settings.seed}"),
        ("Ids replaced by keyed hashes", "yes" if s.pseudonymised else "no"),
    ]
    prints = (
        ("training", n.data_hash.training),
        ("synthetic", n.data_hash.synthetic),
        ("held out", n.data_hash.held_out),
    )
    settings += [(f"Fingerprint, {what}", Name(value)) for what, value in prints if value]
    return repeat_blocks(settings, n.notes, s.versions, redact)


def _of_part(table: pd.DataFrame, part: str) -> np.ndarray:
    """Return whether each row is of a part, [n]."""
    return np.array([value == part for value in column_texts(table, "part")], dtype=bool)


def _nobody_listed(n: SyntheticNumbers, terms: Terms) -> str:
    """Say that the statistics list no patient, which clears none of the copies above."""
    if not n.pixels.n_certain:
        return f"No training {terms.unit} is listed."
    return f"Apart from the copies above, which need no statistics, no training {terms.unit} is listed by distance."


def _no_list(n: SyntheticNumbers, listing: Listing) -> str:
    """Say that an empty list says little where no patient could be listed."""
    shortest = listing.shortest_list_patients
    if shortest > n.sets.n_train_patients:
        return " With so few held-out ones none could have been."
    if shortest > 1:
        return f" No list of fewer than {count(shortest)} was possible: fewer copied ones would go unlisted."
    return ""
