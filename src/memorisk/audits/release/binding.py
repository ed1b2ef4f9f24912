"""Binding of a run to the files that it looked at, found again by their content and never by their names.

* An audit of weights noted the SHA-256 of the only file that holds the tensors that ran, and nothing else
  (`memorisk.models.released_weights`).
* The audit of a set noted hashes of the pixels that it compared: the folder must be what ``memorisk release`` writes of
  these (`memorisk.audits.release.released_images`).
* A filter or a loop ends with such an audit of what it kept, and is tied to it; without one, to nothing.
* Other runs do not audit files, and are tied to none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memorisk.audits.classifier.attack_numbers import TargetAudit
from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.audits.compared_images import ComparedImages
from memorisk.audits.feature.result import FeatureVerdict
from memorisk.audits.filter.result import AUDIT, KEPT
from memorisk.audits.release.integrity import FinishedAudit
from memorisk.audits.release.released_images import read_released
from memorisk.report.kinds import kind_of
from memorisk.report.statements.statement import Released, Subject
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError
from memorisk.runs.workload import Progress, no_progress

_NAME_THEM = "Name what is to be released with --images, and it is checked that the run looked at that."
_NO_RELEASE = (  # without the name of a file, which can be a patient's
    "The set where the run found it is not what memorisk release writes of it: name its OUT with --images."
)
_VOLUMES = (
    "memorisk release writes no volumes, so that no file is tied to this run: its compared.parquet has a hash of the "
    "voxels of each."
)
_NOT_THESE = "What --images names is not what memorisk release writes of the images that the run compared."
_OTHER_BYTES = "it has other bytes than the tensors that ran: memorisk release RUN OUT writes these, and nothing else"
_NO_NUMBERS = "The weights cannot be released: an earlier memorisk audited them, or they hold a NaN."
_PROGRAM = (
    "An .onnx file is a program, in which constants, names and text have room for anything: audit the network "
    "as NAME@WEIGHTS, and memorisk release writes its weights."
)


@dataclass(frozen=True)
class ReleaseFiles:
    """Files that the user names for release."""

    weights: tuple[Path, ...] = ()
    images: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Binding:
    """Files and folders that a run is tied to.

    Attributes:
        subject: Subject of the run.
        released: Files and folders that are released; none where the run cannot be tied to one.
        used: Offered paths that hold these files and folders.
        refused: Reason for each offered path that is not the subject of the run.
        unread: Reason for each file of an audited set that was not read.
    """

    subject: Subject
    released: tuple[Released, ...] = ()
    used: tuple[Path, ...] = ()
    refused: Mapping[Path, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def bind(run: FinishedAudit, subject: Subject, offered: ReleaseFiles, progress: Progress = no_progress) -> Binding:
    """Tie a run to what it looked at.

    Args:
        run: Finished run.
        subject: Subject of the run, as the run's kind describes it.
        offered: Files that the user names; the run's own settings also say where its files were.
        progress: Called with (stage, done, total).
    """
    if run.kind == "feature":
        return _models(run, subject, offered)
    if subject.what == "weights":
        return _target(run, subject, offered)
    if kind_of(run.kind).of_generated_set and not subject.why:
        return _set(run, subject, offered, progress)
    return Binding(subject)


def _target(run: FinishedAudit, subject: Subject, offered: ReleaseFiles) -> Binding:
    """Bind the very model of a classifier's or a generator's audit; of a DiT its transformer, and no autoencoder.

    Of a LoRA its adapters and the base are bound, since both make the network that was attacked.
    """
    target = ClassifierSummary.read(run.summary).target or TargetAudit()
    base = [] if target.base is None else [target.base_sha256]
    return _weights(subject, [target.tensors_sha256, *base], offered)


def _models(run: FinishedAudit, subject: Subject, offered: ReleaseFiles) -> Binding:
    """Bind the networks of the audit of a mark."""
    models = FeatureVerdict.read(run.verdict).models.models
    kinds = {str(model.get("kind")) for model in models}
    if not kinds <= {"onnx", "network"}:
        why = "Outputs, or a function of the user, were audited: the file that they come from is not known."
        return Binding(replace(subject, what="outputs", why=why))
    if kinds != {"network"}:
        return Binding(replace(subject, why=_PROGRAM))
    return _weights(subject, [model.get("tensors_sha256") for model in models], offered)


def _weights(subject: Subject, audited: Sequence[str | None], offered: ReleaseFiles) -> Binding:
    """Bind networks to the only files under which their weights can be released (`memorisk.models.released_weights`).

    Args:
        subject: Subject of the run.
        audited: SHA-256 of these files.
        offered: Files that the user names.
    """
    if None in audited:
        return Binding(replace(subject, why=_NO_NUMBERS))
    sizes: dict[str, int] = {}
    used, refused = [], dict[Path, str]()
    for path in (path for path in offered.weights if path.is_file()):
        if (sha256 := file_sha256(path)) in audited:
            used.append(path)
            sizes[sha256] = path.stat().st_size
        else:
            refused[path] = _OTHER_BYTES
    released = [
        Released(what="weights", form="file", listing={"": one}, sha256=one, files=1, bytes=sizes.get(one), pixels=None,
                 audits=())
        for one in dict.fromkeys(map(str, audited))
    ]  # fmt: skip
    return replace(_make_binding(subject, released, tuple(used)), refused=refused)


def compared_images(run: FinishedAudit) -> ComparedImages:
    """Read what the audit of a set compared; of a filter or a loop its final audit."""
    return ComparedImages.read(run.folder / AUDIT if kind_of(run.kind).chooses_images else run.folder)


def _set(run: FinishedAudit, subject: Subject, offered: ReleaseFiles, progress: Progress) -> Binding:
    """Bind the set of an audit to folders that hold the pixels that it compared, and nothing else."""
    compared = compared_images(run)
    if run.config.get("frames") == "volume":
        return Binding(replace(subject, why=_VOLUMES), unread=compared.unread)
    refused: dict[Path, str] = {}
    own = run.folder / KEPT if kind_of(run.kind).chooses_images else Path(str(run.config.get("synthetic", "")))
    candidates = [*offered.images, own] if own != Path() and own.is_dir() else list(offered.images)
    for path in dict.fromkeys(candidates):
        try:
            released = read_released(path, compared, progress)
        except InputError as error:
            refused[path] = str(error)
        else:
            tie = _make_binding(subject, [released], (path,) if path in offered.images else ())
            return replace(tie, refused=refused, unread=compared.unread)
    why = _NOT_THESE if offered.images else _NO_RELEASE if own in refused else _NAME_THEM
    return Binding(replace(subject, why=why), refused=refused, unread=compared.unread)


def _make_binding(subject: Subject, released: list[Released], used: tuple[Path, ...]) -> Binding:
    """Make the binding of a run to files."""
    ties = replace(subject, sha256=tuple(one.sha256 for one in released), why="")
    return Binding(ties, tuple(released), used)
