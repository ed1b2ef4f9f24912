"""What the terminal shows of a generated set."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from memorisk.runs.files import plain

if TYPE_CHECKING:  # they load networks
    from memorisk.training.generators.drawing.generating import GeneratedSet, GeneratePlan


def show_generated(made: "GeneratedSet", *, as_json: bool) -> None:
    """How many images of what, and where they lie."""
    summary = made.summary
    if as_json:
        _json(summary)
        return
    console = Console()
    lines = [
        ("generator", f"{summary['generator']['name']} ({summary['source']})"),
        ("images", f"{summary['images']:,}"),
        *(("of each class", _counts(summary["classes"])) for _ in range(bool(summary["classes"]))),
        *(("note", note) for note in summary["notes"]),
        ("set", str(made.folder)),
    ]
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def show_generate_plan(plan: "GeneratePlan", *, as_json: bool) -> None:
    """What drawing a set would take."""
    from memorisk.audits.classifier.dry_run import duration

    if as_json:
        _json(asdict(plan))
        return
    console = Console()
    lines = [
        ("generator", plan.generator),
        ("images", f"{plan.images:,} of {' x '.join(map(str, plan.size))}"),
        *(("of each class", _counts(plan.classes)) for _ in range(bool(plan.classes))),
        *(("by the conditions of", f"{plan.sources:,} training images") for _ in range(bool(plan.sources))),
        ("time", f"about {duration(plan.seconds)} on this machine, by a first batch of {plan.first_batch:,}"),
        ("bytes", f"about {plan.bytes:,}"),
        *plan.cost.rows(),
    ]
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def _counts(classes: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in classes.items())


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")
