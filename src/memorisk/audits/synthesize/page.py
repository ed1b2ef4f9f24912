"""The report of a loop: may the set be shared, what is promised after drawing again, what was rejected, who looked.

Its fixed wording is in ``wording.toml``, apart from the layout.
"""

from collections.abc import Mapping

from memorisk.audits.comparison.page_parts import DefinitionRows, footer, set_rows
from memorisk.audits.comparison.pictures import Pair, PairPicture
from memorisk.audits.filter.page import (
    audit_section,
    cost_section,
    exposed_facts,
    exposed_section,
    guarantee_section,
    score_section,
    setup_section,
    verdict_blocks,
)
from memorisk.audits.filter.wording import (
    NO_PATIENTS,
    NO_PROOF,
    ONLY_KEPT,
    OWN_COPIES,
    conclusion,
    promised_kinds,
)
from memorisk.audits.synthesize.result import LoopNumbers, LoopSummary, TableThreeRow
from memorisk.audits.synthesize.table_three import table_three_block
from memorisk.audits.synthesize.verdict import empty_places
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
    Text,
    number,
)
from memorisk.report.columns import count, percent
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.report.texts import read_texts

_TEXTS = read_texts("memorisk.audits.synthesize")
LOOP: str = _TEXTS["loop"]
SELECTED: str = _TEXTS["selected"]
UNBOUNDED: str = _TEXTS["unbounded"]
UNKNOWN: str = _TEXTS["unknown"]
PAIR: str = _TEXTS["pair"]
TABLE_THREE: str = _TEXTS["table_three"]


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
        title += [" ", Name(n.generator)]
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
        subtitle="A set of generated images, drawn again where a detector took one for a copy of a training image",
        lead=_lead(result, n),
        sections=sections,
        footer=[Paragraph(footer(summary.setup.versions, redact))],
        redacted=redact,
    )


def _lead(result: Result, n: LoopNumbers) -> list[Block]:
    """Lay out the verdict, the reasons, who is exposed, what can go unnoticed, the ways out, and the main numbers."""
    sets = n.filter.sets
    kind, headline, sentence = conclusion(result.status, n.filter)
    facts = [
        Fact("Kept", count(sets.n_kept_images), f"of {count(n.n_asked)}"),
        Fact("Drawn", count(n.n_drawn), f"{count(sets.n_rejected_images)} rejected"),
        *exposed_facts(n.filter),
        Fact(*_copies(n)),
    ]  # fmt: skip
    return [Callout(kind, headline, [Paragraph(sentence), *verdict_blocks(result, n.filter)]), Facts(facts)]


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
    sampling = s.sampling.told(generator.kind)
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
