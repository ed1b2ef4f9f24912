"""``memorisk bench``: arguments, handed on. Loads nothing heavy until a command runs."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App

from memorisk.cli.settings import AS_JSON, FLAT, SWITCH, by_name, print_settings, with_bar
from memorisk.runs.errors import MemoriskError
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.pairs.options import BenchCopiesOptions, BenchReidOptions

if TYPE_CHECKING:  # PyTorch comes with them
    from memorisk.studies.pairs.preparing import PairBenchPlan
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
    from memorisk.cli.show.bench import show_benchmark, show_plan
    from memorisk.studies.detectors.benchmark import benchmark_detectors, plan_benchmark

    settings = by_name(options)
    if dry_run:
        plan = with_bar(plan_benchmark, images, out=out, **settings)
        show_plan(plan, as_json=json)
        return MemoriskError.exit_code if plan.problems else 0
    found = with_bar(benchmark_detectors, images, out=out, tables_only=tables_only, **settings)
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
    from memorisk.cli.show.bench import show_pair_benchmark, show_pair_plan

    settings = by_name(options)
    if dry_run:
        show_pair_plan(with_bar(plan, images, out=out, **settings), as_json=as_json)
        return 0
    found = with_bar(run, images, out=out, tables_only=tables_only, **settings)
    show_pair_benchmark(found, out, as_json=as_json)
    return 0 if found.complete else MemoriskError.exit_code
