"""Lay out training regimes: what each remembers, is good for, promises of privacy, and is proved to leak.

`defence_page` sets several regimes side by side. `privacy_section` is the section of one audit's report on its
regime: the promise, and the lower bound that was proved of it.
"""

from math import isfinite

import numpy as np
import pandas as pd

from memorisk.audits.arms import REGIMES
from memorisk.audits.classifier.pages.result_view import ResultView
from memorisk.audits.classifier.result import ClassifierSummary, ClassifierVerdict, DefenceResult, PrivacyPromise
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Fact,
    Facts,
    Figure,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Strong,
    Table,
    Text,
    estimate,
    number,
    words,
)
from memorisk.report.columns import count
from memorisk.report.figures.intervals import tradeoff_plot
from memorisk.report.first_screen import FirstScreen
from memorisk.report.flagged import NOT_TESTED
from memorisk.report.result import Result
from memorisk.statistics.privacy.measured_epsilon import EpsilonBound


def defence_page(result: DefenceResult) -> Page:
    """Lay out the comparison of regimes.

    Args:
        result: Result of ``audits.classifier.retraining.defences.audit_defences``.
    """
    table = result.table
    return Page(
        title="Defences compared",
        subtitle="The same audit under each way of training",
        lead=defence_screen(result).blocks(),
        sections=[
            Section("What is remembered, and at what price", _tradeoff(table, result.results), "tradeoff"),
            Section("What is promised, and what is proved", _privacy(result), "privacy"),
            Section("How to read this", _reading_guide(result), "reading"),
        ],
        footer=[Paragraph("Each regime's own report lies in the folder of its name.")],
    )


def defence_screen(result: DefenceResult) -> FirstScreen:
    """Show how many regimes passed, which learned nothing, and what each remembers, costs and promises.

    Args:
        result: Several regimes side by side.
    """
    table, reference = result.table, ClassifierSummary.read(result.results[result.reference].summary)
    passed = table.loc[table["status"] == "pass", "regime"].tolist()
    ready = f" ({', '.join(passed)})." if passed else "; none of these models is ready for release as it is."
    sentences = [f"Of {len(table)} regimes {len(passed)} passed the gate{ready}"]
    sentences += idle_sentences(table, "regime", "its low M is not a success of the defence")
    deltas = sorted({f"{d:g}" for d in table["delta"].dropna()})
    ids = (
        ("given", "") if reference.groups_given is not False else ("not given", "each image counts as its own patient")
    )
    return FirstScreen(
        kind="note",
        headline="What the regimes do",
        sentences=sentences,
        facts=[
            Fact("Data set", reference.dataset or "unnamed"),
            Fact("Network", reference.models.model),
            Fact("Models a regime", count(table["n_models"].iloc[0])),
            Fact("Unseen patients", count(table["n_test_groups"].iloc[0])),
            Fact("Patient ids", *ids),
            *([Fact("Delta", ", ".join(deltas))] if deltas else []),
        ],
        tables=[_tradeoff_table(table), _epsilon_table(table)],
    )


def idle_sentences(table: pd.DataFrame, arm: str, consequence: str) -> list[str]:
    """Name the arms that learned nothing, in a sentence or none.

    Args:
        table: One row per arm.
        arm: Column with the name of the arm.
        consequence: End of the sentence, on M.
    """
    idle = table.loc[~(table["gain_low"] > 0), arm].tolist()
    if not idle:
        return []
    return [
        f"Not surely better than always answering the commonest class: {', '.join(idle)}. A model that learned "
        f"nothing remembers nothing: {consequence}."
    ]


def reason_steps(results: dict[str, Result]) -> list[Block]:
    """List the first reason of each verdict.

    Args:
        results: Audits by the name of their arm.
    """
    first = {name: (*ClassifierVerdict.read(r.verdict).why, "no reason given")[0] for name, r in results.items()}
    lines: list[Text] = [[Strong(n), f", {results[n].status}: ", Name(why)] for n, why in first.items()]
    return [Details("Why each verdict", [Steps(lines)])]


def _tradeoff_table(table: pd.DataFrame) -> Table:
    columns = [
        words("regime", "Regime", row=True),
        words("status", "Verdict"),
        measurement("accuracy", "Accuracy, unseen"),
        number("majority", "Majority class"),
        measurement("gain", "Gain over majority"),
        measurement("balanced", "Balanced accuracy"),
        measurement("mean_m", "Mean M"),
        words("worst_class", "Worst class"),
        measurement("worst_m", "M, worst class"),
        number("flagged", "Flagged", "count", missing=NOT_TESTED),
        number("noticeable_gap", "Noticeable gap", "short", missing="none"),
    ]
    return Table(frame=table, columns=columns, caption="Intervals are 95 %.", elsewhere=REGIMES.table)


def _tradeoff(table: pd.DataFrame, results: dict[str, Result]) -> list[Block]:
    same = [
        words("regime", "Regime", row=True),
        words("reference_class", "Class"),
        measurement("reference_m", "its M here"),
        measurement("change", "Change from the first regime"),
        number("change_percent", "Percent (paper's column)"),
    ]
    return [
        tradeoff_figure(table, "regime"),
        _tradeoff_table(table),
        *reason_steps(results),
        Paragraph(
            "The worst class is the largest of several means and differs from regime to regime, so that comparing "
            "worst with worst flatters the defence. Below, one class is followed: the worst of the first regime."
        ),
        Table(frame=table, columns=same, caption="The first regime's worst class under each.", elsewhere=REGIMES.table),
    ]


def tradeoff_figure(table: pd.DataFrame, arm: str) -> Figure:
    """Draw the accuracy of each arm against what it remembers.

    Args:
        table: One row per arm.
        arm: Column with the name of the arm.
    """
    return Figure(
        svg=tradeoff_plot(
            table[arm].tolist(), _limits(table, "accuracy"), _limits(table, "mean_m"), table["majority"].iloc[0]
        ),
        title=f"What each {arm} costs and saves",
        caption="Accuracy on unseen images against mean M, each with its 95 % interval; right and low is good.",
        alternative=f"Each {arm}'s accuracy on unseen images against what it remembers; the table has the numbers.",
    )


def _epsilon_table(table: pd.DataFrame) -> Table:
    columns = [
        words("regime", "Regime", row=True),
        number("epsilon", "Epsilon, image added or removed"),
        number("replace_one_epsilon", "Image replaced"),
        number("per_patient_epsilon", "All images of a patient"),
        number("largest_group", "Most images of one", "count"),
        number("bound", "Proved, image replaced: at least"),
        number("bound_largest", "Most these pairs could prove"),
        number("bound_pairs", "Pairs", "count"),
    ]
    caption = "Epsilon at delta; empty where nothing is promised or measured."
    return Table(frame=table, columns=columns, caption=caption)


def _privacy(result: DefenceResult) -> list[Block]:
    table = result.table
    broken = table.loc[table["bound"] > table["replace_one_epsilon"], "regime"].tolist()
    blocks: list[Block] = []
    if ClassifierSummary.read(result.results[result.reference].summary).groups_given is False and bool(
        np.isfinite(table["epsilon"].to_numpy(dtype=float)).any()
    ):
        text = (
            "The data do not say whose each image is: a patient with several images has no promise of these epsilons."
        )
        blocks.append(Callout("warning", "No promise to a patient", [Paragraph(text)]))
    if broken:
        text = f"The measured lower bound exceeds the promise of {', '.join(broken)}: something breaks it."
        blocks.append(Callout("fail", "A promise is broken", [Paragraph(text)]))
    blocks += [
        Paragraph(
            "The promise is an upper limit by proof, the bound a lower limit by measurement (95 %, one training on "
            "mislabelled images): the truth lies between. A bound of 0 shows no leak, and no safety either."
        ),
        _epsilon_table(table),
    ]
    return blocks


def _limits(table: pd.DataFrame, name: str) -> tuple:
    return tuple(table[f"{name}{end}"].to_numpy(dtype=float) for end in ("", "_low", "_high"))


def measurement(name: str, heading: str) -> Column:
    """Return a column of an estimate with its limits.

    Args:
        name: Column of the table.
        heading: Heading of the column.
    """
    return estimate(name, heading, low=f"{name}_low", high=f"{name}_high")


def _reading_guide(result: DefenceResult) -> list[Block]:
    return [
        Steps(
            [
                "Every regime trains the same twins on the same halves; M is the loss gap, as in each regime's report.",
                "Accuracy is over images that no model saw, averaged over the models; its interval is over patients "
                "and models. The published 98.8 % and 100 % look like accuracies on members.",
                "Twins of a private regime share sampled slots and never noise: shared noise would cancel in the gap.",
                f"Changes are against {result.reference}, over the patients that both scored, with patients and seeds "
                "as units; each interval holds 95 % by itself, not all of them at once.",
                "Epsilon covers the weights that were trained; the choice of settings, the number of images and pixel "
                "statistics of the data set are taken as public.",
            ]
        )
    ]


_REGIMES = {
    "full": "Every weight was trained, without differential privacy.",
    "lora": "Low-rank adapters of the attention and the head were trained, without differential privacy.",
    "dp-lora": "Low-rank adapters of the attention and the head were trained under differential privacy.",
    "dp-full": "Every weight that belongs to a layer was trained under differential privacy.",
}


def privacy_section(reading: ResultView) -> list[Section]:
    """Lay out the section; none for a plain training whose epsilon was not measured."""
    privacy = reading.summary.privacy
    if privacy is None or (privacy.regime == "full" and privacy.bound is None):
        return []
    blocks: list[Block] = [Paragraph(_REGIMES.get(privacy.regime, privacy.regime))]
    if privacy.promise is not None:
        blocks += _promise(privacy.promise)
    if privacy.bound is not None:
        blocks += _bound(privacy.bound)
    return [Section("What is promised of privacy, and what was proved", blocks, "privacy")]


def _promise(promise: PrivacyPromise) -> list[Block]:
    with_patients = promise.patients_known
    whose = f"All images of a patient (at most {count(promise.largest_group or 0)})"
    facts = [
        Fact("Epsilon, one image added or removed", _number(promise.epsilon)),
        Fact("One image replaced", _number(promise.replace_one_epsilon)),
        Fact(
            whose if with_patients else "All images of a patient",
            _number(promise.per_patient_epsilon) if with_patients else "not known: no patient ids",
        ),
        Fact("Delta", f"{promise.delta:g}"),
        Fact("Noise, in clipping norms", _number(promise.noise_multiplier)),
        Fact(
            "Steps, each with this share of the images",
            f"{count(promise.steps)}, {100 * promise.sampling_rate:.2g} %",
        ),
    ]
    return [
        Facts(facts),
        Paragraph(
            "The smaller epsilon, the less one image can change what the model does: the odds of any outcome change by "
            "a factor of at most e to the epsilon. It covers the trained weights, not the choice of settings, the "
            "number of images or pixel statistics of the data set. The models of this audit drew their noise from "
            "seeds, so that the audit can be repeated: they are not for release."
        ),
    ]


def _bound(bound: EpsilonBound) -> list[Block]:
    pairs, correct = count(bound.r), count(bound.correct)
    blocks: list[Block] = [
        Paragraph(
            f"One more model was trained on one member of each of {pairs} pairs of mislabelled images. An auditor who "
            f"sees its losses named the right one {correct} times. So replace-one epsilon is at least "
            f"{_number(bound.low)} (95 %); {pairs} pairs cannot prove more than "
            f"{_number(bound.largest_provable)}. A bound of 0 shows no leak, and no safety either."
        )
    ]
    if bound.exceeds_claim:
        text = f"The measured bound exceeds the promised {_number(bound.claimed)}: something breaks the promise."
        blocks.append(Callout("fail", "A promise is broken", [Paragraph(text)]))
    return blocks


def _number(value: float | None) -> str:
    return "unbounded" if value is None or not isfinite(value) else f"{value:.3g}"
