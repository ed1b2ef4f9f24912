"""The help of every command: summaries that are the table's, texts that stand once, options by group."""

import ast
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from cyclopts import App

from memorisk.cli.commands import COMMANDS
from memorisk.cli.program import app
from tests.test_doc_commands import commands_of

SOURCES = sorted((Path(__file__).resolve().parents[1] / "src" / "memorisk" / "cli").glob("*.py"))
LEAVES = {" ".join(words): inner for words, inner in commands_of(app) if inner.default_command}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_has_the_summaries_of_what_it_names(name: str) -> None:
    place, line = COMMANDS[name]
    module, _, attribute = place.partition(":")
    named = getattr(import_module(f"memorisk.cli.{module}"), attribute)
    text = named.help if isinstance(named, App) else named.__doc__
    assert text.partition("\n")[0] == line


def parameter_texts(source: str) -> list[tuple[str, str]]:
    """The parameters of the docstrings of a module, each with its text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        text = (ast.get_docstring(node) or "") if isinstance(node, ast.FunctionDef) else ""
        for line in text.partition("Parameters\n----------\n")[2].splitlines():
            if line.startswith("    "):
                found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}".strip())
            elif line:
                found.append((line, ""))
    return found


def test_what_several_commands_say_of_an_option_is_written_once() -> None:
    texts = Counter(text for file in SOURCES for text in parameter_texts(file.read_text("utf-8")))
    assert len(texts) > 50
    assert [text for text, times in texts.items() if times > 1] == []


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_says_what_it_does(name: str) -> None:
    arguments = LEAVES[name].assemble_argument_collection(parse_docstring=True)
    texts = {argument.names[0]: argument.parameter.help for argument in arguments if argument.show}
    assert len(texts) > 2
    silent = {flag for flag, text in texts.items() if not (text or "").strip()}
    assert silent == set()
