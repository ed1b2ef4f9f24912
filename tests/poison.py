"""A folder whose Python files leave a mark when they are run: nothing that memorisk starts may run one."""

import ast
import sys
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "memorisk"
BESIDE = {"memorisk", "sitecustomize", "usercustomize", "distributed", "ray", "gdcm", "openjpeg", "tests"}


@cache
def imported_names() -> frozenset[str]:
    """Everything that memorisk imports, all of Python's own library, and what Python looks for by itself."""
    found = {*BESIDE, *sys.stdlib_module_names}
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return frozenset(found)


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
