"""Terminal output of trained generators and autoencoders, their plans, and the study of generators."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from memorisk.audits.watch.reasons import RULES
from memorisk.audits.watch.verdict import can_stop
from memorisk.cli.show.common import plain_console, plain_table, print_json, print_rows
from memorisk.cli.show.runs import print_table
from memorisk.cli.show.training import show_training_plan
from memorisk.report.columns import is_missing
from memorisk.runs.errors import one_line, plural
from memorisk.runs.workload import duration

if TYPE_CHECKING:
    import pandas as pd

    from memorisk.audits.watch.memorization_watch import MemorizationWatch
    from memorisk.audits.watch.result import Evaluation
    from memorisk.audits.watch.run import WatchPlan
    from memorisk.studies.generators.study import GeneratorsPlan
    from memorisk.training.autoencoders.command import AutoencoderPlan
    from memorisk.training.generators.command import GeneratorPlan
    from memorisk.training.generators.generation import GeneratedSet, GeneratePlan
    from memorisk.training.run import Trained

_MOST_ROWS = 12


def show_generator(trained: "Trained", *, as_json: bool) -> None:
    """Print the loss on training and held-out images from look to look, and where the generator lies."""
    summary = trained.summary
    if as_json:
        print_json(summary)
        return
    console = Console()
    rows = _thinned(summary["history"])
    lists_held_out = any(not is_missing(row["held_out_loss"]) for row in rows)  # a GAN has no such loss
    table = plain_table(("step", "training loss", *(["held-out loss"] if lists_held_out else [])))
    for row in rows:
        losses = [row["loss"], *([row["held_out_loss"]] if lists_held_out else [])]
        table.add_row(f"{row['step']:,}", *("\N{EN DASH}" if is_missing(loss) else f"{loss:.4f}" for loss in losses))
    console.print(table)
    images = summary["parts"]["training"]["images"]
    times = f"each of {images:,} training images was seen {summary['passes']:.3g} times"
    steps = plural(summary["steps"], "step", "steps")
    console.print(Text(f"{summary['name']}, {summary['parameters']:,} weights, {steps}: {times}"))
    if summary["stopped"]:
        console.print(Text(f"ended early: {one_line(summary['stopped'])}"), soft_wrap=True)
    for note in summary["notes"]:
        console.print(Text(note), soft_wrap=True)
    console.print(Text(f"generator: {trained.folder / 'generator'}"), soft_wrap=True)


def show_generator_plan(plan: "GeneratorPlan", *, as_json: bool, watch: "WatchPlan | None" = None) -> None:
    """Print what training a generator would take; as JSON with what its watch would look at, where there is one."""
    conditions = {"none": "nothing", "class": f"the class, one of {len(plan.classes)}", "vector": "a pseudo-condition"}
    sizes = (f"{name.partition('.')[0]} {_megabytes(size)}" for name, size in plan.bytes.items() if size)
    lines = [
        f"conditioned on {conditions[plan.conditioned_on]}; {plan.parameters:,} weights",
        f"{plural(plan.steps, 'step', 'steps')}, in which each training image is seen {plan.passes:.3g} times",
        f"about {duration(plan.seconds)} on this machine (training alone, without looks)",
        f"on the disk: {', '.join(sizes)}",
    ]
    show_training_plan(plan, lines, as_json=as_json, **({} if watch is None else {"watch": asdict(watch)}))


def _thinned(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most a dozen rows, evenly, the last among them."""
    every = -(-len(history) // _MOST_ROWS)
    return [row for number, row in enumerate(history, 1) if number % every == len(history) % every]


def _megabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def show_generators_plan(plan: "GeneratorsPlan") -> None:
    """Print which generators the study would train, and how long."""
    console = Console()
    counts = ("images", "patients", "held out", "steps", "epochs", "readings", "trainings", "time")
    table = plain_table(("data set", "generator", *counts), left=["generator"])
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
    for doubt in plan.doubts:
        console.print(Text(f"no share could be shown: {one_line(doubt)}"), soft_wrap=True)
    for line in plan.cost.lines():
        console.print(Text(line))
    n = plural(sum(int(row["waiting"]) for row in plan.table.to_dict("records")), "training", "trainings")
    console.print(Text(f"{n}, about {duration(plan.seconds)} on this machine (training and drawing alone)"))


_DIGITS = {"psnr": 2, "ssim": 3}


def show_autoencoder(trained: "Trained", *, as_json: bool) -> None:
    """Print one row per part and measure: what is rendered, what a resizing gives, and the difference over patients."""
    summary = trained.summary
    if as_json:
        print_json(summary)
        return
    console = Console()
    table = plain_table(("rendered", "patients", "autoencoder (95 %)", "bilinear", "difference (95 %)"))
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
    lines = [
        f"latents of {' x '.join(str(n) for n in plan.latent_shape)}, {plan.parameters:,} weights",
        f"at most {plural(plan.steps, 'step', 'steps')}, about {duration(plan.seconds)} on this machine (training "
        "alone)",
    ]
    show_training_plan(plan, lines, as_json=as_json)


def _with_limits(interval: dict[str, Any], digits: int) -> str:
    """Return an estimate with its interval, or what keeps it from having one."""
    low, high = interval["low"], interval["high"]
    finite = all(value is not None and value == value for value in (low, high))
    limits = f"{low:.{digits}f} to {high:.{digits}f}" if finite else "too few patients"
    return f"{interval['estimate']:.{digits}f} ({limits})"


def show_generated_set(generated: "GeneratedSet", *, as_json: bool) -> None:
    """Print how many images of what, and where they lie."""
    summary = generated.summary
    if as_json:
        print_json(summary)
        return
    console = Console()
    lines = [
        ("generator", f"{summary['generator']['name']} ({summary['source']})"),
        ("images", f"{summary['images']:,}"),
        *(("of each class", _counts(summary["classes"])) for _ in range(bool(summary["classes"]))),
        *(("note", note) for note in summary["notes"]),
        ("set", str(generated.folder)),
    ]
    print_rows(console, lines)


def show_generate_plan(plan: "GeneratePlan", *, as_json: bool) -> None:
    """Print what drawing a set would take."""
    if as_json:
        print_json(asdict(plan))
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
    print_rows(console, lines)


def _counts(classes: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in classes.items())


def show_table_three(table: "pd.DataFrame", *, as_json: bool) -> None:
    """Show paper 004's table 3."""
    from memorisk.audits.synthesize.table_three import table_three_table  # here, since it loads networks

    if as_json:
        print_json(table.to_dict(orient="records"))
    else:
        print_table(plain_console(), table_three_table(table))


def show_evaluation(look: "Evaluation") -> None:
    """Print one line per look as soon as the look is over."""
    Console().print(Text(look.words), soft_wrap=True)


def show_watch_within(watch: "MemorizationWatch") -> None:
    """Print what a watch within a training says: its last look, whether and why it ended it, its rule, its report."""
    console, result = Console(), watch.result()
    looks, stop = result.looks, result.stop
    console.print(Text(f"watch: {looks[-1].words}" if looks else "watch: nothing was looked at"), soft_wrap=True)
    if stop is not None and not looks[-1].go_on:
        by_pixels = "drawn images are training images"
        because = by_pixels if looks[-1].same_pixels else RULES[result.options.stop_on]
        outcome = f"it stopped the training at step {looks[-1].step:,}: {because}"
    elif can_stop(result):
        outcome = "it did not stop the training"
    else:
        outcome = "it could not have stopped the training"
    console.print(Text(f"watch: {outcome}"), soft_wrap=True)
    if looks:
        console.print(Text(f"watch: {result.headline}"), soft_wrap=True)
    console.print(Text(f"watch: {result.rule}"), soft_wrap=True)
    for note in result.notes:
        console.print(Text(f"watch: {note}"), soft_wrap=True)
    if (report := watch.report()) is not None:
        console.print(Text(f"watch: {report}"), soft_wrap=True)
