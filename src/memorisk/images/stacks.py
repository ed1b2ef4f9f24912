"""Files that may hold several images: pages, frames, slices; how many each holds, and which of them were left out."""

from pathlib import Path

from memorisk.images.decoding.formats import file_format
from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.readers.nifti import count_frames as count_slices
from memorisk.images.readers.registry import count_frames
from memorisk.images.sources.walk import KIND_BY_SUFFIX, suffix

_STACKS = frozenset(("TIFF", "GIF", "WEBP", "PNG", "DICOM", "NIfTI", "NIfTI, gzipped"))


def is_volume(root: Path, path: str) -> bool:
    """Whether a file is a NIfTI volume: by its suffix, by its content where that says nothing."""
    if suffix(path) in KIND_BY_SUFFIX or path.startswith(BUILTIN):
        return KIND_BY_SUFFIX.get(suffix(path)) == "nifti"
    found = file_format(root / path)
    return found is not None and found.kind == "nifti"


def is_stack(path: Path, *, volume: bool) -> bool:
    """Whether a file is of a kind that may hold several images, or a JPEG that does."""
    found = file_format(path)
    if volume or found is None:
        return volume
    return found.name in _STACKS or (found.name == "JPEG" and (frames_in(path, volume=False, plane="") or 1) > 1)


def frames_in(path: Path, *, volume: bool, plane: str) -> int | None:
    """Frames, pages or, of a volume, slices in a plane; None of a file that cannot be read that far.

    The store counts such a file, with the reason.
    """
    try:
        return count_slices(path, plane) if volume else count_frames(path)
    except Exception:  # decoders raise anything on broken files
        return None


def frames_left(manifest: Manifest, plane: str) -> dict[str, int]:
    """How many frames, pages and slices of a manifest's files have no row, by path: nothing can be said of them.

    Args:
        manifest: Of single images, or of some frames of each file; arrays have no such frames.
        plane: Of the slices of volumes.
    """
    if manifest.root is None:
        return {}
    rows = manifest.table["path"].astype(str).value_counts(sort=False)
    left = {}
    for path, n in rows.items():
        file = manifest.root / str(path)
        try:
            volume = is_volume(manifest.root, str(path))
            stack = is_stack(file, volume=volume)
        except (OSError, ValueError):
            continue
        if stack and (more := (frames_in(file, volume=volume, plane=plane) or 0) - int(n)) > 0:
            left[str(path)] = more
    return left
