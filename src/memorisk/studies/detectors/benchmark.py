"""``memorisk bench detectors``: which detector recognises copies of patients' images?

Paper 003 (tables 1 to 4, figures 1, 2 and 4), with pools, thresholds and tests as METHODS section 3 corrects them.
A cell leaves one file per measure (`cells`), and the same command resumes where a killed one stopped; further
backbones, losses, seeds and measures add only their own files. A cell that fails is listed while the others finish.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memorisk.images.store import ImageStore
from memorisk.runs.environment import available_cores, available_memory, check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_table
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.studies.detectors.cells import (
    DETECTORS,
    Backbone,
    Cell,
    CellJob,
    encoder_key,
    grid,
    read_backbone,
    run_cell,
    weights_problem,
)
from memorisk.studies.detectors.detection import detectors, read_cells
from memorisk.studies.detectors.measurement import MemoryPlan, plan_memory
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.detectors.page import architecture_frame, benchmark_report
from memorisk.studies.detectors.pools import COPIES, PARTS, CopyRows, Parts, divide, make_copies, remove_copies
from memorisk.studies.detectors.results import Benchmark, cell_table, folder_table, leaderboard, number_table
from memorisk.studies.detectors.tables import fitted_table, measure_tables, paper_tables, refused_table
from memorisk.studies.engine.cells import CELLS, failures
from memorisk.studies.engine.runner import missing_cells, run_cells
from memorisk.studies.engine.study import Study, check_entry, check_study, open_images, run_study
from memorisk.training.engine.optimization import batch_bounds
from memorisk.training.features.extraction import passes_per_image

SPLIT = "split.parquet"


@dataclass(frozen=True, eq=False)
class BenchmarkSetup:
    """A benchmark before anything is computed.

    Attributes:
        images: Source of the images, as the user named it.
        out: Folder of the run.
        options: Options of the benchmark.
        store: Store of the images.
        parts: Division of the images.
        jobs: Jobs of the benchmark, one per cell.
        left_out: Number of images of one grey level.
    """

    images: str | Path
    out: Path
    options: BenchDetectorsOptions
    store: ImageStore
    parts: Parts
    jobs: list[CellJob]
    left_out: int


@dataclass(frozen=True)
class BenchmarkPlan:
    """Plan of a benchmark.

    Attributes:
        cells: Names of the cells, and whether each is there already.
        images: Number of images by part.
        patients: Number of patients by part.
        references: Number of references in each corrected pool.
        cost: Cost of the cells that are not done: their trainings, in which each image has a copy; images and copies
            that are to be embedded (images_passed, with the looks of trainings); pairs whose distance is judged.
        problems: Reasons why weights cannot be read, by the backbone's name: its cells would fail, the others would
            run.
        memory: Memory that the benchmark needs, the number of detectors that fit at the same time, and measures that do
            not fit.
    """

    cells: dict[str, bool]
    images: dict[str, int]
    patients: dict[str, int]
    references: int
    cost: Cost
    problems: dict[str, str]
    memory: MemoryPlan


@takes_settings(BenchDetectorsOptions)
def benchmark_detectors(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False, **settings: Any
) -> Benchmark:
    """Benchmark copy detectors on your images, or resume it, and lay out its leaderboard, tables and figures.

    Args:
        images: Images as for `memorisk.audit_classifier`; labels are not needed.
        out: Folder of the run: a new one, an empty one, or this benchmark's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Settings by name: any field of `BenchDetectorsOptions`.

    Returns:
        Benchmark with its numbers; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a name or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """
    folder, options = Path(out), settings_of(BenchDetectorsOptions, settings)
    check_entry(folder, options, tables_only=tables_only)
    return run_study(_study(_prepare(images, folder, options, progress)), progress, tables_only=tables_only)


def plan_benchmark(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> BenchmarkPlan:
    """Plan the benchmark; nothing is computed or written but the store of decoded images.

    Raises:
        InputError: As `benchmark_detectors`.
    """
    ready = _prepare(images, Path(out), settings_of(BenchDetectorsOptions, settings), progress)
    check_study(_study(ready))
    parts, todo = ready.parts, missing_cells(ready.jobs)
    counts = {name: int((parts.part == name).sum()) for name in PARTS}
    n_copies = len(parts.copied) * len(ready.options.strengths)
    problems = {job.cell.backbone.name: weights_problem(job.cell.backbone) for job in todo}
    measures = sum(len(job.missing) for job in todo)
    passes = sum(passes_per_image(job.cell.backbone.source) for job in todo)
    return BenchmarkPlan(
        cells={job.name: job.done for job in ready.jobs},
        images=counts,
        patients={name: parts.patients(name) for name in counts},
        references=len(parts.pools["test"]),
        cost=Cost(
            images_passed=passes * (len(parts.part) + n_copies),
            pairs=measures * _pairs(parts, len(ready.options.strengths)),
            bytes_images=ready.store.images.nbytes,
        )
        + total([_training_cost(job) for job in todo if job.cell.trained]),
        problems={name: why for name, why in problems.items() if why},
        memory=_memory(ready, todo),
    )


def _memory(ready: BenchmarkSetup, todo: list[CellJob]) -> MemoryPlan:
    """Plan the memory on this machine; a GPU takes one detector at a time."""
    on_gpu = ready.jobs[0].device != "cpu"
    processes = 1 if on_gpu else ready.options.processes or available_cores()
    return plan_memory(todo, ready.store.images.shape, processes, available_memory())


def _training_cost(job: CellJob) -> Cost:
    """Estimate the largest cost of one training: it leaves blank images out, and looks at 2,000 validation images."""
    cell, n, m = job.cell, len(job.division.rows("train")), len(job.division.rows("validation"))
    options = job.options.training(cell.backbone.text, cell.loss, cell.seed)
    bounds = batch_bounds(n, options.images_a_step) if n > 1 else []
    return Cost(
        at_most=("steps", "images_trained", "images_passed"),
        trainings=1,
        steps=options.epochs * len(bounds),
        images_trained=2 * options.epochs * n,
        images_passed=2 * m * (options.epochs + 1),
        bytes_weights=None,
    )


def _pairs(parts: Parts, strengths: int) -> int:
    """Count the pairs that one measure judges."""
    n = {name: len(parts.rows(name)) for name in ("train", "validation", "null", "test_null")}
    pool = len(parts.pools["test"])
    corrected = pool * (2 * n["null"] + n["test_null"]) + strengths * 3 * pool**2
    both = (n["null"] + n["test_null"]) * (n["train"] + n["validation"])
    return corrected + n["train"] * n["validation"] + both + strengths * (n["train"] ** 2 + n["validation"] ** 2)


def _prepare(images: str | Path, out: Path, options: BenchDetectorsOptions, progress: Progress) -> BenchmarkSetup:
    """Read names and images, divide the patients; nothing is written but the store of decoded images."""
    backbones = _backbones(options)
    device = str(check_device(options.device))
    store = open_images(images, out, options, progress)
    parts = divide(store, options.shares, seed=options.split_seed, specificity=options.specificity)
    copied = {strength: CopyRows(out / COPIES / strength) for strength in options.strengths}
    cells = grid(backbones, options.losses, options.seeds)
    jobs = [_job(cell, out, options, store, parts, copied, device) for cell in cells]
    return BenchmarkSetup(images, out, options, store, parts, jobs, int((parts.part == "").sum()))


def _job(
    cell: Cell, out: Path, options: BenchDetectorsOptions, store: ImageStore, parts: Parts,
    copied: dict[str, CopyRows], device: str,
) -> CellJob:  # fmt: skip
    return CellJob(
        cell=cell, out=out, encoder=encoder_key(cell, options, device), images=store.folder, manifest=store.manifest,
        pixel_hashes=store.pixel_hashes, copied=copied, division=parts, options=options, device=device,
    )  # fmt: skip


def _backbones(options: BenchDetectorsOptions) -> list[Backbone]:
    """Return the backbones, each with a name of its own.

    Raises:
        InputError: A backbone is not possible, or two would look the same in the tables.
    """
    backbones = [read_backbone(text) for text in options.backbones]
    names = [b.name for b in backbones]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two backbones would be called {one_line(name, 80)} in the tables: name their weights, as in "
                "resnet50@FILE=ImageNet"
            )
    return backbones


def _study(ready: BenchmarkSetup) -> Study[Benchmark]:
    """Return the benchmark as a study: the division and the copies may not change; the grid may grow."""
    o = ready.options
    settings = {"shares": list(o.shares), "split_seed": o.split_seed, "strengths": list(o.strengths)}
    return Study(
        out=ready.out,
        settings={"images": str(ready.images), "out": str(ready.out), **asdict(o)},
        identity={"benchmark": "detectors", "data_hash": ready.store.data_hash, **settings},
        run=lambda run, progress: _run(run, ready, progress),
        read=lambda: _read(ready),
        report=benchmark_report,
    )


def _run(run: RunFolder, ready: BenchmarkSetup, progress: Progress) -> None:
    """Make the copies and run the cells that are not done; failures are noted for the tables."""
    write_table(run / SPLIT, ready.parts.table(ready.store.manifest.images))
    options, waiting = ready.options, missing_cells(ready.jobs)
    if not waiting:
        return
    for strength in options.strengths:
        make_copies(run.path, ready.store, ready.parts.copied, strength, seed=options.split_seed, progress=progress)
    for name in (CELLS, DETECTORS):
        run.subfolder(name)
    on_gpu = ready.jobs[0].device != "cpu"
    place = options.placement(run.path, ready.store.folder, gpus=int(on_gpu))
    plan = _memory(ready, waiting)
    share = place.memory if options.executor != "local" else None if plan.free is None else plan.free // plan.processes
    placed = [replace(job, memory=share) for job in waiting]
    how: dict[str, Any] = {"processes": plan.processes, "threads": options.threads, "place": place}
    if not run_cells(run, placed, run_cell, progress, stage="measuring detectors", **how):
        remove_copies(run.path)


def _read(ready: BenchmarkSetup) -> Benchmark:
    """Compute every number from the finished cells."""
    options, parts = ready.options, ready.parts
    measured = detectors(read_cells(ready.jobs), options.split_seed)
    board = leaderboard(measured, options.strengths)
    tables = [
        *paper_tables(measured, options.strength),
        *measure_tables(measured, options.strength),
        cell_table(ready.jobs),
        folder_table(ready.jobs),
        fitted_table(measured, options.strength),
        refused_table(measured, options.strength),
    ]
    return Benchmark(
        source=ready.store.manifest.name,
        options=options,
        detectors=measured,
        board=board,
        tables=tables,
        figure_1=architecture_frame(measured, board.rows, options.strength),
        numbers=number_table(measured, options.strengths),
        failed=failures(ready.jobs),
        patients={name: parts.patients(name) for name in PARTS},
        references=len(parts.pools["test"]),
        n_images=len(parts.part),
        left_out=ready.left_out,
        groups_given=ready.store.manifest.groups_given,
    )
