"""What the terminal shows of the study of generators."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # PyTorch comes with it
    from memorisk.studies.generators.study import GeneratorsPlan, GeneratorsResult


def show_generators_plan(plan: "GeneratorsPlan") -> None:
    """Print which generators the study would train, and how long."""
    from memorisk.audits.classifier.dry_run import duration

    console = Console()
    table = Table(box=None, header_style="bold")
    for heading in ("data set", "generator"):
        table.add_column(heading)
    for heading in ("images", "patients", "held out", "steps", "epochs", "readings", "trainings", "time"):
        table.add_column(heading, justify="right")
    for row in plan.table.to_dict("records"):
        seconds = float(row["seconds"])
        trainings = f"{row['waiting']} of {row['generators']}"
        counts = (f"{row[name]:,}" for name in ("n_images", "n_patients", "n_held", "steps"))
        time = "unknown" if seconds != seconds else duration(seconds) if row["waiting"] else "done"
        named = (Text(str(row["dataset"])), Text(str(row["arm"])))
        table.add_row(*named, *counts, f"{row['epochs']:.3g}", str(row["readings"]), trainings, time)
    console.print(table)
    for name, why in plan.problems.items():
        console.print(Text(f"would fail: {name}: {why}"), soft_wrap=True)
    for line in plan.cost.lines():
        console.print(Text(line))
    n = sum(int(row["waiting"]) for row in plan.table.to_dict("records"))
    console.print(Text(f"{n} trainings, about {duration(plan.seconds)} on this machine (training and drawing alone)"))


def show_generators_study(result: "GeneratorsResult", out: Path) -> None:
    """Print every table, what failed, and where the rest lies."""
    from memorisk.studies.generators.tables import tables_text
    from memorisk.studies.rare_distinctive.text import markdown

    sys.stdout.write(tables_text(result.tables, markdown) + "\n")
    console = Console()
    for name, why in result.failed.items():
        console.print(Text(f"failed: {name}: {why}"), soft_wrap=True)
    console.print(Text(f"report: {out / 'report.html'}"), soft_wrap=True)
