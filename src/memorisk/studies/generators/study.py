"""``memorisk study generators``: train generators, measure what they memorize, lay out tables and figures.

Every generator has a folder (`cells`), and the same command resumes where a killed one stopped. A generator that
fails is listed while the others finish. The dry run counts trainings, the images drawn at every snapshot, and the
work of the detectors on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.comparison.knowledge import known_patients, knows_both_alike
from memorisk.audits.comparison.sets import select_rows
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.sources.places import refuse_missing
from memorisk.models.classifiers.specs import names_file
from memorisk.models.encoders.feature_sources import WEIGHTS_OTHERWISE
from memorisk.report.columns import column_numbers
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.statistics.copies.memorized_share import can_show_memorization
from memorisk.studies.engine.cells import CELLS
from memorisk.studies.engine.runner import missing_cells, named_progress, run_cells
from memorisk.studies.engine.study import CellsPlan, FinishedStudy, Study, StudyReport, open_study, run_study
from memorisk.studies.generators.cells import (
    Detectors,
    blank_conditions,
    conditions_folder,
    run_cell,
    run_cell_job,
    seconds_a_step,
    weight_bytes,
)
from memorisk.studies.generators.config import NO_QUALITY, read_generators
from memorisk.studies.generators.page import generators_page
from memorisk.studies.generators.plan import MEASUREMENT_SETTINGS, Cell, SetData, plan_cells, prepare_set
from memorisk.studies.generators.results import StudyEvaluations, read_evaluations
from memorisk.studies.generators.tables import generator_tables
from memorisk.studies.generators.wording import hold_more_out
from memorisk.training.features.extraction import features_cost, passes_per_image
from memorisk.training.generators.command import classifiers_cost, latents_cost, steps_cost
from memorisk.training.generators.fold_classifiers import fold_data
from memorisk.training.generators.generation import kind_cost


def study_cost(cells: Sequence[Cell], detectors: Detectors) -> Cost:
    """Estimate the cost of the generators that are not done; shared parts count once.

    Args:
        cells: Generators of the study.
        detectors: Detectors that compare images.

    Returns:
        Cost of the waiting generators. Pairs are those of the detectors; those behind the figures of quality are not
        counted. Drawn images and copies with the same pixels go through a network once: the number is a bound.
    """
    waiting = missing_cells(cells)
    shared: dict[object, Cost] = {}
    for cell in waiting:
        shared |= _shared_costs(cell, detectors)
    own = [_cell_cost(cell, detectors) for cell in waiting]
    decoded = {id(cell.data.store): cell.data.store.images.nbytes for cell in cells}
    return total([*own, *shared.values()]) + Cost(bytes_images=sum(decoded.values()))


def _cell_cost(cell: Cell, detectors: Detectors) -> Cost:
    """Estimate the cost of one generator: training, and drawing and comparing at each reading that is missing."""
    settings, options = cell.arm.training(cell.seed, cell.options), cell.options
    n, m, s = len(cell.training.rows), len(cell.data.held_out), cell.n_images
    missing = [int(step) for step in cell.missing]
    last = cell.arm.snapshots[-1] in missing
    copied = sum(name in options.strengths for name in ("weak", "strong"))
    conditions = blank_conditions(cell)
    cost = steps_cost(cell.data.store, cell.training.repeated, settings, cell.data.held_out, conditions)
    cost += kind_cost(settings.kind, options.of_kind(settings.kind), len(missing) * s)
    each_image = sum(passes_per_image(detectors.open(source).source) for source in options.detectors)
    passed = each_image * (len(missing) * s + last * (copied * n + (m if cell.arm.conditioning else 0)))
    if last and options.quality_source != NO_QUALITY:
        passed += s * passes_per_image(detectors.open(options.quality_source).source)
    each = len(missing) * (3 * n * s + m * s + 2 * m * n) + last * copied * n**2
    return cost + Cost(
        images_passed=passed,
        pairs=len(options.detectors) * each,
        bytes_weights=weight_bytes(cell) if options.keep_generators else 0,
        at_most=("images_passed",) if passed else (),
    )


def _shared_costs(cell: Cell, detectors: Detectors) -> dict[object, Cost]:
    """Estimate the costs that generators of the study share, each under a name of its own."""
    data, settings = cell.data, cell.arm.training(cell.seed, cell.options)
    costs: dict[object, Cost] = {}
    for mirrored in (False, True) if settings.kind == "dit" and settings.flip else (False,):
        costs["latents", data.name, settings.latent, mirrored] = latents_cost(data.store, replace(settings, flip=False))
    sources = {*cell.options.detectors, cell.options.quality_source} - {NO_QUALITY}
    for source in sources:
        opened = detectors.open(source)
        costs["features", data.name, source] = features_cost(
            opened.source, [data.store.pixel_hashes], data.store.images.shape, opened.detector
        )
    if cell.arm.conditioning:
        which, classifiers = cell.arm.conditioning, cell.classifiers
        folds = fold_data(data.store, cell.training.rows, None if which == "label-noise" else classifiers.seed)
        costs |= classifiers_cost(folds, classifiers, which, conditions_folder(cell))
    return costs


__all__ = ["GeneratorsPlan", "GeneratorsResult", "plan_generators", "read_generators", "study_generators"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GeneratorsResult(FinishedStudy):
    """Result of a study."""

    reading: StudyEvaluations
    """Readings of all finished generators."""


@dataclass(frozen=True, eq=False)
class GeneratorsPlan:
    """Plan of a study."""

    table: pd.DataFrame
    """Table with one row per arm, data set and size: ``dataset, arm, n_images, n_patients, n_held, steps, epochs,
    readings,
    generators, waiting, seconds`` (seconds of those that are not done; NaN where a step could not be timed)."""
    problems: dict[str, str]
    """Reasons why generators cannot be trained, by name."""
    cost: Cost
    """Cost of the generators that are not done, with the classifiers that make conditions; pairs are the detectors'."""
    doubts: tuple[str, ...] = ()
    """Data sets of which no memorized share could be shown, with what would change that."""

    @property
    def seconds(self) -> float:
        """Estimate the seconds of all that is not done, as far as they are known."""
        return float(np.nansum(column_numbers(self.table, "seconds")))


def study_generators(
    config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False
) -> GeneratorsResult:
    """Run the study of generators, or resume it, and lay out its tables and figures.

    Args:
        config: Study (docs/study-generators.md): ``settings``, ``generator``, ``classifiers``, ``datasets``, ``arms``.
        out: Folder of the study: a new one, an empty one, or this study's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Train nothing; lay out what is finished.

    Returns:
        Tables of the study; they are also in ``out/tables`` and, with the figures, in ``out/report.html``.

    Raises:
        InputError: The file names something that does not exist, or a data set cannot be read; nothing was run.
        MemoriskError: Every generator failed; what is done is kept.
    """
    return run_study(GeneratorsRun(config, out), progress, tables_only=tables_only)


def plan_generators(config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress) -> GeneratorsPlan:
    """Plan the study and its time; nothing is trained or written but the store of decoded images.

    Raises:
        InputError: As `study_generators`.
    """
    study = open_study(GeneratorsRun(config, out), progress)
    cells, refused, detectors = study.cells, study.refused, study.detectors
    by: dict[tuple[str, str, int | str], list[Cell]] = {}
    for cell in cells:
        by.setdefault((cell.data.name, cell.arm.name, cell.size), []).append(cell)
    rows, problems, timed = [], dict(refused), {}
    for own in by.values():
        first, waiting = own[0], [cell for cell in own if not cell.done]
        seconds, end = float("nan"), first.arm.snapshots[-1]
        if waiting:
            progress(f"timing {first.name}", 0, 0)
            key = (first.data.name, first.arm.name)
            try:
                each = timed[key] if key in timed else timed.setdefault(key, seconds_a_step(waiting[0]))
                seconds = len(waiting) * (end * each + _drawing_seconds(first, each))
            except InputError as error:
                problems[first.name] = one_line(error, 300)
        row = {
            "dataset": first.data.name, "arm": first.arm.name, "n_images": len(first.training.rows),
            "n_patients": len(set(first.training.groups.tolist())), "n_held": first.data.n_held, "steps": end,
            "epochs": first.epochs(end), "readings": len(first.arm.snapshots), "generators": len(own),
            "waiting": len(waiting), "seconds": seconds if waiting else 0.0,
        }  # fmt: skip
        rows.append(row)
    nominal = study.options.nominal
    doubts = dict.fromkeys(
        f"{row['dataset']}: {hold_more_out(row['n_patients'], row['n_held'], nominal)}"
        for row in rows
        if not can_show_memorization(row["n_patients"], row["n_held"], nominal=nominal)
    )
    return GeneratorsPlan(pd.DataFrame(rows), problems, study_cost(cells, detectors), tuple(doubts))


def _drawing_seconds(cell: Cell, each: float) -> float:
    """Estimate how long drawing takes: a forward step of a diffusion model costs a third of one of its training."""
    settings = cell.arm.training(cell.seed, cell.options)
    passes = cell.options.sampling_steps * (2 if cell.options.guidance != 1 else 1) if settings.kind == "dit" else 1
    return len(cell.arm.snapshots) * cell.n_images * passes * each / settings.images_a_step / 3


def _check_knowledge(detectors: Detectors, source: str, data: SetData) -> None:
    """Refuse a detector that was trained on one part of a data set and not on the other.

    Raises:
        InputError: The detector was trained so (METHODS section 5).
    """
    detector = detectors.open(source).detector
    if detector is None:
        return
    train, held = (known_patients(detector, select_rows(data.store, rows)) for rows in (data.pool, data.held_out))
    if train is not None and held is not None and not knows_both_alike(train, held):
        raise InputError(
            f"{one_line(source, 80)} was trained on {train.patients:,} of {train.of:,} patients of "
            f"{one_line(data.name, 60)} that generators may be trained on and on {held.patients:,} of {held.of:,} "
            "held-out ones: name a detector that knows neither, or both alike"
        )


class GeneratorsRun(Study[GeneratorsResult]):
    """The study in its folder, which fixes how generators are read; data sets and arms may be added.

    Args:
        config: File of the study.
        out: Folder of the study.
    """

    def __init__(self, config: Mapping[str, Any], out: str | Path) -> None:
        self.study, self.out = read_generators(config), Path(out)
        self.options, self.clusters = self.study.options, [self.study.options]
        fixed = asdict(self.options) | {"quality_source": self.options.quality_source}
        identity = {"study": "generators", **{key: fixed[key] for key in (*MEASUREMENT_SETTINGS, "nominal", "q")}}
        self.names = Pseudonyms.from_options(self.options)
        self.settings = self.names.knowing(config).settings({**config, "run": identity})
        self.identity = self.settings["run"]
        self.sources = {f"the images of {name}": one.images for name, one in self.study.datasets.items()}
        check_device(self.options.device)
        self.detectors = Detectors(self.options.device)
        for source in {*self.options.detectors, self.options.quality_source} - {NO_QUALITY}:
            self.detectors.open(source)

    def prepare(self, progress: Progress) -> None:
        """Decode every data set and plan the cells; ``refused`` are those that no data set has images for."""
        sets = {name: prepare_set(name, dataset, progress) for name, dataset in self.study.datasets.items()}
        self.cells, self.refused = plan_cells(self.study, sets, self.out)
        for source in self.options.detectors:
            for data in sets.values():
                _check_knowledge(self.detectors, source, data)

    def check(self, progress: Progress) -> None:
        """Refuse weights and autoencoders of unfinished generators that do not exist, before the first is trained."""
        settings = [cell.arm.training(cell.seed, cell.options) for cell in self.cells if not cell.done]
        named = [text for one in settings for text in (one.weights, one.latent.partition("autoencoder:")[2]) if text]
        classifiers = [cell.classifiers.conditioning_weights for cell in self.cells if not cell.done]
        refuse_missing(
            [text for text in named if "@" not in text or Path(text).exists()]
            + [text for text in classifiers if text is not None and names_file(text)],
            WEIGHTS_OTHERWISE,
        )

    def cells_plan(self) -> CellsPlan:
        """Count the generators, their work, and those that no data set has images for."""
        done = {cell.key: cell.done for cell in self.cells}
        return CellsPlan(
            n_cells=len(done),
            n_finished=sum(done.values()),
            cost=study_cost(self.cells, self.detectors),
            problems=tuple(f"{name}: {why}" for name, why in self.refused.items()),
        )

    def run(self, run: RunFolder, progress: Progress) -> None:
        """Train and read what is not done; failures are noted in the folders of their cells."""
        run.subfolder(CELLS)
        if not (waiting := missing_cells(self.cells)):
            return
        options, done = self.options, len({cell.key for cell in self.cells}) - len(waiting)
        number = {cell.key: f"{i} of {done + len(waiting)}" for i, cell in enumerate(waiting, start=done + 1)}

        def train(cell: Cell) -> None:
            """Train one generator, with its name and place before each stage."""
            run_cell(cell, self.detectors, named_progress(progress, f"{cell.name} ({number[cell.key]})"))

        local = options.executor == "local"
        gpus = 0 if local else int(check_device(options.device).type == "cuda")
        place = options.placement(run.path, *sorted({cell.data.store.folder for cell in waiting}), gpus=gpus)
        how: dict[str, Any] = {"stage": "training and reading generators", "threads": options.threads, "place": place}
        run_cells(run, self.cells, train if local else run_cell_job, progress, **how)

    def read(self) -> GeneratorsResult:
        """Compute every number from the finished cells."""
        failed = self.refused | {cell.name: cell.failure for cell in self.cells if cell.failure}
        reading = read_evaluations(self.cells)
        tables, any_finished = generator_tables(reading, self.names), len(reading.table) > 0
        return GeneratorsResult(reading=reading, tables=tables, failed=failed, any_finished=any_finished)

    def report(self, result: GeneratorsResult) -> StudyReport:
        """Lay out the page, and every reading as a row."""
        page = generators_page(self.study, result.reading, result.tables, result.failed)
        return StudyReport(page=page, frames={"readings": result.reading.table})
