"""``memorisk bench``, and ``memorisk plan`` for searches that are too large to try: arguments, handed on.

Loads nothing heavy until a command runs.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from memorisk.cli.settings import AS_JSON, FLAT, SWITCH, print_settings, settings_as_keywords, with_progress_bar
from memorisk.runs.errors import MemoriskError
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.pairs.options import BenchCopiesOptions, BenchReidOptions

if TYPE_CHECKING:
    from memorisk.studies.pairs.plan import PairBenchPlan
    from memorisk.studies.pairs.results import PairBenchmark

bench_app = App(name="bench", help="Compare detectors or defences on your images, on published protocols.")
_DETECTORS, _REID, _COPIES = BenchDetectorsOptions(), BenchReidOptions(), BenchCopiesOptions()


@bench_app.command(name="detectors")
def detectors(
    images: str,
    *,
    out: Path,
    dry_run: SWITCH = False,
    tables_only: SWITCH = False,
    print_config: SWITCH = False,
    json: AS_JSON = False,
    options: Annotated[BenchDetectorsOptions, FLAT] = _DETECTORS,
) -> int:
    """Which detector recognises copies of patients' images? Paper 003's tables, the corrected ones beside.

    The exit code is 3 if a detector failed, or would in a dry run; the others are in the tables.

    Parameters
    ----------
    images
        As for `audit classifier`; labels are not needed.
    out
        Run folder: new, empty, or this benchmark to go on with.
    dry_run
        Print detectors, trainings, images, pairs and weights that cannot be read, compute nothing.
    tables_only
        Lay out what is finished, compute nothing.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the leaderboard as JSON.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.cli.show.benchmarks import show_benchmark, show_plan
    from memorisk.studies.detectors.benchmark import benchmark_detectors, plan_benchmark

    settings = settings_as_keywords(options)
    if dry_run:
        plan = with_progress_bar(plan_benchmark, images, out=out, **settings)
        show_plan(plan, as_json=json)
        return MemoriskError.exit_code if plan.problems else 0
    found = with_progress_bar(benchmark_detectors, images, out=out, tables_only=tables_only, **settings)
    show_benchmark(found, out, as_json=json)
    return 0 if found.complete else MemoriskError.exit_code


@bench_app.command(name="reid")
def reid(
    images: str,
    *,
    out: Path,
    dry_run: SWITCH = False,
    tables_only: SWITCH = False,
    print_config: SWITCH = False,
    json: AS_JSON = False,
    options: Annotated[BenchReidOptions, FLAT] = _REID,
) -> int:
    """Which detector tells that two images are of one patient? Paper 004's tables, the corrected ones beside.

    The exit code is 3 if a detector failed; the others are in the tables.

    Parameters
    ----------
    images
        As for `audit classifier`; labels are not needed, patients are.
    out
        Run folder: new, empty, or this benchmark to go on with.
    dry_run
        Print detectors, patients and pairs, and baselines that are not at hand; compute nothing.
    tables_only
        Lay out what is finished, compute nothing.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the leaderboard as JSON.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.studies.pairs.reid import benchmark_reid, plan_reid

    return _pair_bench(
        benchmark_reid, plan_reid, images, out, options, dry_run=dry_run, tables_only=tables_only, as_json=json
    )


@bench_app.command(name="copies")
def copies(
    images: str,
    *,
    out: Path,
    dry_run: SWITCH = False,
    tables_only: SWITCH = False,
    print_config: SWITCH = False,
    json: AS_JSON = False,
    options: Annotated[BenchCopiesOptions, FLAT] = _COPIES,
) -> int:
    """Which detector still recognises an image that was blurred, turned, darkened or compressed? Paper 004's figures.

    The exit code is 3 if a detector failed; the others are in the tables.

    Parameters
    ----------
    images
        As for `audit classifier`; labels are not needed.
    out
        Run folder: new, empty, or this benchmark to go on with.
    dry_run
        Print detectors, patients and copies, and baselines that are not at hand; compute nothing.
    tables_only
        Lay out what is finished, compute nothing.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the leaderboard as JSON.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.studies.pairs.copies import benchmark_copies, plan_copies

    return _pair_bench(
        benchmark_copies, plan_copies, images, out, options, dry_run=dry_run, tables_only=tables_only, as_json=json
    )


def _pair_bench(
    run: Callable[..., "PairBenchmark"],
    plan: Callable[..., "PairBenchPlan"],
    images: str,
    out: Path,
    options: BenchReidOptions | BenchCopiesOptions,
    *,
    dry_run: bool,
    tables_only: bool,
    as_json: bool,
) -> int:
    """Run or plan one of the two benchmarks of pairs, and show it."""
    from memorisk.cli.show.benchmarks import show_pair_benchmark, show_pair_plan

    settings = settings_as_keywords(options)
    if dry_run:
        show_pair_plan(with_progress_bar(plan, images, out=out, **settings), as_json=as_json)
        return 0
    found = with_progress_bar(run, images, out=out, tables_only=tables_only, **settings)
    show_pair_benchmark(found, out, as_json=as_json)
    return 0 if found.complete else MemoriskError.exit_code


plan_app = App(name="plan", help="What would it cost? On paper, for sets of any size; no image is read.")


@plan_app.command(name="pairs")
def pairs(
    *,
    synthetic: int,
    train: int | None = None,
    width: int = 512,
    measure: str = "head",
    neighbours: int = 1,
    listed: int = 0,
    bins: int = 0,
    job_rows: int = 8192,
    workers: int = 1,
    card: str | None = None,
    rate: float | None = None,
    memory: float | None = None,
    cards: int = 1,
    share: float | None = None,
    no_timing: Annotated[bool, Parameter(name="--no-timing", negative="")] = False,
    json: AS_JSON = False,
) -> int:
    """Plan a search over all pairs of two sets of vectors: pairs, operations, bytes, jobs, cards, hours.

    What is exact and what is estimated is in docs/costs.md.

    Parameters
    ----------
    synthetic
        Synthetic images.
    train
        Training images; leave it out for all pairs of the synthetic images, each once.
    width
        Numbers of a vector.
    measure
        What compares: head, a Siamese detector's, or one of the 14 measures.
    neighbours
        Most similar images that are kept of each.
    listed
        Pairs above a threshold that are listed, at most.
    bins
        Of a histogram of all pairs.
    job_rows
        Rows of the first table a job.
    workers
        Processes or machines like this one.
    card
        A GPU by its name, such as A100 or H200.
    rate
        In place of a name: its peak in 1e12 float32 operations a second, a multiply-add being two.
    memory
        With --rate: its memory in GB of 1e9 bytes.
    cards
        GPUs.
    share
        Of the peak that a search reaches, as you measured it; without it the hours are a lower bound.
    no_timing
        Do not time a small search on this machine.
    json
        Print the plan as JSON.
    """
    from memorisk.audits.pair_plan import PairPlanOptions, plan_pairs
    from memorisk.cli.show.plan import show_pair_search

    options = PairPlanOptions(
        synthetic=synthetic,
        train=train,
        width=width,
        measure=measure,
        neighbours=neighbours,
        listed=listed,
        bins=bins,
        job_rows=job_rows,
        workers=workers,
        card=card,
        rate=rate,
        memory=memory,
        cards=cards,
        share=share,
        timing=not no_timing,
    )
    show_pair_search(plan_pairs(options), options, as_json=json)
    return 0
