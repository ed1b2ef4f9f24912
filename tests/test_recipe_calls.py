"""Recipes and benchmarks run seldom: what they take from memorisk is there, and is called as it is defined."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [file for folder in ("recipes", "benchmarks") for file in sorted((ROOT / folder).rglob("*.py"))]


def names_of_memorisk(tree: ast.AST) -> Iterator[tuple[str, Any]]:
    """Names that a script imports from memorisk, with the objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "memorisk":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                try:
                    value = getattr(module, alias.name)
                except AttributeError:
                    value = importlib.import_module(f"{node.module}.{alias.name}")
                yield alias.asname or alias.name, value


def wrong_calls(tree: ast.AST, objects: dict[str, Any]) -> Iterator[str]:
    """Calls of some objects by name whose arguments do not fit the signature."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        called = objects.get(node.func.id)
        if not callable(called) or (isinstance(called, type) and issubclass(called, Exception)):  # no signature
            continue
        spread = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
        signature = inspect.signature(called)
        bind = signature.bind_partial if spread else signature.bind
        arguments = [] if spread else node.args
        try:
            bind(*arguments, **{keyword.arg: keyword.value for keyword in node.keywords if keyword.arg})
        except TypeError as error:
            yield f"line {node.lineno}, {node.func.id}: {error}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_a_script_calls_memorisk_as_it_is_defined(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    assert list(wrong_calls(tree, dict(names_of_memorisk(tree)))) == []


def test_a_missing_argument_and_an_unknown_one_are_seen() -> None:
    def added(first: int, *, second: int = 0) -> int:
        return first + second

    tree = ast.parse("added(1); added(1, second=2); added(*rest, second=2); added(); added(1, third=3); added(1, 2)")
    assert [call.split(":")[1].strip() for call in wrong_calls(tree, {"added": added})] == [
        "missing a required argument",
        "got an unexpected keyword argument 'third'",
        "too many positional arguments",
    ]
