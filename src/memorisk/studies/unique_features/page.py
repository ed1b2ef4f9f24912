"""Page of the study: findings, tables 1 to 3, figures 2 to 6, and the results of further sections of paper 002.

A network has one finding: in the answers alone, and with the label known. Figures 3 to 6 are drawn from the frames of
the tables, so that a figure cannot differ from its table. Figure 2, the canaries of tables 1 and 2 as pictures, is
shown where the study's file sets ``gallery``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.alterations.marks import burn_stored
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Figure,
    Gallery,
    Inline,
    Name,
    Page,
    Paragraph,
    Steps,
    Strong,
    Thumbnail,
    data_uri,
)
from memorisk.report.columns import (
    column_numbers,
    column_texts,
    count,
    decimal,
    estimate_arrays,
    largest_first,
    percent,
    probability,
    rows,
)
from memorisk.report.figures.curves import epoch_plot, latent_plot, spread_plot
from memorisk.report.figures.intervals import Limits, series_plot
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.studies.engine.figures import drawn, series_of
from memorisk.studies.engine.pages import finding_blocks, lead_blocks, study_page
from memorisk.studies.engine.rows import distinct, rows_of
from memorisk.studies.engine.tables import StudyTable, table_blocks
from memorisk.studies.unique_features.config import LEVEL, PLAIN, UniqueStudy
from memorisk.studies.unique_features.plan import INFLUENCE, RANDOM, arm_columns, network_words
from memorisk.studies.unique_features.results import LAYOUT, StudyAnswers, TrainingAnswers

Finding = Sequence[Inline]

_BLACK = (
    "m",
    "In the answers alone: M {m} ({m_low} to {m_high}), p {p} for all {n_canaries} canaries together",
    "; {found} found alone, {below_all} below all references",
)
_WHITE = (
    "excess",
    "With the label known: M_w above the references' by {excess} ({excess_low} to {excess_high})",
    "; {found} of {n_found} canaries found alone",
)
_FORMATS = {"p": probability} | dict.fromkeys(("n_canaries", "found", "below_all", "n_found"), count)
"""Formats of the numbers that are not decimal."""


def findings(white: pd.DataFrame, black: pd.DataFrame) -> list[Finding]:
    """Return one line per network and data set.

    Args:
        white: Corrected table 1: M_w of canaries at random.
        black: Corrected table 2: M of canaries by self-influence.
    """
    lines: list[Finding] = []
    for dataset, network in dict.fromkeys(
        [*distinct(black, "dataset", "network"), *distinct(white, "dataset", "network")]
    ):
        white_row, black_row = _row(white, dataset, network), _row(black, dataset, network)
        parts = [*_measure_sentences(black_row, *_BLACK), *_measure_sentences(white_row, *_WHITE)]
        if not parts:
            continue
        remembered = _is_at_most(black_row.get("p"), LEVEL) or (
            _is_number(white_row.get("excess_low")) and white_row["excess_low"] > 0
        )
        answer = "remembered. " if remembered else "not shown to be remembered. "
        lines.append([Name(f"{dataset}, {network}"), ": ", Strong(answer), " ".join(parts)])
    return lines


def chance_level_networks(table: pd.DataFrame) -> list[Finding]:
    """List networks whose models are not surely better on validation images than always naming the commonest class.

    Args:
        table: Table "What was run".
    """
    lines: list[Finding] = []
    for row in table.to_dict("records"):
        n = int(row["n_validation"])
        if clopper_pearson(round(row["accuracy"] * n), n).low > row["majority"]:
            continue
        accuracy_text = f"{percent(row['accuracy'])} of {count(n)} validation images, the commonest class has"
        name = f"{row['dataset']}, {row['network']}, {row['regulariser']}"
        lines.append(
            [
                Name(name),
                f": {accuracy_text} {percent(row['majority'])}. What such models remember says little of trained ones.",
            ]
        )
    return lines


def _measure_sentences(row: dict, column: str, sentence: str, alone: str) -> list[str]:
    """Describe a measure and the number of canaries found alone by it; nothing where it was not taken."""
    if not _is_number(row.get(column)):
        return []
    written = {k: _FORMATS.get(k, decimal)(v) for k, v in row.items() if isinstance(v, int | float)}
    return [(sentence + (alone if _is_number(row.get("found")) else "")).format_map(written) + "."]


def _row(table: pd.DataFrame, dataset: str, network: str) -> dict:
    own = rows_of(table, dataset=dataset, network=network)
    return own.to_dict("records")[0] if len(own) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value == value


def _is_at_most(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and value <= limit


def _network_name(row: Mapping[Any, Any]) -> str:
    return f"{row['dataset']}, {row['network']}"


def remembered_figure(white: pd.DataFrame, black: pd.DataFrame) -> list[Block]:
    """Draw by how much the models that saw the mark exceed the references, by each of the two measures.

    Args:
        white: Corrected table 1: M_w of canaries at random.
        black: Corrected table 2: M of canaries by self-influence.
    """
    series: dict[str, Limits] = {}
    names = list(dict.fromkeys(_network_name(row) for table in (black, white) for row in table.to_dict("records")))
    for title, table, column in (("M, answers alone", black, "m"), ("M_w, label known", white, "excess")):
        own = table.assign(measure=title, row=[_network_name(row) for row in table.to_dict("records")])
        drawn_limits = series_of(own, "measure", "row", names, (column, f"{column}_low", f"{column}_high"))
        series |= {name: ends for name, ends in drawn_limits.items() if np.isfinite(ends[0]).any()}
    if not series:
        return []
    svg = series_plot(names, series, x_title="Canary models less references, 95 % interval", cut=False)
    words = [
        f"{title}: {count((np.asarray(low) > 0).sum())} of {count(np.isfinite(low).sum())} intervals lie above 0."
        for title, (_, low, _) in series.items()
    ]
    caption = "Models that saw the mark once, less models trained alike without it; right of 0: it is remembered."
    return [drawn(svg, "What the mark changed, by network", caption, " ".join(words))]


_CANARIES = "Canaries, in the order of the values"


def redraw_figures(table: StudyTable) -> list[Block]:
    """Draw figure 4: M_w of each canary with one standard deviation over redraws of the random patches."""
    figures: list[Block] = []
    for name, own in _by_arm(table.extra.get("images")):
        value, sd = column_numbers(own, "m_w"), column_numbers(own, "m_w_sd")
        svg = spread_plot(value, value - sd, value + sd, y_title="M_w, one s.d. over redraws", x_title=_CANARIES)
        figures.append(_figure(svg, "Figure 4", name, own, ("m_w", "m_w_sd"), f"M_w of {count(len(own))} canaries"))
    return figures


def seed_figures(table: StudyTable, study: UniqueStudy) -> list[Block]:
    """Draw figure 3a: range of M_w over trainings of some canaries; figures 5 and 6: range of M of all."""
    figures: list[Block] = []
    for name, own in _by_arm(table.extra.get("images")):
        few = own.head(study.options.shown_runs)
        for score, words, frame, number in (
            ("m_w", "M_w", few, "Figure 3(a)"), ("m_paper", "M", own, "Figures 5 and 6"),
        ):  # fmt: skip
            middle, low, high = (column_numbers(frame, f"{score}_{end}") for end in ("mean", "min", "max"))
            svg = spread_plot(middle, low, high, y_title=f"{words}, mean and range over trainings", x_title=_CANARIES)
            columns = (f"{score}_mean", f"{score}_min", f"{score}_max")
            crossing = int(((low < 0) & (high > 0)).sum())
            caption = f"{words} of {count(len(frame))} canaries; of {count(crossing)} it lies on both sides of 0"
            figures.append(_figure(svg, number, name, frame, columns, caption))
    return figures


def epoch_figures(table: StudyTable) -> list[Block]:
    """Draw figure 3c: M after each epoch."""
    figures: list[Block] = []
    for name, own in _by_arm(table.ours if len(table.ours) else None):
        epochs, none = column_numbers(own, "epoch"), np.full(len(own), np.nan)
        first = epochs[column_numbers(own, "m_low") > 0]
        caption = (
            f"M: the interval first lies above 0 after epoch {count(first[0])}"
            if len(first)
            else "M: the interval holds 0 after every epoch"
        )
        band = {"canaries less references": estimate_arrays(own, "m")}
        svg = epoch_plot(epochs, band, y_title="M, 95 % limits")
        columns = ("epoch", "m", "m_low", "m_high", "validation")
        figures.append(_figure(svg, "Figure 3(c), corrected", name, own, columns, caption))
        bands = {
            "canaries": estimate_arrays(own, "m_paper"),
            "references": (column_numbers(own, "m_paper_references"), none, none),
        }
        svg = epoch_plot(epochs, bands, y_title="M as published, 95 % limits")
        columns = ("epoch", "m_paper", "m_paper_low", "m_paper_high", "m_paper_references")
        caption = "M as published, of canary models and of models without the mark"
        figures.append(_figure(svg, "Figure 3(c)", name, own, columns, caption))
    return [*figures, Paragraph(table.note)] if figures else []


def latent_figures(table: StudyTable) -> list[Block]:
    """Draw figure 3b: how often the mark, and a random patch, excite each latent."""
    figures: list[Block] = []
    frame = table.extra.get("by_latent")
    best = dict(zip(zip(column_texts(table.ours, "dataset"), column_texts(table.ours, "network"), strict=True),
                    column_numbers(table.ours, "latent"), strict=True))  # fmt: skip
    for name, own in _by_arm(frame):
        chosen = int(best[column_texts(own, "dataset")[0], column_texts(own, "network")[0]])
        series = {
            "the mark": column_numbers(own, "mark"),
            "a random patch": column_numbers(own, "random"),
            "the mark, other models": column_numbers(own, "without"),
        }
        caption = f"how often each latent is excited, mean over all images; latent {chosen} is the one of the table"
        columns = ("latent", "mark", "random", "without")
        figures.append(_figure(latent_plot(series, chosen), "Figure 3(b)", name, own, columns, caption))
    return figures


def variant_notes(reading: StudyAnswers) -> list[Block]:
    """Describe the forms that augmentation gave the mark, as logged for every canary model."""
    lines = []
    for arm in reading.arms(INFLUENCE):
        if "augmentation" not in arm.regulariser.split("+") or arm.regulariser == PLAIN:
            continue
        own = [a.arrays for a in reading.of(arm, INFLUENCE)]
        epochs = sum(len(f["variant_same"]) for f in own)
        moved = [np.stack([f["variant_rows"], f["variant_columns"], f["variant_mirrored"]]) for f in own]
        distinct = len(np.unique(np.concatenate(moved, axis=1), axis=1).T) if moved else 0
        same_share = np.mean(np.concatenate([f["variant_same"] for f in own]))
        energy_left = np.mean(np.concatenate([f["variant_kept"] for f in own]))
        labels = arm_columns(arm)
        lines.append(
            [
                Name(f"{labels['dataset']}, {labels['network']}, {labels['regulariser']}"),
                f": over {count(epochs)} epochs of {count(len(own))} models the canary showed the mark in "
                f"{count(distinct)} places or mirrorings; in {percent(same_share)} of the epochs with the pixels of "
                f"the probes; {decimal(energy_left)} of its energy was left on average.",
            ]
        )
    return [Paragraph("What augmentation made of the mark:"), Steps(lines)] if lines else []


def _by_arm(frame: pd.DataFrame | None) -> list[tuple[str, pd.DataFrame]]:
    """Return a frame's parts by data set and network."""
    if frame is None or not len(frame):
        return []
    return [(f"{d}, {n}", rows_of(frame, dataset=d, network=n)) for d, n in distinct(frame, "dataset", "network")]


def _figure(svg: str, number: str, name: str, frame: pd.DataFrame, columns: tuple[str, ...], caption: str) -> Figure:
    first = "image" if "image" in frame else columns[0]
    layout = [Column(source=first, heading=first.capitalize(), row_heading=True, format="text" if first == "image"
                    else "count")]  # fmt: skip
    layout += [Column(source=c, heading=c.replace("_", " "), format="power") for c in columns if c != first]
    title = f"{number}: {caption.split(';')[0].split(',')[0]}"
    words = [Name(name), f". {caption[0].upper()}{caption[1:]}."]
    return drawn(svg, title, words, [Name(name), f": {caption}."], frame, layout)


_MOST_CANARIES = 5


def canary_gallery(reading: StudyAnswers) -> list[Block]:
    """Show the canaries with the largest scores, as they were trained on.

    Args:
        reading: Answers of every finished model.
    """
    items = []
    for role, score in ((RANDOM, "m_w"), (INFLUENCE, "m_paper")):
        for arm in reading.arms(role):
            if arm.regulariser != PLAIN:
                continue
            table = largest_first(reading.rows(arm, role), score)
            answers = {(a.training.index, a.training.run): a for a in reading.of(arm, role)}
            keys = zip(
                column_numbers(table, "index"), column_numbers(table, "run"), column_numbers(table, score), strict=True
            )
            for index, run, value in list(keys)[:_MOST_CANARIES]:
                items.append(_thumbnail(reading, answers[int(index), int(run)], score, value))
    if not items:
        return []
    return [
        Paragraph("These are images of the training data: handle the page as such."),
        Gallery(items=items, caption="Canaries with the largest scores, as they were trained on."),
    ]


def _thumbnail(reading: StudyAnswers, answer: TrainingAnswers, score: str, value: float) -> Thumbnail:
    arm, job = answer.training.arm, answer.training.job
    data = reading.sets[arm.dataset]
    assert job.canary is not None
    row = int(job.rows[job.canary])
    picture = burn_stored(data.store.images[row : row + 1], data.mark)[0]
    words: Sequence = [
        [Name(f"{arm.dataset}, {network_words(arm.network)}")],
        f"image {row}, {'M_w' if score == 'm_w' else 'M'} {decimal(value)}",
        Name(data.classes[data.labels[row]]),
    ]
    return Thumbnail(data_uri=data_uri(picture), caption=words)


def unique_page(
    study: UniqueStudy, reading: StudyAnswers, tables: Sequence[StudyTable], failed: dict[str, str]
) -> Page:
    """Lay out the study.

    Args:
        study: Study as its file describes it.
        reading: Answers of every finished model.
        tables: Tables of `tables.unique_tables`.
        failed: Reasons why trainings are not there, by name.
    """
    by_name = {table.name: table for table in tables}
    hidden = study.options.redact
    pictures = canary_gallery(reading) if study.options.gallery and not hidden else []
    blocks = {
        "remembered_figure": remembered_figure(by_name["table_1"].ours, by_name["table_2"].ours),
        "figure_4": redraw_figures(by_name["seeds"]),
        "variants": variant_notes(reading),
        "gallery": pictures,
        "figures_3a_5_6": seed_figures(by_name["seeds"], study),
        "epochs": epoch_figures(by_name["epochs"]) or table_blocks(by_name["epochs"]),
        "figure_3b": latent_figures(by_name["latents"]),
        "mark": _mark(study),
    }
    return study_page(
        LAYOUT,
        tables,
        blocks,
        lead=_lead(study, reading, by_name, failed),
        redacted=hidden,
        answers=_answers(by_name),
        names="" if hidden else "It names the mark, which may be a person's name. ",
        held="images of the training data, as requested" if pictures else "no image; images are named by their row",
    )


def _answers(by_name: dict[str, StudyTable]) -> dict[str, dict[str, int]]:
    """Count for each section whose title is a question what its table answers."""
    answers = {}
    networks, epochs = by_name["table_2"].ours, by_name["epochs"].ours
    if "p" in networks and np.isfinite(p := column_numbers(networks, "p")).any():
        answers["black-box"] = {"n_remembered": int((p <= LEVEL).sum()), "n_networks": int(np.isfinite(p).sum())}
    if "m" in epochs and np.isfinite(column_numbers(epochs, "m")).any():
        of_networks = rows(epochs, np.isfinite(column_numbers(epochs, "m"))).groupby(["dataset", "network"])
        largest = [
            int(column_numbers(own, "epoch")[np.argmax(column_numbers(own, "m"))])
            for own in (pd.DataFrame(own) for _, own in of_networks)
        ]
        last = int(column_numbers(epochs, "epoch").max())
        answers["epochs"] = {"earliest": min(largest), "latest": max(largest), "n_epochs": last}
        answers["epochs"]["n_networks"] = len(largest)
    return answers


def _lead(
    study: UniqueStudy, reading: StudyAnswers, by_name: dict[str, StudyTable], failed: dict[str, str]
) -> list[Block]:
    lines = findings(by_name["table_1"].ours, by_name["table_2"].ours)
    answer = finding_blocks(lines) if lines else [Paragraph("No finished network has both canaries and references.")]
    blocks: list[Block] = [*answer, Details("How models were compared", [Paragraph(_protocol(study))])]
    facts = {
        "Models trained": len(reading.answers),
        "Data sets": len(reading.sets),
        "Canary models": sum(a.marked for a in reading.answers),
    }
    doubts = chance_level_networks(by_name["networks"].ours)
    warnings = [Callout("warning", "Networks that learned nothing", [Steps(doubts)])] if doubts else []
    return lead_blocks(Callout("note", "Was the mark remembered?", blocks), facts, failed, *warnings)


def _protocol(study: UniqueStudy) -> str:
    alone = study.protocol == "corrected" and not study.options.references
    return LAYOUT.sentences["no_references" if alone else study.protocol]


def _mark(study: UniqueStudy) -> list[Block]:
    """Describe the mark, unless the options leave it out."""
    options = study.options
    if options.redact:
        return [Paragraph("The mark is left out; config.yaml in the study's folder names it.")]
    return [Paragraph(["Mark: ", Name(options.mark), f", {options.place}, opacity {options.opacity:g}."])]
