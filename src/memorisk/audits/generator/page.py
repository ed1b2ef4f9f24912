"""Lay out the page of an audit of a generator: that of twins, and sections on repeated and on drawn images."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_numbers import Cliques
from memorisk.audits.classifier.pages.audit import classifier_page
from memorisk.audits.classifier.pages.result_view import ResultView
from memorisk.audits.classifier.pages.thumbnails import thumbnails
from memorisk.audits.comparison.pictures import MAX_PICTURES, Pair, picture_gallery, side_by_side
from memorisk.audits.comparison.sets import further_parts_note
from memorisk.audits.generator.dose import DOSE
from memorisk.audits.generator.reasons import CLIQUES, EXTRACTED, FEWEST_PATIENTS, WORDS
from memorisk.audits.rendering import REPORT
from memorisk.audits.run_images import CLASSIFIED, SYNTHETIC, Parts
from memorisk.images.pixels import same_channels
from memorisk.report.blocks import (
    Block,
    Column,
    Definitions,
    Figure,
    Heading,
    Name,
    Page,
    Paragraph,
    Section,
    Table,
    Text,
    number,
    words,
)
from memorisk.report.columns import column_numbers, column_texts, count, percent
from memorisk.report.figures.intervals import series_plot
from memorisk.report.flagged import NOT_TESTED
from memorisk.report.result import Result
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.levels import SUBGROUP_LEVEL

_CAN_BE_DRAWN = "Can patients be drawn?"


def generator_page(result: Result, *, pictures: Mapping[str, np.ndarray] | None = None, redact: bool = False) -> Page:
    """Lay out the report of an audit of a generator.

    Args:
        result: Result with the tables of an audit of twins.
        pictures: Pixels (``[h, w, c]``, uint8 or uint16) by image id; None for no pictures.
        redact: Leave out every id and every picture.
    """
    page = classifier_page(result, pictures=pictures, redact=redact)
    question, *sections = page.sections
    own = [dose_section(result, redact=redact)] if DOSE in result.tables else []
    if WORDS in result.tables:
        own.append(words_section(result, redact=redact))
    if EXTRACTED in result.tables:
        own.append(extraction_section(result, pictures, redact=redact))
    return replace(page, sections=[question, *own, *sections])


def generator_pictures(result: Result, parts: Parts) -> dict[str, np.ndarray]:
    """Return the pixels [h, w, c] of images by id: those of `thumbnails`, and both images of extracted pairs.

    Args:
        result: Result of the audit.
        parts: Images of the part `CLASSIFIED`, and of `SYNTHETIC` where images were drawn.
    """
    pictures = thumbnails(result, parts)
    for real, drawn in _shown_pairs(result):
        pictures |= {real: parts(CLASSIFIED).pixels_of(real), drawn: parts(SYNTHETIC).pixels_of(drawn)}
    return pictures


def _shown_pairs(result: Result) -> list[Pair]:
    """Return the first pairs that the audit of the draws flags: training image and drawn image."""
    if EXTRACTED not in result.tables:
        return []
    table = result.tables[EXTRACTED].head(MAX_PICTURES)
    return list(zip(column_texts(table, "training_image"), column_texts(table, "synthetic_image"), strict=True))


def extraction_section(
    result: Result, pictures: Mapping[str, np.ndarray] | None = None, *, redact: bool = False
) -> Section:
    """Lay out what the audit of the drawn images says, the pairs that it flags, and draws that repeat each other.

    Args:
        result: Result of an audit with drawn images.
        pictures: Pixels by image id; None for no pictures.
        redact: Leave out every id and every picture.
    """
    reading = ResultView.of(result, redact=redact)
    target = reading.summary.target
    extraction = None if target is None or target.verdict is None else target.verdict.extraction
    if extraction is None:
        return Section(_CAN_BE_DRAWN, [], "extraction")
    listed, units = extraction.n_listed_patients, reading.units
    unknown = "not tested"
    numbers: list[tuple[Text, Text]] = [
        ("Images drawn", count(extraction.n_drawn_images)),
        ("Status of their audit", extraction.status),
        (f"{units.capitalize()} with the very pixels of an image", count(extraction.n_certain_patients)),
        *([("Draws with the very pixels of an image in a further part", count(sum(extraction.other_copies.values())))]
          if extraction.other_parts else []),
        (f"{units.capitalize()} listed", unknown if listed is None else count(listed)),
        ("Draws that a second look confirms", _count_or(extraction.n_confirmed_images, unknown)),
        ("Draws singled out", _count_or(extraction.n_singled_images, unknown)),
        (f"Test {units}, the null", count(extraction.n_held_out_patients)),
        ("Share of the draws from which on an image is almost surely among them",
         f"{100 * extraction.least_noticed_share:.2g} %"),
    ]  # fmt: skip
    blocks: list[Block] = [
        Paragraph(
            f"Images were drawn from the generator and compared with its training images, and with those of test "
            f"{units} for the null. Their audit decides; its report has all pairs, planted copies and limits."
        ),
        *(
            [Paragraph(further_parts_note(others, pixels_compared=True, data="The split"))]
            if (others := extraction.other_parts)
            else []
        ),
        Definitions(numbers, compact=True),
        *([Paragraph(f"Planted copies: {extraction.promise}.")] if extraction.promise else []),
        Paragraph(["Report of that audit: ", Name(f"{extraction.folder}/{REPORT}"), " in the run folder."]),
    ]
    if not redact and pictures is not None:
        pairs = {
            pair: side_by_side(*same_channels(pictures[pair[0]], pictures[pair[1]]))
            for pair in _shown_pairs(result)
            if pair[0] in pictures and pair[1] in pictures
        }
        blocks += picture_gallery(pairs, "Pairs that the audit flags", ()) if pairs else []
    return Section(_CAN_BE_DRAWN, [*blocks, *_repeated(result, extraction.cliques, redact=redact)], "extraction")


def _count_or(n: int | None, missing: str) -> str:
    """Format a count that may not be known."""
    return missing if n is None else count(n)


def _repeated(result: Result, cliques: Cliques, *, redact: bool) -> list[Block]:
    """Lay out draws that are nearly the same as one another."""
    heading = Heading("Does the generator repeat itself?")
    if cliques.chance_pairs is None:
        chance = "Only identical pixels counted, since these images show no limit of how alike two people are."
    else:
        chance = (
            f"Of as many images of different people fewer than {cliques.chance_pairs:.2g} pairs are expected to be so "
            "alike by chance."
        )
    if not cliques.n_cliques:
        return [heading, Paragraph(f"No two draws are nearly the same. {chance}")]
    sentence = (
        f"{count(cliques.n_images)} draws form {plural(cliques.n_cliques, 'clique', 'cliques')} of images that are "
        f"nearly the same or show one training {ResultView.of(result, redact=redact).unit}; the largest has "
        f"{count(cliques.n_largest_images)}. {chance} Repetition alone copies no person."
    )
    columns = [
        Column(source="clique", heading="Clique", format="count", row_heading=True),
        number("n_images", "Draws", "count"),
        Column(source="flagged", heading="Flagged as copies", format="yes_no"),
        *([] if redact else [words("image", "A draw of it"), words("nearest_image", "Nearest training image")]),
    ]
    caption = "Cliques of draws, the largest first, with the training image nearest to any of their draws."
    frame, elsewhere = result.tables[CLIQUES], f"tables/{CLIQUES}.parquet"
    return [heading, Paragraph(sentence), Table(frame=frame, columns=columns, caption=caption, visible_rows=10,
                                            elsewhere=elsewhere)]  # fmt: skip


def dose_section(result: Result, *, redact: bool = False) -> Section:
    """Lay out M and the share listed by the number of times that an image was in the training.

    Args:
        result: Result of an audit with repeated images.
        redact: Leave out every id.
    """
    table, reading = result.tables[DOSE], ResultView.of(result, redact=redact)
    units, unit = reading.units, reading.scale.unit
    times = column_numbers(table, "times").astype(int)
    names = ["once" if n == 1 else f"{n:,} times" for n in times.tolist()]
    limits = tuple(column_numbers(table, name) for name in ("mean", "low", "high"))
    columns = [
        Column(source="times", heading="Times in the training", format="count", row_heading=True),
        number("n_patients", units.capitalize(), "count"),
        Column(source="mean", heading=f"Mean M, {unit} [95 %]", format="decimal", interval=("low", "high")),
        number("n_listed", "Listed", "count", missing=NOT_TESTED),
        Column(source="share", heading="Share listed [95 %]", format="percent", interval=("share_low", "share_high")),
    ]
    figure = Figure(
        svg=series_plot(names, {"Mean M": (limits[0], limits[1], limits[2])}, x_title=f"Mean M, {unit}"),
        title="Memorization by the number of times that images were in the training.",
        caption=f"Bars are 95 % intervals over trainings, for these {units}.",
        alternative="",
    )
    by_times = Table(
        frame=table,
        columns=columns,
        caption=f"Each row lists its own {units} against every image that no twin saw. Intervals of shares are exact "
        f"over {units}, for these trainings.",
        elsewhere=f"tables/{DOSE}.parquet",
    )
    return Section("What repetition does", [Paragraph(_answer(table, units)), figure, by_times], "dose")


def words_section(result: Result, *, redact: bool = False) -> Section:
    """Lay out which words of captions lower the loss of training images by more than that of test images.

    Args:
        result: Result of an audit with measured words.
        redact: Leave out the words, which may name people.
    """
    table, reading = result.tables[WORDS], ResultView.of(result, redact=redact)
    units, title = reading.units, "Which words of captions are remembered"
    if not len(table):
        text = f"No word is in the captions of {FEWEST_PATIENTS} training {units} and of as many test {units}."
        return Section(title, [Paragraph(text)], "words")
    higher = int((column_numbers(table, "adjusted") <= SUBGROUP_LEVEL).sum())
    answer = plural(higher, "word lowers", "words lower") if higher else "No word surely lowers"
    tests = plural(len(table), "row", "rows")
    explained = (
        f"The lift of a word is what the loss of an image falls by when the word is in its caption. A word that "
        f"describes an image lifts it among any {units}; test {units} are therefore the null. {answer} the loss of "
        f"training images by more than that of test images, after Holm's correction over {tests}. "
        f"Words of fewer than {FEWEST_PATIENTS} {units} on either side, such as names and dates, are left out of a "
        "caption together. The verdict does not depend on this table."
    )
    columns = [
        *([] if redact else [words("word", "Word", row=True)]),
        number("n_train_patients", f"Training {units}", "count"),
        number("n_test_patients", f"Test {units}", "count"),
        number("mean_train", "Lift, training", "decimal"),
        number("mean_test", "Lift, test", "decimal"),
        Column(source="difference", heading="Difference [95 %]", format="decimal", interval=("low", "high")),
        number("adjusted", "p (Holm)", "decimal"),
        number("noticeable", "Noticed in 80 of 100 cases", "decimal"),
    ]
    thousandths = table.assign(**{name: 1000 * column_numbers(table, name) for name in _LIFTS})
    caption = (
        f"Lifts in thousandths of the noise variance, differences within class. Intervals: over {units}, for this file."
    )
    by_word = Table(
        frame=thousandths, columns=columns, caption=caption, visible_rows=20, elsewhere=f"tables/{WORDS}.parquet"
    )
    return Section(title, [Paragraph(explained), by_word], "words")


_LIFTS = ("mean_train", "mean_test", "difference", "low", "high", "noticeable")


def _answer(table: pd.DataFrame, units: str) -> str:
    """Say from how many repetitions on half of the patients are listed."""
    share, times = column_numbers(table, "share"), column_numbers(table, "times")
    whose = "that" if units == "images" else "whose images"
    if np.isnan(share).any():
        untested = ", ".join(count(n) for n in times[np.isnan(share)])
        return (
            f"No list was possible for the {units} {whose} were in the training so often: {untested}. The models, or "
            f"the {units} of the test part, are too few; only M says what repetition does there."
        )
    once = f"{percent(float(share[0]))} of the {units} {whose} were in the training once are listed"
    half = np.flatnonzero(share >= 0.5)
    if not len(half):
        return f"{once}; of those that were repeated fewer than half, at any number of times tried."
    first = int(times[half[0]])
    if first == 1:
        return f"{once}: this recipe remembers without any repetition."
    return f"{once}; of those in the training {count(first)} times {percent(float(share[half[0]]))}."
