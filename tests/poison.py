"""A folder whose Python files leave a mark when they are run: nothing that memorisk starts may run one."""

import re
import sys
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "memorisk"
BESIDE = {"memorisk", "sitecustomize", "usercustomize", "distributed", "gdcm", "openjpeg", "tests"}

IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\b|import\s+(.+))", re.MULTILINE)
"""A line that imports, of code or of a docstring: a name too many does no harm here."""


@cache
def imported_names() -> frozenset[str]:
    """Everything that memorisk imports, all of Python's own library, and what Python looks for by itself."""
    found = {*BESIDE, *sys.stdlib_module_names}
    for file in SOURCES.rglob("*.py"):
        for one, several in IMPORT.findall(file.read_text("utf-8")):
            found |= {name.strip().partition(" ")[0].partition(".")[0] for name in (one, *several.split(",")) if name}
    return frozenset(name for name in found if name.isidentifier())


def poison(folder: Path, marks: Path) -> Path:
    """Put a module of every such name into a folder.

    Args:
        folder: Made if it is not there.
        marks: Folder in which a module that is run leaves a file of its name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marks.mkdir(parents=True, exist_ok=True)
    for name in imported_names():
        mark = str(marks / name)
        (folder / f"{name}.py").write_text(f"open({mark!r}, 'w').close()\n")
    return folder


def marked(marks: Path) -> list[str]:
    """Names of the modules that were run."""
    return sorted(file.name for file in marks.iterdir())
