"""What the terminal shows of a detector that was trained, whatever its kind."""

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorisk.cli.show.training import show_detector
from memorisk.runs.files import plain

if TYPE_CHECKING:  # PyTorch comes with them
    from memorisk.training.detectors.command import TrainedDetector

_STAGES = {"stage1": "stage 1", "detector": "detector", "detector_less_stage1": "gain of stage 2"}


def show_trained_detector(trained: "TrainedDetector", *, as_json: bool) -> None:
    """Print what a detector is good for, in the terms of its kind."""
    if trained.summary.get("kind") is None:
        show_detector(trained, as_json=as_json)
    elif as_json:
        sys.stdout.write(json.dumps(plain(trained.summary), indent=2, ensure_ascii=False) + "\n")
    else:
        _show(trained)


def _show(trained: "TrainedDetector") -> None:
    """A table of AUCs, one of copies found, and what must be said."""
    summary, console = trained.summary, Console()
    test = summary["test"]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("same patient, test", "data set"):
        table.add_column(heading)
    for heading in ("patients", "AUC (95 %)", "told apart, %"):
        table.add_column(heading, justify="right")
    for stage, words in _STAGES.items():
        for name, found in test.get(stage, {}).get("auc", {}).items():
            patients = str(found["n_positive_identities"]) if "n_positive_identities" in found else ""
            apart = test[stage].get("specificity", {}).get(name)
            shown = "" if apart is None else _told_apart(apart["interval"])
            table.add_row(words, Text(name), patients, _estimate(found.get("interval", found)), shown)
    if table.row_count:
        console.print(table)
        console.print(Text("told apart: pairs of two patients below the score that 95 % of the pairs of one reach"))
        console.print(Text("(all of them, where fewer than 59 patients have pairs)"))
    else:
        console.print(Text("no patient has two test images: nothing to say about telling patients apart"))
    _show_recalls(console, test)
    best = ", ".join(f"{_STAGES[name]} {epoch}" for name, epoch in summary["best_epoch"].items())
    console.print(Text(f"epochs chosen on validation patients: {best}"))
    for note in summary["notes"]:
        console.print(Text(note), soft_wrap=True)
    console.print(Text(f"detector: {trained.folder / 'detector'}"), soft_wrap=True)


def _show_recalls(console: Console, test: dict[str, Any]) -> None:
    """Copies found at the strongest of each family."""
    stages = [stage for stage in ("stage1", "detector") if test.get(stage, {}).get("recall")]
    if not stages:
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("copies found at the strongest, %")
    for stage in stages:
        table.add_column(_STAGES[stage], justify="right")
    for family in test[stages[0]]["recall"]:
        by_stage = [test[stage]["recall"][family] for stage in stages]
        strongest = list(by_stage[0])[-1]
        table.add_row(f"{family} {strongest}", *(_share(found[strongest]) for found in by_stage))
    console.print(table)
    console.print(Text("found: above the score that half of the validation pairs of two patients stay below"))


def _share(found: dict[str, Any]) -> str:
    return f"{100 * found['estimate']:.1f} ({100 * found['low']:.1f} to {100 * found['high']:.1f})"


def _told_apart(interval: dict[str, Any]) -> str:
    return "" if interval["estimate"] is None else _share(interval)


def _estimate(interval: dict[str, Any]) -> str:
    if interval["estimate"] is None:
        return "not measurable"
    limits = ""
    if interval["low"] is not None and interval["high"] is not None:
        limits = f" ({interval['low']:.3f} to {interval['high']:.3f})"
    return f"{interval['estimate']:.3f}{limits}"
