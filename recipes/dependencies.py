"""Licences of everything that memorisk asks for, and what is known of holes in it.

The first reads the metadata of the installed packages, and what was read by hand of public advisories
(``advisories.yaml``), and writes a page; the second runs ``pip-audit`` over the lock files, where the advisory database
can be reached. It needs nothing but Python and pip-audit.

    python recipes/dependencies.py --markdown docs/licences.md
    make audit    # python recipes/dependencies.py --audit PIP-AUDIT, with pip-audit from locks/tools.txt
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ADVISORIES = ROOT / "recipes" / "advisories.yaml"
BASE = "memorisk itself"
_NAME = re.compile(r"([A-Za-z0-9._-]+)(\[[^\]]*\])?\s*(.*)")
_COPYLEFT = re.compile(r"\b(A?GPL|LGPL|MPL|EUPL|CDDL|EPL|GNU)", re.IGNORECASE)
_OUT_OF_REACH = "NO ANSWER: the vulnerability database cannot be reached"
_SHORT = 60
_NOT_AFFECTED = "not affected"
_CLASSIFIER = "License :: "
_KNOWN = (  # how licences are named in metadata, and their names in SPDX's list
    (r"apache", "Apache-2.0"),
    (r"\bMIT\b|MIT License", "MIT"),
    (r"BSD.?3|3-clause|new bsd|modified bsd", "BSD-3-Clause"),
    (r"BSD.?2|2-clause", "BSD-2-Clause"),
    (r"\bBSD\b", "BSD"),
    (r"mozilla|MPL", "MPL-2.0"),
    (r"python software foundation|\bPSF\b", "PSF-2.0"),
    (r"\bISC\b", "ISC"),
    (r"unlicense", "Unlicense"),
)


@dataclass(frozen=True)
class Dependency:
    """A package that memorisk asks for.

    Attributes:
        name: As ``pyproject.toml`` has it.
        versions: That are allowed.
        extra: Which extra asks for it; `BASE` for memorisk itself.
        licence: As its own metadata say; "" where it is not installed or says nothing.
    """

    name: str
    versions: str
    extra: str
    licence: str

    @property
    def remark(self) -> str:
        """What should be looked at: a copyleft licence, or none that is known."""
        if not self.licence:
            return "unknown: look at the package"
        return "copyleft: look at what it asks of you" if _COPYLEFT.search(self.licence) else ""


def asked() -> list[tuple[str, str, str]]:
    """Name, versions and extra of each dependency, as ``pyproject.toml`` has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {BASE: project["dependencies"], **project["optional-dependencies"]}
    found = []
    for extra, lines in groups.items():
        for line in lines:
            match = _NAME.match(line)
            assert match is not None, line
            found.append((match[1], match[3].partition(";")[0].replace(" ", "") or "any", extra))
    return found


def licence(name: str) -> str:
    """The licence of an installed package by its metadata: expression, classifier, or the field; "" if it says none."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    if expression := found.get("License-Expression"):
        return expression
    classes = [c.split(" :: ")[-1] for c in found.get_all("Classifier") or () if c.startswith(_CLASSIFIER)]
    said = " and ".join(dict.fromkeys(_named(c) for c in classes if c != "OSI Approved"))
    text = (found.get("License") or "").strip()
    return said or _named(text.splitlines()[0][:_SHORT] if text else "") or _by_files(name)


def _named(text: str) -> str:
    """A licence's short name where the text is one of the usual, else the text."""
    return next((name for pattern, name in _KNOWN if re.search(pattern, text, re.IGNORECASE)), text)


def _by_files(name: str) -> str:
    """By the first lines of a licence that the package brings along."""
    for file in metadata.files(name) or ():
        if re.search(r"(licen[sc]e|copying)[^/]*$", str(file), re.IGNORECASE):
            try:
                head = Path(str(file.locate())).read_text(encoding="utf-8", errors="replace")[:400]
            except OSError:
                continue
            found = next((known for pattern, known in _KNOWN if re.search(pattern, head, re.IGNORECASE)), "")
            if found:
                return found
    return ""


def dependencies() -> list[Dependency]:
    """All of them, memorisk's own first."""
    return [Dependency(name, versions, extra, licence(name)) for name, versions, extra in asked()]


def page(found: list[Dependency]) -> str:
    """The page."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for d in found:
        groups.setdefault((d.extra, d.licence or "?", d.remark), []).append(f"{d.name} {d.versions}")
    rows = [f"| {extra} | {named} | {'; '.join(names)} | {note} |" for (extra, named, note), names in groups.items()]
    return "\n".join(
        [
            "# Licences of the dependencies",
            "",
            "memorisk is under the Apache License 2.0. The metadata of the packages name these licences "
            "(`recipes/dependencies.py`). A package may hold parts under further licences, and needs packages of its "
            "own: `pip-licenses` lists what is installed on a machine.",
            "",
            "| asked for by | licence | packages and versions | remark |",
            "|---|---|---|---|",
            *rows,
            "",
            "## Known vulnerabilities",
            "",
            "`make audit` looks up the exact versions of the lock files (`locks/`) in the public advisory databases. "
            "It needs a connection. Run it before a release and where memorisk is installed: advisories change every "
            "day. `make` ends with 2 for every failure; the exit code of `recipes/dependencies.py --audit` says which: "
            "0, every package was looked up and nothing is known; 1, something is known; 2, packages could not be "
            "looked up.",
            "",
            *holes(),
            "",
        ]
    )


def looked_up() -> dict[str, Any]:
    """What was read of public advisories: the day, and the packages."""
    import yaml  # not needed by the audit, which runs where only pip-audit is installed

    return yaml.safe_load(ADVISORIES.read_text(encoding="utf-8"))


def holes() -> list[str]:
    """What the pages said that were read, as lines of a page."""
    found = looked_up()
    packages: dict[str, dict[str, Any]] = found["packages"]
    with_some = {name: one for name, one in packages.items() if one.get("holes")}
    hit = {name: one for name, one in with_some.items() if _hits(one)}
    lines = [
        "`make audit` was not run: the machine that made this page reaches no such database. Instead, stored copies of "
        f"public pages (advisories, CVE records, release notes) were searched and read by hand on {found['read']}, for "
        "the packages that memorisk names itself. "
        "That is no all-clear: pages may be missing or old, and packages that these packages need were not looked up. "
        "Lower bounds of `pyproject.toml` exclude every vulnerability that is known as high or critical and that "
        "memorisk's use could meet. The exception is torch: 2.9 is allowed and has CVE-2026-24747, so with it memorisk "
        "reads safetensors only.",
        "",
        f"Of {len(packages)} packages {len(with_some)} had a known vulnerability in some version "
        f"(`recipes/advisories.yaml` lists all). In {len(hit)} of them one affects the version looked at, or may. "
        "Brackets hold the affected versions and the severity; what a page left out is said to be not read.",
        "",
        "| package, version looked at | what memorisk meets (newest page) | what affects that version, or may |",
        "|---|---|---|",
    ]
    for name, one in hit.items():
        lines.append(f"| {name} {one['version']} | {one['met']} ({one['newest']}) | {_joined(_hits(one))} |")
    return lines


def _hits(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Holes of a package that affect the version looked at, or may."""
    return [hole for hole in one["holes"] if not hole["ours"].startswith(_NOT_AFFECTED)]


def _joined(some: list[dict[str, Any]]) -> str:
    """Holes as a cell, a line each: ids, versions, severity, and whether the version is affected."""
    return "<br>".join(
        f"{', '.join(hole['ids'])} ({hole['versions']}; {hole['severity']}): {hole['ours']}" for hole in some
    )


def audit(program: str) -> int:
    """Hold the exact versions against the advisories by pip-audit: 0 nothing known, 1 something, 2 it cannot be said.

    pip-audit answers 0, too, where it could look up nothing: whatever it left out is counted here.
    """
    line = [program, "--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    line += [word for lock in sorted((ROOT / "locks").glob("*.txt")) for word in ("--requirement", str(lock))]
    try:
        done = subprocess.run(line, check=False, capture_output=True, text=True)
    except OSError as error:
        print(f"{program} cannot be run ({error.strerror}): make audit installs it", file=sys.stderr)
        return 2
    try:
        return _answer(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError):
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        print(f"{_OUT_OF_REACH}: {last[0][:200]}", file=sys.stderr)
        return 2


def _answer(found: list[dict[str, Any]]) -> int:
    """Print what pip-audit found; the exit code."""
    skipped = [d["name"] for d in found if "skip_reason" in d]
    if len(skipped) == len(found):
        print(f"{_OUT_OF_REACH}: none of {len(found)} packages was looked up", file=sys.stderr)
        return 2
    for one in found:
        for hole in one.get("vulns", ()):
            mended = ", ".join(hole["fix_versions"]) or "no version yet"
            print(f"{one['name']} {one['version']}: {hole['id']}, mended in {mended}")
    n = sum(len(d.get("vulns", ())) for d in found)
    print(f"{len(found) - len(skipped)} of {len(found)} packages were looked up: {n} known holes")
    if skipped:
        print(f"NOT looked up, so nothing is said of them: {', '.join(skipped)}", file=sys.stderr)
    return 1 if n else 2 if skipped else 0


def main() -> int:
    """The page, or the audit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path, help="where the page of licences goes; else it is printed")
    parser.add_argument("--audit", metavar="PIP-AUDIT", help="the program pip-audit, of an environment of its own")
    given = parser.parse_args()
    if given.audit:
        return audit(given.audit)
    text = page(dependencies())
    if given.markdown is None:
        print(text)
    else:
        given.markdown.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
