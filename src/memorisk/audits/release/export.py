"""``memorisk release``: what an audit compared, written anew and with nothing else.

Images get the size, channels and depth of their audit, weights the tensors that ran, in their types and shapes. What
else the original files and folders hold (finer patterns, text, previews, further frames, other files) stays behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memorisk.audits.classifier.attack_numbers import TargetAudit
from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.audits.compared_images import ComparedImages, training_labels
from memorisk.audits.comparison.review_files import undismissed_images
from memorisk.audits.feature.result import FeatureVerdict
from memorisk.audits.filter.result import AUDIT, KEPT
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.release.binding import compared_images
from memorisk.audits.release.integrity import FinishedAudit, open_finished_audit
from memorisk.images.clean_set import CleanSet, write_clean_set
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions, of_synthetic_images
from memorisk.images.pixels import PixelRule, Source, hash_pixels
from memorisk.images.readers.headers import uncovered_frames
from memorisk.images.sources.overlap import path_sources, refuse_among, refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import manifest_sources
from memorisk.images.store_writer import process_count
from memorisk.report.kinds import kind_of
from memorisk.report.options import ReportOptions
from memorisk.runs.errors import InputError, MissingExtraError, one_line, plural
from memorisk.runs.folder import CONFIG, is_hidden, read_config, restore_paths
from memorisk.runs.locks import folder_lock
from memorisk.runs.settings import settings_of, takes_settings, written_settings
from memorisk.runs.workload import Progress, no_progress

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Export:
    """Record of what was written."""

    out: Path
    images: int
    """Number of images written; 0 for weights."""
    left: dict[str, str] = field(default_factory=dict)
    """Reason for each file that was not read and stays behind."""
    frames_left: dict[str, int] = field(default_factory=dict)
    """Number of frames, pages and slices that stay behind, for each file that was read."""
    labels_left: int = 0
    """Number of images whose label no training image has, which stays behind."""
    labels_left_out: str = ""
    """Reason why no label was written, in words; empty where labels were written, or there are none."""
    suspicious: list[str] = field(default_factory=list)
    """Images that stay behind because a review names them."""


@takes_settings(ImageOptions)
def release(
    source: str | Path,
    out: str | Path,
    *,
    without: str | Path | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> Export:
    """Write a set of images, or the weights of an audited network, anew with nothing in it but pixels or tensors.

    Args:
        source: Folder of a finished audit, whose set or weights are written as it looked at them; or images as for
            `memorisk.load_manifest`.
        out: A new or empty folder for images; a new file for weights.
        without: Folder of an audit of this set, or its review.csv: the synthetic images of pairs that were not
            dismissed stay behind. What is written is another set than the audited one. It needs an audit of its own, by
            another detector: the same one overlooks again what it overlooked.
        progress: Called with (stage, done, total).
        **settings: Any field of `ImageOptions` that says how images are read; use those of the audit. A run has its
            own.

    Raises:
        InputError: The source cannot be read or written, or holds other images than a run compared, ``out`` exists, or
            ``without`` names no image of the source, or all.
        MemoriskError: The disk is full.

    Example:
        >>> release("runs/set", "clean").images  # doctest: +SKIP
        1000
    """
    target = Path(out)
    if not (Path(source) / CONFIG).is_file():
        options = settings_of(ImageOptions, settings)
        options.validate()
        return _release_images(source, target, options, without, None, progress)
    if settings:
        raise InputError(f"{one_line(source)} is a run, which has its own settings: leave {next(iter(settings))} out")
    with open_finished_audit(source) as run:
        config = restore_paths(run.config)
        kind = kind_of(run.kind)
        if kind.clears == "weights":
            return _release_weights(run, config, target)
        if kind.clears != "images":
            raise InputError(f"{one_line(source)} is a run of {run.kind}, which looks at nothing that can be released")
        if kind.chooses_images:  # the final audit read what was kept, by settings of its own
            images, config = run.folder / KEPT, restore_paths(read_config(run.folder / AUDIT))
        else:
            images = _place(config["synthetic"])
        return _release_images(images, target, _image_options(config), without, compared_images(run), progress)


def _image_options(config: Mapping[str, Any]) -> ImageOptions:
    """Return how a run read the images of its generated set."""
    names = {f.name for f in fields(ImageOptions)}
    return of_synthetic_images(settings_of(ImageOptions, {k: v for k, v in config.items() if k in names}))


def _place(path: Any) -> Path:
    """Return where a run found something.

    Raises:
        InputError: The run hides it, and another user or machine made the run; or a relative path leads nowhere from
            here.
    """
    if is_hidden(path):
        raise InputError("the run hides where its files are, and this user did not make it: name the files themselves")
    place = Path(str(path))
    if not (place.is_absolute() or place.exists() or {":", ","} & set(str(path))):  # several, or a published set
        raise InputError(
            f"the run names its files {one_line(place)}, which is not in {one_line(Path.cwd())}: give the command in "
            "the folder in which the audit was given"
        )
    return place


def _release_images(
    source: str | Path,
    target: Path,
    options: ImageOptions,
    without: str | Path | None,
    compared: ComparedImages | None,
    progress: Progress,
) -> Export:
    """Write a set anew.

    Args:
        source: Source of the images, as `memorisk.load_manifest` takes it.
        target: A new or empty folder.
        options: Options by which the images are read.
        without: Run folder whose suspicious images are left out, as `release` takes it.
        compared: Images that the audit of the set compared: their labels are written, and others are refused; None to
            write all images and labels.
        progress: Called with (stage, done, total).
    """
    refuse_overlap(target, path_sources({"SOURCE": source, "--image-root": options.image_root}))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"OUT {one_line(target)} exists: name a new or empty folder")
    if options.frames == "volume":
        raise InputError(
            f"{one_line(source)}: memorisk release writes images as PNG, and no volumes; the audit's compared.parquet "
            "has a hash of the voxels of each"
        )
    manifest = load_manifest(source, options)
    refuse_among(target, manifest)
    contents = {} if without is None else undismissed_images(Path(without))
    if compared is not None and not compared.unread and manifest.n != len(compared.pixels):
        now, then = plural(manifest.n, "image", "images"), f"{len(compared.pixels):,}"
        raise InputError(f"{one_line(source)} holds {now}, and the audit compared {then}: audit the set as it is now")
    suspicious = [] if without is None else _named_images(manifest, contents, Path(without), progress)
    if suspicious:
        remaining = np.flatnonzero(~np.isin(manifest.images, suspicious))
        if not len(remaining):
            raise InputError(f"the review names every image of {manifest.name}: nothing is left to release")
        manifest = manifest.subset(remaining)
    sources, labels = manifest_sources(manifest), manifest.labels.tolist()
    allowed = labels if compared is None else training_labels(labels, compared.labels)
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = f".{target.name}.lock"
    with folder_lock(target.parent, name=lock):
        try:
            written = write_clean_set(
                target,
                sources,
                allowed,
                PixelRule.of(options),
                compared=None if compared is None else compared.pixels,
                skip_unreadable=options.skip_unreadable,
                processes=process_count(None, sources),
                progress=partial(progress, "writing images"),
            )
        finally:  # the folder is the user's, and an error leaves nothing in it
            (target.parent / lock).unlink(missing_ok=True)
    unread = dict(zip(manifest.skipped["path"].astype(str), manifest.skipped["reason"].astype(str), strict=True))
    unread |= _unreadable(written, manifest.table["path"].astype(str).tolist())
    progress("counting frames that stay behind", 0, 0)
    n_labels = sum(label != own for label, own in zip(labels, allowed, strict=True))
    frames = uncovered_frames(manifest, options.slice_plane)
    return Export(target, len(written.names), unread, frames, n_labels, manifest.labels_left_out, suspicious)


def _named_images(manifest: Manifest, contents: Mapping[str, str], review: Path, progress: Progress) -> list[str]:
    """Return the ids of the images that a review names, by their content where the review lies in its run.

    An id does not tell the image: in a set that was numbered anew, other images than the copies would stay behind.

    Args:
        manifest: Images of the set.
        contents: Key of the content of each image by its id in the review, as `undismissed_images` returns them.
        review: Review file, or run folder.
        progress: Called with (stage, done, total).

    Raises:
        InputError: An image of the review is not there.
    """
    run = review if review.is_dir() else review.parent
    if (run / CONFIG).is_file():
        config = read_config(run)
        rule = PixelRule.of(_image_options(config))
        names = Pseudonyms.from_options(ReportOptions(**written_settings(ReportOptions, config)))
        hashes = list[str]()
        for done, source in enumerate(manifest_sources(manifest), start=1):
            hashes.append(_content_key(source, rule, names))
            progress("comparing images with those of the review", done, manifest.n)
        keys, why = np.array(hashes, dtype=object), "with the pixels of"
        names_by_key = {key: name for name, key in contents.items()}
    else:
        keys, why = manifest.images.astype(object), "called"
        names_by_key = {name: name for name in contents}
    present = set(keys.tolist())
    if unknown := next((name for key, name in names_by_key.items() if key not in present), ""):
        raise InputError(
            f"{manifest.name} has no image {why} {one_line(unknown, 60)!r}, which the review names: give the set that "
            "was audited (of a run with --pseudonymise on the machine of its key)"
        )
    return manifest.images[np.isin(keys, list(names_by_key))].tolist()


def _content_key(source: Source, rule: PixelRule, names: Pseudonyms) -> str:
    """Return the key of an image's content in a run's review; empty where it cannot be read."""
    try:
        return str(names.names([hash_pixels(rule.prepare(rule.read(source)))])[0])
    except MissingExtraError:
        raise
    except (InputError, OSError):
        return ""


def _unreadable(written: CleanSet, paths: list[str]) -> dict[str, str]:
    return {paths[row]: reason for row, reason in written.unreadable}


@dataclass(frozen=True)
class _AuditedNetwork:
    """A network whose weights an audit ran."""

    name: str
    """Name of the network; of a generator its kind."""
    file: Path
    side: int
    """Side in pixels of the images that the network was given."""
    sha256: str | None
    """SHA-256 of the only file under which its weights can be released."""
    lora: Path | None = None
    """File of the adapters of a generator, which are released in place of the base in ``file``."""


def _release_weights(run: FinishedAudit, config: Mapping[str, Any], out: Path) -> Export:
    """Write the tensors that ran; those of several networks into a folder.

    Raises:
        InputError: No file of weights was audited or it has changed, or ``out`` exists.
    """
    from memorisk.models.released_weights import write_released

    if out.exists():
        raise InputError(f"OUT {one_line(out)} exists: name a new file, or a new folder for several networks")
    audited = _asked(run, config) if run.kind == "feature" else _target(run, config)
    if not audited:
        raise InputError(
            f"{one_line(run.folder)} looked at no weights of a network by name, and no others are released"
        )
    networks = [_reopen(one) if run.kind == "generator" else _rebuild(one) for one in audited]
    digits = len(str(len(networks)))
    places = [out] if len(networks) == 1 else [out / f"{n:0{digits}d}.safetensors" for n in range(1, len(networks) + 1)]
    places[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place, network in zip(places, networks, strict=True):
        write_released(place, network)
    return Export(out, 0)


def _target(run: FinishedAudit, config: Mapping[str, Any]) -> list[_AuditedNetwork]:
    """Return the very model of a classifier's or a generator's audit."""
    summary = ClassifierSummary.read(run.summary)
    if summary.target is None or not config.get("target"):
        return []
    if run.kind == "generator":
        return _generators(summary.target, config)
    names = config.get("model") or "auto"
    (named,) = (names,) if isinstance(names, str) else names  # runs of older versions hold a name, others a list
    name = summary.models.model if named == "auto" else str(named)
    return [_AuditedNetwork(name, _place(config["target"]), summary.models.pixels[0], summary.target.tensors_sha256)]


def _generators(target: TargetAudit, config: Mapping[str, Any]) -> list[_AuditedNetwork]:
    """Return the generator of an audit; of a LoRA its adapters, then its base."""
    kind, place = str(config["kind"]), _place(config["target"])
    if target.base is None:
        return [_AuditedNetwork(kind, place, 0, target.tensors_sha256)]
    adapters = _AuditedNetwork(kind, place, 0, target.tensors_sha256, _place(config["lora"]))
    return [adapters, _AuditedNetwork(kind, place, 0, target.base_sha256)]


def _asked(run: FinishedAudit, config: Mapping[str, Any]) -> list[_AuditedNetwork]:
    """Return the networks of the audit of a mark."""
    models = FeatureVerdict.read(run.verdict).models
    sides = (models.preprocessing or {}).get("size") or (0,)
    networks = []
    for named, model in zip(config.get("models") or (), models.models, strict=True):
        if model.get("kind") != "network":
            return []
        name, _, file = str(named).partition("@")
        networks.append(_AuditedNetwork(name, _place(file), max(sides), model.get("tensors_sha256")))
    return networks


def _rebuild(audited: _AuditedNetwork) -> "nn.Module":
    """Load a network as its audit did.

    Raises:
        InputError: Its file is not what was audited, or an earlier memorisk audited it.
    """
    from memorisk.models.classifiers.zoo import create_model
    from memorisk.models.released_weights import released_sha256
    from memorisk.models.weight_files import head_and_stem

    size: dict[str, Any] = {"image_size": audited.side, "seed": 0}
    bare = create_model(audited.name, num_classes=2, weights="none", **size)
    outputs, channels = head_and_stem(bare, audited.file)
    for n in (1, 3) if channels is None else (channels,):
        network = create_model(
            audited.name, num_classes=outputs or 2, in_chans=n, weights=audited.file, trained=True, **size
        )
        if audited.sha256 is not None and released_sha256(network) == audited.sha256:
            return network
    raise _changed(audited)


def _reopen(audited: _AuditedNetwork) -> "nn.Module":
    """Open a generator as its audit did; of a diffusion transformer the network without its autoencoder.

    Raises:
        InputError: As `_rebuild`.
    """
    from memorisk.models.generators.released import open_released
    from memorisk.models.released_weights import released_sha256

    network = open_released(audited.file, audited.name, audited.lora).network
    if audited.sha256 is None or released_sha256(network) != audited.sha256:
        raise _changed(audited)
    return network


def _changed(audited: _AuditedNetwork) -> InputError:
    """Return the error of weights that are not those of the audit."""
    return InputError(
        f"{one_line(audited.file)} does not hold the weights that were audited: it was changed, or an earlier memorisk "
        "audited it; issue the run's command again"
    )
