"""Commands of a Markdown page: found as a reader copies them, and run as they are typed.

Shared by `.ci/readme.py` (the README), `recipes/run_docs.py` (the pages of the site) and `tests/test_doc_commands.py`
(every command of every page, against the real command line).
"""

import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^([ \t]*)```(\w*)[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_GROUP = re.compile(r"(?<=\s)\[([^\]]*)\](?=\s|$)")
_BEGINS = re.compile(r"(?:memorisk|python|python3|pip|make|accelerate|\.|[./\w]*\.venv/bin/\S+)\s+\S")


@dataclass(frozen=True)
class Block:
    """Code of a page.

    Attributes:
        language: What the fence says; of an indented block ``sh``, ``python`` or "" by what it begins with.
        text: The code, without indentation.
        fenced: A fence, not an indented block.
    """

    language: str
    text: str
    fenced: bool = True


@dataclass(frozen=True)
class Expected:
    """What a command must do.

    Attributes:
        codes: Exit codes that are right: 1 is an audit that does not pass, as with such small inputs it may not.
        says: What it must print.
        cut: Flags added to keep it short.
        replaced: Words exchanged, as (what, by what), and only because this cannot be had here.
        in_checkout: Run in the checkout.
    """

    codes: tuple[int, ...] = (0,)
    says: str = ""
    cut: str = ""
    replaced: tuple[str, str] | tuple[tuple[str, str], ...] | None = None
    in_checkout: bool = False

    def typed(self, command: str) -> str:
        """The command as it is run here."""
        pairs = self.replaced or ()
        for what, by in [pairs] if pairs and isinstance(pairs[0], str) else pairs:
            command = command.replace(what, by)
        return command + self.cut


@dataclass(frozen=True)
class Done:
    """How a command went."""

    right: bool
    code: int
    seconds: float
    typed: str
    output: str


def blocks(text: str) -> list[Block]:
    """Fenced and indented code of a page, in its order within each kind."""
    found = [Block(m[2], _dedented(m[3], m[1])) for m in _FENCE.finditer(text)]
    gathered: list[str] = []
    for line in [*_FENCE.sub("", text).splitlines(), "end"]:
        if line.startswith("    ") and line.strip():
            gathered.append(line[4:])
        elif gathered and line.strip():
            found.append(_indented("\n".join(gathered)))
            gathered = []
    return found


def _dedented(text: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))


def _indented(text: str) -> Block:
    if _BEGINS.match(text):
        return Block("sh", text, fenced=False)
    return Block("python" if re.match(r"(?:from|import) ", text) else "", text, fenced=False)


def prose(text: str) -> str:
    """A page without its code blocks."""
    kept = (line for line in _FENCE.sub("", text).splitlines() if not line.startswith("    "))
    return "\n".join(kept)


def lines_of(block: Block) -> list[str]:
    """Commands of a block, one a line: continued lines joined, comments left out."""
    joined = re.sub(r"\\+\n", " ", block.text)
    joined = re.sub(r"\n[ \t]+", " ", joined)  # a usage goes on with an indented line
    found = [re.sub(r"\s{2,}#.*", "", line) for line in joined.splitlines()]
    return [re.sub(r"\s+", " ", line).strip() for line in found if line.strip()]


def commands_in_blocks(text: str) -> list[str]:
    """Commands of a page's code blocks."""
    shells = (block for block in blocks(text) if block.language in {"", "sh", "bash", "console"})
    return [line for block in shells for line in lines_of(block) if _BEGINS.match(line)]


def commands_in_prose(text: str) -> list[str]:
    """Commands of more than a name that stand within a sentence or a table."""
    found = re.findall(r"`((?:memorisk|python3?|pip|make)[ .][^`]*)`", prose(text))
    return [re.sub(r"\s+", " ", command) for command in found if " " in command]


def variants(command: str) -> Iterator[list[str]]:
    """Words of every command line that a usage stands for.

    ``[--a | --b]`` gives the line without them and with each, ``--a | --b`` without brackets the first;
    ``copy|link`` each of both; ``...`` is left out, or is one word where a flag waits for it.
    """
    bare = re.split(r"\s\\?\|\s", _GROUP.sub("", command))[0]  # outside brackets: this or that; the first
    choices = [choice.strip() for group in _GROUP.findall(command) for choice in re.split(r"\s\|\s", group)]
    for line in [bare, *(f"{bare} {choice}" for choice in choices if choice.startswith("-"))]:
        words = shlex.split(line)
        words = ["pixels" if w == "..." and words[i - 1].startswith("--") else w for i, w in enumerate(words)]
        yield from _each([w for w in words if w != "..."])


def _each(words: Sequence[str]) -> Iterator[list[str]]:
    at = next((i for i, w in enumerate(words) if re.fullmatch(r"[\w.-]+(?:\|[\w.-]+)+", w)), None)
    if at is None:
        yield [*words]
        return
    for one in words[at].split("|"):
        yield from _each([*words[:at], one, *words[at + 1 :]])


def run(command: str, expected: Expected, folder: Path, *, checkout: Path, limit: float | None = None) -> Done:
    """Run a command of a page and judge it."""
    typed = expected.typed(command)
    if typed.startswith("memorisk."):
        typed = f"python -c 'import memorisk; print({typed})'"
    begun = time.monotonic()
    where = checkout if expected.in_checkout else folder
    try:
        done = subprocess.run(
            ["bash", "-c", typed], cwd=where, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return Done(False, 124, time.monotonic() - begun, typed, f"longer than {limit:.0f} s")
    output = done.stdout + done.stderr
    right = done.returncode in expected.codes and expected.says in output
    if done.returncode == 2:
        right = right and done.stderr.count("\n") == 1
    return Done(right, done.returncode, time.monotonic() - begun, typed, output)
