"""``memorisk bench copies``: which detector still recognises an image that was blurred, turned, darkened, compressed?

Paper 004, section 4.2 (figures 4, 5 and 1), with thresholds by one rule for all detectors and intervals over
patients as in METHODS section 4. The benchmark can be resumed as `reid`: a detector leaves one file per family.

The tables hold recall of augmented copies, thresholds, and paired differences. Every patient counts once: a share is
the mean over patients of each one's own share of recognised copies. Papers count every image alike; a further
column holds that share. Intervals are over patients, with the thresholds as validation made them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.alterations.families import FAMILIES
from memorisk.report.blocks import Column, estimate
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.copies.detector_comparison import paired_hits
from memorisk.statistics.multiple_testing.lists import holm
from memorisk.statistics.pairs.auc import macro_average
from memorisk.statistics.pairs.decisions import identity_difference, identity_share
from memorisk.studies.engine.encoders import refuse_saved
from memorisk.studies.engine.rows import limits, rows_of
from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.pairs.benchmark import PairNumbers, PairStudy, plan_pairs, run_benchmark
from memorisk.studies.pairs.cells import copies_parts, copy_pairs, run_copies
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.options import BenchCopiesOptions
from memorisk.studies.pairs.plan import PairBenchPlan, copies_cost
from memorisk.studies.pairs.results import LAYOUTS, MACRO, PairBenchmark, macro_row, ranked
from memorisk.studies.pairs.scores import RULE_WORDS, RULES, CopiesScores, read_copies

ALL = "all, strongest"


def figure_4_table(measured: Sequence[CopiesScores]) -> StudyTable:
    """Tabulate figure 4: recall of the strongest copies, every family alike.

    Args:
        measured: Detectors with their scores.
    """
    rows = [row for m in measured for rule in RULES for row in _recall_rows(m, rule, partial(m.strongest, rule))]
    return fill_table(LAYOUTS["copies"], "figure_4", rows)


def recall_frame(measured: Sequence[CopiesScores]) -> pd.DataFrame:
    """Return recall by family and strength: one row per detector, threshold, family, strength and data set.

    Args:
        measured: Detectors with their scores.
    """
    rows = []
    for m, rule in product(measured, RULES):
        for family in m.families:
            for place, strength in enumerate(m.copies[family, m.datasets[0]].strengths):
                hits = partial(m.hits, rule, family, strength=place)
                copied = {"family": family, "strength": float(strength)}
                undefined = {d: int(np.isnan(m.copies[family, d].scores[place]).sum()) for d in m.datasets}
                rows += _recall_rows(m, rule, hits, copied, undefined)
    return pd.DataFrame(rows)


def _recall_rows(
    m: CopiesScores, rule: str, hits: Callable[[str], np.ndarray], copied: Mapping[str, object] = {},
    undefined: Mapping[str, int] | None = None,
) -> list[dict[str, object]]:  # fmt: skip
    """Return the recall of each data set, and the macro average over them where all have a threshold.

    Args:
        m: Detector with its scores.
        rule: Rule of the threshold.
        hits: Function of a data set to which copies are recognised.
        copied: Columns that say which copies these are.
        undefined: Number of copies without a score by data set, where it is counted.
    """
    rows: list[dict[str, object]] = []
    recalls = []
    for dataset in m.datasets:
        if np.isnan(m.cuts[rule][dataset].value):
            continue
        hit, groups = hits(dataset), m.groups[dataset]
        recalls.append(identity_share(hit, groups))
        row: dict[str, object] = {"detector": m.name, "rule": RULE_WORDS[rule], "dataset": dataset, **copied}
        row |= limits("recall", recalls[-1])
        row |= {"recall_paper": float(hit.mean()), "n_images": len(hit), "n_identities": len(np.unique(groups))}
        rows.append(row if undefined is None else row | {"n_undefined": undefined[dataset]})
    if len(m.datasets) < 2 or len(rows) < len(m.datasets):
        return rows
    return [*rows, rows[0] | macro_row(rows, {"recall": recalls}, "recall_paper", "n_images", "n_identities")]


def strongest_table(figure_5: pd.DataFrame) -> StudyTable:
    """Tabulate the recall of the strongest copies: one row per detector and threshold, one column per family.

    Args:
        figure_5: Rows of `recall_frame`, macro-averaged where there are several data sets.
    """
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for record in figure_5.to_dict("records"):  # from the weakest to the strongest: the last one stays
        row = rows.setdefault(
            (record["detector"], record["rule"]), {"detector": record["detector"], "rule": record["rule"]}
        )
        family = str(record["family"])
        names = ("recall", "recall_low", "recall_high")
        row |= {name.replace("recall", family): record[name] for name in names}
    return fill_table(LAYOUTS["copies"], "strongest", rows.values(), columns=strongest_columns())


def strongest_columns() -> list[Column]:
    """Return the columns of the table by family: those of its schema, and one for each family."""
    of_families = [estimate(family, f"{_heading(family)} [95 %]", "percent") for family in FAMILIES]
    return [*LAYOUTS["copies"].tables["strongest"].columns, *of_families]


def _heading(family: str) -> str:
    return family.upper() if family == "jpeg" else family.capitalize()


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
    return fill_table(LAYOUTS["copies"], "thresholds", rows)


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
    why = LAYOUTS["copies"].sentences["no_reference"] if base is None else ""
    return fill_table(LAYOUTS["copies"], "differences", rows, why_empty=why)


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
    study = CopiesStudy(images, out, settings_of(BenchCopiesOptions, settings))
    return run_benchmark(study, progress, tables_only=tables_only)


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
    return plan_pairs(CopiesStudy(images, out, settings_of(BenchCopiesOptions, settings)), progress)


def _board(
    measured: Sequence[CopiesScores], strongest: pd.DataFrame, apart: pd.DataFrame, options: BenchCopiesOptions
) -> pd.DataFrame:
    """Return one row per detector: its macro average, or its only data set."""
    by = {(str(r["detector"]), str(r["rule"])): r for r in strongest.to_dict("records")}
    compared = rows_of(apart, family=ALL, rule=RULE_WORDS["specificity"])
    beside = {str(r["first"]): r for r in compared.to_dict("records")}
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
    return ranked(rows, "recall_paper" if options.protocol == "paper" else "recall")


def _specificity(m: CopiesScores) -> dict[str, float]:
    """Compute the share of test pairs of two patients below the first threshold, macro-averaged."""
    intervals = []
    for dataset, pairs in m.pairs[TEST].items():
        below = m.scores(TEST, dataset, "negative") < m.cuts["specificity"][dataset].value
        intervals.append(identity_share(below, m.cell.division.groups[pairs.negative.first].astype(str)))
    if not intervals:
        return {}
    return limits("specificity", intervals[0] if len(intervals) == 1 else macro_average(intervals))


class CopiesStudy(PairStudy):
    """Benchmark of copies."""

    kind, other, fixed = "copies", "reid", ("test_images",)
    parts, measure, cost = staticmethod(copies_parts), staticmethod(run_copies), staticmethod(copies_cost)

    def check(self, progress: Progress) -> None:
        """Refuse detectors that hold finished features, and images without validation patients."""
        for contender in (cell.contender for cell in self.cells):
            if contender.detector is not None:
                refuse_saved(contender.detector.source, contender.name)
        if not copy_pairs(self.cells[0], VALIDATION):
            raise InputError(
                f"{one_line(self.store.manifest.name)} has no validation patients to make thresholds from: draw a "
                "split (splits redraw), or name some images val in the given one"
            )

    def numbers(self) -> PairNumbers:
        """Compute every number from what is finished."""
        measured, several = read_copies(self.cells, self.options.chosen_families()), len(self.division.names) > 1
        recall, figure_4 = recall_frame(measured), figure_4_table(measured)
        figure_5, strongest = (rows_of(f, dataset=MACRO) if several else f for f in (recall, figure_4.ours))
        apart = differences_table(measured, self.reference)
        tables = [figure_4, strongest_table(figure_5), apart, thresholds_table(measured)]
        board = _board(measured, strongest, apart.ours, self.options)
        return PairNumbers(board, tables, {"recall": recall, "figure_5": figure_5})
