"""Lay out networks side by side: does a larger one expose more?

Each measure is compared with that of the smallest network, over the same patients, halves and seeds.
"""

from math import isnan
from typing import Any

import pandas as pd

from memorisk.audits.arms import NETWORKS
from memorisk.audits.classifier.pages.defences import idle_sentences, measurement, reason_steps, tradeoff_figure
from memorisk.audits.classifier.result import ClassifierSummary, DefenceResult
from memorisk.report.blocks import Block, Column, Fact, Page, Paragraph, Section, Steps, Table, number, words
from memorisk.report.columns import column_numbers, count, decimal, percent, rows
from memorisk.report.first_screen import FirstScreen
from memorisk.report.flagged import NOT_TESTED
from memorisk.statistics.memorization.patient_auc import SURE_AUC
from memorisk.statistics.verdicts.units import UnitNames


def network_page(result: DefenceResult) -> Page:
    """Lay out the comparison of networks.

    Args:
        result: Result of ``audits.classifier.retraining.defences.audit_defences`` with several networks.
    """
    units = _units(result)
    return Page(
        title="Networks compared",
        subtitle="The same audit of each network",
        lead=network_screen(result).blocks(),
        sections=[
            Section("Does a larger network expose more?", _exposure(result), "exposure"),
            Section("How to read this", [_guide(result.reference, units)], "reading"),
        ],
        footer=[Paragraph("Each network's own report lies in the folder of its name.")],
    )


def network_screen(result: DefenceResult) -> FirstScreen:
    """Answer whether a larger network exposes more, by each measure.

    Args:
        result: Several networks side by side, the smallest first.
    """
    table, first, units = result.table, ClassifierSummary.read(result.results[result.reference].summary), _units(result)
    passed = table.loc[table["status"] == "pass", "network"].tolist()
    ready = f" ({', '.join(passed)})" if passed else ""
    return FirstScreen(
        kind="note",
        headline=_headline(table),
        sentences=[
            *_answers(result),
            *idle_sentences(table, "network", "its low M is not owed to its size"),
            f"Of {len(table)} networks {len(passed)} passed the gate{ready}.",
        ],
        facts=[
            Fact("Data set", first.dataset or "unnamed"),
            Fact("Models of each network", count(table["n_models"].iloc[0])),
            Fact(f"Unseen {units.many}", count(table["n_test_groups"].iloc[0])),
        ],
        tables=[_network_table(table), _difference_table(result)],
    )


def _headline(table: pd.DataFrame) -> str:
    """Say in how many networks the mean gap is surely larger than in the smallest."""
    size = column_numbers(table, "parameters")
    larger = rows(table, size > size[0])
    n = len(larger)
    more, less = column_numbers(larger, "m_difference_low") > 0, column_numbers(larger, "m_difference_high") < 0
    if not n:
        return "The networks are of one size"
    if n == 1:
        return f"The larger network remembers {'more' if more.any() else 'less' if less.any() else _UNSURE}"
    return f"Of {n} larger networks {more.sum()} surely remember more than the smallest, and {less.sum()} surely less"


def _answers(result: DefenceResult) -> list[str]:
    """Compare each network with the smallest, a sentence for each measure."""
    units, networks = _units(result), result.table.to_dict("records")
    before = networks[0]
    name = f"{before['network']} ({count(before['parameters'])} parameters)"
    sentences = []
    for row in networks[1:]:
        sentences.append(_by_m(row, name))
        sentences += [_by_share(row, before, measure, what, units) for measure, what in _MEASURES.items()]
    return sentences


_UNSURE = "neither surely more nor surely less"
_MEASURES = {"flagged": "are flagged", "sure": f"reach an attack AUC of {SURE_AUC}"}
"""Shares of patients, as the end of a sentence."""


def _by_m(row: dict[Any, Any], reference: str) -> str:
    """Compare mean M."""
    value, low, high = (row[f"m_difference{end}"] for end in ("", "_low", "_high"))
    own = f"{row['network']} ({count(row['parameters'])} parameters)"
    if isnan(low):
        return f"Of {own} no difference from {reference} could be computed."
    direction = "above" if value >= 0 else "below"
    sure = "surely " if low > 0 or high < 0 else "not surely "
    return (
        f"The mean M of {own} is {sure}{direction} that of {reference}: the difference is {decimal(value)} nats "
        f"({decimal(low)} to {decimal(high)})."
    )


def _by_share(row: dict[Any, Any], before: dict[Any, Any], measure: str, what: str, units: UnitNames) -> str:
    """Compare a share of patients."""
    own, others = row[f"{measure}_share"], before[f"{measure}_share"]
    if isnan(own) or isnan(others):
        untested = row["network"] if isnan(own) else before["network"]
        return f"Under {untested} it was not tested which {units.many} {what}, so that the shares do not compare."
    low, high = row[f"{measure}_difference_low"], row[f"{measure}_difference_high"]
    sure = "The difference is sure" if low > 0 or high < 0 else "The difference is not sure"
    by_chance = [f" (by chance {percent(of['sure_chance'])})" if measure == "sure" else "" for of in (row, before)]
    return (
        f"{percent(own)} of {units.many} {what} under {row['network']}{by_chance[0]}, and {percent(others)} under "
        f"{before['network']}{by_chance[1]}. {sure}: {percent(low)} to {percent(high)}, over the same {units.many}."
    )


def _exposure(result: DefenceResult) -> list[Block]:
    """Show the answers, accuracy against mean M, and both tables."""
    return [
        *(Paragraph(sentence) for sentence in _answers(result)),
        *map(Paragraph, idle_sentences(result.table, "network", "its low M is not owed to its size")),
        tradeoff_figure(result.table, "network"),
        _network_table(result.table),
        _difference_table(result),
        *reason_steps(result.results),
    ]


def _network_table(table: pd.DataFrame) -> Table:
    columns = [
        words("network", "Network", row=True),
        number("parameters", "Parameters", "count"),
        words("status", "Verdict"),
        measurement("accuracy", "Accuracy, unseen"),
        measurement("mean_m", "Mean M"),
        _share("flagged_share", "Flagged"),
        _share("sure_share", f"AUC {SURE_AUC} and above"),
        number("sure_chance", "By chance", "percent"),
        number("noticeable_gap", "Noticeable gap", "short", missing="none"),
    ]
    return Table(frame=table, columns=columns, caption="Each network. Intervals are 95 %.", elsewhere=NETWORKS.table)


def _difference_table(result: DefenceResult) -> Table:
    columns = [
        words("network", "Network", row=True),
        measurement("m_difference", "Mean M"),
        _share("flagged_difference", "Share flagged"),
        _share("sure_difference", f"Share with AUC {SURE_AUC} and above"),
    ]
    others = rows(result.table, result.table["network"].to_numpy() != result.reference)
    return Table(
        frame=others,
        columns=columns,
        caption=f"Difference from {result.reference}, of the same {_units(result).many}. The 95 % intervals of each "
        "column hold for all networks together.",
        elsewhere=NETWORKS.table,
    )


def _share(name: str, heading: str) -> Column:
    return Column(
        source=name, heading=heading, format="percent", interval=(f"{name}_low", f"{name}_high"), missing=NOT_TESTED
    )


def _units(result: DefenceResult) -> UnitNames:
    return ClassifierSummary.read(result.results[result.reference].summary).units


def _guide(reference: str, units: UnitNames) -> Block:
    return Steps(
        [
            "Every network trains on the same parts and halves with the same seeds; M is the loss gap, as in each "
            "network's report.",
            f"Differences are against {reference}, the network with the fewest parameters. Those of mean M have "
            f"{units.many} and seeds as units. Those of shares are exact over the {units.many} that differ (McNemar), "
            "and speak of these trainings.",
            f"A share of {units.many} reaches an attack AUC of {SURE_AUC} by chance, from all exchanges of the two "
            "models of each pair. It is computed for each network, since it depends on how much the losses differ "
            "between trainings.",
            "Networks differ in more than size: in layers, learning rate, and in how well they fit in these epochs. A "
            "network that learned nothing remembers nothing, so that accuracy belongs to every comparison.",
        ]
    )
