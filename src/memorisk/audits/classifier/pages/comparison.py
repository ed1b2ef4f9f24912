"""The page of two runs side by side: class by class, patient by patient, attack by attack."""

import numpy as np
import pandas as pd

from memorisk.audits.classifier.comparison import OWN_UNITS, Comparison
from memorisk.audits.classifier.pages import wording
from memorisk.audits.classifier.pages.memorization import TIER_TONES
from memorisk.report.blocks import (
    Block,
    Column,
    Fact,
    Figure,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    estimate,
    number,
    words,
)
from memorisk.report.columns import booleans, count, decimal
from memorisk.report.figures.intervals import series_plot
from memorisk.report.first_screen import FirstScreen
from memorisk.report.flagged import NOT_TESTED
from memorisk.report.glance import limits_of
from memorisk.runs.errors import plural

DIFFERENCE = "Difference [95 % interval]"
RUNS = ("first", "second")
CONTROL = "independent_loss"


def comparison_page(comparison: Comparison) -> Page:
    """Lay out the comparison of two runs.

    Args:
        comparison: Comparison from ``audits.classifier.comparison.compare``.
    """
    named = "Ids are left out." if comparison.redact else "This file names patients: handle it as personal data."
    return Page(
        title="Two audits compared",
        lead=comparison_screen(comparison).blocks([] if comparison.own_units else _glance(comparison.per_class)),
        sections=[
            Section("Class by class", [_classes(comparison)], "classes"),
            Section("Patient by patient", _groups(comparison), "patients"),
            Section("What an attacker could see", _attacks(comparison.aucs), "attacks"),
            Section("How to read this", _reading(comparison), "reading"),
        ],
        footer=[Paragraph(f"{named} It needs no network and asks for none.")],
        redacted=comparison.redact,
    )


def direction_of_change(table: pd.DataFrame, sign: int) -> np.ndarray:
    """Return whether a row's interval lies on one side of 0, [n] bool: below for -1, above for +1; no for NaN."""
    limit = table["high"] if sign < 0 else table["low"]
    return np.asarray(sign * limit.to_numpy(dtype=np.float64) > 0)


def comparison_screen(comparison: Comparison) -> FirstScreen:
    """Show how many classes are remembered less or more, how many patients are flagged, and the classes.

    Args:
        comparison: Two runs compared.
    """
    n, groups = len(comparison.per_class), comparison.per_group
    lower, higher = (int(direction_of_change(comparison.per_class, sign).sum()) for sign in (-1, 1))
    answer = (
        f"The second run remembers {count(lower)} of {plural(n, 'class', 'classes')} surely less than the first, "
        f"{count(higher)} surely more."
    )
    unsure = plural(n - lower - higher, "class that both runs scored", "classes that both runs scored")
    rest = f"The data do not show whether the second run remembers more or less of {unsure}: a difference may be there."
    left_out = [f"{OWN_UNITS}."] if comparison.own_units else []
    runs = [f"{run} run: {name}" for run, name in zip(RUNS, comparison.names, strict=True)]
    return FirstScreen(
        kind="note",
        headline="What changed",
        sentences=left_out or ([answer, rest] if n > lower + higher else [answer]),
        lists={"Runs": [] if comparison.redact else runs},
        facts=[
            Fact("Classes compared", count(n)),
            Fact("Patients compared", count(groups["group"].nunique())),
            *(Fact(f"Patients flagged, {run} run", _n_flagged(comparison, run)) for run in RUNS),
        ],
        tables=[_classes(comparison)],
        notes=comparison.notes[len(left_out) :],
    )


def _n_flagged(comparison: Comparison, run: str) -> str:
    """Count the patients of the compared classes that a run flags."""
    if not booleans(comparison.per_class, f"testable_{run}").any():
        return NOT_TESTED
    groups = comparison.per_group
    return count(groups.loc[groups[f"flagged_{run}"], "group"].nunique())


def _glance(table: pd.DataFrame) -> list[Block]:
    """Draw the mean M of each class in either run, with intervals."""
    if not len(table):
        return []
    labels = [str(label) for label in table["label"]]
    series = {f"{run} run": limits_of(table, f"mean_{run}") for run in RUNS}
    spoken = "; ".join(
        f"{label}: {decimal(a)}, then {decimal(b)}"
        for label, a, b in zip(labels, table["mean_first"], table["mean_second"], strict=True)
    )
    return [
        Figure(
            svg=series_plot(labels, series, x_title="Mean M, with 95 % interval"),
            title="Memorization by class, before and after",
            caption="",
            alternative=f"{spoken}.",
        )
    ]


def _difference(comparison: Comparison) -> list[Column]:
    """Return the column of differences of M; none where the runs have units of their own."""
    return [] if comparison.own_units else [estimate("difference", DIFFERENCE, low="low", high="high")]


def _classes(comparison: Comparison) -> Table:
    table = comparison.per_class
    columns = [
        words("label", "Class", row=True),
        *_difference(comparison),
        number("mean_first", "Mean M, first"),
        number("mean_second", "Mean M, second"),
        Column(source="tier_first", heading="Tier, first", tones=TIER_TONES),
        Column(source="tier_second", heading="Tier, second", tones=TIER_TONES),
        words("listed_first", "Flagged, first"),
        words("listed_second", "Flagged, second"),
        number("n_groups", "Patients in both", "count"),
    ]
    for run in RUNS:  # a class that could not be tested has no count, least of all 0
        tested, flagged = table[f"testable_{run}"], table[f"flagged_{run}"]
        flag_counts = [count(n) if t else NOT_TESTED for t, n in zip(tested, flagged, strict=True)]
        table = table.assign(**{f"listed_{run}": flag_counts})
    subtracted = "M is in the unit of its own run" if comparison.own_units else "Second run less first"
    caption = f"{subtracted}, over the patients that both scored; tiers and flags are those of each whole run."
    return Table(frame=table, columns=columns, caption=caption, elsewhere="per_class.parquet")


def _groups(comparison: Comparison) -> list[Block]:
    table = comparison.per_group
    flagged = table["flagged_first"].astype(int) + table["flagged_second"]
    order = flagged if comparison.own_units else table["difference"].abs()
    largest = table.iloc[np.argsort(-order.to_numpy(dtype=np.float64), kind="stable")]
    columns = [
        *([] if comparison.redact else [words("group", "Patient", row=True)]),
        words("label", "Class", row=comparison.redact),
        *_difference(comparison),
        number("M_first", "M, first"),
        number("M_second", "M, second"),
        words("listed_first", "Flagged, first"),
        words("listed_second", "Flagged, second"),
        *(words(f"marked_{run}", f"Marked, {run}") for run in RUNS if f"marked_{run}" in table),
    ]
    of_class = comparison.per_class.set_index("label")
    for run in RUNS:
        tested = of_class[f"testable_{run}"].reindex(largest["label"]).to_numpy(dtype=bool)
        words_of = [
            ("yes" if f else "no") if t else NOT_TESTED for t, f in zip(tested, largest[f"flagged_{run}"], strict=True)
        ]
        largest = largest.assign(**{f"listed_{run}": words_of})
    n, apart = len(table), int(direction_of_change(table, -1).sum() + direction_of_change(table, 1).sum())
    text = (
        f"Intervals are over trainings, one patient at a time: of {count(n)} such intervals about {count(0.05 * n)} "
        f"leave out 0 where nothing changed; {count(apart)} do. Read them as a list to look into, not as findings."
    )
    first = "flagged by both runs" if comparison.own_units else "with the largest differences"
    caption = f"Patients {first} first; M is the mean over a patient's images of the class."
    patient_table = Table(frame=largest, columns=columns, caption=caption, elsewhere="per_group.parquet", most_rows=200)
    return [patient_table] if comparison.own_units else [Paragraph(text), patient_table]


def _attacks(aucs: pd.DataFrame) -> list[Block]:
    titles = [wording.attack_title(a) + (" (control, no attack)" if a == CONTROL else "") for a in aucs["attack"]]
    columns = [
        words("attack", "Attack", row=True),
        *(
            estimate(f"auc_{run}", f"AUC, {run} run [95 % interval]", low=f"low_{run}", high=f"high_{run}")
            for run in RUNS
        ),
    ]
    return [
        Paragraph("Each run's own attacks on its own models; the two columns are not paired."),
        Table(
            frame=aucs.assign(attack=titles), columns=columns, caption="All classes together.", elsewhere="aucs.parquet"
        ),
    ]


def _reading(comparison: Comparison) -> list[Block]:
    differences = (
        "A difference is the second run's M less the first's: below 0 means that less is remembered. Class intervals "
        "count patients and trainings as the units; each holds 95 % by itself, not all of them at once. "
    )
    removed = "Where the second run removed patients, it says nothing of those: they are not in it."
    blocks: list[Block] = [Paragraph(removed if comparison.own_units else differences + removed)]
    if comparison.notes:
        blocks += [
            Paragraph("What could not be compared, and what else differs:"),
            Steps([Name(n) for n in comparison.notes]),
        ]
    return blocks
