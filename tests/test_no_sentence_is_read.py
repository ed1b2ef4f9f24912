"""No code reads a sentence: nothing in the sources matches, splits or searches a reason, a note or a title."""

import ast
from collections.abc import Iterator
from pathlib import Path

import memorisk

SOURCES = Path(memorisk.__file__).parent
SENTENCES = {
    *("why", "reason", "reasons", "note", "notes", "title", "remedy", "doubt", "doubts", "sentence", "headline"),
    *("what_would_decide", "not_examined", "limits", "assumptions", "why_not", "method"),
}
"""Names under which the sources hold sentences."""
READERS = {
    *("startswith", "endswith", "partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix", "find"),
    *("index", "match", "search", "fullmatch", "findall", "finditer", "sub"),
}
"""Methods that read a text."""


ALLOWED = {
    "audits/classifier/target/attacks.py: note.endswith(HEAD_KEPT)",  # notes of `load_weights` have no codes yet
    "audits/release/model_descriptions.py: note.startswith('Columns: ')",  # notes of sources have no codes yet
    "images/manifest.py: reasons.str.startswith(NO_PATIENT_PICTURE)",  # reasons of skipped files have no codes yet
    "images/layouts/dicom.py: reason.startswith('no ')",
    "images/pixels.py: reason.removeprefix(f'{place}: ')",  # takes a path out of an error of another library
    "report/looks.py: title.split('\\n')",  # lays lines out
    "studies/engine/tables.py: view.title.removesuffix('.')",  # ends a title with one full stop
}
"""Places that still read a sentence: none may be added, and the list only shrinks."""


def held_name(node: ast.expr) -> str:
    """Return the last name of an expression: ``reason`` of ``flag.reason`` and of ``flag["reason"]``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return held_name(node.value) if node.attr == "str" else node.attr  # a column of pandas
    if isinstance(node, ast.Subscript):
        key = node.slice
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else held_name(node.value)
    return held_name(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def sentence_readers(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield every call or comparison that reads a sentence."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            if any(held_name(one) in SENTENCES for one in (node.func.value, *node.args)):
                yield node
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            text = isinstance(node.left, ast.Constant | ast.JoinedStr) and not isinstance(node.comparators[0], ast.Dict)
            if text and held_name(node.comparators[0]) in SENTENCES:
                yield node


def test_the_search_finds_readers() -> None:
    for code in (
        'flag.reason.startswith("a")', '"attack" in why', 're.split(":", audit.why[0])', 'PATTERN.search(reason)',
        'notes[0].partition(";")', 'table["reason"].str.startswith("no ")',
    ):  # fmt: skip
        assert list(sentence_readers(ast.parse(code))), code
    assert not list(sentence_readers(ast.parse('name.startswith("a") or code in codes')))


def test_no_code_reads_a_sentence() -> None:
    found = {
        f"{path.relative_to(SOURCES)}: {ast.unparse(node)}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in sentence_readers(ast.parse(path.read_text()))
    }
    assert found == ALLOWED
