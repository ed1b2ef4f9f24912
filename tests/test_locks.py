"""The lock files: one version of a package, hashes of every file, all that pyproject asks for, and no index."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("locks", ROOT / "recipes" / "locks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["locks"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["locks"]


def names(lines: list[str]) -> set[str]:
    """Normalised names of requirements."""
    return {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", line)[0]).lower() for line in lines}


def test_a_package_has_one_version_everywhere(recipe):
    versions: dict[str, set[str]] = {}
    for path in recipe.files().values():
        for pin in recipe.pins(path.read_text(encoding="utf-8")):
            versions.setdefault(pin.name, set()).add(pin.version)
    assert len(versions) > 200
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_there_is_a_lock_for_everything_and_nothing_else(recipe):
    assert sorted(path.name for path in (ROOT / "locks").iterdir()) == sorted(
        path.name for path in recipe.files().values() if path.parent == ROOT / "locks"
    )


def test_every_line_is_a_package_with_hashes_or_one_of_these_options(recipe):
    """No index, no folder of packages, no URL: a lock is the same wherever its packages come from."""
    for path in recipe.files().values():
        text = path.read_text(encoding="utf-8")
        rest = text
        for pin in recipe.pins(text):
            assert pin.hashes, pin.name
            assert len(pin.text.splitlines()) == 1 + len(pin.hashes), pin.name
            rest = rest.replace(pin.text, "", 1)
        options = [line for line in rest.splitlines() if line and not line.startswith("#")]
        sources = {f"--no-binary {name}" for name in recipe.NO_WHEEL}
        assert set(options) <= {"--only-binary :all:", "-r core.txt"} | sources, path
        assert "://" not in text, path


def test_locks_hold_what_pyproject_asks_for(recipe):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    asked = {name: names(extras[name]) for name in recipe.extras()}
    asked["core"] = names(project["project"]["dependencies"])
    asked["test"] = asked["core"].union(*(names(extras[name]) for name in recipe.TESTED))
    asked["build"] = names(project["build-system"]["requires"])
    for lock, wanted in asked.items():
        assert wanted <= set(recipe.read(recipe.files()[lock])), f"{lock}: make lock"


def test_versions_are_those_that_pyproject_allows(recipe):
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {name: pin for path in recipe.files().values() for name, pin in recipe.read(path).items()}
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    for requirement in map(Requirement, lines):
        (name,) = names([requirement.name])
        if name in pins:
            assert requirement.specifier.contains(pins[name].version, prereleases=True), f"{requirement}: make lock"
    assert len(lines) > 50


def test_make_installs_nothing_without_hashes():
    installs = re.findall(r"^\t.*(?:\$\(INSTALL\)|pip install) (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(installs) >= 5
    for line in installs:
        assert "--require-hashes" in line or "--no-deps --no-build-isolation -e ." in line, line


def test_pages_install_what_has_a_lock_by_its_lock():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.md")]
    text = {page: " ".join(page.read_text(encoding="utf-8").split()) for page in pages}
    assert not [page.name for page, told in text.items() if re.search(r"install [^`]*\.\[[a-z,]+\]", told)]
    named = {lock for told in text.values() for lock in re.findall(r"locks/[a-z]+\.txt", told)}
    assert len(named) >= 10
    assert all((ROOT / lock).is_file() for lock in named)


def test_gates_install_the_gate_s_lock_with_hashes():
    for path in (ROOT / "action.yml", ROOT / "recipes" / "ci" / "gitlab-release-gate.yml"):
        text = path.read_text(encoding="utf-8")
        assert yaml.safe_load(text)
        assert "pip install --quiet --no-deps" in text, path.name
        assert re.search(r"--require-hashes -r .*gate-requirements\.txt", text), path.name


def test_a_resolution_that_fails_leaves_the_locks_as_they_were(recipe, tmp_path, capfd):
    before = {path: path.read_bytes() for path in recipe.files().values()}
    broken = tmp_path / "uv"
    broken.write_text("#!/bin/sh\necho 'No solution found' >&2\nexit 1\n")
    broken.chmod(0o755)
    for program in (broken, tmp_path / "absent"):
        done = subprocess.run([sys.executable, recipe.__file__, str(program)], capture_output=True, text=True)
        assert done.returncode == 2
        assert "the locks stay as they were" in done.stderr
    assert {path: path.read_bytes() for path in recipe.files().values()} == before
