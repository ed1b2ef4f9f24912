"""Terminal output of benchmarks."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from memorisk.cli.show.common import print_json
from memorisk.report.text import visible

if TYPE_CHECKING:  # PyTorch comes with them
    from memorisk.studies.detectors.benchmark import BenchmarkPlan
    from memorisk.studies.detectors.results import Benchmark
    from memorisk.studies.pairs.plan import PairBenchPlan
    from memorisk.studies.pairs.results import PairBenchmark


def show_plan(plan: "BenchmarkPlan", *, as_json: bool) -> None:
    """Print what a benchmark would compute."""
    _show(_plan_lines(plan), asdict(plan) if as_json else None)


def _plan_lines(plan: "BenchmarkPlan") -> Iterator[str]:
    from memorisk.studies.detectors.measurement import gigabytes  # here, since PyTorch comes with it

    yield from _cell_lines(plan.cells)
    parts = (f"{name.replace('_', ' ')} {n:,} ({plan.images[name]:,} images)" for name, n in plan.patients.items())
    yield f"patients: {', '.join(parts)}; {plan.references:,} references in each pool"
    yield from plan.cost.lines()
    if plan.cost.pairs:
        yield "how long that takes depends on the networks, and is not known beforehand"
    memory = plan.memory
    free = "how much is free is not known" if memory.free is None else f"{gigabytes(memory.free)} are free"
    text = f"memory: about {gigabytes(memory.needed)} for a detector, {free}: {memory.processes} side by side; features"
    yield f"{text} lie on files without a name, {gigabytes(memory.on_disk)} for a detector"
    yield from (f"would be left out: {name}: {why}" for name, of in memory.left_out.items() for why in of.values())
    yield from (f"would fail: {name}: {why}" for name, why in plan.problems.items())


def show_benchmark(benchmark: "Benchmark", out: Path, *, as_json: bool) -> None:
    """Print the sentences and the leaderboard, what failed, and where the rest lies."""
    from memorisk.studies.detectors.page import board_of

    board = benchmark.board
    content = {
        "chosen": board.chosen if len(board.tied) == 1 else None,  # a tie leaves the choice open
        "tied": board.tied,
        "may_be_first": board.undecided,
        "leaderboard": board.rows.to_dict("records"),
        "failed": benchmark.failed,
    }
    folders = benchmark.table("folders").ours.to_dict("records")
    of_name = {row["detector"]: out / str(row["features"]).removeprefix("detector:") for row in folders}
    places = [f"{name}: --features detector:{place}" for name, place in of_name.items()]
    _show(_board_lines(board_of(benchmark).text(), benchmark.failed, places, out), content if as_json else None)


def show_pair_plan(plan: "PairBenchPlan", *, as_json: bool) -> None:
    """Print what a benchmark of pairs would compute."""
    _show(_pair_plan_lines(plan), asdict(plan) if as_json else None)


def _pair_plan_lines(plan: "PairBenchPlan") -> Iterator[str]:
    yield from _cell_lines(plan.cells)
    yield from _missing_lines(plan.missing)
    for name, images in plan.images.items():
        parts = (f"{part} {plan.patients[name][part]:,} patients ({n:,} images)" for part, n in images.items())
        yield f"{visible(name)}: {', '.join(parts)}"
    yield from map(visible, plan.notes)
    yield from plan.cost.lines()


def show_pair_benchmark(benchmark: "PairBenchmark", out: Path, *, as_json: bool) -> None:
    """Print the sentences and the leaderboard, what failed, and where the rest lies."""
    from memorisk.studies.pairs.page import board_of

    board = benchmark.board.to_dict("records")
    content = {"reference": benchmark.reference, "leaderboard": board}
    content |= {"failed": benchmark.failed, "missing": benchmark.missing}
    missing = _missing_lines(benchmark.missing)
    _show(_board_lines(board_of(benchmark).text(), benchmark.failed, missing, out), content if as_json else None)


def _show(lines: Iterable[str], content: Mapping[str, Any] | None) -> None:
    """Print the content as JSON where there is one, else the lines."""
    if content is not None:
        print_json(content)
        return
    console = Console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _board_lines(board: str, failed: Mapping[str, str], places: Iterable[str], out: Path) -> Iterator[str]:
    """Write the leaderboard, and yield the lines below it."""
    sys.stdout.write(f"{board}\n\n")
    yield from (f"failed: {name}: {why}" for name, why in failed.items())
    yield from places
    yield f"report: {out / 'report.html'}"
    yield f"all tables: {out / 'tables' / 'tables.md'}"


def _cell_lines(cells: Mapping[str, bool]) -> Iterator[str]:
    return (f"{'done   ' if done else 'to run '} {name}" for name, done in cells.items())


def _missing_lines(missing: Mapping[str, str]) -> Iterator[str]:
    return (f"not at hand: {name}: give {give}" for name, give in missing.items())
