"""``memorisk bench``, and ``memorisk plan`` for searches that are too large to try: arguments, handed on.

Loads nothing heavy until a command runs.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App

from memorisk.cli.commands import COMMANDS
from memorisk.cli.settings import (
    AS_JSON,
    DRY_RUN,
    FLAT,
    PRINT_CONFIG,
    RESUMED_FOLDER,
    SWITCH,
    TABLES_ONLY,
    UNLABELLED_IMAGES,
    print_settings,
    settings_as_keywords,
    with_progress_bar,
)
from memorisk.runs.errors import MemoriskError
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.pairs.options import BenchCopiesOptions, BenchReidOptions

bench_app = App(name="bench", help=COMMANDS["bench"][1])
_DETECTORS, _REID, _COPIES = BenchDetectorsOptions(), BenchReidOptions(), BenchCopiesOptions()


@bench_app.command(name="detectors")
def detectors(
    images: UNLABELLED_IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    tables_only: TABLES_ONLY = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[BenchDetectorsOptions, FLAT] = _DETECTORS,
) -> int:
    """Compare how well detectors recognise copies of patients' images: paper 003's tables, and corrected ones.

    The exit code is 3 if a detector failed, or would fail in a dry run; the tables show the others.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.cli.show.benchmarks import show_benchmark, show_plan
    from memorisk.studies.detectors.benchmark import benchmark_detectors, plan_benchmark

    bench = _Bench(benchmark_detectors, plan_benchmark, show_benchmark, show_plan)
    return _run(bench, images, out, options, dry_run=dry_run, tables_only=tables_only, as_json=json)


@bench_app.command(name="reid")
def reid(
    images: UNLABELLED_IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    tables_only: TABLES_ONLY = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[BenchReidOptions, FLAT] = _REID,
) -> int:
    """Compare how well detectors tell that two images are of one patient: paper 004's tables, and corrected ones.

    The images need patient ids. The exit code is 3 if a detector failed; the tables show the others.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.cli.show.benchmarks import show_pair_benchmark, show_pair_plan
    from memorisk.studies.pairs.reid import benchmark_reid, plan_reid

    bench = _Bench(benchmark_reid, plan_reid, show_pair_benchmark, show_pair_plan)
    return _run(bench, images, out, options, dry_run=dry_run, tables_only=tables_only, as_json=json)


@bench_app.command(name="copies")
def copies(
    images: UNLABELLED_IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    tables_only: TABLES_ONLY = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[BenchCopiesOptions, FLAT] = _COPIES,
) -> int:
    """Compare how well detectors recognise images that were blurred, turned, darkened, compressed: paper 004's figures.

    The exit code is 3 if a detector failed; the tables show the others.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.cli.show.benchmarks import show_pair_benchmark, show_pair_plan
    from memorisk.studies.pairs.copies import benchmark_copies, plan_copies

    bench = _Bench(benchmark_copies, plan_copies, show_pair_benchmark, show_pair_plan)
    return _run(bench, images, out, options, dry_run=dry_run, tables_only=tables_only, as_json=json)


class _Bench(NamedTuple):
    """Functions of a benchmark."""

    run: Callable[..., Any]
    plan: Callable[..., Any]
    show: Callable[..., None]
    show_plan: Callable[..., None]


def _run(
    bench: _Bench, images: str, out: Path, options: object, *, dry_run: bool, tables_only: bool, as_json: bool
) -> int:
    """Run or plan a benchmark, and show it."""
    settings = settings_as_keywords(options)
    if dry_run:
        plan = with_progress_bar(bench.plan, images, out=out, **settings)
        bench.show_plan(plan, as_json=as_json)
        return MemoriskError.exit_code if plan.problems else 0
    benchmark = with_progress_bar(bench.run, images, out=out, tables_only=tables_only, **settings)
    bench.show(benchmark, out, as_json=as_json)
    return 0 if benchmark.complete else MemoriskError.exit_code


plan_app = App(name="plan", help=COMMANDS["plan"][1])


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
    workers: int = 1,
    card: str | None = None,
    rate: float | None = None,
    memory: float | None = None,
    cards: int = 1,
    share: float | None = None,
    no_timing: SWITCH = False,
    json: AS_JSON = False,
) -> int:
    """Plan a search over all pairs of two sets of vectors: pairs, operations, bytes, jobs, cards, hours.

    docs/costs.md says what is exact and what is estimated.

    Parameters
    ----------
    synthetic
        Number of synthetic images.
    train
        Number of training images; by default all pairs of the synthetic images are compared, each once.
    width
        Dimension of the vectors.
    measure
        Measure: head (that of a Siamese detector), or one of the 15 distance measures.
    neighbours
        Number of most similar images that are kept of each image.
    listed
        Most pairs above a threshold that are listed.
    bins
        Bins of a histogram of all pairs; 0 for no histogram.
    workers
        Number of processes, or of machines like this one.
    card
        GPU by its name, such as A100 or H200.
    rate
        Peak of the GPU in 1e12 float32 operations per second, instead of --card. A multiply-add counts as two.
    memory
        Memory of the GPU in GB (1e9 bytes), with --rate.
    cards
        Number of GPUs.
    share
        Share of the peak that a search reaches, as you measured it; without it the hours are a lower bound.
    no_timing
        Do not time a small search on this machine.
    """
    from memorisk.audits.pair_plan import PairPlanOptions, plan_pairs
    from memorisk.cli.show.common import print_json
    from memorisk.cli.show.runs import show_plan

    options = PairPlanOptions(
        synthetic=synthetic,
        train=train,
        width=width,
        measure=measure,
        neighbours=neighbours,
        listed=listed,
        bins=bins,
        workers=workers,
        card=card,
        rate=rate,
        memory=memory,
        cards=cards,
        share=share,
        timing=not no_timing,
    )
    plan = plan_pairs(options)
    if json:
        print_json({"asked": asdict(options), **asdict(plan)})
    else:
        show_plan(plan, as_json=False)
    return 0
