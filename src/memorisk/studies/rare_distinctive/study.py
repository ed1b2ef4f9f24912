"""The study of paper 000: architectures x data sets x seeds, interventions, defences and explanations.

Paper 000, "Rare, Distinctive, Memorized" (``memorisk study rare-distinctive --config FILE --out DIR``). One file
describes all of it. A cell is one audit in a folder of its own, ``cells/DATASET/ARCHITECTURE``, and so resumes as any
audit does: the same command resumes where a killed one stopped, a new seed, data set or architecture adds only its
own trainings, and a cell that fails is reported while the others finish. Before anything is written, the settings are
compared with those that finished cells were run with. Tables and figures come from all that is finished
(`study_tables`, `study_page`).
"""

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.audits.arms import REGIMES, compared_in
from memorisk.audits.classifier.evidence import SCORES
from memorisk.audits.classifier.explanations.result import BEFORE
from memorisk.audits.classifier.explanations.run import explain
from memorisk.audits.classifier.options import ClassifierOptions, saved_options
from memorisk.audits.classifier.planning.plan import weights_identity
from memorisk.audits.classifier.result import ClassifierVerdict
from memorisk.audits.classifier.retraining.defences import audit_defences
from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.sources.places import refuse_missing
from memorisk.models.classifiers.specs import names_file
from memorisk.models.encoders.feature_sources import WEIGHTS_OTHERWISE
from memorisk.report.options import ReportOptions
from memorisk.runs.checksums import is_intact
from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.files import file_fingerprint, json_value, read_json, write_json
from memorisk.runs.folder import CONFIG, WEIGHTS_HASH, RunFolder, is_hidden, read_config
from memorisk.runs.settings import setting_names
from memorisk.runs.workload import Progress, no_progress
from memorisk.studies.engine.runner import named_progress, run_cells
from memorisk.studies.engine.study import NOT_RUN_YET, CellsPlan, FinishedStudy, Study, StudyReport, run_study
from memorisk.studies.rare_distinctive.config import StudyConfig, read_study, slug
from memorisk.studies.rare_distinctive.page import rarity_page
from memorisk.studies.rare_distinctive.results import DEFENCES, StudyRuns, part_name
from memorisk.studies.rare_distinctive.tables import study_tables

_REPORT_FIELDS = "gallery redact pseudonym_key fail_on level correction notice attack_gate"
_EXTENSION_FIELDS = "seeds models placebo intervene classes canary_pairs regime epsilon target target_classes"
_MACHINE_FIELDS = (
    "device processes checkpoint_seconds discard_weights store follow_links max_pixels image_root protocol"
)
_CLUSTER_FIELDS = "executor cluster job_memory worker_silence python_path"
CHANGEABLE_FIELDS = frozenset(f"{_REPORT_FIELDS} {_EXTENSION_FIELDS} {_MACHINE_FIELDS} {_CLUSTER_FIELDS}".split())
"""Settings that a later command may change in a cell, or that the cell's own folder settles."""


def check_part(name: str, folder: Path, settings: dict[str, Any], *, unfinished: bool = False) -> None:
    """Refuse settings that would make another audit of a cell that is finished.

    A cell that never finished has nothing to lose: its own audit refuses the settings then, and the other cells finish.

    Args:
        name: Name of the part, for the message.
        folder: Folder of a cell, or of a comparison of regimes (one folder per regime).
        settings: Settings of the present command.
        unfinished: Whether cells that were only begun are checked, too, as a plan needs.

    Raises:
        InputError: A setting that makes the cell differs, or seeds that it has are left out.
    """
    for inner in _audits(folder):
        if not (unfinished or (inner / VERDICT).is_file()):
            continue
        before = saved_options(read_config(inner))
        now = saved_options(settings)
        for setting in vars(before):
            was, requested = json_value(getattr(before, setting)), json_value(getattr(now, setting))
            if setting not in CHANGEABLE_FIELDS and was != requested and not is_hidden(was):
                raise InputError(
                    f"{name} was run with {setting} = {one_line(was, 40)}, now asked: {one_line(requested, 40)}; give "
                    f"the same settings, name another --out, or remove {one_line(inner)}"
                )
        _check_seeds(name, inner, before, now)


def check_weights(name: str, folder: Path, settings: dict[str, Any]) -> None:
    """Refuse a file of weights that is not the one from which the models of a cell started.

    Args:
        name: Name of the part, for the message.
        folder: Folder of a cell, or of a comparison of regimes.
        settings: Settings of the present command.

    Raises:
        InputError: The file holds other weights: new seeds would start from them, and count as the same audit.
    """
    for inner in _audits(folder):
        before = read_config(inner)["run"].get(WEIGHTS_HASH)
        now = weights_identity(inner, saved_options(settings)).get(WEIGHTS_HASH)
        if before != now:
            raise InputError(
                f"{name} started from other weights than {one_line(settings['weights'], 120)} holds now: restore the "
                f"file, name another --out, or remove {one_line(inner)}"
            )


def _audits(folder: Path) -> Iterator[Path]:
    """Yield the folder, and those of regimes in it, that hold an audit."""
    for inner in (folder, *(sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else ())):
        if (inner / CONFIG).is_file() and "images" in read_config(inner) and compared_in(inner) is None:
            yield inner


def _check_seeds(name: str, folder: Path, before: ClassifierOptions, now: ClassifierOptions) -> None:
    if not (folder / VERDICT).is_file() or not now.names_models:  # else the audit keeps those that are there
        return
    gone = [seed for seed in before.chosen_seeds if seed not in now.chosen_seeds]
    if gone:
        raise InputError(
            f"{name} holds the result of {len(before.chosen_seeds)} seeds, of which {len(gone)} would be left out: "
            "seeds may be added, not taken away; name another --out for fewer"
        )


_CLUSTER_SETTINGS = setting_names(ClusterOptions)
CELLS, VERDICT = "cells", "verdict.json"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StudyResult(FinishedStudy):
    """Result of a study."""

    runs: StudyRuns
    """Finished parts of the study, and the reasons why others failed."""


@dataclass(frozen=True, eq=False)
class Part:
    """A cell or a comparison of regimes, in a folder of its own; its audit itself knows what is left to do."""

    name: str
    """Name in words."""
    folder: Path
    """Folder of the part."""
    images: str
    """Source of its images."""
    settings: dict[str, Any]
    """Settings of its audit."""
    defence: bool
    """Whether it compares regimes."""
    done = False

    @property
    def key(self) -> str:
        """Return its folder."""
        return str(self.folder)


def study_rare_distinctive(
    config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False
) -> StudyResult:
    """Run the study of paper 000, or resume it, and lay out its tables and figures.

    Args:
        config: Study: ``protocol`` (paper or corrected), ``seeds``, ``settings`` (of every audit), ``architectures``
            and ``datasets`` (a name each, with settings of their own; a data set needs ``images`` and may have
            ``skip``, ``seeds``, and ``bases`` of its classes), ``defences`` (by data set) and ``explain``. ``images``
            is anything that `memorisk.audit_classifier` takes: a path, a DataFrame, arrays ``(X, y, groups)``.
        out: Folder of the study: a new one, an empty one, or this study's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Run nothing; lay out what is finished.

    Returns:
        Tables of the study; they are also in ``out/tables`` and, with the figures, in ``out/report.html``.

    Raises:
        InputError: The file names something that does not exist; nothing was run.
        MemoriskError: Every cell failed; the message has the first one's error, and what is done is kept.
    """
    return run_study(RareStudy(config, out), progress, tables_only=tables_only)


def study_parts(folder: Path, study: StudyConfig) -> list[Part]:
    """Return every part: the cells, then the comparisons of regimes.

    Args:
        folder: Folder of the study.
        study: Study that `read_study` returned.
    """
    cells = [
        Part(part_name(dataset, architecture), _cell_folder(folder, architecture, dataset), images, settings, False)
        for (architecture, dataset), (images, settings) in study.cells.items()
    ]
    return cells + [
        Part(part_name(dataset, DEFENCES), folder / DEFENCES / slug(dataset), images, settings, True)
        for dataset, (images, settings) in study.defences.items()
    ]


class RareStudy(Study[StudyResult]):
    """The study in its folder, which fixes the protocol.

    Args:
        config: File of the study.
        out: Folder of the study.
    """

    def __init__(self, config: Mapping[str, Any], out: str | Path) -> None:
        self.study, self.out = read_study(config), Path(out)
        self.clusters = {
            ClusterOptions(**{k: cell[k] for k in _CLUSTER_SETTINGS}) for _, cell in self.study.cells.values()
        }
        identity = {"study": "rare-distinctive", "protocol": self.study.protocol}
        self.settings = _study_pseudonyms(self.study).knowing(config).settings({**config, "run": identity})
        self.identity = self.settings["run"]
        self.parts = study_parts(self.out, self.study)
        self.failed = {part.name: NOT_RUN_YET for part in self.parts if not part.defence and not _finished(part)}

    def prepare(self, progress: Progress) -> None:
        """Refuse settings that would make another audit of a cell that is finished."""
        for part in self.parts:
            check_part(part.name, part.folder, part.settings)

    def check(self, progress: Progress) -> None:
        """Refuse weights that were replaced, and missing ones of cells with work left, before any cell begins."""
        for part in self.parts:
            check_weights(part.name, part.folder, part.settings)
        refuse_missing(
            (
                weights
                for part in self.parts
                if _has_work(part)
                for weights in (part.settings["weights"], part.settings["target"])
                if weights is not None and names_file(weights)
            ),
            WEIGHTS_OTHERWISE,
        )

    def cells_plan(self) -> CellsPlan:
        """Count the parts and those with a result, to which seeds may have been added."""
        return CellsPlan(n_cells=len(self.parts), n_finished=sum(map(_finished, self.parts)), cost=None)

    def run(self, run: RunFolder, progress: Progress) -> None:
        """Run every cell, then every defence, each by itself."""

        def work(part: Part) -> None:
            """Run a part; a defect in one must not cost the others their days."""
            how = {"out": part.folder, "progress": named_progress(progress, part.name), **part.settings}
            try:
                if part.defence:
                    audit_defences(part.images, **how)
                else:
                    audit_classifier(part.images, **how)
                    _explain(part.folder, self.study.explain, how["progress"])
            except MemoriskError:
                raise
            except Exception as error:
                run.log("defect", part=part.name, trace=traceback.format_exc())
                raise MemoriskError(f"unexpected {type(error).__name__}: {error}") from error

        self.failed = run_cells(run, self.parts, work, progress, stage="running the study")

    def read(self) -> StudyResult:
        """Compute every table from the finished runs."""
        finished = {part.folder for part in self.parts if _finished(part)}
        cells = {key: _cell_folder(self.out, *key) for key in self.study.cells}
        defences = {dataset: self.out / DEFENCES / slug(dataset) for dataset in self.study.defences}
        runs = StudyRuns(
            cells={key: path for key, path in cells.items() if path in finished},
            defences={
                key: path
                for key, path in defences.items()
                if path in finished and part_name(key, DEFENCES) not in self.failed
            },
            protocol=self.study.protocol,
            bases=self.study.bases,
            failed=self.failed,
            pictured=self.study.pictured,
        )
        any_finished = bool(runs.cells or runs.defences)
        return StudyResult(runs=runs, tables=study_tables(runs), failed=self.failed, any_finished=any_finished)

    def report(self, result: StudyResult) -> StudyReport:
        """Lay out the page."""
        return StudyReport(page=rarity_page(result.runs, result.tables))


def _study_pseudonyms(study: StudyConfig) -> Pseudonyms:
    """Return the pseudonyms of the study's folder: those of the first audit that uses some.

    Raises:
        InputError: The key cannot be used.
    """
    hiding = next((settings for _, settings in study.cells.values() if settings["pseudonymise"]), None)
    if hiding is None:
        return Pseudonyms(None)
    key = hiding["pseudonym_key"]
    return Pseudonyms.from_options(ReportOptions(pseudonymise=True, pseudonym_key=None if key is None else Path(key)))


def _finished(part: Part) -> bool:
    return (part.folder / (REGIMES.table if part.defence else VERDICT)).is_file()


def _has_work(part: Part) -> bool:
    """Return whether the part is not finished, or its settings add to what is finished, as new seeds do."""
    if not _finished(part):
        return True
    before, now = saved_options(read_config(part.folder)), saved_options(part.settings)
    if any(getattr(before, setting) != getattr(now, setting) for setting in _EXTENSION_FIELDS.split()):
        return True
    # a run that was killed while it added seeds has them in its settings, not in its verdict
    verdicts = (ClassifierVerdict.read(read_json(inner / VERDICT)) for inner in _audits(part.folder))
    return any(set(verdict.seeds) != set(now.chosen_seeds) for verdict in verdicts)


def _cell_folder(folder: Path, architecture: str, dataset: str) -> Path:
    return folder / CELLS / slug(dataset) / slug(architecture)


def _explain(folder: Path, settings: Mapping[str, Any], progress: Progress) -> None:
    """Explain a finished cell, unless that was done for these very scores."""
    if not settings:
        return
    content = {"asked": dict(settings), "scores": file_fingerprint(folder / SCORES)}
    marker = folder / "explained.json"
    if is_intact(marker) and read_json(marker) == content:
        return
    options = dict(settings)
    options["features"] = (BEFORE,) if settings.get("features") is None else settings["features"]
    explain(folder, progress=progress, **options)
    write_json(marker, content, recorded=True)
