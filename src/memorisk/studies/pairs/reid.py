"""``memorisk bench reid``: which detector tells that two images are of one patient?

Paper 004, sections 4, 4.1, 4.4 and 4.5 (tables 2 and 4, figures 1 and 6), with pairs, weights and intervals as METHODS
section 4 corrects them. Resumable: a detector leaves its scores (`cells`), the same command goes on where a killed one
stopped, and further detectors add only what is theirs. A detector that fails is told while the others finish.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.report.frames import rows
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.folder import check_out
from memorisk.runs.progress import Progress, quiet
from memorisk.studies.pairs.cells import run_cells
from memorisk.studies.pairs.contenders import asked
from memorisk.studies.pairs.cost import reid_cost
from memorisk.studies.pairs.division import TEST
from memorisk.studies.pairs.frames import MACRO, REID_COLUMNS
from memorisk.studies.pairs.joint import figure_1_frame, read_board
from memorisk.studies.pairs.options import BenchReidOptions, reid_options
from memorisk.studies.pairs.pairing import part_pairs
from memorisk.studies.pairs.preparing import PairBenchPlan, Prepared, identity, plan_of, prepare
from memorisk.studies.pairs.reid_cell import REID_PARTS, run_reid
from memorisk.studies.pairs.reid_page import reid_page
from memorisk.studies.pairs.reid_reading import Measured, read_reid
from memorisk.studies.pairs.reid_tables import differences, false_matches, figure_6_frame, table_2, table_4
from memorisk.studies.pairs.results import PairBenchmark, failures, setup_tables
from memorisk.studies.pairs.writing import check_tables_only, open_bench, write_bench
from memorisk.studies.rare_distinctive.parts import StudyTable


def benchmark_reid(
    images: str | Path, *, out: str | Path, progress: Progress = quiet, tables_only: bool = False, **settings: Any
) -> PairBenchmark:
    """Benchmark detectors at re-identification on your images, or go on with it, and lay out its tables and figures.

    Args:
        images: As for `memorisk.audit_classifier`; labels are not needed, patients are. A column ``dataset`` makes
            several data sets of them.
        out: The run folder: new, empty, or this benchmark to go on with.
        progress: Called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Any field of `BenchReidOptions`.

    Returns:
        The benchmark; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a detector or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """
    folder, options = Path(out), reid_options(settings)
    check_tables_only(folder, tables_only)
    if not tables_only:
        options.reach_cluster()
    other = None if options.copies is None else read_board(options.copies, "copies")
    ready = _prepare(images, folder, options, progress)
    config = {"images": str(images), "out": str(folder), **asked(options)}
    with open_bench(folder, ready, config, identity(ready, "reid")) as run:
        if not tables_only:
            run_cells(run, ready.cells, run_reid, progress)
        progress("laying out the tables", 0, 0)
        found = _read(ready, options, other)
        write_bench(run, found, reid_page(found))
    return found


def plan_reid(images: str | Path, *, out: str | Path, progress: Progress = quiet, **settings: Any) -> PairBenchPlan:
    """What `benchmark_reid` would compute; nothing is computed or written but the store of decoded images.

    Args:
        images: As for `benchmark_reid`.
        out: Likewise.
        progress: Likewise.
        **settings: Likewise.

    Raises:
        InputError: As `benchmark_reid`.
    """
    folder, options = Path(out), reid_options(settings)
    ready = _prepare(images, folder, options, progress)
    check_out(folder, {"run": identity(ready, "reid")}, identity=["run"])
    return plan_of(ready, reid_cost)


def _prepare(images: str | Path, out: Path, options: BenchReidOptions, progress: Progress) -> Prepared:
    """Read everything.

    Raises:
        InputError: Also where no test patient has two images.
    """
    ready = prepare(images, out, options, REID_PARTS, progress)
    if not part_pairs(ready.division, TEST, ready.division.names, seed=options.seed):
        raise InputError(
            f"{one_line(ready.store.manifest.name)}: no test patient has two different images, so that there is nobody "
            "to recognise again. Say whose each image is (group_column, group_from), or run bench copies"
        )
    return ready


def _read(ready: Prepared, options: BenchReidOptions, copies: pd.DataFrame | None) -> PairBenchmark:
    """Every number from what is finished."""
    found = read_reid(ready.cells)
    main, apart = table_2(found, options.sensitivity), differences(found, ready.reference)
    tables = [main, apart, table_4(found), false_matches(found, options.sensitivity), *setup_tables(ready)]
    board = _board(found, main, apart, options)
    figures = {"figure_6": figure_6_frame(found)}
    if copies is not None:
        figures["figure_1"] = figure_1_frame(board, copies)
    return PairBenchmark(
        kind="reid",
        source=ready.store.manifest.name,
        options=options,
        reference=ready.reference,
        board=board,
        tables=tables,
        figures=figures,
        columns=REID_COLUMNS,
        failed=failures(ready.cells),
        missing=ready.missing,
        division=ready.division,
    )


def _board(found: Sequence[Measured], main: StudyTable, apart: StudyTable, options: BenchReidOptions) -> pd.DataFrame:
    """A row a detector: its macro average, or its only data set."""
    if not found:
        return pd.DataFrame()
    made = []
    by = {str(r["first"]): r for r in _overall(apart.ours).to_dict("records")}
    dimension = {m.name: m.cell.described.get("dimension") for m in found}
    for row in _overall(main.ours).to_dict("records"):
        name = str(row["detector"])
        kept = {k: v for k, v in row.items() if k not in ("dataset", "sensitivity_low")}
        beside = {k: v for k, v in by.get(name, {}).items() if k.startswith("difference")}
        made.append({**kept, **beside, "dimension": dimension[name]})
    suffix = "_paper" if options.protocol == "paper" else ""
    board = pd.DataFrame(made)
    order = np.argsort(-board[f"auc{suffix}"].to_numpy(dtype=float), kind="stable")
    return board.take(order.tolist()).reset_index(drop=True)


def _overall(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the macro average; where there is one data set, its rows."""
    if not len(frame):
        return frame
    macro = (frame["dataset"] == MACRO).to_numpy(dtype=bool)
    return rows(frame, macro) if macro.any() else frame
