"""``memorisk study unique-features``: train canaries, ask them, lay out paper 002's tables and figures.

Resumable: every training leaves one file (`jobs`), and the same command goes on where a killed one stopped. A network
that fails is told while the others finish.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.sources.registry import refuse_overlap
from memorisk.report.page import render_page
from memorisk.runs.environment import available_cores, machine, versions
from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.worker import Outcome
from memorisk.runs.files import write_table, write_text
from memorisk.runs.folder import RunFolder, check_out_folder, open_run
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.studies.engine.cells import read_result
from memorisk.studies.engine.study_file import check_study_folder
from memorisk.studies.engine.tables import StudyTable, markdown_table
from memorisk.studies.unique_features.canary_training import CHECKPOINTS, RESULTS, STATES, run_canary, run_on_gpu
from memorisk.studies.unique_features.config import UniqueStudy, read_unique
from memorisk.studies.unique_features.dataset import SetData, prepare_set
from memorisk.studies.unique_features.page import unique_page
from memorisk.studies.unique_features.plan import BASE, Arm, Planner, Training
from memorisk.studies.unique_features.results import StudyAnswers, read_answers
from memorisk.studies.unique_features.tables import tables_text, unique_tables
from memorisk.training.classifiers.fit import check_fit

__all__ = ["UniqueResult", "read_unique", "study_unique_features"]
TABLES, MODELS, REPORT = "tables", "models.parquet", "report.html"


@dataclass(frozen=True, eq=False)
class UniqueResult:
    """What came of a study."""

    reading: StudyAnswers
    """Every finished model."""
    tables: list[StudyTable]
    """Tables 1 to 3, and those of the studies beside."""
    failed: dict[str, str]
    """Why trainings are not there, by network and data set."""

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed


@dataclass(frozen=True)
class UniquePlan:
    """What a study would train."""

    trainings: dict[Arm, int]
    """Of each network on each data set."""
    images: dict[str, tuple[int, int, int]]
    """Of each data set: trained on, validated on, probes."""
    controls: dict[str, int]
    """Controls of the mark, by data set."""
    cost: Cost
    """Of the trainings that are not done, if none ends early, and of what models are asked afterwards."""


def study_unique_features(
    config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False
) -> UniqueResult:
    """Run the study of paper 002, or go on with it, and lay out its tables and figures.

    Args:
        config: The study (docs/unique-features.md): ``protocol``, ``settings``, ``training``, ``datasets``.
        out: The study's folder: new, empty, or this study to go on with.
        progress: Called with (stage, done, total).
        tables_only: Run nothing; lay out what is finished.

    Returns:
        The tables; they are also in ``out/tables`` and, with the figures, in ``out/report.html``.

    Raises:
        InputError: The file asks for something that does not exist, or a data set cannot be read; nothing was run.
    """
    study, folder = read_unique(config), Path(out)
    check_study_folder(folder, tables_only=tables_only)
    if not tables_only:
        study.options.reach_cluster()
    identity = {"run": _identity(study)}
    for name, one in study.datasets.items():
        refuse_overlap(folder, {f"the images of {name}": one.images, f"the probes of {name}": one.probes})
    check_out_folder(folder, identity, identity=["run"])
    sets = prepare_sets(study, progress)
    planner = Planner(study, sets, folder)
    _refuse_fewer_models(folder, planner)
    if not tables_only:
        check_arms(planner, progress)
    with open_run(folder, {**config, **identity}, identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        trainings, failed = _run(run, planner, progress, tables_only)
        progress("laying out the tables", 0, 0)
        reading = read_answers(trainings, sets)
        tables = unique_tables(reading)
        _write(run, study, reading, tables, failed)
        run.log("finished", failed=failed)
    return UniqueResult(reading, tables, failed)


def plan_unique(config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress) -> UniquePlan:
    """What the study would train; nothing is trained or written.

    Raises:
        InputError: As `study_unique_features`.
    """
    study, folder = read_unique(config), Path(out)
    check_out_folder(folder, {"run": _identity(study)}, identity=["run"])
    sets = prepare_sets(study, progress)
    planner = Planner(study, sets, folder)
    _refuse_fewer_models(folder, planner)
    check_arms(planner, progress)
    sizes = {name: (len(d.rows), len(d.validation), len(d.probes.images)) for name, d in sets.items()}
    controls = {name: len(d.controls) for name, d in sets.items()}
    return UniquePlan(planner.count(), sizes, controls, planner.cost(_influences(planner.bases())))


def prepare_sets(study: UniqueStudy, progress: Progress) -> dict[str, SetData]:
    """Decode every data set.

    Raises:
        InputError: One cannot be read.
    """
    return {name: prepare_set(name, asked, study.options, progress) for name, asked in study.datasets.items()}


def check_arms(planner: Planner, progress: Progress) -> None:
    """Refuse, before anything is written, a network that does not fit its images.

    Raises:
        InputError: One does not.
    """
    seen: set[Arm] = set()
    anything = {arm: np.arange(len(planner.sets[arm.dataset].rows), dtype=float) for arm in planner.ranked()}
    for training in [*planner.bases(), *planner.others(anything)]:
        arm, job = training.arm, training.job
        if arm in seen or job.done:
            continue
        seen.add(arm)
        progress(f"checking {job.network} on {arm.dataset}", 0, 0)
        images = planner.sets[arm.dataset].store.images
        try:
            check_fit(
                job.model(), images, job.labels, job.rows, job.options, device=job.device,
                normalisation=job.normalisation,
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"{one_line(arm.dataset, 60)}, {job.network}: {error}") from None


def _identity(study: UniqueStudy) -> dict[str, Any]:
    """What may not change in a folder: the protocol and what the models are asked. Data sets may be added."""
    told = asdict(study.options)
    kept = {key: told[key] for key in ("mark", "place", "mark_scale", "opacity", "seed", "validation")}
    return {"study": "unique-features", "protocol": study.protocol, **kept}


def _refuse_fewer_models(out: Path, planner: Planner) -> None:
    """Refuse to replace a finished report by one of fewer models.

    Raises:
        InputError: Models that are finished are not part of what is asked for.
    """
    there = {path.stem for path in (out / RESULTS).glob("*.npz")}
    if not (out / REPORT).is_file() or not there:
        return
    bases = planner.bases()
    asked = {t.job.key for t in [*bases, *planner.others(_influences(bases))]}
    gone = len(there - asked)
    if gone:
        raise InputError(
            f"--out {one_line(out)} holds a finished study of {len(there):,} models, of which {gone:,} would be "
            "left out: data sets, networks, canaries and references may be added, other settings need another --out"
        )


def _influences(bases: list[Training]) -> dict[Arm, np.ndarray]:
    """Self-influence of every image, of the arms whose base is finished."""
    return {b.arm: read_result(b.job.result_file)["influence"] for b in bases if b.role == BASE and b.job.done}


def _run(
    run: RunFolder, planner: Planner, progress: Progress, tables_only: bool
) -> tuple[list[Training], dict[str, str]]:
    """Train what is not there: first what says which images are influential, then all others."""
    for name in (RESULTS, STATES, CHECKPOINTS):
        run.subfolder(name)
    failed: dict[str, str] = {}
    bases = planner.bases()
    if not tables_only:
        failed |= _train(run, bases, planner, "self-influence of every image", progress)
    others = planner.others(_influences(bases))
    if not tables_only:
        failed |= _train(run, others, planner, "training canaries and references", progress)
    return [*bases, *others], failed


def _train(
    run: RunFolder, trainings: list[Training], planner: Planner, stage: str, progress: Progress
) -> dict[str, str]:
    """Run the trainings that are not done, each once; what fails is told by arm."""
    named = {t.job.key: t for t in trainings}
    waiting = [t for t in named.values() if not t.job.done]
    done = len(named) - len(waiting)
    progress(stage, done, len(named))
    failed: dict[str, str] = {}

    def finished(training: Training, error: object) -> None:
        """Count a training; log and note why one failed."""
        nonlocal done
        done += 1
        progress(stage, done, len(named))
        if error is not None:
            arm = training.arm
            failed[f"{arm.dataset}, {arm.network}, {arm.regulariser}"] = one_line(error, 300)
            run.log("failed", part=arm.dataset, network=arm.network, why=str(error))

    if not waiting:
        return failed
    folders = (run.path, *sorted({t.job.images.parent for t in waiting}))
    place = planner.options.placement(*folders, gpus=int(planner.device != "cpu"))
    if planner.device != "cpu" and not place.remote:
        run_on_gpu([t.job for t in waiting], lambda job, error: finished(named[job.key], error))
        return failed

    def outcome(of: Outcome) -> None:
        """The same of a worker's outcome."""
        finished(waiting[of.index], of.error)

    processes = planner.options.processes or available_cores()
    try:
        run_jobs(run_canary, [t.job for t in waiting], processes=processes, threads=1, on_done=outcome, place=place)
    except MemoriskError:
        if not failed:
            raise
    return failed


def _write(
    run: RunFolder, study: UniqueStudy, reading: StudyAnswers, tables: list[StudyTable], failed: dict[str, str]
) -> None:
    """Every table as Parquet and Markdown, every model as a row, and the page."""
    folder = run.subfolder(TABLES)
    write_table(folder / MODELS, reading.models)
    for table in tables:
        for kind, frame in {"paper": table.paper, "ours": table.ours, **table.extra}.items():
            if len(frame.columns):
                write_table(folder / f"{table.name}_{kind}.parquet", frame)
    write_text(folder / "tables.md", tables_text(tables, markdown_table))
    write_text(run / REPORT, render_page(unique_page(study, reading, tables, failed)))
