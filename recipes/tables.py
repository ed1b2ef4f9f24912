"""Write the tables of finished runs as one page: python recipes/tables.py docs/results/NAME.md "Title" RUN [RUN ...].

Numbers only: no image and no id of the data leaves the run folders.
"""

import sys
from pathlib import Path

import pandas as pd

from memorisk.report.result import Result

ATTACKS = "(all)"
_DIFFERENCES = (
    ("difference", "low", "high"),
    ("noise", "noise_low", "noise_high"),
    ("excess", "excess_low", "excess_high"),
)
_EFFECTS, _AUCS = ("paper_cohens_d", "paired_dz"), ("auc_before", "auc_after")
_SHARES = ("recall_before", "recall_after", "pixels_changed", "mean_change")


def class_table(result: Result) -> list[str]:
    """One row a class, rarest first."""
    lines = [
        "| class | images | share | scored | mean M, 95 % interval | tier | flagged | smallest list |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in result.per_class.sort_values(["n", "label"]).to_dict("records"):
        flagged = str(row["flagged"]) if row["testable"] else row["why_not"]
        shortest = "" if pd.isna(row["smallest_list"]) else f"{row['smallest_list']:.0f}"
        lines.append(
            f"| {row['label']} | {row['n']} | {row['frequency']:.1%} | {row['n_scored']} | "
            f"{row['mean']:+.3f}, {row['low']:+.3f} to {row['high']:+.3f} | {row['tier']} | {flagged} | {shortest} |"
        )
    return lines


def attack_rows(result: Result) -> list[str]:
    """One row an attack, all classes together."""
    lines = ["| attack | AUC, 95 % interval | TPR at 1 % FPR | members | non-members |", "|---|---|---|---|---|"]
    for row in result.attacks[result.attacks["label"] == ATTACKS].to_dict("records"):
        tpr = "not measurable" if pd.isna(row["tpr_at_1pct"]) else f"{row['tpr_at_1pct']:.3f}"
        name = f"{row['attack']} (control)" if row["control"] else row["attack"]
        lines.append(
            f"| {name} | {row['auc']:.3f}, {row['low']:.3f} to {row['high']:.3f} | {tpr} | "
            f"{row['n_members']} | {row['n_non_members']} |"
        )
    return lines


def intervention_rows(result: Result) -> list[str]:
    """One row a class, changed ones first; nothing where no intervention was asked for."""
    summary, table = result.summary.get("intervention"), result.tables.get("intervention")
    if summary is None or table is None:
        return []
    lines = [
        f"Intervention `{summary['name']}` on {', '.join(summary['classes'])}: {summary['description']}; "
        f"{summary['n_images_changed']} images, {summary['n_trainings']} trainings more. Differences in nats, 95 % "
        "intervals over groups and seeds.",
        "",
        "| class | changed | groups | M before | M after | difference | retraining alone | difference less retraining "
        "| reading |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = table.to_dict("records")
    for row in rows:
        cells = [f"{row[k]:+.3f}, {row[a]:+.3f} to {row[b]:+.3f}" for k, a, b in _DIFFERENCES]
        lines.append(
            f"| {row['label']} | {'yes' if row['targeted'] else 'no'} | {row['n_groups']} | {row['before']:+.3f} | "
            f"{row['after']:+.3f} | {' | '.join(cells)} | {row['reading']} |"
        )
    lines += [
        "",
        "Paper's columns, and what became of the classes:",
        "",
        "| class | change, % of \\|before\\| | Cohen's d over images | paired d_z | AUC of M, before | after "
        "| test images named rightly, before | after | pixels changed | mean change |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row[k]:+.2f}, {row[k + '_low']:+.2f} to {row[k + '_high']:+.2f}" for k in _EFFECTS]
        cells += [f"{row[k]:.3f}, {row[k + '_low']:.3f} to {row[k + '_high']:.3f}" for k in _AUCS]
        cells += ["" if pd.isna(row[k]) else f"{row[k]:.1%}" for k in _SHARES]
        lines.append(f"| {row['label']} | {row['paper_percent']:+.0f} % | {' | '.join(cells)} |")
    return [*lines, "", *(f"* {warning}" for warning in summary["warnings"]), ""]


def defence_section(folder: Path) -> list[str]:
    """Regimes side by side: what each costs and saves, promises and is proved to leak; then every class."""
    table = pd.read_parquet(folder / "defence.parquet")
    rows = table.to_dict("records")
    results = {row["regime"]: Result.load(folder / row["regime"]) for row in rows}
    summary = results[rows[0]["regime"]].summary
    lines = [
        f"{summary['n_images']:,} images, {summary['n_groups']:,} groups; {summary['model']}, {summary['n_models']} "
        f"models a regime, {summary['training']['epochs']} epochs; {summary['device']}. Accuracy is over the "
        f"{rows[0]['n_test_groups']} groups that no model saw; always answering the commonest class gives "
        f"{rows[0]['majority']:.3f}.",
        "",
        "| regime | accuracy, 95 % | less the majority's | balanced | mean M | worst class | flagged | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['regime']} | {_interval(r, 'accuracy', '')} | {_interval(r, 'gain')} | {_interval(r, 'balanced', '')} | "
        f"{_interval(r, 'mean_m')} | {r['worst_class']} {_interval(r, 'worst_m')} | {r['flagged']} | {r['status']} |"
        for r in rows
    ]
    lines += [
        "",
        f"One class followed, {rows[0]['reference_class']}, the worst under {rows[0]['regime']}; and epsilon.",
        "",
        "| regime | its M | change | percent (paper's) | epsilon | image replaced: at most | at least | provable |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        numbers = (("change_percent", "+.0f"), ("epsilon", "g"), ("replace_one_epsilon", ".2f"), ("bound", ".2f"))
        shown = [_or(r[name], form) for name, form in (*numbers, ("bound_largest", ".2f"))]
        measured = [_interval(r, name) for name in ("reference_m", "change")]
        lines.append(f"| {r['regime']} | {' | '.join([*measured, *shown])} |")
    classes = results[rows[0]["regime"]].per_class.sort_values(["n", "label"])["label"]
    lines += ["", "Mean M of each class.", "", f"| class | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    for label in classes:
        own = [r.per_class.set_index("label").loc[label].to_dict() for r in results.values()]
        lines.append(f"| {label} | {' | '.join(_interval(o, 'mean', limits=('low', 'high')) for o in own)} |")
    return [*lines, ""]


def _interval(row: dict, name: str, sign: str = "+", limits: tuple[str, str] | None = None) -> str:
    """A value with its interval; a dash where there is none."""
    low, high = limits or (f"{name}_low", f"{name}_high")
    if pd.isna(row[name]):
        return "-"
    shown = f"{row[name]:{sign}.3f}"
    return shown if pd.isna(row[low]) else f"{shown}, {row[low]:{sign}.3f} to {row[high]:{sign}.3f}"


def _or(value: float, form: str) -> str:
    return "-" if pd.isna(value) else f"{value:{form}}"


def section(folder: Path) -> list[str]:
    """Everything about one run, or about regimes side by side."""
    if (folder / "defence.parquet").is_file():
        return defence_section(folder)
    result = Result.load(folder)
    summary, verdict = result.summary, result.verdict
    training, use = summary["training"], summary["utility"]
    rarest = summary["rarest_vs_top"]
    found = [
        f"## {summary['dataset']}, design {summary['design']}",
        "",
        f"{summary['n_images']:,} images, {summary['n_groups']:,} groups; {summary['model']}, "
        f"{summary['n_models']} models, {training['epochs']} epochs, {training['optimizer']} {training['lr']:g}, "
        f"batch {training['batch_size']}; {summary['device']}. "
        f"Test accuracy {use['test_accuracy']:.3f}, balanced {use['test_balanced_accuracy']:.3f}, "
        f"share of the commonest class {use['majority_share']:.3f}.",
        "",
        f"Verdict at the gate `{verdict['gate']}`: **{verdict['status']}**.",
        "",
        *class_table(result),
        "",
        _rarest(rarest),
        "",
        *attack_rows(result),
        "",
        *intervention_rows(result),
    ]
    return found


def _rarest(found: dict | None) -> str:
    if found is None:
        return "Several classes are equally rare."
    return (
        f"Rarest class {found['label_rarest']} (M {found['mean_rarest']:+.3f}) against the most memorized "
        f"{found['label_top']} (M {found['mean_top']:+.3f}): difference {_with_limits(found)}."
    )


def _with_limits(found: dict) -> str:
    if found["low"] is None:
        return "none: they are one class"
    return f"{found['difference']:+.3f}, 95 % interval {found['low']:+.3f} to {found['high']:+.3f}"


def main(out: str, title: str, *runs: str) -> None:
    """Write the page."""
    lines = [f"# {title}", ""]
    for run in runs:
        lines += section(Path(run))
    Path(out).write_text("\n".join(lines), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
