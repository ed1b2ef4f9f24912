"""``memorisk bench``: arguments, handed on. Loads nothing heavy until a command runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from memorisk.audits.detectors.options import BenchDetectorsOptions
from memorisk.cli_settings import AS_JSON, FLAT, print_settings
from memorisk.runs.errors import MemoriskError
from memorisk.runs.settings import setting_names

bench_app = App(name="bench", help="Compare detectors or defences on your images, on published protocols.")
SWITCH = Annotated[bool, Parameter(negative="")]
_DETECTORS = BenchDetectorsOptions()


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
    from memorisk.audits.detectors.benchmark import benchmark_detectors, plan_benchmark
    from memorisk.console import progress_bar
    from memorisk.console_bench import show_benchmark, show_plan

    settings = {name: getattr(options, name) for name in setting_names(options)}
    if dry_run:
        with progress_bar() as progress:
            plan = plan_benchmark(images, out=out, progress=progress, **settings)
        show_plan(plan, as_json=json)
        return MemoriskError.exit_code if plan.problems else 0
    with progress_bar() as progress:
        found = benchmark_detectors(images, out=out, progress=progress, tables_only=tables_only, **settings)
    show_benchmark(found, out, as_json=json)
    return 0 if found.complete else MemoriskError.exit_code
