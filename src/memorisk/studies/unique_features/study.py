"""``memorisk study unique-features``: train canaries, query them, lay out paper 002's tables and figures.

Every training leaves one file (`canary_training`), and the same command resumes where a killed one stopped. A network
that fails is listed while the others finish.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.sources.overlap import refuse_overlap
from memorisk.runs.environment import available_cores
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.folder import RunFolder, check_out_folder
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.studies.engine.cells import read_result
from memorisk.studies.engine.runner import Ended, missing_cells, run_cells
from memorisk.studies.engine.study import REPORT, FinishedStudy, Study, StudyReport, check_entry, run_study
from memorisk.studies.unique_features.canary_training import CHECKPOINTS, RESULTS, STATES, run_on_gpu
from memorisk.studies.unique_features.config import UniqueStudy, read_unique
from memorisk.studies.unique_features.dataset import SetData, prepare_set
from memorisk.studies.unique_features.page import unique_page
from memorisk.studies.unique_features.plan import BASE, Arm, Planner, Training, run_training
from memorisk.studies.unique_features.results import StudyAnswers, read_answers
from memorisk.studies.unique_features.tables import unique_tables
from memorisk.training.classifiers.fit import check_fit

__all__ = ["UniqueResult", "read_unique", "study_unique_features"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class UniqueResult(FinishedStudy):
    """Result of a study."""

    reading: StudyAnswers
    """Answers of every finished model."""

    @property
    def any_finished(self) -> bool:
        """Return whether a model is finished."""
        return len(self.reading.answers) > 0


@dataclass(frozen=True)
class UniquePlan:
    """Plan of a study."""

    trainings: dict[Arm, int]
    """Number of trainings of each network on each data set."""
    images: dict[str, tuple[int, int, int]]
    """Numbers of images of each data set: trained on, validated on, probes."""
    controls: dict[str, int]
    """Number of controls of the mark, by data set."""
    cost: Cost
    """Cost of the trainings that are not done, if none ends early, and of their models' queries."""


def study_unique_features(
    config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False
) -> UniqueResult:
    """Run the study of paper 002, or resume it, and lay out its tables and figures.

    Args:
        config: Study (docs/unique-features.md): ``protocol``, ``settings``, ``training``, ``datasets``.
        out: Folder of the study: a new one, an empty one, or this study's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Run nothing; lay out what is finished.

    Returns:
        Tables of the study; they are also in ``out/tables`` and, with the figures, in ``out/report.html``.

    Raises:
        InputError: The file names something that does not exist, or a data set cannot be read; nothing was run.
        MemoriskError: Every training failed; what is done is kept.
    """
    study, folder = read_unique(config), Path(out)
    check_entry(folder, study.options, tables_only=tables_only)
    for name, one in study.datasets.items():
        refuse_overlap(folder, {f"the images of {name}": one.images, f"the probes of {name}": one.probes})
    check_out_folder(folder, {"run": _identity(study)}, identity=["run"])
    sets = prepare_sets(study, progress)
    planner = Planner(study, sets, folder)
    _refuse_fewer_models(folder, planner)
    if not tables_only:
        check_arms(planner, progress)
    failed: dict[str, str] = {}

    def run(run: RunFolder, progress: Progress) -> None:
        """Train what is missing: first the models that show which images are influential, then all others."""
        for name in (RESULTS, STATES, CHECKPOINTS):
            run.subfolder(name)
        failed.update(_train(run, planner.bases(), planner, "self-influence of every image", progress))
        others = planner.others(_influences(planner.bases()))
        failed.update(_train(run, others, planner, "training canaries and references", progress))

    def read() -> UniqueResult:
        """Compute every number from the finished trainings."""
        bases = planner.bases()
        reading = read_answers([*bases, *planner.others(_influences(bases))], sets)
        return UniqueResult(reading=reading, tables=unique_tables(reading), failed=failed)

    def report(result: UniqueResult) -> StudyReport:
        """Lay out the page, and every model as a row."""
        page = unique_page(study, result.reading, result.tables, failed)
        return StudyReport(page=page, frames={"models": result.reading.models})

    engine_study = Study(out=folder, settings=config, identity=_identity(study), run=run, read=read, report=report)
    return run_study(engine_study, progress, tables_only=tables_only)


def plan_unique(config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress) -> UniquePlan:
    """Plan the study; nothing is trained or written.

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
        InputError: A data set cannot be read.
    """
    return {name: prepare_set(name, dataset, study.options, progress) for name, dataset in study.datasets.items()}


def check_arms(planner: Planner, progress: Progress) -> None:
    """Refuse, before anything is written, a network that does not fit its images.

    Raises:
        InputError: A network does not fit.
    """
    checked: set[Arm] = set()
    anything = {arm: np.arange(len(planner.sets[arm.dataset].rows), dtype=float) for arm in planner.ranked()}
    for training in [*planner.bases(), *planner.others(anything)]:
        arm, job = training.arm, training.job
        if arm in checked or job.done:
            continue
        checked.add(arm)
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
    """Return the settings that a folder fixes: the protocol and the queries. Data sets may be added."""
    settings = asdict(study.options)
    identity = {key: settings[key] for key in ("mark", "place", "mark_scale", "opacity", "seed", "validation")}
    return {"study": "unique-features", "protocol": study.protocol, **identity}


def _refuse_fewer_models(out: Path, planner: Planner) -> None:
    """Refuse to replace a finished report by one of fewer models.

    Raises:
        InputError: Finished models are not part of the present study.
    """
    finished = {path.stem for path in (out / RESULTS).glob("*.npz")}
    if not (out / REPORT).is_file() or not finished:
        return
    bases = planner.bases()
    requested = {t.job.key for t in [*bases, *planner.others(_influences(bases))]}
    gone = len(finished - requested)
    if gone:
        raise InputError(
            f"--out {one_line(out)} holds a finished study of {len(finished):,} models, of which {gone:,} would be "
            "left out: data sets, networks, canaries and references may be added, other settings need another --out"
        )


def _influences(bases: list[Training]) -> dict[Arm, np.ndarray]:
    """Read the self-influence of every image, for the arms whose base is finished."""
    return {b.arm: read_result(b.job.result_file)["influence"] for b in bases if b.role == BASE and b.job.done}


def _train(
    run: RunFolder, trainings: list[Training], planner: Planner, stage: str, progress: Progress
) -> dict[str, str]:
    """Run the trainings that are not done, each once; failures are listed by arm."""
    folders = sorted({t.job.images.parent for t in missing_cells(trainings)})
    place = planner.options.placement(run.path, *folders, gpus=int(planner.device != "cpu"))

    def stacked(waiting: Sequence[Training], ended: Ended[Training]) -> None:
        """Train networks of a kind as one computation on a GPU."""
        by_key = {t.key: t for t in waiting}
        run_on_gpu([t.job for t in waiting], lambda job, error: ended(by_key[job.key], error and str(error)))

    return run_cells(
        run, trainings, run_training, progress, stage=stage, processes=planner.options.processes or available_cores(),
        place=place, together=stacked if planner.device != "cpu" and not place.remote else None,
    )  # fmt: skip
