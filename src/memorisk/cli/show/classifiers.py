"""Terminal output of classifier audits: verdict, plan, check of images, comparison, explanation."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from memorisk.cli.show.common import STATUS, limits, plain_console, plain_table, print_json, print_reasons, signed
from memorisk.report.numbers import to_json
from memorisk.runs.errors import one_line, plural

if TYPE_CHECKING:  # each command imports its own room; the others stay unloaded
    from rich.table import Table

    from memorisk.audits.classifier.attack_numbers import TargetAudit
    from memorisk.audits.classifier.comparison import Comparison
    from memorisk.audits.classifier.dry_run import DryRun
    from memorisk.audits.classifier.explanations.result import Explanation
    from memorisk.audits.classifier.pages.wording import ResultView
    from memorisk.audits.classifier.result import ClassOutlook, RarestAgainstTop
    from memorisk.images.set_check import ImageCheck
    from memorisk.report.result import Result

MOST_NAMED = 12
"""Largest number of classes that a line names; the others are counted."""


def show_result(result: Result, out: Path, *, as_json: bool) -> None:
    """Show the verdict in a sentence, the class table, and where the report lies."""
    if as_json:
        print_json(result.verdict)
        return
    from memorisk.audits.classifier.pages.wording import ResultView
    from memorisk.report.statements.statement import WAYS

    reading = ResultView.of(result, redact=False)
    summary, verdict = reading.summary, reading.verdict
    console = plain_console()
    console.print(_class_table(result))
    learned = summary.utility is None or summary.utility.beats_guessing is not False
    if summary.rarest_vs_top is not None and learned:  # models that learned nothing show nothing
        console.print(_rarest(summary.rarest_vs_top), soft_wrap=True)
    for sentence in () if summary.intervention is None else summary.intervention.sentences:
        console.print(Text(sentence), soft_wrap=True)
    if summary.target is not None:
        console.print(_target(summary.target, verdict.rule.attack_gate), soft_wrap=True)
    reasons, noticed = verdict.why or ("no reason given",), _noticed(reading)
    why = (*reasons, *noticed) if result.status == "fail" else (*noticed, *reasons)
    print_reasons(console, STATUS[result.status], why, WAYS.get(result.status, ""), verdict.what_would_decide)
    notes = [summary.audited, reading.two_lists(), summary.images.training_sentence]
    if summary.groups_given is False:
        notes.append("No patient ids were given: every image stands for itself (--group-from, --group-column).")
    for note in filter(None, notes):
        console.print(Text(f"Note: {note}"), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def _noticed(reading: ResultView) -> list[str]:
    """Return what the audit would have noticed of one patient; nothing of a pass, which has it as a reason."""
    if reading.status == "pass":
        return []
    from memorisk.audits.classifier.pages.wording import UNFLAGGED
    from memorisk.statistics.verdicts.class_reasons import power_sentence

    sentences, units, gap = [], reading.summary.units, reading.summary.noticeable
    if gap is not None:
        label = one_line(gap.label, 40)
        text = power_sentence(gap.gap_nats, gap.simulated, units, label, gap.stratum, gap.strata)
        sentences.append(f"{UNFLAGGED.format(unit=units.one)}{text}" if reading.status == "fail" else text)
    if untested := reading.untestable()["label"].tolist():
        named = ", ".join(one_line(label, 40) for label in untested[:MOST_NAMED])
        more = f" and {len(untested) - MOST_NAMED} more" if len(untested) > MOST_NAMED else ""
        classes = plural(len(untested), "class", "classes")
        sentences.append(f"a single {units.one} can go unnoticed in {classes}: {named}{more}")
    return sentences


def _class_table(result: Result) -> Table:
    headings = ("class", "images", "share", "scored", "mean M", "95 % interval", "flagged", "tier")
    table = plain_table(headings, left=["tier"])
    from memorisk.audits.classifier.evidence import flagged_counts

    table_of_classes = result.per_class.assign(flagged=flagged_counts(result.per_class))
    for row in table_of_classes.sort_values("frequency", kind="stable").to_dict("records"):
        flagged = "not tested" if row["flagged"] != row["flagged"] else f"{row['flagged']:.0f}"
        table.add_row(
            _cell(row["label"]),
            str(row["n"]),
            f"{row['frequency']:.1%}",
            str(row["n_scored"]),
            signed(row["mean"]),
            limits(row["low"], row["high"]),
            flagged,
            str(row["tier"]),
        )
    return table


def _cell(label: str) -> Text:
    """Return a label whatever its characters."""
    return Text(one_line(label, 120))


def _target(target: TargetAudit, gate: float | None) -> Text:
    """Print what each attack finds in the model that is to be released; its AUC is compared with the gate."""
    from memorisk.statistics.verdicts.tiers import format_against_gates

    def written(value: float) -> str:
        return "unknown" if isnan(value) else format_against_gates(value, *([] if gate is None else [gate]))

    aucs = ", ".join(
        f"{name.replace('_', ' ')} {written(a.auc.estimate)} ({written(a.auc.low)} to {written(a.auc.high)})"
        for name, a in target.attacks.items()
    )
    return Text(f"Attacks on the very model, AUC (95 % interval), 0.5 is a coin: {aucs}")


def _rarest(contrast: RarestAgainstTop) -> Text:
    rarest, top = one_line(contrast.label_rarest, 40), one_line(contrast.label_top, 40)
    if contrast.too_rare:
        return Text(
            f"The rarest class ({rarest}, n = {contrast.n_rarest}) has too few images to be compared with others."
        )
    if rarest == top:
        start = f"The rarest class ({rarest}, n = {contrast.n_rarest}) has the largest mean M too"
        if isnan(contrast.difference_most_frequent_nats):
            return Text(f"{start}.")
        low, high = contrast.low_most_frequent_nats, contrast.high_most_frequent_nats
        return Text(
            f"{start}: {signed(contrast.difference_most_frequent_nats)} more than the most frequent "
            f"({one_line(contrast.label_most_frequent, 40)}, n = {contrast.n_most_frequent}), 95 % interval "
            f"{limits(low, high)}{'.' if low > 0 else ', which chance may explain.'}"
        )
    return Text(
        f"The rarest class ({rarest}, n = {contrast.n_rarest}, M {signed(contrast.mean_rarest_nats)}) is not the most "
        f"memorized ({top}, n = {contrast.n_top}, M {signed(contrast.mean_top_nats)}): difference "
        f"{signed(contrast.difference_nats)}, 95 % interval {limits(contrast.low_nats, contrast.high_nats)}"
        f"{'.' if contrast.low_nats > 0 else ', which chance may explain.'}"
    )


def show_dry_run(plan: DryRun, *, as_json: bool) -> None:
    """Show the plan and its cost."""
    if as_json:
        print_json(to_json(plan) | {"cost": plan.cost.as_json()})
        return
    console = plain_console()
    console.print(Text(plan.models), soft_wrap=True)
    console.print(Text(f"design {plan.design}, seeds {', '.join(map(str, plan.seeds))}"), soft_wrap=True)
    console.print(Text(f"network {one_line(plan.network, 120)}"), soft_wrap=True)
    for name, number in plan.parts.items():
        console.print(Text(f"{number:>14,} images in {name}"))
    own = plan.cost.steps is None  # the user's training, whose steps memorisk does not see
    cost = replace(plan.cost, steps=0, images_trained=0) if own else plan.cost
    for line in cost.lines():
        console.print(Text(line))
    if plan.bytes_until_the_end:
        console.print(Text(f"{plan.bytes_until_the_end:>14,} bytes of changed images, until the end"))
    counts = ("images", "groups scored", "groups in the\ntest part", "shortest list,\nif it alone has one")
    answer = "could anybody\nbe flagged?"
    table = plain_table(("class", *counts, answer), left=[answer])
    for row in plan.classes:
        shortest = row.smallest_list
        table.add_row(
            _cell(row.label),
            str(row.n_images),
            str(row.n_groups_scored),
            str(row.n_test_groups),
            "none" if isnan(shortest) else f"{shortest:.0f}",
            _could(row),
        )
    console.print(table)
    if plan.gap:
        console.print(Text(plan.gap), soft_wrap=True)
    if any(row.smallest_list > row.n_groups_scored for row in plan.classes):
        hint = "Where no list is as short as the class is large, more --models make one possible."
        console.print(Text(hint), soft_wrap=True)
    if alone := plan.without_partner.n_groups:
        text = "have no partner in this run: not scored, so that the audit cannot pass."
        console.print(Text(f"{alone:,} groups ({plan.without_partner.n_images:,} images) {text}"), soft_wrap=True)
    if plan.not_auditable:
        names = ", ".join(one_line(n, 40) for n in plan.not_auditable)
        console.print(Text(f"too small to be audited: {names}"), soft_wrap=True)
    for note in (*plan.notes, *plan.advice):
        console.print(Text(f"note: {note}"), soft_wrap=True)


def _could(row: ClassOutlook) -> str:
    """Return whether a class could have a list; the reason where it is another than its length."""
    if row.testable:
        return "yes"
    return "no" if row.smallest_list > row.n_groups_scored else f"no: {one_line(row.why_not)}"


def show_check(check: ImageCheck, out: Path | None, *, as_json: bool, redact: bool) -> None:
    """Print all findings of `images check`, or their numbers alone where names are redacted."""
    if redact:
        doubts = tuple(doubt.without_ids for doubt in check.id_doubts)
        check = replace(check, name="[redacted]", notes=(), id_doubts=doubts)
    if as_json:
        print_json(check.summary() if redact else check.to_dict())
        return
    from memorisk.images.set_check_text import render_text

    text = render_text(check, **({"shown": 0} if redact else {}))
    plain_console().print(Text("\n".join(text)), soft_wrap=True)
    if out is not None:
        plain_console().print(Text(f"Page: {out / 'report.html'}"), soft_wrap=True)


def show_comparison(comparison: Comparison, out: Path | None, *, as_json: bool) -> None:
    """Show class by class: before, after, difference with its interval."""
    if as_json:
        print_json({"per_class": comparison.per_class.to_dict("records"), "notes": comparison.notes})
        return
    console = plain_console()
    table = plain_table(("class", "groups", "first", "second", "difference", "95 % interval", "flagged"))
    for row in comparison.per_class.to_dict("records"):
        table.add_row(
            _cell(row["label"]),
            str(row["n_groups"]),
            signed(row["mean_first"]),
            signed(row["mean_second"]),
            signed(row["difference"]),
            limits(row["low"], row["high"]),
            " -> ".join(
                str(row[f"flagged_{n}"]) if row[f"testable_{n}"] else "not tested" for n in ("first", "second")
            ),
        )
    console.print(table)
    for note in comparison.notes:
        console.print(Text(note), soft_wrap=True)
    if out is not None:
        console.print(Text(f"Tables: {out}"), soft_wrap=True)


def show_explanation(explanation: Explanation, out: Path, *, as_json: bool) -> None:
    """Show rho of the ratio within classes by feature space, the probes in a sentence, and the page's place."""
    if as_json:
        print_json(explanation.as_json())
        return
    from memorisk.audits.classifier.explanations.page import probe_sentence

    console = plain_console()
    numbers = ("rho within classes", "95 % interval", "p", "rho raw", "groups")
    table = plain_table(("features", "score", *numbers), left=["score"])
    for row in explanation.associations.to_dict("records"):
        if row["form"] == "pairwise":
            table.add_row(
                _cell(row["features"]),
                _cell(row["score"]),
                signed(row["rho_residual"], 3),
                limits(row["low_residual"], row["high_residual"], 3),
                "unknown" if row["p"] != row["p"] else f"{row['p']:.4f}",
                signed(row["rho"], 3),
                str(row["n_groups"]),
            )
    console.print(table)
    if explanation.layers is not None:
        console.print(Text(probe_sentence(explanation.layers)), soft_wrap=True)
    for note in explanation.summary.notes:
        console.print(Text(note), soft_wrap=True)
    console.print(Text(f"Page: {out / 'explain.html'}"), soft_wrap=True)
