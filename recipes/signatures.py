"""What editors read of memorisk: each public function with all its keywords, their types and defaults.

    python recipes/signatures.py    # after a change of a public function or of its settings

The public names are loaded when they are first used (``memorisk/__init__.py``), and a function's settings are the
fields of a dataclass: an editor, which runs nothing, would see neither. `written` makes ``memorisk/__init__.pyi`` of
the signatures that the functions have at run time; ``tests/test_signatures.py`` holds the two equal.
"""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import memorisk
from memorisk import scores, statistics
from memorisk.images.sources.datasets import SOURCES

STUB = Path(memorisk.__file__).with_suffix(".pyi")
_HEAD = f'''"""{(memorisk.__doc__ or "").splitlines()[0]}

Written by `recipes/signatures.py` from the functions themselves; a test holds them equal.
"""
'''
_PLAN = "dry_run"
_UNRESOLVED = ("load_detector",)
"""Functions with annotations of types that are imported for checks only."""


class Stub:
    """The text of the stub, and the imports that its annotations need."""

    def __init__(self) -> None:
        self.imports: set[str] = set()

    def text(self) -> str:
        """Write all public names."""
        parts = [self._public(name, module) for name, module in memorisk._PUBLIC.items()]
        names = ", ".join(f'"{name}"' for name in memorisk.__all__)
        known = f"__version__: str\n__all__ = [{names}]"
        return "\n\n".join([_HEAD, "\n".join(sorted(self.imports)), known, *filter(None, parts)])

    def _public(self, name: str, module: str) -> str:
        """A function with its keywords, a class with those of its making; anything else is imported as it is."""
        value = getattr(import_module(module), name)
        maker = value.__init__ if inspect.isclass(value) else value
        if not hasattr(maker, "__signature__") and not _takes_source(maker):
            self.imports.add(f"from {module} import {name} as {name}")
            return ""
        if not inspect.isclass(value):
            return self._function(name, value, doc=inspect.cleandoc(value.__doc__ or ""))
        self.imports.add(f"from {module} import {name} as _{name}")
        making = "\n".join(f"    {line}" for line in self._function("__init__", maker, doc="").splitlines())
        return f'class {name}(_{name}):\n    """{value.__doc__}"""\n{making}'

    def _function(self, name: str, function: Callable[..., Any], *, doc: str) -> str:
        """A function's lines; two where a dry run gives something else."""
        signature, hints = inspect.signature(function), get_type_hints(function)
        result = signature.return_annotation
        body = f'    """{_indented(doc)}"""' if doc else "    ..."
        if _PLAN not in signature.parameters or get_origin(result) not in (Union, UnionType):
            return f"def {name}({self._parameters(signature, hints)}) -> {self._hint(hints['return'])}:\n{body}"
        self.imports.add("from typing import overload")
        found, plan = get_args(hints["return"])
        asked = f"{_PLAN}: {self._hint(Literal[True])}"
        usual = f"{_PLAN}: {self._hint(Literal[False])} = False"
        keywords = self._parameters(signature, hints)
        shown = re.compile(rf"{_PLAN}: bool = False")
        return (
            f"@overload\ndef {name}({shown.sub(usual, keywords)}) -> {self._hint(found)}:\n{body}\n\n"
            f"@overload\ndef {name}({shown.sub(asked, keywords)}) -> {self._hint(plan)}: ..."
        )

    def _parameters(self, signature: inspect.Signature, hints: dict[str, Any]) -> str:
        """The parameters as they stand between the brackets."""
        shown, star = [], False
        for parameter in signature.parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star:
                shown.append("*")
                star = True
            if parameter.name == "self":
                shown.append("self")
                continue
            hint = self._hint(hints.get(parameter.name, parameter.annotation))
            if parameter.name in SOURCES and {str, Path} <= set(get_args(hints.get(parameter.name))):
                self.imports.add("from memorisk.images.sources.datasets import ImageSource")
                hint = " | ".join(["ImageSource", *(part for part in hint.split(" | ") if part not in ("str", "Path"))])
            default = "" if parameter.default is inspect.Parameter.empty else f" = {_default(parameter.default)}"
            shown.append(f"{parameter.name}: {hint}{default}")
        return ", ".join(shown)

    def _hint(self, hint: Any) -> str:
        """An annotation as it is written, its names imported."""
        if hint is Ellipsis:
            return "..."
        if hint in (None, NoneType):
            return "None"
        if isinstance(hint, list):
            return f"[{', '.join(self._hint(part) for part in hint)}]"
        origin, parts = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return " | ".join(dict.fromkeys(self._hint(part) for part in parts))
        if origin is Literal:
            self.imports.add("from typing import Literal")
            return f"Literal[{', '.join(repr(part) for part in parts)}]"
        kind = origin or hint
        if kind.__module__ != "builtins" and kind.__name__ not in memorisk._PUBLIC:
            self.imports.add(f"from {_home(kind)} import {kind.__name__}")
        inside = f"[{', '.join(self._hint(part) for part in parts)}]" if parts else ""
        return kind.__name__ + inside


def _home(kind: Any) -> str:
    """The module from which a type is imported, the public one where that has it."""
    top = kind.__module__.partition(".")[0]
    if top in ("numpy", "pandas", "torch", "pathlib") and hasattr(import_module(top), kind.__name__):
        return top
    return kind.__module__


def _default(value: Any) -> str:
    """A default as it is written; what cannot be is left open."""
    plain = isinstance(value, (str, int, float, NoneType))
    several = isinstance(value, tuple) and all(isinstance(one, (str, int, float)) for one in value)
    return repr(value) if plain or several else "..."


def _takes_source(function: Any) -> bool:
    named = get_type_hints(function) if inspect.isfunction(function) and function.__name__ not in _UNRESOLVED else {}
    return any({str, Path} <= set(get_args(named.get(name))) for name in SOURCES)


def _indented(text: str) -> str:
    first, *rest = text.splitlines()
    return "\n".join([first, *(f"    {line}" if line else "" for line in rest), *(["    "] if rest else [])])


def written() -> dict[Path, str]:
    """The stubs as they are to be, formatted, by file."""
    texts = {STUB: Stub().text()}
    for package in (scores, statistics):
        lines = [
            f"from {package.__name__}.{module} import {name} as {name}"
            for module, names in package.MODULES.items()
            for name in names.split()
        ]
        head = f'"""Public names of `{package.__name__}`, written by `recipes/signatures.py`."""'
        texts[Path(str(package.__file__)).with_suffix(".pyi")] = "\n".join([head, *lines, "MODULES: dict[str, str]"])
    return {file: _formatted(text, file) for file, text in texts.items()}


def _formatted(text: str, file: Path) -> str:
    """A stub's text as ruff leaves it."""
    for step in (["check", "--select", "I,F401", "--fix-only", "--quiet"], ["format"]):
        call = [sys.executable, "-m", "ruff", *step, "--stdin-filename", str(file), "-"]
        text = subprocess.run(call, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for file, text in written().items():
        file.write_text(text, encoding="utf-8")
