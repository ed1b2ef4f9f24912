"""A user's module runs as its file is now, and its fingerprint is that of what runs."""

import functools
import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.runs.errors import InputError
from memorisk.runs.executors.pool import run_jobs, worker_pool
from memorisk.runs.files import file_fingerprint
from memorisk.runs.settings import named_settings
from memorisk.runs.user_code.functions import load_named, source_fingerprint

Write = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a module of the user's; return its name."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    ending = tmp_path.name.replace("-", "_")

    def write(text: str, name: str = "draws") -> str:
        (tmp_path / f"{name}_{ending}.py").write_text(text.replace("helper", f"helper_{ending}"))
        return f"{name}_{ending}"

    return write


def loaded(name: str, function: str = "draw", **how: Any) -> Callable[..., Any]:
    return load_named(f"{name}:{function}", "the generator", **how)


def test_a_file_that_changed_runs_as_it_is_now(written: Write, tmp_path: Path) -> None:
    """Of equal length and within one second, which Python's compiled files take for one text."""
    for value in (1, 2, 3, 1):
        name = written(f"def draw():\n    return {value}\n")
        call = loaded(name)
        assert call() == value
        assert source_fingerprint(call) == file_fingerprint(tmp_path / f"{name}.py")


def test_an_unchanged_file_is_not_loaded_again(written: Write) -> None:
    name = written("def draw():\n    return 1\n")
    assert loaded(name) is loaded(name)


def test_what_the_notebook_imported_or_reloaded_itself_is_no_exception(written: Write) -> None:
    name = written("def draw():\n    return 1\n")
    importlib.invalidate_caches()
    importlib.import_module(name)
    written("def draw():\n    return 2\n")
    assert loaded(name)() == 2
    written("def draw():\n    return 3\n")
    importlib.reload(sys.modules[name])
    written("def draw():\n    return 2\n")
    assert loaded(name)() == 2


@pytest.mark.parametrize("lazily", [False, True])
def test_a_changed_module_beside_it_is_loaded_anew_too(written: Write, lazily: bool) -> None:
    top, inside = ("", "    from helper import GREY\n") if lazily else ("from helper import GREY\n", "")
    written("GREY = 1", "helper")
    name = written(f"{top}def draw():\n{inside}    return GREY\n")
    assert loaded(name)() == 1
    written("GREY = 2", "helper")
    assert loaded(name)() == 2


def test_a_function_that_another_file_defines_is_known_by_that_file(written: Write, tmp_path: Path) -> None:
    helper = written("def draw():\n    return 1\n", "helper")
    name = written("from helper import draw\n")
    assert source_fingerprint(loaded(name)) == file_fingerprint(tmp_path / f"{helper}.py")
    written("def draw():\n    return 2\n", "helper")
    assert loaded(name)() == 2


def test_a_bound_function_is_known_by_the_file_of_the_function(written: Write, tmp_path: Path) -> None:
    name = written("from functools import partial\ndef plain(n):\n    return n\ndraw = partial(plain, 1)\n")
    assert source_fingerprint(loaded(name)) == file_fingerprint(tmp_path / f"{name}.py")


def test_a_module_that_others_hold_is_refused_when_its_file_changed(
    written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = written("def draw():\n    return 1\n")
    holder = types.ModuleType("plotting_code")
    vars(holder)["draw"] = loaded(name)
    monkeypatch.setitem(sys.modules, "plotting_code", holder)
    assert loaded(name)() == 1
    written("def draw():\n    return 2\n")
    with pytest.raises(InputError, match=rf"^{name}\.py changed since this process imported it, .*: restart the kern"):
        loaded(name)


def test_a_run_keeps_the_text_with_which_it_began(written: Write) -> None:
    name = written("def draw():\n    return 1\n")
    before = source_fingerprint(loaded(name))
    written("def draw():\n    return 2\n")
    assert loaded(name, source=before)() == 1
    after = source_fingerprint(loaded(name))
    with pytest.raises(InputError, match="its file changed while this ran: give the command again"):
        loaded(name, source=before)
    assert loaded(name, source=after)() == 2


def test_a_function_itself_is_named_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook, where Python searches the current folder and memorisk does not."""
    name = f"given_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("def draw():\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    importlib.invalidate_caches()
    given = importlib.import_module(name).draw
    settings = named_settings(ClassifierOptions, {"train": given, "python_path": "code"})
    assert settings == {"train": f"{name}:draw", "python_path": (tmp_path / "code", tmp_path)}
    (tmp_path / f"{name}.py").write_text("def draw():\n    return 2\n")
    found = load_named(settings["train"], "--train", tmp_path)
    assert found() == 2
    assert named_settings(ClassifierOptions, {"train": given})["train"] == f"{name}:draw"  # the import of before
    assert named_settings(ClassifierOptions, {"train": named_settings})["python_path"] == ()


def test_a_function_of_no_file_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested() -> None: ...

    def in_a_cell() -> None: ...

    in_a_cell.__module__, in_a_cell.__qualname__ = "__main__", "in_a_cell"
    monkeypatch.setattr(sys.modules["__main__"], "in_a_cell", in_a_cell, raising=False)

    @functools.wraps(drawn)
    def changed(job: tuple[str, str]) -> int:
        return drawn(job)

    for function in (nested, in_a_cell, lambda: None, functools.partial(drawn), changed, Path("a").exists, Path):
        with pytest.raises(
            InputError, match="give a function of a file, as 'module:function': put it into a file"
        ) as e:
            named_settings(ClassifierOptions, {"train": function})
        assert "\n" not in str(e.value)


def drawn(job: tuple[str, str]) -> int:
    """Return what a worker's own import of the user's function gives."""
    name, source = job
    return load_named(name, "the generator", source=source)()


def nothing(number: int) -> None:
    """Warm a worker up."""


def test_workers_that_go_on_between_calls_run_the_changed_text(written: Write) -> None:
    with worker_pool(2, 1, nothing):
        for value in (1, 2, 3):
            name = written(f"def draw():\n    return {value}\n")
            job = (f"{name}:draw", source_fingerprint(loaded(name)))
            assert run_jobs(drawn, [job] * 4, processes=2) == [value] * 4
