"""From a saved result to ``report.html``: used by the audits, and by ``memorisk report`` to render again."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.report.blocks import Page
from memorisk.report.earlier_verdicts import refuse_other_form, verdict_form
from memorisk.report.result import Result, refuse_changed
from memorisk.runs.errors import FULL_DISK_CODES, InputError, one_line, read_guard
from memorisk.runs.files import write_text
from memorisk.runs.folder import RunFolder, read_config
from memorisk.runs.locks import folder_lock

_BENCHMARKS = ("detectors", "reid", "copies")
REPORT, REDACTED = "report.html", "report-redacted.html"
_PAGES: Mapping[str, str] = {
    "classifier": "memorisk.audits.classifier.pages.audit:classifier_page",
    "comparison": "memorisk.audits.classifier.pages.comparison:comparison_page",
    "defences": "memorisk.audits.classifier.pages.defences:defence_page",
    "explanation": "memorisk.audits.classifier.explanations.page:explanation_page",
    "synthetic": "memorisk.audits.synthetic.page:synthetic_page",
    "filter": "memorisk.audits.filter.page:filter_page",
    "synthesize": "memorisk.audits.synthesize.page:loop_page",
    "feature": "memorisk.audits.feature.page:feature_page",
}
"""Module and function of the page by kind of result, of an audit by ``audit`` of its verdict: imported only for one."""


def write_report(run: RunFolder, result: Result, *, gallery: Mapping[str, np.ndarray] | None, redact: bool) -> Path:
    """Render the report of a classifier audit into its run folder."""
    path = run / REPORT
    write_text(path, render(_kind(result), _marked(result, run.path), gallery=gallery, redact=redact))
    return path


def render(kind: str, *found: Any, **how: Any) -> str:
    """Render a result to HTML; its page, matplotlib and jinja2 are loaded only here, where there is one to render.

    Args:
        kind: As ``audit`` of a verdict, ``comparison``, ``defences`` or ``explanation``; `classifier_page` for others.
        found: What the page is of.
        how: As its function takes it.
    """
    from memorisk.report.page import render_page

    return render_page(page_of(kind)(*found, **how))


def _marked(result: Result, folder: Path) -> Result:
    """The result with what a person said of patients of its run."""
    from memorisk.audits.classifier.marks import FILE, marked

    return result.replace(per_group=marked(result.per_group, folder)) if (folder / FILE).is_file() else result


def _kind(result: Result) -> str:
    return str(result.verdict.get("audit"))


def page_of(kind: str) -> Callable[..., Page]:
    """Import the function that lays out the page of a kind; `classifier_page` for kinds that name no other."""
    module, function = _PAGES.get(kind, _PAGES["classifier"]).split(":")
    return getattr(import_module(module), function)


def load_result(folder: Path) -> Result:
    """Return the result of a finished run.

    Raises:
        InputError: The folder holds none, its files were changed since or are damaged, or a rule of another form gave
            the verdict.
    """
    _refuse_others(folder, read_config(folder))
    if (folder / "defence.json").is_file() and not (folder / "verdict.json").is_file():
        inner = sorted(p.parent.name for p in folder.glob("*/verdict.json"))
        raise InputError(f"{one_line(folder)} holds several regimes side by side: name one of {', '.join(inner)} in it")
    refuse_changed(folder)
    try:
        result = Result.load(folder)
    except (ValueError, KeyError, TypeError, OSError) as error:  # also what JSON, Parquet and Unicode call broken
        raise InputError(
            f"{one_line(folder)} holds a damaged result ({one_line(error, 100)}): issue the run's command again"
        ) from None
    refuse_other_form(one_line(folder), _kind(result), verdict_form(result.verdict))
    return result


def _refuse_others(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse the folders of commands that are no audits, each with what to read or run instead.

    Raises:
        InputError: It is one.
    """
    made = config.get("run")
    if isinstance(made, Mapping) and made.get("benchmark") in _BENCHMARKS:
        name = f"bench {made['benchmark']}"
        raise InputError(
            f"{one_line(folder)} is a run of {name}, not of an audit: its report is {REPORT} in it, and {name} with "
            "the same settings and --tables-only writes that again"
        )
    if isinstance(made, Mapping) and made.get("audit") == "images":
        raise InputError(
            f"{one_line(folder)} is a run of images check, not of an audit: its page is {REPORT} in it, and images "
            "check with the same settings, or with --redact, writes that again"
        )
    if isinstance(made, Mapping) and made.get("audit") == "quality":
        raise InputError(
            f"{one_line(folder)} is a run of quality, not of an audit: its report is {REPORT} in it, without images "
            "and ids, and quality with the same settings writes that again"
        )
    if isinstance(made, Mapping) and "latent_channels" in made:
        raise InputError(
            f"{one_line(folder)} is a run of train autoencoder, not of an audit: what came of it stands in "
            f"training.json in it, and detectors take it as --encoder autoencoder:{one_line(folder)}"
        )
    if isinstance(made, Mapping) and {"backbone", "protocol"} <= set(made):
        raise InputError(
            f"{one_line(folder)} is a run of train detector, not of an audit: what came of it stands in training.json "
            f"in it, and audits take the detector as --features detector:{one_line(folder / 'detector')}"
        )


def render_again(folder: str | Path, *, redact: bool = False, out: Path | None = None) -> Path:
    """Render the report of a finished run once more, without its pictures.

    Args:
        folder: The run folder.
        redact: Leave out ids and images.
        out: Where to write; if not given the run's own ``report.html``, or ``report-redacted.html`` beside it.

    Returns:
        The file written.

    Raises:
        InputError: The folder holds no finished run, an earlier version of memorisk wrote it, its files are damaged, or
            ``out`` cannot be written.
    """
    run = RunFolder(Path(folder))
    with read_guard(run.path):
        result = load_result(run.path)
        html = render(_kind(result), _marked(result, run.path), redact=redact)
    if out is None and redact:
        out = run / REDACTED  # the full report stays; the next run of the audit would write it again anyway
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise InputError(f"--out {one_line(out)}: name a file in a folder that exists")
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
