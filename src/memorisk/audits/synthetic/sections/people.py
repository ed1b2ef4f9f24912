"""Section of the synthetic report on subgroups of the training patients, by columns of their table."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from memorisk.audits.subgroups import SUBGROUPS, subgroup_answer, subgroup_name
from memorisk.audits.synthetic.result import SyntheticNumbers
from memorisk.report.blocks import Column, Paragraph, Section, Table, number, words
from memorisk.report.columns import column_numbers, rows
from memorisk.report.result import Result
from memorisk.statistics.verdicts.levels import POWER, share_words

_UNIT = "percentage points"


def subgroup_section(result: Result, n: SyntheticNumbers) -> list[Section]:
    """Lay out the levels of each column; no section without columns.

    Args:
        result: Result of the audit.
        n: Its numbers.
    """
    table, terms = result.tables.get(SUBGROUPS), n.terms
    if table is None or not len(table):
        return []
    within_class = bool(column_numbers(table, "n_classes").max() > 1)
    names = zip(table["column"], table["level"], strict=True)
    named = table.assign(subgroup=[subgroup_name(*both) for both in names])

    def higher(row: Mapping[str, Any]) -> tuple[str, str]:
        """Say of a level that it is copied more."""
        of = f"{int(row['n_copied']):,} of {int(row['n_patients']):,} training {terms.units} with "
        return of, f" are copied, a share that is {_points(row['difference'])} {_UNIT} above that of others"

    numbered = rows(named, ~np.isnan(column_numbers(named, "share")))
    columns = [
        words("subgroup", "Subgroup", row=True),
        number("n_patients", f"Training {terms.units}", "count"),
        number("n_copied", "Copied", "count"),
        Column(
            source="difference",
            heading="Difference from others [95 %]",
            format="percent",
            interval=("difference_low", "difference_high"),
        ),
        Column(source="share", heading="Share copied [95 %]", format="percent", interval=("share_low", "share_high")),
        number("adjusted", "p, corrected", "probability"),
        number("noticeable", "Noticeable difference", "percent"),
    ]
    unseen = (
        "" if n.sets.held is not None else " Without held-out images no list is possible, so that fewer are flagged."
    )
    others = f"other {terms.units} of the same class" if within_class else f"other {terms.units}"
    caption = (
        f"Subgroups of the training {terms.units}. Copied: a generated image is flagged as a copy of {terms.of_one} "
        f"(review.csv), and no person dismissed the pair.{unseen} Difference: share copied less that of the {others}, "
        f"in {_UNIT}. Noticeable difference: the smallest that would have been called surely higher in "
        f"{share_words(POWER)}."
    )
    levels = Table(
        frame=named, columns=columns, caption=caption, visible_rows=40, elsewhere=f"tables/{SUBGROUPS}.parquet"
    )
    return [
        Section(
            "Is one subgroup copied more?",
            [
                Paragraph(subgroup_answer(numbered, terms.units, higher, _points, _UNIT, within_class=within_class)),
                levels,
            ],
            "subgroups",
        )
    ]


def _points(share: float) -> str:
    """Write a difference of two shares, in `_UNIT`."""
    return f"{100 * share:.1f}"
