"""Which file or folder a run looked at, found again by its content and never by its name.

* A classifier's audit of the very model (``--target``) noted the file's SHA-256 when it read it.
* The audit of a mark noted a fingerprint of each model file: the file that has it is the one.
* The audit of a set noted a fingerprint of ids and pixels: the images are read again as it read them, and must give it.
* A filter and a loop noted the SHA-256 of the kept set when they wrote it: the folder must still have it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memorisk.audits.release.finished import FinishedAudit
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.images.manifest import Manifest
from memorisk.images.sources import load_manifest
from memorisk.images.store import build_store
from memorisk.report.statement import Released, Subject
from memorisk.runs.checksums import checksum, file_sha256, files_below, listed_checksum
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.fingerprint import file_fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.runs.settings import setting_names

KEPT = "kept"
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
    """

    subject: Subject
    released: tuple[Released, ...] = ()
    used: tuple[Path, ...] = ()


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
        return _kept(run, subject, offered)
    return Bound(subject)


def _target(run: FinishedAudit, subject: Subject, offered: Offered) -> Bound:
    """The very model of a classifier's audit."""
    known = (run.summary.get("target") or {}).get("sha256")
    if not known:
        return Bound(replace(subject, why="The run did not note which file it looked at: issue its command again."))
    used = tuple(path for path in offered.weights if path.is_file() and file_sha256(path) == known)
    size = used[0].stat().st_size if used else None
    return _bound(subject, [Released(what="weights", form="file", sha256=known, files=1, bytes=size, audits=())], used)


def _models(run: FinishedAudit, subject: Subject, offered: Offered) -> Bound:
    """The model files of the audit of a mark, each with the files beside it."""
    models: list[Mapping[str, Any]] = list(run.verdict["models"]["models"])
    if any(model.get("kind") not in ("onnx", "export", "network") for model in models):
        why = "Outputs, or a function of the user's, were asked: which file they come from cannot be seen."
        return Bound(replace(subject, what="outputs", why=why))
    wanted = {str(value): None for model in models for value in _fingerprints(model)}
    places = [*offered.weights, *_named_models(run)]
    found: dict[str, Path] = {}
    for path in dict.fromkeys(place for place in places if place.is_file()):
        value = file_fingerprint(path)
        if value in wanted:
            found.setdefault(value, path)
    if set(found) != set(wanted):
        return Bound(replace(subject, why=_NAME_THEM.format(what="weights")))
    made = [_released("weights", path) for path in found.values()]
    used = {path for path in offered.weights if path.is_file() and file_fingerprint(path) in wanted}
    return _bound(subject, made, tuple(used))


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
    """The set of an audit: read again as the audit read it."""
    known, own = str(run.verdict["data_hash"]["synthetic"]), Path(str(run.config.get("synthetic", "")))
    options = _reading(run)
    for path in dict.fromkeys((*offered.images, own)):
        if path not in offered.images and not path.exists():
            continue
        try:
            manifest = load_manifest(path, options.of_synthetic())
            store = build_store(
                manifest, options.of_synthetic(), progress=lambda d, n: progress("reading images", d, n)
            )
        except InputError:
            continue  # not what the audit read: it could read it
        if store.data_hash == known:
            return _bound(subject, [_released_images(path, store.manifest)], (path,) if path in offered.images else ())
    return Bound(replace(subject, why=_NAME_THEM.format(what="images")))


def _reading(run: FinishedAudit) -> SyntheticOptions:
    """How the audit read its images; channels as they came out of all its sets."""
    known = set(setting_names(SyntheticOptions))
    given = {name: value for name, value in run.config.items() if name in known and value is not None}
    shape = run.summary["shape"]
    for name in ("store", "labels_csv", "image_root", "synthetic_features", "held_out_features"):
        if isinstance(given.get(name), str):
            given[name] = Path(given[name])
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return synthetic_options({**plain, "channels": int(shape[2]), "review": None})


def _released_images(path: Path, manifest: Manifest) -> Released:
    """A set's files: all of a folder, one file, or those that a table names."""
    if path.is_dir():
        return _released("images", path)
    names = list(dict.fromkeys(str(name) for name in manifest.table["path"]))
    if manifest.root is None or [manifest.root / name for name in names] == [path]:
        return _released("images", path)
    if len(names) == 1 and (manifest.root / names[0]).samefile(path):
        return _released("images", path)
    found = listed_checksum(manifest.root, names)
    return Released(what="images", form="folder", sha256=found.sha256, files=found.files, bytes=found.bytes, audits=())


def _kept(run: FinishedAudit, subject: Subject, offered: Offered) -> Bound:
    """The kept set of a filter or a loop."""
    written = run.verdict.get("kept")
    if not written:
        return Bound(replace(subject, why="Nothing was kept."))
    if not written.get("sha256"):
        return Bound(replace(subject, why="The run did not note what it kept: issue its command again."))
    folder = run.folder / KEPT
    if not folder.is_dir():
        raise InputError(f"{one_line(folder)} is not there: the kept images were moved; put them back")
    names = files_below(folder)
    found = listed_checksum(folder, names)
    if found.sha256 != written["sha256"]:
        raise InputError(
            f"{one_line(folder)} is not what the run kept: files were changed, added or taken away since; issue the "
            "run's command again"
        )
    if not names:
        return Bound(replace(subject, why="Nothing was kept."))
    made = Released(what="images", form="folder", sha256=found.sha256, files=found.files, bytes=found.bytes, audits=())
    same = (path for path in offered.images if path.exists() and checksum(path).sha256 == found.sha256)
    return _bound(subject, [made], tuple(same))


def _released(what: str, path: Path) -> Released:
    """A file or folder as it is."""
    found, form = checksum(path), "folder" if path.is_dir() else "file"
    return Released(what=what, form=form, sha256=found.sha256, files=found.files, bytes=found.bytes, audits=())


def _bound(subject: Subject, released: list[Released], used: tuple[Path, ...]) -> Bound:
    """What a run is tied to."""
    ties = replace(subject, sha256=tuple(one.sha256 for one in released), why="")
    return Bound(ties, tuple(released), used)
