"""Lock files: every package that memorisk installs, at one version, with the hashes of its files.

    make lock                    # after a change of pyproject.toml; versions stay where they still fit
    make lock UPGRADE=--upgrade  # every package at its newest release

`uv` resolves everything that ``pyproject.toml`` names at once, for every system and every Python from `OLDEST` on. Each
lock is then a part of that one resolution, so a package has one version in all of them. Hashes and versions are those
of the public package index: settings of pip and uv on this machine are not read.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "locks"
GATE = ROOT / "recipes" / "ci" / "gate-requirements.txt"
OLDEST = "3.11.5"
"""The first Python that a lock fits: mkdocs-material does not install on earlier releases of 3.11."""
TESTED = (
    "medical", "dp", "onnx", "detectors", "generative", "transformers", "cluster", "tracking", "sign", "view", "docs",
    "dev",
)  # fmt: skip
"""Extras that ``make test`` installs."""
OURS = ("dev", "docs")
"""Extras for work on memorisk itself; they have no lock of their own."""
NO_WHEEL = ("pyftpdlib", "yattag")
"""Packages published as source only; everything else is installed from wheels, so no package's setup code runs."""
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?==([^\s;\\]+)")
_HEADER = "# Made by `make lock` from pyproject.toml: python -m pip install --require-hashes -r {path}"


@dataclass(frozen=True)
class Pin:
    """One package of a lock.

    Attributes:
        name: Normalised, as the package index compares names.
        version: The only one allowed.
        marker: Where the package is needed, such as ``sys_platform == 'linux'``; "" for everywhere.
        hashes: SHA-256 of each of its files.
        text: The lines of the lock.
    """

    name: str
    version: str
    marker: str
    hashes: frozenset[str]
    text: str


def pins(text: str) -> Iterator[Pin]:
    """Yield the packages of a lock's text."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        match = _NAME.match(block)
        if match:
            marker = block.splitlines()[0].partition(" ; ")[2].rstrip(" \\")
            yield Pin(
                name=re.sub(r"[-_.]+", "-", match[1]).lower(),
                version=match[3],
                marker=marker,
                hashes=frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)),
                text=block.rstrip("\n"),
            )


def read(path: Path) -> dict[str, Pin]:
    """Packages of a lock file by name, with those of the lock that it builds on.

    Args:
        path: The file.

    Raises:
        ValueError: A package stands there twice with different versions.
    """
    text = path.read_text(encoding="utf-8")
    found: dict[str, Pin] = {}
    for name in re.findall(r"^-r (\S+)$", text, re.MULTILINE):
        found |= read(path.parent / name)
    for pin in pins(text):
        known = found.setdefault(pin.name, pin)
        if known.version != pin.version:
            raise ValueError(f"{path}: {pin.name} is {known.version} and {pin.version}")
    return found


def extras() -> list[str]:
    """Extras of ``pyproject.toml`` that users install."""
    return [name for name in project()["project"]["optional-dependencies"] if name not in OURS]


def files() -> dict[str, Path]:
    """Lock files by name."""
    names = ("core", *extras(), "test", "build", "tools")
    return {**{name: LOCKS / f"{name}.txt" for name in names}, "gate": GATE}


def write_locks(uv: str, upgrade: bool) -> None:
    """Resolve everything at once and write each lock file.

    Args:
        uv: The program.
        upgrade: Take the newest releases instead of the locked ones.

    Raises:
        subprocess.CalledProcessError: uv found no resolution; it has said why.
    """
    build = [*project()["build-system"]["requires"], "editables", "setuptools"]
    own = {
        "build": build,
        "tools": ["uv", "pip-audit", "cosmic-ray"],
        "gate": ["cyclopts", *project()["project"]["optional-dependencies"]["sign"]],
    }
    extras_of = {"test": TESTED} | {name: (name,) for name in extras()}
    with tempfile.TemporaryDirectory() as name:
        folder, pyproject = Path(name), ROOT / "pyproject.toml"
        sources = {lock: folder / f"{lock}.in" for lock in own}
        for lock, source in sources.items():
            source.write_text("\n".join(own[lock]) + "\n", encoding="utf-8")
        everything = folder / "everything.txt"
        if not upgrade:
            everything.write_text(_known(files().values()), encoding="utf-8")
        resolve(uv, [pyproject, *sources.values()], everything, ["--all-extras"])
        core: dict[str, Pin] = {}
        texts = {}
        for lock, path in files().items():
            options = [word for extra in extras_of.get(lock, ()) for word in ("--extra", extra)]
            options += ["--constraints", str(everything)]
            found = {pin.name: pin for pin in pins(resolve(uv, [sources.get(lock, pyproject)], folder / lock, options))}
            core = core or found
            texts[path] = _text(path, found, core if lock in extras() else {})
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


def _text(path: Path, found: dict[str, Pin], core: dict[str, Pin]) -> str:
    """The text of a lock; what is in the core's lock is named by a reference to that file."""
    lines = [_HEADER.format(path=path.relative_to(ROOT)), "--only-binary :all:"]
    lines += [f"--no-binary {name}" for name in NO_WHEEL if name in found]
    lines += ["-r core.txt"] if core else []
    lines += [pin.text for name, pin in found.items() if name not in core or core[name].text != pin.text]
    return "\n".join(lines) + "\n"


def resolve(uv: str, sources: Iterable[Path], target: Path, options: Iterable[str] = ()) -> str:
    """Resolve requirements for all supported systems, with hashes.

    Args:
        uv: The program.
        sources: Files of requirements, or ``pyproject.toml``.
        target: Written; its versions are preferred if it exists.
        options: More options of ``uv pip compile``.

    Returns:
        The text of the lock.

    Raises:
        subprocess.CalledProcessError: uv found no resolution; it has said why.
    """
    command = [uv, "--no-config", "--no-python-downloads", "pip", "compile", *map(str, sources), *options]
    command += ["--universal", "--python-version", OLDEST, "--fork-strategy", "fewest", "--generate-hashes"]
    command += ["--no-annotate", "--no-header", "--quiet", "--output-file", str(target)]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    subprocess.run(command, check=True, env=own, stdout=subprocess.DEVNULL)
    return target.read_text(encoding="utf-8")


def _known(paths: Iterable[Path]) -> str:
    """The versions of the locks that exist, one a line."""
    found = {pin.name: pin for path in paths if path.is_file() for pin in pins(path.read_text(encoding="utf-8"))}
    return "".join(f"{pin.name}=={pin.version}\n" for pin in found.values())


def project() -> dict[str, dict]:
    """The content of ``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def main() -> int:
    """Write the locks; exit code 2 where uv finds no resolution."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uv", help="the program uv")
    parser.add_argument("--upgrade", action="store_true", help="take the newest releases")
    given = parser.parse_args()
    try:
        write_locks(given.uv, given.upgrade)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the locks stay as they were: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
