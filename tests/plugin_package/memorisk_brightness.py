"""An audit that a package beside memorisk brings: are the images of a set too bright?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.release.integrity import FinishedAudit
from memorisk.audits.runner import REPORT, Audit, run_audit
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.report.blocks import Page, Paragraph
from memorisk.report.options import ReportOptions
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.report.statements.statement import AuditStatement, Method, StatedReason, Subject
from memorisk.runs.files import write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.verdicts.reasons import FAIL, SUPPORT, Reason, Words, verdict_reasons


class Dark(Reason, code="dark-set", bears_on=SUPPORT):
    """Mean grey value below the limit."""

    mean: float
    text = Words("mean {mean:.1f}")
    plain = Words("the images are dark")


class Bright(Dark, code="bright-set", bears_on=FAIL):
    """Mean grey value at or above the limit."""

    plain = Words("the images are too bright")


@dataclass(frozen=True, kw_only=True)
class BrightnessOptions(ReportOptions, ImageOptions):
    """Options of the audit."""

    limit: float = 128.0
    """Mean grey value from which on the set fails."""
    fail_on: Literal["bright", "never"] = "bright"
    """Fail if the set is bright; never: the exit code is 0 whatever the result."""


class BrightnessAudit(Audit[ImageStore, ImageStore, Result]):
    """Audit of the mean grey value of a set."""

    kind = "brightness"
    options: BrightnessOptions

    def read(self, names: Pseudonyms, progress: Progress) -> ImageStore:
        """Decode the images."""
        return build_store(load_manifest(self.given["images"], self.options), self.options)

    def plan(self, inputs: ImageStore, place: None, progress: Progress) -> Any:
        """Count the images."""
        return {"images": len(inputs.images)}

    def identity(self, evidence: ImageStore) -> dict[str, Any]:
        """Return the images and the limit."""
        return {"images": evidence.data_hash, "limit": self.options.limit}

    def write(self, run: RunFolder, evidence: ImageStore, names: Pseudonyms, progress: Progress) -> Result:
        """Compare the mean with the limit."""
        means = evidence.images.reshape(len(evidence.images), -1).mean(axis=1)
        bright = means.mean() >= self.options.limit
        reason = (Bright if bright else Dark)(mean=float(means.mean()))
        per_image = pd.DataFrame({"image": evidence.manifest.images.astype(str), "mean": means})
        verdict = {
            "audit": self.kind, "status": "fail" if bright else "pass", "gate": self.options.fail_on,
            **verdict_reasons([reason]), "what_would_decide": [], "schema": 1, "mean": reason.mean,
        }  # fmt: skip
        result = names.result(Result(per_image=per_image, verdict=verdict))
        result.save(run.path)
        write_text(run / REPORT, render_page(brightness_page(result, redact=self.options.redact)))
        return result


@takes_settings(BrightnessOptions)
def audit_brightness(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, dry_run: bool = False, **settings: Any
) -> Any:
    """Audit whether a set of images is too bright.

    Args:
        images: As for `memorisk.audit_classifier`.
        out: The run folder.
        progress: Called with (stage, done, total).
        dry_run: Count the images.
        **settings: Any field of `BrightnessOptions`.
    """
    options = settings_of(BrightnessOptions, settings)
    given = {"images": str(images)}
    return run_audit(BrightnessAudit(Path(out), options, given, {"IMAGES": images}, dry_run), progress)


def brightness_page(result: Result, *, redact: bool) -> Page:
    """Lay out the page."""
    return Page(title="Brightness", lead=[Paragraph(result.why[0])], sections=[], redacted=redact)


def describe_brightness(run: FinishedAudit) -> AuditStatement:
    """Describe a finished run for a statement."""
    v = run.verdict
    return AuditStatement(
        kind="brightness", question="Is the set too bright?", status=v["status"], gate=v["gate"],
        reasons=tuple(map(StatedReason.of, v["reasons"])), what_would_decide=(),
        subject=Subject(what="images", why="Only greys are compared."), data=(), units="images",
        n_units=None, n_models=None, level=None, correction="no correction: one number", figures=(),
        not_examined=(), assumptions=(), limits=(), method=Method(name="mean", source="a test", page="extending.md"),
        seeds=(), settings={"limit": run.config["limit"]}, versions={}, run_sha256=run.sha256,
    )  # fmt: skip
