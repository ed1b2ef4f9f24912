"""Terminal output of benchmarks."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

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
    if as_json:
        print_json(asdict(plan))
        return
    console = Console()
    for name, done in plan.cells.items():
        console.print(Text(f"{'done   ' if done else 'to run '} {name}"), soft_wrap=True)
    parts = ", ".join(f"{name.replace('_', ' ')} {n:,} ({plan.images[name]:,} images)"
                      for name, n in plan.patients.items() if name)  # fmt: skip
    console.print(Text(f"patients: {parts}; {plan.references:,} references in each pool"), soft_wrap=True)
    for line in plan.cost.lines():
        console.print(Text(line))
    if plan.cost.pairs:
        console.print(Text("how long that takes depends on the networks, and is not known beforehand"), soft_wrap=True)
    from memorisk.studies.detectors.measurement import gigabytes  # here, since PyTorch comes with it

    memory = plan.memory
    free = "how much is free is not known" if memory.free is None else f"{gigabytes(memory.free)} are free"
    text = f"memory: about {gigabytes(memory.needed)} for a detector, {free}: {memory.processes} side by side; features"
    text += f" lie on files without a name, {gigabytes(memory.on_disk)} for a detector"
    console.print(Text(text), soft_wrap=True)
    for name, measures in memory.left_out.items():
        for why in measures.values():
            console.print(Text(f"would be left out: {name}: {why}"), soft_wrap=True)
    for name, why in plan.problems.items():
        console.print(Text(f"would fail: {name}: {why}"), soft_wrap=True)


def show_benchmark(benchmark: "Benchmark", out: Path, *, as_json: bool) -> None:
    """Print the sentences and the leaderboard, what failed, and where the rest lies."""
    if as_json:
        rows = benchmark.board.rows.to_dict("records")
        board = benchmark.board
        chosen = board.chosen if len(board.tied) == 1 else None  # a tie leaves the choice open
        print_json({"chosen": chosen, "tied": board.tied, "may_be_first": board.undecided, "leaderboard": rows,
               "failed": benchmark.failed})  # fmt: skip
        return
    from memorisk.studies.detectors.page import board_text

    sys.stdout.write(board_text(benchmark) + "\n\n")
    console = Console()
    for name, why in benchmark.failed.items():
        console.print(Text(f"failed: {name}: {why}"), soft_wrap=True)
    folders = next(table.ours for table in benchmark.tables if table.name == "folders")
    for row in folders.to_dict("records"):
        place = str(row["features"]).removeprefix("detector:")
        console.print(Text(f"{row['detector']}: --features detector:{out / place}"), soft_wrap=True)
    console.print(Text(f"report: {out / 'report.html'}"), soft_wrap=True)
    console.print(Text(f"all tables: {out / 'tables' / 'tables.md'}"), soft_wrap=True)


def show_pair_plan(plan: "PairBenchPlan", *, as_json: bool) -> None:
    """Print what a benchmark of pairs would compute."""
    if as_json:
        print_json(asdict(plan))
        return
    console = Console()
    for name, done in plan.cells.items():
        console.print(Text(f"{'done   ' if done else 'to run '} {name}"), soft_wrap=True)
    for name, give in plan.missing.items():
        console.print(Text(f"not at hand: {name}: give {give}"), soft_wrap=True)
    for name, images in plan.images.items():
        parts = ", ".join(f"{part} {plan.patients[name][part]:,} patients ({n:,} images)" for part, n in images.items())
        console.print(Text(f"{visible(name)}: {parts}"), soft_wrap=True)
    for note in plan.notes:
        console.print(Text(visible(note)), soft_wrap=True)
    for line in plan.cost.lines():
        console.print(Text(line))


def show_pair_benchmark(benchmark: "PairBenchmark", out: Path, *, as_json: bool) -> None:
    """Print the sentences and the leaderboard, what failed, and where the rest lies."""
    if as_json:
        rows = benchmark.board.to_dict("records")
        print_json(
            {
                "reference": benchmark.reference,
                "leaderboard": rows,
                "failed": benchmark.failed,
                "missing": benchmark.missing,
            }
        )
        return
    from memorisk.studies.pairs.page import board_text

    sys.stdout.write(board_text(benchmark) + "\n\n")
    console = Console()
    for name, why in benchmark.failed.items():
        console.print(Text(f"failed: {name}: {why}"), soft_wrap=True)
    for name, give in benchmark.missing.items():
        console.print(Text(f"not at hand: {name}: give {give}"), soft_wrap=True)
    console.print(Text(f"report: {out / 'report.html'}"), soft_wrap=True)
    console.print(Text(f"all tables: {out / 'tables' / 'tables.md'}"), soft_wrap=True)
