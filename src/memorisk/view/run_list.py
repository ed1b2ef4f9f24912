"""The runs below some folders: the question of each, its progress, and its verdict."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memorisk.audits.image_set.run import SUMMARY
from memorisk.report.kinds import kind_of, named_kind
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.runs.files import fingerprint, read_json
from memorisk.runs.folder import LOG, STAGE, is_run, read_config
from memorisk.runs.locks import refuse_held

MOST_RUNS = 2000
"""Largest number of runs that one folder is searched for; more are refused, since such a page would not be read."""
_DEPTH = 6
_TAIL_BYTES = 1 << 16
State = Literal["done", "running", "broken"]


@dataclass(frozen=True)
class RunEntry:
    """Entry of a run in the list."""

    key: str
    """Key of the run in links; it reveals nothing of the path."""
    folder: Path
    name: str
    """Name of its folder, as seen from the place that was searched."""
    kind: str
    """Kind of the run, as in `report.kinds.KINDS`; empty for others."""
    state: State
    status: str
    """Status of its verdict: pass, fail or undecided; a check passes without a problem; empty without a verdict."""
    date: str
    """Date of the last line of its log, to the minute."""
    progress: str
    """Stage and last log entry of a run that is not done."""
    redacted: bool
    """Whether the run was made with ``--redact``: neither ids nor images of it are shown."""

    @property
    def question(self) -> str:
        """Return the question of the run."""
        return kind_of(self.kind).question


def find_runs(places: Sequence[Path], read: "Callable[[Path, str], RunEntry] | None" = None) -> list[RunEntry]:
    """List every run at or below some folders, the newest first.

    Args:
        places: Paths of run folders, or of folders that hold some.
        read: Function that describes a run, given its folder and name; `read_entry` if not given.

    Raises:
        InputError: A place is not a folder, no run is below any, or too many are.
    """
    names: dict[Path, str] = {}
    for place in places:
        if not place.is_dir():
            raise InputError(f"{one_line(place)} is not a folder: name run folders, or a folder that holds some")
        for folder in _below(place.absolute(), 0):
            inside = os.path.relpath(folder, place.absolute())
            names.setdefault(folder, folder.name if inside == "." else inside)
            if len(names) > MOST_RUNS:
                raise InputError(f"{one_line(place)} holds more than {MOST_RUNS:,} runs: name a folder with fewer")
    if not names:
        named = ", ".join(one_line(place, 120) for place in places)
        raise InputError(f"{named}: no run is in or below it; a run is a folder that a command wrote with --out")
    entries = [(read or read_entry)(folder, name) for folder, name in names.items()]
    return sorted(entries, key=lambda entry: (entry.date, entry.name), reverse=True)


def read_entry(folder: Path, name: str) -> RunEntry:
    """Describe a run; one that cannot be read is broken, with the reason.

    Args:
        folder: Path of the run folder.
        name: Name under which the run is shown.
    """
    key, lines = fingerprint(str(folder), length=12), _last_lines(folder / LOG)
    date = str(lines[-1].get("time", ""))[:16].replace("T", " ") if lines else ""
    if not is_run(folder):  # it has begun, and its settings are not written yet
        return RunEntry(
            key, folder, name, str(_stage(folder).get("audit") or ""), "running", "", date, _progress(folder, []), True
        )
    try:
        config = read_config(folder)
        verdict = read_json(folder / "verdict.json") if (folder / "verdict.json").is_file() else None
        verdict = verdict if isinstance(verdict, dict) else None
    except (InputError, OSError) as error:
        return RunEntry(key, folder, name, "", "broken", "", date, one_line(error, 200), True)
    kind = named_kind(config)
    redacted = bool(config.get("redact"))
    if kind == "images" and (folder / SUMMARY).is_file():
        status = "pass" if _is_sound(folder / SUMMARY) else "fail"
        return RunEntry(key, folder, name, kind, "done", status, date, "", redacted)
    if verdict is not None:
        return RunEntry(key, folder, name, kind, "done", str(verdict.get("status", "")), date, "", redacted)
    if lines and lines[-1].get("event") == "finished":
        return RunEntry(key, folder, name, kind, "done", "", date, "", redacted)
    state: State = "running" if _is_held(folder) else "broken"
    return RunEntry(key, folder, name, kind, state, "", date, _progress(folder, lines), redacted)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield a folder if it is a run, and the runs in it; links are not followed."""
    if is_run(folder) or ((folder / STAGE).is_file() and _is_held(folder)):
        yield folder
    if depth >= _DEPTH:
        return
    try:
        inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for path in inner:
        if not os.path.basename(path).startswith("."):  # noqa: PTH119
            yield from _below(Path(path), depth + 1)


def _is_sound(path: Path) -> bool:
    """Return whether a check found no problem."""
    try:
        content = read_json(path)
    except (InputError, OSError):
        return False
    return isinstance(content, dict) and content.get("ok") is True


def _is_held(folder: Path) -> bool:
    """Return whether a process works on the folder."""
    try:
        refuse_held(folder)
    except InputError:
        return True
    return False


def _last_lines(path: Path) -> list[dict[str, Any]]:
    """Return the events at the end of a log; lines that a kill cut short are skipped."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            raw = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    events = []
    for line in raw:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _progress(folder: Path, lines: Sequence[Mapping[str, Any]]) -> str:
    """Describe the progress of a run that is not done, by its stage and its log."""
    trained = sum(line.get("event") == "trained" for line in lines)
    last = f"last event: {one_line(lines[-1].get('event', ''), 60)}" if lines else "nothing is logged yet"
    models = f"{plural(trained, 'model', 'models')} trained" if trained else ""
    return "; ".join(text for text in (_stage_words(_stage(folder)) or last, models) if text)


def _stage(folder: Path) -> Mapping[str, Any]:
    """Read the stage that a run has noted; empty without one."""
    try:
        stage = read_json(folder / STAGE)
    except (InputError, OSError):
        return {}
    return stage if isinstance(stage, dict) else {}


def _stage_words(found: Mapping[str, Any]) -> str:
    """Name a stage and how much of it is done; empty where it is not known."""
    try:
        stage, done, total = one_line(found["stage"], 80), int(found["done"]), int(found["total"])
    except (ValueError, LookupError, TypeError, OverflowError):
        return ""
    return f"{stage}: {100 * min(done, total) // total} %" if total > 0 else stage
