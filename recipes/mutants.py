"""Do the tests of the pure rooms notice a wrong formula? Change one place at a time and run the tests of its module.

    make mutants                                    # 500 places, hours on two cores; goes on where it was stopped
    make mutants MUTANTS="--draw 50 --seed 1"       # a quick look

A *mutant* is a module of ``statistics/`` or ``scores/`` with one operator, comparison, number or constant exchanged, by
the operators of Cosmic Ray (https://cosmic-ray.readthedocs.io). It is *killed* if a test of that module fails or takes
more than `PATIENCE` times as long as without the change. Places are drawn at random without replacement, then one
mutant of each: else a product, which can become ten other operations, would count ten times as much as a number.

Not drawn are places in annotations, which compute nothing, and decorators: without its compiler a function is slow, not
wrong. `EXPLAINED` lists survivors that cannot be killed, each with the reason.
"""

import argparse
import ast
import difflib
import json
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("statistics", "scores")
EXPLAINED = ROOT / "recipes" / "mutants.toml"
PATIENCE = 3.0
"""Times the tests' own time, after which a mutant counts as killed."""
START = 20.0
"""Seconds that are added to it, for a start beside other work."""
LEFT_OUT = {"core/RemoveDecorator", "core/VariableReplacer", "core/VariableInserter"}
"""Operators that are not used: the first as above, the others need names of variables."""
BEGIN, END = "<!-- mutants -->", "<!-- end of mutants -->"


@dataclass(frozen=True)
class Mutant:
    """A change of one place.

    Attributes:
        module: Path below ``src``.
        line: Line of the place, from 1.
        column: Column, from 0.
        operator: Cosmic Ray's name of the change.
        occurrence: Which of the operator's mutants of this module.
    """

    module: str
    line: int
    column: int
    operator: str
    occurrence: int


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    source = path.read_text(encoding="utf-8")
    silent = [*_annotations(ast.parse(source))]
    nodes = [*ast_nodes(get_ast(source))]
    for name in operator_names():
        if name in LEFT_OUT:
            continue
        operator, occurrence = get_operator(name)(), -1
        for node in nodes:
            for (line, column), _ in operator.mutation_positions(node):
                occurrence += 1
                if not any(start <= (line, column) < end for start, end in silent):
                    yield Mutant(path.relative_to(ROOT / "src").as_posix(), line, column, name, occurrence)


def _annotations(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Begin and end of each annotation and decorator."""
    for node in ast.walk(tree):
        own = getattr(node, "annotation", None), getattr(node, "returns", None)
        for found in (*own, *getattr(node, "decorator_list", ())):
            if isinstance(found, ast.expr) and found.end_lineno is not None and found.end_col_offset is not None:
                yield (found.lineno, found.col_offset), (found.end_lineno, found.end_col_offset)


def drawn(n: int, seed: int) -> list[Mutant]:
    """One mutant of each of ``n`` places."""
    places: dict[tuple[str, int, int], list[Mutant]] = {}
    for room in ROOMS:
        for path in sorted((ROOT / "src" / "memorisk" / room).rglob("*.py")):
            for mutant in mutants_of(path):
                places.setdefault((mutant.module, mutant.line, mutant.column), []).append(mutant)
    rng = random.Random(seed)
    return [rng.choice(places[place]) for place in rng.sample([*places], n)]


def tests_of(module: str) -> list[str]:
    """A module's own test files, its namesake first: those of its room that import it or bear its package's name."""
    dotted = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    package, _, name = dotted.rpartition(".")
    imports = re.compile(
        rf"^from {re.escape(dotted)} import|^from {re.escape(package)} import .*\b{name}\b", re.MULTILINE
    )
    room, *below = Path(module).parts[1:-1]
    named = tuple(f"test_{part}{end}" for part in below for end in ("_", "."))
    files = sorted((ROOT / "tests" / room).rglob("test_*.py"))
    own = [p for p in files if p.name.startswith(named) or imports.search(p.read_text(encoding="utf-8"))]
    own.sort(key=lambda p: (p.stem != f"test_{name}", name not in p.stem, p.name))
    return [p.relative_to(ROOT).as_posix() for p in own]


class Copy:
    """A copy of the sources in which one module at a time is changed."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python = folder, python
        shutil.rmtree(folder, ignore_errors=True)
        for part in ("src", "tests", "recipes", "docs"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        (folder.parent / "shared").unlink(missing_ok=True)
        (folder.parent / "shared").symlink_to(ROOT.parent / "shared")

    def fails(self, tests: list[str], limit: float | None) -> bool:
        """Whether a test fails, or they take longer than ``limit`` seconds."""
        command = [str(self.python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.folder / "src"), "OMP_NUM_THREADS": "1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0

    def survives(self, mutant: Mutant, tests: list[str], limit: float) -> tuple[bool, str]:
        """Whether its tests pass, and the change as a reader sees it."""
        file = self.folder / "src" / mutant.module
        source = file.read_text(encoding="utf-8")
        changed = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
        if changed is None:
            raise RuntimeError(f"{mutant} changes nothing")
        file.write_text(changed, encoding="utf-8")
        try:
            lines = difflib.ndiff(source.splitlines(), changed.splitlines())
            return not self.fails(tests, limit), "\n".join(line for line in lines if line[0] in "+-")
        finally:
            file.write_text(source, encoding="utf-8")


def main() -> int:
    """Draw, test, write down; 1 where a survivor is not explained and fewer than 95 % are killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", type=Path, help="the interpreter that the tests run with")
    parser.add_argument("--draw", type=int, default=500, help="places")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--work", type=Path, default=ROOT / "runs" / "mutants", help="results and copies of the sources"
    )
    parser.add_argument("--markdown", type=Path, help=f"write the counts into this page, between {BEGIN} and {END}")
    asked = parser.parse_args()
    python = asked.python.absolute()
    results = asked.work / f"seed-{asked.seed}.jsonl"
    asked.work.mkdir(parents=True, exist_ok=True)
    known = {json.dumps(row["mutant"]): row for row in _lines(results)}
    chosen = drawn(asked.draw, asked.seed)
    copies: SimpleQueue[Copy] = SimpleQueue()
    for k in range(asked.processes):
        copies.put(Copy((asked.work / f"copy-{k}" / "project").absolute(), python))
    seconds: dict[str, float] = {}  # of each file of tests, without any change

    def judged(mutant: Mutant) -> dict:
        if (key := json.dumps(asdict(mutant))) in known:
            return known[key]
        tests, copy = tests_of(mutant.module), copies.get()
        try:
            for test in tests:
                if test not in seconds:
                    begun = time.monotonic()
                    if copy.fails([test], None):
                        raise RuntimeError(f"{test} fails without any change")
                    seconds[test] = time.monotonic() - begun
            limit = PATIENCE * sum(seconds[test] for test in tests) + START
            alive, change = copy.survives(mutant, tests, limit) if tests else (True, "no test imports the module")
        finally:
            copies.put(copy)
        row = {"mutant": asdict(mutant), "killed": not alive, "change": change}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print("killed  " if row["killed"] else "SURVIVED", mutant.module, mutant.line, mutant.operator, flush=True)
        return row

    with ThreadPoolExecutor(asked.processes) as pool:
        rows = [*pool.map(judged, chosen)]
    table = as_table(rows)
    print(table)
    if asked.markdown:
        before, _, rest = asked.markdown.read_text(encoding="utf-8").partition(BEGIN)
        asked.markdown.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return int(sum(row["killed"] for row in rows) < 0.95 * len(rows))


def as_table(rows: list[dict]) -> str:
    """Counts, and each survivor with its reason or without."""
    reasons = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    killed = sum(row["killed"] for row in rows)
    lines = [f"{killed} of {len(rows)} mutants killed ({100 * killed / len(rows):.1f} %).", ""]
    for row in rows:
        if not row["killed"]:
            mutant = Mutant(**row["mutant"])
            reason = reasons.get(mutant.module, {}).get(_added(row["change"]), "not explained")
            lines += [f"- `{mutant.module}`, line {mutant.line}: {reason}", "", "```diff", row["change"], "```", ""]
    return "\n".join(lines)


def _added(change: str) -> str:
    """The changed line as `EXPLAINED` has it."""
    return next((line[1:].strip() for line in change.splitlines() if line.startswith("+")), "")


def _lines(file: Path) -> Iterator[dict]:
    if file.is_file():
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    sys.exit(main())
