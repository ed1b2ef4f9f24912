"""The report on the newest releases: what changed, what broke, and no all-clear where nothing ran."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[1] / "recipes"


@pytest.fixture(scope="module")
def recipe():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(RECIPES))
        spec = importlib.util.spec_from_file_location("newest_releases", RECIPES / "newest_releases.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        del sys.modules["locks"]


def test_our_upper_bounds_are_left_out(recipe):
    lines = recipe.requirements(recipe.locks.project())
    assert len(lines) > 50
    assert not [line for line in lines if "<" in line.partition(";")[0]]
    assert "accelerate>=1.0" in lines


def test_packages_that_differ_are_listed(recipe):
    before = {pin.name: pin for pin in recipe.locks.pins("a==1 \\\n    --hash=sha256:0\nb==1\ngone==3\n")}
    now = {pin.name: pin for pin in recipe.locks.pins("a==2 ; python_version < '4' \\\nb==1\nfresh==1\n")}
    assert recipe.newer(now, before) == [("a", "1", "2"), ("fresh", "", "1"), ("gone", "3", "")]


def test_failing_tests_are_reported_with_their_message(recipe, tmp_path):
    (tmp_path / "test_three.py").write_text(
        "import pytest\n"
        "def test_right(): pass\n"
        "def test_wrong(): assert 1 == 2, 'one | two'\n"
        "@pytest.fixture\ndef broken(): raise OSError('no disk')\n"
        "def test_error(broken): pass\n"
    )
    results = tmp_path / "results.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}", str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    n_tests, failed = recipe.failures(results)
    assert n_tests == 3
    assert [name.rpartition(".")[2] for name, _ in failed] == ["test_wrong", "test_error"]
    text = recipe.report([("numba", "2.60.0", "2.61.0")], n_tests, failed)
    assert "2 of 3 tests fail." in text
    assert "one \\| two" in text
    assert "no disk" in text
    assert "| numba | 2.60.0 | 2.61.0 |" in text


def test_what_cannot_be_resolved_is_no_all_clear(recipe, tmp_path, capfd):
    broken = tmp_path / "uv"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert recipe.try_newest(str(broken), tmp_path / "work", []) == 2
    assert "cannot be installed together" in capfd.readouterr().err
