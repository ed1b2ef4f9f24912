"""Which defence helps, and what does it cost? The same audit under several regimes, side by side.

METHODS section 1, "Defence"; paper 000, section 5, A.10, tables 4 and 11, figure 3. Each regime is a whole audit in a
folder of its own (``full``, ``lora``, ``dp-lora-8``); this table compares them: what is remembered, what
the models are good for on unseen images against always answering the commonest class, what privacy is promised and
what label-noise canaries prove of it.
"""

from dataclasses import asdict
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.dry_run import DryRun
from memorisk.audits.classifier.evidence import SCORES, Evidence, evidence_from_table
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.classifier.options import ClassifierOptions, options_from
from memorisk.audits.classifier.rehearsal import ModelChooser, one_choice
from memorisk.audits.classifier.result import ClassifierSummary, ClassifierVerdict, DefenceResult, Privacy
from memorisk.audits.classifier.run import audit_recipe
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import DEFENCES_PAGE, load_result, render
from memorisk.report.flagged import number_flagged
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, write_json, write_table, write_text
from memorisk.runs.folder import check_out_folder, open_run
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.memorization import group_table
from memorisk.statistics.effect_sizes import percent_change
from memorisk.statistics.intervals import Interval, difference_interval, these_groups_interval, two_way_interval
from memorisk.statistics.quality.utility import Utility, against_majority
from memorisk.statistics.verdicts.levels import POWER, share_words

TABLE, SUMMARY, REPORT = "defence.parquet", "defence.json", "report.html"
_PRIVACY_COLUMNS = (
    *("epsilon", "delta", "noise_multiplier", "replace_one_epsilon", "per_patient_epsilon", "largest_group"),
    *("bound", "bound_largest", "bound_pairs"),
)


DEFENCE_COLUMNS = {
    "regime": "name of the regime, with its epsilon",
    "status": "verdict of its audit",
    "accuracy": "share of unseen images answered right, mean over the models; accuracy_low, accuracy_high",
    "balanced": "the same, mean over classes; balanced_low, balanced_high",
    "majority": "accuracy of always answering the commonest class",
    "gain": "accuracy less that, on the same images; gain_low, gain_high",
    "mean_m": "mean M over scored groups; mean_m_low, mean_m_high",
    "worst_class": "class with the largest mean M: a maximum, and so selected; worst_m, worst_m_low, worst_m_high",
    "reference_class": "worst class of the reference regime; reference_m and its limits: its M here",
    "change": "its M here less that under the reference; change_low, change_high, over groups and seeds",
    "change_percent": "the paper's column: change over the reference's absolute M",
    "flagged": "groups on the verdict's list; empty: none could be on it",
    "noticeable_gap": f"smallest gap of one patient, in nats, noticed in {share_words(POWER)}; empty: none",
    "epsilon": "promised for one image added or removed, at delta",
    "replace_one_epsilon": "what follows for one image replaced",
    "per_patient_epsilon": "for all images of a patient, of which there are at most largest_group; empty without ids",
    "bound": "95 % lower bound of replace-one epsilon, from bound_pairs pairs; bound_largest: the most they can prove",
}


@takes_settings(ClassifierOptions)
def audit_defences(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> DefenceResult:
    """Audit a classifier under each regime and compare.

    Args:
        images: Images, as for `memorisk.audit_classifier`.
        out: Folder for one run folder per regime, the table, and ``report.html``. Regimes that an earlier command left
            there are in the table, too.
        progress: Called with (stage, done, total).
        **settings: Any field of ``ClassifierOptions``; ``regime`` and ``epsilon`` name several.

    Returns:
        The table, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MemoriskError: A training failed; what is done is kept.
    """
    options = options_from(settings)
    folder, arms = Path(out), options.arms
    check_out_folder(folder, {}, identity=[])
    if (folder / "verdict.json").is_file():
        raise InputError(
            f"--out {one_line(folder)} holds the audit of a single regime: name another folder to compare several"
        )
    choose = one_choice()
    _plan(images, folder, options, progress, choose)  # refuses before another was trained for hours
    config = {"images": str(images), "out": str(folder), **asdict(options), "run": {"comparison": "regimes"}}
    names = Pseudonyms.from_options(options).knowing(config)
    results: dict[str, Result] = {}
    with open_run(folder, names.settings(config), identity=["run"]) as run:
        for name, arm in arms.items():
            stage = lambda s, d, n, name=name: progress(f"{name}: {s}", d, n)  # noqa: E731
            result = audit_recipe(images, folder / name, arm, stage, choose=choose)
            assert isinstance(result, Result)
            results[name] = result
        results = _merge_earlier_regimes(folder, results)
        comparison = DefenceResult(defence_table(folder, results), results, next(iter(results)))
        write_table(run.path / TABLE, comparison.table, recorded=True)
        summary = {"regimes": comparison.table.to_dict("records"), "reference": comparison.reference}
        write_json(run.path / SUMMARY, summary, recorded=True)
        write_text(run.path / REPORT, render(DEFENCES_PAGE, comparison))
    return comparison


def _merge_earlier_regimes(folder: Path, results: dict[str, Result]) -> dict[str, Result]:
    """Return the regimes that an earlier command left in the folder, in their order, then those of this one.

    Raises:
        InputError: They were of other images or seeds.
    """
    if not (folder / SUMMARY).is_file():
        return results
    every: dict[str, Result] = {}
    for row in read_json(folder / SUMMARY)["regimes"]:
        name = str(row["regime"])
        if name in results or not (folder / name / "verdict.json").is_file():
            continue
        every[name] = load_result(folder / name)
        made_of = _made_of(every[name])
        if any(_made_of(result) != made_of for result in results.values()):
            raise InputError(
                f"{one_line(folder / name)} was made of other images or seeds: give the same, or remove that folder"
            )
    before = [str(row["regime"]) for row in read_json(folder / SUMMARY)["regimes"]]
    order = dict.fromkeys([*before, *results])
    return {name: (results | every)[name] for name in order if name in results or name in every}


def _made_of(result: Result) -> tuple[str, tuple[int, ...]]:
    """Return what regimes must share to be compared."""
    verdict = ClassifierVerdict.read(result.verdict)
    return verdict.data_hash, verdict.seeds


def plan_defences(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> dict[str, DryRun]:
    """Return the plan of each regime, by its name; arguments and errors as for `audit_defences`."""
    return _plan(images, Path(out), options_from(settings), progress, one_choice())


def _plan(
    images: str | Path, folder: Path, options: ClassifierOptions, progress: Progress, choose: ModelChooser
) -> dict[str, DryRun]:
    """Plan each regime, all with one choice of the number of models."""
    plans = {}
    for name, arm in options.arms.items():
        planned = audit_recipe(images, folder / name, arm, progress, dry_run=True, choose=choose)
        assert isinstance(planned, DryRun)
        plans[name] = planned
    return plans


def defence_table(folder: Path, results: dict[str, Result]) -> pd.DataFrame:
    """Return a row for each regime, compared with the first (`DEFENCE_COLUMNS`).

    Args:
        folder: Holds a finished run folder each regime.
        results: Each run's result by the name of its folder.

    Raises:
        InputError: A run scored no class.
    """
    evidence = {name: evidence_from_table(read_scores(folder / name / SCORES)) for name in results}
    first = next(iter(results))
    reference = _worst(results[first])
    before = _m_table(evidence[first], reference)
    rows = []
    for name, result in results.items():
        use = held_out_utility(evidence[name])
        everyone = two_way_interval(_m_table(evidence[name], None).to_numpy())
        worst = _worst(result)
        here = _m_table(evidence[name], reference)
        row: dict[str, Any] = {"regime": name, "status": result.status}
        for column in ("accuracy", "balanced", "gain"):
            share = getattr(use, column)
            row |= {column: share.value, f"{column}_low": share.low, f"{column}_high": share.high}
        row |= {"majority": use.majority, "n_test_groups": use.n_groups, "n_models": use.n_models}
        row |= _limits("mean_m", everyone)
        row |= {
            "worst_class": worst,
            **_limits("worst_m", these_groups_interval(_m_table(evidence[name], worst).to_numpy())),
        }
        row |= {"reference_class": reference, **_limits("reference_m", two_way_interval(here.to_numpy()))}
        row |= _change(before, here, same=name == first)
        n_flagged = int(np.asarray(result.per_class["verdict_flagged"]).sum())
        row |= {"flagged": number_flagged(result.per_class, n_flagged)}
        noticeable = ClassifierVerdict.read(result.verdict).noticeable
        row |= {"noticeable_gap": nan if noticeable is None else noticeable.gap_nats}
        rows.append(row | _privacy_columns(ClassifierSummary.read(result.summary).privacy))
    return pd.DataFrame(rows)


def held_out_utility(evidence: Evidence) -> Utility:
    """Measure how good the models of an audit are on test images, against always naming the commonest class."""
    items = evidence.items
    test = items.split == "test"
    names, counts = np.unique(items.label[~test].astype(str), return_counts=True)
    correct = np.concatenate([evidence.correct_a[:, test], evidence.correct_b[:, test]])
    return against_majority(correct, items.label[test], items.group[test], str(names[counts.argmax()]))


def _worst(result: Result) -> str:
    """Return the class with the largest mean M.

    Raises:
        InputError: No class has one.
    """
    means = result.per_class.dropna(subset=["mean"])
    if means.empty:
        raise InputError("no class was scored, so that there is nothing to compare the regimes by")
    return str(means.sort_values(["mean", "label"], ascending=[False, True])["label"].iloc[0])


def _m_table(evidence: Evidence, label: str | None) -> pd.DataFrame:
    """Return the mean signed gap of each scored group, [G, S], of one class or of all."""
    items, sign = evidence.items, evidence.sign
    chosen = (items.split == "canary") & (sign != 0).any(axis=0)
    if label is not None:
        chosen &= items.label == label
    at = np.flatnonzero(chosen)
    table = group_table(evidence.gap[:, at], sign[:, at], items.group[at].astype(str))
    return pd.DataFrame(table.values, index=table.group)


def _limits(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _change(before: pd.DataFrame, here: pd.DataFrame, *, same: bool) -> dict[str, float]:
    """Return M of the reference's worst class here less that under the reference, on the groups of both."""
    both = before.index.intersection(here.index)
    nothing = {"change": float("nan"), "change_low": float("nan"), "change_high": float("nan")}
    if same or both.empty:
        return nothing | {"change_percent": float("nan")}
    interval = difference_interval(here.loc[both].to_numpy(), before.loc[both].to_numpy())
    means = [two_way_interval(t.loc[both].to_numpy()).estimate for t in (before, here)]
    return _limits("change", interval) | {"change_percent": percent_change(*means)}


def _privacy_columns(privacy: Privacy | None) -> dict[str, float]:
    promise, bound = (None, None) if privacy is None else (privacy.promise, privacy.bound)
    columns = dict.fromkeys(_PRIVACY_COLUMNS, nan)
    if promise is not None:
        promised = {name: getattr(promise, name) for name in _PRIVACY_COLUMNS if hasattr(promise, name)}
        columns |= {name: value for name, value in promised.items() if value is not None}
    if bound is not None:
        columns |= {"bound": bound.low, "bound_largest": bound.largest_provable, "bound_pairs": bound.n_pairs}
    return columns
