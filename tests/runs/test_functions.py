"""A user's own function: found where the user says, and nowhere else."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.runs.errors import InputError
from memorisk.runs.user_code.functions import load_named, python_folders, read_named, source_fingerprint
from memorisk.training.generators.options import GenerateOptions
from tests.commands import answer, refusal
from tests.poison import marked, poison

DRAW = """
import numpy, sys

def draw(seeds, labels):
    import helper_{name}
    assert sys.path[-1] == {folder!r}
    return numpy.full((len(seeds), 8, 8), helper_{name}.GREY, numpy.uint8)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the folder ``code`` of the current one, which is poisoned besides; what it draws with."""
    name = f"drawing_{tmp_path.name}"
    folder = poison(tmp_path / "code", tmp_path / "marks")
    (folder / f"{name}.py").write_text(DRAW.format(name=name, folder=str(folder)))
    (folder / f"helper_{name}.py").write_text("GREY = 7")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_the_current_folder_is_not_searched_and_a_named_one_last(mine: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No module named .* python_path names; the current folder is not searched"):
        load_named(f"{mine}:draw", "the generator")
    for given in ("../code", Path(), [tmp_path / "code"]):
        call = load_named(f"{mine}:draw", "the generator", given)
    assert sys.path.count(str(tmp_path / "code")) == 1
    assert call(np.zeros(2), None).max() == 7  # it imports a module beside it only now
    assert marked(tmp_path / "marks") == []


def test_a_plan_reads_a_function_and_runs_nothing_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    ran = tmp_path / "ran"
    touched = f"pathlib.Path({str(ran)!r}).touch()"
    text = (
        f"import pathlib\n{touched}\n"
        f"def train(images, labels, *, seed: pathlib.Path = {touched}, **more): ...\n"
        "@property\ndef wrapped(): ...\nfrom os.path import join\nmade = object()\n"
    )
    file = tmp_path / "inner" / "planned_module.py"
    file.parent.mkdir()
    file.write_text(text)
    call, mark = read_named("inner.planned_module:train", "--train", [tmp_path])
    assert str(inspect.signature(call)) == "(images, labels, *, seed=None, **more)"
    for name in ("wrapped", "join", "made"):
        assert str(inspect.signature(read_named(f"inner.planned_module:{name}", "x", [tmp_path])[0])).startswith("(*")
    with pytest.raises(InputError, match="Did you mean 'train'"):
        read_named("inner.planned_module:trian", "--train", [tmp_path])
    with pytest.raises(InputError, match=r"module inner\.nosuch is missing"):
        read_named("inner.nosuch:train", "--train", [tmp_path])
    assert not ran.exists()
    assert source_fingerprint(load_named("inner.planned_module:train", "--train", [tmp_path])) == mark
    assert ran.exists()


def test_what_a_notebook_imported_from_its_folder_is_refused_too(
    mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_named(f"{mine}:draw", "the generator", ".")
    monkeypatch.setattr(sys, "path", ["", *(entry for entry in sys.path if entry != str(tmp_path / "code"))])
    assert mine in sys.modules
    with pytest.raises(InputError, match="the current folder is not searched"):  # worker processes would not find it
        load_named(f"{mine}:draw", "the generator")
    assert sys.path[0] == ""


def test_folders_are_absolute_and_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for options in (ClassifierOptions, GenerateOptions):
        assert options(python_path=(Path("code"),)).python_path == (tmp_path / "code",)
        assert options().python_path == ()
    assert python_folders("code") == (tmp_path / "code",)
    with pytest.raises(InputError, match="python_path is 7; it must be a folder"):
        python_folders(7)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"python_path names .*code, and this folder does not exist"):
        load_named("json:loads", "the model", "code")


def test_the_folder_of_the_settings_is_searched_unless_they_name_another(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("generate", f"{mine}:draw", tmp_path / "set", "--images", 2)
    assert "--python-path names; the current folder is not searched" in refusal(capsys, *command)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code" / "settings.yaml").write_text("seed: 3")
    (tmp_path / "other.yaml").write_text("python-path: [code]")
    for file in ("code/settings.yaml", "other.yaml"):
        printed = answer(capsys, *command, "--config", file, "--print-config")[1]
        assert f"python_path:\n- {tmp_path / 'code'}\n" in printed
    assert (
        f"- {tmp_path}\n"
        in answer(capsys, *command, "--config", "other.yaml", "--python-path", ".", "--print-config")[1]
    )
    assert answer(capsys, *command, "--config", "code/settings.yaml")[0] == 0
    assert len(list((tmp_path / "set" / "images").iterdir())) == 2
