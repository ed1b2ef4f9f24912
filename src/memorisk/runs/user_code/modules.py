"""The user's own modules: the current text of their files runs, and the fingerprint is that of the running text.

A notebook keeps modules that it imported, even if their files change. Python's compiled files (``.pyc``) identify a
text by its size and by the second of its last change, so two texts of one second pass for one. The modules of a
user's folder are therefore compiled here, from the bytes whose fingerprint is kept with the module. Where one of
them changed since it was imported, all modules of its folder are imported anew.
"""

import importlib
import inspect
import os
import sys
import sysconfig
import time
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.processes import without_current_folder

_DIGITS = 32  # as `files.file_fingerprint`
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class _TextLoader(SourceFileLoader):
    """Loader that compiles a module's text itself, and keeps the text's fingerprint."""

    fingerprint = ""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text as it is now; no compiled file is read or written."""
        path = self.get_filename(fullname)
        text = self.get_data(path)
        self.fingerprint = text_fingerprint(text)
        return self.source_to_code(text, path)


class _TextFinder(MetaPathFinder):
    """Finder of modules that works as Python's, and has those of the user's folders compiled from their texts.

    It stays where it was put, because a function may import other modules of its folder when it runs.
    """

    def __init__(self) -> None:
        self.roots: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Call the other finders in their order."""
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is None:
                continue
            loader = spec.loader
            if type(loader) is SourceFileLoader and _within(spec.origin, self.roots):
                spec.loader = _TextLoader(loader.name, loader.path)
            return spec
        return None


_finder = _TextFinder()


def import_current(name: str, folders: Sequence[Path] = ()) -> ModuleType:
    """Import a module of the user's from its current file, from a place where child processes find it, too.

    Args:
        name: Name of the module, as ``package.module``.
        folders: Other folders of the user's modules, in addition to that of this one.

    Raises:
        ModuleNotFoundError: The module lies only in the current folder, even if it was imported from there before.
        InputError: Its file changed after it was imported, and other modules hold names from it.
    """
    top = name.partition(".")[0]
    with without_current_folder():
        spec = _spec_of(top)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {top!r}")
        roots = {form for root in (*_roots(spec), *folders) for form in (str(root), str(root.resolve()))}
        _forget_changed(roots)
        _finder.roots |= roots
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        importlib.invalidate_caches()
        return importlib.import_module(name)


def is_importable(name: str, folders: Sequence[Path] = ()) -> bool:
    """Say whether a module or the package around it is there, without importing anything.

    Args:
        name: Name of the module, as ``package.module``.
        folders: Folders of the user's modules, searched after everything installed.
    """
    top = name.partition(".")[0]
    with without_current_folder():
        return _spec_of(top) is not None or PathFinder.find_spec(top, [str(folder) for folder in folders]) is not None


def _spec_of(top: str) -> ModuleSpec | None:
    """Return the specification of a top-level module by the finders of Python, in their order."""
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
    specs = (f.find_spec(top, sys.path if f is PathFinder else None) for f in finders)
    return next((spec for spec in specs if spec is not None), None)


def loaded_fingerprint(module: str) -> str | None:
    """Return the fingerprint of the text that an imported module was compiled from; None where it is not known."""
    return _text_of(sys.modules.get(module))


def user_line(error: BaseException) -> str:
    """Return the file and line of the user's own code in which an error arose, as " (file.py, line 14)".

    It is the innermost place in the folders of modules that `import_current` imported; "" where none is there.

    Args:
        error: Error that was caught.
    """
    place, trace = "", error.__traceback__
    while trace is not None:
        file, name = trace.tb_frame.f_code.co_filename, str(trace.tb_frame.f_globals.get("__name__"))
        if _within(file, _finder.roots) and name.partition(".")[0] != "memorisk":
            place = f" ({one_line(Path(file).name, 80)}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _text_of(module: ModuleType | None) -> str | None:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return loader.fingerprint or None if isinstance(loader, _TextLoader) else None


def text_fingerprint(text: bytes) -> str:
    """Return the fingerprint of a module's text, which `loaded_fingerprint` returns once it is imported."""
    return blake2b(text, digest_size=32).hexdigest()[:_DIGITS]


def _roots(spec: ModuleSpec) -> list[Path]:
    """Return the place of a user's modules: the package, or the folder of the file; for an installed file, it alone."""
    if spec.submodule_search_locations is not None:
        return [Path(folder).absolute() for folder in spec.submodule_search_locations]
    if not spec.has_location or spec.origin is None:
        return []
    file = Path(spec.origin).absolute()
    return [file if _installed(file) else file.parent]


def _below(file: str, folder: str) -> bool:
    return file == folder or file.startswith(folder.rstrip(os.sep) + os.sep)


def _installed(file: str | Path) -> bool:
    """Return whether a file lies in a library folder of Python's, also in one of another environment."""
    parts = set(Path(file).parts)
    return bool({"site-packages", "dist-packages"} & parts) or any(_below(str(file), one) for one in _LIBRARIES)


def _within(file: str | None, roots: Collection[str]) -> bool:
    """Return whether a file is one of the user's modules: below one of the folders, and not installed below it."""
    above = [root for root in roots if file is not None and _below(file, root)]
    return bool(above) and (not _installed(str(file)) or any(_installed(root) for root in above))


def _forget_changed(roots: Collection[str]) -> None:
    """Forget the modules below these folders, so that they are imported anew, where the text of one has changed.

    Raises:
        InputError: Modules elsewhere hold names from them.
    """
    loaded = dict(_loaded_below(roots))
    changed = next((module for module in loaded.values() if _has_changed(module)), None)
    if changed is None:
        return
    others = ((name, module) for name, module in list(sys.modules.items()) if name not in loaded)
    holder = next((name for name, module in others if _holds(module, loaded)), None)
    if holder is not None:
        raise InputError(
            f"{one_line(Path(str(changed.__file__)).name)} changed since this process imported it, and "
            f"{one_line(holder, 80)} holds what was imported: restart the kernel"
        )
    for name in loaded:
        del sys.modules[name]


def _running() -> set[int]:
    """Return the namespaces of the main script and of all code that is being run in this thread, by their ids."""
    running, frame = {id(vars(sys.modules["__main__"]))}, inspect.currentframe()
    while frame is not None:
        running.add(id(frame.f_globals))
        frame = frame.f_back
    return running


def _loaded_below(roots: Collection[str]) -> Iterator[tuple[str, ModuleType]]:
    """Yield the imported modules that lie below these folders: not memorisk's, and none whose code is running."""
    running = _running()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "memorisk" or not isinstance(module, ModuleType):
            continue
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        if type(loader) not in (SourceFileLoader, _TextLoader) or id(vars(module)) in running:
            continue
        if _within(getattr(module, "__file__", None), roots):
            yield name, module


def _has_changed(module: ModuleType) -> bool:
    """Return whether a module's file may hold another text than the module was imported from.

    For a module that other code imported only the moment of its file's last change is known: it is unchanged if that
    lies before this process. Where the system does not report when that began, installed modules count as unchanged.
    """
    file = Path(str(module.__file__))
    try:
        if (text := _text_of(module)) is not None:
            return text_fingerprint(file.read_bytes()) != text
        status = file.stat()
    except OSError:  # the file was removed, so nothing newer exists
        return False
    if _BEGUN is None:
        return not _installed(file)
    return max(status.st_mtime, status.st_ctime) >= _BEGUN


def _process_begun() -> float | None:
    """Return when this process began, in seconds since 1970 to a hundredth; None where the system lacks the time."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        begun = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    return begun if 0 < begun <= time.time() else None


_BEGUN = _process_begun()
"""Start of the process, taken on import: a process that is forked later has the modules of this one."""


def _holds(module: Any, loaded: dict[str, ModuleType]) -> bool:
    """Return whether a module has one of these modules, or a function or class of theirs, among its names.

    The main script and running code may do so: they name the user's function and do not make it.
    """
    if not isinstance(module, ModuleType) or id(vars(module)) in _running():
        return False
    ids = {id(m) for m in loaded.values()}  # type(value) below: isinstance would wake what warns that it is deprecated
    return any(
        id(value) in ids or (issubclass(type(value), FunctionType | type) and value.__module__ in loaded)
        for value in list(vars(module).values())
    )
