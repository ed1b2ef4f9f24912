"""``memorisk bench detectors``: which detector recognises copies of patients' images?

Paper 003 (tables 1 to 4, figures 1, 2 and 4), with pools, thresholds and tests as METHODS section 3 corrects them.
A cell leaves one file per measure (`cells`), and the same command resumes where a killed one stopped; further
backbones, losses, seeds and measures add only their own files. A cell that fails is listed while the others finish.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memorisk.models.encoders.feature_sources import refuse_missing_sources
from memorisk.runs.environment import available_cores, available_memory
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_table
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.studies.detectors.cells import (
    DETECTORS,
    Backbone,
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
from memorisk.studies.engine.study import CellsPlan, ImageStudy, StudyReport, open_study, run_study
from memorisk.training.engine.optimization import batch_bounds
from memorisk.training.features.extraction import passes_per_image

SPLIT = "split.parquet"


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
    study = DetectorsStudy(images, out, settings_of(BenchDetectorsOptions, settings))
    return run_study(study, progress, tables_only=tables_only)


def plan_benchmark(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> BenchmarkPlan:
    """Plan the benchmark; nothing is computed or written but the store of decoded images.

    Raises:
        InputError: As `benchmark_detectors`.
    """
    return open_study(DetectorsStudy(images, out, settings_of(BenchDetectorsOptions, settings)), progress).plan()


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


def _backbones(options: BenchDetectorsOptions) -> list[Backbone]:
    """Return the backbones, each with a name of its own.

    Raises:
        InputError: A backbone is not possible, or two would look the same in the tables.
    """
    refuse_missing_sources(options.backbones)
    backbones = [read_backbone(text) for text in options.backbones]
    names = [b.name for b in backbones]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two backbones would be called {one_line(name, 80)} in the tables: name their weights, as in "
                "resnet50@FILE=ImageNet"
            )
    return backbones


class DetectorsStudy(ImageStudy[Benchmark]):
    """Benchmark of copy detectors: the division and the copies may not change; the grid may grow."""

    def prepare(self, progress: Progress) -> None:
        """Read names and images, divide the patients."""
        o, backbones = self.options, _backbones(self.options)
        super().prepare(progress)
        self.parts = divide(self.store, o.shares, seed=o.split_seed, specificity=o.specificity)
        copied = {strength: CopyRows(self.out / COPIES / strength) for strength in o.strengths}
        store, device = self.store, self.device
        self.jobs = [
            CellJob(
                cell=cell, out=self.out, encoder=encoder_key(cell, o, device), images=store.folder,
                manifest=store.manifest, pixel_hashes=store.pixel_hashes, copied=copied, division=self.parts,
                options=o, device=device,
            )
            for cell in grid(backbones, o.losses, o.seeds)
        ]  # fmt: skip
        fixed = {"shares": list(o.shares), "split_seed": o.split_seed, "strengths": list(o.strengths)}
        self.identity = {"benchmark": "detectors", "data_hash": store.data_hash, **fixed}

    def plan(self) -> BenchmarkPlan:
        """Return the dry run."""
        parts, todo, strengths = self.parts, missing_cells(self.jobs), len(self.options.strengths)
        problems = {job.cell.backbone.name: weights_problem(job.cell.backbone) for job in todo}
        passes = sum(passes_per_image(job.cell.backbone.source) for job in todo)
        cost = Cost(
            images_passed=passes * (len(parts.part) + len(parts.copied) * strengths),
            pairs=sum(len(job.missing) for job in todo) * _pairs(parts, strengths),
            bytes_images=self.store.images.nbytes,
        )
        return BenchmarkPlan(
            cells={job.name: job.done for job in self.jobs},
            images={name: len(parts.rows(name)) for name in PARTS},
            patients={name: parts.patients(name) for name in PARTS},
            references=len(parts.pools["test"]),
            cost=cost + total([_training_cost(job) for job in todo if job.cell.trained]),
            problems={name: why for name, why in problems.items() if why},
            memory=self._memory(todo),
        )

    def cells_plan(self) -> CellsPlan:
        """Count the detectors, their work, and those whose weights cannot be read."""
        plan = self.plan()
        return CellsPlan(
            n_cells=len(plan.cells),
            n_finished=sum(plan.cells.values()),
            cost=plan.cost,
            problems=tuple(f"{name}: {why}" for name, why in plan.problems.items()),
        )

    def _memory(self, todo: list[CellJob]) -> MemoryPlan:
        """Plan the memory on this machine; a GPU takes one detector at a time."""
        processes = 1 if self.device != "cpu" else self.options.processes or available_cores()
        return plan_memory(todo, self.store.images.shape, processes, available_memory())

    def run(self, run: RunFolder, progress: Progress) -> None:
        """Make the copies and run the cells that are not done; failures are noted for the tables."""
        write_table(run / SPLIT, self.parts.table(self.store.manifest.images))
        options, waiting = self.options, missing_cells(self.jobs)
        if not waiting:
            return
        for strength in options.strengths:
            make_copies(run.path, self.store, self.parts.copied, strength, seed=options.split_seed, progress=progress)
        for name in (CELLS, DETECTORS):
            run.subfolder(name)
        place = options.placement(run.path, self.store.folder, gpus=int(self.device != "cpu"))
        plan, share = self._memory(waiting), place.memory
        if options.executor == "local":
            share = None if plan.free is None else plan.free // plan.processes
        placed = [replace(job, memory=share) for job in waiting]
        how: dict[str, Any] = {"processes": plan.processes, "threads": options.threads, "place": place}
        if not run_cells(run, placed, run_cell, progress, stage="measuring detectors", **how):
            remove_copies(run.path)

    def read(self) -> Benchmark:
        """Compute every number from the finished cells."""
        options, strength = self.options, self.options.strength
        measured = detectors(read_cells(self.jobs), options.split_seed)
        board = leaderboard(measured, options.strengths)
        setup = [cell_table(self.jobs), folder_table(self.jobs)]
        fits = [fitted_table(measured, strength), refused_table(measured, strength)]
        return Benchmark(
            source=self.store.manifest.name,
            options=options,
            detectors=measured,
            board=board,
            tables=[*paper_tables(measured, strength), *measure_tables(measured, strength), *setup, *fits],
            figure_1=architecture_frame(measured, board.rows, strength),
            numbers=number_table(measured, options.strengths),
            failed=failures(self.jobs),
            parts=self.parts,
            groups_given=self.store.manifest.groups_given,
        )

    def report(self, result: Benchmark) -> StudyReport:
        """Report the leaderboard, the tables and the figures."""
        return benchmark_report(result)
