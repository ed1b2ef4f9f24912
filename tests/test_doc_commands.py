"""Every command of every page is one that the real command line understands; `recipes/run_docs.py` runs them."""

import ast
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from cyclopts import App, CycloptsError, MissingArgumentError

from memorisk import _PUBLIC
from memorisk.cli import program
from memorisk.runs.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "recipes" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RECIPE = runpy.run_path(str(ROOT / "recipes" / "doc_commands.py"))
STANDS_FOR = {"N": "100", "PX": "224", "SEED": "0", "EPOCHS": "1", "SIZE": "64"}
OF_OTHERS = {"--num_processes", "--resources", "--nthreads", "--backend-store-uri", "--no-deps", "--no-index"}
"""Flags of accelerate, dask, mlflow and pip."""
NO_COMMANDS = {"memorisk privacy statement"}
"""What a file of a release calls its format."""
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def understood(words: list[str]) -> None:
    """Raise what the command line raises for such words; nothing runs."""
    words = [STANDS_FOR.get(word, word) for word in words]
    if "--config" in words and words[0] != "study":  # of any command but a study: read before it
        at = words.index("--config")
        words = [*words[:at], *words[at + 2 :]]
    app = program.app
    app.config = [program.refuse_fractions]
    try:
        app.parse_args(words, exit_on_error=False, print_error=False)
    finally:
        app.config = None


def commands_of(app: App, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command and group with its words."""
    for name in app:
        if not name.startswith("-"):
            yield (*before, name), app[name]
            yield from commands_of(app[name], (*before, name))


@cache
def flags() -> set[str]:
    """Every flag of every command."""
    commands = [inner for _, inner in commands_of(program.app) if inner.default_command]
    collections = [inner.assemble_argument_collection() for inner in commands]
    return {name for found in collections for argument in found for name in argument.names}


@cache
def flags_of_scripts() -> set[str]:
    """Every flag of a script of this project."""
    scripts = [*(ROOT / "recipes").glob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    return {flag for script in scripts for flag in re.findall(r'"(--[a-z][\w-]*)"', script.read_text("utf-8"))}


def test_a_page_gives_its_commands_as_they_are_copied():
    page = """Text with `memorisk watch RUN` and `memorisk filter`.

    memorisk audit classifier DATA \\
        --out RUN --models 4    # a comment
    memorisk filter TRAIN SET OUT [--keep copy|link]
        [--dry-run | --json]

```
make demo    # sets up
```

```python
memorisk.audit_classifier("digits")
```
"""
    found = RECIPE["commands_in_blocks"](page)
    assert found == [
        "make demo",
        "memorisk audit classifier DATA --out RUN --models 4",
        "memorisk filter TRAIN SET OUT [--keep copy|link] [--dry-run | --json]",
    ]
    assert RECIPE["commands_in_prose"](page) == ["memorisk watch RUN", "memorisk filter"]
    said = [" ".join(words[4:]) for words in RECIPE["variants"](found[2])]
    assert said == ["OUT", "OUT --keep copy", "OUT --keep link", "OUT --dry-run", "OUT --json"]
    assert [*RECIPE["variants"]("x --a b \\| --c d [--e]")] == [["x", "--a", "b"], ["x", "--a", "b", "--e"]]
    assert [*RECIPE["variants"]("x --a ... --b c [M ...] [d|e ...]")] == [["x", "--a", "pixels", "--b", "c"]]


@pytest.mark.parametrize(
    "wrong",
    [
        "audit classifier DATA --out RUN --modles 4",
        "audit classifer DATA --out RUN",
        "audit classifier DATA MORE --out RUN",
        "audit classifier DATA",
        "audit classifier DATA --out RUN --models 1.5",
        "filter TRAIN SET OUT --detector D --calibration C --keep moved",
    ],
)
def test_what_is_wrong_is_noticed(wrong):
    with pytest.raises((CycloptsError, InputError)):
        understood(shlex.split(wrong))


@each_page
def test_commands_in_blocks_are_understood(page):
    for command in RECIPE["commands_in_blocks"](page.read_text("utf-8")):
        assert "..." not in re.sub(r"\[[^\]]*\]", "", command), f"not to be copied: {command}"
        words = shlex.split(command)
        at = next((i for i, word in enumerate(words) if Path(word).name == "memorisk"), None)
        if at is None:
            understood_elsewhere(words)
            continue
        for line in RECIPE["variants"](command):
            understood(line[at + 1 :])


def understood_elsewhere(words: list[str]) -> None:
    """What a page types besides memorisk: scripts that are here with flags that they have, extras, targets of make."""
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    elif "pip" in words:
        known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        asked = re.findall(r"\[([\w,]+)\]", " ".join(words))
        assert {extra for some in asked for extra in some.split(",")} <= set(known)
    elif words[:2] == ["python", "-c"]:
        ast.parse(words[2])
    elif words[0] == "python":
        script = (ROOT / words[1]).read_text("utf-8")
        assert [word for word in words if word.startswith("--") and f'"{word}"' not in script] == []
    else:
        assert words[0] == "." or words[1:3] == ["-m", "venv"], words


@pytest.mark.parametrize("page", ["README.md", "docs/workflows.md"])
def test_ci_knows_what_every_command_of_the_page_must_do(page):
    recipe = runpy.run_path(str(ROOT / ".ci" / "readme.py"))
    known = tuple(recipe["EXPECTED"])
    assert [c for c in recipe["commands"]((ROOT / page).read_text("utf-8")) if not c.startswith(known)] == []


@each_page
def test_commands_in_sentences_are_understood(page):
    names = {" ".join(words) for words, _ in commands_of(program.app)}
    for command in RECIPE["commands_in_prose"](page.read_text("utf-8")):
        command = re.sub(r"(?<=--config )\.\.\.", "FILE", command)
        words = shlex.split(command)
        if command.startswith("memorisk."):
            module, _, name = command.partition("(")[0].rpartition(".")
            assert defines(module, name), command
            continue
        if words[0] != "memorisk":
            understood_elsewhere(words)
            continue
        if command not in NO_COMMANDS and " ".join(words[1:]) not in names and words[-1] != "--help":
            for line in RECIPE["variants"](command):
                try:
                    understood(line[1:])
                except MissingArgumentError:  # a sentence may speak of one flag alone
                    assert len(line) < 8 or "--config" in line, command


@each_page
def test_flags_in_sentences_are_flags_of_a_command(page):
    known = flags() | flags_of_scripts() | OF_OTHERS | {"--help", "--help-all", "--config", "--version"}
    said = re.findall(r"`[^`]*`", RECIPE["prose"](page.read_text("utf-8")))
    named = {flag for code in said for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*(?:\.[\w-]+)*", code)}
    unknown = {flag for flag in named if flag not in known and flag.partition(".")[0] not in known}
    assert unknown == set()


@each_page
def test_python_on_a_page_is_python_and_imports_what_is_there(page):
    for block in RECIPE["blocks"](page.read_text("utf-8")):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "memorisk":
                assert [a.name for a in node.names if not defines(str(node.module), a.name)] == []


def defines(module: str, name: str) -> bool:
    """Whether a module of the project has that name, by its text."""
    if module == "memorisk":
        return name in _PUBLIC
    place = ROOT / "src" / Path(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = file.read_text("utf-8") if file.is_file() else ""
    return (
        re.search(rf"^(?:def|class) {name}\b|^{name}\b.*=|\bimport\b.*\b{name}\b|^    {name},$", text, re.MULTILINE)
        is not None
    )


@each_page
def test_yaml_on_a_page_is_yaml(page):
    for block in RECIPE["blocks"](page.read_text("utf-8")):
        if block.language == "yaml":
            assert isinstance(yaml.safe_load(block.text), dict)


def test_every_test_that_is_named_outside_of_the_tests_exists() -> None:
    """CI, the Makefile, the pages and the recipes name tests by their paths; a moved test takes its name along."""
    folders = [ROOT / ".ci", ROOT / "recipes", ROOT / "docs"]
    named = [ROOT / "Makefile", ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    files = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in {"", ".md", ".py"} and path.is_file()
    ]
    paths = {
        (file.relative_to(ROOT).as_posix(), path)
        for file in [*named, *files]
        for path in re.findall(r"(?<![\w/.])tests/[\w/]+(?:\.py)?", file.read_text(encoding="utf-8"))
    }
    assert len(paths) > 50
    assert [(file, path) for file, path in sorted(paths) if not (ROOT / path).exists()] == []
