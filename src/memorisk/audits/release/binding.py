"""Which file or folder a run looked at, found again by its content and never by its name.

* A classifier's audit of the very model (``--target``) noted the file's SHA-256 when it read it.
* The audit of a mark noted a fingerprint of each model file: the file that has it is the one.
* The audit of a set listed every file that it read (``files.parquet``): the folder must hold these bytes and no
  others, or be a clean export of exactly these pixels (`memorisk.images.clean_set`).
* A filter and a loop noted the SHA-256 of the kept set when they wrote it: the folder must still have it.

A file that holds more than its image or its tensors is refused in any case (`memorisk.images.containers`).
`SetFiles` compares the files of a set that is to be released with those that an audit read.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from memorisk.audits.classifier.attack_numbers import TargetAudit
from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.audits.feature.result import FeatureVerdict
from memorisk.audits.generated.sets import SYNTHETIC
from memorisk.audits.pseudonyms import read_listing
from memorisk.audits.release.integrity import FinishedAudit
from memorisk.images.clean_set import CLEAN_MANIFEST, clean_names, encode_png, read_manifest_bytes
from memorisk.images.containers.safetensors import is_in_order, is_safetensors, tensors_of
from memorisk.images.containers.surplus import surplus, weights_surplus
from memorisk.images.file_hashes import read_rows
from memorisk.images.pixels import hash_pixels, one_channel
from memorisk.images.readers.registry import read_image
from memorisk.report.statements.statement import Released, Subject, describe_differences
from memorisk.runs.checksums import file_sha256, list_folder, listing_sha256
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.runs.files import file_fingerprint
from memorisk.runs.workload import Progress, no_progress

_ORDER = "its images stand in an order of their own: memorisk release keeps that of the audited ones"


@dataclass(frozen=True)
class SetFiles:
    """Files below a folder, or one file.

    Attributes:
        root: The folder, or the file.
        listing: SHA-256 of each by its name below the folder; of a file by the empty name.
    """

    root: Path
    listing: Mapping[str, str]

    @classmethod
    def of(cls, path: Path, audited: Sequence[str]) -> "SetFiles":
        """List what lies at a path now.

        Args:
            path: A folder; a file of images; or a table, which stands for the files that were audited beside it.
            audited: Names of the files that an audit read.
        """
        if path.is_dir():
            return cls(path, list_folder(path))
        names = dict.fromkeys(audited)
        if list(names) == [path.name] or not any((path.parent / name).is_file() for name in names):
            return cls(path, {"": file_sha256(path)})
        return cls(path.parent, {name: file_sha256(path.parent / name) for name in names})

    @property
    def is_file(self) -> bool:
        """Return whether it is one file."""
        return set(self.listing) == {""}

    def difference(
        self, audited: pd.DataFrame, *, depth: int, hidden: bool, progress: Progress = no_progress
    ) -> str | None:
        """Name the first differences from what an audit read; None for the same bytes, or a clean export of them.

        Args:
            audited: Rows of the audit's listing that were read.
            depth: Bits at which the audit decoded.
            hidden: The audit hid the names of files.
            progress: Called with (stage, done, total).
        """
        known = dict(zip(audited["path"], audited["sha256"], strict=True))
        labels = dict(zip(audited["path"], audited["label"], strict=True))
        if self.is_file:
            return describe_differences(
                known, {next(iter(known)): self.listing[""]} if len(known) == 1 else self.listing
            )
        table = self._labels(known)
        found = {name: sha256 for name, sha256 in self.listing.items() if table is None or name != CLEAN_MANIFEST}
        if hidden:
            return self._hidden_difference(audited, found, table, depth, progress)
        problem = describe_differences(known, found)
        if problem is None and table is not None and any(labels[name] != label for name, label in table.items()):
            return f"{CLEAN_MANIFEST} gives other labels than the audit saw"
        if problem is None or table is None or not _has_clean_names(table):
            return problem
        return self._not_exported(audited, table, depth, progress)

    def surplus(self, *, depth: int, progress: Progress = no_progress) -> list[tuple[str, str]]:
        """Name the files that hold more than an image, with what they hold.

        Args:
            depth: Bits at which the audit decoded.
            progress: Called with (stage, done, total).
        """
        names = [name for name in self.listing if name != CLEAN_MANIFEST or self._labels({}) is None]
        found = []
        for number, name in enumerate(names, 1):
            if (more := surplus(self.root / name, depth=depth)) is not None:
                found.append((name or self.root.name, more))
            progress("looking for what files hold besides images", number, len(names))
        return found

    def released(self) -> Released:
        """Describe the files for a statement."""
        form = "file" if self.is_file else "folder"
        size = sum((self.root / name).stat().st_size for name in self.listing)
        sha256 = self.listing[""] if self.is_file else listing_sha256(self.listing)
        return Released(
            what="images", form=form, listing=dict(self.listing), sha256=sha256, files=len(self.listing), bytes=size,
            audits=(),
        )  # fmt: skip

    def _labels(self, known: Mapping[str, str]) -> dict[str, str] | None:
        """Labels of a clean set's table by file, in the order of names, which says nothing.

        None where there is no such table, or the audit read the file as an image.
        """
        if CLEAN_MANIFEST not in self.listing or CLEAN_MANIFEST in known:
            return None
        labels = read_manifest_bytes((self.root / CLEAN_MANIFEST).read_bytes())
        files = sorted(self.listing.keys() - {CLEAN_MANIFEST}, key=os.fsencode)
        return labels if labels is not None and list(labels) == files else None

    def _hidden_difference(
        self,
        audited: pd.DataFrame,
        found: Mapping[str, str],
        table: Mapping[str, str] | None,
        depth: int,
        progress: Progress,
    ) -> str | None:
        """Name the first difference from an audit that hid the names of files: contents and labels are compared.

        Names that cannot be compared must be those of a clean set, which say nothing.
        """
        labelled = table is not None and any(table.values())
        wanted = Counter(zip(audited["sha256"], audited["label"] if labelled else [""] * len(audited), strict=True))
        left = [name for name, sha256 in found.items() if not _take_one(wanted, (sha256, (table or {}).get(name, "")))]
        if not left and not wanted.total():
            if not _has_clean_names(sorted(found)):
                return "its file names, which the run hid, cannot be compared: memorisk release gives neutral ones"
            return None if [found[name] for name in sorted(found)] == audited["sha256"].tolist() else _ORDER
        if table is not None and _has_clean_names(table):
            return self._not_exported(audited, table, depth, progress)
        if left:
            return f"{one_line(left[0], 80)} is not among the files that were audited, or was changed"
        return f"{wanted.total():,} of the files that were audited are missing"

    def _not_exported(
        self, audited: pd.DataFrame, table: Mapping[str, str], depth: int, progress: Progress
    ) -> str | None:
        """Name the first way in which this is no clean export of the audited pixels; None for one.

        A PNG file of given pixels has room for anything: in chunks about their display, in how they are compressed. So
        each file must have the very bytes that ``memorisk release`` writes, in the same order.
        """
        labelled = any(table.values())
        known = audited["label"] if labelled else [""] * len(audited)
        rows = list(zip(audited["pixels"], known, strict=True))
        wanted, found = Counter(rows), []
        for number, (name, label) in enumerate(table.items(), 1):
            try:
                image = read_image(self.root / name, depth=depth)
                found.append((hash_pixels(image), label))
                if not _take_one(wanted, found[-1]):
                    return f"{one_line(name, 80)} is not an image that was audited, or has another label"
                written = encode_png(one_channel(image))
            except InputError as error:
                return str(error)
            if hashlib.sha256(written).hexdigest() != self.listing[name]:  # not read again: it may have been exchanged
                return (
                    f"{one_line(name, 80)} has the pixels that were audited, but other bytes than memorisk release "
                    "writes here, which may hold more: write the set anew with it, here and at the audit's --depth"
                )
            progress("comparing pixels with those that were audited", number, len(table))
        if left := wanted.total():
            return f"{left:,} of the images that were audited are missing"
        by_path = [rows[k] for k in sorted(range(len(rows)), key=audited["path"].tolist().__getitem__)]
        if found not in (rows, by_path):
            return (
                "its images stand in an order of their own: memorisk release keeps that of the images that were audited"
            )
        return None


def _has_clean_names(names: Collection[str]) -> bool:
    """Return whether files have the names of a clean set, which tell nothing."""
    return list(names) == clean_names(len(names))


def _take_one(wanted: Counter[tuple[str, str]], one: tuple[str, str]) -> bool:
    """Take one away from what is wanted, if it is."""
    if not wanted[one]:
        return False
    wanted[one] -= 1
    return True


KEPT = "kept"
_OTHER_FORMATS = (
    "What the file of weights holds besides them (text, code, images): only safetensors files are looked into."
)
_NAME_THEM = "Name what is to be released with --{what}, and it is checked that the run looked at that."


@dataclass(frozen=True)
class ReleaseFiles:
    """What the user says is to be released."""

    weights: tuple[Path, ...] = ()
    images: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Binding:
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


def bind(run: FinishedAudit, subject: Subject, offered: ReleaseFiles, progress: Progress = no_progress) -> Binding:
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
        return _kept_set(run, subject, offered, progress)
    return Binding(subject)


def _target(run: FinishedAudit, subject: Subject, offered: ReleaseFiles) -> Binding:
    """The very model of a classifier's audit, or its tensors in a file without anything else."""
    target = ClassifierSummary.read(run.summary).target or TargetAudit()
    known, tensors = target.sha256, target.tensors_sha256
    if not known:
        return Binding(replace(subject, why="The run did not note which file it looked at: issue its command again."))
    used, refused = [], {}
    for path in (path for path in offered.weights if path.is_file()):
        audited = file_sha256(path) == known
        if not audited and (tensors is None or tensors_of(path) != tensors):
            continue
        if more := _surplus(path, audited=audited):
            refused[path] = _holds_more([(path.name, one) for one in more], path)
        else:
            used.append(path)
    released = [_release_of_file("weights", path) for path in used]
    if not used and not refused:
        released = [
            Released(what="weights", form="file", listing={"": known}, sha256=known, files=1, bytes=None, audits=())
        ]
    return replace(
        _make_binding(subject, released, tuple(used)), refused=refused, not_examined=_unchecked_formats(used)
    )


def _models(run: FinishedAudit, subject: Subject, offered: ReleaseFiles) -> Binding:
    """The model files of the audit of a mark, each with the files beside it."""
    models = FeatureVerdict.read(run.verdict).models.models
    if any(model.get("kind") not in ("onnx", "export", "network") for model in models):
        why = "Outputs, or a function of the user's, were asked: which file they come from cannot be seen."
        return Binding(replace(subject, what="outputs", why=why))
    wanted = {str(value) for model in models for value in _fingerprints(model)}
    tensors = {str(model["tensors_sha256"]): str(model["fingerprint"]) for model in models if "tensors_sha256" in model}
    found: dict[str, Path] = {}
    used, refused = [], {}
    for path in dict.fromkeys((*offered.weights, *_model_paths(run))):
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
        return Binding(replace(subject, why=why), refused=refused)
    bound = _make_binding(subject, [_release_of_file("weights", path) for path in found.values()], tuple(used))
    return replace(bound, refused=refused, not_examined=_unchecked_formats(list(found.values())))


def _surplus(path: Path, *, audited: bool) -> list[str]:
    """Say what a file of weights holds besides the tensors; a file that was not audited must lay them out plainly."""
    more = weights_surplus(path)
    return more if more or audited or is_in_order(path) else ["tensors in an order of its own"]


def _unchecked_formats(paths: list[Path]) -> tuple[str, ...]:
    """Tell of formats that are not looked into; of a file that was not named the format is not known."""
    return () if paths and all(is_safetensors(path) for path in paths) else (_OTHER_FORMATS,)


def _same_tensors(path: Path, tensors: Mapping[str, str]) -> str | None:
    """The fingerprint of the model file that a file has the tensors of; None for another file."""
    return tensors.get(tensors_of(path) or "") if tensors else None


def _fingerprints(model: Mapping[str, Any]) -> Iterator[str]:
    """Compute the fingerprints of a model's file, and of those beside it."""
    yield str(model["fingerprint"])
    yield from (str(value) for value in (model.get("data") or {}).values())


def _model_paths(run: FinishedAudit) -> Iterator[Path]:
    """Find where the models of an audit of a mark were, and the files of weights beside them."""
    for named in run.config.get("models") or ():
        path = Path(str(named))
        yield path if path.is_file() else Path(str(named).rpartition("@")[2])
        for model in FeatureVerdict.read(run.verdict).models.models:
            yield from (path.parent / str(name) for name in model.get("data") or {})


def _set(run: FinishedAudit, subject: Subject, offered: ReleaseFiles, progress: Progress) -> Binding:
    """Bind the set of an audit: the very files that it read, or the same pixels written anew."""
    listing = read_rows(read_listing(run.folder, SYNTHETIC))
    if not len(listing):
        return Binding(replace(subject, why="The images lay in no file: which files hold them cannot be seen."))
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
                _make_binding(subject, [files.released()], (path,) if path in offered.images else ()), refused=refused
            )
        refused[path] = problem
    return Binding(replace(subject, why=refused.get(own, _NAME_THEM.format(what="images"))), refused=refused)


def _kept_set(run: FinishedAudit, subject: Subject, offered: ReleaseFiles, progress: Progress) -> Binding:
    """Bind the kept set of a filter or a loop."""
    written = run.verdict.get("kept")
    if not written or not run.verdict["n_kept"]:
        return Binding(replace(subject, why="Nothing was kept."))
    if not written.get("sha256"):
        return Binding(replace(subject, why="The run did not note what it kept: issue its command again."))
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
        if (problem := describe_differences(listing, SetFiles.of(path, list(listing)).listing)) is None:
            used.append(path)
        else:
            refused[path] = problem
    return replace(_make_binding(subject, [files.released()], tuple(used)), refused=refused)


def _holds_more(found: list[tuple[str, str]], path: Path) -> str:
    """Say which files hold more than an audit sees, of the first one all of it, and what to do."""
    names = list(dict.fromkeys(name for name, _ in found))
    own = [what for name, what in found if name == names[0]]
    kinds = len({what for _, what in found} - set(own))
    more = f" and {plural(len(names) - 1, 'more file', 'more files')}" if len(names) > 1 else ""
    others = f" ({plural(kinds, 'other kind', 'other kinds')} of surplus in the others)" if kinds else ""
    place = "" if path.name == names[0] else f" in {one_line(path, 80)}"
    return (
        f"{one_line(names[0], 80)}{more}{place} {'hold' if more else 'holds'} {'; '.join(own)}{others}, which no audit "
        f"looks at: memorisk release writes {'them' if more else 'it'} anew without"
    )


def _release_of_file(what: str, path: Path) -> Released:
    """Describe a file as it is."""
    sha256 = file_sha256(path)
    return Released(
        what=what, form="file", listing={"": sha256}, sha256=sha256, files=1, bytes=path.stat().st_size, audits=()
    )


def _make_binding(subject: Subject, released: list[Released], used: tuple[Path, ...]) -> Binding:
    """Make the binding of a run to files."""
    ties = replace(subject, sha256=tuple(one.sha256 for one in released), why="")
    return Binding(ties, tuple(released), used)
