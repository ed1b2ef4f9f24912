"""What the terminal shows of a watch."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorisk.runs.files import plain

if TYPE_CHECKING:  # they load networks
    from memorisk.audits.watch.looks import Look
    from memorisk.audits.watch.running import Watched, WatchPlan
    from memorisk.audits.watch.watching import MemorizationWatch


def show_look(look: "Look") -> None:
    """A line as soon as it was had."""
    Console().print(Text(look.words), soft_wrap=True)


def show_watched(found: "Watched", *, as_json: bool) -> None:
    """A row a look, what the rule says, and where the report lies."""
    if as_json:
        stop = None if found.stop is None else found.stop.step
        told = {"looks": [asdict(look) for look in found.looks], "stop": stop}
        _json(told | {"headline": found.headline, "rule": found.rule, "notes": found.notes})
        return
    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("step", "memorized share (95 %)", "listed", "FID", "as many", "held-out", "loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for look in found.looks:
        share = f"{look.share:.1%} ({look.share_low:.1%} to {look.share_high:.1%})" if look.share == look.share else ""
        table.add_row(
            f"{look.step:,}", share, f"{look.listed:,}", _number(look.fid), _number(look.fid_same_number),
            _number(look.fid_held_out), _number(look.held_out_loss),
        )  # fmt: skip
    console.print(table)
    console.print()
    console.print(Text((found.headline or "Nothing was looked at").upper(), style="bold"), soft_wrap=True)
    if found.rule:
        console.print(Text(found.rule), soft_wrap=True)
    if found.looks and found.looks[-1].fid_name:
        told = "as many: of no more drawn images than are held out; held-out: of real images in the place of these"
        console.print(Text(f"{found.looks[-1].fid_name}; {told}"), soft_wrap=True)
    for note in found.notes:
        console.print(Text(note), soft_wrap=True)
    console.print(Text("The final audit needs held-out patients who had no part in this watch."), soft_wrap=True)
    console.print(Text(f"Report: {found.folder / 'report.html'}"), soft_wrap=True)


def show_watch_within(watch: "MemorizationWatch") -> None:
    """Of a watch within a training: its last look, whether and why it ended the training, its rule, its report."""
    console, looks, stop = Console(), watch.looks, watch.stopped_at
    console.print(Text(f"watch: {looks[-1].words}" if looks else "watch: nothing was looked at"), soft_wrap=True)
    from memorisk.audits.watch.verdict import RULES, can_stop, verdict_of

    if stop is not None and not looks[-1].go_on:
        said = f"it stopped the training at step {looks[-1].step:,}: {RULES[watch.options.stop_on]}"
    elif can_stop(watch):
        said = "it did not stop the training"
    else:
        said = "it could not have stopped the training"
    console.print(Text(f"watch: {said}"), soft_wrap=True)
    if looks:
        console.print(Text(f"watch: {verdict_of(watch)[1]}"), soft_wrap=True)
    console.print(Text(f"watch: {watch.rule}"), soft_wrap=True)
    for note in watch.notes:
        console.print(Text(f"watch: {note}"), soft_wrap=True)
    if (report := watch.report()) is not None:
        console.print(Text(f"watch: {report}"), soft_wrap=True)


def show_watch_plan(plan: "WatchPlan", *, as_json: bool, within: bool = False) -> None:
    """What would be looked at; within a training there is nothing of it yet, and it is said whose lines they are."""
    if as_json:
        _json(asdict(plan))
        return
    console = Console()
    steps = f"{len(plan.steps)}" + (f", step {plan.steps[0]:,} to {plan.steps[-1]:,}" if plan.steps else "")
    lines = [
        *([] if within else [("to be looked at now", steps)]),
        ("looks planned", "not known" if plan.looks is None else f"{plan.looks:,}"),
        ("images a look", f"{plan.images:,}"),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("compared by", plan.detector),
        (
            "stops on",
            f"{plan.rule}, error of the first look {plan.error:.2g}, held-out patients needed {plan.needed:,}",
        ),
        ("rule", plan.why),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    for name, value in lines:
        console.print(Text(f"{'watch, ' if within else ''}{name}: {value}"), soft_wrap=True)


def _number(value: float) -> str:
    return f"{value:.4g}" if value == value else ""


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")
