"""``memorisk bench copies``: which detector still recognises an image that was blurred, turned, darkened, compressed?

Paper 004, section 4.2 (figures 4, 5 and 1), with thresholds by one rule for all detectors and intervals over patients
as METHODS section 4 has them. Resumable as `reid`: a detector leaves a file a family of copies.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.folder import check_out
from memorisk.runs.progress import Progress, quiet
from memorisk.statistics.pairs.auc import macro_average
from memorisk.statistics.pairs.decisions import identity_share
from memorisk.studies.pairs.cells import run_cells
from memorisk.studies.pairs.contenders import asked
from memorisk.studies.pairs.copies_cell import copies_parts, copy_pairs, run_copies
from memorisk.studies.pairs.copies_page import copies_page
from memorisk.studies.pairs.copies_reading import RULES, CopiesMeasured, read_copies
from memorisk.studies.pairs.copies_tables import (
    ALL,
    differences_table,
    figure_4_table,
    overall,
    recall_frame,
    strongest_table,
    thresholds_table,
)
from memorisk.studies.pairs.cost import copies_cost
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.figures import RULE_WORDS
from memorisk.studies.pairs.frames import COPIES_COLUMNS, limits
from memorisk.studies.pairs.joint import figure_1_frame, read_board
from memorisk.studies.pairs.options import BenchCopiesOptions, copies_options
from memorisk.studies.pairs.preparing import PairBenchPlan, Prepared, identity, plan_of, prepare
from memorisk.studies.pairs.results import PairBenchmark, failures, setup_tables
from memorisk.studies.pairs.writing import check_tables_only, open_bench, write_bench


def benchmark_copies(
    images: str | Path, *, out: str | Path, progress: Progress = quiet, tables_only: bool = False, **settings: Any
) -> PairBenchmark:
    """Benchmark detectors at recognising augmented copies of your images, or go on with it, and lay out its tables.

    Args:
        images: As for `memorisk.audit_classifier`; labels are not needed. A column ``dataset`` makes several data sets
            of them.
        out: The run folder: new, empty, or this benchmark to go on with.
        progress: Called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Any field of `BenchCopiesOptions`.

    Returns:
        The benchmark; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a detector or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """
    folder, options = Path(out), copies_options(settings)
    check_tables_only(folder, tables_only)
    if not tables_only:
        options.reach_cluster()
    other = None if options.reid is None else read_board(options.reid, "reid")
    ready = _prepare(images, folder, options, progress)
    config = {"images": str(images), "out": str(folder), **asked(options)}
    with open_bench(folder, ready, config, _identity(ready, options)) as run:
        if not tables_only:
            run_cells(run, ready.cells, run_copies, progress)
        progress("laying out the tables", 0, 0)
        found = _read(ready, options, other)
        write_bench(run, found, copies_page(found))
    return found


def plan_copies(images: str | Path, *, out: str | Path, progress: Progress = quiet, **settings: Any) -> PairBenchPlan:
    """What `benchmark_copies` would compute; nothing is computed or written but the store of decoded images.

    Args:
        images: As for `benchmark_copies`.
        out: Likewise.
        progress: Likewise.
        **settings: Likewise.

    Raises:
        InputError: As `benchmark_copies`.
    """
    folder, options = Path(out), copies_options(settings)
    ready = _prepare(images, folder, options, progress)
    check_out(folder, {"run": _identity(ready, options)}, identity=["run"])
    return plan_of(ready, lambda cell: copies_cost(cell, options))


def _identity(ready: Prepared, options: BenchCopiesOptions) -> dict[str, Any]:
    return identity(ready, "copies", test_images=options.test_images)


def _prepare(images: str | Path, out: Path, options: BenchCopiesOptions, progress: Progress) -> Prepared:
    """Read everything.

    Raises:
        InputError: Also for features that are computed already, and without validation patients.
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


def _read(ready: Prepared, options: BenchCopiesOptions, reid: pd.DataFrame | None) -> PairBenchmark:
    """Every number from what is finished."""
    found = read_copies(ready.cells, options.chosen_families())
    recall, n_sets = recall_frame(found), len(ready.division.names)
    figure_5 = overall(recall, n_sets)
    strongest, apart = figure_4_table(found), differences_table(found, ready.reference)
    tables = [strongest, strongest_table(figure_5), apart, thresholds_table(found), *setup_tables(ready)]
    board = _board(found, overall(strongest.ours, n_sets), apart.ours, options)
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
    found: Sequence[CopiesMeasured], strongest: pd.DataFrame, apart: pd.DataFrame, options: BenchCopiesOptions
) -> pd.DataFrame:
    """A row a detector: its macro average, or its only data set."""
    if not found:
        return pd.DataFrame()
    by = {(str(r["detector"]), str(r["rule"])): r for r in strongest.to_dict("records")}
    beside = {
        str(r["first"]): r for r in apart.to_dict("records")
        if r["family"] == ALL and r["rule"] == RULE_WORDS["specificity"]
    }  # fmt: skip
    rows = []
    for m in found:
        first, second = (by.get((m.name, RULE_WORDS[rule]), {}) for rule in RULES)
        row: dict[str, object] = {"section": m.contender.section, "detector": m.name}
        names = ("recall", "recall_low", "recall_high")
        row |= {name: first.get(name, np.nan) for name in (*names, "recall_paper")}
        row |= {name.replace("recall", "recall_95"): second.get(name, np.nan) for name in names}
        shown = ("difference", "difference_low", "difference_high", "p", "adjusted")
        row |= {k: v for k, v in beside.get(m.name, {}).items() if k in shown}
        rows.append(row | _specificity(m) | {"dimension": m.cell.described.get("dimension")})
    board = pd.DataFrame(rows)
    by_name = "recall_paper" if options.protocol == "paper" else "recall"
    order = np.argsort(-board[by_name].to_numpy(dtype=float), kind="stable")
    return board.take(order.tolist()).reset_index(drop=True)


def _specificity(m: CopiesMeasured) -> dict[str, float]:
    """Share of test pairs of two patients below the first threshold, macro-averaged."""
    intervals = []
    for dataset, pairs in m.pairs[TEST].items():
        below = m.scores(TEST, dataset, "negative") < m.cuts["specificity"][dataset].value
        intervals.append(identity_share(below, m.cell.division.groups[pairs.negative.first].astype(str)))
    if not intervals:
        return {}
    return limits("specificity", intervals[0] if len(intervals) == 1 else macro_average(intervals))
