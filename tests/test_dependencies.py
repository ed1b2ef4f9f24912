"""The page of licences names what pyproject asks for, and an audit that could look up nothing is no all-clear."""

import importlib.util
import json
import re
import stat
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("dependencies", ROOT / "recipes" / "dependencies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dependencies"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["dependencies"]


def rows() -> list[list[str]]:
    """Name, versions, extra, licence and remark of each package on the page."""
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    lines = page.partition("## Known vulnerabilities")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    return [
        [*package.split(" "), extra, licence, remark]
        for extra, licence, packages, remark in cells
        for package in packages.split("; ")
    ]


def test_the_page_names_what_pyproject_asks_for(recipe):
    assert sorted(tuple(row[:3]) for row in rows()) == sorted(recipe.asked()), (
        "python recipes/dependencies.py --markdown docs/licences.md"
    )


def test_every_licence_is_known_and_copyleft_is_flagged(recipe):
    for name, _, extra, licence, remark in rows():
        assert licence != "?", name
        assert bool(remark) == bool(recipe._COPYLEFT.search(licence)), name
        assert not remark or extra == "dev", f"{name} ({licence}) would come to users"


def test_what_is_installed_is_as_the_page_says(recipe):
    for name, _, _, licence, _ in rows():
        assert recipe.licence(name) in ("", licence), name


def locked_versions() -> dict[str, str]:
    """The version of every package in the locks."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "locks").glob("*.txt"))
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE)
    return {plain(name): version for name, version in pins}


def plain(name: str) -> str:
    """A package's name as the index compares it."""
    return name.lower().replace("_", "-")


def test_every_package_was_looked_up_at_its_version_and_the_page_says_what_was_found(recipe):
    packages = recipe.looked_up()["packages"]
    pins = locked_versions()
    seen = {plain(name): str(one["version"]) for name, one in packages.items()}
    differ = sorted(name for name in {*seen, *(plain(n) for n, _, _ in recipe.asked())} if seen.get(name) != pins[name])
    assert not differ, f"look up what is known of {differ} now, and write it in recipes/advisories.yaml"
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    assert "\n".join(recipe.holes()) in page, "python recipes/dependencies.py --markdown docs/licences.md"


def test_what_was_found_is_whole(recipe):
    for name, one in recipe.looked_up()["packages"].items():
        assert set(one) in ({"version", "found"}, {"version", "newest", "met", "holes"}), name
        for hole in one.get("holes", ()):
            assert set(hole) == {"ids", "versions", "severity", "ours"}, name
            assert hole["ids"], name
            assert hole["ours"].startswith(("not affected", "affected", "unclear")), name
            assert not any("|" in str(cell) for cell in hole.values()), name


SOUND: dict[str, object] = {"name": "a", "version": "1", "vulns": []}
HOLE = SOUND | {"vulns": [{"id": "CVE-1", "fix_versions": []}]}
LEFT_OUT = {"name": "b", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "code"), [([SOUND], 0), ([HOLE, LEFT_OUT], 1), ([SOUND, LEFT_OUT], 2), ([], 2), (None, 2)]
)
def test_what_was_not_looked_up_is_no_all_clear(recipe, tmp_path, found, code):
    program = tmp_path / "pip-audit"
    said = "no such host" if found is None else json.dumps({"dependencies": found})
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert recipe.audit(str(program)) == code
    assert recipe.audit(str(tmp_path / "absent")) == 2
