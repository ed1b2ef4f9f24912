"""Sources that a user names: digits, a folder, a table, arrays, a published data set, a URL, or several.

Each layout has its module; they meet in ``images.layouts.draft_steps``, where labels, groups, frames and checks are
the same.
`refuse_overlap` and the functions after it know the places of a source's images, the folders that must not be written
to, and the generated images that may not be read from there unnoticed.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from memorisk.images.layouts.arrays import load_arrays
from memorisk.images.layouts.draft_steps import refuse_unused
from memorisk.images.layouts.folders import load_folder
from memorisk.images.layouts.shards import Shard, is_saved, is_shard, load_shards, saved_shards
from memorisk.images.layouts.tables import load_table
from memorisk.images.manifest import Manifest, drop_labels, sample_manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.digits import digits_manifest
from memorisk.images.published.registry import load_official
from memorisk.images.readers.registry import SHARDS, file_format, file_head, unknown_kind
from memorisk.images.sources.joined import join_manifests
from memorisk.images.sources.places import nowhere, several_sources
from memorisk.images.sources.urls import local_images, local_options
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.storage.locations import path_of, url_of
from memorisk.runs.storage.mirror import name_url_in_error

GENERATED, GENERATED_TABLE, UNFINISHED_TABLE = "generate.json", "manifest.csv", "drawn.csv"
"""Names of files in a folder of ``memorisk generate``: the last file of a finished one, its table of classes, and the
table of an unfinished one."""
_TABLES = frozenset((".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".pq"))


def load_manifest(source: str | Path, options: ImageOptions | None = None) -> Manifest:
    """Return the manifest of a source; no pixel is decoded.

    Args:
        source: Name of a source: ``"digits"`` (built in; a folder of that name is ``"./digits"``), a folder (class
            folders, DICOM tree, NIfTI volumes, a set that ``memorisk generate`` made), a CSV, TSV or Parquet table,
            arrays (npz in MedMNIST's layout or plain, npy, HDF5, idx), or a published data set as ``NAME:FOLDER``
            (``images.published.registry``); or several of these by commas (``images.sources.joined``); each also at a
            URL (``s3://BUCKET/FOLDER``, ``images.sources.urls``). A path that exists is a path, colon and comma
            or not.
        options: Options by which images are found, labelled, grouped and sampled.

    Returns:
        Checked manifest; ``notes`` list what was guessed, ``skipped`` what was left out.

    Raises:
        InputError: The source does not exist, it holds no images, or a row cannot be trusted (duplicate ids, paths that
            leave the folder, a group without information, files that are missing).
        MissingExtraError: DICOM or NIfTI is read without the extra ``medical``.
    """
    options = options or ImageOptions()
    options.validate()
    if not isinstance(source, (str, os.PathLike)):
        if isinstance(source, tuple | list):
            first = source[0] if isinstance(source, tuple) and source else source
            raise InputError(
                f"the images are a {type(source).__name__}; of (X, y, groups), X must be an array of [n, h, w] or "
                f"[n, h, w, c], and it is {_described(first)}: numpy.stack makes an array of images of one size"
            )
        what = "None" if source is None else f"an object of type {one_line(type(source).__name__, 60)}"
        raise InputError(
            f"the images are {what}, no source; name a folder, table or file, or a published data set; of a data set "
            "in Python with len() and items by number memorisk.save_dataset makes a folder"
        )
    manifest = drop_labels(_load(source, local_options(options)), options.drop_label)
    return manifest if options.sample is None else sample_manifest(manifest, options.sample, options.sample_seed)


def _described(value: object) -> str:
    """Describe the value given in place of an array."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of {len(shape)} dimensions"
    return f"a {one_line(type(value).__name__, 60)}" + (f" of {len(value):,}" if isinstance(value, list) else "")


def _load(source: str | Path, options: ImageOptions) -> Manifest:
    """Return the whole manifest of a source.

    Raises:
        InputError: The same errors as `load_manifest`.
        MissingExtraError: DICOM or NIfTI is read without the extra ``medical``.
    """
    if str(source) == "digits":
        refuse_unused(options, "digits")
        return digits_manifest()
    if (copy := local_images(source, options)) is not None:
        try:
            return _load(copy[1], options)
        except MemoriskError as error:
            raise name_url_in_error(error, copy[0], source) from None
    path = Path(source)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        is_folder = is_file = False
    if is_folder and options.layout == "auto" and (path / GENERATED).is_file():
        generated = load_table(path / GENERATED_TABLE, options, quoted=True)
        return replace(generated, name=path.resolve().name or "images")
    if is_folder and options.layout in ("auto", "shards") and is_saved(path):
        return load_shards(path, saved_shards(path), options, path.resolve().name or "images")
    if is_folder:
        if options.layout == "auto" and (path / UNFINISHED_TABLE).is_file() and (path / "images").is_dir():
            raise InputError(f"{one_line(path)} is a set that is not all drawn: memorisk generate goes on with it")
        return load_folder(path, options)
    if not is_file:
        if len(parts := several_sources(str(source))) > 1:
            return join_manifests([_load(part, options) for part in parts])
        if (official := load_official(str(source), options)) is not None:
            return official
        raise nowhere(source)
    return _load_file(path, options)


def _load_file(path: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of a file.

    Raises:
        InputError: The file is a single image, or not a known kind of source.
    """
    if options.layout not in ("auto", "table", "arrays", "shards"):
        raise InputError(f"layout {options.layout} is for a folder; {one_line(path)} is a file")
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    file_type = file_format(path)
    of_shards = file_type is not None and file_type.module == SHARDS and options.layout in ("auto", "shards")
    if of_shards and (options.layout == "shards" or not is_parquet or is_shard(path, options)):
        return load_shards(path.parent, [Shard(path.name, "")], options, path.stem)
    named_table = path.suffix.lower() in _TABLES and options.layout != "arrays"
    if is_parquet or named_table or options.layout == "table":
        return load_table(path, options)
    if file_type is not None and file_type.kind == "arrays":
        return load_arrays(path, options)
    if file_type is not None:
        raise InputError(f"{one_line(path)} is one {file_type.name} image; give its folder, or a table of images")
    raise InputError(
        f"{one_line(path)}: neither a table (CSV, TSV, Parquet) nor arrays (npz, npy, HDF5, idx), but "
        f"{unknown_kind(file_head(path))}; layout table reads it as CSV"
    )


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
