"""The report of a loop: may the set be shared, what is promised after drawing again, what was rejected, who looked.

Its fixed wording comes first, apart from the layout, so that a checker of its claims reads it in one place.
"""

from collections.abc import Mapping
from dataclasses import replace

from memorisk.audits.comparison.page_parts import DefinitionRows, footer, set_rows
from memorisk.audits.comparison.pictures import Pair, PairPicture
from memorisk.audits.filter.page import (
    audit_section,
    cost_section,
    exposed_facts,
    exposed_section,
    guarantee_section,
    kept_files,
    left_out,
    score_section,
    screening_screen,
    setup_section,
)
from memorisk.audits.filter.wording import (
    NO_PATIENTS,
    NO_PROOF,
    ONLY_KEPT,
    OWN_COPIES,
    promised_kinds,
)
from memorisk.audits.synthesize.result import LoopNumbers, LoopSummary, TableThreeRow
from memorisk.audits.synthesize.table_three import table_three_block
from memorisk.audits.synthesize.verdict import empty_places
from memorisk.report.blocks import (
    Block,
    Column,
    Fact,
    Heading,
    Inline,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
    number,
)
from memorisk.report.columns import count, percent
from memorisk.report.first_screen import FirstScreen
from memorisk.report.numbers import from_json
from memorisk.report.result import Result

LOOP = (
    "For every place an image was drawn, compared with all training images, and, where it was rejected, drawn again "
    "from another seed: of the same class or condition, up to {tries}."
)
SELECTED = (
    "Each kept image was screened once, at a threshold that was fixed before the first was drawn, so that the promise "
    "above holds for each drawing: a copy made by {kinds}, as the calibration's, passes with a probability of at most "
    "{miss}. Drawing again gives a place further chances to be filled by a copy that passes. Over all places, kept "
    "copies that are made so are at most {odds} times the rejected images, on average over runs; with {rejected} "
    "rejected and {kept} kept, and the chance in the number of rejections counted in, that is {high} of the "
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
TABLE_THREE = (
    "Before: the first draw of every place, which is the generator without the loop. Kept: after the loop. Reference: "
    "real images of new people. A rate of memorization is to be read beside what the detector says of new people."
)


def times_words(n: int) -> str:
    """Word how often."""
    return "once" if n == 1 else f"{n:,} times"


def limitations(patients_known: bool) -> list[Text]:
    """List what does not follow from the loop.

    Args:
        patients_known: Whether it is known whose each image is.
    """
    texts: list[Text] = [
        OWN_COPIES,
        NO_PROOF,
        "The generator itself remembers what it remembers. If it is released, anybody can draw from it what was "
        "rejected here.",
        "What is rejected is missing from the set: images that look like training images without copying them are "
        "drawn again as well, and the set moves away from the training images.",
        ONLY_KEPT,
    ]
    if not patients_known:
        texts.append(NO_PATIENTS)
    return texts


def loop_page(result: Result, pictures: Mapping[Pair, PairPicture] | None = None, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Result of `audits.synthesize.analysis.analyse_loop`.
        pictures: Pictures of pairs side by side; None for none.
        redact: Leave out every id and every picture.
    """
    summary = from_json(LoopSummary, result.summary)
    n, filtered = summary.numbers, summary.numbers.filter
    title: list[Inline] = ["Images made, screened and made again"]
    if not redact:
        title += [": ", Name(n.generator)]
    promised = [*guarantee_section(result, filtered), *_selected(n)]
    sections = [*audit_section(filtered), Section("What is promised", promised, "guarantee")]
    if filtered.sets.filtered:
        gallery = None if redact else pictures
        sections += [
            Section("The loop", _loop(result, n), "loop"),
            Section("Quality and memorization", _table_three(n.table_three), "table-three"),
            Section("What was rejected", cost_section(result, filtered), "cost"),
            Section("Whom rejected images point at", exposed_section(result, filtered, gallery, redact), "exposed"),
            Section("Scores", score_section(result, filtered, summary.setup), "scores"),
        ]
    sections += [
        Section("What this does not say", [Steps(limitations(filtered.patients_known))], "limits"),
        Section("How it was done", _setup(summary, redact), "setup"),
    ]
    return Page(
        title=title,
        lead=first_screen(result).blocks(left_out(result, filtered, summary.setup, None if redact else pictures)),
        sections=sections,
        footer=[Paragraph(footer(summary.setup.versions, redact))],
        redacted=redact,
    )


def first_screen(result: Result) -> FirstScreen:
    """Show the verdict on the kept set, the reasons, what is promised, who is exposed, and the main numbers.

    Args:
        result: Result of the loop.
    """
    n = from_json(LoopSummary, result.summary).numbers
    sets, screen = n.filter.sets, screening_screen(result, n.filter)
    facts = [
        Fact("Kept", count(sets.n_kept_images), f"of {count(n.n_asked)}"),
        Fact("Drawn", count(n.n_drawn), f"{count(sets.n_rejected_images)} rejected"),
        *exposed_facts(n.filter),
        Fact(*_copies(n)),
    ]
    notes = [*([empty_places(n)] if n.n_empty else []), *screen.notes]
    ledger = {"Ledger": "ledger.csv"} if sets.filtered else {}
    return replace(screen, notes=notes, facts=facts, files=kept_files(n.filter) | ledger)


def _copies(n: LoopNumbers) -> tuple[str, str, str]:
    """Say which copies among the kept images are bounded, the upper limit, and which kinds are not covered."""
    promise = n.filter.promise
    if not n.filter.sets.n_kept_images:
        return "Copies among the kept", "-", "nothing kept"
    if (copies := n.bounded) is None:
        return "Copies among the kept", "no promise", "training images are not all known" if promise.guarantee else ""
    kinds, most = promised_kinds(promise), bounded_words(copies.high)
    if len(promise.kinds) > 3:
        return (
            f"Copies of {len(promise.kinds)} kinds among the kept",
            most,
            f"95 % limit; {kinds}; other kinds: not covered",
        )
    return f"Copies made by {kinds} among the kept", most, "95 % limit; other kinds: not covered"


def bounded_words(high: float) -> str:
    """Say how large a share of copies can be; words where so many were rejected that it can be any."""
    return f"at most {percent(high)}" if high < 1 else "any share"


def _selected(n: LoopNumbers) -> list[Block]:
    """Lay out what drawing again does to the promise."""
    promise = n.filter.promise
    if n.copies is None or not n.filter.sets.n_kept_images:
        return []
    if not promise.guarantee:
        return [Paragraph(UNBOUNDED)]
    if (copies := n.bounded) is None:
        return [Paragraph(UNKNOWN)]
    miss = copies.miss_rate
    text = SELECTED.format(
        kinds=promised_kinds(promise),
        miss=percent(miss),
        odds=f"{miss / (1 - miss):.3g}",
        rejected=count(copies.n_rejected),
        kept=count(copies.n_kept),
        high=bounded_words(copies.high),
        places=count(n.n_asked),
        tries=f"{n.most_tries:,} tries" if n.most_tries > 1 else "one try",
        place=percent(copies.place),
    )
    return [Heading("After drawing again"), Paragraph(text)]


def _loop(result: Result, n: LoopNumbers) -> list[Block]:
    """Lay out the attempts, and how many images each took."""
    blocks: list[Block] = [Paragraph(LOOP.format(tries=times_words(n.most_tries)))]
    if n.n_empty:
        blocks.append(Paragraph(empty_places(n)))
    if n.paired:
        blocks.append(Paragraph(PAIR.format(n=count(n.n_of_source))))
    table = Table(
        frame=result.tables["attempts"],
        columns=[
            Column(source="attempt", heading="Attempt", format="count", row_heading=True),
            number("n_drawn", "Drawn", "count"),
            number("n_rejected", "Rejected", "count"),
            number("n_kept", "Kept", "count"),
        ],
        caption="Attempts. Every image ever drawn is in ledger.csv, with why it was rejected.",
        elsewhere="tables/attempts.parquet",
    )
    return [*blocks, table]


def _table_three(row: TableThreeRow | None) -> list[Block]:
    if row is None:
        return [Paragraph("Nothing was kept whose quality could be measured.")]
    return [Paragraph(TABLE_THREE), table_three_block(row)]


def _setup(s: LoopSummary, redact: bool) -> list[Block]:
    """List the settings that repeat the run."""
    n, sets, calibration = s.numbers, s.numbers.filter.sets, s.numbers.filter.calibration
    compared = (
        ("Training", s.names.training, sets.n_train_images, sets.n_train_patients),
        ("Calibration", s.names.calibration, calibration.n_calibration_images, calibration.n_calibration_patients),
    )
    definitions = set_rows(compared, n.filter.terms, s.shape, s.setup.settings.resize, redact=redact)
    generator, settings = s.generator, s.setup.settings
    conditioned = generator.conditioning or generator.conditioned_on
    sampling = s.sampling.settings_of(generator.kind)
    definitions += [
        ("Generator", Name(f"{'' if redact else generator.name + ', '}{generator.kind}, conditioned on {conditioned}")),
        ("Its fingerprint", Name(n.generator_source)),
        ("Sampling", Name(", ".join(f"{name} {value}" for name, value in sampling.items()))),
    ]
    drawn: DefinitionRows = [
        ("Balance", "paired with training images" if settings.paired else settings.balance),
        ("Most tries", count(settings.most_tries)),
    ]
    return setup_section(n.filter, s.setup, definitions, drawn, redact)
