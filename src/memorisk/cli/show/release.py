"""Terminal output of statements, and of runs that were logged."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from memorisk.cli.show.common import print_json
from memorisk.report.statements.statement import HEADLINES, WAYS
from memorisk.runs.errors import one_line, plural

if TYPE_CHECKING:  # image libraries come with it
    from pathlib import Path

    from memorisk.audits.release.export import Export
    from memorisk.audits.release.tracking import TrackedRun
    from memorisk.report.statements.statement import Statement

_MOST = 6


def show_statement(statement: "Statement", folder: "Path | None", page: "Path | None", *, as_json: bool) -> None:
    """Show the joint verdict, each run's own, what it is tied to, and where the files lie; of a page, it alone."""
    if as_json:
        print_json(statement.as_json())
        return
    console, verdict = Console(), statement.verdict
    console.print(Text(HEADLINES[verdict.status].upper(), style="bold"))
    lines = [*_shortened(verdict.why), *(f"Contradiction: {one.text}" for one in verdict.contradictions)]
    if verdict.status != "pass":
        lines += [f"{WAYS[verdict.status]}: {text}" for text in _shortened(verdict.what_would_decide)]
    for number, audit in enumerate(statement.audits, 1):
        tied = "tied to what it looked at" if audit.subject.sha256 else "tied to no file"
        lines.append(f"Run {number}: {audit.kind}, {audit.status}, {tied}. {audit.subject.why}".strip())
    lines += [
        f"Released: {one.what}, {plural(one.files, 'file', 'files')}, sha256 {one.sha256}" for one in statement.released
    ]
    for line in (
        *lines,
        *([] if folder is None else [f"Statement: {folder / 'privacy-statement.json'}"]),
        *([] if folder is None else [f"Card: {folder / 'model-card.md'}"]),
        *([] if page is None else [f"Page: {page}"]),
    ):
        console.print(Text(line), soft_wrap=True)


def _shortened(texts: tuple[str, ...]) -> list[str]:
    """Return the first of many sentences; the files have all of them."""
    more = [f"and {len(texts) - _MOST:,} more"] if len(texts) > _MOST else []
    return [*texts[:_MOST], *more]


def show_export(export: "Export", *, as_json: bool) -> None:
    """Show what was written, and what stays behind."""
    if as_json:
        print_json(vars(export))
        return
    console = Console()
    what = f"{plural(export.images, 'image', 'images')} and metadata.csv" if export.images else "The tensors"
    console.print(Text(f"{what} written to {export.out}, and nothing else."), soft_wrap=True)
    if export.labels_left:
        which = plural(export.labels_left, "image", "images")
        console.print(Text(f"Left behind: labels of {which}, which no training image has"), soft_wrap=True)
    if export.labels_left_out:
        console.print(Text(f"Left behind: all labels, because {export.labels_left_out}"), soft_wrap=True)
    if export.frames_left:
        console.print(Text(_frames(export.frames_left)), soft_wrap=True)
    for path, reason in export.left.items():  # all of them: this is what a reader must check
        console.print(Text(f"Left behind: {one_line(path, 100)} ({reason})"), soft_wrap=True)
    for name in export.suspicious:
        console.print(Text(f"Left behind: {one_line(name, 100)} (the review names it)"), soft_wrap=True)
    if export.suspicious:
        text = (
            "This is another set than the audited one: audit it before it is released, by another detector "
            "(--detector). The one that was used overlooks again what it overlooked."
        )
        console.print(Text(text), soft_wrap=True)


def _frames(files: dict[str, int]) -> str:
    """Return how many frames stay behind, and the first files that hold them."""
    first = ", ".join(f"{one_line(path, 60)}: {n:,}" for path, n in [*files.items()][:_MOST])
    more = f", and {len(files) - _MOST:,} more" if len(files) > _MOST else ""
    return (
        f"Left behind: {plural(sum(files.values()), 'further frame or page', 'further frames, pages or slices')} of "
        f"{plural(len(files), 'file', 'files')} ({first}{more}). --frames all writes them, too, where the audit looked "
        "at them with the same setting; --json lists all of these files."
    )


def show_tracking(runs: "list[TrackedRun]", *, as_json: bool) -> None:
    """Print one line per run and tracker."""
    if as_json:
        print_json([vars(one) for one in runs])
        return
    console = Console()
    for one in runs:
        how = "logged" if one.new else "was logged before"
        console.print(Text(f"{one.run}: {how} to {one.to} ({one.figures:,} figures)"), soft_wrap=True)
