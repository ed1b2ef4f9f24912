"""Is a subgroup called more exposed only where it is? Simulated audits of known truth (METHODS section 8).

    python recipes/subgroup_truth.py [--repeats 1000] [--processes 2] [--out docs/results/subgroup_truth.md]

Score tables are those of `recipes/verdict_truth.py`: 470 patients, 400 of them scored, 16 models, two classes, one
image each unless said otherwise. A level of 40 patients is compared with the others, by the audit's own tables.

Coverage: of the difference, and of the attack AUC within the level, whose truth is the mean over all audits of a world,
each of which draws patients and trainings anew.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence, margin_of_loss
from memorisk.audits.classifier.tables.attacks import attack_rows, paper_attacks
from memorisk.audits.classifier.tables.subgroups import ScoredPatients, compared_subgroups
from memorisk.audits.subgroups import Subgroups, subgroups
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.subgroups import SubgroupContrast
from verdict_truth import World, draw

ATTACK = "differential"
Audited = tuple[list[SubgroupContrast], tuple[float, float, float] | None]


@dataclass(frozen=True)
class Case:
    """Who is remembered, and who is in the level."""

    world: World = field(default_factory=lambda: World(16, n_patients=470))
    confounded: bool = False
    """Whether the level holds 24 of 28 of its patients in the second class, which is remembered by 0.3 nats."""
    noisier: float = 1.0
    """Factor of the noise of the level."""
    strongly: float = 0.0
    """Share of all patients who are remembered by 3 nats."""
    effect: float = 0.0
    """Gap of the level's patients, in nats."""
    share: float = 1.0
    """Share of the level's patients who have it."""
    n_columns: int = 1
    """Number of columns; those after the first divide patients at random, into five levels."""


CASES: dict[str, Case] = {
    "no effect": Case(),
    "no effect, four columns": Case(n_columns=4),
    "no effect, heavy tails": Case(World(16, n_patients=470, tails=2.2)),
    "no effect, 300 of 1 to 20 images": Case(World(16, n_patients=300, most_images=20)),
    "a remembered class that is common in the level": Case(confounded=True),
    "three times the noise in the level": Case(noisier=3.0),
    "one in twenty remembered by 3 nats, in any level": Case(strongly=0.05),
    "0.5 nats in the level": Case(effect=0.5),
    "0.5 nats in half of the level": Case(effect=0.5, share=0.5),
    "0.1 nats in the level": Case(effect=0.1),
    "0.05 nats in the level": Case(effect=0.05),
}
COVERED = ("no effect", "0.5 nats in half of the level", "0.1 nats in the level")
"""Cases of which intervals are counted."""


def drawn(case: Case, seed: int) -> tuple[Evidence, tuple[Subgroups, ...]]:
    """Draw the score table of a case, and the levels of its patients."""
    evidence, rng = draw(case.world, seed), np.random.default_rng([seed, 8])
    items = evidence.items
    patients, unit = np.unique(items.group.astype(str), return_inverse=True)
    second = np.zeros(len(patients), dtype=bool)
    second[unit] = items.label == "c1"
    odds = np.where(second, 0.17, 0.03) if case.confounded else np.full(len(patients), 0.1)
    inside = rng.random(len(patients)) < odds
    table = pd.DataFrame({"column 1": np.where(inside, "in", "out")})
    for number in range(2, case.n_columns + 1):
        table[f"column {number}"] = rng.choice(list("abcde"), len(patients))
    gap = np.where(inside & (rng.random(len(patients)) < case.share), case.effect, 0.0)
    gap += np.where(second & case.confounded, 0.3, 0.0)
    gap += np.where(rng.random(len(patients)) < case.strongly, 3.0, 0.0)
    middle, half = (evidence.loss_a + evidence.loss_b) / 2, (evidence.loss_b - evidence.loss_a) / 2
    half = half * np.where(inside, case.noisier, 1.0)[unit]
    losses = middle - half - evidence.member_a * gap[unit], middle + half - evidence.member_b * gap[unit]
    # A loss is above 0; a shift that all models share changes no gap.
    floor = np.minimum(np.minimum(*losses).min(axis=0) - 1e-3, 0.0)
    loss_a, loss_b = (loss - floor for loss in losses)
    margins = {"margin_a": margin_of_loss(loss_a), "margin_b": margin_of_loss(loss_b)}
    evidence = replace(evidence, loss_a=loss_a, loss_b=loss_b, **margins)
    return evidence, subgroups(table, patients, tuple(table.columns))


def audited(case: Case, covered: bool, seed: int) -> Audited:
    """Return the contrasts of one audit, those of the level first, and the AUC within the level with its limits."""
    evidence, columns = drawn(case, seed)
    contrasts = compared_subgroups(ScoredPatients.of(evidence), columns)
    ordered = [contrasts[key] for key in sorted(contrasts)]
    if not covered:
        return ordered, None
    inside = evidence.items.whole & (columns[0].of(evidence.items.group) == "in")
    scores = [attack for attack in paper_attacks(evidence) if attack.name == ATTACK]
    row = attack_rows(evidence, scores, {"in": inside}, 0.6).iloc[0]
    return ordered, (float(row["auc"]), float(row["low"]), float(row["high"]))


def row(name: str, case: Case, audits: Sequence[Audited]) -> str:
    """Return a row of the table."""
    n = len(audits)
    called = [[contrast.is_higher for contrast in contrasts] for contrasts, _ in audits]
    of_level = [next(c for c in contrasts if c.level == "in") for contrasts, _ in audits]
    truth = case.effect * case.share
    if truth:
        told = clopper_pearson(sum(contrast.is_higher for contrast in of_level), n)
    else:
        told = clopper_pearson(sum(map(any, called)), n)
    limits = f"{100 * told.estimate:.1f} ({100 * told.low:.1f} to {100 * told.high:.1f})"
    held = np.mean([c.difference.low <= truth <= c.difference.high for c in of_level])
    aucs = np.array([auc for _, auc in audits if auc is not None and np.isfinite(auc).all()])  # few have no new patient
    auc = ""
    if len(aucs):
        centre = aucs[:, 0].mean()
        auc = f"{100 * np.mean((aucs[:, 1] <= centre) & (centre <= aucs[:, 2])):.1f} (AUC {centre:.2f})"
    noticeable = float(np.median([contrast.noticeable for contrast in of_level]))
    what = "power" if truth else "false"
    return f"| {name} | {n} | {what} {limits} | {100 * held:.1f} | {auc} | {noticeable:.3f} |"


PAGE = """# Is a subgroup called more exposed only where it is?

Output of `recipes/subgroup_truth.py --repeats {repeats}`: simulated audits of 470 patients, 400 of them scored, with 16
models and two classes unless said otherwise. About 40 patients are in the level. False: audits that call any level of
any column more exposed, where none is; 5 % are allowed. Power: audits that call the level so, where it is. In brackets
95 % limits. Noticeable: the median of the difference, in nats, that the audits state as noticed in four of five cases.
The noise of trainings is heavy-tailed (t, 3 degrees of freedom) and of another size for each image.

| world | audits | called more exposed, % | interval of difference covers, % | interval of AUC covers, % | noticeable |
|---|---|---|---|---|---|
{table}

Permutations alone, with the plain difference as METHODS section 8 states it, reject where a level is noisier: with
three times the noise in the level, {plain:.1f} % of audits call a level more exposed. The test takes the difference
over its standard error, and the larger of two p.
"""


def plain_level(repeats: int) -> float:
    """Return the share of audits in which a permutation test of the plain difference calls a noisier level higher."""
    rng, called, n, draws = np.random.default_rng(9), 0, 400, 399
    for _ in range(repeats):
        inside = rng.random(n) < 0.1
        y = rng.standard_t(3, (8, n)).mean(axis=0) * np.where(inside, 3.0, 1.0)
        permuted = np.array([rng.permutation(inside) for _ in range(draws)])
        means = permuted @ y / permuted.sum(axis=1) - (~permuted) @ y / (~permuted).sum(axis=1)
        own = y[inside].mean() - y[~inside].mean()
        called += min(((np.sign(s) * means >= np.sign(s) * own).sum() + 1) / (draws + 1) for s in (1, -1)) <= 0.025
    return 100 * called / repeats


def main() -> None:
    """Count all cases, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = []
    with ProcessPoolExecutor(options.processes) as pool:
        for name, case in CASES.items():
            each = partial(audited, case, name in COVERED)
            lines.append(row(name, case, list(pool.map(each, range(options.repeats), chunksize=8))))
            print(lines[-1], flush=True)
    text = PAGE.format(repeats=options.repeats, table="\n".join(lines), plain=plain_level(options.repeats))
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
