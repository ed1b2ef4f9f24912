"""What the terminal shows of the quality of synthetic images."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from memorisk.audits.quality.words import transfer_warnings
from memorisk.report.formats import is_missing, power
from memorisk.runs.files import plain

if TYPE_CHECKING:  # PyTorch comes with it
    from memorisk.audits.quality.quality import Quality, QualityPlan


def show_quality(found: "Quality", *, as_json: bool) -> None:
    """A line a figure, beside held-out real images, and where the report lies."""
    if as_json:
        _json(found.as_json())
        return
    console = Console()
    for line in (*_lines(found.figures), *(() if found.transfer is None else _compared(found.transfer))):
        console.print(Text(line), soft_wrap=True)
    console.print(Text("Quality says nothing about privacy: memorisk audit synthetic does."), soft_wrap=True)
    console.print(Text(f"Report: {found.folder / 'report.html'}"), soft_wrap=True)


def show_quality_plan(plan: "QualityPlan", *, as_json: bool) -> None:
    """What would be measured."""
    if as_json:
        _json(asdict(plan))
        return
    console = Console()
    lines = [
        ("images", ", ".join(f"{what} {n:,}" for what, n in plan.images.items())),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("left out", f"{plan.left_out:,} held-out patients with a training image"),
        ("features", ", ".join(plan.features)),
        ("figures", ", ".join(plan.figures)),
        ("reference", f"{plan.n_reference:,} held-out images" if plan.n_reference else "none: no held-out images"),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def _lines(frame: pd.DataFrame) -> Iterator[str]:
    """A figure a line, beside held-out images at the same number."""
    for row in frame.to_dict("records"):
        said = f"{row['name']}: {_limits(row, 'estimate', 'low', 'high')}"
        if row["n_reference"]:
            if row["n_reference"] < row["n_synthetic"]:
                at_number = _limits(row, "same_number", "same_number_low", "same_number_high")
                said += f"; of {row['n_reference']:,} of them {at_number}"
            said += f"; held-out real images {_limits(row, 'reference', 'reference_low', 'reference_high')}"
        yield said


def _compared(frame: pd.DataFrame) -> Iterator[str]:
    """A measure of the classifiers a line, and what must be known of them."""
    for row in frame.to_dict("records"):
        arms = [f"{name} {_limits(row, name, f'{name}_low', f'{name}_high')}" for name in ("synthetic", "real")]
        difference = _limits(row, "difference", "difference_low", "difference_high")
        yield f"{row['measure']} on held-out real patients, trained on {', on '.join(arms)}; difference {difference}"
    yield from (f"Warning: {text}" for text in transfer_warnings(frame.to_dict("records")[0]))


def _limits(row: dict[Any, Any], name: str, low: str, high: str) -> str:
    """A number with its interval, where it has one."""
    if is_missing(row[name]):
        return "-"
    if is_missing(row[low]):
        return power(row[name])
    return f"{power(row[name])} ({power(row[low])} to {power(row[high])})"


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")
