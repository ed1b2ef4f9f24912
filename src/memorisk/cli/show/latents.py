"""What the terminal shows of a trained autoencoder."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorisk.runs.files import plain

if TYPE_CHECKING:  # PyTorch comes with them
    from memorisk.training.autoencoders.command import AutoencoderPlan, TrainedAutoencoder

_DIGITS = {"psnr": 2, "ssim": 3}


def show_autoencoder(trained: "TrainedAutoencoder", *, as_json: bool) -> None:
    """Print a row a part and measure: what is rendered, beside a resizing, and the difference over patients."""
    summary = trained.summary
    if as_json:
        sys.stdout.write(json.dumps(plain(summary), indent=2, ensure_ascii=False) + "\n")
        return
    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))  # in 80 columns
    for heading in ("rendered", "patients", "autoencoder (95 %)", "bilinear", "difference (95 %)"):
        wraps = heading.endswith("(95 %)")  # rather than being cut
        table.add_column(heading, justify="left" if heading == "rendered" else "right", no_wrap=not wraps)
    for part in ("test", "validation"):
        for measure, row in summary[part].items():
            digits = _DIGITS[measure]
            table.add_row(
                f"{part} {measure.upper()}",
                str(row["autoencoder"]["n_groups"]),
                _with_limits(row["autoencoder"], digits),
                f"{row['bilinear']['estimate']:.{digits}f}",
                _with_limits(row["difference"], digits),
            )
    console.print(table)
    shape = " x ".join(str(n) for n in summary["latents"]["shape"])
    console.print(Text("PSNR in dB; a patient counts once, intervals are over patients"))
    console.print(Text(f"{summary['baseline']}: made as small as the latent ({shape}), and as large again"))
    at = f"epoch {summary['best_epoch']} of {len(summary['history'])}"
    console.print(Text(f"{at} was chosen on the validation images: report those of test"))
    for note in summary["notes"]:
        console.print(Text(note), soft_wrap=True)
    console.print(Text(f"autoencoder: {trained.folder / 'autoencoder'}"), soft_wrap=True)


def show_autoencoder_plan(plan: "AutoencoderPlan", *, as_json: bool) -> None:
    """Print what training an autoencoder would take."""
    from memorisk.audits.classifier.dry_run import duration

    if as_json:
        sys.stdout.write(json.dumps(plain(asdict(plan)), indent=2, ensure_ascii=False) + "\n")
        return
    console = Console()
    for name, count in plan.parts.items():
        console.print(Text(f"{name}: {count['images']:,} images of {count['patients']:,} patients"))
    shape = " x ".join(str(n) for n in plan.latent_shape)
    console.print(Text(f"latents of {shape}, {plan.parameters:,} weights"))
    console.print(
        Text(f"at most {plan.steps:,} steps, about {duration(plan.seconds)} on this machine (training alone)")
    )
    for line in plan.cost.lines():
        console.print(Text(line))
    for note in plan.notes:
        console.print(Text(note), soft_wrap=True)


def _with_limits(interval: dict[str, Any], digits: int) -> str:
    """An estimate with its interval, or what keeps it from having one."""
    low, high = interval["low"], interval["high"]
    known = all(value is not None and value == value for value in (low, high))
    limits = f"{low:.{digits}f} to {high:.{digits}f}" if known else "too few patients"
    return f"{interval['estimate']:.{digits}f} ({limits})"
