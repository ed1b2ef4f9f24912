"""Terminal output of the plan of a search."""

from dataclasses import asdict

from rich.console import Console

from memorisk.audits.classifier.dry_run import duration
from memorisk.audits.pair_plan import JOB_ROWS, CardPlan, PairPlan, PairPlanOptions
from memorisk.cli.show.common import print_json, print_rows


def show_pair_search(plan: PairPlan, options: PairPlanOptions, *, as_json: bool) -> None:
    """Print a planned search over all pairs."""
    if as_json:
        document = {"asked": asdict(options), **asdict(plan)}
        print_json(document)
        return
    counts = plan.counts
    lines = [
        ("pairs", f"{counts.pairs:,}"),
        ("operations, at most", f"{plan.operations:.4g} (two for each of {counts.columns:.4g} columns of pairs)"),
        ("tables", _size(plan.input_bytes)),
        ("answers, at most", _size(plan.answer_bytes)),
        ("held by a process beside them, about", _size(plan.worker_bytes)),
        ("blocks", f"{counts.first_blocks:,} of the first table, {counts.second_blocks:,} of the second in all"),
        ("jobs for --executor", f"{plan.jobs:,} of {JOB_ROWS:,} rows"),
    ]
    if plan.pairs_per_second is not None and plan.hours_here is not None:
        lines.append(
            (
                "on machines like this one",
                f"about {duration(plan.hours_here * 3600)} by {options.workers:,} "
                f"({plan.pairs_per_second / 1e6:,.3g} million pairs a second in a search of two seconds or less)",
            )
        )
    print_rows(Console(), [*lines, *_of_cards(plan.gpu)])


def _of_cards(gpu: CardPlan | None) -> list[tuple[str, str]]:
    """Return the lines on GPUs."""
    if gpu is None:
        return []
    name = "such cards" if gpu.card.name == "own" else gpu.card.name
    stays = "both stay there" if gpu.kept else "one does not stay there, since a table may take a quarter of the memory"
    fewest = gpu.cards_for_memory
    needed = "none: the second table is too large" if fewest is None else f"{fewest:,} {name}"
    lines = [
        (
            f"on each of {gpu.cards:,} {name}",
            f"tables of {_size(gpu.table_bytes)} ({stays}), work {_size(gpu.work_bytes)}",
        ),
        ("fewest cards that keep both tables", needed),
    ]
    if gpu.sent_again_bytes:
        lines.append(("sent to each card again", _size(gpu.sent_again_bytes)))
    peak = gpu.hours_at_peak * 3600
    least = duration(peak) if peak >= 1 else f"{peak:.2g} seconds"
    lines.append(("no quicker than", f"{least}, at the peak of the data sheet"))
    if gpu.hours is None:
        lines.append(("expected", "unknown: no share of a card's peak was measured; give yours with --share"))
    else:
        lines.append(("expected", f"about {duration(gpu.hours * 3600)} at the share of the peak that you gave"))
    return lines


def _size(number: int) -> str:
    """Return the bytes in words, and exactly."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.3g} {unit} ({number:,} bytes)"
    return f"{number:,} bytes"
