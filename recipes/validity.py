"""The validity study: does the audit hold its level, find what is planted, and agree with exact retraining?

Usage: python recipes/validity.py [--runs runs/validity] [--docs docs/validity.md]

About ten minutes on two cores. Writes docs/validity.md; the runs are kept and reused.
"""

import argparse
import math
from pathlib import Path

import pandas as pd

from duplicate_trend import duplicate_trend
from leave_one_out import leave_one_out_study
from memorisk.audits.classifier.evidence import evidence_from_table
from memorisk.audits.classifier.run import audit_classifier
from memorisk.report.result import Result
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import read_table
from memorisk.scores.memorization import group_table
from memorisk.statistics.intervals.means import Interval
from memorisk.statistics.intervals.shares import clopper_pearson
from planted import duplicated, mislabelled

REPEATS = 20
RARE = 0.05


def placebo(runs: Path) -> list[str]:
    """Level: the whole audit of images that no model saw, twenty fresh splits, both designs, both ways to list."""
    lines = [
        "| design | models | p <= 0.05, all classes | band | in classes under 5 % | band | listed somebody, q = 0.05 "
        "| each class at q by itself (METHODS) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for design, models in (("balanced", 16), ("matched", 8)):
        settings = {"design": design, "models": models, "placebo": REPEATS, "level": 0.05, "discard_weights": True}
        listed = {}
        for correction in ("bh-within", "bh"):  # the second reads the first one's models
            result = audit_classifier("digits", out=runs / f"placebo-{design}", correction=correction, **settings)
            assert isinstance(result, Result)
            found = result.summary["placebo"]
            listed[correction] = f"{found['with_list']} of {found['n_repeats']}"
        cells = [f"{found[k]['share']:.4f} | {found[k]['low']:.4f} to {found[k]['high']:.4f}" for k in ("all", "rare")]
        lines.append(f"| {design} | {models} | {cells[0]} | {cells[1]} | {listed['bh']} | {listed['bh-within']} |")
    return lines


def planted_noise(runs: Path, models: int = 16) -> list[str]:
    """Power: mislabelled images among the digits, rare classes apart."""
    source = mislabelled()
    runs.mkdir(parents=True, exist_ok=True)
    file = source.save(runs / "mislabelled.npz")
    result = run(runs / f"mislabelled-{models}", file, models=models)
    table = result.per_group.merge(
        pd.DataFrame({"group": source.groups.astype(str), "planted": source.planted}), on="group"
    )
    share = result.per_class.set_index("label")["frequency"]
    table["rare"] = table["label"].map(share) < RARE
    lines = [
        "| groups | planted, scored | flagged | rate, 95 % interval | not planted, flagged |",
        "|---|---|---|---|---|",
    ]
    for name, part in (("all classes", table), ("classes under 5 %", table[table["rare"]])):
        scored = part[part["planted"]]
        hits, n = int(scored["flagged"].sum()), len(scored)
        rate = clopper_pearson(hits, n)
        others = part[~part["planted"]]
        lines.append(
            f"| {name} | {n} | {hits} | {hits / n:.2f}, {rate.low:.2f} to {rate.high:.2f} | "
            f"{int(others['flagged'].sum())} of {len(others)} |"
        )
    return lines


def duplicates(runs: Path, models: int = 16) -> list[str]:
    """Trend: M against how often an image is there, for images as they are and for mislabelled ones."""
    lines = [
        "| images | mean M at 1, 2, 4, 8 copies | slope per doubling, 95 % interval | groups |",
        "|---|---|---|---|",
    ]
    for name, wrong in (("as they are", False), ("mislabelled", True)):
        source = duplicated(wrong=wrong)
        file = source.save(runs / f"duplicated-{int(wrong)}.npz")
        result = run(runs / f"duplicated-{int(wrong)}-{models}", file, models=models)
        info = pd.DataFrame({"group": source.groups.astype(str), "copies": source.copies, "planted": source.planted})
        table = result.per_group.merge(info.drop_duplicates("group"), on="group")
        table = table[table["planted"]] if wrong else table
        trend = trend_of(runs / f"duplicated-{int(wrong)}-{models}", table)
        means = ", ".join(f"{table.loc[table['copies'] == c, 'M_mean'].mean():+.3f}" for c in (1, 2, 4, 8))
        lines.append(
            f"| {name} | {means} | {trend.estimate:+.3f}, {trend.low:+.3f} to {trend.high:+.3f} | {trend.n_groups} |"
        )
    return lines


def trend_of(folder: Path, table: pd.DataFrame) -> Interval:
    """Slope of the groups' seed-wise M on the number of copies."""
    evidence = evidence_from_table(read_table(folder / "scores.parquet"))
    found = group_table(evidence.gap, evidence.sign, evidence.items.group.astype(str))
    row = {group: i for i, group in enumerate(found.group)}
    return duplicate_trend(found.values[[row[g] for g in table["group"]]], table["copies"].to_numpy())


def verdicts(runs: Path, models: int = 16) -> list[str]:
    """What the audits above concluded, and which gap of a single patient they would have noticed."""
    lines = ["| audit | verdict | flagged | noticeable gap, nats |", "|---|---|---|---|"]
    names = {"mislabelled": "mislabelled images", "duplicated-0": "images given several times", "duplicated-1": "both"}
    for name, title in names.items():
        result = Result.load(runs / f"{name}-{models}")
        noticed = result.verdict["noticeable"] or {}
        gap = noticed.get("gap")
        shown = "none" if gap is None else f"{gap:.2g}"
        flagged, scored = int(result.per_group["flagged"].sum()), len(result.per_group)
        lines.append(f"| {title} | {result.status} | {flagged} of {scored} | {shown} (class {noticed.get('label')}) |")
    return lines


def run(out: Path, images: str | Path, **settings: object) -> Result:
    """One audit; a finished run is read, not repeated."""
    if (out / "verdict.json").is_file():
        return Result.load(out)
    result = audit_classifier(images, out=out, discard_weights=True, **settings)
    assert isinstance(result, Result)
    return result


def main() -> None:
    """Run every part and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/validity"))
    parser.add_argument("--docs", type=Path, default=Path("docs/validity.md"))
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    band = 2 * math.sqrt(0.0475)
    parts = [
        "# Validity of the classifier audit",
        "",
        "Made by `python recipes/validity.py` on the built-in long-tailed digits "
        f"({', '.join(f'{k} {v}' for k, v in versions().items() if k in ('memorisk', 'torch', 'numpy'))}; "
        f"{machine()['cores']} cores).",
        "",
        "## Level: the placebo",
        "",
        f"The whole audit of images that no model saw, {REPEATS} fresh splits. The band is "
        f"0.05 +- {band:.3f} sqrt((1/m + 1/n)/{REPEATS}), m canary and n test groups.",
        "",
        *placebo(given.runs),
        "",
        "## Power: mislabelled images",
        "",
        "In every class the same share of images of other classes was filed under the class's label. Level q = 0.1.",
        "",
        *planted_noise(given.runs),
        "",
        "## Trend: images given several times",
        "",
        "All copies of an image are one group, in one twin together.",
        "",
        *duplicates(given.runs),
        "",
        "## Verdicts of these audits",
        "",
        "These digits are remembered: a [pass](report.md#the-box) would be wrong. Where the noticeable gap is “none” a "
        "single image of that class is not surely noticed, so that no audit of this size could pass. How often "
        "verdicts are true: [results/verdict_truth.md](results/verdict_truth.md).",
        "",
        *verdicts(given.runs),
        "",
        "## Exact leave-one-out retraining",
        "",
        *leave_one_out_study(given.runs),
        "",
    ]
    given.docs.write_text("\n".join(parts), encoding="utf-8")
    print(given.docs)


if __name__ == "__main__":
    main()
