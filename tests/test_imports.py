"""Third-party imports: each is declared, each declaration is used, and nothing private is used without a reason."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OUR_EXTRAS = {"dev", "docs", "fuzz"}
OTHER_NAMES = {
    "mlflow-skinny": "mlflow",
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pytest-xdist": "xdist",
    "pyyaml": "yaml",
    "scikit-learn": "sklearn",
}
"""Import names that differ from the package's name."""
UNDECLARED = {
    "IPython": "there where a notebook runs; asked only where rich has found one",
    "datasets": "a user's own data set of that library; read only if the user has imported it",
    "sqlalchemy": "looked for, not imported: MLflow keeps a database only with all of MLflow installed",
    "triton": "comes with PyTorch where there is a GPU; without it a GPU search is refused in one line",
}
"""Packages that src/ imports and no user's extra names."""
NOT_IMPORTED = {
    "dask-jobqueue": "recipes/slurm_dask.py, the documented way to start Dask on Slurm",
    "import-linter": "a program of make lint",
    "mkdocs-material": "the theme that mkdocs.yml names",
    "mkdocstrings": "a plugin that mkdocs.yml names",
    "pylibjpeg": "a plugin of pydicom",
    "pylibjpeg-openjpeg": "a plugin of pydicom",
    "pyright": "a program of make lint",
    "pytest-xdist": "a plugin of pytest",
    "python-gdcm": "a plugin of pydicom",
    "ruff": "a program of make lint",
    "tensorboard": "torch.utils.tensorboard needs it",
}
"""Declared packages that neither src/ nor, for our own extras, a test, recipe or benchmark imports."""
PRIVATE = {
    "_reset_state": "accelerate: its own error messages name this way to change the precision; bounded",
    "numba.core": "cgutils, of numba's documented low-level extension API; bounded",
}
"""Private names of other packages that src/ uses, and why; the bounds stand in pyproject.toml."""
UNSTABLE = ("numba.core",)
"""Modules without an underscore whose package promises nothing about them."""


@cache
def trees(*folders: str) -> dict[Path, ast.Module]:
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of what a file imports, by statement or by name in importlib and pytest.importorskip."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "importorskip", "find_spec"):
                yield str(node.args[0].value)


def packages(*folders: str) -> set[str]:
    """Import names of other people's packages."""
    found = {name.partition(".")[0] for tree in trees(*folders).values() for name in imported(tree)}
    return found - sys.stdlib_module_names - {"memorisk", "tests", ""} - {file.stem for file in trees("recipes", ".ci")}


def declared() -> dict[str, str]:
    """The extra that names each package; "" for memorisk itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {re.split(r"[\[<>=!~; ]", line)[0]: extra for extra, lines in groups.items() for line in lines}


def import_name(package: str) -> str:
    return OTHER_NAMES.get(package, package.replace("-", "_"))


@pytest.mark.thorough
def test_every_import_of_the_package_is_declared() -> None:
    users = {import_name(package) for package, extra in declared().items() if extra not in OUR_EXTRAS}
    assert packages("src") - users == set(UNDECLARED)


@pytest.mark.thorough
def test_every_declared_package_is_used() -> None:
    everywhere = packages("src", "tests", "recipes", "benchmarks", ".ci")
    used = {True: everywhere, False: packages("src")}
    idle = {name for name, extra in declared().items() if import_name(name) not in used[extra in OUR_EXTRAS]}
    assert idle == set(NOT_IMPORTED)


def test_a_missing_library_is_told_with_the_extra_that_brings_it() -> None:
    extras = declared() | {"dask.distributed": declared()["distributed"]}
    told = [
        (file.name, *(argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)))
        for file, tree in trees("src").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtraError"
    ]
    assert len(told) > 10
    assert [one for one in told if len(one) == 3 and extras.get(str(one[1])) != one[2]] == []


def private(part: str) -> bool:
    return part.startswith("_") and not part.endswith("__")


def own_names() -> set[str]:
    """Every name that src/ itself gives to something."""
    found: set[str] = set()
    for tree in trees("src").values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found |= {node.attr} if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") else set()
            elif isinstance(node, ast.arg):
                found.add(node.arg)
    return found


def foreign_private_names() -> set[str]:
    """Private modules that src/ imports, and private attributes that it reads and does not define."""
    own, found = own_names(), set()
    for tree in trees("src").values():
        for dotted in imported(tree):
            parts = dotted.split(".")
            if parts[0] == "memorisk":
                continue
            found |= {".".join(parts[: n + 1]) for n, part in enumerate(parts) if private(part)}
            found |= {module for module in UNSTABLE if f"{dotted}.".startswith(f"{module}.")}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
                found.add(node.attr)
    return found - {"_exit"}  # os._exit is public


def test_private_names_of_other_packages_are_listed_with_a_reason() -> None:
    assert foreign_private_names() == set(PRIVATE)


def test_packages_with_private_names_in_use_have_an_upper_bound() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for package in ("accelerate", "llvmlite", "numba"):
        assert re.search(rf'"{package}>=[\d.]+,<[\d.]+"', lines), package
