"""A finished run of any kind, opened for those who hand its result on: whole, unchanged, and not being worked on.

A result is taken only where the last entry of the run in ``log.jsonl`` is that it finished, with the same status, and
where every file of the result is what ``result.sha256`` says. That detects accidents and edits; a person who wants to
deceive can write the checksums, too: sign the statement if others must trust it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from memorisk.audits.arms import refuse_comparison
from memorisk.report.columns import booleans, column_numbers, column_texts, distinct_scored, rows
from memorisk.report.kinds import RunKind, kind_of, load_part, named_kind
from memorisk.report.result import Result, redact, refuse_changed
from memorisk.report.verdict_forms import refuse_other_form, verdict_form
from memorisk.runs.checksums import SEAL, file_sha256, refuse_damaged
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line, read_guard
from memorisk.runs.files import json_value, read_json, read_table
from memorisk.runs.folder import CONFIG, LOG, read_config
from memorisk.runs.locks import folder_lock

VERDICT, EVALUATIONS, QUALITY = "verdict.json", "looks.parquet", "quality.json"
AGAIN = "issue the run's command again"


@dataclass(frozen=True, eq=False)
class FinishedAudit:
    """Run that is finished and unchanged.

    Attributes:
        folder: Folder of the run.
        kind: Kind that a statement knows, such as ``classifier`` or ``filter``.
        config: Settings of the run.
        verdict: Content of ``verdict.json``, without ids; empty for a watch and for quality.
        summary: Content of ``summary.json`` or ``quality.json``, without ids.
        tables: Tables by name, without columns of ids.
        counted: Number of scored patients, or images; None where there is no such table.
        flagged: Number of them on the list that is shown, each once whatever the number of classes; None without a
            table.
        flagged_gap: Median M of these in the unit of the losses, of each its largest one; None where none is flagged.
        sha256: Checksum that identifies the result of the run.
    """

    folder: Path
    kind: str
    config: Mapping[str, Any]
    verdict: Mapping[str, Any]
    summary: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    counted: int | None
    flagged: int | None
    flagged_gap: float | None
    sha256: str


@contextmanager
def open_finished_audit(folder: str | Path) -> Iterator[FinishedAudit]:
    """Open a finished run, and keep other processes of memorisk from it meanwhile.

    Args:
        folder: The run folder.

    Raises:
        InputError: The folder holds no run, or one of another kind, unfinished, changed, or being worked on.
    """
    place = Path(folder)
    config = read_config(place)
    with _hold(place):
        with read_guard(place):
            run = _open_audit(place, _kind(place, config), config)
        yield run


@contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Hold a folder; one that cannot be written to cannot change either."""
    lock = folder_lock(folder)
    try:
        lock.__enter__()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _kind(folder: Path, config: Mapping[str, Any]) -> RunKind:
    """Return the kind of a run.

    Raises:
        InputError: One that says nothing of what is to be released, or that is not finished.
    """
    name, run = one_line(folder), config.get("run")
    run = run if isinstance(run, Mapping) else {}
    refuse_comparison(folder)
    if "benchmark" in run:
        raise InputError(f"{name} is a run of bench {one_line(run['benchmark'], 20)}: it compares detectors and says "
                         "nothing of what is to be released")  # fmt: skip
    if "study" in run or "datasets" in config:
        raise InputError(f"{name} is a study of many models: state the audit of the one that is to be released")
    if (folder / "training.json").is_file() or any(folder.glob("*/training.json")):
        raise InputError(f"{name} is a training: audit what came of it, and state that audit")
    kind = kind_of(named_kind(config))
    if not kind.reader:
        _require_file(folder, VERDICT)
    if not kind.statement:
        raise InputError(f"{name} holds a run of kind {one_line(kind.name or 'unknown', 40)}, which this memorisk does "
                         "not state")  # fmt: skip
    if kind.last_file:
        _require_file(folder, kind.last_file)
    return kind


def _require_file(folder: Path, name: str) -> None:
    """Refuse a run that lacks a file.

    Raises:
        InputError: The file is missing.
    """
    if not (folder / name).is_file():
        raise InputError(f"{one_line(folder)} holds no finished run ({name} missing): {AGAIN}")


def _open_audit(folder: Path, kind: RunKind, config: Mapping[str, Any]) -> FinishedAudit:
    """Open the run, with its files checked."""
    _refuse_unfinished(folder)
    if kind.reader:
        return load_part(kind.reader)(folder, config)
    if not (folder / SEAL).is_file():
        raise InputError(f"{one_line(folder)} has no {SEAL}: an earlier memorisk wrote it, or it was stopped; {AGAIN}")
    refuse_changed(folder)
    try:
        result = Result.load(folder)
    except CONTENT_ERRORS as error:
        raise InputError(f"{one_line(folder)} holds a damaged result ({one_line(error, 100)}): {AGAIN}") from None
    refuse_other_form(one_line(folder), kind.name, verdict_form(result.verdict))
    _refuse_other_status(folder, result.status)
    if kind_of(result.verdict.get("audit")).statement != kind.statement:
        raise InputError(f"{one_line(folder)}: {VERDICT} is of another kind than {CONFIG} names; {AGAIN}")
    if kind.chooses_images:
        whole = read_json(folder / kind.last_file)
        if {k: v for k, v in whole.items() if k != "kept"} != result.verdict:
            raise InputError(f"{one_line(folder)}: {kind.last_file} is of another result than {VERDICT}; {AGAIN}")
        result = result.replace(verdict={**result.verdict, "kept": whole.get("kept")})
    counted = distinct_scored(result.per_group, "group") if "group" in result.per_group else None
    listed = {"group", "flagged"} <= {*result.per_group.columns}
    gaps: dict[str, float] = {}
    if listed:
        people = rows(result.per_group, booleans(result.per_group, "flagged"))
        for group, gap in zip(column_texts(people, "group"), column_numbers(people, "M").tolist(), strict=True):
            gaps[group] = max(gap, gaps.get(group, gap))
    flagged, flagged_gap = len(gaps) if listed else None, median(gaps.values()) if gaps else None
    clean = _without_paths(redact(result), config)
    tables, seal = clean.all_tables(), file_sha256(folder / SEAL)
    return FinishedAudit(
        folder, kind.name, config, clean.verdict, clean.summary, tables, counted, flagged, flagged_gap, seal
    )


def open_watch(folder: Path, config: Mapping[str, Any]) -> FinishedAudit:
    """Read a watch: its looks are its result."""
    refuse_damaged(folder / "watch.jsonl")
    lines = [json.loads(line) for line in (folder / "watch.jsonl").read_text("utf-8").splitlines()]
    table = read_table(folder / EVALUATIONS)
    looks = [json_value(row) for row in table.to_dict("records")]
    if not looks:
        raise InputError(f"{one_line(folder)} holds no look yet: {AGAIN}")
    if looks != [{k: v for k, v in line.items() if k != "patients"} for line in lines]:
        raise InputError(f"{one_line(folder)}: {EVALUATIONS} and watch.jsonl tell of different looks; {AGAIN}")
    return FinishedAudit(
        folder, "watch", config, {}, {}, {"looks": table}, None, None, None, file_sha256(folder / EVALUATIONS)
    )


def open_quality(folder: Path, config: Mapping[str, Any]) -> FinishedAudit:
    """Read figures of quality: their table and their summary must agree."""
    summary, table = read_json(folder / QUALITY), read_table(folder / "tables" / "quality.parquet")
    if json_value(table.to_dict("records")) != summary.get("quality"):
        raise InputError(f"{one_line(folder)}: {QUALITY} and its table tell different figures; {AGAIN}")
    return FinishedAudit(
        folder, "quality", config, {}, summary, {"quality": table}, None, None, None, file_sha256(folder / QUALITY)
    )


def _events(folder: Path) -> list[dict[str, Any]]:
    """Read begin and end of a run from its log; a line that a kill cut in two counts for nothing."""
    if not (folder / LOG).is_file():
        return []
    events = []
    for line in (folder / LOG).read_text("utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event") in ("started", "finished"):
            events.append(event)
    return events


def last_event(folder: Path) -> str:
    """Return whether a run last began or ended: ``started``, ``finished``, or empty where its log says neither.

    Args:
        folder: The run folder.
    """
    events = _events(folder)
    return str(events[-1]["event"]) if events else ""


def _refuse_unfinished(folder: Path) -> None:
    """Refuse a run that began once more and did not end.

    Raises:
        InputError: It did not.
    """
    if last_event(folder) == "started":
        raise InputError(f"{one_line(folder)} was started again and has not finished: {AGAIN}")


def _refuse_other_status(folder: Path, status: str) -> None:
    """Refuse a verdict that the run did not end with.

    Raises:
        InputError: It ended with another, or never.
    """
    events = _events(folder)
    if not events:
        raise InputError(f"{one_line(folder)} does not say in {LOG} that it finished: {AGAIN}")
    if events[-1].get("status", status) != status:
        raise InputError(f"{one_line(folder)} finished with another verdict than {VERDICT} tells: {AGAIN}")


def _without_paths(result: Result, config: Mapping[str, Any]) -> Result:
    """Return the result without the paths of its settings in its texts: a folder's name may be a patient's."""
    named = sorted(set(_paths(config)), key=len, reverse=True)
    return result.replace(summary=_blank_texts(result.summary, named), verdict=_blank_texts(result.verdict, named))


def _paths(value: Any) -> Iterator[str]:
    """Yield every text in some settings that is a path, whole and its last part."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _paths(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner)
    elif isinstance(value, str) and ("/" in value or "\\" in value):
        yield value
        yield from (part for part in value.replace("\\", "/").split("@") if "/" in part)


def _blank_texts(value: Any, named: list[str]) -> Any:
    """Return the same structure without these texts."""
    if isinstance(value, dict):
        return {key: _blank_texts(inner, named) for key, inner in value.items()}
    if isinstance(value, list):
        return [_blank_texts(inner, named) for inner in value]
    if isinstance(value, str):
        for path in named:
            value = value.replace(path, "[path]")
    return value
