"""What the terminal shows of a trained generator, and of what its training would take."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorisk.runs.errors import one_line
from memorisk.runs.files import plain

if TYPE_CHECKING:  # PyTorch comes with them
    from memorisk.audits.watch.running import WatchPlan
    from memorisk.training.generators.command import GeneratorPlan, TrainedGenerator

_MOST_ROWS = 12


def show_generator(trained: "TrainedGenerator", *, as_json: bool) -> None:
    """Print the loss on training and held-out images from look to look, and where the generator lies."""
    summary = trained.summary
    if as_json:
        sys.stdout.write(json.dumps(plain(summary), indent=2, ensure_ascii=False) + "\n")
        return
    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("step", "training loss", "held-out loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in _thinned(summary["history"]):
        held_out = row["held_out_loss"]
        table.add_row(f"{row['step']:,}", f"{row['loss']:.4f}", "" if held_out is None else f"{held_out:.4f}")
    console.print(table)
    images = summary["parts"]["training"]["images"]
    times = f"each of {images:,} training images was seen {summary['passes']:.3g} times"
    console.print(Text(f"{summary['name']}, {summary['parameters']:,} weights, {summary['steps']:,} steps: {times}"))
    if summary["stopped"]:
        console.print(Text(f"ended early: {one_line(summary['stopped'])}"), soft_wrap=True)
    for note in summary["notes"]:
        console.print(Text(note), soft_wrap=True)
    console.print(Text(f"generator: {trained.folder / 'generator'}"), soft_wrap=True)


def show_generator_plan(plan: "GeneratorPlan", *, as_json: bool, watch: "WatchPlan | None" = None) -> None:
    """Print what training a generator would take; as JSON with what its watch would look at, where there is one."""
    from memorisk.audits.classifier.dry_run import duration

    if as_json:
        told = asdict(plan) | ({} if watch is None else {"watch": asdict(watch)})
        sys.stdout.write(json.dumps(plain(told), indent=2, ensure_ascii=False) + "\n")
        return
    console = Console()
    for name, count in plan.parts.items():
        console.print(Text(f"{name}: {count['images']:,} images of {count['patients']:,} patients"))
    told = {"none": "nothing", "class": f"the class, one of {len(plan.classes)}", "vector": "a pseudo-condition"}
    console.print(Text(f"conditioned on {told[plan.conditioned_on]}; {plan.parameters:,} weights"))
    console.print(Text(f"{plan.steps:,} steps, in which each training image is seen {plan.passes:.3g} times"))
    console.print(Text(f"about {duration(plan.seconds)} on this machine (training alone, without looks)"))
    sizes = (f"{name.partition('.')[0]} {_megabytes(size)}" for name, size in plan.bytes.items() if size)
    console.print(Text(f"on the disk: {', '.join(sizes)}"))
    for line in plan.cost.lines():
        console.print(Text(line))
    for note in plan.notes:
        console.print(Text(note), soft_wrap=True)


def _thinned(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most a dozen rows, evenly, the last among them."""
    every = -(-len(history) // _MOST_ROWS)
    return [row for number, row in enumerate(history, 1) if number % every == len(history) % every]


def _megabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
