"""What both benchmarks do before anything is computed: read images and detectors, divide patients, plan the cells."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.images.overlap import named_sources, refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.cost import Cost, total
from memorisk.runs.devices import check_device
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.folder import check_out
from memorisk.runs.progress import Progress
from memorisk.studies.pairs.cells import Cell, waiting
from memorisk.studies.pairs.contenders import Contender, read_contenders, reference_name
from memorisk.studies.pairs.division import TEST, VALIDATION, Division, divide
from memorisk.studies.pairs.options import Options


@dataclass(frozen=True, eq=False)
class Prepared:
    """A benchmark before anything is computed."""

    options: Options
    """As asked for."""
    store: ImageStore
    """The images."""
    contenders: list[Contender]
    """The detectors."""
    missing: dict[str, str]
    """Baselines of the paper that are not at hand, and what to give to have them."""
    division: Division
    """Who is asked about whom."""
    cells: list[Cell]
    """A detector each."""

    @property
    def reference(self) -> str:
        """Name of the detector that all others are compared with."""
        return reference_name(self.options, self.contenders)

    @property
    def division_hash(self) -> str:
        """Of the division: who is where."""
        d = self.division
        return fingerprint([d.part.tolist(), d.groups.tolist(), d.datasets.tolist()], length=16)

    @property
    def todo(self) -> list[Cell]:
        """Cells that are to be run."""
        return waiting(self.cells)


@dataclass(frozen=True)
class PairBenchPlan:
    """What a benchmark would compute."""

    cells: dict[str, bool]
    """Names of the detectors, and whether each is there already."""
    missing: dict[str, str]
    """Baselines of the paper that are not at hand, and what to give to have them."""
    images: dict[str, dict[str, int]]
    """Of each data set: images by part."""
    patients: dict[str, dict[str, int]]
    """Of each data set: patients by part."""
    cost: Cost
    """Of the detectors that are not done: images and copies that are embedded, pairs that are listed or searched."""
    notes: tuple[str, ...]
    """What must be said of the division."""


def prepare(images: str | Path, out: Path, options: Options, parts: tuple[str, ...], progress: Progress) -> Prepared:
    """Read everything, write nothing but the store of decoded images.

    Args:
        images: As for `memorisk.audit_classifier`.
        out: The run folder.
        options: Of the benchmark.
        parts: Results that each cell leaves.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The folder, a detector, the images or their split are refused.
    """
    refuse_overlap(out, named_sources({"IMAGES": images}))
    check_out(out, {}, identity=[])
    device = str(check_device(options.device))
    progress("reading the detectors", 0, 0)
    contenders, missing = read_contenders(options)
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images, options)
    store = build_store(manifest, options, progress=lambda done, total: progress("decoding images", done, total))
    division = divide(store, contenders, options)
    cells = [Cell(c, out, c.key(options, device), store, division, options, device, parts) for c in contenders]
    return Prepared(options, store, contenders, missing, division, cells)


def identity(ready: Prepared, benchmark: str, **more: Any) -> dict[str, Any]:
    """What may not change in a folder: whose images are where, and what is drawn. Detectors may come and go.

    Args:
        ready: The benchmark.
        benchmark: "reid" or "copies".
        **more: What else.
    """
    told = {"benchmark": benchmark, "data_hash": ready.store.data_hash, "division": ready.division_hash}
    return {**told, "seed": ready.options.seed, **more}


def plan_of(ready: Prepared, cost: Callable[[Cell], Cost]) -> PairBenchPlan:
    """What a prepared benchmark would compute.

    Args:
        ready: The benchmark.
        cost: Of a detector that is not done.
    """
    d = ready.division
    return PairBenchPlan(
        cells={cell.name: cell.done for cell in ready.cells},
        missing=ready.missing,
        images={name: {part: len(d.rows(part, name)) for part in (VALIDATION, TEST)} for name in d.names},
        patients={name: {part: d.patients(part, name) for part in (VALIDATION, TEST)} for name in d.names},
        cost=total([cost(cell) for cell in ready.todo]) + Cost(bytes_images=ready.store.images.nbytes),
        notes=d.notes,
    )
