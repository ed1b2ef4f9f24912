"""With the gate's lock alone: help and the gate run, every other command says what to install."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import memorisk
from memorisk.cli import program
from memorisk.cli.main import main
from tests.commands import refusal

ROOT = Path(__file__).resolve().parents[1]
MISSING = " which is not installed: pip install 'memorisk{extra}', without --no-deps"
EXTRAS = {"view": "[view]", "track": "[tracking]"}
SMALLEST = {
    "audit classifier": "images --out new",
    "audit feature": "net.onnx --mark text:A --out new",
    "audit generator": "images --out new",
    "audit losses": "losses.npz --out new",
    "audit patient": "run 17",
    "audit synthetic": "train made --out new",
    "bench copies": "images --detectors mse --out new",
    "bench detectors": "images --out new",
    "bench reid": "images --detectors mse --out new",
    "compare": "one other",
    "explain": "run",
    "filter": "train made new --detector folder --calibration others",
    "generate": "generator new --images 3",
    "images check": "images",
    "images mark": "image.png --mark text:A --out new.png",
    "plan pairs": "--synthetic 1000",
    "quality": "train made --out new",
    "report": "run",
    "release": "images new",
    "statement": "run --out new",
    "study generators": "--config study.yaml --out new",
    "study rare-distinctive": "--config study.yaml --out new",
    "study unique-features": "--config study.yaml --out new",
    "synthesize": "train new --generator folder --detector folder --calibration others --images 3",
    "track": "run --to mlflow:new",
    "train autoencoder": "images --out new",
    "train classifier": "images --out new",
    "train detector": "images --out new",
    "train generator": "images --out new",
    "view": "run",
    "watch": "run --out new",
}
"""The shortest form of every command but gate."""
INPUTS = ("folder", "generator", "images", "made", "one", "other", "others", "run", "train")
FILES = ("image.png", "losses.npz", "net.onnx", "settings.yaml", "study.yaml")
"""What these commands read."""
PROGRAM = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from memorisk.cli.main import main
for line in json.loads(sys.argv[2]):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(line)
    print(json.dumps([code, out.getvalue(), error.getvalue()]))
"""
LOADED = """
import contextlib, io, json, sys
from memorisk.cli.main import main
for line in json.loads(sys.argv[1]):
    error = io.StringIO()
    with contextlib.redirect_stderr(error):
        code = main(line)
    heavy = [m for m in ("torch", "numpy", "pandas", "scipy", "PIL", "multiprocessing") if m in sys.modules]
    print(json.dumps([code, error.getvalue(), heavy]))
"""
"""Commands one after the other: a module that one of them loads is reported for the others, too."""


def commands(of: Any = program.app, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command of the program."""
    for name in of:
        if not name.startswith("-"):
            below = list(commands(of[name], (*path, name)))
            yield from below or [" ".join((*path, name))]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with memorisk and what the gate's lock names, and nothing else."""
    folder = tmp_path_factory.mktemp("packages")
    lock = (ROOT / "recipes" / "ci" / "gate-requirements.txt").read_text(encoding="utf-8").splitlines()
    for name in [line.partition("==")[0] for line in lock if "==" in line]:
        found = distribution(name)
        parts = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
        for part in parts:
            (folder / part).symlink_to(Path(str(found.locate_file(part))).resolve())
    (folder / "memorisk").symlink_to(Path(memorisk.__file__).parent)
    return folder


def light(packages: Path, cwd: Path, lines: list[list[str]]) -> list[tuple[int, str, str]]:
    """Run commands where only these packages can be imported; exit code, output and errors of each."""
    words = [sys.executable, "-I", "-S", "-c", PROGRAM, str(packages), json.dumps(lines)]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_every_command_has_its_smallest_form_here() -> None:
    assert set(commands()) == {*SMALLEST, "gate"}


def test_help_runs_without_any_library(packages: Path, tmp_path: Path) -> None:
    lines = [["--help"], ["--version"], *([*name.split(), "--help"] for name in commands())]
    for line, (code, out, error) in zip(lines, light(packages, tmp_path, lines), strict=True):
        assert (code, error) == (0, ""), line
        assert out, line


def test_a_command_without_its_libraries_says_what_to_install(packages: Path, tmp_path: Path) -> None:
    lines = [[*name.split(), *rest.split()] for name, rest in SMALLEST.items()]
    lines += [["--config", "settings.yaml", "images", "check", "images"], ["gate", "run", "--images", "images"]]
    for name in INPUTS:
        (tmp_path / name).mkdir()
    for name in FILES:
        (tmp_path / name).write_text("")
    (tmp_path / "images" / "1.png").write_bytes(b"no image")
    for line, (code, out, error) in zip(lines, light(packages, tmp_path, lines), strict=True):
        assert (code, out) == (2, ""), (line, error)
        assert MISSING.format(extra=EXTRAS.get(line[0], "")) in error, (line, error)
        assert error.count("\n") == 1, line
    assert {path.name for path in tmp_path.iterdir()} == {*INPUTS, *FILES}


def test_every_command_refuses_an_input_that_does_not_exist_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    lines = [[*name.split(), *rest.split()] for name, rest in SMALLEST.items() if name != "plan pairs"]
    lines += [["gate", "statement.json", "--images", "images"]]
    words = [sys.executable, "-c", LOADED, json.dumps(lines)]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    for line, (code, error, heavy) in zip(lines, map(json.loads, ran.stdout.splitlines()), strict=True):
        assert (code, heavy) == (2, []), (line, error)
        assert "the file or folder does not exist" in error, line
        assert error.count("\n") == 1, line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option",
    ["--target", "--weights", "--review", "--labels-csv", "--image-root", "--python-path", "--pseudonym-key"],
)
def test_every_option_that_names_a_file_refuses_one_that_does_not_exist(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str
) -> None:
    line = refusal(capsys, "audit", "classifier", "digits", option, tmp_path / "target", "--out", tmp_path / "run")
    assert f"{tmp_path / 'target'}: the file or folder does not exist" in line
    assert list(tmp_path.iterdir()) == []


def test_the_gate_runs(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.png").write_bytes(b"no image")
    (tmp_path / "statement.json").write_text("{}")
    ((code, _, error),) = light(packages, tmp_path, [["gate", "statement.json", "--images", "images"]])
    assert code in (1, 2)
    assert "statement.json" in error
    assert "not installed" not in error


def test_a_defect_is_not_taken_for_a_missing_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A module of memorisk's own that is missing, or one that a user's own code asks for, is something else."""
    own = tmp_path / "own.py"
    own.write_text("import a_module_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("own", "memorisk.absent"):
        broken = SimpleNamespace(meta=lambda *_, module=module, **__: import_module(module))
        monkeypatch.setattr(program, "app", broken)
        assert main(["report"]) == 3
