"""The help of every command: summaries that are the table's, texts that stand once, options by group."""

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from cyclopts import App

from memorisk.audits.watch.options import WatchSettings
from memorisk.cli import training
from memorisk.cli.commands import COMMANDS
from memorisk.cli.program import app
from memorisk.report.kinds import KINDS, RunKind
from tests.commands import answer, refusal
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
    assert len(texts) > 1
    silent = {flag for flag, text in texts.items() if not (text or "").strip()}
    assert silent == set()


@pytest.mark.parametrize("name", LEAVES)
def test_help_is_short_and_says_where_the_rest_is(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides what every command has (arguments, --out, --dry-run, --json and so on), some twenty options at most."""
    monkeypatch.setenv("COLUMNS", "1000")  # no text is wrapped, so that a row is an option
    for one in (app, app.meta, *(inner for _, inner in commands_of(app))):  # each keeps an earlier test's console
        monkeypatch.setattr(one, "_fallback_console", None)
    n_options = len([one for one in LEAVES[name].assemble_argument_collection() if one.show])
    shown = {flag: answer(capsys, *name.split(), flag)[1] for flag in ("--help", "--help-all")}
    rows = {flag: len(re.findall(r"^│ +(?:\* +)?(?:--|[A-Z]{2,})", text, re.MULTILINE)) for flag, text in shown.items()}
    assert rows["--help-all"] == n_options + (name.partition(" ")[0] != "study")  # and --config
    assert rows["--help"] <= 30
    assert (f"memorisk {name} --help-all" in shown["--help"]) == (rows["--help"] < rows["--help-all"])
    assert "--empty-" not in shown["--help-all"]
    assert "no-redact" not in shown["--help-all"]


@pytest.mark.parametrize("name", ["device", "precision", "every"])
def test_a_watch_within_a_training_takes_no_option_of_the_training_again(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ("train", "generator", "digits", "--out", tmp_path / "g", "--watch")
    assert f"--watching.{name}" in refusal(capsys, *asked, f"--watching.{name}", "2")
    assert "Unknown option" in refusal(capsys, *asked, "--watching.no-redact")


def test_the_watch_of_a_training_runs_where_the_training_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def plan(images: str, out: Path, given: dict[str, object], watching: WatchSettings, *, as_json: bool) -> int:
        handed.append((watching.device, watching.precision, watching.images))
        return 0

    handed: list[tuple[str, str, int]] = []
    monkeypatch.setattr(training, "_plan_generator", plan)
    asked = ("train", "generator", "digits", "--out", tmp_path / "g", "--watch", "--dry-run", "--watching.images", 9)
    assert answer(capsys, *asked, "--device", "cpu", "--precision", "fp32")[0] == 0
    assert handed == [("cpu", "fp32", 9)]


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "audit classifier needs --out, which was not given" in refusal(capsys, "audit", "classifier", "digits")
    assert "--out requires an argument" in refusal(capsys, "audit", "classifier", "digits", "--out")


def test_words_that_no_command_takes_are_named(capsys) -> None:
    line = refusal(capsys, "audit", "synthetic", "TRAIN", "SET", "MORE", "REST", "--out", "x")
    assert line.startswith("memorisk: 2 words too many: MORE REST (")


@pytest.mark.parametrize(
    ("command", "shown_by"),
    [
        (("audit", "classifier", "digits", "--out", "x", "--modles", 3), "memorisk audit classifier --help"),
        (("audit", "classifier", "digits"), "memorisk audit classifier --help"),
        (("study", "generators", "--nothing", "x"), "memorisk study generators --help"),
        (("images", "chek", "digits"), "memorisk images --help"),
        (("nothing",), "memorisk --help"),
    ],
)
def test_a_command_line_that_is_wrong_names_the_help_of_its_command(capsys, command, shown_by) -> None:
    assert refusal(capsys, *command).endswith(f"({shown_by})\n")


@pytest.mark.parametrize("name", ["audit classifier", "audit synthetic", "images check", "train generator"])
def test_help_shows_what_errors_about_tables_ask_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = answer(capsys, *name.split(), "--help")[1]
    assert [flag for flag in ("--image-column", "--image-root", "--group-column") if flag not in shown] == []


def test_an_audit_that_is_an_entry_alone_has_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "tests.plugin_package.memorisk_brightness"
    new = RunKind(
        name="brightness",
        command="audit brightness",
        function=f"{place}:audit_brightness",
        options=f"{place}:BrightnessOptions",
    )
    monkeypatch.setitem(cast(Any, KINDS.own), new.name, new)
    try:
        assert "Audit whether a set of images is too bright." in answer(capsys, "audit", "--help")[1]
        shown = answer(capsys, *new.command.split(), "--help")[1]
    finally:
        del app["audit"][new.name]
    assert "Folder of class folders" in shown
    assert "--limit" in shown


def test_a_statement_names_every_kind_of_run_that_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.sub(r"[│\s]+", " ", answer(capsys, "statement", "--help")[1])
    commands = shown.partition("Folders of finished runs of ")[2].partition(".")[0].split(", ")
    assert commands == [kind.command for kind in KINDS.own.values() if kind.statement]
