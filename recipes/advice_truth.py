"""Does following the advice of an undecided audit decide it? Simulated audits, and those that follow their advice.

    python recipes/advice_truth.py [--runs 30] [--out docs/results/advice_truth.md]

Audits of the worlds below that are undecided do what their verdict advises first: more models of the same audit (the
trainings that are there stay), more planted copies, more held-out patients, or, where the verdict says that the data
cannot decide it, the smaller claim that it offers. Counted is how many are decided then, by a pass or a failure.
Audits whose verdict has no such number are left out: those that nothing decides, and those that ask a person to look.
Worlds of classifiers are those of `verdict_truth.py`, worlds of sets those of `verdict_truth_sets.py`.
"""

import argparse
import runpy
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.synthetic import findings
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.result import HeldOutCounts, SetCounts
from memorisk.audits.synthetic.verdict import ways_to_power
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.verdicts.noticeable_gap import MAX_SEEDS
from memorisk.statistics.verdicts.remedies import Claim, Remedy, SmallerClaim, Way
from memorisk.statistics.verdicts.verdict import UNDECIDED, Decision

HERE = Path(__file__).resolve().parent
MODELS, SETS = (runpy.run_path(str(HERE / f"{name}.py")) for name in ("verdict_truth", "verdict_truth_sets"))
CLASSIFIERS = {
    "8 models, 400 patients": MODELS["World"](8, n_patients=400),
    "twice the noise": MODELS["World"](16, n_patients=400, noise=0.2),
    "12 classes": MODELS["World"](16, n_patients=600, n_classes=12),
    "a tenth with 4 times the noise": MODELS["World"](16, n_patients=400, noisy=0.1),
    "60 patients": MODELS["World"](16, n_patients=60),
    "4 times the noise": MODELS["World"](16, n_patients=200, noise=0.4),
}
OF_SETS = {
    "300 beside 60": SETS["World"](n_train=300, n_held=60, n_synthetic=300),
    "narrow generator (0.5)": SETS["World"](n_train=600, spread=0.5, n_synthetic=300),
    "narrow generator (0.7), 32 features": SETS["World"](n_train=600, spread=0.7, dimensions=32, n_synthetic=300),
}


def advised(decision: Decision) -> Remedy | SmallerClaim | None:
    """Return what a verdict on a classifier advises first; None where it has no number."""
    carried = [claim for claim in decision.claims if claim.claim is not Claim.WITHOUT_CLASS]
    models = [remedy for remedy in decision.remedies if remedy.way is Way.MODELS and remedy.needed > 0]
    return next(iter([*carried, *models]), None)


def followed_classifier(world: Any, seed: int) -> tuple[str, str] | None:
    """What an undecided audit of a classifier advises, and the status after; None where it is decided or open."""
    evidence = MODELS["draw"](replace(world, n_models=2 * MAX_SEEDS), seed)
    options, n_models = AnalysisOptions(), world.n_models
    decision = MODELS["judged"](evidence.of_seeds(np.arange(n_models // 2)), options, advise=True)[0]
    if decision.status != UNDECIDED or advised(decision) is None:
        return None
    words = "models"
    for claim in decision.claims:
        words = "smaller claim"
        if claim.claim is Claim.NOTICE:
            options = replace(options, notice=claim.value)
        elif claim.claim is Claim.ATTACK_GATE:
            options = replace(options, attack_gate=claim.value)
    for remedy in decision.remedies:
        n_models = max(n_models, int(remedy.needed)) if remedy.way is Way.MODELS else n_models
    again = MODELS["judged"](evidence.of_seeds(np.arange(n_models // 2)), options)[0]
    return words, again.status


def followed_set(world: Any, seed: int) -> tuple[str, str] | None:
    """The same of a synthetic set."""
    options: SyntheticOptions = synthetic_options(SETS["SETTINGS"])
    verdict = SETS["audited"](SETS["draw"](world, seed), options, seed)[0]
    if verdict["status"] != UNDECIDED or len(verdict["why"]) > 1 or verdict["recall_by_kind"] is None:
        return None  # other doubts than power ask a person to look
    noticed = {kind: Proportion(**share) for kind, share in verdict["recall_by_kind"].items()}
    sets = SetCounts(
        n_train_images=world.n_train,
        n_train_patients=world.n_train,
        n_synthetic_images=world.n_synthetic,
        held=HeldOutCounts(n_held_images=world.n_held, n_held_patients=world.n_held),
        n_held_shared_images=0,
        n_held_shared_patients=0,
    )
    ways = ways_to_power(noticed, options.kinds, options, sets, held_out_needed=verdict["held_out_for_kinds"])
    if ways.best is None or ways.best.way is Way.TRAINED_DETECTOR:
        return None  # no simulated detector is better than another
    n_plants = options.plants
    if ways.best.way is Way.PLANTS:
        n_plants = int(ways.best.needed)
    else:
        world = replace(world, n_held=int(ways.best.needed))
    drawn = SETS["draw"](world, seed, n_plants)
    return str(ways.best.way), SETS["audited"](drawn, replace(options, plants=n_plants), seed)[0]["status"]


def followed(most: int) -> Iterator[tuple[str, str, str]]:
    """World, advice and status after of so many undecided audits, in turn of each world."""
    findings.literature_statistics = lambda *_: None  # pyright: ignore (figures of the literature, which no verdict reads)
    worlds = [*((name, world, followed_classifier) for name, world in CLASSIFIERS.items()),
              *((name, world, followed_set) for name, world in OF_SETS.items())]  # fmt: skip
    number = 0
    for seed in range(most):
        for name, world, follow in worlds:
            outcome = follow(world, seed)
            if outcome is not None:
                yield name, *outcome
                number += 1
            if number == most:
                return


def table(outcomes: list[tuple[str, str, str]]) -> list[str]:
    """A row for each world and advice."""
    lines = [
        "| world | advice | undecided audits | pass then | fail then | undecided still |",
        "|---|---|---|---|---|---|",
    ]
    for name, words in dict.fromkeys((name, words) for name, words, _ in outcomes):
        counts = Counter(status for *place, status in outcomes if tuple(place) == (name, words))
        shown = " | ".join(str(counts[status]) for status in ("pass", "fail", UNDECIDED))
        lines.append(f"| {name} | {words} | {counts.total()} | {shown} |")
    return lines


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    outcomes = []
    for outcome in followed(given.runs):
        outcomes.append(outcome)
        print(*outcome, sep=", ", flush=True)
    decided = sum(status != UNDECIDED for *_, status in outcomes)
    text = [
        "# Does following the advice decide an audit?",
        "",
        f"`python recipes/advice_truth.py --runs {given.runs}`: {decided} of {len(outcomes)} undecided audits are "
        "decided by what their verdict advises first. Audits without a number to follow are left out.",
        "",
        *table(outcomes),
    ]
    print("\n".join(text))
    if given.out:
        given.out.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
