"""Run the tests with the newest release of every package, beyond memorisk's own upper bounds, and report what broke.

    make newest    # python recipes/newest_releases.py UV FOLDER, with uv from locks/tools.txt

`FOLDER` gets an environment, what was resolved (``newest.txt``, with hashes), the results of the tests
(``results.xml``) and the report (``report.md``): packages that are newer than in the locks, and tests that fail with
them. Exit code 0: all tests pass; 1: some fail; 2: the newest releases cannot be resolved or installed together.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import locks

_UPPER_BOUND = re.compile(r",\s*<=?[^,;\"']+")
_LONGEST = 160


def requirements(project: dict[str, dict]) -> list[str]:
    """What ``make test`` needs, without upper bounds.

    Args:
        project: The content of ``pyproject.toml``.
    """
    extras = project["project"]["optional-dependencies"]
    lines = [*project["project"]["dependencies"], *(line for name in locks.TESTED for line in extras[name])]
    return [_UPPER_BOUND.sub("", line) for line in lines]


def newer(found: dict[str, locks.Pin], locked: dict[str, locks.Pin]) -> list[tuple[str, str, str]]:
    """Name, locked and found version of each package that differs; "" for a package that is new or gone."""
    versions = {
        name: tuple(pins[name].version if name in pins else "" for pins in (locked, found))
        for name in sorted({*found, *locked})
    }
    return [(name, before, now) for name, (before, now) in versions.items() if before != now]


def failures(results: Path) -> tuple[int, list[tuple[str, str]]]:
    """The number of tests that ran, and name and first line of each that failed.

    Args:
        results: What ``pytest --junitxml`` wrote.
    """
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = []
    for case in cases:
        wrong = next((part for kind in ("failure", "error") for part in case.findall(kind)), None)
        if wrong is not None:
            message = " ".join((wrong.get("message") or "").split())[:_LONGEST]
            failed.append((f"{case.get('classname')}.{case.get('name')}", message))
    return len(cases), failed


def report(changed: list[tuple[str, str, str]], n_tests: int, failed: list[tuple[str, str]]) -> str:
    """The report, in Markdown."""
    lines = ["# The newest releases", "", f"{len(failed)} of {n_tests} tests fail.", ""]
    lines += _table(("failing test", "message"), failed)
    lines += [f"{len(changed)} packages differ from the locks.", ""]
    lines += _table(("package", "locked", "newest"), changed)
    return "\n".join(lines)


def _table(head: tuple[str, ...], rows: list) -> list[str]:
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (head, ("---",) * len(head), *rows)]
    return [*(f"| {' | '.join(row)} |" for row in cells), ""] if rows else []


def try_newest(uv: str, folder: Path, tests: list[str]) -> int:
    """Resolve, install, test and report.

    Args:
        uv: The program.
        folder: Replaced.
        tests: Arguments of pytest; none for all tests.

    Returns:
        The exit code.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted, floor = folder / "newest.in", folder / "floor.txt"
    resolved, results = folder / "newest.txt", folder / "results.xml"
    locked = locks.read(locks.files()["test"])
    wanted.write_text("\n".join(requirements(locks.project())) + "\n", encoding="utf-8")
    # uv takes a release candidate of one package where that lets another be newer; nothing may be older than its lock
    floor.write_text("".join(f"{pin.name}>={pin.version}\n" for pin in locked.values()), encoding="utf-8")
    python = folder / "environment" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    try:
        text = locks.resolve(uv, [wanted], resolved, ["--constraints", str(floor)])
        found = {pin.name: pin for pin in locks.pins(text)}
        for command in (
            [sys.executable, "-m", "venv", str(folder / "environment")],
            [*pip, "--require-hashes", "-r", str(locks.LOCKS / "build.txt")],
            [*pip, "--require-hashes", "--no-build-isolation", "-r", str(resolved)],
            [*pip, "--no-deps", "--no-build-isolation", "-e", str(locks.ROOT)],
        ):
            subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the newest releases cannot be installed together: {error}", file=sys.stderr)
        return 2
    all_tests = ["-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not slow"]
    run = [str(python), *all_tests, f"--junitxml={results}", *tests]
    subprocess.run(run, check=False, cwd=locks.ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if not results.is_file():
        print("pytest wrote no results", file=sys.stderr)
        return 2
    n_tests, failed = failures(results)
    text = report(newer(found, locked), n_tests, failed)
    (folder / "report.md").write_text(text, encoding="utf-8")
    print(text)
    return 1 if failed or not n_tests else 0


def main() -> int:
    """Try the newest releases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uv", help="the program uv")
    parser.add_argument("folder", type=Path, help="for the environment and the report; replaced")
    parser.add_argument("tests", nargs="*", help="arguments of pytest; all tests if none are given")
    given = parser.parse_args()
    return try_newest(given.uv, given.folder, given.tests)


if __name__ == "__main__":
    sys.exit(main())
