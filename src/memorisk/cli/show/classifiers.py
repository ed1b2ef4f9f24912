"""Terminal output of classifier audits: verdict, plan, check of images, comparison, explanation."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from memorisk.cli.show.common import plain_console, print_json
from memorisk.cli.show.runs import show_screen
from memorisk.runs.errors import listed, one_line, plural

if TYPE_CHECKING:  # each command imports its own room; the others stay unloaded
    from memorisk.audits.classifier.comparison import Comparison
    from memorisk.audits.classifier.explanations.result import Explanation
    from memorisk.audits.classifier.patient_answer import PatientAnswer
    from memorisk.audits.classifier.result import DefenceResult
    from memorisk.audits.image_set.mending import Mending
    from memorisk.images.set_check.check import ImageCheck


def show_check(check: ImageCheck, out: Path | None, *, as_json: bool, redact: bool) -> None:
    """Print all findings of `images check`, or their numbers alone where names are redacted."""
    if redact:
        doubts = tuple(doubt.without_ids for doubt in check.id_doubts)
        check = replace(check, name="[redacted]", notes=(), id_doubts=doubts)
    if as_json:
        print_json(check.summary() if redact else check.to_dict())
        return
    from memorisk.images.set_check.text import render_text

    text = render_text(check, **({"shown": 0} if redact else {}))
    plain_console().print(Text("\n".join(text)), soft_wrap=True)
    if out is not None:
        plain_console().print(Text(f"Page: {out / 'report.html'}"), soft_wrap=True)


def show_mending(mending: Mending, file: Path, *, redact: bool) -> None:
    """Show what a mended table changes, what it leaves to a person, and last the next command."""
    lines = [f"mended table: {file}, {plural(len(mending.table), 'image', 'images')}; {mending.n_left_out:,} left out"]
    if mending.merged:
        sets = plural(len(mending.merged), "set", "sets")
        ids = "" if redact else f": {listed([' = '.join(names) for names in mending.merged], 5)}"
        lines.append(f"ids of one person by their form, {sets}{ids}")
    if mending.undecided:
        problems = ", ".join(f"{what}: {n:,}" for what, n in mending.undecided.items())
        lines.append(f"what only you can decide stays in the table - {problems}")
    more = "SYNTHETIC --out RUN" if mending.next_command == "audit synthetic" else "--out RUN"
    more = "" if mending.undecided else f" {more} --dry-run"
    lines.append(f"next: memorisk {mending.next_command} {shlex.quote(str(file))}{more}")
    plain_console().print(Text("\n".join(map(one_line, lines))), soft_wrap=True)


def show_comparison(comparison: Comparison, out: Path | None, *, as_json: bool) -> None:
    """Show class by class: before, after, difference with its interval."""
    if as_json:
        print_json({"per_class": comparison.per_class.to_dict("records"), "notes": comparison.notes})
        return
    from memorisk.audits.classifier.pages.comparison import comparison_screen

    show_screen(comparison_screen(comparison), {"Report": "report.html"}, out)


def show_patient_answer(answer: PatientAnswer, page: Path | None, *, as_json: bool) -> None:
    """Print what an audit says of one patient, and the place of the page."""
    if as_json:
        print_json(answer.as_json())
        return
    from memorisk.audits.classifier.pages.patient import patient_screen

    show_screen(
        patient_screen(answer), {} if page is None else {"Page": page.name}, None if page is None else page.parent
    )


def show_explanation(explanation: Explanation, out: Path, *, as_json: bool) -> None:
    """Show rho of the ratio within classes by feature space, the probes in a sentence, and the page's place."""
    if as_json:
        print_json(explanation.as_json())
        return
    from memorisk.audits.classifier.explanations.page import explanation_screen

    show_screen(explanation_screen(explanation), {"Page": "explain.html"}, out)


def show_defences(result: DefenceResult, out: Path, *, as_json: bool) -> None:
    """Show what each regime or network remembers, and how they differ."""
    if as_json:
        print_json(result.table.to_dict("records"))
        return
    from memorisk.report.kinds import load_part

    show_screen(load_part(result.axis.screen)(result), {"Report": "report.html"}, out)
