"""Which file or folder a run looked at, found again by its content and never by its name.

* A classifier's audit of the very model (``--target``) noted the file's SHA-256 when it read it.
* The audit of a mark noted a fingerprint of each model file: the file that has it is the one.
* The audit of a set listed every file that it read (``files.parquet``): the folder must hold these bytes and no others,
  or be a clean export of exactly these pixels (`memorisk.images.exports.clean_set`).
* A filter and a loop noted the SHA-256 of the kept set when they wrote it: the folder must still have it.

A file that holds more than its image or its tensors is refused in any case (`memorisk.images.containers`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memorisk.audits.file_listing import read_listing
from memorisk.audits.release.finished import FinishedAudit
from memorisk.audits.release.set_files import SetFiles
from memorisk.audits.synthetic.sets import SYNTHETIC
from memorisk.images.containers.checking import weights_surplus
from memorisk.images.containers.safetensors import is_in_order, is_safetensors
from memorisk.images.exports.listing import read_rows
from memorisk.models.weights.weights import tensors_of
from memorisk.report.differences import differences
from memorisk.report.statements.statement import Released, Subject
from memorisk.runs.checksums import file_sha256, list_folder, listing_sha256
from memorisk.runs.errors import InputError, one_line, several
from memorisk.runs.fingerprint import file_fingerprint
from memorisk.runs.progress import Progress, quiet

KEPT = "kept"
_OTHER_FORMATS = (
    "What the file of weights holds besides them (text, code, images): only safetensors files are looked into."
)
_NAME_THEM = "Name what is to be released with --{what}, and it is checked that the run looked at that."


@dataclass(frozen=True)
class Offered:
    """What the user says is to be released."""

    weights: tuple[Path, ...] = ()
    images: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Bound:
    """What a run is tied to.

    Attributes:
        subject: What it looked at.
        released: The files and folders; none where it cannot be tied to one.
        used: Which of the offered paths these are.
        refused: Offered paths that are not what the run looked at, and why not.
        not_examined: What of the files nobody looked at.
    """

    subject: Subject
    released: tuple[Released, ...] = ()
    used: tuple[Path, ...] = ()
    refused: Mapping[Path, str] = field(default_factory=dict)
    not_examined: tuple[str, ...] = ()


def bind(run: FinishedAudit, subject: Subject, offered: Offered, progress: Progress = quiet) -> Bound:
    """Tie a run to what it looked at.

    Args:
        run: The run.
        subject: As its kind describes it.
        offered: What the user names; beside it a run's own settings say where its files were.
        progress: Called with (stage, done, total).

    Raises:
        InputError: A kept set is not what the run wrote.
    """
    if run.kind == "classifier" and subject.what == "weights":
        return _target(run, subject, offered)
    if run.kind == "feature":
        return _models(run, subject, offered)
    if run.kind == "synthetic":
        return _set(run, subject, offered, progress)
    if run.kind in ("filter", "synthesize"):
        return _kept(run, subject, offered, progress)
    return Bound(subject)


def _target(run: FinishedAudit, subject: Subject, offered: Offered) -> Bound:
    """The very model of a classifier's audit, or its tensors in a file without anything else."""
    target = run.summary.get("target") or {}
    known, tensors = target.get("sha256"), target.get("tensors_sha256")
    if not known:
        return Bound(replace(subject, why="The run did not note which file it looked at: issue its command again."))
    used, refused = [], {}
    for path in (path for path in offered.weights if path.is_file()):
        audited = file_sha256(path) == known
        if not audited and (tensors is None or tensors_of(path) != tensors):
            continue
        if more := _surplus(path, audited=audited):
            refused[path] = _holds_more([(path.name, one) for one in more], path)
        else:
            used.append(path)
    released = [_of_file("weights", path) for path in used]
    if not used and not refused:
        released = [
            Released(what="weights", form="file", listing={"": known}, sha256=known, files=1, bytes=None, audits=())
        ]
    return replace(_bound(subject, released, tuple(used)), refused=refused, not_examined=_unseen(used))


def _models(run: FinishedAudit, subject: Subject, offered: Offered) -> Bound:
    """The model files of the audit of a mark, each with the files beside it."""
    models: list[Mapping[str, Any]] = list(run.verdict["models"]["models"])
    if any(model.get("kind") not in ("onnx", "export", "network") for model in models):
        why = "Outputs, or a function of the user's, were asked: which file they come from cannot be seen."
        return Bound(replace(subject, what="outputs", why=why))
    wanted = {str(value) for model in models for value in _fingerprints(model)}
    tensors = {str(model["tensors_sha256"]): str(model["fingerprint"]) for model in models if "tensors_sha256" in model}
    found: dict[str, Path] = {}
    used, refused = [], {}
    for path in dict.fromkeys((*offered.weights, *_named_models(run))):
        own = file_fingerprint(path) if path.is_file() else None
        value = own if own is None or own in wanted else _same_tensors(path, tensors)
        if value is None:
            continue
        if more := _surplus(path, audited=value == own):
            refused[path] = _holds_more([(path.name, one) for one in more], path)
            continue
        found.setdefault(value, path)
        used += [path] if path in offered.weights else []
    if set(found) != wanted:
        why = next(iter(refused.values()), _NAME_THEM.format(what="weights"))
        return Bound(replace(subject, why=why), refused=refused)
    bound = _bound(subject, [_of_file("weights", path) for path in found.values()], tuple(used))
    return replace(bound, refused=refused, not_examined=_unseen(list(found.values())))


def _surplus(path: Path, *, audited: bool) -> list[str]:
    """What a file of weights holds besides the tensors; one that was not audited itself must lay them out plainly."""
    more = weights_surplus(path)
    return more if more or audited or is_in_order(path) else ["tensors in an order of its own"]


def _unseen(paths: list[Path]) -> tuple[str, ...]:
    """Tell of formats that are not looked into; of a file that was not named the format is not known."""
    return () if paths and all(is_safetensors(path) for path in paths) else (_OTHER_FORMATS,)


def _same_tensors(path: Path, tensors: Mapping[str, str]) -> str | None:
    """The fingerprint of the model file that a file has the tensors of; None for another file."""
    return tensors.get(tensors_of(path) or "") if tensors else None


def _fingerprints(model: Mapping[str, Any]) -> Iterator[str]:
    """Of a model's file, and of those beside it."""
    yield str(model["fingerprint"])
    yield from (str(value) for value in (model.get("data") or {}).values())


def _named_models(run: FinishedAudit) -> Iterator[Path]:
    """Where the models of an audit of a mark were, and the files of weights that lie beside them."""
    for named in run.config.get("models") or ():
        path = Path(str(named))
        yield path if path.is_file() else Path(str(named).rpartition("@")[2])
        for model in run.verdict["models"]["models"]:
            yield from (path.parent / str(name) for name in model.get("data") or {})


def _set(run: FinishedAudit, subject: Subject, offered: Offered, progress: Progress) -> Bound:
    """The set of an audit: the very files that it read, or the same pixels written anew."""
    listing = read_rows(read_listing(run.folder, SYNTHETIC))
    if not len(listing):
        return Bound(replace(subject, why="The images lay in no file: which files hold them cannot be seen."))
    depth, hidden = int(run.config.get("depth", 8)), bool(run.config.get("pseudonymise"))
    refused: dict[Path, str] = {}
    own = Path(str(run.config.get("synthetic", "")))
    for path in dict.fromkeys((*offered.images, own)):
        if path not in offered.images and not path.exists():
            continue
        files = SetFiles.of(path, listing["path"].tolist())
        problem = files.difference(listing, depth=depth, hidden=hidden, progress=progress)
        if problem is None and (more := files.surplus(depth=depth, progress=progress)):
            problem = _holds_more(more, path)
        if problem is None:
            return replace(
                _bound(subject, [files.released()], (path,) if path in offered.images else ()), refused=refused
            )
        refused[path] = problem
    return Bound(replace(subject, why=refused.get(own, _NAME_THEM.format(what="images"))), refused=refused)


def _kept(run: FinishedAudit, subject: Subject, offered: Offered, progress: Progress) -> Bound:
    """The kept set of a filter or a loop."""
    written = run.verdict.get("kept")
    if not written or not run.verdict["n_kept"]:
        return Bound(replace(subject, why="Nothing was kept."))
    if not written.get("sha256"):
        return Bound(replace(subject, why="The run did not note what it kept: issue its command again."))
    folder = run.folder / KEPT
    if not folder.is_dir():
        raise InputError(f"{one_line(folder)} is not there: the kept images were moved; put them back")
    listing = list_folder(folder)
    if listing_sha256(listing) != written["sha256"]:
        raise InputError(
            f"{one_line(folder)} is not what the run kept: files were changed, added or taken away since; issue the "
            "run's command again"
        )
    files = SetFiles(folder, listing)
    if more := files.surplus(depth=int(run.config.get("depth", 8)), progress=progress):
        raise InputError(_holds_more(more, folder))
    used, refused = [], {}
    for path in (path for path in offered.images if path.exists()):
        if (problem := differences(listing, SetFiles.of(path, list(listing)).listing)) is None:
            used.append(path)
        else:
            refused[path] = problem
    return replace(_bound(subject, [files.released()], tuple(used)), refused=refused)


def _holds_more(found: list[tuple[str, str]], path: Path) -> str:
    """Say which files hold more than an audit sees, of the first one all of it, and what to do."""
    names = list(dict.fromkeys(name for name, _ in found))
    own = [what for name, what in found if name == names[0]]
    kinds = len({what for _, what in found} - set(own))
    more = f" and {several(len(names) - 1, 'more file', 'more files')}" if len(names) > 1 else ""
    others = f" ({several(kinds, 'other kind', 'other kinds')} of surplus in the others)" if kinds else ""
    place = "" if path.name == names[0] else f" in {one_line(path, 80)}"
    return (
        f"{one_line(names[0], 80)}{more}{place} {'hold' if more else 'holds'} {'; '.join(own)}{others}, which no audit "
        f"looks at: memorisk release writes {'them' if more else 'it'} anew without"
    )


def _of_file(what: str, path: Path) -> Released:
    """A file as it is."""
    sha256 = file_sha256(path)
    return Released(
        what=what, form="file", listing={"": sha256}, sha256=sha256, files=1, bytes=path.stat().st_size, audits=()
    )


def _bound(subject: Subject, released: list[Released], used: tuple[Path, ...]) -> Bound:
    """What a run is tied to."""
    ties = replace(subject, sha256=tuple(one.sha256 for one in released), why="")
    return Bound(ties, tuple(released), used)
