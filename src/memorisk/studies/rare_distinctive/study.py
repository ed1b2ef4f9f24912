"""The study of paper 000: architectures x data sets x seeds, interventions, defences and explanations.

Paper 000, "Rare, Distinctive, Memorized" (``memorisk study rare-distinctive --config FILE --out DIR``). One file
asks for all of it. A cell is one audit in a folder of its own, ``cells/DATASET/ARCHITECTURE``, and so resumes as
any audit does: the same command goes on where a killed one stopped, a new seed, data set or architecture adds only
its own trainings, and a cell that fails is reported while the others finish. Before anything is written, the
settings are compared with those that finished cells were run with. Tables and figures come from whatever is
finished (`study_tables`, `study_page`).
"""

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memorisk.audits.classifier.evidence import SCORES
from memorisk.audits.classifier.explanations.run import BEFORE, check_features, explain
from memorisk.audits.classifier.finished_run import saved_options
from memorisk.audits.classifier.options import PAPER_SEEDS, ClassifierOptions
from memorisk.audits.classifier.retraining.defences import TABLE, audit_defences
from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.report.options import ReportOptions
from memorisk.report.page import render_page
from memorisk.runs.errors import InputError, MemoriskError, one_line, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.files import (
    file_fingerprint,
    fingerprint,
    json_value,
    read_json,
    write_json,
    write_table,
    write_text,
)
from memorisk.runs.folder import CONFIG, RunFolder, check_out_folder, is_hidden, open_run, read_config
from memorisk.runs.settings import check_names, setting_names
from memorisk.runs.workload import Progress, no_progress
from memorisk.studies.engine.study_file import check_keys, check_study_folder, read_protocol
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.rare_distinctive.page import study_page
from memorisk.studies.rare_distinctive.results import StudyRuns, part_name
from memorisk.studies.rare_distinctive.tables import study_tables, tables_markdown

_VERDICT_FILE = "verdict.json"
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

    One that never finished has nothing to lose: its own audit refuses them then, and the other cells finish.

    Args:
        name: Of the part, for the line.
        folder: Of a cell, or of a comparison of regimes (a folder a regime).
        settings: That are asked for now.
        unfinished: Of cells that were only begun, too: what a plan should tell.

    Raises:
        InputError: A setting that makes the cell differs, or seeds that it has are left out.
    """
    for inner in _audits(folder):
        if not (unfinished or (inner / _VERDICT_FILE).is_file()):
            continue
        before = saved_options(read_config(inner))
        now = saved_options(settings)
        for setting in vars(before):
            was, asked = json_value(getattr(before, setting)), json_value(getattr(now, setting))
            if setting not in CHANGEABLE_FIELDS and was != asked and not is_hidden(was):
                raise InputError(
                    f"{name} was run with {setting} = {one_line(was, 40)}, now asked: {one_line(asked, 40)}; give the "
                    f"same settings, name another --out, or remove {one_line(inner)}"
                )
        _check_seeds(name, inner, before, now)


def _audits(folder: Path) -> Iterator[Path]:
    """The folder, and those of regimes in it, that hold an audit."""
    for inner in (folder, *(sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else ())):
        if (inner / CONFIG).is_file() and "images" in read_config(inner) and not (inner / "defence.json").is_file():
            yield inner


def _check_seeds(name: str, folder: Path, before: ClassifierOptions, now: ClassifierOptions) -> None:
    if not (folder / _VERDICT_FILE).is_file():
        return
    gone = [seed for seed in before.chosen_seeds if seed not in now.chosen_seeds]
    if gone:
        raise InputError(
            f"{name} holds the result of {len(before.chosen_seeds)} seeds, of which {len(gone)} would be left out: "
            "seeds may be added, not taken away; name another --out for fewer"
        )


STUDY_KEYS = ("protocol", "seeds", "settings", "architectures", "datasets", "defences", "explain")
DATASET_KEYS = ("images", "bases", "skip", "seeds")
DEFENCE_KEYS = ("architecture",)
EXPLAIN_KEYS = ("features", "feature_weights", "feature_size", "probes")
NOT_RUN_YET = "not run yet"
_CLUSTER_SETTINGS = setting_names(ClusterOptions)
CELLS, DEFENCES, TABLES, REPORT, VERDICT = "cells", "defences", "tables", "report.html", "verdict.json"


@dataclass(frozen=True)
class Study:
    """A study as its file asks for it, checked.

    Attributes:
        protocol: "paper" or "corrected".
        cells: Architecture and data set to the source of images and the settings of its audit.
        defences: Data set to the same of its comparison of regimes.
        explain: Arguments of `memorisk.explain` for each cell; empty for none.
        bases: The user's reading of what makes a class distinctive, by data set and class.
    """

    protocol: str
    cells: dict[tuple[str, str], tuple[str, dict[str, Any]]]
    defences: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    explain: dict[str, Any] = field(default_factory=dict)
    bases: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def pictured(self) -> frozenset[str]:
        """Data sets of which figure 7 shows images: those whose settings ask for a gallery and leave nothing out."""
        return frozenset(d for (_, d), (_, s) in self.cells.items() if s["gallery"] and not s["redact"])


@dataclass(frozen=True)
class StudyResult:
    """What came of a study."""

    runs: StudyRuns
    """The finished parts, and why others failed."""
    tables: list[StudyTable]
    """Tables 1 to 11."""

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not self.runs.failed


def study_rare_distinctive(
    config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False
) -> StudyResult:
    """Run the study of paper 000, or go on with it, and lay out its tables and figures.

    Args:
        config: The study: ``protocol`` (paper or corrected), ``seeds``, ``settings`` (of every audit),
            ``architectures`` and ``datasets`` (a name each, with settings of their own; a data set needs ``images`` and
            may have ``skip``, ``seeds``, and ``bases`` of its classes), ``defences`` (by data set) and ``explain``.
        out: The study's folder: new, empty, or this study to go on with.
        progress: Called with (stage, done, total).
        tables_only: Run nothing; lay out what is finished.

    Returns:
        The tables; they are also in ``out/tables`` and, with the figures, in ``out/report.html``.

    Raises:
        InputError: The file asks for something that does not exist; nothing was run.
    """
    study, folder = read_study(config), Path(out)
    identity = {"study": "rare-distinctive", "protocol": study.protocol}
    check_study_folder(folder, tables_only=tables_only)
    check_out_folder(folder, {"run": identity}, identity=["run"])
    for name, part, settings in study_parts_in(folder, study):
        check_part(name, part, settings)
    if not tables_only:
        for options in {ClusterOptions(**{k: cell[k] for k in _CLUSTER_SETTINGS}) for _, cell in study.cells.values()}:
            options.reach_cluster()
    named = _study_pseudonyms(study).knowing(config).settings({**config, "run": identity})
    with open_run(folder, named, identity=["run"]) as run:
        runs = _finished_runs(run.path, study) if tables_only else _run_parts(run, study, progress)
        progress("laying out the tables", 0, 0)
        tables = study_tables(runs)
        write_tables(run.path, runs, tables)
        run.log("finished", failed=runs.failed)
    return StudyResult(runs, tables)


def read_study(config: Mapping[str, Any]) -> Study:
    """Check a study's file: every name, every setting, before anything is run.

    Raises:
        InputError: A key, setting or name is unknown, or something is missing.
    """
    protocol = read_protocol(config, STUDY_KEYS)
    architectures, datasets = (_section(config, name) for name in ("architectures", "datasets"))
    for what in (architectures, datasets):
        _check_distinct_folders(what)
    if not isinstance(config.get("settings") or {}, Mapping):
        raise InputError(f"settings needs settings by name, not {one_line(config['settings'], 60)}")
    cells, bases = {}, {}
    for dataset, given in datasets.items():
        if "images" not in given:
            raise InputError(f"data set {one_line(dataset, 60)} names no images: a folder, a table, ham10000:FOLDER")
        if not isinstance(given.get("skip") or (), list | tuple) or not isinstance(given.get("bases") or {}, Mapping):
            raise InputError(f"{one_line(dataset, 60)}: skip is a list, as in [CNN], and bases are texts by class")
        for name in given.get("skip") or ():
            if name not in architectures:
                raise unknown_name(f"architecture to skip on {dataset}", name, list(architectures))
        bases |= {(dataset, str(label)): str(basis) for label, basis in (given.get("bases") or {}).items()}
        for architecture, of_architecture in architectures.items():
            if architecture not in (given.get("skip") or ()):
                settings = _settings(config, protocol, dataset, given, of_architecture)
                cells[architecture, dataset] = (str(given["images"]), settings)
    if not cells:
        raise InputError("every architecture is skipped on every data set: nothing is left of the study")
    defences = {}
    for dataset, asked in _section(config, "defences", needed=False).items():
        if dataset not in datasets:
            raise unknown_name("data set of the defences", dataset, list(datasets))
        if asked.get("architecture") not in architectures:
            asks = str(asked.get("architecture"))
            raise unknown_name(f"architecture of the defence on {dataset}", asks, list(architectures))
        base = {k: v for k, v in datasets[dataset].items() if k not in ("intervene", "classes")}
        of_architecture = architectures[asked["architecture"]]
        more = {k: v for k, v in asked.items() if k not in DEFENCE_KEYS}
        defences[dataset] = (
            str(base["images"]),
            _settings(config, protocol, dataset, base, of_architecture | more),
        )
    wanted = config.get("explain") or {}
    check_keys("explain", wanted, EXPLAIN_KEYS)
    _check_explain(wanted, cells)
    return Study(protocol, cells, defences, dict(wanted), bases)


def _check_explain(wanted: Mapping[str, Any], cells: dict[tuple[str, str], tuple[str, dict[str, Any]]]) -> None:
    """Refuse at once what `memorisk.explain` would refuse after the first cell was trained.

    Raises:
        InputError: Features that cannot be had, or probes of models that will not be kept or have no second seed.
    """
    if not wanted:
        return
    if not isinstance(wanted.get("probes", False), bool):
        raise InputError(
            f"explain: probes is {one_line(repr(wanted['probes']), 40)}; give true or false, without quotes"
        )
    features = wanted.get("features")
    check_features(
        (BEFORE,) if features is None else features, wanted.get("feature_weights"), wanted.get("feature_size")
    )
    for (architecture, dataset), (_, settings) in cells.items():
        name = f"{one_line(dataset, 60)}, {one_line(architecture, 60)}"
        if wanted.get("probes") and settings["discard_weights"]:
            raise InputError(f"explain: probes need the models of {name}: leave discard_weights out")
        if wanted.get("probes") and len(settings["seeds"]) < 2:
            raise InputError(f"explain: probes need two seeds at least, {name} has {len(settings['seeds'])}")


def _settings(
    config: Mapping[str, Any], protocol: str, dataset: str, given: Mapping[str, Any], of_architecture: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings of one audit: the study's, then the data set's, then the architecture's; checked."""
    own = {k: v for k, v in given.items() if k not in DATASET_KEYS}
    seeds = given.get("seeds") or config.get("seeds") or PAPER_SEEDS
    if not isinstance(seeds, list | tuple) or not all(isinstance(s, int) and not isinstance(s, bool) for s in seeds):
        raise InputError(f"seeds is {one_line(seeds, 60)}; it must be a list of whole numbers, as in [123, 456]")
    if protocol == "corrected" and not given.get("seeds"):
        # the same starts on every data set would be one draw of starts and not several
        apart = int(fingerprint(dataset), 16)
        seeds = [(int(seed) + apart) % (1 << 32) for seed in seeds]
    merged = {
        "checkpoint_seconds": 0.0,  # a killed study loses at most the epoch in hand
        "protocol": protocol,
        **(config.get("settings") or {}),
        **own,
        **of_architecture,
        "seeds": tuple(int(s) for s in seeds),
    }
    names = setting_names(ClassifierOptions)
    check_names(f"setting of {one_line(dataset, 60)}", merged, names)
    options = saved_options(merged)
    return {name: getattr(options, name) for name in names}


def study_parts_in(folder: Path, study: Study) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Name, folder and settings of every part.

    Args:
        folder: Of the study.
        study: From `read_study`.
    """
    for (architecture, dataset), (_, settings) in study.cells.items():
        yield part_name(dataset, architecture), _cell_folder(folder, architecture, dataset), settings
    for dataset, (_, settings) in study.defences.items():
        yield part_name(dataset, DEFENCES), folder / DEFENCES / _slug(dataset), settings


def _run_parts(run: RunFolder, study: Study, progress: Progress) -> StudyRuns:
    """Run every cell, then every defence, each by itself."""
    failed: dict[str, str] = {}
    cells, defences = {}, {}
    for (architecture, dataset), (images, settings) in study.cells.items():
        name, folder = f"{dataset}, {architecture}", _cell_folder(run.path, architecture, dataset)

        def cell(images=images, settings=settings, folder=folder, name=name) -> None:
            """Audit an architecture on a data set, then look into the run."""
            audit_classifier(images, out=folder, progress=named_progress(progress, name), **settings)
            _explain(folder, study.explain, named_progress(progress, name))

        if _run_part(run, name, cell, failed) or (folder / VERDICT).is_file():
            cells[architecture, dataset] = folder
    for dataset, (images, settings) in study.defences.items():
        name, folder = f"{dataset}, defences", run.path / DEFENCES / _slug(dataset)

        def defence(images=images, settings=settings, folder=folder, name=name) -> None:
            """Compare the regimes on a data set."""
            audit_defences(images, out=folder, progress=named_progress(progress, name), **settings)

        if _run_part(run, name, defence, failed):
            defences[dataset] = folder
    return StudyRuns(cells, defences, study.protocol, study.bases, failed, study.pictured)


def _study_pseudonyms(study: Study) -> Pseudonyms:
    """Pseudonyms of the study's folder: those of the first audit that is to have any.

    Raises:
        InputError: The key cannot be used.
    """
    hiding = next((settings for _, settings in study.cells.values() if settings["pseudonymise"]), None)
    if hiding is None:
        return Pseudonyms(None)
    key = hiding["pseudonym_key"]
    return Pseudonyms.from_options(ReportOptions(pseudonymise=True, pseudonym_key=None if key is None else Path(key)))


def _finished_runs(folder: Path, study: Study) -> StudyRuns:
    """What earlier commands finished."""
    cells = {key: _cell_folder(folder, *key) for key in study.cells}
    defences = {dataset: folder / DEFENCES / _slug(dataset) for dataset in study.defences}
    return StudyRuns(
        cells={key: path for key, path in cells.items() if (path / VERDICT).is_file()},
        defences={key: path for key, path in defences.items() if (path / TABLE).is_file()},
        protocol=study.protocol,
        bases=study.bases,
        failed={f"{d}, {a}": NOT_RUN_YET for (a, d), path in cells.items() if not (path / VERDICT).is_file()},
        pictured=study.pictured,
    )


def _cell_folder(folder: Path, architecture: str, dataset: str) -> Path:
    return folder / CELLS / _slug(dataset) / _slug(architecture)


def _run_part(run: RunFolder, name: str, part: Callable[[], None], failed: dict[str, str]) -> bool:
    """Run one part; what goes wrong is kept as one line, and the others go on."""
    try:
        part()
    except MemoriskError as error:
        failed[name] = one_line(error, 300)
    except Exception as error:  # a defect in one cell must not cost the others their days
        failed[name] = one_line(f"unexpected {type(error).__name__}: {error}", 300)
        run.log("defect", part=name, trace=traceback.format_exc())
    if name in failed:
        run.log("failed", part=name, why=failed[name])
    return name not in failed


def _explain(folder: Path, asked: Mapping[str, Any], progress: Progress) -> None:
    """Look into a finished cell, unless that was done for these very scores."""
    if not asked:
        return
    wanted = {"asked": dict(asked), "scores": file_fingerprint(folder / SCORES)}
    marker = folder / "explained.json"
    if marker.is_file() and read_json(marker) == wanted:
        return
    given = dict(asked)
    given["features"] = (BEFORE,) if asked.get("features") is None else asked["features"]
    explain(folder, progress=progress, **given)
    write_json(marker, wanted)


def write_tables(folder: Path, runs: StudyRuns, tables: list[StudyTable]) -> None:
    """Write every table as Parquet and Markdown, and the page."""
    (folder / TABLES).mkdir(mode=0o700, exist_ok=True)
    for table in tables:
        for kind, frame in {"paper": table.paper, "ours": table.ours, **table.extra}.items():
            write_table(folder / TABLES / f"{table.name}_{kind}.parquet", frame)
    write_text(folder / TABLES / "tables.md", tables_markdown(tables))
    write_text(folder / REPORT, render_page(study_page(runs, tables)))


def named_progress(progress: Progress, name: str) -> Progress:
    """The same, with the name of a part before each stage.

    Args:
        progress: Called with (stage, done, total).
        name: Of the part.
    """
    return lambda stage, done, total: progress(f"{name}: {stage}", done, total)


def _section(config: Mapping[str, Any], name: str, *, needed: bool = True) -> dict[str, dict[str, Any]]:
    """One section of the file: names, each with settings."""
    found = config.get(name) or {}
    if not isinstance(found, Mapping) or (needed and not found):
        raise InputError(f"the study needs {name}: names, each with its settings below it")
    for inner, settings in found.items():
        if not isinstance(settings or {}, Mapping):
            raise InputError(f"{name}: {one_line(inner, 60)} needs settings below it, not {one_line(settings, 60)}")
    return {str(inner): dict(settings or {}) for inner, settings in found.items()}


def _check_distinct_folders(names: Mapping[str, Any]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(_slug(name).lower(), name)
        if other != name:
            raise InputError(f"{one_line(other, 60)} and {one_line(name, 60)} would share a folder: rename one of them")


def _slug(name: str) -> str:
    """A name as a folder: letters, digits, dot, dash and underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or fingerprint(name)
