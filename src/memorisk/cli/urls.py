"""URLs on the command line: inputs are copied to this machine before a command runs, runs at URLs are refused.

Images and weights keep their URL, which `images.sources.registry.load_manifest` and
`models.weight_files.read_state_dict` resolve: the URL is part of the name of a training, which must be the same on
every machine. Images that do not exist are refused here, before the command loads anything heavy.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from memorisk.images.sources.places import refuse_nowhere
from memorisk.runs.errors import MemoriskError
from memorisk.runs.storage.locations import LIBRARIES, origin_of, refuse_run_at_url, url_of

_RESOLVED_LATER = frozenset(
    (
        *("images", "train", "synthetic", "held_out", "probes", "calibration", "image_root", "labels_csv"),
        *("weights", "feature_weights", "classifier_weights", "conditioning_weights"),
    )
)
_RUNS = frozenset(("out", "page", "run", "runs", "first", "second", "places", "training", "table"))
"""Arguments that name a run folder, or a file to write."""
_NEVER_READ = frozenset(("store", "cluster", "log_to", "to", "python_path"))
_INSIDE = re.compile(rf"(?:(.*)[:@=])?((?:{'|'.join(sorted(LIBRARIES))})://.*)", re.DOTALL)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name, with the settings of a dataclass one by one."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= {f.name: getattr(value, f.name) for f in fields(value)} if _is_settings(value) else {name: value}
    return flat


def _is_settings(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _holds(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds(v) for v in value)
    if isinstance(value, Path):
        return url_of(value, refuse_unknown=True) is not None
    return isinstance(value, str) and _INSIDE.fullmatch(value) is not None


@contextmanager
def local_arguments(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the arguments of a command with local copies in place of URLs, while the command runs.

    Raises:
        InputError: A run folder is at a URL, an input at a URL cannot be used, or images do not exist. Nothing was
            written.
        MemoriskError: A storage does not answer.
    """
    flat = _flat(arguments)
    _refuse_runs(flat)
    if flat.get("print_config"):
        yield _shown(arguments)
        return
    if not _holds(tuple(flat.values())):
        sources = [arguments.get(name) for name in ("images", "train", "synthetic")]  # a setting "train" is a function
        for source in (*sources, flat.get("held_out")):
            if isinstance(source, str):
                refuse_nowhere(source)
        yield arguments
        return
    store = flat.get("store")
    local = {name: _local(name, value, store) for name, value in arguments.items()}
    try:
        yield local
    except MemoriskError as error:
        error.args = (_with_urls(str(error), _flat(local).values()),)
        raise


def _refuse_runs(flat: Mapping[str, Any]) -> None:
    """Refuse a run folder, or a file to write, at a URL.

    Raises:
        InputError: One of the arguments is a URL.
    """
    for name in sorted(_RUNS & set(flat)):
        values = flat[name] if isinstance(flat[name], (tuple, list)) else (flat[name],)
        for value in values:
            if isinstance(value, (str, Path)):
                refuse_run_at_url(f"--{name}" if name in ("out", "page", "table") else name.upper(), value)


def _with_urls(message: str, values: Iterable[Any]) -> str:
    """Return a message about local copies with the URLs that the user gave in their place."""
    for value in values:
        for text in map(str, value) if isinstance(value, (tuple, list)) else (str(value),):
            path = text[text.find("/") :]  # without a prefix, as in detector:FOLDER
            if (url := origin_of(path)) != path:
                message = message.replace(path, url)
    return message


def _local(name: str, value: Any, store: Path | None) -> Any:
    """Return an argument with local copies of the inputs that it names by URL."""
    if _is_settings(value):
        named = {f.name: getattr(value, f.name) for f in fields(value)}
        changed = {n: _local(n, v, store) for n, v in named.items() if _holds(v)}
        return replace(value, **changed) if changed else value
    resolved_later = name in _RESOLVED_LATER and not isinstance(value, (tuple, list))
    if resolved_later or name in _NEVER_READ or not _holds(value):
        return value
    if isinstance(value, (tuple, list)):
        return type(value)(_local("", v, store) for v in value)
    from memorisk.runs.storage.mirror import local_source

    if isinstance(value, Path):
        return local_source(value, store)
    match = _INSIDE.fullmatch(value)
    assert match is not None
    return f"{value[: match.start(2)]}{local_source(match[2], store)}"


def _shown(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments to print, with both slashes of URLs, of which a `Path` has dropped one."""

    def whole(value: Any) -> Any:
        """Return one argument to print."""
        if _is_settings(value):
            return replace(value, **{f.name: whole(getattr(value, f.name)) for f in fields(value)})
        if isinstance(value, str) and (match := _INSIDE.fullmatch(value)):
            url_of(match[2])  # refuses what must not be printed
        return (url_of(value) or value) if isinstance(value, Path) else value

    return {name: whole(value) for name, value in arguments.items()}
