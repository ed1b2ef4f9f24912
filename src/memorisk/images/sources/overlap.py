"""Folders of images and folders for results: memorisk writes nothing among the images that it reads.

`source_places` finds where the images of a source lie. A set that ``memorisk generate`` drew may not lie among images
of patients unnoticed (`refuse_generated_within`).
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePath

from memorisk.images.manifest import Manifest
from memorisk.images.sources.places import several_sources
from memorisk.images.sources.registry import GENERATED, UNFINISHED_TABLE
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.storage.locations import path_of, url_of

Source = str | Path | Manifest | ImageStore


def refuse_overlap(out: str | Path, sources: Mapping[str, Source | None], *, called: str = "OUT") -> None:
    """Refuse a folder for results inside a folder of images, or around one: memorisk never writes to its inputs.

    Args:
        out: Folder for results.
        sources: Sources of images by their names in messages.
        called: Name of the folder in messages.

    Raises:
        InputError: The folder is such a one.
    """
    target = Path(out).resolve()
    for what, source in sources.items():
        for place in source_places(source):
            if place.is_dir() and target.is_relative_to(place):
                raise InputError(f"{called} {one_line(str(out))} lies inside {what}: name a folder outside the images")
            if place.exists() and place.is_relative_to(target):
                raise InputError(f"{called} {one_line(str(out))} holds {what}: name a folder that does not")


def refuse_among(out: str | Path, manifest: Manifest, *, called: str = "OUT") -> None:
    """Refuse a folder for results inside a folder with images of a manifest, which a table may name anywhere.

    Args:
        out: Folder for results.
        manifest: Manifest of the images.
        called: Name of the folder in messages.

    Raises:
        InputError: The folder is such a one.
    """
    if manifest.root is None:
        return
    target, root = Path(out).resolve(), manifest.root.resolve()
    for folder in sorted({os.path.dirname(str(path)) for path in manifest.table["path"].unique()}):  # noqa: PTH120
        if target.is_relative_to((root / folder).resolve()):
            raise InputError(
                f"{called} {one_line(str(out))} lies inside {one_line(folder or root.name)}, which holds images of "
                f"{one_line(manifest.name)}: name a folder outside the images"
            )


def path_sources(sources: Mapping[str, object]) -> dict[str, Source | None]:
    """Select the sources that were named by text; images in memory have no place or keep the one they were read from.

    Args:
        sources: Sources by their names in messages; arrays, manifests and stores among them.
    """
    return {what: source for what, source in sources.items() if isinstance(source, str | Path)}


def refuse_generated_within(source: str | Path, manifest: Manifest) -> None:
    """Refuse a folder of ``memorisk generate`` inside a bigger folder of images: its images would count as patients'.

    A generated set that the user names itself is accepted, alone or with others by commas.

    Args:
        source: Source as the user named it.
        manifest: Manifest of the source.

    Raises:
        InputError: The source contains such a folder.
    """
    places = [place for place in source_places(source) if place.is_dir()]
    if manifest.root is None or not places:
        return
    inner = {PurePath(path).parent for path in manifest.table["path"].unique()}
    root = manifest.root.resolve()
    for folder in sorted(root / above for own in inner for above in {own, *own.parents}):
        if any(place in folder.parents for place in places) and _is_generated(folder):
            raise InputError(
                f"{one_line(folder)} was drawn by memorisk generate and lies inside the images: those it holds would "
                "count as patients' images; move it out, or name it alone to train on it"
            )


def source_places(source: Source | None) -> list[Path]:
    """Return the places of the images of a source; for several sources and for ``NAME:FOLDER`` the folders.

    Args:
        source: Source as for `memorisk.load_manifest`, its manifest or its store.
    """
    if isinstance(source, ImageStore | Manifest):
        root = source.manifest.root if isinstance(source, ImageStore) else source.root
        return [] if root is None else [root.resolve()]
    if source is None:
        return []
    parts = [str(source)] if Path(source).exists() or url_of(source) else several_sources(str(source))
    return [place.resolve() for part in parts if (place := _place(part)) is not None]


def _place(part: str) -> Path | None:
    """Return the path of a source, of a ``file://`` URL, or of ``NAME:FOLDER``; None if it is not on this machine."""
    if (url := url_of(part)) is not None:
        return path_of(url)
    name = part if Path(part).exists() else part.partition(":")[2]
    return Path(name) if name else None


def _is_generated(folder: Path) -> bool:
    """Return whether ``memorisk generate`` made a folder, or has begun to."""
    return (folder / GENERATED).is_file() or ((folder / UNFINISHED_TABLE).is_file() and (folder / "images").is_dir())
