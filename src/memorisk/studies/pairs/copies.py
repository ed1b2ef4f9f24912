"""``memorisk bench copies``: which detector still recognises an image that was blurred, turned, darkened, compressed?

Paper 004, section 4.2 (figures 4, 5 and 1), with thresholds by one rule for all detectors and intervals over
patients as in METHODS section 4. The benchmark can be resumed as `reid`: a detector leaves one file per family.

The tables hold recall of augmented copies, thresholds, and paired differences. Every patient counts once: a share is
the mean over patients of each one's own share of recognised copies. Papers count every image alike; a further
column holds that share. Intervals are over patients, with the thresholds as validation made them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.copies.copy_detection import paired_hits
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.multiple_testing import holm
from memorisk.statistics.pairs.auc import macro_average
from memorisk.statistics.pairs.decisions import identity_difference, identity_share
from memorisk.studies.engine.study import Study, check_entry, check_study, run_study
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.pairs.cells import copies_parts, copy_pairs, run_copies
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.figures import figure_1_frame, read_board
from memorisk.studies.pairs.options import BenchCopiesOptions, copies_options
from memorisk.studies.pairs.page import copies_page, pair_study
from memorisk.studies.pairs.plan import BenchmarkSetup, PairBenchPlan, copies_cost, plan_of, prepare
from memorisk.studies.pairs.results import COPIES_COLUMNS, MACRO, PairBenchmark, failures, limits, setup_tables
from memorisk.studies.pairs.scores import RULE_WORDS, RULES, CopiesScores, read_copies

ALL = "all, strongest"


def figure_4_table(measured: Sequence[CopiesScores]) -> StudyTable:
    """Tabulate the share of the strongest copies that are recognised.

    Args:
        measured: Finished detectors of the benchmark.
    """
    rows = []
    for m in measured:
        for rule in RULES:
            recalls, intervals = [], []
            for dataset in m.datasets:
                if np.isnan(m.cuts[rule][dataset].value):
                    continue
                share = m.strongest(rule, dataset)
                intervals.append(identity_share(share, m.groups[dataset]))
                row: dict[str, object] = {"detector": m.name, "rule": RULE_WORDS[rule], "dataset": dataset}
                recalls.append({**row, **limits("recall", intervals[-1]), **_image_shares(share, m.groups[dataset])})
            rows += _add_macro(recalls, {"recall": intervals}, len(m.datasets))
    note = (
        "The threshold of every detector comes from validation patients by one rule. At 50 % specificity half of the "
        "pairs of two patients count as copies: the rule compares detectors and is not a filter. Families are averaged "
        "within an image, images within a patient, patients within a data set."
    )
    why = "" if rows else "no detector was measured"
    return StudyTable("figure_4", "Strongest copies", pd.DataFrame(), pd.DataFrame(rows), note, why)


def recall_frame(measured: Sequence[CopiesScores]) -> pd.DataFrame:
    """Tabulate the recall of every family at every strength, macro-averaged too.

    The table has one row for each detector, threshold and data set, and one for their macro average.

    Args:
        measured: Finished detectors of the benchmark.
    """
    rows = []
    for m in measured:
        for rule in RULES:
            for family in m.families:
                for place, strength in enumerate(m.copies[family, m.datasets[0]].strengths):
                    rows += _recall_rows(m, rule, family, place, float(strength))
    return pd.DataFrame(rows)


def _recall_rows(m: CopiesScores, rule: str, family: str, place: int, strength: float) -> list[dict[str, object]]:
    recalls, intervals = [], []
    for dataset in m.datasets:
        if np.isnan(m.cuts[rule][dataset].value):
            continue
        hit = m.hits(rule, family, dataset, place)
        undefined = int(np.isnan(m.copies[family, dataset].scores[place]).sum())
        intervals.append(identity_share(hit, m.groups[dataset]))
        row: dict[str, object] = {"detector": m.name, "rule": RULE_WORDS[rule], "dataset": dataset}
        row |= {"family": family, "strength": strength, **limits("recall", intervals[-1])}
        recalls.append({**row, **_image_shares(hit, m.groups[dataset]), "n_undefined": undefined})
    return _add_macro(recalls, {"recall": intervals}, len(m.datasets))


def overall(frame: pd.DataFrame, datasets: int) -> pd.DataFrame:
    """Return the rows of the macro average; with one data set, its rows.

    Args:
        frame: Table with a column ``dataset``.
        datasets: Number of data sets.
    """
    if not len(frame) or datasets < 2:
        return frame
    return frame.take(np.flatnonzero(frame["dataset"] == MACRO).tolist())


def strongest_table(figure_5: pd.DataFrame) -> StudyTable:
    """Tabulate the recall of the strongest copies: one row per detector and threshold, one column per family.

    Args:
        figure_5: Rows of `recall_frame` after `overall`.
    """
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for record in figure_5.to_dict("records"):  # from the weakest to the strongest: the last one stays
        row = rows.setdefault(
            (record["detector"], record["rule"]), {"detector": record["detector"], "rule": record["rule"]}
        )
        family = str(record["family"])
        names = ("recall", "recall_low", "recall_high")
        row |= {name.replace("recall", family): record[name] for name in names}
    ours = pd.DataFrame(list(rows.values()))
    note = "The strongest of each family; every strength is in tables/recall.parquet and in figure 5."
    why = "" if rows else "no detector was measured"
    return StudyTable("strongest", "Strongest copies by family", pd.DataFrame(), ours, note, why)


def thresholds_table(measured: Sequence[CopiesScores]) -> StudyTable:
    """Tabulate thresholds, the data they are made from, and their shares among pairs of test patients.

    Args:
        measured: Finished detectors of the benchmark.
    """
    rows = []
    for m in measured:
        for rule in RULES:
            for dataset in m.datasets:
                cut = m.cuts[rule][dataset]
                row: dict[str, object] = {"detector": m.name, "dataset": dataset, "rule": RULE_WORDS[rule]}
                row |= {"threshold": cut.value, "made_from": cut.made_from}
                if dataset in m.pairs[TEST] and np.isfinite(cut.value):
                    pairs, groups = m.pairs[TEST][dataset], m.cell.division.groups
                    below = m.scores(TEST, dataset, "negative") < cut.value
                    row |= limits("specificity", identity_share(below, groups[pairs.negative.first].astype(str)))
                    if len(pairs.positive):
                        over = m.scores(TEST, dataset, "positive") >= cut.value
                        row |= limits("sensitivity", identity_share(over, groups[pairs.positive.first].astype(str)))
                rows.append(row)
    note = (
        "The last columns say what a threshold does to pairs of test patients, who did not make it. A mean of other "
        "data sets' thresholds (--no-identities mean), on the raw scale of the scores as the paper takes it, keeps no "
        "specificity: where it is far from the others', recall does not compare."
    )
    why = "" if rows else "no detector was measured"
    return StudyTable("thresholds", "Thresholds", pd.DataFrame(), pd.DataFrame(rows), note, why)


def differences_table(measured: Sequence[CopiesScores], reference: str) -> StudyTable:
    """Tabulate the recall of every detector less that of the reference, on the same strongest copies.

    Args:
        measured: Finished detectors of the benchmark.
        reference: Name of the detector that the others are compared with.
    """
    base = next((m for m in measured if m.name == reference), None)
    rows: list[dict[str, object]] = []
    if base is not None:
        kinds = [(rule, families) for families in ((ALL,), base.families) for rule in RULES]
        rows = [row for rule, families in kinds for row in _comparison_rows(measured, base, rule, families)]
    note = (
        "Difference: macro average, every patient alike, with a paired interval over patients. p: exact sign-flip test "
        "over patients of who recognises how many of their copies; Holm-adjusted over the detectors, and over "
        "detectors and families."
    )
    why = "" if rows else ("the reference was not measured" if base is None else "only one detector was measured")
    return StudyTable("differences", "Less the reference", pd.DataFrame(), pd.DataFrame(rows), note, why)


def _comparison_rows(
    measured: Sequence[CopiesScores], base: CopiesScores, rule: str, families: Sequence[str]
) -> list[dict[str, object]]:
    """Compare every other detector by every family, Holm-adjusted over them."""
    some = [_comparison_row(m, base, rule, family) for m in measured if m is not base for family in families]
    some = [row for row in some if row]
    adjusted = holm([float(str(row["p"])) for row in some]) if some else []
    return [{**row, "adjusted": float(p)} for row, p in zip(some, adjusted, strict=True)]


def _comparison_row(m: CopiesScores, base: CopiesScores, rule: str, family: str) -> dict[str, object]:
    """Return one row; empty where a threshold is missing."""
    apart, first, second, groups = [], [], [], []
    for place, dataset in enumerate(m.datasets):
        if any(np.isnan(one.cuts[rule][dataset].value) for one in (m, base)):
            continue
        own = m.groups[dataset]
        families = m.families if family == ALL else (family,)
        a, b = (np.stack([one.hits(rule, f, dataset) for f in families]) for one in (m, base))  # [families, n]
        apart.append(identity_difference(a.mean(axis=0), b.mean(axis=0), own))
        patients = np.char.add(f"{place} ", own)
        for each, into in ((a.ravel(), first), (b.ravel(), second), (np.tile(patients, len(families)), groups)):
            into.append(each)
    if not apart:
        return {}
    test = paired_hits(*(np.concatenate(each) for each in (first, second, groups)))
    row: dict[str, object] = {"first": m.name, "second": base.name, "rule": RULE_WORDS[rule], "family": family}
    row |= limits("difference", apart[0] if len(apart) == 1 else macro_average(apart))
    n = len(np.unique(np.concatenate(groups)))
    return row | {"p": test.p_value, "n_discordant": test.n_discordant, "n_identities": n}


def _image_shares(hit: np.ndarray, groups: np.ndarray) -> dict[str, object]:
    """Return the share as papers count it, every image alike, and the numbers of images and patients."""
    return {"recall_paper": float(hit.mean()), "n_images": len(hit), "n_identities": len(np.unique(groups))}


def _add_macro(
    rows: list[dict[str, object]], intervals: dict[str, list[JackknifeInterval]], datasets: int
) -> list[dict[str, object]]:
    """Return the rows and the macro average of several data sets; it is missing where a data set has no threshold."""
    if datasets < 2 or len(rows) < datasets:
        return rows
    macro: dict[str, object] = {**rows[0], "dataset": MACRO}
    for name, each in intervals.items():
        macro |= limits(name, macro_average(each))
    macro["recall_paper"] = float(np.mean([float(str(row["recall_paper"])) for row in rows]))
    for name in ("n_images", "n_identities"):
        macro[name] = sum(int(str(row[name])) for row in rows)
    return [*rows, macro]


@takes_settings(BenchCopiesOptions)
def benchmark_copies(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False, **settings: Any
) -> PairBenchmark:
    """Benchmark detectors at recognising augmented copies of your images, or resume it, and lay out its tables.

    Args:
        images: Images as for `memorisk.audit_classifier`; labels are not needed. A column ``dataset`` divides them into
            several data sets.
        out: Folder of the run: a new one, an empty one, or this benchmark's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Settings by name: any field of `BenchCopiesOptions`.

    Returns:
        Benchmark with its numbers; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a detector or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """
    folder, options = Path(out), copies_options(settings)
    check_entry(folder, options, tables_only=tables_only)
    other = None if options.reid is None else read_board(options.reid, "reid")
    return run_study(
        _study(_prepare(images, folder, options, progress), options, other), progress, tables_only=tables_only
    )


def plan_copies(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> PairBenchPlan:
    """Plan `benchmark_copies`; nothing is computed or written but the store of decoded images.

    Args:
        images: Images, as for `benchmark_copies`.
        out: Folder of the run, as for `benchmark_copies`.
        progress: Function that is called with (stage, done, total).
        **settings: Settings by name, as for `benchmark_copies`.

    Raises:
        InputError: As `benchmark_copies`.
    """
    options = copies_options(settings)
    ready = _prepare(images, Path(out), options, progress)
    check_study(_study(ready, options, None))
    return plan_of(ready, lambda cell: copies_cost(cell, options))


def _study(ready: BenchmarkSetup, options: BenchCopiesOptions, other: pd.DataFrame | None) -> Study[PairBenchmark]:
    return pair_study(
        ready, "copies", run_copies, lambda: _read(ready, options, other), copies_page, test_images=options.test_images
    )


def _prepare(images: str | Path, out: Path, options: BenchCopiesOptions, progress: Progress) -> BenchmarkSetup:
    """Prepare the benchmark of copies.

    Raises:
        InputError: As `prepare`; also for features that are computed already, and without validation patients.
    """
    ready = prepare(images, out, options, copies_parts(options), progress)
    for contender in ready.contenders:
        if contender.detector is not None and contender.detector.source.kind == "saved":
            raise InputError(
                f"{one_line(contender.name, 80)} holds features that are computed already, and copies need theirs: "
                "name what computes them, as in resnet50@FILE"
            )
    if not copy_pairs(ready.cells[0], VALIDATION):
        raise InputError(
            f"{one_line(ready.store.manifest.name)} has no validation patients to make thresholds from: draw a split "
            "(splits redraw), or name some images val in the given one"
        )
    return ready


def _read(ready: BenchmarkSetup, options: BenchCopiesOptions, reid: pd.DataFrame | None) -> PairBenchmark:
    """Compute every number from the finished cells."""
    measured = read_copies(ready.cells, options.chosen_families())
    recall, n_sets = recall_frame(measured), len(ready.division.names)
    figure_5 = overall(recall, n_sets)
    strongest, apart = figure_4_table(measured), differences_table(measured, ready.reference)
    tables = [strongest, strongest_table(figure_5), apart, thresholds_table(measured), *setup_tables(ready)]
    board = _board(measured, overall(strongest.ours, n_sets), apart.ours, options)
    figures = {"recall": recall, "figure_5": figure_5}
    if reid is not None:
        figures["figure_1"] = figure_1_frame(reid, board)
    return PairBenchmark(
        kind="copies",
        source=ready.store.manifest.name,
        options=options,
        reference=ready.reference,
        board=board,
        tables=tables,
        figures=figures,
        columns=COPIES_COLUMNS,
        failed=failures(ready.cells),
        missing=ready.missing,
        division=ready.division,
    )


def _board(
    measured: Sequence[CopiesScores], strongest: pd.DataFrame, apart: pd.DataFrame, options: BenchCopiesOptions
) -> pd.DataFrame:
    """Return one row per detector: its macro average, or its only data set."""
    if not measured:
        return pd.DataFrame()
    by = {(str(r["detector"]), str(r["rule"])): r for r in strongest.to_dict("records")}
    beside = {
        str(r["first"]): r for r in apart.to_dict("records")
        if r["family"] == ALL and r["rule"] == RULE_WORDS["specificity"]
    }  # fmt: skip
    rows = []
    for m in measured:
        first, second = (by.get((m.name, RULE_WORDS[rule]), {}) for rule in RULES)
        row: dict[str, object] = {"section": m.contender.section, "detector": m.name}
        names = ("recall", "recall_low", "recall_high")
        row |= {name: first.get(name, np.nan) for name in (*names, "recall_paper")}
        row |= {name.replace("recall", "recall_95"): second.get(name, np.nan) for name in names}
        columns = ("difference", "difference_low", "difference_high", "p", "adjusted")
        row |= {k: v for k, v in beside.get(m.name, {}).items() if k in columns}
        rows.append(row | _specificity(m) | {"dimension": m.cell.described.get("dimension")})
    board = pd.DataFrame(rows)
    by_name = "recall_paper" if options.protocol == "paper" else "recall"
    order = np.argsort(-board[by_name].to_numpy(dtype=float), kind="stable")
    return board.take(order.tolist()).reset_index(drop=True)


def _specificity(m: CopiesScores) -> dict[str, float]:
    """Compute the share of test pairs of two patients below the first threshold, macro-averaged."""
    intervals = []
    for dataset, pairs in m.pairs[TEST].items():
        below = m.scores(TEST, dataset, "negative") < m.cuts["specificity"][dataset].value
        intervals.append(identity_share(below, m.cell.division.groups[pairs.negative.first].astype(str)))
    if not intervals:
        return {}
    return limits("specificity", intervals[0] if len(intervals) == 1 else macro_average(intervals))
