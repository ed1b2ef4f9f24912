"""``memorisk release``: a set or a file of weights written anew, with the pixels or the tensors and nothing else.

What lies beside images in files and folders (text, previews, further frames, other files) stays behind. A statement of
an audit of the original that is given the export (``--images``, ``--weights``) takes it for what was audited, because
pixels and tensors are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.generated.review import undismissed_images
from memorisk.images.clean_set import CleanSet, write_clean_set
from memorisk.images.containers.parsing import SurplusError
from memorisk.images.containers.safetensors import header_bytes, in_order, is_safetensors, read_header, read_parts
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import PixelRule
from memorisk.images.readers.headers import uncovered_frames
from memorisk.images.sources.registry import load_manifest, path_sources, refuse_among, refuse_overlap
from memorisk.images.store_writer import manifest_sources, process_count
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path
from memorisk.runs.locks import folder_lock
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Progress, no_progress


@dataclass(frozen=True)
class Export:
    """What was written."""

    out: Path
    images: int
    """Images written; 0 for weights."""
    left: dict[str, str] = field(default_factory=dict)
    """Files that were not read and stay behind, with the reason."""
    frames_left: dict[str, int] = field(default_factory=dict)
    """How many frames, pages and slices of files that were read stay behind."""
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
    """Write a set of images, or a safetensors file, anew with nothing in it but pixels, labels or tensors.

    Args:
        source: Images as for `memorisk.load_manifest`, or a safetensors file.
        out: A new or empty folder for images; a new file for weights.
        without: Folder of an audit of this set, or its review.csv: the synthetic images of pairs that nobody dismissed
            stay behind. What is written is another set than the audited one. It takes an audit of its own, by another
            detector: the same one overlooks again what it overlooked.
        progress: Called with (stage, done, total).
        **settings: Any field of `ImageOptions` that says how images are read; use those of the audit.

    Raises:
        InputError: The source cannot be read, ``out`` exists, or ``without`` names no image of the source, or all.
        MemoriskError: The disk is full.

    Example:
        >>> release("drawn/", "clean/").images  # doctest: +SKIP
        1000
    """
    target = Path(out)
    if Path(source).is_file() and is_safetensors(Path(source)):
        if given := [*settings, *([] if without is None else ["without"])]:
            raise InputError(f"settings of images are given ({given[0]}), and {one_line(source)} holds weights")
        return _release_weights(Path(source), target)
    options = settings_of(ImageOptions, settings)
    options.validate()
    refuse_overlap(target, path_sources({"SOURCE": source, "--image-root": options.image_root}))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"OUT {one_line(target)} exists: name a new or empty folder")
    manifest = load_manifest(source, options)
    refuse_among(target, manifest)
    suspicious = [] if without is None else undismissed_images(Path(without))
    manifest = _leave_out(manifest, suspicious)
    sources = manifest_sources(manifest)
    target.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(target.parent, name=f".{target.name}.lock"):
        written = write_clean_set(
            target,
            sources,
            manifest.labels.tolist(),
            PixelRule.of(options),
            skip_unreadable=options.skip_unreadable,
            processes=process_count(None, sources),
            progress=partial(progress, "writing images"),
        )
    (target.parent / f".{target.name}.lock").unlink(missing_ok=True)
    left = dict(zip(manifest.skipped["path"].astype(str), manifest.skipped["reason"].astype(str), strict=True))
    left |= _unreadable(written, manifest.table["path"].astype(str).tolist())
    progress("counting frames that stay behind", 0, 0)
    return Export(target, len(written.names), left, uncovered_frames(manifest, options.slice_plane), suspicious)


def _leave_out(manifest: Manifest, suspicious: Sequence[str]) -> Manifest:
    """Return a set without some of its images.

    Raises:
        InputError: One of them is not there, or no other one is.
    """
    known = set(manifest.images.tolist())
    unknown = next((name for name in suspicious if name not in known), None)
    if unknown is not None:
        raise InputError(
            f"{manifest.name} has no image {one_line(unknown, 60)!r}, which the review names: give the set that "
            "was audited, read with the same settings (a run with --pseudonymise hides the names)"
        )
    kept = np.flatnonzero(~np.isin(manifest.images, suspicious))
    if not len(kept):
        raise InputError(f"the review names every image of {manifest.name}: nothing is left to release")
    return manifest.subset(kept)


def _unreadable(written: CleanSet, paths: list[str]) -> dict[str, str]:
    return {paths[row]: reason for row, reason in written.unreadable}


def _release_weights(source: Path, out: Path) -> Export:
    """Write the tensors of a file in the format's own order, with a header that says nothing else.

    Raises:
        InputError: The file is no safetensors, or ``out`` exists.
    """
    if out.exists():
        raise InputError(f"OUT {one_line(out)} exists: name a new file")
    with source.open("rb") as file:
        try:
            header, begin = read_header(file, source.stat().st_size)
        except SurplusError as error:
            raise InputError(f"{one_line(source)} is no safetensors file: it has {error}") from None
        ordered = in_order(header)
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(out) as temporary, Path(temporary).open("wb") as target:
            target.write(header_bytes(ordered))
            for name in ordered:
                first, end = header[name]["data_offsets"]
                for part in read_parts(file, begin + first, end - first):
                    target.write(part)
    return Export(out, 0)
