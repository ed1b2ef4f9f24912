"""Run the commands of every page of the site, as they are typed there, on small invented inputs.

Usage: python recipes/run_docs.py [--page NAME ...] [--runs runs/site] [--again] [--tables-only]
                                  [--docs docs/results/site_commands.md]

Page by page, each in a folder of its own, with what the page calls DATA, TRAIN, scans/ and so on beside it
(`recipes/stand_ins.py`). What went well is not run again until the page has it otherwise (`--again`): a killed run goes
on with the same command. Settings are cut short (`DEFAULTS`) and weights of others are exchanged for untrained
networks; what a page exchanges besides stands in `site_pages.py`, and so does what cannot be run here, with the reason.
A command of which neither is known runs as it is.
"""

import argparse
import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml

from doc_commands import Block, Done, Expected, blocks, commands_in_blocks, commands_in_prose, run, variants
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_text
from site_pages import DEFAULTS, EVERYWHERE, PAGES, Page
from stand_ins import stand_in

ROOT = Path(__file__).resolve().parents[1]
SHOWN = {"--dry-run", "--tables-only", "--json", "--redact"}
LIMIT = 900
NOT_THIS_TIME = "was not run this time"


def lines(text: str) -> list[str]:
    """Complete commands of a page, each once: those of blocks, then those of sentences that name a result or input."""
    found = []
    for command in [*commands_in_blocks(text), *commands_in_prose(text)]:
        if (
            command.startswith(("memorisk.", "pip "))
            or "..." in command.split(" [")[0]
            or (command.startswith("memorisk") and not complete(command))
        ):
            continue
        bare, *others = [shlex.join(words) for words in variants(command)]
        found += [bare, *(line for line in others if SHOWN & set(shlex.split(line)) - set(shlex.split(bare)))]
    return list(dict.fromkeys(found))


def complete(command: str) -> bool:
    """Whether the command line takes it as it stands."""
    from cyclopts import CycloptsError

    from memorisk.cli.program import app

    words = [word for word in next(variants(command))[1:] if word not in ("--follow", "--stop")]
    if len(words) < 2 or "--help" in words or "NAME.yaml" in command:
        return False
    words = [{"N": "9", "PX": "9", "SEED": "0", "EPOCHS": "1", "SIZE": "9"}.get(word, word) for word in words]
    if "--config" in words and words[0] != "study":
        return True
    try:
        app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError:
        return False
    return True


def expected(command: str, page: Page) -> Expected | str:
    """What a command of a page must do, or why it cannot be run here: by its longest known beginning."""
    for known in (page.commands, DEFAULTS):
        fitting = [key for key in known if command.startswith(key)]
        if fitting:
            return known[max(fitting, key=len)]
    return Expected()


def shortened(command: str, page: Page, one: Expected) -> Expected:
    """The same with what is exchanged everywhere and, for plans, any verdict taken away."""
    pairs = one.replaced or ()
    own = (pairs,) if pairs and isinstance(pairs[0], str) else tuple(pairs)
    said = "" if SHOWN & set(shlex.split(command)) else one.says
    return Expected(one.codes, said, one.cut, (*own, *page.exchanged, *EVERYWHERE), one.in_checkout)


def placed(typed: str, page: Page, folder: Path, made: Path) -> None:
    """Put what a command reads beside it, under the names that the page uses."""
    words = shlex.split(typed)
    for word, name in page.given.items():
        asked = any(w == word or w.startswith((f"{word}/", f"{word}:")) or w.endswith(f":{word}") for w in words)
        outcome = [w for w, before in zip(words[1:], words, strict=False) if before == "--out"]
        place = folder / word
        if asked and word not in outcome and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            source, _, inner = name.partition("/")
            found = stand_in(source, made) / inner if inner else stand_in(source, made)
            (shutil.copytree if found.is_dir() else shutil.copy)(found, place)


@dataclass
class Book:
    """What a page's commands did, written after each; what was right is not run again."""

    file: Path
    rows: list[dict] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = json.loads(self.file.read_text())["rows"] if self.file.is_file() else []
        self.known = {row["typed"]: row for row in known if row.get("right")}

    def add(self, row: dict) -> None:
        """Keep a row."""
        self.rows.append(row)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        left = [row for row in self.known.values() if row not in self.rows]
        write_text(self.file, json.dumps({"rows": [*self.rows, *left]}, indent=1))

    def close(self) -> None:
        """Forget rows of what is not on the page any more."""
        self.known = {}
        write_text(self.file, json.dumps({"rows": self.rows}, indent=1))


def run_page(name: str, made: Path, work: Path, book: Book) -> list[dict]:
    """Every command of a page that was not right before; a row each."""
    page, text = PAGES.get(name, Page()), page_file(name).read_text("utf-8")
    folder = work / Path(name).stem
    if not book.known:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for file, code in page.files.items():
        (folder / file).write_text(code)
    if not page.alone:
        place_always(page, folder, made)
    for block in blocks(text):
        if block.language == "yaml" and page.yaml is not None:
            (folder / page.yaml_name).write_text(yaml.safe_dump(page.yaml(yaml.safe_load(block.text))))
    code = [block for block in blocks(text) if block.language == "python"]
    last = [command for command in lines(text) if command.startswith(page.after_python or ("\n",))]
    for command in [*(command for command in lines(text) if command not in last), None, *last]:
        if command is None:
            if code:
                typed = python_key(page, text)
                book.add(book.known.get(typed) or python_of(name, page, code, folder, made) | {"typed": typed})
            continue
        one = expected(command, page)
        if isinstance(one, str):
            book.add({"page": name, "command": command, "not_run": one})
            continue
        one = shortened(command, page, one)
        typed = one.typed(command)
        if typed in book.known:
            book.add(book.known[typed])
            continue
        where = folder / hashlib.sha256(typed.encode()).hexdigest()[:8] if page.alone else folder
        if page.alone:
            shutil.rmtree(where, ignore_errors=True)
        where.mkdir(exist_ok=True)
        place_always(page, where, made)
        placed(typed, page, where, made)
        book.add(told(name, command, run(command, one, where, checkout=ROOT, limit=LIMIT)))
    book.close()
    return book.rows


def place_always(page: Page, folder: Path, made: Path) -> None:
    """What a page's YAML and Python read, and what a run that it is given was made of."""
    for word in page.always:
        placed(word, page, folder, made)


def python_key(page: Page, text: str) -> str:
    """What a page's Python is known by."""
    code = (block.text for block in blocks(text) if block.language == "python")
    return hashlib.sha256("".join([str(page.python), *code]).encode()).hexdigest()


def told_before(name: str, kept: Path) -> Iterator[dict]:
    """Rows of a page from what was run, and that the others were not."""
    page, text = PAGES.get(name, Page()), page_file(name).read_text("utf-8")
    rows = json.loads(kept.read_text())["rows"] if kept.is_file() else []
    known = {row["typed"]: row for row in rows if "typed" in row}
    for command in lines(text):
        one = expected(command, page)
        left = {"page": name, "command": command, "not_run": one if isinstance(one, str) else NOT_THIS_TIME}
        yield left if isinstance(one, str) else known.get(shortened(command, page, one).typed(command), left)
    if any(block.language == "python" for block in blocks(text)):
        left = {"page": name, "command": "Python", "not_run": page.no_python if page.python is None else NOT_THIS_TIME}
        yield known.get(python_key(page, text), left)


def python_of(name: str, page: Page, code: list[Block], folder: Path, made: Path) -> dict:
    """The Python of a page, as one script behind what it takes for granted."""
    if page.python is None:
        return {"page": name, "command": "Python", "not_run": page.no_python}
    text = "\n".join([page.python, *(block.text for block in code)])
    for what, by in (*page.exchanged, *EVERYWHERE):
        text = text.replace(what, by)
    (folder / "page.py").write_text(text)
    return told(name, "Python", run("python page.py", Expected(), folder, checkout=ROOT, limit=LIMIT))


def told(name: str, command: str, done: Done) -> dict:
    """A row, and a line on the terminal; all that a wrong one printed."""
    mark = "ok" if done.right else "WRONG"
    print(f"{mark}  {name}  exit {done.code}  {done.seconds:5.1f} s  {done.typed}", flush=True)
    if not done.right:
        print(done.output[-3000:], flush=True)
    return {"page": name, "command": command} | {k: v for k, v in asdict(done).items() if k != "output"}


def page_file(name: str) -> Path:
    """A page of docs/, or the README of recipes/."""
    return ROOT / name if "/" in name else ROOT / "docs" / name


def pages() -> list[str]:
    """Every page that has commands or Python."""
    names = [*sorted(file.name for file in (ROOT / "docs").glob("*.md")), "recipes/README.md"]
    texts = {name: page_file(name).read_text("utf-8") for name in names}
    return [n for n in names if lines(texts[n]) or any(b.language == "python" for b in blocks(texts[n]))]


def write_page(found: dict[str, list[dict]], path: Path) -> None:
    """Write docs/results/site_commands.md."""
    rows = [row for page in found.values() for row in page]
    ran = [row for row in rows if "not_run" not in row]
    waiting = [row for row in rows if row.get("not_run") == NOT_THIS_TIME]
    minutes = sum(row["seconds"] for row in ran) / 60
    stated = ", ".join(f"{name} {version}" for name, version in versions().items())
    out = [
        "# Do the commands of the pages work?",
        "",
        f"Made by `python recipes/run_docs.py` ({stated}; {machine()['cores']} cores). Every complete command of the "
        "pages below was run as a reader would type it, page by page, on small invented inputs "
        "(`recipes/stand_ins.py`), with settings cut short (`recipes/site_pages.py`) and untrained networks in place "
        "of other people's weights. An exit code of 1 is an audit that does not pass, which is right for such inputs. "
        "That all commands are *understood* is asked on every change by `tests/test_doc_commands.py`.",
        "",
        f"{sum(row['right'] for row in ran)} of {len(ran)} did what the page says, in {minutes:.0f} minutes on a "
        f"machine with other work; {len(waiting)} were not run this time, {len(rows) - len(ran) - len(waiting)} cannot "
        "be run here. The same command goes on with what was not run.",
        "",
        "| page | commands run | right | seconds | not run this time | cannot be run here |",
        "|---|---|---|---|---|---|",
    ]
    for name, page in found.items():
        done = [row for row in page if "not_run" not in row]
        later = sum(row in waiting for row in page)
        never = len(page) - len(done) - later
        seconds = sum(row["seconds"] for row in done)
        right = sum(row["right"] for row in done)
        out.append(f"| {name} | {len(done)} | {right} | {seconds:.0f} | {later or ''} | {never or ''} |")
    wrong = [row for row in ran if not row["right"]]
    if wrong:
        out += ["", "## What did not work", "", "| page | command | exit code |", "|---|---|---|"]
        out += [f"| {row['page']} | `{cell(row['command'])}` | {row['code']} |" for row in wrong]
    out += ["", "## What could not be run here", "", "| page | command | why |", "|---|---|---|"]
    out += [
        f"| {row['page']} | `{cell(row['command'])}` | {row['not_run']} |"
        for row in rows
        if "not_run" in row and row not in waiting
    ]
    out += ["", "## What was run", "", "| page | as the page has it | exit code | seconds |", "|---|---|---|---|"]
    out += [f"| {row['page']} | `{cell(row['command'])}` | {row['code']} | {row['seconds']:.0f} |" for row in ran]
    write_text(path, "\n".join(out) + "\n")


def cell(command: str) -> str:
    """A command within a table."""
    return command.replace("|", "\\|")


def main() -> int:
    """The pages that were asked for; 1 where a command is wrong."""
    parser = argparse.ArgumentParser(description="Run the commands of the site's pages.")
    parser.add_argument("--page", nargs="*", default=[])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "site")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tables-only", action="store_true")
    parser.add_argument("--docs", type=Path)
    asked = parser.parse_args()
    made, work = (asked.runs / "made").resolve(), (asked.runs / "work").resolve()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ.setdefault("MEMORISK_CACHE", str(asked.runs.resolve() / "cache"))
    found = {}
    for name in asked.page or pages():
        kept = asked.runs / f"{name.replace('/', '-')}.json"
        if asked.tables_only:
            found[name] = [*told_before(name, kept)]
            continue
        if asked.again:
            kept.unlink(missing_ok=True)
        found[name] = run_page(name, made, work, Book(kept))
    if asked.docs:
        write_page(found, asked.docs)
    return int(any(not row.get("right", True) for rows in found.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
