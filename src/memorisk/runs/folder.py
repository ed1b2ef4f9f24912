"""The run folder: everything needed to repeat and to resume a run, and nothing else.

A run folder is personal data itself (memorizing weights, ids, paths), so it is accessible to its owner alone (mode
0700): a new folder is made so, and other users lose access to an existing one. A repeated command resumes the
run. A command with other settings in the same folder is refused, and the message names the differences.

A folder may be called by a patient's name. A pseudonymised run therefore holds ``path-`` and a keyed hash in place
of every path. The paths are kept next to the pseudonym key, in the user's own configuration folder and
outside of all run folders: commands that need a run's images find them for this user on this machine, and for
no other user.
"""

import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from memorisk.runs.errors import (
    CONTENT_ERRORS,
    FULL_DISK_CODES,
    RESUME_HINT,
    DamagedError,
    InputError,
    MemoriskError,
    one_line,
)
from memorisk.runs.files import PARTIAL_NAMES, has_shared_permissions, json_value, write_json, write_text
from memorisk.runs.locks import LOCK, folder_lock, refuse_held
from memorisk.runs.storage.locations import name_origins, refuse_run_at_url
from memorisk.runs.workload import Opening, Progress
from memorisk.runs.yaml_files import dump_yaml, parse_yaml, read_yaml_text

HIDDEN_PREFIX = "path-"
_PATH_FILE = "hidden-paths.jsonl"
CONFIG = "config.yaml"
LOG = "log.jsonl"
STAGE = "stage.json"
"""Name of the file that shows how far a running run is."""
WEIGHTS_HASH = "weights_hash"
"""Name of the hash, in an identity, of the file of weights that trainings start from."""
_STAGE_SECONDS = 2.0  # between two writes of the stage
_KINDS = ("audit", "study", "comparison", "benchmark", "train")  # keys of an identity that name its kind
_ANOTHER = "Choose another folder, or delete that one"
_CHECKSUM = "# SHA-256 of the lines above: "
"""Beginning of the last line of ``config.yaml``, which is its record: a run folder shows one file of settings."""


def user_folder() -> Path:
    """Return the folder of memorisk in the user's configuration folder; it need not exist."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "memorisk"


def is_hidden(value: object) -> bool:
    """Return whether a setting is a hash in place of a path."""
    return str(value).startswith(HIDDEN_PREFIX)


def record_hidden_paths(paths: Mapping[str, str]) -> None:
    """Note the paths behind hashes; where the user's folder cannot be written to, they are lost.

    Args:
        paths: Paths by their hashes.
    """
    recorded = _known()
    lines = "".join(json.dumps([name, path]) + "\n" for name, path in paths.items() if name not in recorded)
    with suppress(OSError):
        user_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(user_folder() / _PATH_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as book:
            book.write(lines)


def restore_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put the paths that this user knows in place of their hashes, in settings and in lists of them."""
    recorded = _known()

    def shown(value: Any) -> Any:
        """Return a path for its hash, anything else as it is."""
        return recorded.get(value, value) if isinstance(value, str) else value

    return {k: [shown(inner) for inner in v] if isinstance(v, list) else shown(v) for k, v in settings.items()}


def _known() -> dict[str, str]:
    """Return the path of each hash; a line that a kill cut short is skipped."""
    paths: dict[str, str] = {}
    with suppress(OSError):
        for line in (user_folder() / _PATH_FILE).read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, RecursionError):
                name, path = json.loads(line)
                paths[str(name)] = str(path)
    return paths


@dataclass(frozen=True)
class RunFolder:
    """Run folder that this process has opened.

    Attributes:
        path: Path of the folder.
    """

    path: Path

    def __truediv__(self, name: str) -> Path:
        """Return a path inside the folder."""
        return self.path / name

    def subfolder(self, name: str) -> Path:
        """Return a private folder inside it, made on first use."""
        inner = self.path / name
        inner.mkdir(mode=0o700, exist_ok=True)
        return inner

    def log(self, event: str, **details: Any) -> None:
        """Append one line to ``log.jsonl``: the only file of a run that holds times."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **json_value(details)}
        handle = os.open(self.path / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(line) + "\n")

    def noting(self, progress: Progress, audit: str = "") -> Progress:
        """Return a progress that also writes its stage to ``stage.json`` for other programs; `open_run` removes it.

        Args:
            progress: Function called with (stage, done, total).
            audit: Kind of the run, where the folder holds no settings yet (`announced`).
        """
        written: tuple[str, float] = "", float("-inf")

        def noted(stage: str, done: int, total: int) -> None:
            """Write the stage now and then; a disk that is full or away does not stop a run."""
            nonlocal written
            now = time.monotonic()
            is_new = stage != written[0] or now - written[1] >= _STAGE_SECONDS
            if is_new and not isinstance(stage, Opening):
                written = stage, now
                with suppress(OSError, MemoriskError):
                    write_json(
                        self.path / STAGE, {"audit": audit, "stage": stage, "done": int(done), "total": int(total)}
                    )
            progress(stage, done, total)

        return noted

    def config(self) -> dict[str, Any]:
        """Return the settings with which the run was started."""
        return read_config(self.path)


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.yaml`` of a run folder; hashes in place of paths are paths again where this user knows them.

    Raises:
        InputError: The file does not exist, or does not parse.
    """
    return restore_paths(_written_config(folder))


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write ``config.yaml`` of a run folder; its last line is the checksum of the others.

    Args:
        folder: Path of the run folder.
        config: Settings of the run, in JSON's own types.
    """
    text = dump_yaml(config)
    write_text(folder / CONFIG, f"{text}{_CHECKSUM}{_text_sha256(text)}\n")


def _text_sha256(text: str) -> str:
    """Compute the SHA-256 of a text as `write_text` writes it."""
    return hashlib.sha256(text.encode("utf-8", errors="backslashreplace")).hexdigest()


def _refuse_damaged_config(path: Path, text: str) -> None:
    """Refuse settings that do not match their last line; settings of an earlier memorisk have no such line.

    Raises:
        DamagedError: The settings do not match.
    """
    settings, mark, value = text.rpartition(_CHECKSUM)
    if mark and value == f"{_text_sha256(settings)}\n":
        return
    if any(part in text for part in _CHECKSUM.split(" of ")):  # one flipped bit leaves one of the two
        raise DamagedError(
            f"{one_line(path)} is damaged: it is not what its last line says: restore it, or begin in a new folder"
        )


def _written_config(folder: Path) -> dict[str, Any]:
    """Read the settings in ``config.yaml`` unchanged.

    Raises:
        InputError: The same errors as `read_config`.
    """
    try:
        text = read_yaml_text(folder / CONFIG)
        _refuse_damaged_config(folder / CONFIG, text)
        config = parse_yaml(text)
    except FileNotFoundError:
        raise InputError(f"{one_line(folder)} is not a run folder: it holds no {CONFIG}") from None
    except NotADirectoryError:
        raise InputError(f"{one_line(folder)} is not a run folder: it is a file") from None
    except DamagedError:
        raise
    except (yaml.YAMLError, *CONTENT_ERRORS) as error:  # also dates that do not exist, and lists a thousand deep
        raise InputError(
            f"{one_line(folder / CONFIG)} does not parse: {one_line(' '.join(str(error).split()), 200)}"
        ) from None
    if not isinstance(config, dict):
        raise InputError(f"{one_line(folder / CONFIG)} holds no settings: choose another folder")
    return config


def is_run(folder: Path) -> bool:
    """Return whether a command of memorisk wrote a folder: it holds ``config.yaml`` and ``log.jsonl``."""
    return (folder / CONFIG).is_file() and (folder / LOG).is_file()


def check_out_folder(out: Path, config: Mapping[str, Any], *, identity: Iterator[str] | list[str]) -> None:
    """Refuse, before any work, an out folder that cannot be used: held, used for something else, or not writable.

    Args:
        out: Folder for the run; need not exist.
        config: Settings of the requested run.
        identity: Names of the settings that must be unchanged for the run to be the same run.

    Raises:
        InputError: ``out`` is a file, has other contents, is a run with other settings or not writable, or another
            process works on it.
    """
    _check(out, config, identity)
    refuse_held(out)


def _check(out: Path, config: Mapping[str, Any], identity: Iterator[str] | list[str]) -> None:
    """Check a folder as `check_out_folder` does, but not whether another process holds it.

    Raises:
        InputError: The same errors as `check_out_folder`.
    """
    refuse_run_at_url("--out", out)
    try:
        out.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise InputError(f"--out {one_line(out)} cannot name a folder: {one_line(error, 60)}") from None
    if out.is_symlink() and not out.exists():
        raise InputError(f"--out {one_line(out)} is a link to nothing: choose another folder")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {one_line(out)} is a file: name a folder that is new, empty or a run to resume")
    if not out.exists():
        parent = next(p for p in out.absolute().parents if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(f"--out {one_line(out)} cannot be made: {parent} is not a folder that may be written to")
        return
    if not os.access(out, os.W_OK | os.X_OK):
        raise InputError(f"--out {one_line(out)} may not be written to: choose another folder")
    if has_shared_permissions(out) and os.geteuid() not in (0, out.stat().st_uid):
        raise InputError(
            f"--out {one_line(out)} belongs to another user and is open to others; a run folder is personal data: "
            "choose a folder of your own"
        )
    entries = {p.name for p in out.iterdir() if not _half_written(p.name)} - {LOCK, f"{LOCK}.held", STAGE}
    if not entries:
        return
    if (out / LOG).is_symlink():
        raise InputError(
            f"--out {one_line(out)}: {LOG} in it is a link, and its target would be written to: choose another folder"
        )
    if CONFIG not in entries:
        raise InputError(
            f"--out {one_line(out)} holds files that are not a run of memorisk: name a new or empty folder"
        )
    before = _written_config(out)
    now = json_value(name_origins(config))
    for key in identity:
        if _kind(before.get(key)) != _kind(now.get(key)):
            raise InputError(f"--out {one_line(out)} holds another kind of run. {_ANOTHER}")
        for name, was, requested in _differences(key, before.get(key), now.get(key)):
            difference = f"with {name} = {one_line(was, 60)}, now asked: {one_line(requested, 60)}"
            if name in before and before[name] == now.get(name):  # it follows from another setting: name that one
                difference += other_settings(before, now)
            if name == "data_hash":
                difference = f"of other data, or of the same read with other settings{other_settings(before, now)}"
            if name == WEIGHTS_HASH:
                difference = f"that started from other weights than {one_line(now.get('weights'), 120)} holds now"
            raise InputError(f"--out {one_line(out)} holds a run {difference}. {_ANOTHER}")


def _half_written(name: str) -> bool:
    """Return whether a file is left by a kill while the settings or the stage were written."""
    return name.endswith(".part") and name.startswith((f".{CONFIG}.", f".{STAGE}."))


def _kind(identity: Any) -> list[Any]:
    """Name the kind of run in an identity; empty for the audit of a classifier."""
    return [identity.get(key) for key in _KINDS] if isinstance(identity, dict) else []


def _differences(name: str, was: Any, requested: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the settings that differ, by name; for settings in groups the innermost ones."""
    if isinstance(was, dict) and isinstance(requested, dict):
        for key in {**was, **requested}:
            yield from _differences(key, was.get(key), requested.get(key))
    elif was != requested:
        yield name, was, requested


def other_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the first three settings that differ, in brackets, as in " (size was 64, now 48)"; empty without any.

    Args:
        before: Settings of a run folder.
        now: Settings of the request; those that the folder does not hold are skipped.
    """
    before, now = json_value(before), json_value(now)
    names = [name for name in now if name in before and name not in ("run", "out")]
    differences = [d for name in names for d in _differences(name, before[name], now[name])][:3]
    words = [[name, *("not given" if v is None else one_line(v, 60) for v in values)] for name, *values in differences]
    phrases = [f"{name} was {was}, now {requested}" for name, was, requested in words]
    return f" ({'; '.join(phrases)})" if phrases else ""


@contextmanager
def open_run(out: Path, config: Mapping[str, Any], *, identity: list[str]) -> Iterator[RunFolder]:
    """Open a run folder for this process alone, new or to be resumed.

    Args:
        out: Path of the folder.
        config: Settings of the requested run, written to ``config.yaml``.
        identity: Names of the settings that must be unchanged (see ``check_out_folder``).

    Raises:
        InputError: The same errors as ``check_out_folder``; or another process works on the folder.
    """
    check_out_folder(out, config, identity=identity)
    with ExitStack() as held:
        with _folder_write_guard(out):
            private_folder(out)
            held.enter_context(folder_lock(out))
            _check(out, config, identity)
            for name in PARTIAL_NAMES:  # left by a run that was killed
                for partial in out.rglob(name):
                    partial.unlink(missing_ok=True)
            settings = name_origins(config)  # URLs in place of their private copies
            write_config(out, json_value(settings))
        try:
            yield RunFolder(out)
        finally:
            with suppress(OSError):
                (out / STAGE).unlink(missing_ok=True)


@contextmanager
def announced(out: Path, audit: str, progress: Progress) -> Iterator[Progress]:
    """Hold a folder while a command gathers the identity of its run; other programs see how far it is.

    `open_run` makes the folder a run. Until then it holds no settings, and a failure leaves it as it was.

    Args:
        out: Path of the folder, checked by `check_out_folder`.
        audit: Kind of the run.
        progress: Function called with (stage, done, total).

    Yields:
        Progress to report to.

    Raises:
        InputError: Another process holds the folder, or it cannot be made.
        MemoriskError: No space is left.
    """
    new_folders = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        with ExitStack() as held:
            with _folder_write_guard(out):
                private_folder(out)
                held.enter_context(folder_lock(out))
            try:
                yield RunFolder(out).noting(progress, audit)
            finally:
                for name in (STAGE, *([LOCK] if new_folders else [])):
                    with suppress(OSError):
                        (out / name).unlink(missing_ok=True)
    finally:
        with suppress(OSError):  # a folder that is not empty stays
            for folder in new_folders:
                folder.rmdir()


def private_folder(out: Path) -> None:
    """Make a run folder for its owner alone; other users lose access to an existing one.

    Files of a run are private one by one, but their names may identify patients, and users who may write to the folder
    could replace them. Access that was given to others on purpose is removed, too: give it again once the run is
    finished.

    Raises:
        InputError: The folder's permissions cannot be changed.
    """
    exists = out.is_dir()
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not has_shared_permissions(out):
        return
    with suppress(OSError):
        out.chmod(stat.S_IMODE(out.stat().st_mode) & ~0o077)
    if has_shared_permissions(out):
        raise InputError(
            f"--out {one_line(out)} is open to other users and its file system does not keep permissions; a run folder "
            "is personal data: choose a folder on another one, or mount this one for yourself alone"
        )
    if exists:
        logging.getLogger(__name__).warning("other users may no longer enter %s: it holds personal data", one_line(out))


@contextmanager
def _folder_write_guard(out: Path) -> Iterator[None]:
    """Turn the system's refusals to write into one line.

    Raises:
        MemoriskError: No space is left.
        InputError: The folder cannot be made or written to.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK_CODES:
            raise MemoriskError(f"no space left for --out {one_line(out)}: free some; {RESUME_HINT}") from None
        reason = error.strerror or one_line(error, 120)
        raise InputError(f"--out {one_line(out)} cannot be written to ({reason}): choose another folder") from None
