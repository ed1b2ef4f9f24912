"""Frame of every audit: refusals before any work, a held run folder, pseudonyms, stages, resuming, a log.

An audit is a class that derives from `Audit` and says what is its own: what it reads, what it plans, what it computes
before its run folder is made, what identifies the run, and what it writes. `run_audit` calls these steps in order. An
audit that is refused leaves its folder as it was.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.sources.overlap import path_sources, refuse_overlap
from memorisk.report.quantities import opening
from memorisk.runs.environment import machine, versions
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.folder import RunFolder, announced, check_out_folder, open_run
from memorisk.runs.workload import Progress

REPORT = "report.html"
InputsT = TypeVar("InputsT")
EvidenceT = TypeVar("EvidenceT")
OutcomeT = TypeVar("OutcomeT")


@dataclass
class Audit(Generic[InputsT, EvidenceT, OutcomeT]):
    """Audit of one kind; methods in the order in which `run_audit` calls them.

    Attributes:
        kind: Name of the kind, as in `memorisk.report.kinds.KINDS`.
        out: The run folder.
        options: Settings of the audit, of a dataclass that derives from `PseudonymOptions`.
        given: Arguments other than the settings, as ``config.yaml`` holds them: sources of images, models or tables.
        sources: Sources of images by their names in messages; the run folder must not overlap with any.
        dry_run: Whether to return the plan, and to write nothing.
    """

    kind: ClassVar[str]
    out: Path
    options: Any
    given: Mapping[str, Any]
    sources: Mapping[str, Any]
    dry_run: bool = False

    @property
    def places(self) -> Mapping[str, Any]:
        """Return the sources with a place on the disk; by default those named by text, since others are in memory."""
        return path_sources(self.sources)

    def workplace(self, progress: Progress) -> AbstractContextManager[Any]:
        """Open the place where the audit computes, until its run is finished; this process by default.

        Args:
            progress: Called with (stage, done, total).
        """
        return nullcontext()

    def read(self, names: Pseudonyms, progress: Progress) -> InputsT:
        """Read the inputs, and refuse everything that can be refused before long work.

        Args:
            names: Pseudonyms of the run.
            progress: Called with (stage, done, total).

        Raises:
            InputError: An input or a setting is refused.
        """
        raise NotImplementedError

    def plan(self, inputs: InputsT, place: Any, progress: Progress) -> Any:
        """Plan the audit, with its cost; arguments as for `collect`."""
        raise NotImplementedError

    def open_with(self, inputs: InputsT, place: Any, progress: Progress) -> Any:
        """Return the plan that the run shows before `collect`; by default none. Arguments as for `collect`."""
        return None

    def collect(self, inputs: InputsT, place: Any, progress: Progress) -> EvidenceT:
        """Compute what identifies the run, and everything else that may still be refused; by default nothing.

        Args:
            inputs: Inputs that `read` returned.
            place: Workplace, opened.
            progress: Called with (stage, done, total).
        """
        return cast("EvidenceT", inputs)

    def identity(self, evidence: EvidenceT) -> Mapping[str, Any]:
        """Return the settings and inputs that a later command may not change in a run folder."""
        raise NotImplementedError

    def finished(self, run: RunFolder) -> OutcomeT | None:
        """Return the outcome of a finished run that is not written again; None where it is."""
        return None

    def started(self, evidence: EvidenceT) -> Mapping[str, Any]:
        """Return what the log notes of the start, besides versions and machine."""
        return {}

    def write(self, run: RunFolder, evidence: EvidenceT, names: Pseudonyms, progress: Progress) -> OutcomeT:
        """Measure, judge, and write tables, report and, last, the file that says that the run is whole.

        Args:
            run: The run folder.
            evidence: Evidence that `collect` returned.
            names: Pseudonyms, which know the paths of this run.
            progress: Called with (stage, done, total).
        """
        raise NotImplementedError


def run_audit(audit: Audit[Any, Any, OutcomeT], progress: Progress) -> OutcomeT | Any:
    """Run an audit in its folder, continue or repeat a run that is there, or return the plan of a dry run.

    Args:
        audit: The audit.
        progress: Called with (stage, done, total).

    Raises:
        InputError: An input, a setting or the folder is refused; nothing was written.
        MemoriskError: The work failed; what is done is kept.
    """
    out, options = audit.out, audit.options
    refuse_overlap(out, audit.places)
    if not audit.dry_run:
        check_out_folder(out, {}, identity=[])
        if isinstance(options, ClusterOptions):
            options.reach_cluster()
    names = Pseudonyms.from_options(audit.options)
    with audit.workplace(progress) as place:
        with nullcontext(progress) if audit.dry_run else announced(out, audit.kind, progress) as noted:
            inputs = audit.read(names, noted)
            if audit.dry_run:
                return audit.plan(inputs, place, noted)
            if (plan := audit.open_with(inputs, place, noted)) is not None:
                noted(opening(plan), 0, 0)
            evidence = audit.collect(inputs, place, noted)
        identity = {"audit": audit.kind, **audit.identity(evidence), **names.identity}
        config = {**audit.given, "out": str(out), **asdict(audit.options), "run": identity}
        names = names.knowing(config, *audit.given)
        with open_run(out, names.settings(config), identity=["run"]) as run:
            if (outcome := audit.finished(run)) is not None:
                return outcome
            run.log("started", versions=versions(), machine=machine(), **audit.started(evidence))
            outcome = audit.write(run, evidence, names, run.noting(progress))
            status = getattr(outcome, "status", None)
            run.log("finished", **({} if status is None else {"status": status}))
    return outcome
