"""Figures 1 to 6 and 8 of paper 000, drawn from the numbers of a study's tables; figure 7 is in `images`.

Each function takes the tables by name and returns blocks; nothing where its table has nothing to draw.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from memorisk.report.blocks import Block, Details, Figure, Inline, Name, Table, Text
from memorisk.report.figures.basic import frequency_plot
from memorisk.report.figures.difference import difference_plot
from memorisk.report.figures.layer import layer_plot
from memorisk.report.figures.series import MOST_ROWS, Limits, series_plot
from memorisk.report.figures.tradeoff import tradeoff_plot
from memorisk.report.formats import count, decimal
from memorisk.report.frames import largest_first, numbers, rows, texts, truths
from memorisk.studies.rare_distinctive.columns import COLUMNS
from memorisk.studies.rare_distinctive.parts import StudyTable
from memorisk.studies.rare_distinctive.text import regime_name

Tables = Mapping[str, StudyTable]
Ends = tuple[str, str, str]

MEAN = ("mean", "low", "high")
DIFFERENCE, NOISE = ("difference", "low", "high"), ("noise", "noise_low", "noise_high")


def figure_1(tables: Tables) -> list[Block]:
    """Mean M of each class of the first data set, by architecture."""
    every = tables["table_5"].ours
    if every.empty:
        return []
    dataset = texts(every, "dataset")[0]
    own = _where(every, "dataset", dataset)
    labels = list(dict.fromkeys(texts(own, "label")))
    series = _series(own, "architecture", "label", labels, MEAN)
    return [
        Figure(
            svg=series_plot(labels, series, x_title="Mean memorization M, with 95 % interval"),
            title="Figure 1. Per-class memorization by architecture.",
            caption=["Data set ", Name(dataset), ", largest mean of the first architecture first.", _cut(labels)],
            alternative=_highest(own, "architecture", "label", MEAN),
        )
    ]


def figure_2(tables: Tables) -> list[Block]:
    """Distance of the twins' activations by layer, at high and at low M, for each explained cell."""
    every = tables["table_7"].extra.get("layers", pd.DataFrame())
    found: list[Block] = []
    for dataset, architecture in _cells(every):
        own = _where(_where(every, "dataset", dataset), "architecture", architecture)
        bands = {f"{b} M": _limits(own, (b, f"{b}_low", f"{b}_high")) for b in ("high", "low")}
        low, high = numbers(own, "difference_low"), numbers(own, "difference_high")
        apart = int(np.sum((low > 0) | (high < 0)))
        found.append(
            Figure(
                svg=layer_plot(bands, y_title="Cosine distance of the twins"),
                title="Figure 2. Distance of candidate and independent activations by layer.",
                caption=[*_cell_words(dataset, architecture), ". Bands are 95 % intervals over patients."],
                alternative=f"Of {count(len(own))} layers, {count(apart)} have a difference of high and low M whose "
                "interval leaves out 0; that bands overlap does not show that there is none.",
                table=Table(frame=own, columns=COLUMNS["layers"], caption="Every layer."),
            )
        )
    return found


def figure_3(tables: Tables) -> list[Block]:
    """Regimes: (a) each class under each, (b) accuracy on unseen images against mean M; a pair a data set."""
    ours, classes = tables["table_11"].ours, tables["table_11"].extra.get("by_regime", pd.DataFrame())
    found: list[Block] = []
    for dataset in dict.fromkeys(texts(ours, "dataset")):
        own = _where(ours, "dataset", dataset)
        found.append(_by_regime(_where(classes, "dataset", dataset), dataset))
        names = [regime_name(name) for name in texts(own, "regime")]
        accuracy, m = (_limits(own, (c, f"{c}_low", f"{c}_high")) for c in ("accuracy", "mean_m"))
        told: list[Inline] = []
        for i, name in enumerate(names):
            values = [float(np.asarray(v)[i]) for v in (accuracy[0], m[0])]
            told.append(f"{name}: accuracy {_said(values[0])}, mean M {_said(values[1])}. ")
        found.append(
            Figure(
                svg=tradeoff_plot(names, accuracy, m, float(numbers(own, "majority")[0])),
                title="Figure 3 (b). What each regime costs and saves.",
                caption=["Data set ", Name(dataset), ": accuracy on unseen images, right and low is good."],
                alternative=told,
            )
        )
    return found


def _by_regime(own: pd.DataFrame, dataset: str) -> Figure:
    named = own.assign(regime=[regime_name(name) for name in texts(own, "regime")])
    first = _where(named, "regime", texts(named, "regime")[0])
    labels = texts(largest_first(first, "mean"), "label")
    return Figure(
        svg=series_plot(
            labels,
            _series(named, "regime", "label", labels, MEAN),
            x_title="Mean memorization M, with 95 % interval",
        ),
        title="Figure 3 (a). Each class under each regime.",
        caption=["Data set ", Name(dataset), ", largest mean of the first regime first.", _cut(labels)],
        alternative=_highest(named, "regime", "label", MEAN),
        table=Table(frame=named, columns=COLUMNS["by_regime"], caption="Every class and regime."),
    )


def figure_4a(tables: Tables) -> list[Block]:
    """Attack success at high less that at low M, by cell: M from other seeds, and the paper's circular form.

    The paper's is by its strongest attack, the loss difference, which is M itself.
    """
    agreement = tables["table_8"].extra.get("agreement", pd.DataFrame())
    if agreement.empty:
        return []
    named = _with_cell_names(agreement)
    labels = list(dict.fromkeys(texts(named, "cell")))
    ends = ("difference", "difference_low", "difference_high")
    return [
        Figure(
            svg=series_plot(
                labels,
                _series(named, "form", "cell", labels, ends),
                x_title="Difference of success, 95 % interval",
                cut=False,
            ),
            title="Figure 4 (a). Does M tell whom an attack finds?",
            caption="Success of an attack at M > 0.3 less that at M ≤ 0.1. M from other seeds than the attacked "
            "model's answers the question, for the loss threshold, which an attacker can compute, and for the loss "
            "difference. The paper's form sets the loss difference against M from the attacked models, which is the "
            f"same number: it agrees even where nothing is memorized.{_cut(labels)}",
            alternative=_highest(named, "form", "cell", ends),
            table=Table(frame=agreement, columns=COLUMNS["agreement"], caption="Every form."),
        )
    ]


def figure_4b(tables: Tables) -> list[Block]:
    """Rho of frequency and M by data set and architecture."""
    rarity = tables["table_1"].ours
    if rarity.empty:
        return []
    labels = list(dict.fromkeys(texts(rarity, "dataset")))
    ends = ("paper_rho", "rho_low", "rho_high")
    return [
        Figure(
            svg=series_plot(
                labels,
                _series(rarity, "architecture", "dataset", labels, ends),
                x_title="Spearman's rho, with 95 % interval",
                cut=False,
            ),
            title="Figure 4 (b). Rarity and memorization by data set and architecture.",
            caption="Rho of class frequency and M over images: below 0 rare classes are memorized more. Intervals are "
            f"over patients and seeds, for these classes as they are; the s.d. over seeds is in table 1.{_cut(labels)}",
            alternative=_highest(rarity, "architecture", "dataset", ends),
        )
    ]


def figure_5(tables: Tables) -> list[Block]:
    """What the intervention changed in its target classes, a figure an architecture."""
    return _differences(
        tables["table_3"].ours, "Figure 5. What the intervention changed, beside retraining.", with_dataset=True
    )


def figure_6(tables: Tables) -> list[Block]:
    """Every class of the first data set with an intervention, changed ones and others."""
    every = tables["table_6"].ours
    if every.empty:
        return []
    dataset = texts(every, "dataset")[0]
    title = "Figure 6. Every class under the intervention, changed or not."
    return _differences(_where(every, "dataset", dataset), title, with_dataset=False)


def _differences(every: pd.DataFrame, title: str, *, with_dataset: bool) -> list[Block]:
    found: list[Block] = []
    for architecture in dict.fromkeys(texts(every, "architecture")):
        own = _where(every, "architecture", architecture)
        labels = texts(own, "label")
        if with_dataset:
            labels = [f"{d}: {label}" for d, label in zip(texts(own, "dataset"), labels, strict=True)]
            where: list[Inline] = ["Architecture ", Name(architecture)]
        else:
            labels = [f"{v} (changed)" if c else v for v, c in zip(labels, truths(own, "targeted"), strict=True)]
            where = _cell_words(texts(own, "dataset")[0], architecture)
        found.append(
            Figure(
                svg=difference_plot(labels, _limits(own, DIFFERENCE), _limits(own, NOISE)),
                title=title,
                caption=[*where, f". Right of 0 more is remembered than before, left of it less.{_cut(labels)}"],
                alternative=_changes(own, labels),
            )
        )
    return found


def _changes(own: pd.DataFrame, labels: Sequence[str]) -> list[Inline]:
    words: list[Inline] = []
    for i, label in enumerate(labels):
        values = {c: _said(numbers(own, c)[i]) for c in (*DIFFERENCE, *NOISE)}
        words += [
            Name(label),
            f": {values['difference']} ({values['low']} to {values['high']}); retraining alone {values['noise']} "
            f"({values['noise_low']} to {values['noise_high']}). ",
        ]
    return words


def figure_8(tables: Tables) -> list[Block]:
    """Frequency of the classes against M, a panel a data set; other architectures than the first are folded away."""
    every = tables["table_5"].ours
    found: list[Block] = []
    for dataset in dict.fromkeys(texts(every, "dataset")):
        of_set = _where(every, "dataset", dataset)
        panels = [_frequency(_where(of_set, "architecture", a)) for a in dict.fromkeys(texts(of_set, "architecture"))]
        found.append(panels[0])
        if len(panels) > 1:
            found.append(Details(["The other architectures on ", Name(dataset)], panels[1:]))
    return found


def _frequency(own: pd.DataFrame) -> Figure:
    place = _cell_words(texts(own, "dataset")[0], texts(own, "architecture")[0])
    known = rows(own, np.isfinite(numbers(own, "mean")))
    words: list[Inline] = ["No class has a mean."]
    if len(known):
        rarest = known.iloc[int(np.argmin(numbers(known, "frequency")))]
        top = largest_first(known, "mean").iloc[0]
        words = ["The rarest class, ", Name(str(rarest["label"])), f", has mean M {_said(rarest['mean'])}; the most "]
        words += ["memorized, ", Name(str(top["label"])), f", has {_said(top['mean'])}."]
    return Figure(
        svg=frequency_plot(texts(own, "label"), numbers(own, "frequency"), *(numbers(own, c) for c in MEAN)),
        title="Figure 8. Frequency of a class against its memorization.",
        caption=[*place, ". Each dot is a class, the line its 95 % interval."],
        alternative=words,
    )


def _series(frame: pd.DataFrame, by: str, row: str, labels: Sequence[str], ends: Ends) -> dict[str, Limits]:
    """[rows] estimates and limits of each series; NaN where a series has no such row."""
    found: dict[str, Limits] = {}
    for name in dict.fromkeys(texts(frame, by)):
        own = _where(frame, by, name)
        place = {label: i for i, label in enumerate(texts(own, row))}
        at = np.array([place.get(label, -1) for label in labels], dtype=np.intp)
        columns = [np.append(numbers(own, column), np.nan)[at] for column in ends]
        found[name] = (columns[0], columns[1], columns[2])
    return found


def _highest(frame: pd.DataFrame, by: str, row: str, ends: Ends) -> Text:
    """The row with the highest value of each series, in words."""
    words: list[Inline] = []
    for name in dict.fromkeys(texts(frame, by)):
        top = largest_first(_where(frame, by, name), ends[0]).head(1)
        value, low, high = (_said(numbers(top, column)[0]) for column in ends)
        words += [Name(name), ": highest in ", Name(texts(top, row)[0]), f", {value} ({low} to {high}). "]
    return words or "Nothing is drawn."


def _where(frame: pd.DataFrame, column: str, value: str) -> pd.DataFrame:
    return rows(frame, [v == value for v in texts(frame, column)]).reset_index(drop=True)


def _limits(frame: pd.DataFrame, ends: Ends) -> Limits:
    return numbers(frame, ends[0]), numbers(frame, ends[1]), numbers(frame, ends[2])


def _cells(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(zip(texts(frame, "dataset"), texts(frame, "architecture"), strict=True)))


def _with_cell_names(frame: pd.DataFrame) -> pd.DataFrame:
    """With a column ``cell``: the architecture, and the data set where there are several."""
    several = len(set(texts(frame, "dataset"))) > 1
    pairs = zip(texts(frame, "dataset"), texts(frame, "architecture"), strict=True)
    return frame.assign(cell=[f"{d}: {a}" if several else a for d, a in pairs])


def _cell_words(dataset: str, architecture: str) -> list[Inline]:
    return [Name(dataset), ", ", Name(architecture)]


def _cut(labels: Sequence[str]) -> str:
    return f" The first {MOST_ROWS} of {len(labels)} rows." if len(labels) > MOST_ROWS else ""


def _said(value: float) -> str:
    return "unknown" if np.isnan(value) else decimal(value)
