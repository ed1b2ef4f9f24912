"""``memorisk study unique-features``: train canaries, query them, lay out paper 002's tables and figures.

Every training leaves one file (`canary_training`), and the same command resumes where a killed one stopped. A network
that fails is listed while the others finish.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.runs.environment import available_cores
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.studies.engine.cells import read_result
from memorisk.studies.engine.runner import Ended, missing_cells, run_cells
from memorisk.studies.engine.study import REPORT, CellsPlan, FinishedStudy, Study, StudyReport, open_study, run_study
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
    problems: Mapping[str, str] = field(default_factory=dict)
    """Cells that would fail: none, since a network that does not fit is refused at once."""


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
    return run_study(UniqueRun(config, out), progress, tables_only=tables_only)


def plan_unique(config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress) -> UniquePlan:
    """Plan the study; nothing is trained or written.

    Raises:
        InputError: As `study_unique_features`.
    """
    study = open_study(UniqueRun(config, out), progress)
    planner, sets = study.planner, study.sets
    sizes = {name: (len(d.rows), len(d.validation), len(d.probes.images)) for name, d in sets.items()}
    controls = {name: len(d.controls) for name, d in sets.items()}
    return UniquePlan(planner.count(), sizes, controls, planner.cost(_influences(planner.bases())))


def prepare_sets(study: UniqueStudy, progress: Progress) -> dict[str, SetData]:
    """Decode every data set.

    Raises:
        InputError: A data set cannot be read.
    """
    return {name: prepare_set(name, dataset, study.options, progress) for name, dataset in study.datasets.items()}


class UniqueRun(Study[UniqueResult]):
    """The study in its folder, which fixes the protocol and the queries; data sets may be added.

    Args:
        config: File of the study.
        out: Folder of the study.
    """

    def __init__(self, config: Mapping[str, Any], out: str | Path) -> None:
        self.study, self.settings, self.out = read_unique(config), config, Path(out)
        self.options, self.clusters = self.study.options, [self.study.options]
        fixed = ("mark", "place", "mark_scale", "opacity", "seed", "validation")
        self.identity = {"study": "unique-features", "protocol": self.study.protocol}
        self.identity |= {name: getattr(self.options, name) for name in fixed}
        sets = self.study.datasets
        self.sources = {f"the images of {name}": one.images for name, one in sets.items()}
        self.sources |= {f"the probes of {name}": one.probes for name, one in sets.items()}
        self.failed: dict[str, str] = {}

    def prepare(self, progress: Progress) -> None:
        """Decode every data set, and refuse to replace a finished report by one of fewer models."""
        self.sets = prepare_sets(self.study, progress)
        self.planner = Planner(self.study, self.sets, self.out)
        finished = {path.stem for path in (self.out / RESULTS).glob("*.npz")}
        if not (self.out / REPORT).is_file() or not finished:
            return
        gone = len(finished - {t.job.key for t in self.trainings()})
        if gone:
            raise InputError(
                f"--out {one_line(self.out)} holds a finished study of {len(finished):,} models, of which {gone:,} "
                "would be left out: data sets, networks, canaries and references may be added, other settings need "
                "another --out"
            )

    def trainings(self) -> list[Training]:
        """Return every training that is known: those of influential canaries follow the bases."""
        bases = self.planner.bases()
        return [*bases, *self.planner.others(_influences(bases))]

    def check(self, progress: Progress) -> None:
        """Refuse a network that does not fit its images."""
        checked: set[Arm] = set()
        planner = self.planner
        for training in [*planner.bases(), *planner.others(planner.any_influence())]:
            arm, job = training.arm, training.job
            if arm in checked or job.done:
                continue
            checked.add(arm)
            progress(f"checking {job.network} on {arm.dataset}", 0, 0)
            images = self.sets[arm.dataset].store.images
            how: dict[str, Any] = {"device": job.device, "normalisation": job.normalisation}
            try:
                check_fit(job.model(), images, job.labels, job.rows, job.options, **how)
            except InputError as error:
                raise InputError(f"{one_line(arm.dataset, 60)}, {job.network}: {error}") from None

    def cells_plan(self) -> CellsPlan:
        """Count the trainings; until the bases are finished, influential images are not known, and any are counted."""
        influences = self.planner.any_influence() | _influences(bases := self.planner.bases())
        done = {t.key: t.done for t in [*bases, *self.planner.others(influences)]}
        cost = self.planner.cost(_influences(bases))
        return CellsPlan(n_cells=len(done), n_finished=sum(done.values()), cost=cost)

    def run(self, run: RunFolder, progress: Progress) -> None:
        """Train what is missing: first the models that show which images are influential, then all others."""
        for name in (RESULTS, STATES, CHECKPOINTS):
            run.subfolder(name)
        self.failed |= _train(run, self.planner.bases(), self.planner, "self-influence of every image", progress)
        others = self.planner.others(_influences(self.planner.bases()))
        self.failed |= _train(run, others, self.planner, "training canaries and references", progress)

    def read(self) -> UniqueResult:
        """Compute every number from the finished trainings."""
        reading = read_answers(self.trainings(), self.sets)
        tables, any_finished = unique_tables(reading), len(reading.answers) > 0
        return UniqueResult(reading=reading, tables=tables, failed=self.failed, any_finished=any_finished)

    def report(self, result: UniqueResult) -> StudyReport:
        """Lay out the page, and every model as a row."""
        page = unique_page(self.study, result.reading, result.tables, self.failed)
        return StudyReport(page=page, frames={"models": result.reading.models})


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
