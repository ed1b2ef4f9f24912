"""Running the command line in this process or in a real one, and small image sets for it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
SIDE = 8


def memorisk(*arguments: object) -> list[str]:
    """The command as another process runs it."""
    return [sys.executable, "-m", "memorisk", *map(str, arguments)]


def environment(cache: Path) -> dict[str, str]:
    """What such a process needs: a cache of its own, one thread, functions of the tests."""
    path = os.pathsep.join((str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
    return os.environ | {"MEMORISK_CACHE": str(cache), "OMP_NUM_THREADS": "1", "COLUMNS": "100", "PYTHONPATH": path}


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """A cache and a configuration folder of their own, below a folder, as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(folder / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    capsys.readouterr()
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """The one line on standard error of a command that must be refused with nothing on standard output."""
    found, out, err = answer(capsys, *arguments)
    assert (found, out) == (code, ""), err
    assert err.startswith("memorisk: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    return err


def picture(number: int, label: int) -> np.ndarray:
    """An 8 x 8 grey image of a class: noise, and a bright row whose place is the label's."""
    pixels = np.random.default_rng(number).integers(0, 120, (SIDE, SIDE), dtype=np.uint8)
    pixels[label % SIDE] = 250
    return pixels


def class_folders(root: Path, labels: list[str], names: list[str]) -> Path:
    """Folders of PNG files: the first label has ``names[0]``, the next label the next name, around again."""
    for c, label in enumerate(labels):
        folder = root / label
        folder.mkdir(parents=True)
        for k, name in enumerate(names):
            Image.fromarray(picture(1000 * c + k, c)).save(folder / name, format="PNG")
    return root


def plain_images(root: Path, per_class: int = 14) -> Path:
    """Two classes of images with plain names."""
    return class_folders(root, ["benign", "malignant"], [f"p{k:02}.png" for k in range(per_class)])


def entries(folder: Path) -> list[str]:
    """Everything in a folder, files and folders, by relative name."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
