"""Does a model remember a mark that it saw once? ``memorisk audit feature``.

Paper 002, "Unintended memorisation of unique features in neural networks"; METHODS section 2. The auditor has the mark
and the model's answers; not the data, the label or the weights. Published form and corrected form side by side: M and
its Welch t-test over probes, and the rank of the mark among marks like it, or of the model among models without it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memorisk.audits.feature.analysis import analyse_feature
from memorisk.audits.feature.evidence import FeatureEvidence, gather_answers
from memorisk.audits.feature.options import FeatureOptions, feature_options
from memorisk.audits.feature.page import feature_page
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.runner import REPORT, Audit, run_audit
from memorisk.report.numbers import to_json
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.files import fingerprint, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Progress, no_progress


@takes_settings(FeatureOptions)
def audit_feature(
    models: str | Sequence[str], *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> Result:
    """Audit whether models remember a mark.

    Args:
        models: A model or several that share the mark: ``module:function``, an ONNX file, or NAME@WEIGHTS, a
            network of timm or of memorisk with its weights.
        out: The run folder: new, empty, or one of the same audit to write again.
        progress: Called with (stage, done, total).
        **settings: Any field of `FeatureOptions`.

    Returns:
        The result, which is also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.

    Example:
        >>> audit_feature("net.onnx", mark="A", probes="probes/", normalise="0.13/0.31", out="runs/a")  # doctest: +SKIP
    """
    options = feature_options(settings)
    names = [models] if isinstance(models, str | Path) else list(models)
    inputs = {"models": [str(name) for name in names], "references": options.references, "probes": options.probes}
    inputs["mark"] = options.mark
    return run_audit(FeatureAudit(Path(out), options, inputs, {"the probes": options.probes}), progress)


class FeatureAudit(Audit[list[str], FeatureEvidence, Result]):
    """Audit of a mark."""

    kind = "feature"
    options: FeatureOptions

    def read(self, names: Pseudonyms, progress: Progress) -> list[str]:
        """Return the names of the models, which are loaded one after the other."""
        return list(self.given["models"])

    def collect(self, inputs: list[str], place: None, progress: Progress) -> FeatureEvidence:
        """Query every model with the mark and its controls."""
        return gather_answers(inputs, self.options, progress)

    def identity(self, evidence: FeatureEvidence) -> dict[str, Any]:
        """Return the models and the mark."""
        hidden = {"pseudonymise": True} if self.options.pseudonymise else {}
        return {"models": to_json(evidence.described), "mark": _mark_identity(evidence), **hidden}

    def write(self, run: RunFolder, evidence: FeatureEvidence, names: Pseudonyms, progress: Progress) -> Result:
        """Compute ranks and verdict, and write them with the page."""
        options = self.options
        result = names.result(analyse_feature(evidence, options))
        result.save(run.path)
        hidden = options.redact or options.pseudonymise
        marks = () if hidden or evidence.mark is None else (evidence.mark, *evidence.controls)
        write_text(run / REPORT, render_page(feature_page(result, marks, redact=options.redact)))
        return result


def _mark_identity(evidence: FeatureEvidence) -> str:
    every = (evidence.mark, *evidence.controls) if evidence.mark else ()
    return fingerprint([[one.values.tobytes(), one.alpha.tobytes(), str(one.place)] for one in every])
