"""What a tracker is told of a finished run: verdict, figures with their limits, settings; no id, no path, no image.

Audits tell the figures of their statement. Benches, studies and trainings, which no statement is made of, tell the
numbers of their own tables and of ``training.json``.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.release.finished import AGAIN, VERDICT, finished_audit, last_event
from memorisk.audits.release.stating import described
from memorisk.report.statements.statement import AuditStatement
from memorisk.runs.damaged import reading_run
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, read_table
from memorisk.runs.folder import read_config

REPORT = "report.html"
MOST = 5000
"""Numbers of a run that are logged; of more, the first."""
_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,39}")
_INPUTS = re.compile(
    r"out|images?|train|synthetic|held_out|calibration|probes?|file|models?|references|generator|detectors?|auditor|mark"
    r"|target|target_classes|classes|store|review|paired|cluster|encoder|features|quality|weights|white_box|run|font|atlas"
    r"|.*(_key|_root|_csv|_column|_from|_features|_settings|_split|_dir|_file|_to)"
)
_OF_PEOPLE = re.compile(r"(image|patient|group|id|path|source|file)s?")


@dataclass(frozen=True)
class Record:
    """What is logged of a run."""

    kind: str
    status: str
    """Of its verdict; empty where it has none."""
    gate: str
    sha256: str
    """Of everything else here: a run that says the same is the same."""
    figures: Mapping[str, float]
    settings: Mapping[str, str | int | float | bool]
    report: Path | None
    """Which may show images and ids."""

    @property
    def name(self) -> str:
        """Of the run in a tracker: its folder's name may be a patient's."""
        return f"{self.kind}-{self.sha256[:12]}"


def record_of(folder: str | Path) -> Record:
    """Read a finished run of any kind.

    Args:
        folder: The run folder.

    Raises:
        InputError: It is none, unfinished, changed or damaged.
    """
    place = Path(folder)
    config = read_config(place)
    with reading_run(place):
        return _read(place, config)


def _read(place: Path, config: Mapping[str, Any]) -> Record:
    """The record of a run with these settings."""
    of_kind = _other_kind(place, config)
    if of_kind is None:
        with finished_audit(place) as run:
            audit = described(run)
        return _record(audit.kind, audit.status, audit.gate, dict(figures_of(audit)), config, place)
    if last_event(place) == "started":
        raise InputError(f"{one_line(place)} has not finished: {AGAIN}")
    found = dict(_numbers(place))
    if not found:
        raise InputError(f"{one_line(place)} holds no numbers of a finished run: {AGAIN}")
    return _record(of_kind, "", "", found, config, place)


def figures_of(audit: AuditStatement) -> Iterator[tuple[str, float]]:
    """Every number of an audit's statement by name; limits of intervals as ``NAME_low`` and ``NAME_high``.

    Args:
        audit: What a run says.
    """
    yield "verdict/pass", float(audit.status == "pass")
    for figure in audit.figures:
        for part in ("value", "low", "high", "p_value", "n"):
            value = getattr(figure, part)
            if value is not None:
                yield figure.name if part == "value" else f"{figure.name}_{part}", float(value)


def safe_settings(config: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Settings that name nobody and nothing: numbers, switches, and single plain words.

    Args:
        config: Of a run.
    """
    found: dict[str, str | int | float | bool] = {}
    for name, value in config.items():
        if _INPUTS.fullmatch(name):
            continue
        word = isinstance(value, str) and _WORD.fullmatch(value) and not Path(value).exists()
        if word or isinstance(value, bool | int | float):
            found[name] = value
    return found


def _record(
    kind: str, status: str, gate: str, found: dict[str, float], config: Mapping[str, Any], place: Path
) -> Record:
    """The record, named by what it says."""
    figures = _apart({name: found[name] for name in list(found)[:MOST]})
    settings = safe_settings(config)
    told = json.dumps([kind, status, gate, figures, settings], sort_keys=True, allow_nan=False)
    report = place / REPORT
    return Record(
        kind, status, gate, hashlib.sha256(told.encode()).hexdigest(), figures, settings,
        report if report.is_file() else None,
    )  # fmt: skip


def _apart(figures: dict[str, float]) -> dict[str, float]:
    """The same with names of which none is another's folder: a store of files keeps each as a path."""
    folders = {name[: match.start()] for name in figures for match in re.finditer("/", name)}
    return {f"{name}/value" if name in folders else name: value for name, value in figures.items()}


def _other_kind(folder: Path, config: Mapping[str, Any]) -> str | None:
    """What a run is called that is no audit; None for an audit."""
    made = config.get("run")
    made = made if isinstance(made, Mapping) else {}
    if (folder / VERDICT).is_file() or made.get("audit"):
        return None
    if (folder / "defence.json").is_file():
        return "regimes"
    if "benchmark" in made:
        return f"bench-{_slug(made['benchmark'])}"
    if "study" in made or "datasets" in config:
        return f"study-{_slug(made.get('study', ''))}".rstrip("-")
    return "training" if any(_trainings(folder)) else None


def _numbers(folder: Path) -> Iterator[tuple[str, float]]:
    """Of trainings what ``training.json`` holds, of the others their tables."""
    for file in _trainings(folder):
        prefix = "" if file.parent == folder else f"{_slug(file.parent.name)}/"
        yield from ((f"{prefix}{name}", value) for name, value in _leaves(read_json(file)))
    if (folder / "defence.json").is_file():
        for row in read_json(folder / "defence.json").get("regimes") or ():
            yield from ((f"{_slug(row.get('regime', ''))}/{name}", value) for name, value in _leaves(row))
    for file in sorted((folder / "tables").glob("*.parquet")):
        yield from _cells(file)


def _trainings(folder: Path) -> list[Path]:
    """Its own, or those of its regimes."""
    own = folder / "training.json"
    return [own] if own.is_file() else sorted(folder.glob("*/training.json"))


def _cells(file: Path) -> Iterator[tuple[str, float]]:
    """The numbers of a table, named by the texts of their row; tables of people are left out."""
    rows: list[dict[str, Any]] = read_table(file).to_dict("records")  # pyright: ignore[reportAssignmentType]
    if rows and any(_OF_PEOPLE.fullmatch(str(name)) and isinstance(rows[0][name], str) for name in rows[0]):
        return
    seen: set[str] = set()
    for number, row in enumerate(rows):
        texts = [_slug(value) for value in row.values() if isinstance(value, str) and len(value) <= 40]
        name = "/".join([file.stem, *texts[:3]])
        name = f"{name}/{number}" if name in seen else name
        seen.add(name)
        yield from ((f"{name}/{column}", value) for column, value in _leaves(row))


def _leaves(value: Any, before: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Every number in nested objects; nothing out of lists, which may be of people."""
    if isinstance(value, Mapping) and depth < 4:
        for name, inner in value.items():
            if not _OF_PEOPLE.fullmatch(str(name)) or not isinstance(inner, Mapping):
                yield from _leaves(inner, f"{before}/{_slug(name)}" if before else _slug(name), depth + 1)
    elif before and isinstance(value, bool | int | float | np.number | np.bool_) and math.isfinite(float(value)):
        yield before, float(value)


def _slug(text: object) -> str:
    """A name that every tracker takes."""
    return re.sub(r"[^a-z0-9_.-]+", "_", str(text).lower()).strip("_") or "unnamed"
