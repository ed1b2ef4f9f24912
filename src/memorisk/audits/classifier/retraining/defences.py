"""Which defence helps, and what does it cost? Does a larger network expose more? The same audit of several arms.

METHODS section 1, "Defence"; paper 000, section 5, A.10, tables 4 and 11, figure 3. An arm is a regime of the training
or a network. Each is a whole audit in a folder of its own (``full``, ``lora``, ``dp-lora-8``; ``small_cnn``), on the
same parts, halves and seeds. This table compares them: what is remembered, who is flagged or found almost surely, what
the models are good for on unseen images against always answering the commonest class, what privacy is promised and
what label-noise canaries prove of it.
"""

from dataclasses import asdict
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.arms import NETWORKS, REGIMES, Axis, compared_in
from memorisk.audits.classifier.evidence import SCORES, Evidence, evidence_from_table
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.classifier.options import ClassifierOptions, options_from
from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.planning.rehearsal import ModelChooser, one_choice
from memorisk.audits.classifier.result import ClassifierSummary, ClassifierVerdict, DefenceResult, Privacy
from memorisk.audits.classifier.run import audit_recipe
from memorisk.audits.classifier.tables.subgroups import PATIENTS
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import REPORT, load_result, render
from memorisk.report.flagged import number_flagged
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, write_json, write_table, write_text
from memorisk.runs.folder import check_out_folder, open_run
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.memorization import group_table
from memorisk.statistics.effect_sizes import percent_change
from memorisk.statistics.intervals.means import (
    Interval,
    difference_interval,
    paired_share_difference,
    these_groups_interval,
    two_way_interval,
)
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson
from memorisk.statistics.memorization.patient_auc import SURE_AUC
from memorisk.statistics.quality.majority import Utility, against_majority
from memorisk.statistics.verdicts.levels import POWER, share_words

_PRIVACY_COLUMNS = (
    *("epsilon", "delta", "noise_multiplier", "replace_one_epsilon", "per_patient_epsilon", "largest_group"),
    *("bound", "bound_largest", "bound_pairs"),
)
_ERROR = 0.05
"""Probability that the limits of a difference miss it for any of the arms."""
_NOTHING = Proportion(nan, nan, nan, 0, 0, nan)

DEFENCE_COLUMNS = {
    "regime": "name of the regime, with its epsilon; where networks are compared, network: the network",
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
    "parameters": "number of the network's parameters",
    "flagged_share": "share of scored patients on the list that is shown; flagged_share_low, flagged_share_high: exact",
    "sure_share": f"share of patients with attack AUC from {SURE_AUC} on; sure_share_low, sure_share_high: exact",
    "sure_chance": "the same by chance",
    "m_difference": "mean M less that of the reference, of the same patients; m_difference_low, m_difference_high, "
    "over patients and seeds. These limits, and those of the next two, hold for all arms together",
    "flagged_difference": "flagged_share less that of the reference, paired; flagged_difference_low, _high",
    "sure_difference": "sure_share less that of the reference, paired; sure_difference_low, sure_difference_high",
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
    """Audit a classifier under each regime, or each of several networks, and compare.

    Args:
        images: Images, as for `memorisk.audit_classifier`.
        out: Folder for one run folder per regime or network, the table, and ``report.html``. Those that an earlier
            command left there are in the table, too.
        progress: Called with (stage, done, total).
        **settings: Any field of ``ClassifierOptions``; ``regime`` and ``epsilon``, or ``model``, name several.

    Returns:
        The table, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MemoriskError: A training failed; what is done is kept.
    """
    options = options_from(settings)
    folder = Path(out)
    axis = _axis(folder, options)
    arms, of_comparison = _arms(axis, options), {"run": {"comparison": axis.many}}
    check_out_folder(folder, of_comparison, identity=["run"])
    if (folder / "verdict.json").is_file():
        raise InputError(f"--out {one_line(folder)} holds a single audit: name another folder to compare several")
    choose = one_choice()
    _plan(images, folder, arms, progress, choose)  # refuses before another was trained for hours
    config = {"images": str(images), "out": str(folder), **asdict(options), **of_comparison}
    names = Pseudonyms.from_options(options).knowing(config)
    results: dict[str, Result] = {}
    with open_run(folder, names.settings(config), identity=["run"]) as run:
        for name, arm in arms.items():
            stage = lambda s, d, n, name=name: progress(f"{name}: {s}", d, n)  # noqa: E731
            result = audit_recipe(images, folder / name, arm, stage, choose=choose)
            assert isinstance(result, Result)
            results[name] = result
        results = _in_order(axis, _merge_earlier_arms(folder, axis, results))
        comparison = DefenceResult(defence_table(folder, results, axis), results, next(iter(results)), axis)
        write_table(run.path / axis.table, comparison.table, recorded=True)
        summary = {axis.many: comparison.table.to_dict("records"), "reference": comparison.reference}
        write_json(run.path / axis.summary, summary, recorded=True)
        write_text(run.path / REPORT, render(axis.page, comparison))
    return comparison


def _axis(folder: Path, options: ClassifierOptions) -> Axis:
    """Return the difference between the arms; a single one joins those of the folder."""
    if len(options.model) > 1:
        return NETWORKS
    return REGIMES if len(options.arms) > 1 else compared_in(folder) or REGIMES


def _arms(axis: Axis, options: ClassifierOptions) -> dict[str, ClassifierOptions]:
    """Return the options of each audit by the name of its folder.

    Raises:
        InputError: A network by no name joins others.
    """
    if axis is NETWORKS and "auto" in options.model:
        raise InputError("model auto is one of the others by another name: name the network that joins them")
    return options.networks if axis is NETWORKS else options.arms


def _merge_earlier_arms(folder: Path, axis: Axis, results: dict[str, Result]) -> dict[str, Result]:
    """Return the arms that an earlier command left in the folder, in their order, then those of this one.

    Raises:
        InputError: They were of other images or seeds, or differ in what is not compared.
    """
    if not (folder / axis.summary).is_file():
        return results
    before = [str(row[axis.name]) for row in read_json(folder / axis.summary)[axis.many]]
    every: dict[str, Result] = {}
    for name in before:
        if name in results or not (folder / name / "verdict.json").is_file():
            continue
        every[name] = load_result(folder / name)
        made_of = _made_of(every[name], axis)
        if any(_made_of(result, axis) != made_of for result in results.values()):
            other = "network" if axis is REGIMES else "regime"
            raise InputError(
                f"{one_line(folder / name)} was made of other images or seeds, or by another {other}: give the same, "
                "or remove that folder"
            )
    order = dict.fromkeys([*before, *results])
    return {name: (results | every)[name] for name in order if name in results or name in every}


def _made_of(result: Result, axis: Axis) -> tuple[object, ...]:
    """Return what arms must share to be compared."""
    verdict, summary = ClassifierVerdict.read(result.verdict), ClassifierSummary.read(result.summary)
    privacy = summary.privacy or Privacy()
    promised = None if privacy.promise is None else privacy.promise.epsilon
    other = (summary.models.model,) if axis is REGIMES else (privacy.regime, promised)
    return verdict.data_hash, verdict.seeds, verdict.design, *other


def _in_order(axis: Axis, results: dict[str, Result]) -> dict[str, Result]:
    """Return regimes as they were named, and networks by their number of parameters, the smallest first."""
    if axis is REGIMES:
        return results
    return dict(sorted(results.items(), key=lambda item: _parameters(item[1]) or inf))


def _parameters(result: Result) -> int | None:
    return ClassifierSummary.read(result.summary).models.n_parameters


def plan_defences(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> dict[str, DryRun]:
    """Return the plan of each regime or network, by its name; arguments and errors as for `audit_defences`."""
    options, folder = options_from(settings), Path(out)
    return _plan(images, folder, _arms(_axis(folder, options), options), progress, one_choice())


def _plan(
    images: str | Path, folder: Path, arms: dict[str, ClassifierOptions], progress: Progress, choose: ModelChooser
) -> dict[str, DryRun]:
    """Plan each arm, all with one choice of the number of models."""
    plans = {}
    for name, arm in arms.items():
        planned = audit_recipe(images, folder / name, arm, progress, dry_run=True, choose=choose)
        assert isinstance(planned, DryRun)
        plans[name] = planned
    return plans


def defence_table(folder: Path, results: dict[str, Result], axis: Axis = REGIMES) -> pd.DataFrame:
    """Return a row for each arm, compared with the first (`DEFENCE_COLUMNS`).

    Args:
        folder: Holds a finished run folder of each arm.
        results: Each run's result by the name of its folder.
        axis: Difference between the arms.

    Raises:
        InputError: A run scored no class.
    """
    evidence = {name: evidence_from_table(read_scores(folder / name / SCORES)) for name in results}
    first = next(iter(results))
    reference = _worst(results[first])
    before, everyone_before = _m_table(evidence[first], reference), _m_table(evidence[first], None)
    level = 1 - _ERROR / max(len(results) - 1, 1)
    rows = []
    for name, result in results.items():
        use = held_out_utility(evidence[name])
        everyone_here = _m_table(evidence[name], None)
        everyone = two_way_interval(everyone_here.to_numpy())
        worst = _worst(result)
        here = _m_table(evidence[name], reference)
        row: dict[str, Any] = {axis.name: name, "status": result.status, "parameters": _parameters(result)}
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
        row |= {"noticeable_gap": nan if noticeable is None else noticeable.gap}
        row |= _shares(result, results[first], level, same=name == first)
        both = everyone_before.index.intersection(everyone_here.index)
        own, others = everyone_here.loc[both].to_numpy(), everyone_before.loc[both].to_numpy()
        compared = name != first and len(both) > 0
        row |= _limits("m_difference", difference_interval(own, others, level) if compared else _NOTHING)
        rows.append(row | _privacy_columns(ClassifierSummary.read(result.summary).privacy))
    return pd.DataFrame(rows)


def _shares(result: Result, reference: Result, level: float, *, same: bool) -> dict[str, float]:
    """Return the shares of patients that are flagged and that are found almost surely, and their differences.

    A share is NaN where no patient could be flagged, or where attacks on single patients have no null.
    """
    own, before = _patients(result), _patients(reference)
    both = own.index.intersection(before.index)
    row = {"sure_chance": _sure_point(result)[1]}
    for name in ("flagged", "sure"):
        values = own[name].dropna().to_numpy(dtype=bool)
        share = clopper_pearson(int(values.sum()), len(values)) if len(values) else _NOTHING
        row |= _limits(f"{name}_share", share)
        pairs = pd.DataFrame({"here": own[name].loc[both], "before": before[name].loc[both]}).dropna().astype(bool)
        paired = _NOTHING if same or pairs.empty else paired_share_difference(pairs["here"], pairs["before"], level)
        row |= _limits(f"{name}_difference", paired)
    return row


def _patients(result: Result) -> pd.DataFrame:
    """Return whether each scored patient is flagged and found almost surely, by patient; missing: not tested."""
    table, point = result.tables.get(PATIENTS), _sure_point(result)[0]
    if table is None:  # a run of an older version joins others
        return pd.DataFrame({"flagged": [], "sure": []})
    flagged, auc = table["flagged"].to_numpy(dtype=bool), table["auc"].to_numpy(dtype=float)
    tested = number_flagged(result.per_class, int(flagged.sum())) is not None
    own = {
        "flagged": np.where(tested, flagged, nan),
        "sure": np.where(np.isfinite(auc) & np.isfinite(point), auc >= point - 1e-6, nan),
    }
    return pd.DataFrame(own, index=pd.Index(table["group"].astype(str)))


def _sure_point(result: Result) -> tuple[float, float]:
    """Return the first AUC of the curve from `SURE_AUC` on, and the share of patients that reaches it by chance."""
    curve = ClassifierSummary.read(result.summary).patient_auc
    if curve is None:
        return nan, nan
    at = int(np.searchsorted(curve.auc, SURE_AUC - 1e-6))
    return curve.auc[at], curve.chance[at]


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
        raise InputError("no class was scored, so that there is nothing to compare the audits by")
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


def _limits(name: str, interval: Interval | Proportion) -> dict[str, float]:
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
