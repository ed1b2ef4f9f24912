"""Before and after: two runs class by class and patient by patient, with intervals (``memorisk compare``).

The differences of the groups that both runs scored form a groups x seeds table like any other, and its two-way
interval counts groups and seeds as the units they are. Seeds are paired in their order: the same seeds
share their halves and their start where images and split are the same; other seeds are independent trainings, of
which any may be paired with any. With different numbers of seeds only the groups are paired.
"""

import os
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

from memorisk.audits.classifier.attack_numbers import ALL
from memorisk.audits.classifier.evidence import SCORES, Evidence, evidence_from_table
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.classifier.marks import marked
from memorisk.audits.classifier.result import ClassifierSummary, ClassifierVerdict, DenoisingUtility
from memorisk.audits.rendering import COMPARISON_PAGE, REPORT, load_result, render
from memorisk.report.flagged import flagged_counts
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, one_line, read_guard
from memorisk.runs.files import write_json, write_table, write_text
from memorisk.runs.folder import read_config
from memorisk.scores.memorization import group_table
from memorisk.statistics.intervals.means import difference_interval, two_way_interval
from memorisk.statistics.verdicts.scales import LossScale

SUMMARY = "comparison.json"
OWN_UNITS = (
    "M is in standard deviations of the gaps of unseen images, of each run's own: two such units do not subtract, and "
    "no difference of M is shown. Compare the patients flagged and the AUCs of attacks"
)


@dataclass(frozen=True)
class Comparison:
    """The second run less the first.

    Attributes:
        per_class: ``label, n_groups, n_seeds, difference, low, high``, and for both runs ``mean_first,
            mean_first_low, mean_first_high, tier_first, flagged_first, testable_first``; no
            number is flagged where none could be. No difference is known where `own_units`.
        per_group: ``label, group, M_first, M_second, difference, low, high, flagged_first, flagged_second``; M here
            is the mean over the group's images, and its interval is over seeds.
        aucs: ``attack, auc_first, low_first, high_first, auc_second, low_second, high_second``.
        notes: Notes on what could not be compared, and on what else differs between the runs.
        names: Data set and model of each run, for the head of the page.
        redact: One of the runs leaves ids out of its report; so does the page.
        own_units: The M of each run is in a unit of its own, as of runs of generators; the first note says so.
    """

    per_class: pd.DataFrame
    per_group: pd.DataFrame
    aucs: pd.DataFrame
    notes: list[str]
    names: tuple[str, str] = ("first", "second")
    redact: bool = False
    own_units: bool = False

    def save(self, folder: Path) -> None:
        """Write the tables, a JSON of the classes, and ``report.html``.

        Raises:
            InputError: The folder holds anything but an earlier comparison, or cannot be made.
        """
        check_folder(folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_table(folder / "per_class.parquet", self.per_class)
        write_table(folder / "per_group.parquet", self.per_group)
        write_table(folder / "aucs.parquet", self.aucs)
        write_json(folder / SUMMARY, {"per_class": self.per_class.to_dict("records"), "notes": self.notes})
        write_text(folder / REPORT, render(COMPARISON_PAGE, self))


def check_folder(folder: Path) -> None:
    """Refuse a file, or a folder that holds anything but an earlier comparison: a run has tables of that name.

    Raises:
        InputError: It is such a folder.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {one_line(folder)} is a file: name a folder that is new or empty")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SUMMARY).is_file():
        raise InputError(f"--out {one_line(folder)} holds other files: name a folder that is new or empty")
    parent = next(p for p in folder.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"--out {one_line(folder)} cannot be made: {one_line(parent)} may not be written to")


def compare(first: str | Path, second: str | Path) -> Comparison:
    """Compare two finished runs on the same images.

    Args:
        first: Run folder, say before a defence or a removal.
        second: Run folder after it.

    Returns:
        Differences, second less first.

    Raises:
        InputError: A folder holds no finished run, or a damaged one, or the runs share no scored class.
    """
    with read_guard(f"{first} or {second}"):
        return _compare_sound_runs(first, second)


def _compare_sound_runs(first: str | Path, second: str | Path) -> Comparison:
    """Compare two runs whose files were checked, as `compare` does.

    Raises:
        InputError: As there.
    """
    (evidence_a, result_a), (evidence_b, result_b) = (_load(Path(f)) for f in (first, second))
    if (units := [_scale(result).unit for result in (result_a, result_b)])[0] != units[1]:
        raise InputError(
            f"{one_line(first)} has its losses in {units[0]} and {one_line(second)} in {units[1]}: compare two runs of "
            "classifiers, or two of generators"
        )
    own_units = _scale(result_a).unit_of_run
    notes = [*([OWN_UNITS] if own_units else []), *_differences(evidence_a, evidence_b, result_a, result_b)]
    rows, groups = [], []
    for label in sorted(set(evidence_a.items.label) | set(evidence_b.items.label)):
        tables = [_class_table(e, str(label)) for e in (evidence_a, evidence_b)]
        both = sorted(set(tables[0].index) & set(tables[1].index))
        if not both:
            missing = [n for n, t in zip(("first", "second"), tables, strict=True) if t.empty]
            where = (
                f"not scored in the {' and the '.join(missing)} run" if missing else "no group was scored in both runs"
            )
            notes.append(f"class {one_line(label, 80)}: {where}")
            continue
        values = [t.loc[both].to_numpy() for t in tables]
        rows.append(_class_row(str(label), values, result_a, result_b))
        groups.append(_group_rows(str(label), both, values, result_a, result_b))
    if not rows:
        raise InputError(
            f"{one_line(first)} and {one_line(second)} share no class with groups that both scored: there is nothing "
            "to compare"
        )
    tables = pd.DataFrame(rows), pd.concat(groups, ignore_index=True)
    if own_units:
        tables = tuple(table.assign(**dict.fromkeys(("difference", "low", "high"), float("nan"))) for table in tables)
    return Comparison(
        tables[0],
        marked(marked(tables[1], Path(first), "marked_first"), Path(second), "marked_second"),
        _aucs(result_a, result_b),
        notes,
        names=(_name(result_a), _name(result_b)),
        redact=any(bool(read_config(Path(f)).get("redact")) for f in (first, second)),
        own_units=own_units,
    )


def _item_names(evidence: Evidence) -> set[tuple[str, ...]]:
    """Return the image, label, group and split of every item."""
    items = evidence.items
    parts = (items.image, items.label, items.group, items.split)
    return set(zip(*(part.astype(str).tolist() for part in parts), strict=True))


def _differences(first: Evidence, second: Evidence, result_a: Result, result_b: Result) -> list[str]:
    """Collect the settings in which the runs differ beyond what is compared."""
    notes = []
    if len(first.seeds) != len(second.seeds):
        notes.append(
            f"{len(first.seeds)} and {len(second.seeds)} seeds: patients are paired, seeds are not; fewer seeds can "
            "flag fewer, so that the numbers flagged do not compare"
        )
    verdicts = [ClassifierVerdict.read(result.verdict) for result in (result_a, result_b)]
    noticed = [_noticeable_gap(result) for result in (result_a, result_b)]
    if noticed[0] != noticed[1] and not _scale(result_a).unit_of_run:
        notes.append(
            f"the first run would have noticed a patient's gap {noticed[0]}, the second {noticed[1]}: whichever "
            "notices less flags fewer"
        )
    if _item_names(first) != _item_names(second):
        notes.append("the runs are on different images or groups: only what both scored is compared")
    elif verdicts[0].data_hash != verdicts[1].data_hash:
        notes.append("the runs name the same images and groups and read other files: other pixels, or other losses")
    if first.design != second.design:
        notes.append(
            f"the designs differ ({first.design}, {second.design}): their models were trained on different numbers of "
            "images, which by itself moves M"
        )
    return notes


def _noticeable_gap(result: Result) -> str:
    """Word the smallest gap that a run would have noticed with probability `POWER`."""
    if "noticeable" not in result.verdict:
        return "of unknown size"
    noticeable = ClassifierVerdict.read(result.verdict).noticeable
    return (
        "of no size"
        if noticeable is None or isnan(noticeable.gap)
        else f"from {_scale(result).amount(f'{noticeable.gap:.2g}')} on"
    )


def _scale(result: Result) -> LossScale:
    """Return the scale of the losses of a run."""
    return ClassifierSummary.read(result.summary).units.loss_scale


def _name(result: Result) -> str:
    summary = ClassifierSummary.read(result.summary)
    training, utility = summary.models.training, summary.utility
    parts = [summary.dataset, summary.models.model]
    if training.get("epochs") is not None:
        parts.append(f"{training['epochs']} epochs at {training.get('lr'):g}")
    if isinstance(utility, DenoisingUtility):
        parts.append(utility.words)
    elif utility is not None and not isnan(utility.test_accuracy):
        parts.append(f"accuracy on unseen images {utility.test_accuracy:.3f}")
    return ", ".join([*(p for p in parts if p), f"verdict {result.status}"])


def _load(folder: Path) -> tuple[Evidence, Result]:
    result = load_result(folder)
    if not (folder / SCORES).is_file():
        made_by = result.verdict.get("audit")
        which = f" (it is a run of audit {one_line(made_by, 40)})" if made_by else ""
        raise InputError(
            f"{one_line(folder)} holds no scores of models trained with and without its patients{which}: compare takes "
            "two runs of audit classifier"
        )
    return evidence_from_table(read_scores(folder / SCORES), _scale(result)), result


def _class_table(evidence: Evidence, label: str) -> pd.DataFrame:
    """Return the signed mean gap of each scored group of a class, [G, S], by group."""
    items, sign = evidence.items, evidence.sign
    scored = np.flatnonzero((items.label == label) & (items.split == "canary") & (sign != 0).any(axis=0))
    table = group_table(evidence.gap[:, scored], sign[:, scored], items.group[scored].astype(str))
    return pd.DataFrame(table.values, index=table.group)


def _class_row(label: str, values: list[np.ndarray], first: Result, second: Result) -> dict[str, object]:
    interval = difference_interval(values[1], values[0])
    row: dict[str, object] = {
        "label": label,
        "n_groups": len(values[0]),
        "n_seeds": interval.n_seeds,
        "difference": interval.estimate,
        "low": interval.low,
        "high": interval.high,
    }
    for name, own in zip(("first", "second"), values, strict=True):
        mean = two_way_interval(own)
        row |= {f"mean_{name}": mean.estimate, f"mean_{name}_low": mean.low, f"mean_{name}_high": mean.high}
    for name, result in (("first", first), ("second", second)):
        at = result.per_class["label"].tolist().index(label)
        n_flagged = flagged_counts(result.per_class)[at]
        row |= {f"tier_{name}": result.per_class["tier"].iloc[at], f"testable_{name}": not isnan(n_flagged)}
        row |= {f"flagged_{name}": None if isnan(n_flagged) else int(n_flagged)}
    return row


def _group_rows(label: str, names: list[str], values: list[np.ndarray], first: Result, second: Result) -> pd.DataFrame:
    rows = {"label": [label] * len(names), "group": names}
    rows |= {f"M_{n}": _row_means(v) for n, v in (("first", values[0]), ("second", values[1]))}
    limits = np.array([_seed_difference(a, b) for a, b in zip(*values, strict=True)])
    rows |= {"difference": limits[:, 0], "low": limits[:, 1], "high": limits[:, 2]}
    table = pd.DataFrame(rows)
    for name, result in (("first", first), ("second", second)):
        own = result.per_group[result.per_group["label"] == label].set_index("group")["flagged"]
        table[f"flagged_{name}"] = own.reindex(names).fillna(False).to_numpy(dtype=bool)
    return table


def _row_means(values: np.ndarray) -> np.ndarray:
    there = np.isfinite(values)
    return np.where(there, values, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)


def _seed_difference(first: np.ndarray, second: np.ndarray) -> tuple[float, float, float]:
    """Return one patient's difference with its interval over seeds; NaN limits below two seeds on a side.

    ``half^2 = t_1^2 v_1 / n_1 + t_2^2 v_2 / n_2``, a t quantile for each run's own variance, as where runs differ in
    their numbers of seeds. Simulated, it covers 95 to 98 %; Welch's covers 92 % with 3 noisy seeds against 8 calm ones.
    """
    a, b = first[np.isfinite(first)], second[np.isfinite(second)]
    difference = float(b.mean() - a.mean())
    if min(len(a), len(b)) < 2 or a.std() + b.std() == 0:
        return difference, float("nan"), float("nan")
    half = float(np.hypot(*(scipy.stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)) for x in (a, b))))
    return difference, difference - half, difference + half


def _aucs(first: Result, second: Result) -> pd.DataFrame:
    halves = []
    for name, result in (("first", first), ("second", second)):
        every = result.attacks[result.attacks["label"] == ALL].set_index("attack")[["auc", "low", "high"]]
        halves.append(every.add_suffix(f"_{name}"))
    return halves[0].join(halves[1], how="inner").reset_index()
