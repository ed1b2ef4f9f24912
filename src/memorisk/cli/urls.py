"""URLs on the command line: inputs are copied to this machine before a command runs, runs at URLs are refused.

Images and weights keep their URL, which `images.sources.registry.load_manifest` and
`models.weight_files.read_state_dict` resolve: the URL is part of the name of a training, which must be the same on
every machine. Inputs that do not exist are refused here, before the command loads anything heavy.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from memorisk.images.sources.places import refuse_nowhere
from memorisk.models.classifiers.specs import names_file
from memorisk.runs.errors import MemoriskError
from memorisk.runs.storage.locations import LIBRARIES, origin_of, refuse_run_at_url, url_of
from memorisk.runs.user_code.functions import NAMES_A_FUNCTION, refuse_missing_module

_IMAGES = ("images", "train", "synthetic", "held_out", "probes", "calibration")
_WEIGHTS = ("weights", "feature_weights", "classifier_weights", "conditioning_weights")
_RESOLVED_LATER = frozenset((*_IMAGES, "image_root", "labels_csv", *_WEIGHTS))
_RUNS = frozenset(("out", "page", "mend", "run", "runs", "first", "second", "places", "training", "table"))
"""Arguments that name a run folder, or a file to write."""
_WRITTEN = frozenset(("out", "page", "mend", "arrays", "store", "log_to"))
"""Paths that need not exist. A command reads every other path."""
_PLACES = ("training", "source", "generator", "models")
"""Arguments other than images whose text names files or folders."""
_NAMES_OR_FILES = (*_WEIGHTS, "detector", "features", "encoder")
"""Arguments whose text is a known name or, with a slash, a path."""
_KINDS_OF_PLACE = re.compile(r"(?:[^:@/]*=)?(?:detector|latents|autoencoder|transformers):([^@]+)")
"""Kinds of detectors and latents that a path follows, unless weights are named by ``@``."""
_FUNCTION = re.compile(r"[\w.]+:\w+")
_SOURCES = ("detector", "detectors", "auditor", "features", "quality", "backbone", "backbones")
"""Arguments whose text is a source of features, as `memorisk.models.encoders.feature_sources.parse_source` reads it."""
_NO_SOURCE = frozenset(("", "auto", "before", "none", "mse", "ncc", "ssim", "random"))
"""Words of these arguments that do not name a source."""
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
def local_arguments(arguments: dict[str, Any], help_command: str) -> Iterator[dict[str, Any]]:
    """Give the arguments of a command with local copies in place of URLs, while the command runs.

    Args:
        arguments: Arguments and settings, by name.
        help_command: Command that shows the help, for the refusal of an input that does not exist.

    Raises:
        InputError: A run folder is at a URL, an input at a URL cannot be used, or an input does not exist. Nothing was
            written.
        MemoriskError: A storage does not answer.
    """
    flat = _flat(arguments)
    _refuse_runs(flat)
    if flat.get("print_config"):
        yield _shown(arguments)
        return
    _refuse_missing({name: value for name, value in flat.items() if name != "train"} | arguments, help_command)
    _refuse_missing_modules(arguments, flat)
    _refuse_values(arguments, flat)
    if not _holds(tuple(flat.values())):
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
                refuse_run_at_url(f"--{name}" if name in ("out", "page", "mend", "table") else name.upper(), value)


def _refuse_missing(values: Mapping[str, Any], help_command: str) -> None:
    """Refuse inputs that do not exist.

    Args:
        values: Arguments and settings by name, but for a setting ``train``, which names a function.
        help_command: Command whose help says what an argument may be.

    Raises:
        InputError: A file or folder does not exist.
    """
    for name, value in values.items():
        for word in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(word, Path) and name not in _WRITTEN:
                refuse_nowhere(str(word), help_command)
            elif not isinstance(word, str):
                continue
            elif (place := _KINDS_OF_PLACE.fullmatch(word)) and not Path(word).exists():
                if name not in _SOURCES or "=" in word.partition(":")[0]:  # `_refuse_values` names all missing sources
                    refuse_nowhere(place[1], help_command)
            elif name in _IMAGES:
                refuse_nowhere(word)
            elif "@" not in word and (name in _PLACES or (name in _NAMES_OR_FILES and names_file(word))):
                refuse_nowhere(word, help_command)


def _refuse_missing_modules(arguments: Mapping[str, Any], flat: Mapping[str, Any]) -> None:
    """Refuse functions of modules that are nowhere, before libraries are loaded that only they need.

    Args:
        arguments: Arguments and settings of a command, by name.
        flat: The same, with the settings one by one.

    Raises:
        InputError: A module is nowhere.
    """
    settings = [value for value in arguments.values() if _is_settings(value)]
    trained = [getattr(value, f.name) for value in settings for f in fields(value) if f.metadata == NAMES_A_FUNCTION]
    named = {"--train": trained, "the generator": flat.get("generator"), "the model": flat.get("models")}
    for what, value in named.items():
        words = [str(word) for word in (value if isinstance(value, (tuple, list)) else (value,))]
        for word in words:
            if _FUNCTION.fullmatch(word) and not Path(word).exists():
                refuse_missing_module(word, what, flat.get("python_path", ()))


def _refuse_values(arguments: Mapping[str, Any], flat: Mapping[str, Any]) -> None:
    """Refuse values that no command takes, before libraries are loaded that only the command needs.

    Args:
        arguments: Arguments and settings of a command, by name.
        flat: The same, with the settings one by one.

    Raises:
        InputError: A setting is out of range, or a device, a network or a source of features does not exist.
    """
    if isinstance(device := flat.get("device"), str):
        from memorisk.runs.environment import check_device_name

        check_device_name(device)
    if sources := [(name, text) for name in _SOURCES for text in _words(flat.get(name)) if not _INSIDE.fullmatch(text)]:
        from memorisk.models.encoders.feature_sources import parse_source, refuse_missing_sources, split_name

        refuse_missing_sources(text for _, text in sources)
        for name, text in sources:
            source = split_name(text)[0]
            if source.lower() not in _NO_SOURCE and not Path(source).exists():
                parse_source(source, names_weights=name != "features")  # explain takes --feature-weights
    if models := [word for word in _words(flat.get("model")) if word != "auto"]:
        from memorisk.models.classifiers.specs import model_spec

        for word in models:
            model_spec(word)
    if measures := [word for word in _words(flat.get("measure")) if word not in ("auto", "head")]:
        from memorisk.scores.distances.measures import find_measure

        for word in measures:
            find_measure(word)
    for value in arguments.values():  # after the names: some settings take a moment to check
        if _is_settings(value) and hasattr(value, "validate"):
            value.validate()


def _words(value: Any) -> list[str]:
    """Return the texts of an argument that has one or several."""
    return [word for word in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(word, str)]


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
