"""URLs on the command line: what a command reads of them is brought over before it runs, what it writes is kept there.

Images and weights keep their URL, which `images.sources.registry.load_manifest` and
`models.weight_files.read_state_dict` resolve: it is part of a training's name, which must be the same on every
machine. Images that lie nowhere are refused here, before the command loads anything heavy.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from memorisk.images.sources.places import refuse_nowhere
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.storage.locations import LIBRARIES, path_of, url_of

_IMAGES = frozenset(("images", "train", "synthetic", "held_out", "probes", "calibration", "image_root", "labels_csv"))
_WEIGHTS = frozenset(("weights", "feature_weights", "classifier_weights", "conditioning_weights"))
_NEVER_READ = frozenset(("out", "store", "cluster", "log_to", "to", "python_path"))
_WRITTEN_IN = ("run", "training")  # arguments whose folder is written into where no --out is given
_NO_RUNS = ("report", "mark", "statement")  # commands whose --out is no run folder
_INSIDE = re.compile(rf"(?:(.*)[:@=])?((?:{'|'.join(sorted(LIBRARIES))})://.*)", re.DOTALL)


def names_url(values: Mapping[str, Any]) -> bool:
    """Return whether any argument of a command, or any setting among them, is or holds a URL of a storage."""
    return any(_holds(value) for value in _flat(values).values())


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, settings taken out of their dataclass."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if _is_settings(value):
            found |= {f.name: getattr(value, f.name) for f in fields(value)}
        else:
            found[name] = value
    return found


def _is_settings(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _holds(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds(v) for v in value)
    if isinstance(value, Path):
        return url_of(value, refuse_unknown=True) is not None
    return isinstance(value, str) and _INSIDE.fullmatch(value) is not None


@contextmanager
def local_arguments(command: Callable[..., Any], given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a command with folders of this machine in place of URLs, while it runs.

    Raises:
        InputError: A URL cannot be used there, or is in use; images lie nowhere. Nothing was written.
        MemoriskError: A storage does not answer.
    """
    flat = _flat(given)
    if not names_url(given):
        sources = [given.get(name) for name in ("images", "train", "synthetic")]  # a setting "train" is a function
        for source in () if flat.get("print_config") else (*sources, flat.get("held_out")):
            if isinstance(source, str):
                refuse_nowhere(source)
        yield given
        return
    if flat.get("print_config"):
        yield _shown(given)
        return
    store = flat.get("store")
    kept = _kept_place(command.__name__, given)
    _refuse_overlap(kept, flat)
    written = "" if kept is None else kept[0]
    local = {name: value if name == written else _local(name, value, store) for name, value in given.items()}
    with ExitStack() as held:
        if kept is not None:
            from memorisk.runs.storage.remote_run import copy_for_viewing, kept_run, refuse_unfinished

            name, url = kept
            if name == "run":
                refuse_unfinished(url)
            if flat.get("dry_run"):
                local[name] = copy_for_viewing(url, store)
            else:
                local[name] = held.enter_context(kept_run(url, store))
        try:
            yield local
        except MemoriskError as error:
            error.args = (_as_named(str(error), _flat(local).values()),)
            raise
    if kept is not None and not flat.get("dry_run"):
        sys.stderr.write(f"Kept at {kept[1]}; the copy here, {local[kept[0]]}, may be deleted\n")


def _as_named(message: str, values: Iterable[Any]) -> str:
    """A message about copies in this machine's cache, in the words of what the user named: their URLs."""
    from memorisk.runs.storage.locations import origin_of

    for value in values:
        for text in map(str, value) if isinstance(value, (tuple, list)) else (str(value),):
            path = text[text.find("/") :]  # without what stands before it, as in detector:FOLDER
            if (url := origin_of(path)) != path:
                message = message.replace(path, url)
    return message


def _kept_place(command: str, given: Mapping[str, Any]) -> tuple[str, str] | None:
    """The argument whose URL is written to, and the URL.

    Raises:
        InputError: The command does not write a run folder there.
    """
    if (url := url_of(given.get("out"), refuse_unknown=True)) is not None:
        if any(command.startswith(name) for name in _NO_RUNS):
            raise InputError(f"--out {url}: {command} writes files of this machine only; copy them there yourself")
        return "out", url
    if given.get("out") is None:
        for name in _WRITTEN_IN:
            if (url := url_of(given.get(name))) is not None:
                if given.get("follow"):
                    raise InputError(f"follow looks at a folder of this machine, and {url} is none")
                return name, url
    return None


def _refuse_overlap(kept: tuple[str, str] | None, flat: Mapping[str, Any]) -> None:
    """Refuse to keep a run among the images that it reads, or around them, whether these are at a URL or here.

    Raises:
        InputError: One lies in the other.
    """
    if kept is None:
        return
    for name in sorted(_IMAGES & set(flat)):
        url = url_of(flat[name])
        if url is not None and (f"{url}/".startswith(f"{kept[1]}/") or f"{kept[1]}/".startswith(f"{url}/")):
            raise InputError(f"--out {kept[1]} and {name} {url} lie in one another: name another place")
    if (folder := path_of(kept[1])) is not None:
        from memorisk.images.sources.registry import path_sources, refuse_overlap

        read = {name: flat[name] for name in sorted(_IMAGES & set(flat))}
        refuse_overlap(folder, path_sources(read), called="--out")


def _local(name: str, value: Any, store: Path | None) -> Any:
    """An argument with local copies of what it reads at URLs."""
    if _is_settings(value):
        named = {f.name: getattr(value, f.name) for f in fields(value)}
        changed = {n: _local(n, v, store) for n, v in named.items() if _holds(v)}
        return replace(value, **changed) if changed else value
    resolved_later = name in _IMAGES | _WEIGHTS and not isinstance(value, (tuple, list))
    if resolved_later or name in _NEVER_READ or not _holds(value):
        return value
    if isinstance(value, (tuple, list)):
        return type(value)(_local("", v, store) for v in value)
    from memorisk.runs.storage.remote_run import read_run

    if isinstance(value, Path):
        return read_run(value, store)
    found = _INSIDE.fullmatch(value)
    assert found is not None
    before = value[: found.start(2)]
    local = read_run(found[2], store)
    return f"{before}{local}"


def _shown(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with whole URLs, which a `Path` has shortened by a slash, to be printed."""

    def whole(value: Any) -> Any:
        """One of them."""
        if _is_settings(value):
            return replace(value, **{f.name: whole(getattr(value, f.name)) for f in fields(value)})
        if isinstance(value, str) and (found := _INSIDE.fullmatch(value)):
            url_of(found[2])  # refuses what must not be printed
        return (url_of(value) or value) if isinstance(value, Path) else value

    return {name: whole(value) for name, value in given.items()}
