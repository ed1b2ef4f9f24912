"""Figures 3 to 6 of paper 002, from the frames of the tables, so that a figure cannot differ from its table."""

import numpy as np
import pandas as pd

from memorisk.report.blocks import Block, Column, Figure, Name, Paragraph, Steps, Table
from memorisk.report.figures.canaries import epoch_plot, latent_plot, spread_plot
from memorisk.report.formats import count, decimal, percent
from memorisk.report.frames import numbers, rows, texts
from memorisk.studies.rare_distinctive.parts import StudyTable
from memorisk.studies.unique_features.config import PLAIN, UniqueStudy
from memorisk.studies.unique_features.names import arm_columns
from memorisk.studies.unique_features.plan import INFLUENCE
from memorisk.studies.unique_features.reading import Reading

_CANARIES = "Canaries, in the order of the values"


def redraw_figures(table: StudyTable) -> list[Block]:
    """Figure 4: M_w of each canary with one standard deviation over redraws of the random patches."""
    found: list[Block] = []
    for name, own in _by_arm(table.extra.get("images")):
        value, sd = numbers(own, "m_w"), numbers(own, "m_w_sd")
        svg = spread_plot(value, value - sd, value + sd, y_title="M_w, one s.d. over redraws", x_title=_CANARIES)
        found.append(_figure(svg, "Figure 4", name, own, ("m_w", "m_w_sd"), f"M_w of {count(len(own))} canaries"))
    return found


def seed_figures(table: StudyTable, study: UniqueStudy) -> list[Block]:
    """Figure 3a: range of M_w over trainings of some canaries; figures 5 and 6: range of M of all."""
    found: list[Block] = []
    for name, own in _by_arm(table.extra.get("images")):
        few = own.head(study.options.shown_runs)
        for score, words, frame, number in (
            ("m_w", "M_w", few, "Figure 3(a)"), ("m_paper", "M", own, "Figures 5 and 6"),
        ):  # fmt: skip
            middle, low, high = (numbers(frame, f"{score}_{end}") for end in ("mean", "min", "max"))
            svg = spread_plot(middle, low, high, y_title=f"{words}, mean and range over trainings", x_title=_CANARIES)
            columns = (f"{score}_mean", f"{score}_min", f"{score}_max")
            crossing = int(((low < 0) & (high > 0)).sum())
            said = f"{words} of {count(len(frame))} canaries; of {count(crossing)} it lies on both sides of 0"
            found.append(_figure(svg, number, name, frame, columns, said))
    return found


def epoch_figures(table: StudyTable) -> list[Block]:
    """Figure 3c: M after each epoch."""
    found: list[Block] = []
    for name, own in _by_arm(table.ours if len(table.ours) else None):
        epochs, none = numbers(own, "epoch"), np.full(len(own), np.nan)
        first = epochs[numbers(own, "m_low") > 0]
        said = (
            f"M: the interval first lies above 0 after epoch {count(first[0])}"
            if len(first)
            else "M: the interval holds 0 after every epoch"
        )
        band = {"canaries less references": _limits(own, "m")}
        svg = epoch_plot(epochs, band, y_title="M, 95 % limits")
        columns = ("epoch", "m", "m_low", "m_high", "validation")
        found.append(_figure(svg, "Figure 3(c), corrected", name, own, columns, said))
        bands = {
            "canaries": _limits(own, "m_paper"),
            "references": (numbers(own, "m_paper_references"), none, none),
        }
        svg = epoch_plot(epochs, bands, y_title="M as published, 95 % limits")
        columns = ("epoch", "m_paper", "m_paper_low", "m_paper_high", "m_paper_references")
        said = "M as published, of canary models and of models without the mark"
        found.append(_figure(svg, "Figure 3(c)", name, own, columns, said))
    return [*found, Paragraph(table.note)] if found else []


def latent_figures(table: StudyTable) -> list[Block]:
    """Figure 3b: how often the mark, and a random patch, excite each latent."""
    found: list[Block] = []
    frame = table.extra.get("by_latent")
    best = dict(zip(zip(texts(table.ours, "dataset"), texts(table.ours, "network"), strict=True),
                    numbers(table.ours, "latent"), strict=True))  # fmt: skip
    for name, own in _by_arm(frame):
        chosen = int(best[texts(own, "dataset")[0], texts(own, "network")[0]])
        series = {
            "the mark": numbers(own, "mark"),
            "a random patch": numbers(own, "random"),
            "the mark, other models": numbers(own, "without"),
        }
        said = f"how often each latent is excited, mean over all images; latent {chosen} is the one of the table"
        columns = ("latent", "mark", "random", "without")
        found.append(_figure(latent_plot(series, chosen), "Figure 3(b)", name, own, columns, said))
    return found


def variant_notes(reading: Reading) -> list[Block]:
    """What augmentation made of the mark: logged for every canary model."""
    lines = []
    for arm in reading.arms(INFLUENCE):
        if "augmentation" not in arm.regulariser.split("+") or arm.regulariser == PLAIN:
            continue
        own = [a.found for a in reading.of(arm, INFLUENCE)]
        epochs = sum(len(f["variant_same"]) for f in own)
        moved = [np.stack([f["variant_rows"], f["variant_columns"], f["variant_mirrored"]]) for f in own]
        distinct = len(np.unique(np.concatenate(moved, axis=1), axis=1).T) if moved else 0
        shown = np.mean(np.concatenate([f["variant_same"] for f in own]))
        kept = np.mean(np.concatenate([f["variant_kept"] for f in own]))
        named = arm_columns(arm)
        lines.append(
            [
                Name(f"{named['dataset']}, {named['network']}, {named['regulariser']}"),
                f": over {count(epochs)} epochs of {count(len(own))} models the canary showed the mark in "
                f"{count(distinct)} places or mirrorings; in {percent(shown)} of the epochs with the pixels of the "
                f"probes; {decimal(kept)} of its energy was left on average.",
            ]
        )
    return [Paragraph("What augmentation made of the mark:"), Steps(lines)] if lines else []


def _limits(frame: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return numbers(frame, column), numbers(frame, f"{column}_low"), numbers(frame, f"{column}_high")


def _by_arm(frame: pd.DataFrame | None) -> list[tuple[str, pd.DataFrame]]:
    """A frame's parts by data set and network."""
    if frame is None or not len(frame):
        return []
    pairs = list(zip(texts(frame, "dataset"), texts(frame, "network"), strict=True))
    return [(f"{d}, {n}", rows(frame, [pair == (d, n) for pair in pairs])) for d, n in dict.fromkeys(pairs)]


def _figure(svg: str, number: str, name: str, frame: pd.DataFrame, columns: tuple[str, ...], said: str) -> Figure:
    first = "image" if "image" in frame else columns[0]
    shown = [Column(source=first, heading=first.capitalize(), row_heading=True, format="text" if first == "image"
                    else "count")]  # fmt: skip
    shown += [Column(source=c, heading=c.replace("_", " "), format="power") for c in columns if c != first]
    return Figure(
        svg=svg,
        title=f"{number}: {said.split(';')[0].split(',')[0]}",
        caption=[Name(name), f". {said[0].upper()}{said[1:]}."],
        alternative=[Name(name), f": {said}."],
        table=Table(frame=frame, columns=shown, caption="The drawn numbers."),
    )
