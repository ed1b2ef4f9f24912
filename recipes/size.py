"""How large is the house, and how many modules does a source of images cross?

    python recipes/size.py

Modules and lines of code (without docstrings, comments and blank lines) of `src/memorisk`, lines of its schemas, its
largest folders, and, by
a trace of two small audits of image files in this process, the modules with a function that is handed the source: its
path, a path below it, its `Manifest` or its `ImageStore`. Jobs of other processes are not traced.
"""

import ast
import io
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore

SOURCES = Path(__file__).resolve().parents[1] / "src" / "memorisk"
LARGEST = 8
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Lines that hold code: neither blank, nor a comment, nor part of a docstring.

    Args:
        source: Text of a module.
    """
    said: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            said.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - said)


def crossed(audit: Callable[[], Any], source: Path) -> list[str]:
    """Modules with a function that was handed the source while an audit ran.

    Args:
        audit: What runs.
        source: Folder of the images.
    """
    modules: set[str] = set()

    def is_source(value: Any) -> bool:
        if isinstance(value, (Manifest, ImageStore)):
            return True
        return isinstance(value, (str, Path)) and str(value).startswith(str(source))

    def watch(frame: FrameType, event: str, _: Any) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if event != "call" or not name.startswith("memorisk.") or name in modules:
            return
        code = frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(is_source(frame.f_locals.get(argument)) for argument in arguments):
            modules.add(name)

    sys.setprofile(watch)
    try:
        audit()
    finally:
        sys.setprofile(None)
    return sorted(modules)


def main() -> None:
    """Count, trace and print."""
    files = sorted(SOURCES.rglob("*.py"))
    folders = Counter(file.parent for file in files if file.name != "__init__.py")
    print(f"modules: {len(files)}, of them {sum(file.name == '__init__.py' for file in files)} packages")
    print(f"lines of code: {sum(code_lines(file.read_text('utf-8')) for file in files):,}")
    data = [line for file in SOURCES.rglob("*.yaml") for line in file.read_text("utf-8").splitlines()]
    print(f"lines of schemas, in files of data: {sum(bool(line.strip()) for line in data):,}")
    for folder, n in folders.most_common(LARGEST):
        print(f"  {folder.relative_to(SOURCES).as_posix()}: {n}")
    with tempfile.TemporaryDirectory() as place:
        root, runs = (Path(place).resolve() / part for part in ("images", "runs"))
        digits = load_digits()
        for i, (image, label) in enumerate(zip(digits.images[:400], digits.target[:400], strict=True)):
            for part, mine in (("all", True), ("train", i < 200), ("held", 200 <= i < 300), ("made", i >= 300)):
                if mine:
                    folder = root / part / (str(label) if part == "all" else "")
                    folder.mkdir(parents=True, exist_ok=True)
                    Image.fromarray((image * 15).astype(np.uint8)).save(folder / f"{i}.png")
        audits = {
            "classifier": lambda: audit_classifier(root / "all", out=runs / "c", models=6, epochs=1, processes=1),
            "synthetic": lambda: audit_synthetic(
                root / "train", root / "made", held_out=root / "held", out=runs / "s", plants=5
            ),
        }
        for name, audit in audits.items():
            found = crossed(audit, root)
            print(f"modules that a source crosses, audit {name}: {len(found)}")
            print("  " + " ".join(module.removeprefix("memorisk.") for module in found))


if __name__ == "__main__":
    main()
