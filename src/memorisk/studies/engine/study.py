"""Run a study from its folder to its page: run cells, read what is finished, write tables and page."""

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import pandas as pd

from memorisk.images.sources.overlap import path_sources, refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.report.blocks import Page
from memorisk.report.page import render_page
from memorisk.report.quantities import Quantity, opening
from memorisk.runs.environment import check_device, machine, versions
from memorisk.runs.errors import RESUME_HINT, InputError, MemoriskError, one_line, plural
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.files import write_table, write_text
from memorisk.runs.folder import RunFolder, check_out_folder, open_run
from memorisk.runs.workload import Cost, Progress
from memorisk.studies.engine.tables import MOST_ROWS, TABLES, StudyTable, table_frames, tables_markdown

REPORT = "report.html"
NOT_RUN_YET = "not run yet"
"""Reason why a cell that did not fail is not there."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FinishedStudy:
    """Tables of a finished study, and its failed cells."""

    tables: list[StudyTable]
    """Tables of the study, in their order."""
    failed: dict[str, str]
    """Reasons why cells are not there, by name."""
    any_finished: bool = True
    """Whether a cell is finished; True where a study does not know."""
    folder: Path | None = None
    """Folder of the study."""

    def __repr__(self) -> str:
        """Say what is finished, and where the report is."""
        report = "" if self.report_path is None else f"; report: {self.report_path}"
        return f"{type(self).__name__}({self.sentence}{report})"

    def _repr_html_(self) -> str:
        """Show in a notebook what is finished, the first table that holds something, and where the report is."""
        parts = [f"<p><strong>{html.escape(self.sentence)}</strong></p>"]
        filled = [table for table in self.tables if not table.why_empty]
        for table in filled[:1]:
            frame = table.paper if len(table.paper.columns) else table.ours
            written = frame.head(MOST_ROWS).to_html(index=False, border=0)  # pandas escapes what users named
            parts.append(f"<p>{html.escape(table.heading)}</p>{written}")
        if others := [table.name for table in filled[1:]]:
            parts.append(f"<p>More by <code>.table(name)</code>: {html.escape(', '.join(others))}</p>")
        if self.report_path is not None:
            parts.append(f"<p>Report: <code>{html.escape(str(self.report_path))}</code></p>")
        return f"<div>{''.join(parts)}</div>"

    @property
    def sentence(self) -> str:
        """Say how many tables hold something, and why cells are not there."""
        n = sum(not table.why_empty for table in self.tables)
        tables = f"{n} of {plural(len(self.tables), 'table', 'tables')} filled"
        if not self.failed:
            return f"complete, {tables}"
        first, why = next(iter(self.failed.items()))
        more = f"; and {len(self.failed) - 1} more in .failed" if len(self.failed) > 1 else ""
        missing = plural(len(self.failed), "cell is", "cells are")
        return f"{missing} missing, {tables}: {one_line(first, 100)}: {one_line(why, 200)}{more}"

    @property
    def report_path(self) -> Path | None:
        """Return the report in the study's folder; None where there is none."""
        path = None if self.folder is None else self.folder / REPORT
        return path if path is not None and path.is_file() else None

    @property
    def complete(self) -> bool:
        """Return whether nothing failed."""
        return not self.failed

    def table(self, name: str) -> StudyTable:
        """Return the table of a name."""
        return next(table for table in self.tables if table.name == name)


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """Report of a finished study."""

    page: Page
    """Page of the study."""
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Further numbers that belong to no table, by the name of their file."""
    opening: Sequence[str] = ()
    """Paragraphs of Markdown before the tables."""


@dataclass(frozen=True, kw_only=True)
class CellsPlan:
    """Cells of a study, as its run shows them at its start."""

    n_cells: int
    """Number of cells."""
    n_finished: int
    """Number of cells with a result."""
    cost: Annotated[Cost | None, Quantity("work", opening=2, missing="each cell states its own when it begins")]
    """Cost of the cells that are not finished; None where only each cell knows its own."""
    problems: Annotated[tuple[str, ...], Quantity("will fail", opening=3)] = ()
    """Names of the cells that cannot run, with the reasons."""

    @property
    def cells(self) -> Annotated[str, Quantity("cells", opening=1)]:
        """Count the cells, and those that are finished."""
        finished = f", of which {plural(self.n_finished, 'is', 'are')} finished" if self.n_finished else ""
        return f"{self.n_cells:,}{finished}"


Finished = TypeVar("Finished", bound=FinishedStudy)


class Study(ABC, Generic[Finished]):
    """A study in its folder: what it reads, which cells it has, and what is made of them."""

    out: Path
    """Folder of the study."""
    clusters: Iterable[ClusterOptions]
    """Places where its cells run."""
    settings: Mapping[str, Any]
    """Settings as the folder's ``config.yaml`` holds them."""
    identity: Mapping[str, Any] | None = None
    """Settings that the folder fixes; cells may be added. None until `prepare` has read what they depend on."""
    sources: Mapping[str, Any] = {}
    """Images that the folder may not overlap, by what they are."""

    def prepare(self, progress: Progress) -> None:
        """Read the images and plan the cells; nothing is written but stores of decoded images."""

    def check(self, progress: Progress) -> None:
        """Refuse cells that cannot run, before anything is written."""

    @abstractmethod
    def cells_plan(self) -> CellsPlan:
        """Count the cells and their work, for the start of the run."""

    @abstractmethod
    def run(self, run: RunFolder, progress: Progress) -> None:
        """Run the cells that are not done."""

    @abstractmethod
    def read(self) -> Finished:
        """Compute every number from what is finished."""

    @abstractmethod
    def report(self, result: Finished) -> StudyReport:
        """Lay the numbers out."""


class ImageStudy(Study[Finished]):
    """Study of one source of images.

    Args:
        images: Source of the images, as the user named it.
        out: Folder of the study.
        options: Options of the study: those of images, those of a cluster, and its own.
    """

    def __init__(self, images: str | Path, out: str | Path, options: Any) -> None:
        self.images, self.out, self.options, self.clusters = images, Path(out), options, [options]
        self.settings = {"images": str(images), "out": str(out), **asdict(options)}
        self.sources = path_sources({"IMAGES": images})
        self.device = str(check_device(options.device))

    def prepare(self, progress: Progress) -> None:
        """Decode the images."""
        progress("reading the manifest", 0, 0)
        manifest = load_manifest(self.images, self.options)
        self.store = build_store(manifest, self.options, progress=partial(progress, "decoding images"))


AnyStudy = TypeVar("AnyStudy", bound=Study[Any])


def open_study(study: AnyStudy, progress: Progress, *, check: bool = True) -> AnyStudy:
    """Return a study with its images read and its cells planned, in a folder that can be its own.

    Args:
        study: Study to open.
        progress: Function that is called with (stage, done, total).
        check: Whether cells that cannot run are refused.

    Raises:
        InputError: The folder is another study's or holds its images, or images are refused; nothing was written.
    """
    refuse_overlap(study.out, study.sources)
    _check_folder(study)
    study.prepare(progress)
    _check_folder(study)
    if check:
        study.check(progress)
    return study


def _check_folder(study: Study[Any]) -> None:
    fixed = {} if study.identity is None else {"run": study.identity}
    check_out_folder(study.out, fixed, identity=list(fixed))


def run_study(study: Study[Finished], progress: Progress, *, tables_only: bool) -> Finished:
    """Run a study, or resume it, and lay out its tables and its page.

    Args:
        study: Study to run.
        progress: Function that is called with (stage, done, total).
        tables_only: Run nothing; lay out what is finished.

    Raises:
        InputError: The study is refused; nothing was written.
        MemoriskError: The run broke, or every cell failed; what is done is kept.
    """
    if tables_only and not study.out.is_dir():
        raise InputError(f"--out {one_line(study.out)} is not there: what was never run has no tables")
    for cluster in () if tables_only else study.clusters:
        cluster.reach_cluster()
    open_study(study, progress, check=not tables_only)
    with open_run(study.out, {**study.settings, "run": study.identity}, identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        if not tables_only:
            plan = study.cells_plan()
            if plan.n_finished < plan.n_cells:
                progress(opening(plan), 0, 0)
            study.run(run, progress)
        progress("laying out the tables", 0, 0)
        result = study.read()
        report = study.report(result)
        folder = run.subfolder(TABLES)
        for name, frame in {**report.frames, **table_frames(result.tables)}.items():
            if len(frame.columns):
                write_table(folder / f"{name}.parquet", frame)
        write_text(folder / f"{TABLES}.md", tables_markdown(result.tables, report.opening))
        write_text(run / REPORT, render_page(report.page))
        object.__setattr__(result, "folder", study.out)
        run.log("finished", failed=result.failed)
    if result.failed and not result.any_finished and not tables_only:
        first, why = next(iter(result.failed.items()))
        more = len(result.failed) - 1
        others = f" ({plural(more, 'other cell', 'other cells')}: {one_line(study.out / REPORT)})" if more else ""
        raise MemoriskError(f"every cell of the study failed; {one_line(first, 100)}: {why}{others}; {RESUME_HINT}")
    return result
