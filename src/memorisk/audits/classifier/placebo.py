"""The placebo: the whole audit of images that no model saw (METHODS section 1, "Null and p-value").

The level of the lists rests on this, not on a theorem. Each repeat draws a fresh split; decoys fill the canaries'
slots.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from memorisk.audits.classifier.analysis import class_findings
from memorisk.audits.classifier.context import Context
from memorisk.audits.classifier.jobs import Recipe, collect, make_jobs, train_all
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.plan import Plan, make_placebo
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError
from memorisk.runs.folder import RunFolder
from memorisk.runs.progress import Counted

RARE = 0.05  # classes below this share are reported apart (paper 000, A.11)


def run_placebo(
    run: RunFolder,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    progress: Counted,
) -> dict[str, Any] | None:
    """Repeat the audit on canaries that no model saw; None when no repeats were asked for.

    Returns:
        Per repeat the share of group p-values of at most 0.05, overall and in classes under 5 %, the numbers of
        canary and test groups behind them, and the length of the list at the run's level.

    Raises:
        InputError: The design is ``paper``, whose roles are not symmetric, or the split is the given one.
    """
    if not options.placebo:
        return None
    if plan.design == "paper" or not plan.parts.random:
        raise InputError("the placebo redraws the split and swaps twins: it needs the design balanced or matched")
    repeats = []
    for repeat, (placebo, assigned) in enumerate(placebo_plans(store, plan, options)):
        jobs = make_jobs(run.path, store, placebo, recipe, options)
        train_all(run, jobs, recipe, options, lambda d, n, r=repeat: progress(r * n + d, options.placebo * n))
        evidence = collect(jobs, placebo, recipe, assigned)
        findings = class_findings(evidence, options, Context(design=plan.design, not_auditable=plan.parts.too_small))
        repeats.append(summarise(findings))
    return {"repeats": repeats, "n_repeats": len(repeats), **pooled(repeats)}


def placebo_plans(store: ImageStore, plan: Plan, options: ClassifierOptions) -> Iterator[tuple[Plan, np.ndarray]]:
    """The plan of every repeat, and [S, I] the signs that its design would have given its items."""
    for repeat in range(options.placebo):
        yield make_placebo(
            store.manifest, plan.parts, options, seed=options.split_seed + 1 + repeat, unmatched=plan.unmatched
        )


def summarise(findings: list) -> dict[str, Any]:
    """One repeat in numbers: counts of p-values, of those at most 0.05, and the list."""
    found: dict[str, Any] = {"listed": int(sum(f.row["flagged"] for f in findings))}
    for name, chosen in (
        ("all", findings),
        ("rare", [f for f in findings if f.row["frequency"] < RARE]),
    ):
        p = [v for f in chosen for v in f.groups["p_value"] if np.isfinite(v)]
        found |= {
            f"{name}_n": len(p),
            f"{name}_small": int(np.sum(np.array(p) <= 0.05)),
            f"{name}_n_test": int(
                sum(f.row["n_test_groups"] for f in chosen if np.isfinite(f.groups["p_value"]).any())
            ),
        }
    return found


def pooled(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares over all repeats, with METHODS' band .05 +- 2 sqrt(.0475 (1/m + 1/n)/repeats), m canaries, n tests."""
    shown: dict[str, Any] = {"with_list": sum(r["listed"] > 0 for r in repeats)}
    for name in ("all", "rare"):
        n, small = sum(r[f"{name}_n"] for r in repeats), sum(r[f"{name}_small"] for r in repeats)
        if not n:
            continue
        m, tests = n / len(repeats), sum(r[f"{name}_n_test"] for r in repeats) / len(repeats)
        band = 2 * np.sqrt(0.0475 * (1 / m + 1 / tests) / len(repeats))
        shown[name] = {"share": small / n, "low": 0.05 - band, "high": 0.05 + band, "canaries": m, "tests": tests}
    return shown
