"""Does the prose of the package keep the rules that can be counted (CONTRIBUTING.md, "Plain English")?

    python recipes/plain_english.py [--show RULE] [--most 40]

Counts, in `src/memorisk` and its files of data, descriptions that do not begin with their noun, words of the idiolect,
"a row an image" where "one row per image" is meant, descriptions of fewer than three words, and variables that are bare
participles; in README, CONTRIBUTING and the pages of `docs`, words of the idiolect. Exits with 1 where a count is above
its limit in `LIMITS`. A limit is only ever lowered.
"""

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {"openings": 0, "words": 100, "words in docs": 11, "distributives": 0, "short": 0, "participles": 25}
OPENING = re.compile(r"(Of|As|How|Which|Where|What|Whose|Who|Whom|Likewise|See|That|At|In|With|By|From|To|Those)\b")
WORD = re.compile(
    r"\b(told|said|asked|stands?|beside|nobody|somebody|whoever|whom|likewise|(?:goes|go|went) on|(?:to )?be had)\b"
    r"|\b(?:is|are|was|were) no (?!longer|more|less|fewer|different|need|way|matter)[a-z]+",
    re.IGNORECASE,
)
DISTRIBUTIVE = re.compile(
    r"\b(?:a|an|one) (?:row|file|line|column|value|number|package|module|score|seed|image|list|process|job|page|folder|"
    r"cell|model|pair|address) an? [a-z]+"
)
PARTICIPLES = {
    *("found", "said", "told", "asked", "known", "left", "shown"),
    *("given", "taken", "kept", "made", "seen", "meant"),
}
SECTION = re.compile(r"(Args|Returns|Yields|Attributes|Raises):$")
QUOTED = re.compile(r"[“\"`].*?[”\"`]")
FEWEST_WORDS = 3
DATA = ("*.yaml", "*.toml")
"""Files of data whose texts a reader sees."""

Hits = dict[str, list[str]]
"""Places and texts by rule."""


def descriptions(docstring: str) -> Iterator[str]:
    """Yield the description of each argument and of each returned value of a docstring.

    Args:
        docstring: Text of a docstring, without its indentation.
    """
    section = ""
    for line in docstring.splitlines():
        text = line.strip()
        if match := SECTION.match(text):
            section = match[1]
        elif text and not line.startswith(" "):
            section = ""
        elif text and section not in ("", "Raises") and len(line) - len(line.lstrip()) == 4:
            description = text if section in ("Returns", "Yields") else text.partition(":")[2].strip()
            if description:
                yield description


def attribute_docstrings(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that follows an assignment."""
    for assigned, after in pairwise(body):
        value = after.value if isinstance(after, ast.Expr) else None
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if isinstance(assigned, (ast.Assign, ast.AnnAssign)) and is_text:
            yield value.lineno, value.value.strip()


def count_module(name: str, text: str, hits: Hits) -> None:
    """Count the places of a module that break a rule.

    Args:
        name: Path of the module, as it is shown.
        text: Its source.
        hits: Places by rule, to which those of the module are added.
    """

    def add(rule: str, line: int, what: str) -> None:
        hits[rule].append(f"{name}:{line}: {what}")

    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 1)
        described: list[tuple[int, str]] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            docstring = ast.get_docstring(node) or ""
            described = [(line, item) for item in descriptions(docstring)]
            attributes = list(attribute_docstrings(node.body))
            described += attributes
            for at, short in [*attributes, *([(line, docstring)] if docstring else [])]:
                if len(short.split()) < FEWEST_WORDS:
                    add("short", at, short)
        for at, item in described:
            if OPENING.match(item):
                add("openings", at, item.splitlines()[0])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in PARTICIPLES:
            add("participles", line, node.id)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > FEWEST_WORDS:
            for match in WORD.finditer(QUOTED.sub("", node.value)):
                add("words", line, match[0])
            for match in DISTRIBUTIVE.finditer(node.value):
                add("distributives", line, match[0])
    for at, line in enumerate(text.splitlines(), 1):
        if comment := re.search(r"(?:^|\s)#\s(.*)", line):
            for match in WORD.finditer(comment[1]):
                add("words", at, match[0])


def count_data(name: str, text: str, hits: Hits) -> None:
    """Count the places of a file of data, as the schemas of studies are, that break a rule.

    Args:
        name: Path of the file, as it is shown.
        text: Its text.
        hits: Places by rule, to which those of the file are added.
    """
    for at, line in enumerate(text.splitlines(), 1):
        for rule, pattern in (("words", WORD), ("distributives", DISTRIBUTIVE)):
            hits[rule] += [f"{name}:{at}: {match[0]}" for match in pattern.finditer(line)]


def count_page(name: str, text: str, hits: Hits) -> None:
    """Count the places of a Markdown page that break a rule; code and tables do not count.

    Args:
        name: Path of the page, as it is shown.
        text: Its text.
        hits: Places by rule, to which those of the page are added.
    """
    code = False
    for at, line in enumerate(text.splitlines(), 1):
        code ^= line.strip().startswith("```")
        if code or line.startswith("|"):
            continue
        for rule, pattern in (("words in docs", WORD), ("distributives", DISTRIBUTIVE)):
            hits[rule] += [f"{name}:{at}: {match[0]}" for match in pattern.finditer(QUOTED.sub("", line))]


def count_project(root: Path = ROOT) -> Hits:
    """Count the places of the package and of its pages that break a rule.

    Args:
        root: Folder of the project.
    """
    hits: Hits = defaultdict(list)
    for path in sorted((root / "src").rglob("*.py")):
        count_module(str(path.relative_to(root)), path.read_text(encoding="utf-8"), hits)
    for path in sorted(path for ending in DATA for path in (root / "src").rglob(ending)):
        count_data(str(path.relative_to(root)), path.read_text(encoding="utf-8"), hits)
    for path in (root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))):
        count_page(str(path.relative_to(root)), path.read_text(encoding="utf-8"), hits)
    return hits


def main() -> int:
    """Print each count beside its limit, and return 1 where one is above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", choices=list(LIMITS), help="rule whose places are printed")
    parser.add_argument("--most", type=int, default=40, help="number of places that are printed")
    options = parser.parse_args()
    hits = count_project()
    for rule, limit in LIMITS.items():
        print(f"{rule:14} {len(hits[rule]):5} of at most {limit}")
    for place in hits[options.show][: options.most] if options.show else ():
        print(place)
    return int(any(len(hits[rule]) > limit for rule, limit in LIMITS.items()))


if __name__ == "__main__":
    raise SystemExit(main())
