"""Parts that other installed packages bring: measures, attacks, readers, encoders and audits, by their entry points.

A package names them in its ``pyproject.toml``, under ``[project.entry-points."memorisk.measures"]`` and the like. They
are loaded when the registry they belong to is first used; an entry under the name of one of memorisk's own parts is
refused. Their package is code like any other that is installed: its user runs it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from memorisk.runs.errors import InputError, one_line

Part = TypeVar("Part")
GROUPS = ("memorisk.measures", "memorisk.attacks", "memorisk.readers", "memorisk.encoders", "memorisk.audits")


@cache
def _found() -> dict[str, dict[str, EntryPoint]]:
    """Return the entry points by group and name; installed packages are searched once."""
    every = entry_points()
    return {group: {one.name: one for one in sorted(every.select(group=group))} for group in GROUPS}


@cache
def plugins(group: str, kind: type = object) -> dict[str, Any]:
    """Return the parts of a group, by name, in the order of their names.

    Args:
        group: Name of a group, one of `GROUPS`.
        kind: Type of each part.

    Raises:
        InputError: A part cannot be loaded, or has another type; the message names its package.
    """
    return {name: _loaded(entry, kind) for name, entry in _found()[group].items()}


def plugin_versions() -> dict[str, str]:
    """Return the versions of the packages that bring parts, since results may depend on them."""
    packages = {entry.dist for parts in _found().values() for entry in parts.values() if entry.dist is not None}
    return {dist.name: dist.version for dist in sorted(packages, key=lambda dist: dist.name)}


class Registry(Mapping[str, Part]):
    """Registry of memorisk's own parts, and after them those of other packages, which are loaded on first use.

    A part's module imports the module of its registry, so nothing may be loaded while that is imported.

    Args:
        group: Name of a group, one of `GROUPS`.
        own: Parts of memorisk by name.
        kind: Type of each part.
        made: Function that converts an entry of a plug-in to a part, or refuses it.
    """

    def __init__(
        self, group: str, own: Mapping[str, Part], kind: type, made: Callable[[str, Part], Part] | None = None
    ) -> None:
        self.group, self.own, self.kind = group, own, kind
        self._made = made

    @cached_property
    def more(self) -> dict[str, Part]:
        """Return the parts of other packages.

        Raises:
            InputError: The same errors as `plugins`, or a part has the name of one of memorisk's own.
        """
        registered = plugins(self.group, self.kind)
        for name in registered.keys() & self.own.keys():
            whose = _whose(_found()[self.group][name])
            raise InputError(f"{whose}: memorisk has a part of that name; uninstall it, or register it under another")
        return {name: part if self._made is None else self._made(name, part) for name, part in registered.items()}

    def __getitem__(self, name: str) -> Part:
        return self.own[name] if name in self.own else self.more[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.own, *self.more))

    def __len__(self) -> int:
        return len(self.own) + len(self.more)


def _loaded(entry: EntryPoint, kind: type) -> Any:
    """Load a part.

    Raises:
        InputError: The same errors as `plugins`.
    """
    try:
        part = entry.load()
    except Exception as error:  # another package's code
        why = f"{type(error).__name__}: {one_line(error, 120)}"
        raise InputError(f"{_whose(entry)} cannot be loaded ({why}): repair or uninstall its package") from None
    if not isinstance(part, kind) or (getattr(part, "name", entry.name) != entry.name):
        raise InputError(
            f"{_whose(entry)} is {one_line(repr(part), 60)}; it must be a {kind.__name__} called {one_line(entry.name)}"
        )
    return part


def _whose(entry: EntryPoint) -> str:
    """Describe a part in the words of messages."""
    package = "" if entry.dist is None else f" of the package {one_line(entry.dist.name, 60)}"
    return f"{entry.group}: {one_line(entry.name, 60)}{package}"
