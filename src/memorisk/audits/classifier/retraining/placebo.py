"""Repeat the audit on images that no model saw, as a placebo (METHODS section 1, "Null and p-value").

The level of the lists rests on this, not on a theorem. Each repeat draws a fresh split; decoys fill the canaries'
slots.
"""

from collections.abc import Iterator

import numpy as np

from memorisk.audits.classifier.analysis import class_findings
from memorisk.audits.classifier.evidence import Context
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.planning.plan import Plan, make_placebo
from memorisk.audits.classifier.result import Placebo, PlaceboRepeat, PlaceboShare
from memorisk.audits.classifier.tables.classes import ClassFindings
from memorisk.audits.classifier.twins.trainings import Recipe, collect, make_jobs, train_all
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import CountProgress

RARE_SHARE = 0.05  # classes below this share are reported apart (paper 000, A.11)


def run_placebo(
    run: RunFolder,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    progress: CountProgress,
) -> Placebo | None:
    """Repeat the audit on canaries that no model saw; None when no repeats were requested.

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
        train_all(run, jobs, options, lambda d, n, r=repeat: progress(r * n + d, options.placebo * n))
        evidence = collect(jobs, placebo, recipe, assigned)
        findings = class_findings(evidence, options, Context(design=plan.design, not_auditable=plan.parts.too_small))
        repeats.append(summarise_placebo(findings))
    return pool_repeats(repeats)


def placebo_plans(store: ImageStore, plan: Plan, options: ClassifierOptions) -> Iterator[tuple[Plan, np.ndarray]]:
    """Yield the plan of every repeat, and the signs that its design would have given its items, [S, I]."""
    for repeat in range(options.placebo):
        yield make_placebo(store.manifest, plan.parts, options, seed=options.split_seed + 1 + repeat)


def summarise_placebo(findings: list[ClassFindings]) -> PlaceboRepeat:
    """Return one repeat in numbers: counts of p-values, of those at most 0.05, and the list."""
    n, n_small, n_test = _count_p_values(findings)
    n_rare, n_rare_small, n_rare_test = _count_p_values([f for f in findings if f.counts.share < RARE_SHARE])
    return PlaceboRepeat(
        n_listed=sum(f.lists.n_flagged for f in findings),
        n_p_values=n,
        n_small=n_small,
        n_test_groups=n_test,
        n_rare_p_values=n_rare,
        n_rare_small=n_rare_small,
        n_rare_test_groups=n_rare_test,
    )


def _count_p_values(findings: list[ClassFindings]) -> tuple[int, int, int]:
    """Count the p-values of some classes, those of at most 0.05, and the test groups of the classes that have any."""
    p = [np.asarray(f.groups["p_value"], dtype=np.float64) for f in findings]
    tested = [f.counts.n_test_groups for f, own in zip(findings, p, strict=True) if np.isfinite(own).any()]
    return sum(int(np.isfinite(v).sum()) for v in p), sum(int((v <= 0.05).sum()) for v in p), sum(tested)


def pool_repeats(repeats: list[PlaceboRepeat]) -> Placebo:
    """Return the shares over all repeats, in all classes and in rare ones."""
    return Placebo(
        repeats=tuple(repeats),
        n_repeats=len(repeats),
        n_with_list=sum(r.n_listed > 0 for r in repeats),
        every=_pooled_share([(r.n_p_values, r.n_small, r.n_test_groups) for r in repeats]),
        rare=_pooled_share([(r.n_rare_p_values, r.n_rare_small, r.n_rare_test_groups) for r in repeats]),
    )


def _pooled_share(counts: list[tuple[int, int, int]]) -> PlaceboShare | None:
    """Return the share with METHODS' band .05 +- 2 sqrt(.0475 (1/m + 1/n)/repeats); None without any p-value.

    There are m canary groups and n test groups per repeat.
    """
    n, n_small, n_test = (sum(column) for column in zip(*counts, strict=True))
    if not n:
        return None
    m, tests = n / len(counts), n_test / len(counts)
    band = 2 * np.sqrt(0.0475 * (1 / m + 1 / tests) / len(counts))
    return PlaceboShare(
        share=n_small / n, low=0.05 - band, high=0.05 + band, canary_groups_each=m, test_groups_each=tests
    )
