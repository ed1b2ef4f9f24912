"""What the terminal shows of the quality of synthetic images."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorisk.report.formats import is_missing, power
from memorisk.runs.files import plain

if TYPE_CHECKING:  # PyTorch comes with it
    from memorisk.audits.quality.quality import Quality, QualityPlan


def show_quality(found: "Quality", *, as_json: bool) -> None:
    """A row a figure, beside held-out real images, and where the report lies."""
    if as_json:
        _json(found.as_json())
        return
    console = Console()
    console.print(_figures(found.figures))
    if found.transfer is not None:
        console.print()
        console.print(_transfer(found.transfer))
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
        ("trainings", f"{plan.trainings:,}"),
        *(("note", note) for note in plan.notes),
    ]
    for name, value in lines:
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def _figures(frame: pd.DataFrame) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("figure")
    for heading in ("all synthetic", "as many", "held-out real", "better"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in frame.to_dict("records"):
        cells = (_limits(row, name, *limits) for name, limits in (
            ("estimate", ("low", "high")),
            ("same_number", ("same_number_low", "same_number_high")),
            ("reference", ("reference_low", "reference_high")),
        ))  # fmt: skip
        table.add_row(Text(str(row["name"])), *cells, str(row["better"]))
    return table


def _transfer(frame: pd.DataFrame) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("on held-out real patients")
    for heading in ("trained on synthetic", "trained on real", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in frame.to_dict("records"):
        cells = (_limits(row, name, f"{name}_low", f"{name}_high") for name in ("synthetic", "real", "difference"))
        table.add_row(str(row["measure"]), *cells)
    return table


def _limits(row: dict[Any, Any], name: str, low: str, high: str) -> str:
    """A number with its interval, where it has one."""
    if is_missing(row[name]):
        return "-"
    if is_missing(row[low]):
        return power(row[name])
    return f"{power(row[name])} ({power(row[low])} to {power(row[high])})"


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")
