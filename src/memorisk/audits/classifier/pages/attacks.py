"""Lay out the sections of the classifier report on attacks: on the audited models, and on the very model."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_numbers import ALL, Agreement, Agreements, AttackNumbers, Replication
from memorisk.audits.classifier.pages import wording
from memorisk.audits.classifier.pages.memorization import with_interval
from memorisk.audits.classifier.pages.result_view import ResultView, settings
from memorisk.audits.classifier.reasons import control_words
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Definitions,
    Details,
    Figure,
    Inline,
    Name,
    Paragraph,
    Strong,
    Table,
    number,
    words,
)
from memorisk.report.columns import (
    booleans,
    column_numbers,
    column_texts,
    decimal,
    is_missing,
    largest_first,
    percent,
    rows,
)
from memorisk.report.figures import memorization as figures
from memorisk.report.numbers import to_json, to_row
from memorisk.statistics.verdicts.levels import ATTACK_GATE
from memorisk.statistics.verdicts.scales import LossScale

_EXPLAINED = "Share of the noise in the images it was trained on that it explains"
_BASE = "Base of the LoRA"
_GUIDANCE = "Scale of classifier-free guidance of the loss with guidance"


def attack_section(reading: ResultView) -> list[Block]:
    """Lay out the attacks' AUC and rates, the control apart, and the ROC curves."""
    table = reading.result.attacks
    if not len(table) or "attack" not in table:
        return [Paragraph("No attack was run.")]
    control = booleans(table, "control")
    named = table.assign(
        attack=[attack_title(a, c) for a, c in zip(column_texts(table, "attack"), control, strict=True)]
    )
    whole = np.array([label in ("", ALL) for label in column_texts(table, "label")])
    overall = pd.concat([largest_first(rows(named, whole & m), "auc") for m in (~control, control)])
    blocks: list[Block] = [
        Paragraph(
            f"An attacker tries to tell from the model's {reading.scale.outputs} who was in its training data. AUC 0.5 "
            "is guessing, 1 is always right. An attacker who must be sure works at a low false positive rate, so that "
            "the left end of the curves counts."
        ),
        *_control(rows(named, whole & control)),
        _attack_table(
            overall,
            "Attacks over all classes, most successful first; the control last. "
            f"{_interval_words(overall, reading.units)}",
            reading,
            label=False,
        ),
        Paragraph(_rates_words(overall, reading.units)),
        *_roc_figure(reading, overall),
    ]
    noted = [
        (a, Name(n)) for a, n in zip(column_texts(overall, "attack"), column_texts(overall, "note"), strict=True) if n
    ]
    if noted:
        blocks.append(Details("Notes on the attacks", [Definitions(noted, compact=True)], printed=False))
    if not whole.all():
        title = "Attacks, class by class"
        each = _attack_table(rows(named, ~whole), f"{title}.", reading, label=True)
        blocks.append(Details(title, [each], printed=False))
    if explained := wording.explained_attacks(column_texts(table, "attack"), reading.scale):
        blocks.append(Details("What each attack does", [Definitions(explained)]))
    return [*blocks, *_agreement(reading.summary.agreement, reading.scale)]


def attack_title(attack: str, control: bool = False) -> str:
    """Return an attack's title, a control marked as such."""
    return wording.attack_title(attack) + (" (control)" if control else "")


def _gates(reading: ResultView) -> tuple[float, ...]:
    """List what AUCs are compared with: guessing, and the gate of the verdict."""
    gate = reading.verdict.rule.attack_gate
    return (0.5, ATTACK_GATE if gate is None else gate)


def _attack_table(frame: pd.DataFrame, caption: str, reading: ResultView, *, label: bool) -> Table:
    unknown, gates = "not measurable", _gates(reading)
    columns = [
        *([words("label", "Class", row=True)] if label else []),
        words("attack", "Attack", row=not label),
        words("access", "Needs of the model"),
        Column(source="auc", heading="AUC [95 % interval]", format="decimal", interval=("low", "high"), gates=gates),
        Column(
            source="tpr_at_1pct",
            heading="Found at 1 % false positives",
            format="percent",
            missing=unknown,
            interval=("tpr_low", "tpr_high") if "tpr_low" in frame else None,
        ),
        number("tpr_at_01pct", "Found at 0.1 %", "percent", missing=unknown),
        number("auc_rounded", "AUC, two decimals given"),
        number("auc_label_alone", "AUC, label alone given"),
        *([number("balanced_accuracy", "Balanced accuracy", "percent")] if reading.scale.of_answers else []),
        number("n_members", "Members", "count"),
        number("n_non_members", "Non-members", "count"),
    ]
    return Table(
        frame=frame,
        columns=[
            c
            for c in columns
            if c.source in frame
            and not (c.source.startswith(("tpr_", "auc_")) and _are_all_missing(frame, c.source))
            and not (c.source == "access" and not any(column_texts(frame, c.source)))
        ],
        caption=caption,
        elsewhere="attacks.parquet",
        visible_rows=40,
    )


def _interval_words(overall: pd.DataFrame, units: str) -> str:
    """Say whether the intervals are about these models, or about models trained alike."""
    if "n_models" not in overall or "conditional" not in overall or not len(overall):
        return ""
    if booleans(overall, "conditional").all():
        return f"Intervals: over {units}, for these models."
    models = int(np.nanmax(column_numbers(overall, "n_models")))
    return f"Intervals: over {units} and {models} attacked models, so that they speak of models trained again, too."


def _rates_words(overall: pd.DataFrame, units: str) -> str:
    """Say how many non-members a rate at few false positives takes, and which of the two rates no row has."""
    takes = f"a rate of 1 % takes at least 1,000 {units} that are not members, one of 0.1 % takes 10,000."
    absent = [
        of for column, of in (("tpr_at_1pct", "1 %"), ("tpr_at_01pct", "0.1 %")) if _are_all_missing(overall, column)
    ]
    if not absent:
        return f"Not measurable: {takes}"
    return f"What is found at {' or '.join(absent)} false positives cannot be measured here: {takes}"


def _are_all_missing(frame: pd.DataFrame, column: str) -> bool:
    return column in frame and bool(np.isnan(column_numbers(frame, column)).all())


def _control(control: pd.DataFrame) -> list[Block]:
    """Say whether the control, which cannot work, seems to work."""
    if not len(control) or not {"auc", "low", "high"} <= set(control):
        return []
    row = control.iloc[0]
    result = f"the attack that cannot work has AUC {with_interval(row, 'auc', 0.5)}"
    if is_missing(row["low"]) or is_missing(row["high"]):
        return [Paragraph([Strong("The control could not be measured: "), f"{result}."])]
    if row["low"] <= 0.5 <= row["high"]:
        return [Paragraph([Strong("The control behaves: "), f"{result}, an interval that contains 0.5."])]
    text = (
        f"The interval excludes 0.5: {result}. Members and non-members differ in something else than membership; do "
        "not rely on the attacks below."
    )
    return [Callout("warning", "The control fails", [Paragraph(text)])]


def _roc_figure(reading: ResultView, overall: pd.DataFrame) -> list[Block]:
    curves = reading.summary.roc
    if not curves:
        return []
    attacks = reading.result.attacks
    controls = set(column_texts(rows(attacks, booleans(attacks, "control")), "attack"))
    pairs = {attack_title(k, k in controls): (np.array(v.fpr), np.array(v.tpr)) for k, v in curves.items()}
    pairs = {k: v for k, v in pairs.items() if len(v[0]) == len(v[1]) > 0}
    non = column_numbers(overall, "n_non_members")
    smallest = 10 / float(np.nanmin(non[non > 0])) if (non > 0).any() else None
    alternative: list[Inline] = ["ROC curves on logarithmic axes."]
    if len(overall):
        row = overall.iloc[0]
        alternative = [
            "The most successful attack is ",
            Name(str(row["attack"])),
            f" with AUC {with_interval(row, 'auc')}.",
        ]
    shaded = f" Shaded: below {percent(min(smallest, 1))} some attack has too few non-members." if smallest else ""
    return [
        Figure(
            svg=figures.roc_log(
                pairs, smallest_measurable=smallest, controls=[attack_title(c, True) for c in controls]
            ),
            title="What each attack finds, and at which price.",
            caption="One model, as an attacker meets it. The dotted line is guessing; a curve above it finds members."
            + shaded,
            alternative=alternative,
        )
    ]


def _agreement(agreement: Agreements | None, scale: LossScale) -> list[Block]:
    """Say whether the attacks find the images with large M, with M from other models than the attacked one."""
    if agreement is None:
        return []
    other_seeds = agreement.other_seeds or Agreement()
    sentences, rho = [], other_seeds.spearman
    if rho is not None and not np.isnan([rho.estimate, rho.low, rho.high]).any():
        value, low, high = map(decimal, (rho.estimate, rho.low, rho.high))
        sentences.append(
            f"Rank correlation of M with the success of the loss attack: {value} (95 % interval {low} to {high}); M is "
            "taken from other models than the attacked one. At 1 the images with the largest M would be the very ones "
            "that the attack finds; at 0 M says nothing about the images that an attacker without twins can find; "
            "below 0 the attack accuses easy images, whether they were in the training or not, so that those it misses "
            "are not safe."
        )
        if not np.isnan([other_seeds.success_high, other_seeds.success_low]).any():
            sentences.append(
                f"The attack finds {percent(other_seeds.success_high)} of the images with M above "
                f"{scale.high}, {percent(other_seeds.success_low)} of those with M up to {scale.moderate}."
            )
    blocks = (
        [Paragraph(" ".join(sentences))] if sentences else [Definitions(settings(to_json(agreement)), compact=True)]
    )
    return [Details("Does M name the images that the attacks find?", blocks)]


def target_section(reading: ResultView) -> list[Block]:
    """Lay out the attacks on the very model that is to be released, and whether the audited models speak for it."""
    target = reading.summary.target
    if target is None:
        return []
    blocks: list[Block] = []
    if target.replication is not None:
        blocks.append(_replication(target.replication, reading.scale))
    if target.attacks:
        blocks += _target_controls(target.controls)
    tables = target_tables(reading)
    blocks += tables[:1]
    blocks += [Details(table.caption.removesuffix("."), [table], printed=False) for table in tables[1:]]
    named = set(target.attacks) - set(column_texts(reading.result.attacks, "attack"))
    if explained := wording.explained_attacks(sorted(named), reading.scale):
        blocks.append(Details("What these attacks do", [Definitions(explained)]))
    described = {
        "File": target.file,
        "sha256": target.sha256,
        "tensors_sha256": target.tensors_sha256,
        "Images it was trained on": target.n_members,
        "Test images": target.n_non_members,
        "Accuracy on the images it was trained on": target.accuracy_members,
        "Accuracy on the test part": target.accuracy_test,
        "Mean loss on the images it was trained on": target.loss_members,
        "Mean loss on the test part": target.loss_test,
        _EXPLAINED: target.explained,
        _GUIDANCE: target.guidance,
        _BASE: target.base,
        "base_sha256": target.base_sha256,
    }
    unknown = (_EXPLAINED, _GUIDANCE, _BASE, "base_sha256") if reading.scale.of_answers else described
    described = {name: value for name, value in described.items() if value is not None or name not in unknown}
    return [*blocks, Definitions(settings(described), compact=True)]


def _target_controls(controls: Mapping[str, AttackNumbers]) -> list[Block]:
    """Say whether any control of attacks on the very model seems to work."""
    if len(controls) < 2:
        return [block for control in controls.values() for block in _control(pd.DataFrame([to_row(control)]))]
    failed = [control_words(name, control.auc) for name, control in controls.items() if not control.at_chance]
    if failed:
        text = (
            f"An interval does not contain 0.5: {'; '.join(failed)}. Members and non-members differ by more than "
            "membership, or may: no attack below concludes anything."
        )
        return [Callout("warning", "A control fails", [Paragraph(text)])]
    words_of = "; ".join(control_words(name, control.auc) for name, control in controls.items())
    held = "Each interval contains 0.5; all of them together hold at 95 %."
    return [Paragraph([Strong("The controls behave: "), f"{words_of}. {held}"])]


def target_tables(reading: ResultView) -> list[Table]:
    """Return the tables of attacks on the very model: over all classes and, where they were measured, class by class.

    Args:
        reading: Result with a target.
    """
    target = reading.summary.target
    if target is None or not target.attacks:
        return []
    attack_rows = [
        {"attack": attack_title(k, False), "access": target.access.get(k, ""), **to_row(v)}
        for k, v in target.attacks.items()
    ]
    caption = (
        "Attacks on the very model, its training images against the test part. Intervals: over patients; the model "
        "was trained once, and the question is about this file."
    )
    whole = pd.DataFrame(attack_rows).astype({"attack": object})
    tables = [_attack_table(whole, caption, reading, label=False)]
    if target.classes:
        each = pd.DataFrame([to_row(row) for row in target.classes]).astype({"attack": object, "label": object})
        each = each.assign(attack=[attack_title(a, False) for a in column_texts(each, "attack")])
        title = "Attacks on the very model, class by class."
        tables.append(_attack_table(each, title, reading, label=True))
    return tables


def _replication(replication: Replication, scale: LossScale) -> Callout:
    """Say whether the very model behaves as one more of the audited ones, by its losses on members and test part.

    Losses that are of no answer have no size that says something: their differences from the mean are given.
    """
    parts = {
        "Loss on what it was trained on": replication.loss_members,
        "Test loss": replication.loss,
        "Test accuracy": replication.accuracy,
    }
    measured = {
        title: part
        for title, part in parts.items()
        if part is not None and not np.isnan([part.target, part.low, part.high]).any()
    }
    less, unit = "", ""
    if not scale.of_answers:
        measured = {title: part.from_mean for title, part in measured.items()}
        less, unit = " less the mean of audited models", f" {scale.unit}"
    text = " ".join(
        f"{title}{less} {decimal(part.target)}{unit}; one more audited model would lie between {decimal(part.low)} and "
        f"{decimal(part.high)}{unit}."
        for title, part in measured.items()
    )
    if replication.replicated:
        return Callout("note", "The audited models behave like the very model", [Paragraph(text)])
    more = (
        " What the classes and lists say is of the audited models, and nothing of this file. Only the attacks on it "
        "speak for it, so that it may fail, but cannot pass."
    )
    return Callout("warning", "The very model is another model than the audited ones", [Paragraph(text + more)])
