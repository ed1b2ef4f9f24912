"""``memorisk bench``, and ``memorisk plan`` for searches that are too large to try: arguments, handed on.

Loads nothing heavy until a command runs.
"""

from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

from cyclopts import App

from memorisk.audits.pair_plan_options import PairPlanOptions
from memorisk.cli.commands import COMMANDS
from memorisk.cli.settings import (
    AS_JSON,
    DRY_RUN,
    FLAT,
    PRINT_CONFIG,
    RESUMED_FOLDER,
    TABLES_ONLY,
    UNLABELLED_IMAGES,
    print_settings,
    settings_as_keywords,
    with_progress_bar,
)
from memorisk.report.kinds import load_part
from memorisk.runs.errors import MemoriskError
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.pairs.options import BenchCopiesOptions, BenchReidOptions

bench_app = App(name="bench", help=COMMANDS["bench"][1])


class BenchKind(NamedTuple):
    """A benchmark: its words, its options, and where its parts are (``package.module:name``)."""

    name: str
    help: str
    options: type[Any]
    run: str
    plan: str
    show: str
    show_plan: str


_SHOW_PAIRS = ("memorisk.cli.show.benchmarks:show_pair_benchmark", "memorisk.cli.show.benchmarks:show_pair_plan")
BENCHMARKS = (
    BenchKind(
        "detectors",
        "Compare how well detectors recognise copies of patients' images: paper 003's tables, and corrected ones.\n\n"
        "The exit code is 3 if a detector failed, or would fail in a dry run; the tables show the others.",
        BenchDetectorsOptions,
        "memorisk.studies.detectors.benchmark:benchmark_detectors",
        "memorisk.studies.detectors.benchmark:plan_benchmark",
        "memorisk.cli.show.benchmarks:show_benchmark",
        "memorisk.cli.show.benchmarks:show_plan",
    ),
    BenchKind(
        "reid",
        "Compare how well detectors tell that two images are of one patient: paper 004's tables, and corrected ones."
        "\n\nThe images need patient ids. The exit code is 3 if a detector failed; the tables show the others.",
        BenchReidOptions,
        "memorisk.studies.pairs.reid:benchmark_reid",
        "memorisk.studies.pairs.reid:plan_reid",
        *_SHOW_PAIRS,
    ),
    BenchKind(
        "copies",
        "Compare how well detectors recognise images that were blurred, turned, darkened, compressed: paper 004's "
        "figures.\n\nThe exit code is 3 if a detector failed; the tables show the others.",
        BenchCopiesOptions,
        "memorisk.studies.pairs.copies:benchmark_copies",
        "memorisk.studies.pairs.copies:plan_copies",
        *_SHOW_PAIRS,
    ),
)


def _add_benchmark(kind: BenchKind) -> None:
    """Add the command of a benchmark."""

    def command(
        images: UNLABELLED_IMAGES,
        *,
        out: RESUMED_FOLDER,
        dry_run: DRY_RUN = False,
        tables_only: TABLES_ONLY = False,
        print_config: PRINT_CONFIG = False,
        json: AS_JSON = False,
        options: Any = kind.options(),  # noqa: B008 (frozen)
    ) -> int:
        if print_config:
            return print_settings({"images": images, "out": str(out), **asdict(options)})
        settings = settings_as_keywords(options)
        if dry_run:
            plan = with_progress_bar(load_part(kind.plan), images, out=out, **settings)
            load_part(kind.show_plan)(plan, as_json=json)
            return MemoriskError.exit_code if plan.problems else 0
        result = with_progress_bar(load_part(kind.run), images, out=out, tables_only=tables_only, **settings)
        load_part(kind.show)(result, out, as_json=json)
        return 0 if result.complete else MemoriskError.exit_code

    command.__doc__ = kind.help
    command.__annotations__["options"] = Annotated[kind.options, FLAT]
    bench_app.command(command, name=kind.name)


for _kind in BENCHMARKS:
    _add_benchmark(_kind)


plan_app = App(name="plan", help=COMMANDS["plan"][1])


@plan_app.command(name="pairs")
def pairs(*, json: AS_JSON = False, options: Annotated[PairPlanOptions, FLAT]) -> int:
    """Plan a search over all pairs of two sets of vectors: pairs, operations, bytes, jobs, cards, hours.

    docs/costs.md says what is exact and what is estimated.
    """
    from memorisk.audits.pair_plan import plan_pairs
    from memorisk.cli.show.common import print_json
    from memorisk.cli.show.runs import show_plan

    plan = plan_pairs(options)
    if json:
        print_json({"asked": asdict(options), **asdict(plan)})
    else:
        show_plan(plan, as_json=False)
    return 0
