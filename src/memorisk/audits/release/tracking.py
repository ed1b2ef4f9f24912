"""``memorisk track``: finished runs of any kind, logged where the user keeps experiments, each once.

The trackers are MLflow, TensorBoard and Weights & Biases offline; each knows a run that it has. A record holds
verdict, figures with their limits, and settings; no id, no path, no image. Audits tell the figures of their
statement. Benches, studies and trainings, which no statement is made of, tell the numbers of their own tables and
of ``training.json``.
"""

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.arms import compared_in
from memorisk.audits.release.integrity import AGAIN, VERDICT, last_event, open_finished_audit
from memorisk.audits.release.statement import describe_run
from memorisk.audits.tracker_libraries import SERVER, mlflow_client, mlflow_experiment, summary_writer, wandb_offline
from memorisk.images.sources.overlap import path_sources, refuse_overlap
from memorisk.report.statements.statement import AuditStatement
from memorisk.runs.errors import InputError, MemoriskError, one_line, read_guard, unknown_name
from memorisk.runs.files import fsync_folder, read_json, read_table
from memorisk.runs.folder import read_config
from memorisk.runs.locks import folder_lock

REPORT = "report.html"
MOST = 5000
"""Numbers of a run that are logged; of more, the first."""
_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,39}")
_INPUTS = re.compile(
    r"out|images?|train|synthetic|held_out|calibration|probes?|file|models?|references|generator|detectors?|auditors?|mark"
    r"|target|target_classes|classes|store|review|paired|cluster|encoder|features|quality|weights|white_box|run|font|atlas"
    r"|.*(_key|_root|_csv|_column|_from|_features|_settings|_split|_dir|_file|_to)"
)
_OF_PEOPLE = re.compile(r"(image|patient|group|id|path|source|file)s?")


@dataclass(frozen=True)
class Record:
    """Entry of a run in a tracker."""

    kind: str
    status: str
    """Status of the run's verdict; empty where it has none."""
    gate: str
    sha256: str
    """Checksum of everything else here: runs with the same checksum are the same run."""
    figures: Mapping[str, float]
    settings: Mapping[str, str | int | float | bool]
    report: Path | None
    """Report of the run, which may show images and ids."""

    @property
    def name(self) -> str:
        """Return the name of the run in a tracker: its folder's name may be a patient's."""
        return f"{self.kind}-{self.sha256[:12]}"


def record_of(folder: str | Path) -> Record:
    """Read a finished run of any kind.

    Args:
        folder: The run folder.

    Raises:
        InputError: The folder holds no run, or one that is unfinished, changed or damaged.
    """
    place = Path(folder)
    config = read_config(place)
    with read_guard(place):
        return _read(place, config)


def _read(place: Path, config: Mapping[str, Any]) -> Record:
    """Return the record of a run with these settings."""
    of_kind = _other_kind(place, config)
    if of_kind is None:
        with open_finished_audit(place) as run:
            audit = describe_run(run)
        return _record(audit.kind, audit.status, audit.gate, dict(figures_of(audit)), config, place)
    if last_event(place) == "started":
        raise InputError(f"{one_line(place)} has not finished: {AGAIN}")
    figures = dict(_numbers(place))
    if not figures:
        raise InputError(f"{one_line(place)} holds no numbers of a finished run: {AGAIN}")
    return _record(of_kind, "", "", figures, config, place)


def figures_of(audit: AuditStatement) -> Iterator[tuple[str, float]]:
    """Yield every number of an audit's statement by name; limits of intervals as ``NAME_low`` and ``NAME_high``.

    Args:
        audit: Statement of a run.
    """
    yield "verdict/pass", float(audit.status == "pass")
    for figure in audit.figures:
        for part in ("value", "low", "high", "p_value", "n"):
            value = getattr(figure, part)
            if value is not None:
                yield figure.name if part == "value" else f"{figure.name}_{part}", float(value)


def safe_settings(config: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return the settings that name nothing and no person: numbers, switches, and single plain words.

    Args:
        config: Settings of a run.
    """
    settings: dict[str, str | int | float | bool] = {}
    for name, value in config.items():
        if _INPUTS.fullmatch(name):
            continue
        word = isinstance(value, str) and _WORD.fullmatch(value) and not Path(value).exists()
        if word or isinstance(value, bool | int | float):
            settings[name] = value
    return settings


def _record(
    kind: str, status: str, gate: str, numbers: dict[str, float], config: Mapping[str, Any], place: Path
) -> Record:
    """Make the record, named by its content."""
    figures = _disambiguate({name: numbers[name] for name in list(numbers)[:MOST]})
    settings = safe_settings(config)
    content = json.dumps([kind, status, gate, figures, settings], sort_keys=True, allow_nan=False)
    report = place / REPORT
    return Record(
        kind, status, gate, hashlib.sha256(content.encode()).hexdigest(), figures, settings,
        report if report.is_file() else None,
    )  # fmt: skip


def _disambiguate(figures: dict[str, float]) -> dict[str, float]:
    """Rename names of which one is another's folder: a store of files keeps each as a path."""
    folders = {name[: match.start()] for name in figures for match in re.finditer("/", name)}
    return {f"{name}/value" if name in folders else name: value for name, value in figures.items()}


def _other_kind(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return the name of a run of another kind than an audit; None for an audit."""
    run_settings = config.get("run")
    run_settings = run_settings if isinstance(run_settings, Mapping) else {}
    if (folder / VERDICT).is_file() or run_settings.get("audit"):
        return None
    axis = compared_in(folder)
    if axis is not None:
        return axis.many
    if "benchmark" in run_settings:
        return f"bench-{_slug(run_settings['benchmark'])}"
    if "study" in run_settings or "datasets" in config:
        return f"study-{_slug(run_settings.get('study', ''))}".rstrip("-")
    return "training" if any(_trainings(folder)) else None


def _numbers(folder: Path) -> Iterator[tuple[str, float]]:
    """Read the numbers: of trainings from ``training.json``, of other runs from their tables."""
    for file in _trainings(folder):
        prefix = "" if file.parent == folder else f"{_slug(file.parent.name)}/"
        yield from ((f"{prefix}{name}", value) for name, value in _leaves(read_json(file)))
    axis = compared_in(folder)
    if axis is not None:
        for row in read_json(folder / axis.summary).get(axis.many) or ():
            yield from ((f"{_slug(row.get(axis.name, ''))}/{name}", value) for name, value in _leaves(row))
    for file in sorted((folder / "tables").glob("*.parquet")):
        yield from _cells(file)


def _trainings(folder: Path) -> list[Path]:
    """List the trainings of a run, or of its regimes."""
    own = folder / "training.json"
    return [own] if own.is_file() else sorted(folder.glob("*/training.json"))


def _cells(file: Path) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a table, named by the texts of their row; tables of people are left out."""
    rows: list[dict[str, Any]] = read_table(file).to_dict("records")  # pyright: ignore[reportAssignmentType]
    if rows and any(_OF_PEOPLE.fullmatch(str(name)) and isinstance(rows[0][name], str) for name in rows[0]):
        return
    names: set[str] = set()
    for number, row in enumerate(rows):
        texts = [_slug(value) for value in row.values() if isinstance(value, str) and len(value) <= 40]
        name = "/".join([file.stem, *texts[:3]])
        name = f"{name}/{number}" if name in names else name
        names.add(name)
        yield from ((f"{name}/{column}", value) for column, value in _leaves(row))


def _leaves(value: Any, before: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Yield every number in nested objects; nothing out of lists, which may be of people."""
    if isinstance(value, Mapping) and depth < 4:
        for name, inner in value.items():
            if not _OF_PEOPLE.fullmatch(str(name)) or not isinstance(inner, Mapping):
                yield from _leaves(inner, f"{before}/{_slug(name)}" if before else _slug(name), depth + 1)
    elif before and isinstance(value, bool | int | float | np.number | np.bool_) and math.isfinite(float(value)):
        yield before, float(value)


def _slug(text: object) -> str:
    """Return a name that every tracker takes."""
    return re.sub(r"[^a-z0-9_.-]+", "_", str(text).lower()).strip("_") or "unnamed"


EXPERIMENT = "memorisk"
TRACKERS = ("mlflow", "tensorboard", "wandb")
_KEY, _WHOLE = "memorisk.run", "memorisk.whole"
_AT_ONCE = 100


Log = Callable[[Record, Path | None], bool]
"""Keeps a run, with its report where one is given; False where it is there already."""


def check_place(place: str) -> tuple[str, str]:
    """Return the kind and place of a tracker.

    Args:
        place: ``mlflow:FOLDER``, ``mlflow:https://HOST``, ``tensorboard:FOLDER`` or ``wandb:FOLDER``.

    Raises:
        InputError: No such kind, or no place for it.
    """
    kind, _, where = place.partition(":")
    if kind not in TRACKERS:
        raise unknown_name("tracker", kind, TRACKERS)
    if not where:
        raise InputError(f"--to {one_line(kind)} names no place: {kind}:FOLDER")
    if "://" in where and (kind != "mlflow" or not SERVER.match(where)):
        only = "is only kept in a folder" if kind != "mlflow" else "takes a folder, http(s):// or sqlite:///"
        raise InputError(f"--to {one_line(place, 120)}: {kind} {only}")
    if "://" not in where and Path(where).exists() and not Path(where).is_dir():
        raise InputError(f"--to {one_line(place, 120)} is a file: name a folder")
    return kind, where


def open_log(place: str) -> Log:
    """Open the function that logs runs to a tracker.

    Args:
        place: Place of the tracker, as `check_place` takes it.

    Raises:
        InputError: The place is not one that `check_place` accepts.
        MissingExtraError: MLflow is not installed; other libraries are loaded when a run is logged.
    """
    kind, where = check_place(place)
    if kind == "mlflow":
        return partial(_log_to_mlflow, where, mlflow_client(where))
    return partial(_log_to_folder, Path(where), {"tensorboard": _write_events, "wandb": _write_wandb}[kind])


def _log_to_mlflow(place: str, client: Any, record: Record, report: Path | None) -> bool:
    """Keep a run in a folder, a database file, or a server; what a killed command left of it is removed first.

    Raises:
        MemoriskError: The store does not answer, or does not take it.
    """
    from mlflow.exceptions import MlflowException

    try:
        return _add_mlflow_run(client, record, report)
    except MlflowException as error:
        raise MemoriskError(
            f"MLflow at {one_line(place, 120)} did not take the run ({one_line(error, 120)}); the same command resumes"
        ) from None


def _add_mlflow_run(client: Any, record: Record, report: Path | None) -> bool:
    """Add the run unless the store has it, marked whole at the end."""
    from mlflow.entities import Metric, Param, RunTag

    experiment = mlflow_experiment(client, EXPERIMENT)
    for run in client.search_runs([experiment], f"tags.`{_KEY}` = '{record.sha256}'"):
        if run.data.tags.get(_WHOLE) == "yes":
            return False
        client.delete_run(run.info.run_id)
    tags = {_KEY: record.sha256, "verdict": record.status or "none", "gate": record.gate, "kind": record.kind}
    run = client.create_run(experiment, run_name=record.name, tags=tags).info.run_id
    metrics = [Metric(name, value, 0, 0) for name, value in record.figures.items()]
    params = [Param(name, str(value)) for name, value in record.settings.items()]
    for begin in range(0, max(len(metrics), len(params)), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        client.log_batch(run, metrics=metrics[part], params=params[part])
    if report is not None:
        client.log_artifact(run, str(report))
    client.log_batch(run, tags=[RunTag(_WHOLE, "yes")])
    client.set_terminated(run)
    return True


def _log_to_folder(above: Path, write: Callable[[Path, Record], None], record: Record, report: Path | None) -> bool:
    """Keep a run as a folder, which has its name only when it is whole."""
    with _new_folder(above, record.name) as place:
        if place is None:
            return False
        write(place, record)
        if report is not None:
            shutil.copyfile(report, place / report.name)
    return True


def _write_events(place: Path, record: Record) -> None:
    """Write event files of TensorBoard."""
    writer = summary_writer(place)
    for name, value in record.figures.items():
        writer.add_scalar(name, value, 0)
    writer.add_text("verdict", f"{record.kind}: {record.status or 'none'}", 0)
    writer.add_text("settings", "\n\n".join(f"{k}: {v}" for k, v in record.settings.items()), 0)
    writer.close()
    for number, file in enumerate(sorted(place.glob("events.out.tfevents.*"))):
        file.rename(place / f"events.out.tfevents.{number:010}")  # its own name holds that of the host


def _write_wandb(place: Path, record: Record) -> None:
    """Write a run of Weights & Biases that stays in its folder; ``wandb sync`` is the user's own act."""
    with wandb_offline(place, name=record.name, key=record.sha256[:32], config=record.settings) as run:
        run.log(dict(record.figures))
        run.summary.update({"verdict": record.status or "none", "gate": record.gate, "kind": record.kind})


@contextmanager
def _new_folder(above: Path, name: str) -> Iterator[Path | None]:
    """Open a folder that gets its name at the end; None where a folder of this name exists."""
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder_lock(above, name=".memorisk.lock", wait=True):
        final, building = above / name, above / f".{name}.building"
        if final.is_dir():
            yield None
            return
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(mode=0o700)
        try:
            yield building
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        building.rename(final)
        fsync_folder(above)


@dataclass(frozen=True)
class TrackedRun:
    """A run in a tracker."""

    run: str
    """Folder of the run, as it was named."""
    to: str
    name: str
    """Name of the run in the tracker."""
    figures: int
    """Numbers that were logged."""
    new: bool
    """Whether the run is new in the tracker; False where it was there already."""


def _refuse_inside(where: str, folder: Path) -> None:
    """Refuse a folder for logs inside any folder that the run read: a set to be released would be another one then.

    Raises:
        InputError: It lies in one.
    """
    target = Path(where).resolve()
    for text in _texts(read_config(folder)):
        place = Path(text)
        try:
            inside = place.is_dir() and target.is_relative_to(place.resolve())
        except (OSError, ValueError):  # no path
            continue
        if inside:
            raise InputError(
                f"--to {one_line(where)} lies inside {one_line(text)}, which the run read: name a folder outside of it"
            )


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in some settings."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str) and value:
        yield value


def track(
    runs: str | Path | Sequence[str | Path], *, to: str | Sequence[str], with_report: bool = False
) -> list[TrackedRun]:
    """Log finished runs: verdict, figures with their limits, settings; no id, no path, no image.

    Args:
        runs: Folders of finished runs of any kind.
        to: ``mlflow:FOLDER``, ``mlflow:https://HOST`` (a server that is named), ``tensorboard:FOLDER``,
            ``wandb:FOLDER`` (offline); one or several.
        with_report: Log ``report.html``, too, which may show images and ids.

    Returns:
        A row for each run and tracker.

    Raises:
        InputError: A run is unfinished or changed, or a tracker is not available; then nothing was logged.
        MissingExtraError: A library is not installed.

    Example:
        >>> track("runs/synthetic", to="mlflow:mlruns")[0].new  # doctest: +SKIP
        True
    """
    folders = [Path(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    places = [to] if isinstance(to, str) else list(dict.fromkeys(to))
    if not folders or not places:
        raise InputError("name a finished run, and with --to where it is logged")
    kept_in = [where for _, where in map(check_place, places) if "://" not in where]
    records = [record_of(folder) for folder in folders]
    for folder, record in zip(folders, records, strict=True):
        if with_report and record.report is None:
            raise InputError(f"{one_line(folder)} holds no report.html: leave --with-report out")
        for where in kept_in:
            refuse_overlap(where, path_sources({f"the run {one_line(folder)}": folder}), called="--to")
            _refuse_inside(where, folder)
    logged = []
    for place in places:
        log = open_log(place)
        for folder, record in zip(folders, records, strict=True):
            new = log(record, record.report if with_report else None)
            logged.append(TrackedRun(str(folder), place, record.name, len(record.figures), new))
    return logged
