"""The model of ``audit classifier --target`` from its release to the gate: its own bytes pass, wherever they are."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.release.export import release
from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import write_statement
from memorisk.models.classifiers.zoo import create_model
from tests.audits.release.conftest import rewritten
from tests.commands import picture

NET, RUN, STATED = Path("net.safetensors"), Path("run"), Path("stated")
NETWORK = {"num_classes": 2, "in_chans": 1, "image_size": 8, "weights": "none"}
PASS = {"status": "pass", "gate": None, "reasons": [], "why": [], "what_would_decide": []}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that passes, its statement, and the release of its model, whose own file holds metadata."""
    root = tmp_path_factory.mktemp("target")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for number in range(36):
            folder = root / "images" / ("train" if number < 24 else "test") / "ab"[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture(number, number % 2)).save(folder / f"{number}.png")
        network = create_model("small_cnn", seed=3, **NETWORK)
        save_file(network.state_dict(), "trained.safetensors", metadata={"epoch": "3"})
        given = {"model": "small_cnn", "models": 2, "epochs": 1, "processes": 1, "target_classes": "a,b"}
        audit_classifier("images", out="audited", target="trained.safetensors", **given)
        rewritten(Path("audited"), RUN, verdict=PASS)
        release(RUN, NET)
        write_statement(RUN, weights=[NET], out=STATED)
    return root


@pytest.fixture
def place(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all that, as the current folder."""
    monkeypatch.chdir(shutil.copytree(released, tmp_path / "place"))
    return Path()


def copied(name: str) -> Callable[[], Path]:
    """Copy the model to another place."""

    def copy() -> Path:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(NET, name))

    return copy


def touched(change: Callable[[Path], object]) -> Callable[[], Path]:
    """Change what the file system knows of the model."""

    def touch() -> Path:
        change(NET)
        return NET

    return touch


def moved(old: Path, new: str) -> Callable[[], Path]:
    """Move something of the release."""

    def move() -> Path:
        old.rename(new)
        return NET

    return move


def relocated() -> Path:
    """Move the whole folder."""
    here = Path.cwd()
    os.chdir(here.rename(here.with_name("another place")))
    return NET


def written(tensors: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], **more: dict) -> Callable[[], Path]:
    """Write the model by the library of its format."""

    def write() -> Path:
        save_file({k: v.contiguous() for k, v in tensors(load_file(NET)).items()}, "written.safetensors", **more)
        return Path("written.safetensors")

    return write


def released_again() -> Path:
    """Release the model once more."""
    release(RUN, "again.safetensors")
    return Path("again.safetensors")


SAME: dict[str, Callable[[], Path]] = {
    "a copy": copied("copy.safetensors"),
    "another ending": copied("model.bin"),
    "no ending": copied("model"),
    "blanks": copied("the model of today.safetensors"),
    "other letters": copied("\u5f20/m\u00f6del.safetensors"),
    "deep": copied("a/b/c/d/net.safetensors"),
    "hidden": copied(".cache/.net"),
    "absolute": lambda: NET.absolute(),
    "dots": lambda: Path("stated") / ".." / NET,
    "an old time": touched(lambda file: os.utime(file, (1, 1))),
    "a time to come": touched(lambda file: os.utime(file, (1 << 33, 1 << 33))),
    "read alone": touched(lambda file: file.chmod(0o400)),
    "for everybody": touched(lambda file: file.chmod(0o777)),
    "a hard link": touched(lambda file: os.link(file, "linked")),
    "the release again": released_again,
    "the library": written(lambda tensors: tensors),
    "the library, in another order": written(lambda tensors: dict(reversed(tensors.items()))),
    "the run renamed": moved(RUN, "2026 run"),
    "the run gone": lambda: (shutil.rmtree(RUN), shutil.rmtree("audited"), NET)[-1],
    "the trained file gone": moved(Path("trained.safetensors"), "old"),
    "the images gone": moved(Path("images"), "archive"),
    "the folder renamed": relocated,
}


def test_there_are_twenty_harmless_changes() -> None:
    assert len(SAME) >= 20


@pytest.mark.parametrize("name", SAME)
def test_what_changes_no_byte_passes(place: Path, name: str) -> None:
    found = gate(STATED, weights=[SAME[name]()])
    assert found.passed, found.line


def one_bit(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Flip the lowest bit of one weight."""
    weight = tensors["head.weight"]
    weight.view(torch.int32).view(-1)[0] ^= 1
    return tensors


def appended(data: bytes) -> Callable[[], Path]:
    """Write bytes behind the end."""

    def append() -> Path:
        NET.write_bytes(NET.read_bytes() + data)
        return NET

    return append


def another_checkpoint() -> Path:
    """Save another training of the same network."""
    save_file(create_model("small_cnn", seed=4, **NETWORK).state_dict(), "other.safetensors")
    return Path("other.safetensors")


OTHER: dict[str, Callable[[], Path]] = {
    "one bit": written(one_bit),
    "double": written(lambda tensors: {k: v.double() if v.is_floating_point() else v for k, v in tensors.items()}),
    "half": written(lambda tensors: {k: v.half() if v.is_floating_point() else v for k, v in tensors.items()}),
    "a tensor more": written(lambda tensors: tensors | {"more": torch.zeros(1)}),
    "an empty tensor more": written(lambda tensors: tensors | {"more": torch.zeros(0)}),
    "a tensor less": written(lambda tensors: {k: v for k, v in tensors.items() if k != "head.bias"}),
    "a tensor renamed": written(lambda tensors: {k.replace("head", "heads"): v for k, v in tensors.items()}),
    "another shape": written(lambda tensors: tensors | {"head.bias": tensors["head.bias"][None]}),
    "other order of classes": written(lambda t: t | {k: t[k].flip(0) for k in ("head.weight", "head.bias")}),
    "metadata": written(lambda tensors: tensors, metadata={"note": "DOE"}),
    "a byte behind the end": appended(b"\0"),
    "a line behind the end": appended(b"\n"),
    "another checkpoint": another_checkpoint,
    "the file before its release": lambda: Path("trained.safetensors"),
}


@pytest.mark.parametrize("name", OTHER)
def test_another_model_is_refused_by_name(place: Path, name: str) -> None:
    file = OTHER[name]()
    found = gate(STATED, weights=[file])
    assert not found.passed
    assert found.line.startswith(f"{file} is not what was audited")
