"""The examples of docs/extending.md: their places are there; put into a copy of the project, they pass its tests."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "extending.md"
_BLOCK = re.compile(r"^```py\n# (\S+\.py)(?:, (after|before) `([^\n]+)`)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
HELD_BY = {
    "tests/scores/test_attacks.py": "",
    "tests/models/classifiers/test_zoo.py": "one_layer",
    "tests/models/classifiers/test_specs.py": "one_layer or registered",
    "tests/training/engine/test_augment.py": "turn or contract",
    "tests/images/alterations/test_interventions.py": "",
    "tests/scores/distances/test_distances.py": "lorentzian or registry",
}
"""Tests that the page names for these parts, and which of each."""
READS = """
import numpy as np
from pathlib import Path
from memorisk.images.readers.registry import sniff
from memorisk.images.readers.registry import read_image
file = Path("image.x")
file.write_bytes(b"RAW8" + bytes([2, 0, 3, 0]) + bytes(range(6)))
assert sniff(file.read_bytes()).name == "RAW8"
assert read_image(file)[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]
"""


def with_examples(root: Path) -> list[Path]:
    """Put every example of the page into the files below a folder; the files that changed."""
    changed = []
    for name, where, anchor, code in _BLOCK.findall(PAGE.read_text("utf-8")):
        file = root / name
        if not where:
            assert not file.exists(), name
            file.write_text(code)
        else:
            lines = file.read_text("utf-8").splitlines(keepends=True)
            places = [i for i, line in enumerate(lines) if anchor in line]
            assert len(places) == 1, (name, anchor)
            at = places[0] + (where == "after")
            file.write_text("".join([*lines[:at], code, *lines[at:]]), "utf-8")
        changed.append(file)
    return changed


def test_the_examples_have_their_places(tmp_path):
    named = {name for name, where, _, _ in _BLOCK.findall(PAGE.read_text("utf-8")) if where}
    for name in named | {"src/memorisk/models/classifiers/small_networks.py", "src/memorisk/images/readers/tiff.py"}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changed = with_examples(tmp_path)
    assert len(changed) == PAGE.read_text("utf-8").count("```py\n") > 12
    for file in changed:
        ast.parse(file.read_text("utf-8"))


@pytest.mark.slow
def test_the_examples_pass_the_tests_that_the_page_names(tmp_path):
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with_examples(tmp_path)
    place = os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}", "OMP_NUM_THREADS": "1"}
    place["NUMBA_CACHE_DIR"] = str(tmp_path / "numba")
    asked = [([file], ["-k", some] if some else []) for file, some in HELD_BY.items()]
    for files, some in asked:
        command = [sys.executable, "-m", "pytest", "-q", *files, *some]
        done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (files, done.stdout[-3000:], done.stderr[-2000:])
    done = subprocess.run(
        [sys.executable, "-c", READS], cwd=tmp_path, env=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
