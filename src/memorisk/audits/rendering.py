"""Rendering of a saved result to ``report.html``, by the audits, and again by ``memorisk report``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.arms import refuse_comparison
from memorisk.report.kinds import kind_of, load_part, named_kind
from memorisk.report.result import Result, refuse_changed
from memorisk.report.verdict_forms import refuse_other_form, verdict_form
from memorisk.runs.errors import FULL_DISK_CODES, InputError, one_line, read_guard
from memorisk.runs.files import write_text
from memorisk.runs.folder import RunFolder, read_config
from memorisk.runs.locks import folder_lock

_GENERATOR, _HEAD = '<meta name="generator" content="memorisk">', 4096
"""Mark of a page that memorisk wrote, in so many of its first letters."""
REPORT, REDACTED, PLAIN = "report.html", "report-redacted.html", "report-without-images.html"
COMPARISON_PAGE = "memorisk.audits.classifier.pages.comparison:comparison_page"
EXPLANATION_PAGE = "memorisk.audits.classifier.explanations.page:explanation_page"
"""Places of the pages of results that are of several runs, or that lie in a run."""
_TRAININGS = {
    "autoencoder": "detectors take it as --encoder autoencoder:{folder}",
    "detector": "audits take the detector as --features detector:{folder}/detector",
    "generator": "synthesize and generate take the generator as {folder}/generator",
}
"""Use of what a training leaves, by its kind."""


def write_report(run: RunFolder, result: Result, *, pictures: Mapping[str, np.ndarray] | None, redact: bool) -> Path:
    """Render the report of a classifier audit into its run folder."""
    path = run / REPORT
    write_text(path, render(page_of(result), _marked(result, run.path), pictures=pictures, redact=redact))
    return path


def render(page: str, *found: Any, **how: Any) -> str:
    """Render a result to HTML; its page, matplotlib and jinja2 are loaded only here, where there is one to render.

    Args:
        page: Place of the function that lays out the page, as `RunKind.page`.
        found: Results that the page shows.
        how: Keyword arguments of that function.
    """
    from memorisk.report.page import render_page

    return render_page(load_part(page)(*found, **how))


def _holds_images(report: Path) -> bool:
    """Say whether a report states that it holds images."""
    from memorisk.report.page import states_images

    return report.is_file() and states_images(report.read_text(encoding="utf-8", errors="replace"))


def _marked(result: Result, folder: Path) -> Result:
    """Return the result with a person's judgements of patients of its run."""
    from memorisk.audits.classifier.marks import FILE, marked

    return result.replace(per_group=marked(result.per_group, folder)) if (folder / FILE).is_file() else result


def _pictures(result: Result, folder: Path) -> Any:
    """Make the pictures of a finished run's page from the images that it read.

    Raises:
        InputError: The page shows none, they may not be shown, or they are not where the run read them.
    """
    from memorisk.audits.run_images import CLASSIFIED_SOURCES, SOURCES, RunImages

    kind = kind_of(result.verdict.get("audit"))
    if not kind.pictures:
        raise InputError(
            f"{one_line(folder)} is a run of {kind.command}: the images that its report could show are in no file; "
            "leave out --gallery"
        )
    images = RunImages(folder, read_config(folder), {**CLASSIFIED_SOURCES, **SOURCES})
    if not images.allowed:
        raise InputError(f"{one_line(folder)} was made with --redact, and its report shows no images")
    try:
        return load_part(kind.pictures)(result, images.part)
    except InputError as error:
        raise InputError(
            f"{one_line(folder)}: its images cannot be shown ({error}); put them back where the run read them, or "
            "leave out --gallery"
        ) from None


def page_of(result: Result) -> str:
    """Return the place of the page of a result, by the audit that its verdict names."""
    return kind_of(result.verdict.get("audit")).page


def load_result(folder: Path) -> Result:
    """Return the result of a finished run.

    Raises:
        InputError: The folder holds none, its files were changed since or are damaged, or a rule of another form gave
            the verdict.
    """
    _refuse_others(folder, read_config(folder))
    refuse_comparison(folder)
    refuse_changed(folder)
    try:
        result = Result.load(folder)
    except (ValueError, KeyError, TypeError, OSError) as error:  # also what JSON, Parquet and Unicode call broken
        raise InputError(
            f"{one_line(folder)} holds a damaged result ({one_line(error, 100)}): issue the run's command again"
        ) from None
    refuse_other_form(one_line(folder), str(result.verdict.get("audit")), verdict_form(result.verdict))
    return result


def _refuse_others(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse the folders of commands that do not audit, each with what to read or run instead.

    Raises:
        InputError: It is one.
    """
    settings, name = config.get("run"), one_line(folder)
    settings = settings if isinstance(settings, Mapping) else {}
    if "benchmark" in settings:
        bench = f"bench {one_line(settings['benchmark'], 20)}"
        raise InputError(
            f"{name} is a run of {bench}, not of an audit: its report is {REPORT} in it, and {bench} with the same "
            "settings and --tables-only writes that again"
        )
    if "train" in settings:
        use = _TRAININGS.get(str(settings["train"]), "").format(folder=name)
        raise InputError(
            f"{name} is a run of train {one_line(settings['train'], 20)}, not of an audit: what came of it stands in "
            f"training.json in it{use and f', and {use}'}"
        )
    kind = kind_of(named_kind(config))
    if kind.written_again:
        raise InputError(f"{name} is a run of {kind.command}, not of an audit: {kind.written_again}")


def refuse_no_page(out: Path, *, option: str = "--out", inside: bool = False, mark: str = _GENERATOR) -> None:
    """Refuse a path where no page can be written, or where one would take the place of another file.

    Args:
        out: Path of the page.
        option: Option that names it.
        inside: Whether the page lies in a folder that the command makes.
        mark: Text near the start of a page that may be replaced.

    Raises:
        InputError: It does not end in .html, is a folder, lies in none, or is a file that memorisk did not write.
    """
    called = f"{option} {one_line(out)}"
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{called}: name a file that ends in .html")
    if out.is_dir() or not (inside or out.absolute().parent.is_dir()):
        raise InputError(f"{called}: name a file in a folder that exists")
    if out.is_file() and mark not in out.read_text(encoding="utf-8", errors="replace")[:_HEAD]:
        raise InputError(f"{called} is another file: name a new one, or a page of memorisk, which is replaced")


def render_again(folder: str | Path, *, redact: bool = False, gallery: bool = False, out: Path | None = None) -> Path:
    """Render the report of a finished run once more.

    Args:
        folder: The run folder.
        redact: Leave out ids and images.
        gallery: Show images, read from where the run read them.
        out: File to write; if not given the run's own ``report.html``, ``report-without-images.html`` next to one that
            holds images, or ``report-redacted.html``.

    Returns:
        The file written.

    Raises:
        InputError: The folder holds no finished run, an earlier version of memorisk wrote it, its files are damaged,
            its images may not be shown or are not found, or ``out`` cannot be written.
    """
    if gallery and redact:
        raise InputError("--gallery shows images and --redact leaves them out: name one of them")
    run = RunFolder(Path(folder))
    with read_guard(run.path):
        result = load_result(run.path)
        pictures = {"pictures": _pictures(result, run.path)} if gallery else {}
        html = render(page_of(result), _marked(result, run.path), redact=redact, **pictures)
    if out is None and redact:
        out = run / REDACTED  # the full report stays; the next run of the audit would write it again anyway
    if out is None and not gallery and _holds_images(run / REPORT):
        out = run / PLAIN  # its images were drawn while the run was made, and would be lost
    if out is not None:
        refuse_no_page(out)
    try:
        if out is None:
            with folder_lock(run.path):
                write_text(run / REPORT, html)
        else:
            write_text(out, html)
    except OSError as error:
        if error.errno in FULL_DISK_CODES:
            raise
        reason, file = one_line(error.strerror or error, 120), one_line(out or run / REPORT)
        raise InputError(f"{file} cannot be written ({reason}): name another file with --out FILE") from None
    return out or run / REPORT
